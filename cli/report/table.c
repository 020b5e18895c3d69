/* Prints tables that line up and fit the terminal; table.h explains the letters and digits of `columns`.
 * Cells are collected as texts row by row, and widths are only computed for printing. If a table is wider
 * than the terminal, fit_columns saves room in a fixed order: a last column of texts moves long cells to a
 * line of their own, then the columns with the largest digits are left out, then the names in the first
 * column lose their middle, and at last each row is stacked: its name on a line, its other cells below. A
 * table that goes to a file or a pipe is printed whole. Widths are counted in bytes, and a name is never cut
 * inside a UTF-8 character.
 */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"

enum {
    GAP = 2,
    SHORTEST = 28, /* columns are left out, and rows stacked, before names become shorter than this */
    REMARK = 20,   /* characters that a last column of texts may have; longer texts get a line of their own */
};

char *text_shown(const char *text) {
    size_t size = 4 * strlen(text) + 1; /* a control character becomes \xNN */
    char *to = need_memory(size, 1);
    return gq_printable(to, size, text);
}

void table_cell(table *t, char *text) {
    if (t->n == t->capacity) {
        t->capacity = 2 * t->capacity + 64;
        t->cells = need_more(t->cells, t->capacity, sizeof *t->cells);
    }
    t->cells[t->n++] = text;
}

void table_text(table *t, const char *text) { table_cell(t, text_format("%s", text)); }

void table_error(table *t, double error) {
    table_cell(t, isnan(error) ? text_format("-") : text_format("%.5f", error));
}

void table_row(table *t, const char *const *texts) {
    for (size_t i = 0; i < t->n_columns; i++) table_text(t, texts[i]);
}

void table_name(table *t, const char *name) { table_cell(t, text_shown(name)); }

void table_start(table *t, const char *columns, const char *const *headings) {
    *t = (table){.columns = columns};
    for (const char *c = columns; *c; c++) t->n_columns += *c == 'l' || *c == 'r';
    if (headings) table_row(t, headings);
}

