/* A loop over registers, which must go. */
#ifndef GQ_UNROLL_H
#define GQ_UNROLL_H

#ifdef __clang__
#define UNROLLED(i, n) _Pragma("clang loop unroll(full)") for (size_t i = 0; i < (n); i++)
#else
#define UNROLLED(i, n) _Pragma("GCC unroll 16") for (size_t i = 0; i < (n); i++)
#endif

#endif
