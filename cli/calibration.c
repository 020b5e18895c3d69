#include "cli/calibration.h"

#include <stdlib.h>
#include <string.h>

#include "cli/input.h"
#include "cli/option_table.h"

static const char RANDOM[] = "@random"; /* in place of a text; a file of that name is ./@random */

static bool is_asked(const request *r) { return r->calibrate || r->calibrate_ids; }

/* The first of these options that was given; NULL: none was. */
static const char *given(const request *r, const char *const *names) {
    for (size_t i = 0; i < r->n_given; i++)
        for (size_t k = 0; names[k]; k++)
            if (strcmp(r->given[i].option->name, names[k]) == 0) return names[k];
    return NULL;
}

bool calibration_check(const request *r, gq_error *e) {
    static const char *const only[] = {"calibrate-tokens", "correction", "damp", "shrink", NULL},
                             *const both[] = {"context", "memory", NULL};
    if (r->calibrate && r->calibrate_ids)
        return gq_fail_usage(e, "--calibrate and --calibrate-ids are two texts; one is run on");
    if (is_asked(r) && r->quantize.imatrix)
        return gq_fail_usage(e, "--imatrix and --calibrate cannot be combined: drop --imatrix, as the "
                                "calibration knows more");
    if (is_asked(r) && (r->quantize.parts || r->quantize.join))
        return gq_fail_usage(e,
                             "--%s and --calibrate cannot be combined: each layer is rounded by what those "
                             "before it became",
                             r->quantize.join ? "join" : "part");
    if (!is_asked(r) && given(r, only))
        return gq_fail_usage(e, "--%s: there is no --calibrate that it could be for", given(r, only));
    return is_asked(r) || r->text || !given(r, both) ||
           gq_fail_usage(e, "--%s: there is no --calibrate or --evaluate that it could be for",
                         given(r, both));
}

bool calibration_ask(const request *r, gq_calibration *room, const gq_calibration **to, gq_error *e) {
    const char *path = r->calibrate ? r->calibrate : r->calibrate_ids;
    size_t n = 0;
    *to = NULL, *room = r->calibration, room->size = sizeof *room;
    if (!path) return true;
    room->random = r->calibrate && strcmp(path, RANDOM) == 0, room->memory = r->memory;
    char *bytes = room->random ? NULL : input_read(path, &n, e);
    if (!bytes && !room->random) return false;
    room->text = (gq_text){.name = path,
                           .bytes = bytes,
                           .n = n,
                           .ids = r->calibrate_ids,
                           .context = (uint32_t)r->context,
                           .tokens = r->calibrate_tokens};
    *to = room;
    return true;
}

void calibration_free(gq_calibration *room) {
    free((void *)room->text.bytes);
    room->text.bytes = NULL;
}
