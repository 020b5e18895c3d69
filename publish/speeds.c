/* Speeds from the output of llama-bench: `-o json` writes an array of objects, `-o jsonl` an object a line,
 * `-o csv` a line of names and a line for each test. All three have the same members; those read here are the
 * file, the tokens of the prompt and of the answer, the mean of tokens per second, and what it ran on. A test
 * that has both a prompt and an answer says neither speed, and one behind a filled context (n_depth) is
 * another test than that of the table, so both are passed over.
 */
#include "publish/speeds.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "publish/table.h"

/* ---- a test ---- */

/* The members of a test that are read, as texts. */
typedef enum speed_field {
    SPEED_FILE,
    SPEED_PROMPT,
    SPEED_GEN,
    SPEED_DEPTH,
    SPEED_TOKENS,
    SPEED_CPU,
    SPEED_GPU,
    SPEED_THREADS,
    SPEED_BUILD,
    SPEED_FIELDS
} speed_field;
static const char *const speed_names[SPEED_FIELDS] = {"model_filename", "n_prompt",  "n_gen",
                                                      "n_depth",        "avg_ts",    "cpu_info",
                                                      "gpu_info",       "n_threads", "build_commit"};

static const char *speed_text(const char *text) { return text ? text : ""; }

static bool speeds_add(speed_table *t, const char *const fields[SPEED_FIELDS], const char *path,
                       gq_error *e) {
    const char *file = speed_text(fields[SPEED_FILE]), *end = "";
    if (!*file || !fields[SPEED_TOKENS])
        return gq_fail(e,
                       "%s: test %zu has no model_filename or no avg_ts; expected the output of llama-bench",
                       path, t->n + 1);
    speed_row row = {.n_prompt = strtoull(speed_text(fields[SPEED_PROMPT]), NULL, 10),
                     .n_gen = strtoull(speed_text(fields[SPEED_GEN]), NULL, 10),
                     .tokens = strtod(fields[SPEED_TOKENS], (char **)&end)};
    if (*end || !(row.tokens > 0 && isfinite(row.tokens)))
        return gq_fail(e, "%s: %s has the speed '%s'; expected tokens per second", path, file,
                       fields[SPEED_TOKENS]);
    if (!row.n_prompt == !row.n_gen || strtoull(speed_text(fields[SPEED_DEPTH]), NULL, 10)) return true;
    if (!memory_grow(&t->rows, &t->capacity, t->n + 1, sizeof *t->rows, e)) return false;
    const char *gpu = speed_text(fields[SPEED_GPU]);
    if (!t->where &&
        asprintf(&t->where, "%s%s%s, %s threads, build %s", speed_text(fields[SPEED_CPU]), *gpu ? ", " : "",
                 gpu, speed_text(fields[SPEED_THREADS]), speed_text(fields[SPEED_BUILD])) < 0)
        return t->where = NULL, gq_fail_memory(e, strlen(gpu));
    row.name = strdup(page_file_name(file));
    if (!row.name) return gq_fail_memory(e, strlen(file));
    t->rows[t->n++] = row;
    return true;
}

/* ---- JSON ---- */

/* Returns a member as a text: its own, or a number written into `room`. NULL: there is none. */
static const char *speed_member(const json_t *test, speed_field field, char room[32]) {
    const json_t *value = json_object_get(test, speed_names[field]);
    if (json_is_string(value)) return json_string_value(value);
    if (json_is_integer(value))
        return snprintf(room, 32, "%" PRId64, (int64_t)json_integer_value(value)), room;
    if (json_is_real(value)) return snprintf(room, 32, "%.9g", json_real_value(value)), room;
    return NULL;
}

static bool speeds_add_json(speed_table *t, const json_t *test, const char *path, gq_error *e) {
    char room[SPEED_FIELDS][32];
    const char *fields[SPEED_FIELDS];
    for (int i = 0; i < SPEED_FIELDS; i++) fields[i] = speed_member(test, (speed_field)i, room[i]);
    return speeds_add(t, fields, path, e);
}

/* Reads one value after another: an array of tests, or tests. */
static bool speeds_read_json(speed_table *t, const char *text, size_t n, const char *path, gq_error *e) {
    bool ok = true;
    for (size_t at = strspn(text, " \t\r\n"); ok && at < n; at += strspn(text + at, " \t\r\n")) {
        json_error_t why;
        json_t *value = json_loadb(text + at, n - at, JSON_DISABLE_EOF_CHECK, &why);
        if (!value) return gq_fail(e, "%s: byte %zu: no JSON: %s", path, at + (size_t)why.position, why.text);
        at += (size_t)why.position;
        if (!json_is_array(value)) ok = speeds_add_json(t, value, path, e);
        for (size_t i = 0; ok && i < json_array_size(value); i++)
            ok = speeds_add_json(t, json_array_get(value, i), path, e);
        json_decref(value);
    }
    return ok;
}

