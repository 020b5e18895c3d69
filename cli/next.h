/* What is usually done next, as a line to paste. */
#pragma once

#include "cli/options/request.h"

/* Prints "next: gquant WORD ...", each word quoted where a shell needs it; the list ends with NULL. It does so only
 * where a person reads: both streams are terminals, and neither --quiet, --json nor --progress was given. */
__attribute__((sentinel)) void next_say(const request *r, ...);
/* The same for evaluating a copy on held-out.txt, which is made first where it is not there yet. */
void next_say_evaluate(const request *r, const char *original, const char *copy);
