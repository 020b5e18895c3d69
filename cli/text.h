/* Small helpers of the command: memory that is there or ends the program, formatted text, numbers with units,
 * the nearest of some words. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* End the program with a message when memory runs out. Only the command may do that, and it only asks for
 * memory while no output is open. */
void *need_memory(size_t count, size_t size); /* zeroed */
void *need_more(void *old, size_t count, size_t size);
/* Room for one more element behind n, in an array that only this function has grown. */
void *need_next(void *old, size_t n, size_t size);
char *text_format(const char *text, ...) __attribute__((format(printf, 1, 2)));
char *text_format_list(const char *text, va_list args) __attribute__((format(printf, 1, 0)));

/* Returns a malloc'ed line with one more word, quoted where a shell needs it; frees the old line. */
char *text_add_word(char *line, const char *word);

/* "4096 x 1024" of n dimensions, with " T" behind it if the tensor is stored transposed; malloc'ed. */
char *shape_text(const uint64_t *ne, uint32_t n, bool transposed);

/* Into a caller's buffer, which they return. */
enum { UNIT_ROOM = 32 };
char *size_text(char to[UNIT_ROOM], double bytes);   /* "512 bytes", "3.25 MiB", "1.50 GiB" */
char *count_text(char to[UNIT_ROOM], double n);      /* "950", "12.5 M", "8.03 G" */
char *time_text(char to[UNIT_ROOM], double seconds); /* "0.8 s", "2:05", "1:02:05" */

/* "a second", "40 seconds", "14 minutes", "3.5 hours": how long something will take, for people. */
char *duration_text(char to[UNIT_ROOM], double seconds);

/* Decimals with which a number above 0 keeps three digits, at most 8. */
int decimals_for(double least);

/* "40G", "7.5GiB", "500M", "1000000": powers of 1000, or of 1024 with an i. */
bool size_parse(const char *text, uint64_t *bytes);
/* "90s", "45m", "2h", "1h30m", "1.5d": units from the largest down, each once; below 10^9 seconds. */
bool duration_parse(const char *text, double *seconds);
/* Plain decimal within min..max, nothing behind it. */
bool number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *value);

/* The word that takes the fewest edits (case ignored) to become `text`; NULL when none is near. */
const char *text_nearest_word(const char *text, const char *const *words, size_t n);
