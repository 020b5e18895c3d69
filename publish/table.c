/* The table of files, in Markdown or HTML. A cell is written by one of two functions, for numbers and for
 * words, which know both formats. Names come from files and may hold anything, so markup in them is escaped.
 */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "publish/chart.h"
#include "publish/table.h"

/* ---- helpers of pages ---- */

const char *page_file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Decimals with which a number above 0 keeps three digits, at most 8. */
static int page_decimals(double least) {
    if (!(least > 0 && isfinite(least))) return 0;
    double decimals = 2 - floor(log10(least));
    return decimals < 0 ? 0 : decimals > 8 ? 8 : (int)decimals;
}

/* Returns what `write` prints, malloc'ed, with its bytes in *n; NULL: no memory. */
char *page_text(void (*write)(FILE *to, const void *what), const void *what, size_t *n, gq_error *e) {
    char *text = NULL;
    FILE *to = open_memstream(&text, n);
    if (to) write(to, what);
    bool ok = to && !ferror(to);
    ok = to && fclose(to) == 0 && ok;
    if (!ok) gq_fail_memory(e, *n), free(text), text = NULL;
    return text;
}

void page_write_text(FILE *to, const char *text, size_t n, bool html) {
    for (const char *c = text; c < text + n; c++)
        if (iscntrl((unsigned char)*c))
            fputc(' ', to);
        else if (html && strchr("<>&\"'", *c))
            fprintf(to, "&#%d;", *c);
        else
            fprintf(to, !html && strchr("\\`*_{}[]<>#|&", *c) ? "\\%c" : "%c", *c);
}

static int page_compare_rows(const void *left, const void *right) {
    const gq_page_row *a = left, *b = right;
    if (a->file_bytes != b->file_bytes) return a->file_bytes > b->file_bytes ? -1 : 1;
    return strcmp(a->path, b->path);
}

bool page_sort(page_sorted *to, const gq_page *from, gq_error *e) {
    *to = (page_sorted){.rows = NULL};
    if (!SIZED_TAKE(to->page, from, e)) return false;
    to->rows = calloc(to->page.n + 1, sizeof *to->rows);
    if (!to->rows) return gq_fail_memory(e, (to->page.n + 1) * sizeof *to->rows);
    for (size_t i = 0; i < to->page.n; i++) to->rows[i] = to->page.rows[i];
    qsort(to->rows, to->page.n, sizeof *to->rows, page_compare_rows);
    to->page.rows = to->rows;
    return true;
}

/* ---- cells ---- */

typedef struct table_writer {
    FILE *to;
    bool html;
    const char *tag; /* of a cell in HTML: "th" or "td" */
} table_writer;

/* Writes a cell of a number, at its column's right. */
__attribute__((format(printf, 2, 3))) static void table_number(const table_writer *w, const char *format,
                                                               ...) {
    va_list args;
    va_start(args, format);
    if (w->html)
        fprintf(w->to, "<%s style=\"text-align:right\">", w->tag);
    else
        fputc(' ', w->to);
    vfprintf(w->to, format, args);
    if (w->html)
        fprintf(w->to, "</%s>", w->tag);
    else
        fputs(" |", w->to);
    va_end(args);
}

static void table_words(const table_writer *w, const char *words) {
    if (w->html)
        fprintf(w->to, "<%s style=\"text-align:left\">%s</%s>", w->tag, words, w->tag);
    else
        fprintf(w->to, " %s |", words);
}

static void table_empty(const table_writer *w) { fputs(w->html ? "<td></td>" : " |", w->to); }

static void table_write_edge(const table_writer *w, bool begins) {
    fputs(w->html ? begins ? "<tr>" : "</tr>\n" : begins ? "|" : "\n", w->to);
}

static void table_estimate(const table_writer *w, gq_estimate x) {
    int decimals = page_decimals(fabs(x.value));
    if (isfinite(x.error) && x.error > 0)
        table_number(w, "%.*f ± %.*f", decimals, x.value, decimals, x.error);
    else
        table_number(w, "%.*f", decimals, x.value);
}

