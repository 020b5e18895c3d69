/* What the two importance targets do with a matrix: all that the room offers. */
#pragma once

/* Takes over `bytes` (malloc'ed). */
void fuzz_try_importance(unsigned char *bytes, unsigned long n);
