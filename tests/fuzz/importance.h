/* What the two importance targets do with a matrix: all that the room offers. */
#ifndef GQ_FUZZ_IMPORTANCE_H
#define GQ_FUZZ_IMPORTANCE_H

/* Takes over `bytes` (malloc'ed). */
void fuzz_try_importance(unsigned char *bytes, unsigned long n);

#endif
