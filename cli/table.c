#include "cli/table.h"

#include <stdlib.h>
#include <string.h>

#include "cli/text.h"
#include "quantize/gquant.h"

/* A cell wider than this does not widen its column: one odd name must not push the numbers off the screen. */
enum { WIDEST = 48 };

char *shown(const char *text) {
    size_t size = 4 * strlen(text) + 1; /* a control character becomes \xNN */
    char *to = need(size, 1);
    return gq_printable(to, size, text);
}

void table_start(table *t, const char *align) { *t = (table){.align = align, .columns = strlen(align)}; }

void table_cell(table *t, char *text) {
    if (t->n == t->room) {
        t->room = 2 * t->room + 64;
        t->cells = need_more(t->cells, t->room, sizeof *t->cells);
    }
    t->cells[t->n++] = text;
}

void table_text(table *t, const char *text) { table_cell(t, format("%s", text)); }

void table_row(table *t, const char *const *texts) {
    for (size_t i = 0; i < t->columns; i++) table_text(t, texts[i]);
}

void table_name(table *t, const char *name) { table_cell(t, shown(name)); }

void table_print(const table *t, FILE *to) {
    int *width = need(t->columns, sizeof *width);
    for (size_t i = 0; i < t->n; i++) {
        size_t n = strlen(t->cells[i]), c = i % t->columns;
        if (n <= WIDEST && (int)n > width[c]) width[c] = (int)n;
    }
    for (size_t i = 0; i < t->n; i++) {
        size_t c = i % t->columns;
        bool last = c + 1 == t->columns;
        if (t->align[c] == 'r')
            fprintf(to, "%*s", width[c], t->cells[i]);
        else
            fprintf(to, "%-*s", last ? 0 : width[c], t->cells[i]);
        fputs(last ? "\n" : "  ", to);
    }
    free(width);
}

void table_free(table *t) {
    for (size_t i = 0; i < t->n; i++) free(t->cells[i]);
    free(t->cells);
    *t = (table){0};
}