/* The file's name; in Markdown it is a link to the file beside the page. */
static void table_file(const table_writer *w, const gq_page_row *row) {
    const char *name = page_file_name(row->path);
    fputs(w->html ? "<td style=\"text-align:left\">" : " [", w->to);
    page_write_text(w->to, name, strlen(name), w->html);
    if (w->html) {
        fputs("</td>", w->to);
        return;
    }
    fputs("](", w->to);
    for (const char *c = name; *c; c++) /* as a link has it */
        fprintf(w->to, isalnum((unsigned char)*c) || strchr("-._~", *c) ? "%c" : "%%%02X", (unsigned char)*c);
    fputs(") |", w->to);
}

/* ---- columns ---- */

/* What a file is for: by its divergence where it was measured (the upper end of its interval, and not better than its
 * level), else by the bits of a weight. The words follow the measured harm in bench/results/small-models.md. */
static const char *purpose_of(const gq_page_row *row) {
    static const struct {
        double bits, apart;
        const char *words;
    } rows[] = {{12, -1, "the original's precision, to quantize from or to compare with"},
                {7.5, .001, "as good as the original"},
                {6.2, .005, "next to nothing is lost"},
                {5.2, .02, "little is lost; where memory allows"},
                {4.4, .06, "the usual choice"},
                {3.6, .2, "where memory is short; some is lost"},
                {2.8, .5, "where nothing larger fits; a good deal is lost"},
                {0, INFINITY, "the last resort; much is lost"}};
    bool measured = row->bits < rows[0].bits && row->level && row->apart;
    double apart = !measured ? 0 : isnan(row->apart->high) ? row->apart->value : row->apart->high;
    size_t i = 0;
    if (measured && strcmp(row->level, gq_level_text(GQ_INDISTINGUISHABLE))) i = 2;
    if (measured && !strcmp(row->level, gq_level_text(GQ_VISIBLE_LOSS))) i = 4;
    while (measured ? !(apart <= rows[i].apart) && rows[i].apart < INFINITY : row->bits < rows[i].bits) i++;
    return rows[i].words;
}

/* The columns that a page has beside those of every page. */
typedef struct page_columns {
    bool memory, errors, evaluation, predicts, drafts, reads, generates;
} page_columns;

/* Whether the models predict tokens; else they give embeddings. */
static bool page_predicts(const gq_page *p) { return p->evaluation && !isnan(p->original->perplexity.value); }

static page_columns page_columns_of(const gq_page *p) {
    page_columns has = {.memory = p->memory > 0, .evaluation = p->evaluation, .predicts = page_predicts(p)};
    for (size_t i = 0; i < p->n; i++) {
        const gq_evaluated *v = p->rows[i].evaluated;
        has.drafts |= has.evaluation && v && v->acceptance.value > 0;
        has.reads |= p->rows[i].reads > 0;
        has.generates |= p->rows[i].generates > 0;
        has.errors |= p->errors && p->rows[i].relative_error >= 0;
    }
    return has;
}

static void table_write_head(const table_writer *w, const page_columns *has) {
    const struct {
        bool is, number;
        const char *head;
    } columns[] = {{true, false, "file"},
                   {true, true, "size, GB"},
                   {has->memory, true, "memory, GB"},
                   {true, true, "bits per weight"},
                   {has->errors, true, "relative error"},
                   {has->evaluation, true, has->predicts ? "divergence, nats" : "cosine distance"},
                   {has->predicts, true, "perplexity"},
                   {has->predicts, true, "same top token"},
                   {has->drafts, true, "drafts accepted"},
                   {has->reads, true, "reads, tokens/s"},
                   {has->generates, true, "writes, tokens/s"},
                   {true, false, "for"}};
    enum { COLUMNS = sizeof columns / sizeof *columns };
    table_write_edge(w, true);
    for (size_t i = 0; i < COLUMNS; i++)
        if (columns[i].is && columns[i].number)
            table_number(w, "%s", columns[i].head);
        else if (columns[i].is)
            table_words(w, columns[i].head);
    table_write_edge(w, false);
    if (w->html) return;
    table_write_edge(w, true);
    for (size_t i = 0; i < COLUMNS; i++)
        if (columns[i].is) table_words(w, columns[i].number ? "---:" : "---");
    table_write_edge(w, false);
}

