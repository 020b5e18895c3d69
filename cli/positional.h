/* The meaning of the bare arguments. */
#ifndef CLI_POSITIONAL_H
#define CLI_POSITIONAL_H

#include "cli/request.h"

/* Turn the arguments of the main job, IN [OUT] TYPE [THREADS] or IN TYPE... with several outputs, or IN [OUT]
 * [THREADS] with one target, into r->quantize. */
bool request_outputs(request *r, gq_error *e);

#endif
