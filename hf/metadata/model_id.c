/* An id's name is taken apart at its hyphens. Each part gets marks: what it looks like by itself, a version,
 * a type of weights, a size, or a common word for a tuned model. Then the parts at the start that have no
 * other mark are the basename, and what follows without a mark is what the model was tuned for. The rules are
 * those of llama.cpp's converter, so that catalogues find the same words in the files of both.
 */
#include "hf/metadata/metadata.h"

#include <math.h>
#include <string.h>
#include <strings.h>

enum id_mark { MARK_VERSION = 1, MARK_TYPE = 2, MARK_SIZE = 4, MARK_FINETUNE = 8, MARK_BASENAME = 16 };

typedef struct id_part {
    char text[HF_ID_MOST];
    unsigned marks;
} id_part;

/* Letters and digits of ASCII, in every locale. */
static bool char_is_digit(char c) { return c >= '0' && c <= '9'; }
static bool char_is_lower(char c) { return c >= 'a' && c <= 'z'; }
static bool char_is_upper(char c) { return c >= 'A' && c <= 'Z'; }
static bool char_is_letter(char c) { return char_is_lower(c) || char_is_upper(c) || (c & 0x80); }
static char char_to_upper(char c) { return char_is_lower(c) ? (char)(c - 32) : c; }
static char char_to_lower(char c) { return char_is_upper(c) ? (char)(c + 32) : c; }

/* ---- what a part looks like ---- */

static const char *id_skip_digits(const char *s) {
    while (char_is_digit(*s)) s++;
    return s;
}

static const char *id_skip_word(const char *s, const char *word) {
    return strncasecmp(s, word, strlen(word)) == 0 ? s + strlen(word) : s;
}

/* (v|iter)?digits(.digits)* */
static bool id_is_version(const char *s) {
    s = id_skip_word(s, "v") != s ? s + 1 : id_skip_word(s, "iter");
    while (char_is_digit(*s)) {
        s = id_skip_digits(s);
        if (!*s) return true;
        if (*s++ != '.') return false;
    }
    return false;
}

/* i?q digit (_ letter)*, or b?fp?(16|32) */
static bool id_is_type(const char *s) {
    const char *q = id_skip_word(s, "i"), *f = id_skip_word(s, "b");
    if ((*q == 'q' || *q == 'Q') && char_is_digit(q[1])) {
        for (q += 2; *q == '_' && (char_is_letter(q[1]) || char_is_digit(q[1]) || q[1] == '_');) q += 2;
        return !*q;
    }
    if (id_skip_word(f, "f") == f) return false;
    f = id_skip_word(f + 1, "p");
    return strcmp(f, "16") == 0 || strcmp(f, "32") == 0;
}

static bool id_is_word(const char *s, const char *const *words) {
    while (*words && strcasecmp(s, *words) != 0) words++;
    return *words != NULL;
}

/* (A|digits x)? digits ((.|_) digits)? K|M|B|T digit?, or a word */
static bool id_is_size(const char *s) {
    static const char *const words[] = {"small", "mini", "medium", "large", "xl", "xxl", NULL};
    if (id_is_word(s, words)) return true;
    const char *times = id_skip_digits(s);
    if (*s == 'a' || *s == 'A')
        s++;
    else if (times > s && (*times == 'x' || *times == 'X'))
        s = times + 1;
    const char *end = id_skip_digits(s);
    if (end == s) return false;
    if ((*end == '.' || *end == '_') && char_is_digit(end[1])) end = id_skip_digits(end + 1);
    if (!*end || !strchr("KMBT", char_to_upper(*end))) return false;
    end++;
    return !*end || (char_is_digit(*end) && !end[1]);
}

/* Reads digits with a point among them; false: there is something else. */
static bool id_read_number(const char *s, size_t n, double *value) {
    double unit = 0;
    *value = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '.' && unit == 0) {
            unit = 1;
        } else if (char_is_digit(s[i])) {
            *value = *value * 10 + (s[i] - '0');
            unit *= 10;
        } else {
            return false;
        }
    }
    if (unit > 1) *value /= unit;
    return n > 0;
}

/* Brings a size to one form, and finds whether it is the model's own: else it is a context's length. */
static unsigned id_mark_size(char *s, uint64_t weights) {
    size_t n = strlen(s);
    double number, total = (double)weights;
    for (char *c = s; *c; c++)
        if (*c == '_') *c = '.';
    if (char_is_digit(s[n - 1])) { /* 7b1 is 7.1b */
        char letter = s[n - 2];
        if (n + 1 >= HF_ID_MOST) return MARK_SIZE;
        s[n - 2] = '.', s[n] = letter, s[n + 1] = 0;
        n++;
    }
    if (n > 1 && char_is_digit(s[n - 2])) s[n - 1] = char_to_upper(s[n - 1]);
    const char *power = strchr(" KMBT", s[n - 1]);
    if (weights == 0 || !power || !id_read_number(s, n - 1, &number)) return MARK_SIZE;
    if (fabs(number * pow(1000, (double)(power - " KMBT")) - total) <= floor(7 * total / 8)) return MARK_SIZE;
    s[n - 1] = char_to_lower(s[n - 1]);
    return MARK_FINETUNE;
}