static void table_write_speed(const table_writer *w, double tokens) {
    if (tokens > 0)
        table_number(w, "%.*f", tokens < 10 ? 2 : tokens < 100 ? 1 : 0, tokens);
    else
        table_empty(w);
}

static void table_write_file(const table_writer *w, const gq_page *p, const page_columns *has,
                             const gq_page_row *row) {
    double gigabytes = (double)row->file_bytes / 1e9;
    const gq_evaluated *v = row->evaluated;
    table_write_edge(w, true);
    table_file(w, row);
    table_number(w, "%.*f", page_decimals(gigabytes), gigabytes);
    if (has->memory)
        table_number(w, "%.*f", page_decimals(gigabytes), (double)(row->file_bytes + p->memory) / 1e9);
    table_number(w, "%.2f", row->bits);
    if (has->errors && row->relative_error >= 0)
        table_number(w, "%.5f", row->relative_error);
    else if (has->errors)
        table_empty(w);
    if (has->evaluation && v) {
        table_estimate(w, v->divergence);
        if (has->predicts) table_number(w, "%.4f", v->perplexity.value);
        if (has->predicts) table_number(w, "%.2f %%", 100 * v->same_top.value);
        if (has->drafts && v->acceptance.value >= 0)
            table_number(w, "%.2f %%", 100 * v->acceptance.value);
        else if (has->drafts)
            table_empty(w);
    } else if (has->evaluation) {
        for (int i = 0; i < (has->predicts ? 3 : 1) + has->drafts; i++) table_empty(w);
    }
    if (has->reads) table_write_speed(w, row->reads);
    if (has->generates) table_write_speed(w, row->generates);
    table_words(w, purpose_of(row));
    table_write_edge(w, false);
}

/* ---- notes below the table ---- */

/* What the figures of each file come to, with the intervals that decide it. */
static void table_write_levels(const table_writer *w, const gq_page *p) {
    size_t told = 0;
    for (size_t i = 0; i < p->n; i++) {
        const gq_page_row *row = &p->rows[i];
        if (!row->level || !row->flips || !row->apart) continue;
        if (!told++) fputs(w->html ? "<ul>\n" : "\n", w->to);
        fputs(w->html ? "<li>" : "- ", w->to);
        page_write_text(w->to, row->type, strlen(row->type), w->html);
        fprintf(w->to, ": %s. Another first choice in %.2f %%", row->level, 100 * row->flips->value);
        if (!isnan(row->flips->low))
            fprintf(w->to, " (95 %%: %.2f to %.2f), divergence %.2g to %.2g", 100 * row->flips->low,
                    100 * row->flips->high, row->apart->low, row->apart->high);
        fputs(w->html ? ".</li>\n" : ".\n", w->to);
    }
    if (told && w->html) fputs("</ul>\n", w->to);
}

/* What the text was, where it was masked or conversations. */
static void table_write_texts(const table_writer *w, const gq_page *p, const char *begin, const char *end) {
    if (p->evaluation && p->evaluation->masked)
        fprintf(w->to,
                "%sThe tokens that are scored are masked, a share of each window that is drawn at random, "
                "and the "
                "probabilities are of what the masks stand for.%s",
                begin, end);
    if (p->evaluation && p->evaluation->texts)
        fprintf(w->to,
                "%sThe text is %" PRIu64
                " conversations, each with what stands before it alone; tokens count by "
                "their weights, as a rule those of the assistant.%s",
                begin, p->evaluation->texts, end);
}

