#include "cli/report/render.h"
#include "quantize/gquant_common.h"

#include <stdlib.h>
#include <string.h>

bool render_file(const char *path, void (*write)(FILE *to, const void *what), const void *what, gq_error *e) {
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    if (to) write(to, what);
    bool ok = to && !ferror(to);
    ok = to && fclose(to) == 0 && ok;
    ok = ok ? gq_write_whole(path, true, text, n, e) : gq_fail_memory(e, n);
    free(text);
    return ok;
}

/* A spreadsheet would take a name that begins with one of these for a formula. */
void csv_quoted(FILE *to, const char *value) {
    fputs(strchr("=+-@\t\r", *value) && *value ? "\"'" : "\"", to);
    for (; *value; value++) {
        if (*value == '"') fputc('"', to);
        fputc(*value, to);
    }
    fputc('"', to);
}