/* ---- CSV ---- */

/* Takes the next cell of a line apart, in place: quotes around it go, two quotes within become one. Returns
 * what is behind it; NULL: it was the line's last. */
static char *csv_take_cell(char *at, char **cell) {
    char *to = *cell = at;
    bool quoted = *at == '"';
    for (at += quoted; *at && (quoted || *at != ','); at++) {
        if (quoted && *at == '"' && at[1] != '"') {
            quoted = false;
            continue;
        }
        if (quoted && *at == '"') at++;
        *to++ = *at;
    }
    bool more = *at == ',';
    *to = 0;
    return more ? at + 1 : NULL;
}

static bool speeds_read_csv(speed_table *t, char *text, const char *path, gq_error *e) {
    enum { COLUMNS = 256 };
    unsigned char field_of[COLUMNS]; /* SPEED_FIELDS: a column that is not read */
    bool ok = true, is_head = true;
    for (char *next, *line = text; ok && line && *line; line = next) {
        const char *fields[SPEED_FIELDS] = {NULL};
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        line[strcspn(line, "\r")] = 0;
        if (!*line) continue;
        char *cell;
        for (size_t column = 0; line && column < COLUMNS; column++) {
            line = csv_take_cell(line, &cell);
            if (is_head) {
                unsigned char field = 0;
                while (field < SPEED_FIELDS && strcmp(cell, speed_names[field]) != 0) field++;
                field_of[column] = field;
            } else if (field_of[column] < SPEED_FIELDS) {
                fields[field_of[column]] = cell;
            }
            if (is_head && !line)
                for (size_t i = column + 1; i < COLUMNS; i++) field_of[i] = SPEED_FIELDS;
        }
        ok = is_head || speeds_add(t, fields, path, e);
        is_head = false;
    }
    return ok;
}

/* ---- the table ---- */

bool speeds_read(speed_table *t, const char *path, gq_error *e) {
    enum { MOST = 1 << 20 }; /* a test has 2 kB; values of JSON may take 80 times their text in memory */
    size_t n = 0;
    *t = (speed_table){.n = 0};
    char *text = gq_read_whole(path, MOST, &n, e);
    if (!text) return false;
    char first = text[strspn(text, " \t\r\n")];
    bool ok = first == '[' || first == '{' ? speeds_read_json(t, text, n, path, e)
                                           : speeds_read_csv(t, text, path, e);
    free(text);
    return ok && (t->n || gq_fail(e,
                                  "%s: has no test of a prompt or an answer alone; expected the output of "
                                  "llama-bench as JSON or CSV",
                                  path));
}

void speeds_free(speed_table *t) {
    for (size_t i = 0; i < t->n; i++) free(t->rows[i].name);
    free(t->rows), free(t->where);
    *t = (speed_table){.n = 0};
}

/* The length of the first test of a kind: all speeds of a column are of that length. */
static uint64_t speeds_length(const speed_table *t, bool of_prompt) {
    for (size_t i = 0; i < t->n; i++) {
        uint64_t tokens = of_prompt ? t->rows[i].n_prompt : t->rows[i].n_gen;
        if (tokens) return tokens;
    }
    return 0;
}

bool speeds_take(const speed_table *t, const char *path, gq_page_row *rows, size_t n, char **note,
                 gq_error *e) {
    uint64_t prompt = speeds_length(t, true), answer = speeds_length(t, false);
    size_t taken = 0;
    for (size_t i = 0; i < t->n; i++)
        for (size_t k = 0; k < n; k++) {
            const speed_row *s = &t->rows[i];
            if (strcmp(s->name, page_file_name(rows[k].path)) != 0) continue;
            if (s->n_prompt && s->n_prompt == prompt) rows[k].reads = s->tokens, taken++;
            if (s->n_gen && s->n_gen == answer) rows[k].generates = s->tokens, taken++;
        }
    if (!taken) return gq_fail(e, "%s: names none of the files of the folder", path);
    char reads[64] = "", writes[64] = "";
    if (prompt) snprintf(reads, sizeof reads, "prompt: %" PRIu64 " tokens; ", prompt);
    if (answer) snprintf(writes, sizeof writes, "generation: %" PRIu64 " tokens; ", answer);
    return asprintf(note, "Speeds are those that llama-bench measured (%s%s%s).", reads, writes, t->where) >=
               0 ||
           (*note = NULL, gq_fail_memory(e, strlen(t->where)));
}
