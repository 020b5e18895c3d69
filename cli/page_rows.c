#include "cli/page_rows.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/path.h"
#include "cli/text.h"

/* ---- rows ---- */

static int page_rows_compare(const void *left, const void *right) {
    const page_row *a = left, *b = right;
    if (a->file_bytes != b->file_bytes) return a->file_bytes > b->file_bytes ? -1 : 1;
    return strcmp(a->path, b->path);
}

void page_rows_take(page_rows *p, const gq_evaluation *v) {
    size_t n;
    const gq_evaluated *models = v ? gq_evaluation_models(v, &n) : NULL;
    for (size_t i = 0; models && i < p->n && i + 1 < n; i++) p->rows[i].evaluated = &models[i + 1];
    p->original = models, p->evaluation = v ? gq_evaluation_summary(v) : NULL;
    qsort(p->rows, p->n, sizeof *p->rows, page_rows_compare);
}

page_rows page_rows_of(const report *r) {
    page_rows p = {.n = r->n_outputs};
    size_t n = 0;
    const gq_evaluated *models = r->evaluation ? gq_evaluation_models(r->evaluation, &n) : NULL;
    if (!p.n && n > 1) p.n = n - 1;
    p.rows = need_memory(p.n + 1, sizeof *p.rows);
    for (size_t i = 0; i < p.n; i++) {
        page_row *row = &p.rows[i];
        if (!r->n_outputs) {
            const gq_evaluated *m = &models[i + 1];
            *row = (page_row){m->path, m->filetype, m->file_bytes, 0, m, NAN};
            row->bits = report_bits(m->tensor_bytes, (double)m->n_weights);
            continue;
        }
        const gq_summary *s = r->outputs[i].summary;
        report_totals total = report_total(&r->outputs[i]);
        *row = (page_row){.path = s->path, .type = s->filetype, .file_bytes = s->file_bytes};
        row->bits = report_bits(s->out_bytes, (double)s->n_weights);
        row->relative_error = total.loss.n ? gq_loss_relative(&total.loss) : NAN;
    }
    page_rows_take(&p, r->evaluation);
    return p;
}

/* ---- the table ---- */

void page_write_text(FILE *to, const char *text) {
    for (const char *c = text; *c; c++)
        if (iscntrl((unsigned char)*c))
            fputc(' ', to);
        else
            fprintf(to, strchr("\\`*_{}[]<>#|&", *c) ? "\\%c" : "%c", *c);
}

/* What a file is for, by the bits of a weight. The words follow the measured harm in docs/quality.md. */
static const char *purpose_of(const page_row *row) {
    static const struct {
        double bits;
        const char *words;
    } rows[] = {{12, "the original's precision, to quantize from or to compare with"},
                {7.5, "as good as the original"},
                {6.2, "next to nothing is lost"},
                {5.2, "little is lost; where memory allows"},
                {4.4, "the usual choice"},
                {3.6, "where memory is short; some is lost"},
                {2.8, "where nothing larger fits; a good deal is lost"},
                {0, "the last resort; much is lost"}};
    size_t i = 0;
    while (row->bits < rows[i].bits) i++;
    return rows[i].words;
}

static const char *page_row_name(const page_row *row) { return path_reported(row->path, false); }

/* Digits behind the point of a size in GB: three digits that count. */
static int size_decimals(uint64_t bytes) { return decimals_for((double)bytes / 1e9); }

static void write_estimate(FILE *to, gq_estimate x, double unit) {
    int decimals = decimals_for(fabs(x.value) * unit);
    fprintf(to, " %.*f", decimals, x.value * unit);
    if (isfinite(x.error) && x.error > 0) fprintf(to, " ± %.*f", decimals, x.error * unit);
    fputs(" |", to);
}

