/* A report is read back for its checksums only: this is no general JSON reader. It takes what it needs and
 * steps over the rest, without recursion, as a report may come from anywhere. */
#include "cli/checksums.h"

#include <stdlib.h>
#include <string.h>

#include "cli/text.h"

enum { MAX_REPORT = 256 << 20 }; /* 400 bytes a tensor: half a million tensors */

typedef struct reader {
    const char *report; /* for messages */
    char *text, *at;
    gq_error *e;
} reader;

static char next(reader *r) {
    r->at += strspn(r->at, " \t\r\n");
    return *r->at;
}

static bool wrong(reader *r, const char *expected) {
    return gq_fail(r->e, "%s: byte %zu: expected %s of a JSON report", r->report, (size_t)(r->at - r->text),
                   expected);
}

/* Step over one character that must be there. */
static bool take(reader *r, char c, const char *name) {
    if (next(r) != c) return wrong(r, name);
    r->at++;
    return true;
}

static char *put_utf8(char *to, unsigned code) {
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xC0 | code >> 6), *to++ = (char)(0x80 | (code & 63));
    } else {
        *to++ = (char)(0xE0 | code >> 12), *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    }
    return to;
}

/* A string, unescaped in place: no escape becomes longer. Half of a pair of surrogates stays by itself, which
 * no tensor's name in a report of ours has. */
static bool take_string(reader *r, char **text) {
    if (!take(r, '"', "a string")) return false;
    char *to = *text = r->at;
    while (*r->at != '"') {
        if ((unsigned char)*r->at < ' ') return wrong(r, "the end of a string");
        if (*r->at != '\\') {
            *to++ = *r->at++;
            continue;
        }
        static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
        char c = r->at[1], digits[5] = "";
        const char *known = c ? strchr(from, c) : NULL;
        if (known) {
            *to++ = into[known - from], r->at += 2;
        } else if (c == 'u' && strspn(r->at + 2, "0123456789abcdefABCDEF") >= 4) {
            memcpy(digits, r->at + 2, 4);
            to = put_utf8(to, (unsigned)strtoul(digits, NULL, 16)), r->at += 6;
        } else {
            return wrong(r, "an escape");
        }
    }
    r->at++;
    *to = 0;
    return true;
}

/* Any value, however deep. */
static bool skip(reader *r) {
    size_t depth = 0;
    char *text;
    do {
        char c = next(r);
        if (c == '{' || c == '[') {
            depth++, r->at++;
        } else if (c == '}' || c == ']') {
            if (depth == 0) return wrong(r, "a value");
            depth--, r->at++;
        } else if (c == '"') {
            if (!take_string(r, &text)) return false;
        } else if (depth > 0 && (c == ',' || c == ':')) {
            r->at++;
        } else {
            size_t n = strspn(r->at, "0123456789+-.eEtrufalsn");
            if (n == 0) return wrong(r, "a value");
            r->at += n;
        }
    } while (depth > 0);
    return true;
}

/* Go through the members of an object or the elements of an array: at each, `visit` must take the value. */
typedef bool visitor(reader *r, const char *key, void *arg);

static bool each(reader *r, bool object, visitor *visit, void *arg) {
    char *key = NULL;
    if (!take(r, object ? '{' : '[', object ? "an object" : "an array")) return false;
    if (next(r) == (object ? '}' : ']')) return r->at++, true;
    do {
        if (object && (!take_string(r, &key) || !take(r, ':', "a colon"))) return false;
        if (!visit(r, key, arg)) return false;
    } while (next(r) == ',' && r->at++);
    return take(r, object ? '}' : ']', "the end");
}

/* ---- what a report holds ---- */

typedef struct output {
    const char *path;
    gq_checksum *items;
    size_t n, room;
} output;

typedef struct output_list {
    output *items;
    size_t n;
} output_list;

typedef struct tensor {
    char *name, *crc;
} tensor;

static bool tensor_member(reader *r, const char *key, void *arg) {
    tensor *t = arg;
    if (!strcmp(key, "name")) return take_string(r, &t->name);
    if (!strcmp(key, "crc32")) return take_string(r, &t->crc);
    return skip(r);
}

static bool one_tensor(reader *r, const char *key, void *arg) {
    (void)key;
    output *o = arg;
    tensor t = {0};
    if (!each(r, true, tensor_member, &t)) return false;
    if (!t.name || !t.crc)
        return gq_fail(r->e, "%s: holds no checksums; expected the report of a run", r->report);
    if (strlen(t.crc) != 8 || strspn(t.crc, "0123456789abcdef") != 8)
        return wrong(r, "a CRC-32 of eight digits");
    if (o->n == o->room) o->items = need_more(o->items, o->room = 2 * o->room + 64, sizeof *o->items);
    o->items[o->n++] = (gq_checksum){.name = t.name, .crc32 = (uint32_t)strtoul(t.crc, NULL, 16)};
    return true;
}

static bool output_member(reader *r, const char *key, void *arg) {
    output *o = arg;
    char *path;
    if (!strcmp(key, "path")) return take_string(r, &path) && (o->path = path);
    if (!strcmp(key, "tensors")) return each(r, false, one_tensor, o);
    return skip(r);
}

static bool one_output(reader *r, const char *key, void *arg) {
    (void)key;
    output_list *list = arg;
    list->items = need_next(list->items, list->n, sizeof *list->items);
    output *o = &list->items[list->n++];
    *o = (output){.path = ""};
    return each(r, true, output_member, o);
}

static bool report_member(reader *r, const char *key, void *arg) {
    return strcmp(key, "outputs") ? skip(r) : each(r, false, one_output, arg);
}

/* ---- choosing ---- */

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool choose(checksum_list *list, output_list *outputs, const char *report, const char *model,
                   gq_error *e) {
    size_t found = outputs->n == 1 ? 0 : outputs->n;
    for (size_t i = 0; i < outputs->n; i++)
        if (!strcmp(base_name(outputs->items[i].path), base_name(model))) found = i;
    if (found == outputs->n)
        return gq_fail(e, "%s: is about %zu outputs, none called %s", report, outputs->n, base_name(model));
    output *o = &outputs->items[found];
    if (o->n == 0) return gq_fail(e, "%s: holds no checksums; expected the report of a run", report);
    list->items = o->items, list->n = o->n;
    o->items = NULL;
    return true;
}

bool checksums_parse(checksum_list *list, char *text, const char *report, const char *model, gq_error *e) {
    reader r = {.report = report, .text = text, .at = text, .e = e};
    output_list outputs = {0};
    bool ok = each(&r, true, report_member, &outputs) && (next(&r) == 0 || wrong(&r, "the end")) &&
              choose(list, &outputs, report, model, e);
    for (size_t i = 0; i < outputs.n; i++) free(outputs.items[i].items);
    free(outputs.items);
    return ok;
}

bool checksums_read(checksum_list *list, const char *report, const char *model, gq_error *e) {
    size_t n;
    list->text = gq_read_whole(report, MAX_REPORT, &n, e);
    if (!list->text) return false;
    if (strlen(list->text) != n) return gq_fail(e, "%s: holds a NUL byte; expected a JSON report", report);
    return checksums_parse(list, list->text, report, model, e);
}

void checksums_free(checksum_list *list) {
    free(list->items), free(list->text);
    *list = (checksum_list){0};
}
