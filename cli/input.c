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
