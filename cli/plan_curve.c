#include "cli/plan_curve.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "cli/table.h"
#include "cli/text.h"

static bool curve_add(curve *c, const gq_options *options, uint64_t memory, uint64_t bytes, gq_error *e) {
    gq_options o = *options;
    gq_output out = *options->outputs;
    out.filetype = NULL, out.target.size = bytes;
    o.outputs = &out, o.n_outputs = 1;
    gq_plan *plan = gq_plan_new(&o, e);
    if (!plan) return false;
    c->points = need_next(c->points, c->n, sizeof *c->points);
    c->points[c->n++] = (curve_point){memory, bytes, gq_plan_summary(plan, 0)->expected};
    gq_plan_free(plan);
    return true;
}

static int curve_compare(const void *left, const void *right) {
    const curve_point *a = left, *b = right;
    return a->file_bytes < b->file_bytes ? -1 : a->file_bytes > b->file_bytes;
}

bool curve_fill(curve *c, const gq_options *options, uint64_t beside, uint64_t least, uint64_t most,
                gq_error *e) {
    enum { STEPS = 8 };
    static const unsigned gigabytes[] = {4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256};
    bool ok = true;
    *c = (curve){.n = 0};
    for (int i = 0; ok && i <= STEPS; i++) {
        double size = (double)least * pow((double)most / (double)least, (double)i / STEPS);
        ok = curve_add(c, options, 0, (uint64_t)size, e);
    }
    for (size_t i = 0; ok && i < sizeof gigabytes / sizeof *gigabytes; i++) {
        uint64_t memory = gigabytes[i] * UINT64_C(1000000000);
        if (memory > beside + least && memory < beside + most)
            ok = curve_add(c, options, memory, memory - beside, e);
    }
    qsort(c->points, c->n, sizeof *c->points, curve_compare);
    return ok;
}

void curve_print(const curve *c) {
    table t;
    char size[UNIT_ROOM];
    table_start(&t, "rrl");
    table_row(&t, (const char *const[]){"--target-size", "divergence", ""});
    for (size_t i = 0; i < c->n; i++) {
        const curve_point *p = &c->points[i];
        table_cell(&t, text_format("%" PRIu64 "K", p->file_bytes / 1000));
        table_cell(&t, isnan(p->expected) ? text_format("-") : text_format("%.4g", p->expected));
        table_cell(&t, p->memory ? text_format("for a machine of %s", size_text(size, (double)p->memory))
                                 : text_format("%s", ""));
    }
    table_print(&t, stdout);
    table_free(&t);
}
