/* The table of files, in Markdown or HTML: a row of columns[] for each column, and the notes below it from the
 * template card/notes.template. Names come from files and may hold anything, so markup in them is escaped.
 */
#include "publish/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "publish/chart.h"
#include "publish/recommend.h"
#include "publish/template.h"
#include "publish/text.h"

static int page_compare_rows(const void *left, const void *right) {
    const gq_page_row *a = left, *b = right;
    if (a->file_bytes != b->file_bytes) return a->file_bytes > b->file_bytes ? -1 : 1;
    return strcmp(a->path, b->path);
}

bool page_sort(gq_page *to, const gq_page *from, gq_error *e) {
    if (!SIZED_TAKE(*to, from, e)) return false;
    gq_page_row *rows = calloc(to->n + 1, sizeof *rows);
    if (!rows) { /* the caller's stay the caller's */
        to->rows = NULL;
        return gq_fail_memory(e, (to->n + 1) * sizeof *rows);
    }
    for (size_t i = 0; i < to->n; i++) rows[i] = to->rows[i];
    qsort(rows, to->n, sizeof *rows, page_compare_rows);
    to->rows = rows;
    return true;
}

/* ---- quality ---- */

static double row_upper_end(const gq_interval *i) { return isnan(i->high) ? i->value : i->high; }

/* The row's level of quality; GQ_LEVELS: it was not measured. */
static gq_level row_level(const gq_page_row *row) {
    if (!row->kld || !row->changed_top1) return GQ_LEVELS;
    return gq_level_of(row_upper_end(row->kld), row_upper_end(row->changed_top1));
}

const gq_page_row *page_recommended(const gq_page *p, const char **why) {
    recommendation r = {.at = SIZE_MAX};
    for (size_t i = 0; i < p->n; i++) {
        const gq_page_row *row = &p->rows[i];
        recommend_offer(&r, i,
                        (candidate){row->type ? row->type : "", row->file_bytes, row->bits, row_level(row),
                                    row->bits >= RECOMMEND_WHOLE_BITS});
    }
    bool is_measured = p->evaluation || r.best.level < GQ_LEVELS; /* cosine distances have no level */
    *why = r.at == SIZE_MAX ? ""
           : is_measured    ? recommend_reason(r.best.level)
                            : "the usual choice, which was not measured here";
    return r.at < p->n ? &p->rows[r.at] : NULL;
}

/* ---- columns ---- */

typedef struct table_cell {
    FILE *to;
    bool html;
    const gq_page *page;
    const gq_page_row *row;
    const gq_page_row *recommended; /* NULL: none is marked */
} table_cell;

static void cell_mark(const table_cell *c, const char *between) {
    if (c->row == c->recommended)
        fprintf(c->to, c->html ? "%s<strong>recommended</strong>" : "%s**recommended**", between);
}

/* The file's name, or its type where all files are of one model; in Markdown it is a link to the file beside the
 * page. The recommended file is marked here, if its quality was not measured. */
static void cell_file(const table_cell *c) {
    const char *name = page_file_name(c->row->path), *type = c->row->type;
    const char *shown = c->page->recommends && type && *type != '?' ? type : name;
    if (!c->html) fputc('[', c->to);
    page_write_text(c->to, shown, strlen(shown), c->html);
    if (!c->html) fputs("](", c->to), page_write_link(c->to, name), fputc(')', c->to);
    if (row_level(c->row) >= GQ_LEVELS) cell_mark(c, " ");
}

static void cell_size(const table_cell *c) {
    char size[24];
    fputs(page_size(size, c->row->file_bytes), c->to);
}

static void cell_memory(const table_cell *c) {
    char size[24];
    fputs(page_size(size, c->row->file_bytes + c->page->memory), c->to);
}

static void cell_bits(const table_cell *c) { fprintf(c->to, "%.2f", c->row->bits); }

static void cell_error(const table_cell *c) {
    if (c->row->relative_error >= 0) fprintf(c->to, "%.5f", c->row->relative_error);
}

static void cell_estimate(const table_cell *c, gq_estimate x, int decimals) {
    fprintf(c->to, "%.*f", decimals, x.value);
    if (isfinite(x.error) && x.error > 0) fprintf(c->to, " ±\u00a0%.*f", decimals, x.error);
}

static void cell_kld(const table_cell *c) {
    if (c->row->evaluated)
        cell_estimate(c, c->row->evaluated->kld, page_decimals(fabs(c->row->evaluated->kld.value)));
}

