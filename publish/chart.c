/* The chart of KL divergence, or else of the error of weights, against size, as SVG for light and dark pages.
 * Both axes are logarithmic. Names stand beside their points, where the next point leaves room.
 */
#include "publish/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "publish/template.h"
#include "publish/text.h"

/* ---- axes ---- */

enum { WIDTH = 720, HEIGHT = 400, LEFT = 92, RIGHT = 24, TOP = 40, BOTTOM = 60, POINT = 5, NAME_WIDTH = 130 };
enum { NAME_HEIGHT = 22 }; /* of the larger text on phones */

/* One axis: logarithmic, from `low` to `high`. */
typedef struct chart_axis {
    double low, high;
    double from, to; /* in the drawing */
} chart_axis;

static double axis_at(const chart_axis *a, double value) {
    double span = log(a->high / a->low);
    return a->from + (a->to - a->from) * (span > 0 ? log(value / a->low) / span : .5);
}

static double value_of_row(const gq_page_row *row) {
    return row->evaluated ? row->evaluated->kld.value : row->relative_error;
}

/* The size of a file in the chart's unit: megabytes, where no file has a gigabyte. */
static double size_of_row(const gq_page *p, const gq_page_row *row) {
    bool has_gigabytes = p->rows[0].file_bytes >= 1000000000; /* the largest is first */
    return (double)row->file_bytes / (has_gigabytes ? 1e9 : 1e6);
}

static bool is_drawn(const gq_page_row *row) { return value_of_row(row) > 0 && row->file_bytes > 0; }

/* Makes an axis that holds all drawn values, with a tenth of room on both sides. */
static chart_axis axis_of(const gq_page *p, bool upright, double from, double to) {
    chart_axis a = {INFINITY, 0, from, to};
    for (size_t i = 0; i < p->n; i++) {
        double value = upright ? value_of_row(&p->rows[i]) : size_of_row(p, &p->rows[i]);
        if (is_drawn(&p->rows[i])) a.low = fmin(a.low, value), a.high = fmax(a.high, value);
    }
    double room = pow(fmax(a.high / a.low, 1.5), .1);
    a.low /= room, a.high *= room;
    return a;
}

/* Draws a line with its number, unless it lies outside. */
static void draw_line(FILE *to, const chart_axis *a, bool upright, double value) {
    double at = axis_at(a, value);
    if (value < a->low || value > a->high) return;
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

/* Draws lines at equal distances: two to five of them. */
static void draw_even_grid(FILE *to, const chart_axis *a, bool upright) {
    double span = a->high - a->low, step = pow(10, floor(log10(span)));
    if (span / step < 2)
        step /= 5;
    else if (span / step < 4)
        step /= 2;
    for (int k = (int)ceil(a->low / step); k * step <= a->high; k++) draw_line(to, a, upright, k * step);
}

/* Draws lines with their numbers: at 1, 2 and 5 times powers of ten; at powers alone where the axis has many
 * of them, at more where it has hardly one, and at equal distances where that leaves less than two, as with a
 * single file. */
static void draw_grid(FILE *to, const chart_axis *a, bool upright) {
    static const struct {
        int n;
        double steps[8];
    } few = {1, {1}}, usual = {3, {1, 2, 5}}, many = {8, {1, 1.5, 2, 3, 4, 5, 6, 8}},
      *all[] = {&many, &usual, &few};
    double powers = log10(a->high / a->low);
    int density = powers > 3 ? 2 : powers > .7;
    if (powers < .35) {
        draw_even_grid(to, a, upright);
        return;
    }
    for (int power = (int)floor(log10(a->low)); power <= (int)ceil(log10(a->high)); power++)
        for (int i = 0; i < all[density]->n; i++)
            draw_line(to, a, upright, all[density]->steps[i] * pow(10, power));
}

static void draw_points(FILE *to, const gq_page *p, const chart_axis *x, const chart_axis *y) {
    double last_x = -1e9, last_y = -1e9;
    for (size_t i = p->n; i-- > 0;) { /* smallest first */
        const gq_page_row *row = &p->rows[i];
        if (!is_drawn(row)) continue;
        double cx = axis_at(x, size_of_row(p, row)), cy = axis_at(y, value_of_row(row));
        /* Names stand right of their points: left near the edge, or where the next point lies, but above where
         * the axis is left; and below where the last name is. */
        const gq_page_row *next = i > 0 ? row - 1 : NULL;
        bool near = fabs(cy - last_y) < NAME_HEIGHT && cx - last_x < NAME_WIDTH;
        bool crowded = next && is_drawn(next) && fabs(axis_at(y, value_of_row(next)) - cy) < NAME_HEIGHT &&
                       axis_at(x, size_of_row(p, next)) - cx < NAME_WIDTH;
        bool above = crowded && !near && cx < LEFT + NAME_WIDTH;
        bool left = cx > WIDTH - RIGHT - NAME_WIDTH || (crowded && !near && !above);
        double down = near ? NAME_HEIGHT - 4 : above ? -(NAME_HEIGHT - 4) : 0;
        fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"/><text class=\"name\" x=\"%.1f\" y=\"%.1f\"%s>",
                cx, cy, POINT, cx + (left ? -10 : 10), cy + 5 + down, left ? " text-anchor=\"end\"" : "");
        page_write_text(to, row->type, strlen(row->type), true);
        fputs("</text>\n", to);
        if (!left) last_x = cx, last_y = cy + down;
    }
}

bool page_is_chart(const char *text) { return strstr(text, " against size\">\n<style>svg{background:#fff}"); }

static void write_drawing(FILE *to, const void *what) {
    const gq_page *p = what;
    chart_axis x = axis_of(p, false, LEFT, WIDTH - RIGHT), y = axis_of(p, true, HEIGHT - BOTTOM, TOP);
    if (x.high > 0) draw_grid(to, &x, false), draw_grid(to, &y, true), draw_points(to, p, &x, &y);
}

const char *page_measure(const gq_page *p) {
    return !p->evaluation                           ? "Relative error"
           : isnan(p->base_model->perplexity.value) ? "Cosine distance"
                                                    : "KL divergence";
}

char *page_chart(const gq_page *p, gq_error *e) {
    fact_list facts = {.html = true};
    size_t n = 0;
    char *drawing = page_text(write_drawing, p, &n, e);
    if (n) fact_add_text(&facts, "drawing", drawing, n - 1); /* without its last end of line */
    fact_add(&facts, "width", "%d", WIDTH), fact_add(&facts, "height", "%d", HEIGHT);
    fact_add(&facts, "title_x", "%d", LEFT - 72);
    fact_add(&facts, "unit_x", "%d", WIDTH - RIGHT), fact_add(&facts, "unit_y", "%d", HEIGHT - 12);
    fact_add(&facts, "unit", p->n && p->rows[0].file_bytes < 1000000000 ? "MB" : "GB");
    fact_add(&facts, "measure", "%s", page_measure(p));
    fact_add(&facts, "title", "%s %s%s", page_measure(p),
             p->evaluation ? "from the base model" : "of the weights",
             !strcmp(page_measure(p), "KL divergence") ? ", nats" : "");
    char *text = drawing ? template_fill(card_chart, &facts, e) : NULL;
    fact_free(&facts);
    free(drawing);
    return text;
}