static void table_write_notes(const table_writer *w, const gq_page *p) {
    const char *begin = w->html ? "<p>" : "\n", *end = w->html ? "</p>\n" : "\n";
    if (p->evaluation && !page_predicts(p))
        fprintf(
            w->to,
            "%sCosine distance: 1 less the cosine of the angle between a file's embedding of a text and the "
            "original's, the mean over %" PRIu64 " texts of up to %" PRIu32
            " tokens. 0 is the same embedding.%s",
            begin, p->evaluation->windows, p->evaluation->context, end);
    else if (p->evaluation)
        fprintf(
            w->to,
            "%sThe original's perplexity is %.4f on the same %" PRIu64 " tokens, of which %" PRIu64
            " are scored, in windows of %" PRIu32
            ". Divergence is the mean Kullback-Leibler divergence of a file's next-token probabilities from "
            "the original's (KL divergence, in nats): 0 is the same model, 0.005 is what comes of changing "
            "each probability by about a tenth of itself, and half as much is half the harm. Same top token: "
            "how "
            "often the likeliest token is the original's.%s",
            begin, p->original->perplexity.value, p->evaluation->tokens, p->evaluation->scored,
            p->evaluation->context, end);
    table_write_levels(w, p);
    table_write_texts(w, p, begin, end);
    if (page_columns_of(p).drafts) {
        fprintf(w->to,
                "%sDrafts accepted: how often the first choice of a file's prediction block (MTP) is its own "
                "next token.",
                begin);
        if (p->original->acceptance.value >= 0)
            fprintf(w->to, " The original's: %.2f %%.", 100 * p->original->acceptance.value);
        fputs(end, w->to);
    }
    if (!p->speed_note || !*p->speed_note) return;
    fputs(begin, w->to);
    page_write_text(w->to, p->speed_note, strlen(p->speed_note), w->html);
    fputs(end, w->to);
}

void page_write_table(FILE *to, const gq_page *p, bool html) {
    page_columns has = page_columns_of(p);
    table_writer w = {to, html, "th"};
    if (html) fputs("<table>\n", to);
    table_write_head(&w, &has);
    w.tag = "td";
    for (size_t i = 0; i < p->n; i++) table_write_file(&w, p, &has, &p->rows[i]);
    if (html) fputs("</table>\n", to);
    table_write_notes(&w, p);
}

/* ---- the public functions ---- */

typedef struct table_job {
    const gq_page *page;
    bool html;
} table_job;

static void write_table(FILE *to, const void *what) {
    const table_job *j = what;
    page_write_table(to, j->page, j->html);
}

static void write_chart(FILE *to, const void *what) { page_write_chart(to, what); }

char *gq_page_table(const gq_page *page, bool html, gq_error *e) {
    page_sorted p;
    size_t n = 0;
    char *text = page_sort(&p, page, e) ? page_text(write_table, &(table_job){&p.page, html}, &n, e) : NULL;
    free(p.rows);
    return text;
}

char *gq_page_chart(const gq_page *page, gq_error *e) {
    page_sorted p;
    size_t n = 0;
    char *text = page_sort(&p, page, e) ? page_text(write_chart, &p.page, &n, e) : NULL;
    free(p.rows);
    return text;
}

bool gq_page_row_evaluated(gq_page_row *row, const gq_evaluation *v, size_t model, gq_interval storage[2],
                           gq_error *e) {
    size_t n;
    const gq_evaluated *models = gq_evaluation_models(v, &n);
    gq_level level;
    if (model == 0 || model >= n) return gq_fail_usage(e, "a row is of a copy that was evaluated");
    row->evaluated = &models[model];
    if (isnan(models[0].perplexity.value)) return true; /* embeddings have no flips */
    if (!gq_evaluation_interval(v, GQ_DIVERGENCE, model, 0, &storage[0], e) ||
        !gq_evaluation_interval(v, GQ_FLIPS, model, 0, &storage[1], e) ||
        !gq_evaluation_level(v, model, &level, e))
        return false;
    row->apart = &storage[0], row->flips = &storage[1], row->level = gq_level_text(level);
    return true;
}
