/* The checksums in a JSON report. */
#pragma once

#include "quantize/gquant_inspect.h"

typedef struct checksum_list {
    gq_checksum *items; /* n of them; they and their names belong to the list */
    size_t n;
} checksum_list;

/* Reads the checksums of the output with the file name of `model` from the JSON report at the path `report`;
 * without by_name, those of the only output, whatever its name. Free the list in every case. */
bool checksums_read(checksum_list *list, const char *report, const char *model, bool by_name, gq_error *e);
/* The same from a text of n bytes; `report` is its name in messages. */
bool checksums_parse(checksum_list *list, const char *text, size_t n, const char *report, const char *model,
                     bool by_name, gq_error *e);
void checksums_free(checksum_list *list);
