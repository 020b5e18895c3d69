/* Speeds that llama-bench measured, read from its output: a column of a published page. */
#pragma once

#include "quantize/gquant_publish.h"

typedef struct speed_row {
    char *name;               /* of the file, without folders */
    uint64_t n_prompt, n_gen; /* tokens of the test; one of them is 0 */
    double tokens;            /* per second */
} speed_row;

typedef struct speed_table {
    speed_row *rows; /* n of them */
    size_t n, capacity;
    char *where; /* processor, devices, threads, build: of the first row */
} speed_table;

/* Reads a file of JSON (an array or lines) or CSV. Free *t with speeds_free, also after a failure. */
bool speeds_read(speed_table *t, const char *path, gq_error *e);
void speeds_free(speed_table *t);
/* Fills reads and generates of the rows that have been measured, and *note (malloc'ed) with how. Fails where
 * no row has. */
bool speeds_take(const speed_table *t, const char *path, gq_page_row *rows, size_t n, char **note,
                 gq_error *e);
