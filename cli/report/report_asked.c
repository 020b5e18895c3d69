#include <inttypes.h>

#include "cli/cli.h"

static char *depth_text(const gq_depth *d) {
    char from[UNIT_ROOM], end[UNIT_ROOM];
    if (d->to == UINT32_MAX) return text_format("above %s", count_text(from, d->from));
    return text_format("%s to %s", count_text(from, d->from + (d->from > 0)), count_text(end, d->to));
}

/* Figures by how many tokens a position is predicted from, where there are several depths. */
void report_print_depths(FILE *to, const report *r, const gq_evaluated *models, size_t n) {
    gq_depth depths[GQ_DEPTHS];
    table out;
    if (gq_evaluation_depths(r->evaluation, 0, depths) < 2) return;
    table_start(&out, "llrrrr",
                (const char *const[]){"model", "tokens before", "scored", "perplexity", "KL divergence",
                                      "changed top-1"});
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0, all = gq_evaluation_depths(r->evaluation, i, depths); d < all; d++) {
            table_name(&out, report_named(r, models[i].path));
            table_cell(&out, depth_text(&depths[d]));
            table_cell(&out, text_format("%" PRIu64, depths[d].scored));
            table_cell(&out, text_format("%.4f", depths[d].perplexity));
            table_cell(&out, i ? kld_text(depths[d].kld) : text_format("-"));
            table_cell(&out, i ? text_format("%.2f %%", 100 * depths[d].changed_top1) : text_format("-"));
        }
    table_end_below(&out, to);
}

void report_print_continued(FILE *to, const report *r, const gq_evaluated *models, size_t n) {
    gq_continued c;
    table out;
    if (n < 2 || !gq_evaluation_continued(r->evaluation, 1, &c)) return;
    table_start(&out, "lrrr",
                (const char *const[]){"file", "prompts", "the same 32 tokens, %",
                                      "same tokens before parting, mean"});
    for (size_t i = 1; i < n && gq_evaluation_continued(r->evaluation, i, &c); i++) {
        table_name(&out, report_named(r, models[i].path));
        table_cell(&out, text_format("%" PRIu64, c.prompts));
        table_cell(&out, interval_text(&c.same, 100));
        table_cell(&out, text_format("%.1f", c.mean));
    }
    table_end_below(&out, to);
}

void report_print_chosen(FILE *to, const report *r, const gq_evaluated *models, size_t n) {
    gq_chosen c;
    table out;
    if (!gq_evaluation_chosen(r->evaluation, 0, &c)) return;
    table_start(&out, "lrrrrr",
                (const char *const[]){"model", "right", "accuracy, %", "lost", "gained",
                                      "more than the base model, points"});
    for (size_t i = 0; i < n && gq_evaluation_chosen(r->evaluation, i, &c); i++) {
        table_name(&out, report_named(r, models[i].path));
        table_cell(&out, text_format("%" PRIu64 " of %" PRIu64, c.right, c.questions));
        table_cell(&out, interval_text(&c.accuracy, 100));
        table_cell(&out, i ? text_format("%" PRIu64, c.lost) : text_format("-"));
        table_cell(&out, i ? text_format("%" PRIu64, c.gained) : text_format("-"));
        table_cell(&out, i ? interval_text(&c.more, 100) : text_format("-"));
    }
    table_end_below(&out, to);
}

void report_print_drafted(FILE *to, const report *r, const gq_evaluated *models, size_t n) {
    gq_drafted d;
    table out;
    if (!gq_evaluation_drafted(r->evaluation, 0, &d)) return;
    table_start(
        &out, "lr1r2r2r2r",
        (const char *const[]){"accepts of the draft", "first choice, %", "1 token: length", "2", "3", "4"});
    for (size_t i = 0; i < n && gq_evaluation_drafted(r->evaluation, i, &d); i++) {
        table_name(&out, report_named(r, models[i].path));
        table_cell(&out, interval_text(&d.first, 100));
        for (size_t k = 0; k < GQ_DRAFTED; k++) table_cell(&out, interval_text(&d.length[k], 1));
    }
    table_end_below(&out, to);
}
