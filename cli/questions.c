#include "cli/questions.h"

#include <stdlib.h>
#include <string.h>

#include "cli/text.h"

enum { FILE_MOST = 1 << 30 };

/* The number of the right choice; n: it names none. */
static size_t question_answer(const json_t *answer, const json_t *choices) {
    size_t n = json_array_size(choices);
    const char *text = json_string_value(answer);
    if (json_is_integer(answer)) {
        json_int_t i = json_integer_value(answer);
        return i >= 0 && (size_t)i < n ? (size_t)i : n;
    }
    for (size_t i = 0; text && i < n; i++)
        if (strcmp(text, json_string_value(json_array_get(choices, i))) == 0) return i;
    if (text && strlen(text) == 1 && *text >= 'A' && (size_t)(*text - 'A') < n) return (size_t)(*text - 'A');
    return n;
}

static bool question_take(json_t *row, gq_question *to, const char *path, size_t line, gq_error *e) {
    const json_t *choices = json_object_get(row, "choices");
    size_t n = json_array_size(choices), i = 0;
    while (i < n && json_is_string(json_array_get(choices, i))) i++;
    to->text = json_string_value(json_object_get(row, "question"));
    if (!to->text || i < n || n < 2 || n > GQ_CHOICES)
        return gq_fail(
            e,
            "%s, line %zu: expected {\"question\": \"...\", \"choices\": [...], \"answer\": 0} with 2 to %d "
            "choices, all of them texts",
            path, line, GQ_CHOICES);
    to->answer = question_answer(json_object_get(row, "answer"), choices);
    if (to->answer == n)
        return gq_fail(
            e,
            "%s, line %zu: \"answer\" is none of the choices: expected its number from 0 on, its letter, or "
            "its text",
            path, line);
    const char **texts = need_memory(n, sizeof *texts);
    for (i = 0; i < n; i++) texts[i] = json_string_value(json_array_get(choices, i));
    to->choices = texts, to->n_choices = n;
    return true;
}

static bool question_read_line(questions *q, const char *text, size_t n, const char *path, size_t line,
                               gq_error *e) {
    json_error_t why;
    if (strspn(text, " \t\r") >= n) return true;
    json_t *row = json_loadb(text, n, 0, &why);
    if (!row) return gq_fail(e, "%s, line %zu: is no JSON: %s", path, line, why.text);
    json_array_append_new(q->rows, row);
    q->items = need_next(q->items, q->n, sizeof *q->items);
    q->items[q->n] = (gq_question){.text = NULL};
    return question_take(row, &q->items[q->n++], path, line, e);
}

bool questions_read(questions *q, const char *path, gq_error *e) {
    size_t n, line = 1;
    char *text = gq_read_whole(path, FILE_MOST, &n, e);
    bool ok = text;
    *q = (questions){.rows = json_array()};
    for (size_t at = 0, end; ok && at < n; at = end + 1, line++) {
        const char *newline = memchr(text + at, '\n', n - at);
        end = newline ? (size_t)(newline - text) : n;
        text[end] = 0;
        ok = question_read_line(q, text + at, end - at, path, line, e);
    }
    gq_free(text);
    return ok && (q->n || gq_fail(e, "%s: has no questions", path));
}

void questions_free(questions *q) {
    for (size_t i = 0; i < q->n; i++) free((void *)q->items[i].choices);
    free(q->items), json_decref(q->rows);
    *q = (questions){.n = 0};
}
