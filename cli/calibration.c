#include "cli/calibration.h"

#include <stdlib.h>
#include <string.h>

#include "cli/input.h"

static const char RANDOM[] = "@random"; /* in place of a text; a file of that name is ./@random */

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