/* As many decimals as half the interval has two digits, as the command prints them. */
static void cell_changed(const table_cell *c) {
    const gq_interval *x = c->row->changed_top1;
    if (!c->row->evaluated) return;
    bool has_ends = x && !isnan(x->low);
    double share = x ? x->value : 1 - c->row->evaluated->top1_agreement.value;
    int decimals = has_ends && x->high > x->low ? page_decimals(50 * (x->high - x->low)) - 1 : 2;
    if (decimals < 0) decimals = 0;
    fprintf(c->to, "%.*f\u00a0%%", decimals, 100 * share);
    if (has_ends)
        fprintf(c->to, " (%.*f\u00a0to\u00a0%.*f)", decimals, 100 * x->low, decimals, 100 * x->high);
}

static void cell_perplexity(const table_cell *c) {
    double error = c->row->evaluated ? c->row->evaluated->perplexity.error : 0;
    if (c->row->evaluated)
        cell_estimate(c, c->row->evaluated->perplexity, error > 0 ? page_decimals(error) : 3);
}

static void cell_mtp(const table_cell *c) {
    if (c->row->evaluated && c->row->evaluated->acceptance.value >= 0)
        fprintf(c->to, "%.2f\u00a0%%", 100 * c->row->evaluated->acceptance.value);
}

static void cell_speed(const table_cell *c, double tokens) {
    if (tokens > 0) fprintf(c->to, "%.*f", tokens < 10 ? 2 : tokens < 100 ? 1 : 0, tokens);
}

static void cell_prompt_speed(const table_cell *c) { cell_speed(c, c->row->reads); }
static void cell_generation_speed(const table_cell *c) { cell_speed(c, c->row->generates); }

static void cell_quality(const table_cell *c) {
    gq_level level = row_level(c->row);
    if (level >= GQ_LEVELS) return;
    fputs(gq_level_word(level), c->to);
    cell_mark(c, ", ");
}

/* The sections of a page, besides its files. */
enum {
    HAS_FILES = 1,
    HAS_MEMORY = 2,
    HAS_ERRORS = 4,
    HAS_KLD = 8,
    HAS_COSINE = 16,
    HAS_MTP = 32,
    HAS_PROMPT_SPEED = 64,
    HAS_GENERATION_SPEED = 128,
    HAS_QUALITY = 256
};

static const struct {
    unsigned needs;
    bool is_number;
    const char *heading;
    void (*write)(const table_cell *c);
} columns[] = {{HAS_FILES, false, "file", cell_file},
               {HAS_QUALITY, false, "quality", cell_quality},
               {HAS_FILES, true, "size", cell_size},
               {HAS_MEMORY, true, "memory", cell_memory},
               {HAS_FILES, true, "bits per weight", cell_bits},
               {HAS_ERRORS, true, "relative error", cell_error},
               {HAS_KLD, true, "KL divergence, nats", cell_kld},
               {HAS_COSINE, true, "cosine distance", cell_kld},
               {HAS_KLD, true, "changed top-1 tokens", cell_changed},
               {HAS_KLD, true, "perplexity", cell_perplexity},
               {HAS_MTP, true, "MTP accepted", cell_mtp},
               {HAS_PROMPT_SPEED, true, "prompt, tokens/s", cell_prompt_speed},
               {HAS_GENERATION_SPEED, true, "generation, tokens/s", cell_generation_speed}};
enum { COLUMNS = sizeof columns / sizeof *columns };

static unsigned page_has(const gq_page *p) {
    unsigned has = HAS_FILES | (p->memory ? HAS_MEMORY : 0);
    if (p->evaluation) has |= isnan(p->base_model->perplexity.value) ? HAS_COSINE : HAS_KLD;
    for (size_t i = 0; i < p->n; i++) {
        const gq_page_row *row = &p->rows[i];
        if (p->evaluation && row->evaluated && row->evaluated->acceptance.value > 0) has |= HAS_MTP;
        if (row->reads > 0) has |= HAS_PROMPT_SPEED;
        if (row->generates > 0) has |= HAS_GENERATION_SPEED;
        if (p->errors && row->relative_error >= 0) has |= HAS_ERRORS;
        if (row_level(row) < GQ_LEVELS) has |= HAS_QUALITY;
    }
    return has;
}

/* Writes a line of the table: the headings, or where c has a row its cells. */
static void table_write_line(const table_cell *c, unsigned has) {
    const char *tag = c->row ? "td" : "th";
    fputs(c->html ? "<tr>" : "|", c->to);
    for (size_t i = 0; i < COLUMNS; i++) {
        if (!(columns[i].needs & has)) continue;
        if (c->html)
            fprintf(c->to, "<%s style=\"text-align:%s\">", tag, columns[i].is_number ? "right" : "left");
        else
            fputc(' ', c->to);
        if (c->row)
            columns[i].write(c);
        else
            fputs(columns[i].heading, c->to);
        if (c->html)
            fprintf(c->to, "</%s>", tag);
        else
            fputs(" |", c->to);
    }
    fputs(c->html ? "</tr>\n" : "\n", c->to);
}

