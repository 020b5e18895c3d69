/* A tensor type of the tests alone, as types with trellises are: rows have a head, the codes of a block are a
 * path and are chosen together. Linked in by wrapping the functions that name types and kernels
 * (tests/CMakeLists.txt), so that the whole library has it.
 *
 * A row is a float, then blocks of 32 columns in 9 bytes: a scale, as so many 255ths of the head, and codes
 * of two bits. A path has four states and begins in state 0 in each block; from every state two sets of
 * levels can be reached, of which each has two of the eight levels -3.5, -2.5, ... 3.5. */
#pragma once

#include "codec/codec.h"

enum { TRELLIS = 36, TRELLIS_COLUMNS = 32, TRELLIS_BLOCK = 9, TRELLIS_HEAD = 4 }; /* 36: a retired number */

/* How the codes of a block are chosen: along the best path by what errors cost together, or by what each
 * costs, or one after another. */
typedef enum trellis_way { TRELLIS_TOGETHER, TRELLIS_EACH, TRELLIS_GREEDY } trellis_way;
/* These kernels, with the type in their table. Lasts until it is asked for again. */
const kernels *trellis_kernels(const kernels *k, trellis_way way);
/* What kernels_select() returns from now on. */
void trellis_use(trellis_way way);
