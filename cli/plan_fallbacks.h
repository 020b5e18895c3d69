/* Why a file type takes more bytes of a model than its name says. */
#pragma once

#include "cli/options/request.h"

/* Plans each of the choices once more and prints, for those that fallbacks make more than a hundredth larger, which
 * types take the place of which, in how many tensors, and what they add. Prints nothing where there is none. */
void fallbacks_print(const request *r, const gq_choice *choices, size_t n);