/* ---- notes below the table ---- */

static void table_add_scale(fact_list *l) {
    char scale[512] = "";
    for (gq_level i = 0; i < GQ_SEVERE_LOSS; i++) {
        double kld, changed_top1;
        size_t n = strlen(scale);
        gq_level_limits(i, &kld, &changed_top1);
        snprintf(scale + n, sizeof scale - n, "%s up to %g\u00a0nats and %g\u00a0%%, ", gq_level_word(i), kld,
                 100 * changed_top1);
    }
    fact_add(l, "scale", "%s%s beyond", scale, gq_level_word(GQ_SEVERE_LOSS));
}

enum { FEW_SCORED = 1000 }; /* below it the standard error of a mean KLD is some 5 % or more */

static void table_add_facts(fact_list *l, const gq_page *p, unsigned has) {
    fact_set(l, "kld", has & HAS_KLD), fact_set(l, "cosine", has & HAS_COSINE);
    fact_set(l, "accepts", has & HAS_MTP);
    if (has & HAS_KLD && has & HAS_QUALITY) table_add_scale(l);
    if (p->speed_note) fact_add(l, "speed_note", "%s", p->speed_note);
    if (!p->evaluation) return;
    gq_estimate ppl = p->base_model->perplexity;
    fact_add(l, "base_perplexity", isfinite(ppl.error) && ppl.error > 0 ? "%.2f\u00a0±\u00a0%.2f" : "%.2f",
             ppl.value, ppl.error);
    fact_add(l, "tokens", "%" PRIu64, p->evaluation->tokens);
    fact_add(l, "scored", "%" PRIu64, p->evaluation->scored);
    fact_add(l, "windows", "%" PRIu64, p->evaluation->windows);
    fact_set(l, "few", p->evaluation->scored < FEW_SCORED);
    for (size_t i = 0; i < p->n && !*fact_text(l, "interval"); i++)
        fact_set(l, "interval", p->rows[i].changed_top1 && !isnan(p->rows[i].changed_top1->low));
    fact_add(l, "context", "%" PRIu32, p->evaluation->context);
    fact_set(l, "masked", p->evaluation->masked);
    if (p->evaluation->texts) fact_add(l, "conversations", "%" PRIu64, p->evaluation->texts);
    if (p->base_model->acceptance.value >= 0)
        fact_add(l, "base_accepted", "%.2f %%", 100 * p->base_model->acceptance.value);
}

typedef struct table_job {
    const gq_page *page;
    const char *notes; /* paragraphs, each behind an empty line */
    bool html;
} table_job;

static void table_write(FILE *to, const void *what) {
    const table_job *j = what;
    const char *why;
    unsigned has = page_has(j->page);
    table_cell c = {to, j->html, j->page, NULL, j->page->recommends ? page_recommended(j->page, &why) : NULL};
    if (j->html) fputs("<table>\n", to);
    table_write_line(&c, has);
    for (size_t i = 0; !j->html && i < COLUMNS; i++)
        if (columns[i].needs & has) fputs(columns[i].is_number ? "|---:" : "|---", to);
    fputs(j->html ? "" : "|\n", to);
    for (size_t i = 0; i < j->page->n; i++) c.row = &j->page->rows[i], table_write_line(&c, has);
    if (j->html) fputs("</table>\n", to);
    for (const char *at = j->notes, *end; (end = strstr(at, "\n\n")); at = end + 2)
        fprintf(to, j->html ? "<p>%.*s</p>\n" : "\n%.*s\n", (int)(end - at), at);
}

char *page_table(const gq_page *p, bool html, gq_error *e) {
    size_t n = 0;
    fact_list facts = {.html = html};
    table_add_facts(&facts, p, page_has(p));
    char *notes = template_fill(card_notes, &facts, e);
    char *text = notes ? page_text(table_write, &(table_job){p, notes, html}, &n, e) : NULL;
    fact_free(&facts);
    free(notes);
    return text;
}

/* ---- the public functions ---- */

char *gq_page_table(const gq_page *page, bool html, gq_error *e) {
    gq_page p;
    if (!page_sort(&p, page, e)) return NULL;
    char *text = page_table(&p, html, e);
    free((void *)p.rows);
    return text;
}

char *gq_page_chart(const gq_page *page, gq_error *e) {
    gq_page p;
    if (!page_sort(&p, page, e)) return NULL;
    char *text = page_chart(&p, e);
    free((void *)p.rows);
    return text;
}
