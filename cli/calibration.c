#include "cli/calibration.h"

#include <string.h>

#include "cli/input.h"

static const char RANDOM[] = "@random"; /* in place of a text; a file of that name is ./@random */

bool calibration_ask(const request *r, gq_calibration *room, const gq_calibration **to, gq_error *e) {
    const char *path = r->calibrate ? r->calibrate : r->calibrate_ids;
    *to = NULL, *room = r->calibration, room->size = sizeof *room;
    if (!path) return true;
    room->random = r->calibrate && strcmp(path, RANDOM) == 0, room->memory = r->memory;
    room->text = (gq_text){.name = path,
                           .ids = r->calibrate_ids,
                           .context = (uint32_t)r->context,
                           .tokens = r->calibrate_tokens};
    if (!room->random && !input_text(path, r->memory, &room->text, e)) return false;
    *to = room;
    return true;
}

void calibration_free(gq_calibration *room) { input_free(&room->text); }
