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
#include "publish/text.h"

/* ---- a test ---- */

static const char *speed_text(const json_t *test, const char *name) {
    const char *text = json_string_value(json_object_get(test, name));
    return text ? text : "";
}

/* Returns a number, which CSV has as a text; 0: there is none. */
static double speed_number(const json_t *test, const char *name) {
    const json_t *value = json_object_get(test, name);
    return json_is_string(value) ? strtod(json_string_value(value), NULL) : json_number_value(value);
}

static uint64_t speed_count(const json_t *test, const char *name) {
    double n = speed_number(test, name);
    return n >= 1 && n < 1e15 ? (uint64_t)n : 0;
}

static bool speeds_add(speed_table *t, const json_t *test, const char *path, gq_error *e) {
    const char *file = speed_text(test, "model_filename"), *gpu = speed_text(test, "gpu_info");
    if (!*file || !json_object_get(test, "avg_ts"))
        return gq_fail(e,
                       "%s: test %zu has no model_filename or no avg_ts; expected the output of llama-bench",
                       path, t->n + 1);
    speed_row row = {.n_prompt = speed_count(test, "n_prompt"),
                     .n_gen = speed_count(test, "n_gen"),
                     .tokens = speed_number(test, "avg_ts")};
    if (!(row.tokens > 0 && isfinite(row.tokens)))
        return gq_fail(e, "%s: %s has the speed '%g'; expected tokens per second", path, file, row.tokens);
    if (!row.n_prompt == !row.n_gen || speed_count(test, "n_depth")) return true;
    if (!memory_grow(&t->rows, &t->capacity, t->n + 1, sizeof *t->rows, e)) return false;
    if (!t->where &&
        asprintf(&t->where, "%s%s%s, %.0f threads, build %s", speed_text(test, "cpu_info"), *gpu ? ", " : "",
                 gpu, speed_number(test, "n_threads"), speed_text(test, "build_commit")) < 0)
        return t->where = NULL, gq_fail_memory(e, strlen(gpu));
    row.name = strdup(page_file_name(file));
    if (!row.name) return gq_fail_memory(e, strlen(file));
    t->rows[t->n++] = row;
    return true;
}

/* Reads one value of JSON after another: an array of tests, or tests. */
static bool speeds_read_json(speed_table *t, const char *text, size_t n, const char *path, gq_error *e) {
    bool ok = true;
    for (size_t at = strspn(text, " \t\r\n"); ok && at < n; at += strspn(text + at, " \t\r\n")) {
        json_error_t why;
        json_t *value = json_loadb(text + at, n - at, JSON_DISABLE_EOF_CHECK, &why);
        if (!value)
            return gq_fail(e, "%s: byte %zu: not valid JSON: %s", path, at + (size_t)why.position, why.text);
        at += (size_t)why.position;
        if (!json_is_array(value)) ok = speeds_add(t, value, path, e);
        for (size_t i = 0; ok && i < json_array_size(value); i++)
            ok = speeds_add(t, json_array_get(value, i), path, e);
        json_decref(value);
    }
    return ok;
}

/* Takes the next cell of a line of CSV apart, in place: quotes around it go, two quotes within become one. Returns
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

/* Reads CSV: a line of names, and a line for each test, which becomes an object of texts. */
static bool speeds_read_csv(speed_table *t, char *text, const char *path, gq_error *e) {
    enum { COLUMNS = 256 };
    char *headings[COLUMNS], *cell;
    size_t n_headings = 0;
    bool ok = true;
    for (char *next, *line = text; ok && line && *line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        line[strcspn(line, "\r")] = 0;
        if (!*line) continue;
        if (!n_headings) {
            while (line && n_headings < COLUMNS) line = csv_take_cell(line, &headings[n_headings++]);
            continue;
        }
        json_t *test = json_object();
        for (size_t i = 0; line && i < n_headings; i++) {
            line = csv_take_cell(line, &cell);
            /* cells that are not UTF-8 are left out */
            json_object_set_new(test, headings[i], json_string(cell));
        }
        ok = (test || gq_fail_memory(e, sizeof test)) && speeds_add(t, test, path, e);
        json_decref(test);
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
                                  "%s: has no test of prompt processing (pp) or generation (tg) alone; "
                                  "expected the output of llama-bench as JSON or CSV",
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
    if (!taken)
        return gq_fail(e, "%s: no test is of a file in the folder: run llama-bench on these files", path);
    char reads[64] = "", writes[64] = "";
    if (prompt) snprintf(reads, sizeof reads, "prompt: %" PRIu64 " tokens; ", prompt);
    if (answer) snprintf(writes, sizeof writes, "generation: %" PRIu64 " tokens; ", answer);
    return asprintf(note, "Speeds are those that llama-bench measured (%s%s%s).", reads, writes, t->where) >=
               0 ||
           (*note = NULL, gq_fail_memory(e, strlen(t->where)));
}
