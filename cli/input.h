/* Texts that the command is given. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "quantize/gquant_common.h"

/* Has *to name a file, which the library reads as far as it needs it, with to->ids set where it holds rendered
 * conversations; or reads all of standard input, for
 * "-", at most 1 GiB and no more than `memory` (0: no such limit). False: *e says why; also where the
 * file's conversations have to be rendered first. */
bool input_text(const char *path, uint64_t memory, gq_text *to, gq_error *e);
/* Frees what that has read. */
void input_free(gq_text *text);

#endif