static void id_mark_part(id_part *p, bool first, uint64_t weights) {
    static const char *const tuned[] = {"chat", "instruct", "vision", "lora", NULL};
    if (id_is_version(p->text)) {
        p->marks = MARK_VERSION;
    } else if (id_is_type(p->text)) {
        p->marks = MARK_TYPE;
        for (char *c = p->text; *c; c++) *c = char_to_upper(*c);
    } else if (!first && id_is_size(p->text)) {
        p->marks = id_mark_size(p->text, weights);
    } else if (!first && id_is_word(p->text, tuned)) {
        p->marks = MARK_FINETUNE;
    }
}

/* ---- the parts together ---- */

static bool id_has_digit(const char *s) { return s[strcspn(s, "0123456789")] != 0; }

static void id_mark_basename(id_part *parts, size_t n) {
    bool digits = false, start = true;
    for (size_t i = 0; i < n; i++) digits |= parts[i].marks & MARK_SIZE && id_has_digit(parts[i].text);
    for (size_t i = 0; digits && i < n; i++)
        if (!id_has_digit(parts[i].text)) parts[i].marks &= ~(unsigned)MARK_SIZE;
    for (size_t i = 0; i < n; i++) {
        unsigned *marks = &parts[i].marks;
        if (start && ((*marks == 0 && char_is_letter(*parts[i].text)) || *marks & MARK_VERSION)) {
            *marks |= MARK_BASENAME;
        } else {
            start = false;
            if (*marks == 0) *marks = MARK_FINETUNE;
        }
    }
    while (n > 0 && parts[n - 1].marks == (MARK_BASENAME | MARK_VERSION)) parts[--n].marks = MARK_VERSION;
}

/* Joins the parts that have one mark and not another; a size that was there before is left out. */
static void id_join(char to[HF_ID_MOST], const id_part *parts, size_t n, unsigned mark, unsigned without) {
    size_t length = 0;
    for (size_t i = 0; i < n; i++) {
        bool again = false;
        if (!(parts[i].marks & mark) || parts[i].marks & without) continue;
        for (size_t j = 0; mark == MARK_SIZE && j < i; j++)
            again |= parts[j].marks & mark && strcmp(parts[j].text, parts[i].text) == 0;
        size_t more = strlen(parts[i].text);
        if (again || length + more + 2 > HF_ID_MOST) continue;
        if (length) to[length++] = '-';
        memcpy(to + length, parts[i].text, more + 1);
        length += more;
    }
}

bool hf_model_id_parse(hf_model_id *m, const char *id, uint64_t weights) {
    enum { PARTS = 32 }; /* further ones are not looked at */
    id_part parts[PARTS] = {{.marks = 0}};
    size_t n = 0;
    const char *slash = strchr(id, '/');
    *m = (hf_model_id){.name = ""};
    if (!*id || strlen(id) >= HF_ID_MOST) return false;
    if (strchr(id, ' ')) { /* a sentence */
        memcpy(m->name, id, strlen(id));
        return true;
    }
    if (slash && *id != '.') memcpy(m->organization, id, (size_t)(slash - id));
    const char *name = slash ? slash + 1 : id;
    memcpy(m->name, name, strlen(name)); /* all of *m is zero before */
    for (const char *s = m->name; *s && n < PARTS;) {
        size_t length = strcspn(s, "-");
        if (length) {
            memcpy(parts[n].text, s, length);
            id_mark_part(&parts[n], n == 0, weights);
            n++;
        }
        s += length + (s[length] == '-');
    }
    id_mark_basename(parts, n);
    id_join(m->finetune, parts, n, MARK_FINETUNE, 0);
    id_join(m->version, parts, n, MARK_VERSION, MARK_BASENAME);
    id_join(m->size, parts, n, MARK_SIZE, 0);
    if (*m->finetune || *m->version || *m->size) id_join(m->basename, parts, n, MARK_BASENAME, 0);
    return true;
}

/* ---- titles ---- */

/* Whether a word's letters are to be changed: all are small, and it is no version or number. */
static bool title_is_plain(const char *word, size_t n) {
    char text[HF_ID_MOST];
    bool letters = false;
    memcpy(text, word, n);
    text[n] = 0;
    for (size_t i = 0; i < n; i++) {
        if (char_is_upper(text[i])) return false;
        letters |= char_is_letter(text[i]);
    }
    return letters && !char_is_digit(*text) && !(*text == 'v' && id_is_version(text));
}

void hf_model_title(char title[HF_ID_MOST], const char *name) {
    static const char spaces[] = "- \t\r\n\v\f";
    size_t to = 0;
    for (const char *s = name + strspn(name, spaces); *s; s += strspn(s, spaces)) {
        size_t n = strcspn(s, spaces);
        if (to + n + 2 > HF_ID_MOST) break;
        bool plain = title_is_plain(s, n);
        if (to) title[to++] = ' ';
        for (size_t i = 0; i < n; i++)
            title[to++] = plain && (i == 0 || !char_is_letter(s[i - 1])) ? char_to_upper(s[i]) : s[i];
        s += n;
    }
    title[to] = 0;
}
