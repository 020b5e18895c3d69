#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { TEXT_MOST = 1 << 30 };

/* All of standard input. */
static char *read_standard_input(size_t most, size_t *n, gq_error *e) {
    char *text = NULL;
    *n = 0;
    for (size_t room = 0, got = 1; got > 0; *n += got) {
        if (room - *n < BUFSIZ) {
            char *grown = realloc(text, room = 2 * room + 2 * BUFSIZ);
            if (!grown) {
                gq_fail_memory(e, room);
                break;
            }
            text = grown;
        }
        got = fread(text + *n, 1, room - *n, stdin);
        if (got > 0 && *n + got <= most) continue;
        if (got == 0 && !ferror(stdin)) return text;
        gq_fail(e,
                got ? "standard input: more than %zu bytes of text; save it to a file and name that"
                    : "standard input cannot be read",
                most);
        break;
    }
    free(text);
    return NULL;
}

/* ---- conversations ---- */

/* Whether the first line, of n bytes, is a conversation as JSON. */
static bool input_is_chat(const char *line, size_t n) {
    static const char *const keys[] = {"\"messages\"", "\"conversations\"", "\"completion\""};
    for (size_t k = 0; *line == '{' && k < sizeof keys / sizeof *keys; k++)
        if (memmem(line, n, keys[k], strlen(keys[k]))) return true;
    return false;
}

/* Rendered conversations are ids, whatever option names them. Templates are programs of the model's author,
 * so they are not run here: gquant-chat does, when the user says so. */
static bool input_look_for_chats(const char *path, gq_text *to, gq_error *e) {
    enum { LOOK = 1 << 16 };
    static const char magic[] = "#gquant-chats ";
    char begins[LOOK];
    size_t length = strlen(path);
    FILE *file = fopen(path, "rb");
    if (!file) return true; /* the library says why */
    size_t n = fread(begins, 1, sizeof begins, file);
    fclose(file);
    if (n >= sizeof magic && memcmp(begins, magic, sizeof magic - 1) == 0) to->ids = true;
    if (length < 6 || strcmp(path + length - 6, ".jsonl") != 0 || !n || !input_is_chat(begins, n))
        return true;
    return gq_fail_usage(
        e,
        "%s: holds conversations, which the model's template has to render: 'gquant-chat MODEL %s "
        "chats.ids' does so (pip install './python[chat]'); then give chats.ids",
        path, path);
}

bool input_text(const char *path, uint64_t memory, gq_text *to, gq_error *e) {
    to->name = path;
    if (strcmp(path, "-") != 0) return input_look_for_chats(path, to, e);
    size_t most = memory && memory < TEXT_MOST ? (size_t)memory : TEXT_MOST;
    return (to->bytes = read_standard_input(most, &to->n, e)) != NULL;
}

bool input_calibration(const request *r, gq_calibration *room, const gq_calibration **to, gq_error *e) {
    static const char random[] = "@random"; /* in place of a text; a file of that name is ./@random */
    const char *path = r->calibrate ? r->calibrate : r->calibrate_ids;
    *to = NULL, *room = r->calibration, room->size = sizeof *room;
    if (!path) return true;
    room->random = r->calibrate && strcmp(path, random) == 0, room->memory = r->memory;
    room->text = (gq_text){.name = path,
                           .ids = r->calibrate_ids,
                           .context = (uint32_t)r->context,
                           .tokens = r->calibrate_tokens};
    if (!room->random && !input_text(path, r->memory, &room->text, e)) return false;
    *to = room;
    return true;
}

void input_free(gq_text *text) {
    free((void *)text->bytes);
    text->bytes = NULL;
}

/* ---- questions with several choices ---- */

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
        return gq_fail(e,
                       "%s, line %zu: \"answer\" does not name a choice: expected its number from 0, its "
                       "letter or its text",
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
    if (!row) return gq_fail(e, "%s, line %zu: not valid JSON: %s", path, line, why.text);
    json_array_append_new(q->rows, row);
    q->items = need_next(q->items, q->n, sizeof *q->items);
    q->items[q->n] = (gq_question){.text = NULL};
    return question_take(row, &q->items[q->n++], path, line, e);
}

bool input_questions(questions *q, const char *path, gq_error *e) {
    size_t n, line = 1;
    char *text = gq_read_whole(path, TEXT_MOST, &n, e);
    bool ok = text;
    *q = (questions){.rows = json_array()};
    size_t mark = ok && n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* a byte order mark */
    for (size_t at = mark, end; ok && at < n; at = end + 1, line++) {
        const char *newline = memchr(text + at, '\n', n - at);
        end = newline ? (size_t)(newline - text) : n;
        text[end] = 0;
        ok = question_read_line(q, text + at, end - at, path, line, e);
    }
    gq_free(text);
    return ok && (q->n || gq_fail(e, "%s: no questions found; expected a line of JSON for each", path));
}

void input_questions_free(questions *q) {
    for (size_t i = 0; i < q->n; i++) free((void *)q->items[i].choices);
    free(q->items), json_decref(q->rows);
    *q = (questions){.n = 0};
}
