/* The front matter is YAML between two lines of "---". What models' cards say for catalogues needs little of
 * that language: "key: text", a list in lines that begin with "- ", a list in brackets, quotes. The rest
 * (objects, texts of several lines, references) is skipped, so that no card can keep a model from being read.
 */
#include "hf/metadata/metadata.h"

#include <stdlib.h>
#include <string.h>

enum { FRONT_MOST = 1 << 20 }; /* bytes; a front matter that is longer is none */

typedef struct span {
    const char *text;
    size_t n;
} span;

static bool char_is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static span span_trim(span s) {
    while (s.n > 0 && char_is_space(*s.text)) s.text++, s.n--;
    while (s.n > 0 && char_is_space(s.text[s.n - 1])) s.n--;
    return s;
}

static bool span_is(span s, const char *text) {
    return s.n == strlen(text) && memcmp(s.text, text, s.n) == 0;
}

/* Returns the length of a quoted text with its quotes; 0: it does not end. */
static size_t span_quoted(span s) {
    for (size_t i = 1; i < s.n; i++) {
        if (s.text[i] == '\\' && *s.text == '"')
            i++;
        else if (s.text[i] == *s.text && *s.text == '\'' && i + 1 < s.n && s.text[i + 1] == '\'')
            i++;
        else if (s.text[i] == *s.text)
            return i + 1;
    }
    return 0;
}

/* Returns a quoted text's value as a string: in double quotes as JSON has it, in single ones two stand for
 * one. */
static json_t *scalar_unquote(span s) {
    if (*s.text == '"') return json_loadb(s.text, s.n, JSON_DECODE_ANY, NULL);
    char *text = malloc(s.n);
    size_t to = 0;
    for (size_t i = 1; text && i + 1 < s.n; i++) {
        text[to++] = s.text[i];
        if (s.text[i] == '\'') i++;
    }
    json_t *value = text ? json_stringn(text, to) : NULL;
    free(text);
    return value;
}

/* Returns a text's value; NULL: none, or one that is not understood. */
static json_t *scalar_read(span s) {
    static const char special[] = "&*!|>{[%@`";
    s = span_trim(s);
    if (s.n == 0 || *s.text == '#' || span_is(s, "null") || span_is(s, "~") || memchr(s.text, 0, s.n))
        return NULL;
    if (*s.text == '"' || *s.text == '\'') {
        s.n = span_quoted(s);
        return s.n ? scalar_unquote(s) : NULL;
    }
    if (strchr(special, *s.text)) return NULL;
    for (size_t i = 1; i < s.n; i++) /* a comment */
        if (s.text[i] == '#' && char_is_space(s.text[i - 1])) s.n = i;
    s = span_trim(s);
    return json_stringn(s.text, s.n);
}

/* Reads "[a, b]" up to its bracket. */
static json_t *list_read(span s) {
    json_t *list = json_array();
    s.text++, s.n--;
    for (bool more = true; list && more;) {
        s = span_trim(s);
        size_t end = s.n && (*s.text == '"' || *s.text == '\'') ? span_quoted(s) : 0;
        while (end < s.n && s.text[end] != ',' && s.text[end] != ']') end++;
        json_t *item = scalar_read((span){s.text, end});
        if (item) json_array_append_new(list, item);
        more = end < s.n && s.text[end] == ',';
        if (more) end++;
        s.text += end, s.n -= end;
    }
    return list;
}

/* Finds the colon behind a key; n: there is none. */
static size_t line_colon(span s) {
    for (size_t i = 0; i < s.n; i++)
        if (s.text[i] == ':' && (i + 1 == s.n || char_is_space(s.text[i + 1]))) return i;
    return s.n;
}

/* Reads a line; *list is the list that items are added to, NULL: they are skipped. */
static void front_line(json_t *front, span line, json_t **list) {
    size_t indent = 0;
    while (indent < line.n && char_is_space(line.text[indent])) indent++;
    span rest = span_trim(line);
    if (rest.n == 0 || *rest.text == '#') return;
    if (*rest.text == '-' && (rest.n == 1 || char_is_space(rest.text[1]))) {
        span item = span_trim((span){rest.text + 1, rest.n - 1});
        bool quoted = item.n && (*item.text == '"' || *item.text == '\'');
        json_t *value = quoted || line_colon(item) == item.n ? scalar_read(item) : NULL;
        if (value && *list)
            json_array_append_new(*list, value);
        else
            json_decref(value);
        return;
    }
    size_t colon = line_colon(line);
    if (indent || colon == line.n) return;
    *list = NULL;
    span value = span_trim((span){line.text + colon + 1, line.n - colon - 1});
    json_t *v = !value.n || *value.text == '#' ? json_array()
                : *value.text == '['           ? list_read(value)
                                               : scalar_read(value);
    if (!v || json_object_setn_new(front, line.text, colon, v) != 0) return;
    if (json_is_array(v) && value.n == 0) *list = v;
}

/* Returns the line at *at, without its end, and moves on; false: there is none. */
static bool front_next(const char *text, size_t n, size_t *at, span *line) {
    if (*at >= n) return false;
    const char *end = memchr(text + *at, '\n', n - *at);
    *line = (span){text + *at, end ? (size_t)(end - text) - *at : n - *at};
    *at += line->n + 1;
    if (line->n && line->text[line->n - 1] == '\r') line->n--;
    return true;
}

bool hf_readme_front(hf_folder *f, json_t **front, gq_error *e) {
    char *text = NULL;
    size_t n = 0, at = 0, end = 0;
    span line;
    json_t *list = NULL;
    *front = json_object();
    if (!*front) return gq_fail_memory(e, 0);
    gq_error why;
    if (!hf_folder_text(f, "README.md", &text, &n, &why)) return hf_folder_warn_failed(f, &why, e);
    if (!text) return true;
    if (n > FRONT_MOST) n = FRONT_MOST;
    bool begun, whole = begun = front_next(text, n, &at, &line) && span_is(line, "---");
    for (size_t next = at; whole && !end;) {
        size_t begin = next;
        whole = front_next(text, n, &next, &line);
        if (whole && span_is(line, "---")) end = begin;
    }
    bool ok =
        !begun || end || hf_folder_warn(f, "README.md", e, "the front matter does not end; it is left out");
    size_t behind = end;
    while (whole && at < end && front_next(text, end, &at, &line)) front_line(*front, line, &list);
    while (front_next(text, n, &behind, &line))
        if (line.n > 2 && memcmp(line.text, "# ", 2) == 0) {
            json_object_set_new(*front, "#",
                                json_stringn(line.text + 2, line.n - 2)); /* or not, if no UTF-8 */
            break;
        }
    free(text);
    return ok;
}