static void page_write_row(FILE *to, const page_rows *p, const page_row *row, uint64_t memory) {
    fputs("| [", to), page_write_text(to, page_row_name(row)), fputs("](", to);
    for (const char *c = page_row_name(row); *c; c++) /* as a link has it */
        fprintf(to, isalnum((unsigned char)*c) || strchr("-._~", *c) ? "%c" : "%%%02X", (unsigned char)*c);
    fprintf(to, ") | %.*f |", size_decimals(row->file_bytes), (double)row->file_bytes / 1e9);
    if (memory)
        fprintf(to, " %.*f |", size_decimals(row->file_bytes), (double)(row->file_bytes + memory) / 1e9);
    fprintf(to, " %.2f |", row->bits);
    if (p->evaluation && row->evaluated) {
        write_estimate(to, row->evaluated->divergence, 1);
        fprintf(to, " %.4f | %.2f %% |", row->evaluated->perplexity.value,
                100 * row->evaluated->same_top.value);
    } else if (p->evaluation) {
        fputs(" | | |", to);
    }
    fprintf(to, " %s |\n", purpose_of(row));
}

void page_write_table(FILE *to, const page_rows *p, uint64_t memory) {
    fprintf(to, "| file | size, GB |%s bits per weight |%s for |\n", memory ? " memory, GB |" : "",
            p->evaluation ? " divergence, nats | perplexity | same top token |" : "");
    fprintf(to, "| --- | ---: |%s ---: |%s --- |\n", memory ? " ---: |" : "",
            p->evaluation ? " ---: | ---: | ---: |" : "");
    for (size_t i = 0; i < p->n; i++) page_write_row(to, p, &p->rows[i], memory);
    if (!p->evaluation) return;
    fprintf(
        to,
        "\nThe original's perplexity is %.4f on the same %" PRIu64 " tokens, of which %" PRIu64
        " are scored, in windows of %" PRIu32
        ". Divergence is the mean Kullback-Leibler divergence of a file's next-token probabilities from the "
        "original's: 0 is the same model, and half as much is half the harm. Same top token: how often the "
        "likeliest token is the original's.\n",
        p->original->perplexity.value, p->evaluation->tokens, p->evaluation->scored, p->evaluation->context);
}

/* ---- the chart ---- */

enum { WIDTH = 720, HEIGHT = 400, LEFT = 92, RIGHT = 24, TOP = 40, BOTTOM = 60, POINT = 5, NAME_WIDTH = 110 };

/* One axis: logarithmic, from `low` to `high`. */
typedef struct chart_axis {
    double low, high;
    double from, to; /* in the drawing */
} chart_axis;

static double axis_at(const chart_axis *a, double value) {
    double span = log(a->high / a->low);
    return a->from + (a->to - a->from) * (span > 0 ? log(value / a->low) / span : .5);
}

static double harm_of_row(const page_row *row) {
    return row->evaluated ? row->evaluated->divergence.value : row->relative_error;
}

static bool is_drawn(const page_row *row) { return harm_of_row(row) > 0 && row->file_bytes > 0; }

/* Makes an axis that holds all drawn values, with a tenth of room on both sides. */
static chart_axis axis_of(const page_rows *p, bool harm, double from, double to) {
    chart_axis a = {INFINITY, 0, from, to};
    for (size_t i = 0; i < p->n; i++) {
        double value = harm ? harm_of_row(&p->rows[i]) : (double)p->rows[i].file_bytes / 1e9;
        if (is_drawn(&p->rows[i])) a.low = fmin(a.low, value), a.high = fmax(a.high, value);
    }
    double room = pow(fmax(a.high / a.low, 1.5), .1);
    a.low /= room, a.high *= room;
    return a;
}

/* Draws lines at 1, 2 and 5 times powers of ten, with their numbers. */
static void draw_grid(FILE *to, const chart_axis *a, bool upright) {
    static const double steps[] = {1, 2, 5};
    bool few = log10(a->high / a->low) > 3;
    for (int power = (int)floor(log10(a->low)); power <= (int)ceil(log10(a->high)); power++)
        for (size_t i = 0; i < (few ? 1 : 3); i++) {
            double value = steps[i] * pow(10, power), at = axis_at(a, value);
            if (value < a->low || value > a->high) continue;
            if (upright)
                fprintf(to,
                        "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" "
                        "text-anchor=\"end\">%g</text>\n",
                        LEFT, at, WIDTH - RIGHT, LEFT - 8, at + 4, value);
            else
                fprintf(to,
                        "<path class=\"grid\" d=\"M%.1f %dV%d\"/><text x=\"%.1f\" y=\"%d\" "
                        "text-anchor=\"middle\">%g</text>\n",
                        at, TOP, HEIGHT - BOTTOM, at, HEIGHT - BOTTOM + 20, value);
        }
}

