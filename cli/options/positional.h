/* The meaning of the bare arguments. */
#pragma once

#include "cli/options/request.h"

/* Turn the arguments of the main job, IN [OUT] TYPE [THREADS] or IN TYPE... with several outputs, or IN [OUT]
 * [THREADS] with one target, into r->quantize. */
bool request_outputs(request *r, gq_error *e);

/* Returns true, with an error that has the line to type, if a word that is no file is what other programs
 * call the main job; n words follow it. any_option: some stand before it. */
bool positional_fail_verb(const char *verb, char *const *words, size_t n, bool any_option, gq_error *e);

/* Whether a word names a file type or a recipe; numbers of file types do not count. */
bool filetype_known(const char *text);
/* Takes the types of --like's file: as items behind the user's own, and as the file type where none is given.
 */
bool request_take_like(request *r, gq_error *e);
