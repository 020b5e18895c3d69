#include "cli/report/csv.h"

#include <string.h>

/* A spreadsheet would take a name that begins with one of these for a formula. */
void csv_quoted(FILE *to, const char *value) {
    fputs(strchr("=+-@\t\r", *value) && *value ? "\"'" : "\"", to);
    for (; *value; value++) {
        if (*value == '"') fputc('"', to);
        fputc(*value, to);
    }
    fputc('"', to);
}
