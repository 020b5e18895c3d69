/* Half a million merges of a vocabulary are arrays of two texts each in newer files, and as trees take 270
 * bytes each; as one text, the older form, 80. So they get that form before they are parsed, where it says
 * the same: both halves are there and have no spaces. */
#include <string.h>

#include "hf/json.h"

/* A place in a text of n bytes that need not be JSON at all. */
typedef struct json_place {
    char *text;
    size_t n, i;
} json_place;

static char json_here(const json_place *p) { return p->i < p->n ? p->text[p->i] : 0; }

/* Passes a character, and blanks around it. false: another one is there. */
static bool json_pass(json_place *p, char c) {
    while (p->i < p->n && memchr(" \t\r\n", p->text[p->i], 4)) p->i++;
    if (c && json_here(p) != c) return false;
    p->i += c != 0;
    while (p->i < p->n && memchr(" \t\r\n", p->text[p->i], 4)) p->i++;
    return true;
}

/* Passes a string. *inside: what is between its quotes. */
static bool json_pass_string(json_place *p, size_t *inside, size_t *length) {
    if (json_here(p) != '"') return false;
    *inside = ++p->i;
    for (; p->i < p->n && p->text[p->i] != '"'; p->i++) p->i += p->text[p->i] == '\\';
    if (p->i >= p->n) return p->i = p->n, false;
    *length = p->i++ - *inside;
    return true;
}

static bool json_joins(const char *half, size_t n) {
    return n > 0 && !memchr(half, ' ', n) && !memmem(half, n, "u0020", 5);
}

/* Passes an array of strings, and makes one string of it if it is a pair that joins. Line breaks stay, for
 * the lines that errors name. */
static bool json_join_pair(json_place *p) {
    size_t begin = p->i, n = 0, inside[2] = {0}, length[2] = {0}, at, lines = 0, one, size;
    if (!json_pass(p, '[')) return false;
    do {
        if (!json_pass_string(p, &one, &size)) return false;
        if (n < 2) inside[n] = one, length[n] = size;
        n++;
    } while (json_pass(p, ','));
    if (json_here(p) != ']') return false;
    size_t end = ++p->i;
    if (n != 2 || !json_joins(p->text + inside[0], length[0]) || !json_joins(p->text + inside[1], length[1]))
        return true;
    for (size_t i = begin; i < end; i++) lines += p->text[i] == '\n';
    at = begin;
    p->text[at++] = '"';
    memmove(p->text + at, p->text + inside[0], length[0]);
    at += length[0];
    p->text[at++] = ' ';
    memmove(p->text + at, p->text + inside[1], length[1]);
    at += length[1];
    p->text[at++] = '"';
    for (; at < end; at++) p->text[at] = lines ? lines--, '\n' : ' ';
    return true;
}

static void json_join_list(json_place *p) {
    size_t inside, length;
    do {
        if (json_here(p) == '"' ? !json_pass_string(p, &inside, &length) : !json_join_pair(p)) return;
    } while (json_pass(p, ','));
}

void hf_json_join_pairs(char *text, size_t n, const char *key) {
    json_place p = {text, n, 0};
    size_t inside, length;
    while (p.i < p.n) {
        if (json_here(&p) != '"') {
            p.i++;
            continue;
        }
        if (!json_pass_string(&p, &inside, &length)) return;
        if (length == strlen(key) && !memcmp(text + inside, key, length) && json_pass(&p, ':') &&
            json_pass(&p, '['))
            json_join_list(&p);
    }
}
