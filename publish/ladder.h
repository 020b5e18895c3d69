/* Sizes of memory that people have: for each of them a survey's curve and a publication have the best mix. */
#pragma once

#include <stdint.h>

enum { LADDER_SIZES = 13 };
#define LADDER_GB UINT64_C(1000000000)
static const uint64_t ladder_gigabytes[LADDER_SIZES] = {4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256};