int terminal_columns(FILE *to) {
    struct winsize size = {0};
    return isatty(fileno(to)) && ioctl(fileno(to), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* ---- fitting ---- */

typedef struct column {
    bool left;
    char rank;  /* '0' to '9': may be left out, the largest first; 0: stays */
    bool out;   /* is left out */
    bool below; /* texts that do not fit get a line of their own */
    size_t width;
} column;

static column *columns_of_cells(const table *t) {
    column *all = need_memory(t->n_columns, sizeof *all), *c = all - 1;
    for (const char *at = t->columns; *at; at++)
        if (*at == 'l' || *at == 'r')
            *++c = (column){.left = *at == 'l'};
        else
            c->rank = *at;
    for (size_t i = 0; i < t->n; i++) {
        size_t n = strlen(t->cells[i]);
        c = &all[i % t->n_columns];
        if (n > c->width) c->width = n;
    }
    return all;
}

/* Width of the columns 1 to n - 1 that are not left out, with the gaps before them. */
static size_t width_of_others(const column *all, size_t n) {
    size_t width = 0;
    for (size_t i = 1; i < n; i++)
        if (!all[i].out) width += GAP + all[i].width;
    return width;
}

/* Returns whether a row fits a line; if not, rows have to be stacked. */
static bool fit_columns(column *all, size_t n, size_t screen) {
    size_t shortest = all[0].width < SHORTEST ? all[0].width : SHORTEST;
    if (all[0].width + width_of_others(all, n) <= screen) return true;
    all[n - 1].below = n > 1 && all[n - 1].left;
    if (all[n - 1].below && all[n - 1].width > REMARK) all[n - 1].width = REMARK;
    while (shortest + width_of_others(all, n) > screen) {
        column *worst = all;
        for (size_t i = 1; i < n; i++)
            if (!all[i].out && all[i].rank > worst->rank) worst = &all[i];
        if (!worst->rank) break;
        worst->out = true;
    }
    size_t rest = width_of_others(all, n), room = screen > rest ? screen - rest : 0;
    if (room < shortest) room = shortest;
    if (all[0].width > room) all[0].width = room;
    return shortest + width_of_others(all, all[n - 1].below ? n - 1 : n) <= screen;
}

/* ---- printing ---- */

static bool inside_character(char c) { return (c & 0xC0) == 0x80; } /* of UTF-8 */

size_t name_fit(char *to, size_t size, const char *name, size_t width) {
    size_t n = strlen(name);
    if (width > size - 1) width = size - 1;
    if (n <= width || width < 4) {
        while (width > 0 && width < n && inside_character(name[width])) width--;
        snprintf(to, size, "%.*s", (int)width, name);
        return strlen(to);
    }
    size_t front = (width - 2) / 2, tail = n - (width - 2 - front);
    while (front > 0 && inside_character(name[front])) front--;
    while (inside_character(name[tail])) tail++;
    snprintf(to, size, "%.*s..%s", (int)front, name, name + tail);
    return strlen(to);
}

static void print_name(FILE *to, const char *name, size_t width) {
    char *text = need_memory(width + 1, 1);
    name_fit(text, width + 1, name, width);
    fprintf(to, "%-*s", (int)width, text);
    free(text);
}

void print_wrapped(FILE *to, const char *text) { print_wrapped_behind(to, 0, text); }

void print_wrapped_behind(FILE *to, size_t used, const char *text) {
    enum { INDENT = 2 };
    size_t screen = (size_t)terminal_columns(to), gap = used ? 1 : strspn(text, " ");
    text += used ? 0 : gap;
    while (screen && *text) {
        size_t n = strcspn(text, " ");
        if (used > 0 && used + gap + n > screen)
            gap = INDENT + n > screen ? 0 : INDENT, used = 0, fputc('\n', to);
        fprintf(to, "%*s%.*s", (int)gap, "", (int)n, text);
        used += gap + n, text += n;
        gap = strspn(text, " "), text += gap;
    }
    fprintf(to, "%*s%s\n", screen ? 0 : (int)gap, "", text);
}

void print_line(FILE *to, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *line = text_format_list(format, args), *safe = text_shown(line);
    va_end(args);
    print_wrapped(to, safe);
    free(line), free(safe);
}

/* Prints a line of n characters between words, on lines of `screen` columns where words are not longer. */
static void print_narrow(FILE *to, const char *line, size_t n, size_t screen) {
    enum { INDENT = 6 };
    size_t indent = screen > 4 * INDENT ? INDENT : 2, gap = strspn(line, " "),
           used = gap < indent ? gap : indent;
    const char *at = line + gap, *end = line + n;
    fprintf(to, "%*s", (int)used, "");
    for (bool first = true; at < end; first = false) {
        size_t word = strcspn(at, " \n");
        if (!first && (gap > 1 || used + 1 + word > screen))
            used = indent + word > screen ? 0 : indent, fprintf(to, "\n%*s", (int)used, "");
        else if (!first)
            fputc(' ', to), used++;
        fprintf(to, "%.*s", (int)word, at);
        used += word, at += word;
        gap = strspn(at, " "), at += gap;
    }
}

void print_fitted(FILE *to, const char *text) {
    size_t screen = (size_t)terminal_columns(to);
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        if (screen && n > screen)
            print_narrow(to, text, n, screen);
        else
            fprintf(to, "%.*s", (int)n, text);
        fputc('\n', to);
    }
}

/* Prints n characters behind a gap, or on a line of their own if they do not fit; used: columns of the line
 * so far. Returns the columns used then. What is longer than a line loses its middle. */
static size_t print_below_piece(FILE *to, const char *text, size_t n, size_t gap, size_t used,
                                size_t screen) {
    size_t indent = screen > SHORTEST ? 4 : 2;
    char *piece = need_memory(n + 1, 1);
    memcpy(piece, text, n);
    if (used + gap + n > screen) gap = indent, used = 0, fputc('\n', to);
    used += gap;
    size_t width = used + n <= screen ? n : screen > used ? screen - used : 1;
    fprintf(to, "%*s", (int)gap, "");
    print_name(to, piece, width);
    free(piece);
    return used + width;
}

/* Prints the words of a cell below its row, as print_below_piece does. */
static size_t print_below(FILE *to, const char *text, size_t gap, size_t used, size_t screen) {
    for (size_t n; *text; gap = strspn(text, " "), text += gap) {
        n = strcspn(text, " ");
        used = print_below_piece(to, text, n, gap, used, screen);
        text += n;
    }
    return used;
}

/* Prints a row that does not fit a line: the name, and below it the other cells, broken between cells or,
 * where a cell is longer than a line, between its words. */
static void print_stacked(FILE *to, char *const *cells, const column *all, size_t n, size_t screen) {
    size_t width = strlen(cells[0]), used = screen;
    if (width) print_name(to, cells[0], width < screen ? width : screen);
    for (size_t i = 1; i < n; i++) {
        size_t length = strlen(cells[i]);
        while (length && cells[i][length - 1] == ' ') length--;
        if (all[i].out || !length) continue;
        if (length + SHORTEST / 4 <= screen)
            used = print_below_piece(to, cells[i], length, GAP, used, screen);
        else
            used = print_below(to, cells[i], GAP, used, screen);
    }
    fputc('\n', to);
}

static void print_row(FILE *to, char *const *cells, const column *all, size_t n, size_t screen) {
    size_t used = all[0].width + width_of_others(all, n - 1), last = n - 1;
    while (last > 0 && (all[last].out || !*cells[last])) last--;
    for (size_t i = 0; i <= last; i++) {
        const column *c = &all[i];
        if (c->out) continue;
        if (c->below && used + GAP + strlen(cells[i]) > screen)
            print_below(to, cells[i], 1, screen, screen);
        else if (i == 0 && last > 0)
            print_name(to, cells[i], c->width);
        else if (c->left)
            fprintf(to, "%*s%-*s", i ? GAP : 0, "", i == last ? 0 : (int)c->width, cells[i]);
        else
            fprintf(to, "%*s%*s", i ? GAP : 0, "", (int)c->width, cells[i]);
    }
    fputc('\n', to);
}

void table_print(const table *t, FILE *to) {
    size_t screen = (size_t)terminal_columns(to);
    column *all = columns_of_cells(t);
    bool fits = !screen || fit_columns(all, t->n_columns, screen);
    for (size_t i = 0; i < t->n; i += t->n_columns)
        if (fits)
            print_row(to, t->cells + i, all, t->n_columns, screen ? screen : SIZE_MAX);
        else
            print_stacked(to, t->cells + i, all, t->n_columns, screen);
    free(all);
}

void table_free(table *t) {
    for (size_t i = 0; i < t->n; i++) free(t->cells[i]);
    free(t->cells);
    *t = (table){0};
}

void table_end(table *t, FILE *to) {
    table_print(t, to);
    table_free(t);
}

void table_end_below(table *t, FILE *to) {
    fputc('\n', to);
    table_end(t, to);
}