/* Writes a text between tags. */
static void chart_text(FILE *to, const char *text) {
    for (const char *c = text; *c; c++)
        if (strchr("<>&\"", *c))
            fprintf(to, "&#%d;", *c);
        else if (!iscntrl((unsigned char)*c))
            fputc(*c, to);
}

static void draw_points(FILE *to, const page_rows *p, const chart_axis *x, const chart_axis *y) {
    double last_x = -1e9, last_y = -1e9;
    for (size_t i = p->n; i-- > 0;) { /* smallest first */
        const page_row *row = &p->rows[i];
        if (!is_drawn(row)) continue;
        double cx = axis_at(x, (double)row->file_bytes / 1e9), cy = axis_at(y, harm_of_row(row));
        /* Names stand right of their points: left near the edge, or where the next point lies; and below
         * where the last name is. */
        const page_row *next = i > 0 ? row - 1 : NULL;
        bool near = fabs(cy - last_y) < 16 && cx - last_x < NAME_WIDTH;
        bool crowded = next && is_drawn(next) && fabs(axis_at(y, harm_of_row(next)) - cy) < 16 &&
                       axis_at(x, (double)next->file_bytes / 1e9) - cx < NAME_WIDTH;
        bool left = cx > WIDTH - RIGHT - NAME_WIDTH || (crowded && !near);
        fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"/><text class=\"name\" x=\"%.1f\" y=\"%.1f\"%s>",
                cx, cy, POINT, cx + (left ? -10 : 10), cy + 5 + (near ? 14 : 0),
                left ? " text-anchor=\"end\"" : "");
        chart_text(to, row->type);
        fputs("</text>\n", to);
        if (!left) last_x = cx, last_y = cy + (near ? 14 : 0);
    }
}

void page_write_chart(FILE *to, const page_rows *p) {
    size_t drawn = 0;
    for (size_t i = 0; i < p->n; i++) drawn += is_drawn(&p->rows[i]);
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" role=\"img\" "
            "aria-label=\"%s against size\">\n"
            "<style>svg{background:#fff}text{font:16px sans-serif;fill:#444}.name{font-weight:600;fill:#111}"
            ".grid{stroke:#ddd;fill:none}circle{fill:#0b62c4}"
            "@media(prefers-color-scheme:dark){svg{background:#0d1117}text{fill:#b5bdc8}.name{fill:#f0f3f6}"
            ".grid{stroke:#30363d}circle{fill:#58a6ff}}</style>\n",
            WIDTH, HEIGHT, WIDTH, p->evaluation ? "divergence" : "relative error");
    fprintf(to, "<text x=\"%d\" y=\"22\">%s: lower is better</text>\n", LEFT - 72,
            p->evaluation ? "Divergence from the original, nats" : "Relative error of the weights");
    fprintf(to, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">size of the file, GB</text>\n", WIDTH - RIGHT,
            HEIGHT - 12);
    if (drawn) {
        chart_axis x = axis_of(p, false, LEFT, WIDTH - RIGHT), y = axis_of(p, true, HEIGHT - BOTTOM, TOP);
        draw_grid(to, &x, false), draw_grid(to, &y, true);
        draw_points(to, p, &x, &y);
    }
    fputs("</svg>\n", to);
}

/* ---- reports ---- */

void report_markdown(FILE *to, const report *r) {
    page_rows p = page_rows_of(r);
    fputs("# ", to), page_write_text(to, path_reported(r->input, false)), fputs("\n\n", to);
    page_write_table(to, &p, 0);
    fprintf(to, "\ngquant %s (%s)\n", gq_version(), gq_build());
    if (r->n_warnings) fputs("\nWarnings:\n\n", to);
    for (size_t i = 0; i < r->n_warnings; i++)
        fputs("- ", to), page_write_text(to, r->warnings[i]), fputc('\n', to);
    free(p.rows);
}

void report_svg(FILE *to, const report *r) {
    page_rows p = page_rows_of(r);
    page_write_chart(to, &p);
    free(p.rows);
}
