#include "cli/plan_fallbacks.h"

#include <inttypes.h>
#include <stdlib.h>

#include "cli/report/table.h"
#include "cli/text.h"

enum { TYPES = 64 };

/* Of an output: tensors whose rows the blocks of their type do not fit, by the type that they get. */
typedef struct fallbacks {
    size_t n[TYPES];
    uint64_t columns; /* of a row of the first of them; 0: there is none */
    uint32_t wanted;  /* by the first of them */
    double bits;      /* that all of them add to a weight */
} fallbacks;

static fallbacks fallbacks_of(const gq_plan *plan) {
    fallbacks f = {.columns = 0};
    const gq_summary *s = gq_plan_summary(plan, 0);
    size_t n;
    const gq_tensor *t = gq_plan_tensors(plan, 0, &n);
    for (size_t i = 0; i < n; i++) {
        if (t[i].wanted == t[i].to || t[i].to >= TYPES) continue;
        if (!f.columns) f.columns = t[i].ne[0], f.wanted = t[i].wanted;
        f.n[t[i].to]++;
    }
    if (s->n_weights) f.bits = 8 * (double)s->fallback_bytes / (double)s->n_weights;
    return f;
}

/* "IQ4_NL in 180 tensors, Q5_0 in 30" */
static char *fallbacks_text(const fallbacks *f) {
    char *text = NULL;
    for (uint32_t k = 0; k < TYPES; k++) {
        if (!f->n[k]) continue;
        char *longer =
            text ? text_format("%s, %s in %zu", text, gq_type_name(k), f->n[k])
                 : text_format("%s in %zu tensor%s", gq_type_name(k), f->n[k], f->n[k] == 1 ? "" : "s");
        free(text), text = longer;
    }
    return text ? text : text_format("%s", "");
}

static gq_plan *plan_of_choice(const request *r, const gq_model *m, const char *unwritten,
                               const gq_choice *c) {
    gq_error unused;
    gq_options o = r->quantize;
    gq_output out = {.path = unwritten, .filetype = c->name};
    o.input = r->arguments[0], o.model = m, o.outputs = &out, o.n_outputs = 1;
    o.force = o.dry_run = o.allow_requantize = true, o.assume_importance = c->needs_importance;
    return gq_plan_new(&o, &unused);
}

static void fallbacks_print_end(table *t, const fallbacks *first) {
    print_wrapped(stdout, "");
    print_line(stdout,
               "Rows of %" PRIu64
               " weights are no multiple of the blocks of %s and its like, so these tensors get "
               "other types, and files are larger than their type's name says:",
               first->columns, gq_type_name(first->wanted));
    table_end(t, stdout);
}

void fallbacks_print(const request *r, const gq_choice *choices, size_t n) {
    const double least = .01; /* of a file, below which nobody asks why */
    gq_error unused;
    gq_model *m = gq_model_open_adapted(r->arguments[0], &r->quantize.adapters, &unused);
    char *unwritten = text_format("%s.gquant-plan", r->arguments[0]);
    fallbacks first = {.columns = 0};
    table t;
    table_start(&t, "lrl", (const char *const[]){"TYPE", "adds bpw", "in place of its own types"});
    for (size_t i = 0; m && i < n; i++) {
        gq_plan *plan = plan_of_choice(r, m, unwritten, &choices[i]);
        fallbacks f = plan ? fallbacks_of(plan) : (fallbacks){.columns = 0};
        gq_plan_free(plan);
        if (f.bits <= least * choices[i].bits || *choices[i].made_for) continue;
        if (!first.columns) first = f;
        table_text(&t, choices[i].name);
        table_cell(&t, text_format("%.3f", f.bits));
        table_cell(&t, fallbacks_text(&f));
    }
    if (first.columns)
        fallbacks_print_end(&t, &first);
    else
        table_free(&t);
    free(unwritten);
    gq_model_close(m);
}
