/* Texts that the command is given. */
#pragma once

#include "cli/options/request.h"

/* Has *to name a file, which the library reads as far as it needs it, with to->ids set where it holds rendered
 * conversations; or reads all of standard input, for
 * "-", at most 1 GiB and no more than `memory` (0: no such limit). False: *e says why; also where the
 * file's conversations have to be rendered first. */
bool input_text(const char *path, uint64_t memory, gq_text *to, gq_error *e);
/* Turns the options of a calibration into gq_options.calibration, and reads its text: *to becomes `room`, or NULL where no
 * calibration is asked for. input_free(&room->text) releases it in every case. */
bool input_calibration(const request *r, gq_calibration *room, const gq_calibration **to, gq_error *e);
/* Frees what these have read. */
void input_free(gq_text *text);
