#include "study/calibrate/calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "quantize/strips/strips.h"

/* ---- memory ---- */

/* Choices that are looked at: the base model's, and the rounded model's with the router as it was and fitted. */
enum { CHOICES = 3 };

/* The router in both forms, and the gates of a batch. */
typedef struct router_fit {
    const round_task *task;
    const model_tensor *tensor;
    const tensor_type *to;
    size_t n_weights, bytes; /* bytes: of the blocks */
    void *raw, *fitted;      /* as it is stored in the input; blocks of the fit */
    float *w;
    double *z;
    float *gates; /* [expert][token] of a batch: the base model's */
    size_t batch_tokens;
    double all;                /* of the gates of held-out tokens: the base model's */
    double *of_window;         /* [choice][window]: sums of the gates of a window's held-out tokens */
    size_t windows;            /* of the text, in all loops */
    size_t window, place;      /* the batch's first one: its number in the text, and its place in of_window */
    const forward_mark *marks; /* of the batch's tokens; NULL: all count alike */
    size_t choice;             /* number of the choice; 0: the base model's */
} router_fit;

static void lay_out_fit(router_fit *f, memory_ledger *l) {
    uint64_t n = shape_elements(f->tensor->ne);
    f->raw = memory_take(l, 1, f->tensor->size);
    f->fitted = memory_take(l, n, sizeof(float));
    f->w = memory_take(l, n, sizeof *f->w);
    f->z = memory_take(l, n, sizeof *f->z);
    f->gates = memory_take(l, mul_sat(f->tensor->ne[1], f->batch_tokens), sizeof *f->gates);
    f->of_window = memory_take_zeros(l, mul_sat(CHOICES, f->windows), sizeof *f->of_window);
}

static void free_fit(router_fit *f) {
    free(f->raw), free(f->fitted), free(f->w), free(f->z), free(f->gates), free(f->of_window);
}

uint64_t router_bytes(const calibration_settings *s, const model_tensor *tensor, size_t windows) {
    memory_ledger l = {.counts = true};
    lay_out_fit(&(router_fit){.tensor = tensor,
                              .batch_tokens = mul_sat(windows, s->context),
                              .windows = mul_sat(s->windows, s->loops)},
                &l);
    return add_sat(l.bytes, output_bytes(0));
}

/* ---- the routing ---- */

static bool token_is_held(const router_fit *f, size_t token) {
    const calibration_settings *s = &f->task->c->of->settings;
    return calibration_is_held(s, f->window + token / s->context);
}

/* Gets what is chosen for each expert; nothing of the expert is computed. A window's sum is one chain in the
 * order of experts, then of tokens, however many windows are in memory at once. */
static forward_answer on_experts(void *data, const forward_inputs *in, gq_error *e) {
    router_fit *f = data;
    float *of_expert = f->gates + in->matrix * f->batch_tokens;
    (void)e;
    if (!in->routed || in->late) return FORWARD_ON;
    for (size_t i = 0; i < in->tokens; i++) {
        size_t t = in->token ? in->token[i] : i;
        float gate = in->gate ? in->gate[i] : 1;
        if (!token_is_held(f, t)) continue;
        if (f->choice == 0) of_expert[t] = gate;
        double weight = f->marks ? (double)f->marks[t].weight / FORWARD_WEIGHT_ONE : 1;
        f->of_window[f->choice * f->windows + f->place + t / f->task->c->of->settings.context] +=
            weight * (double)(gate < of_expert[t] ? gate : of_expert[t]);
    }
    return FORWARD_SKIP;
}

static bool router_probe_choice(router_fit *f, size_t batch, size_t choice, gq_error *e) {
    const calibrator *c = f->task->c;
    forward_observer observer = {.on_inputs = on_experts, .data = f};
    f->choice = choice;
    forward_layer_use(c->at.layer, choice > 0);
    return forward_stream_probe(choice ? c->rounded[c->at.output] : c->base, batch, c->at.layer,
                                c->at.sublayers, &observer, NULL, e);
}

static bool batch_has_held(const router_fit *f, size_t batch) {
    const calibration *of = f->task->c->of;
    size_t first = forward_stream_first(f->task->c->base, batch);
    for (size_t i = first; i < first + of->text.bounds.batch && i < of->text.job.windows; i++)
        if (calibration_is_held(&of->settings, of->text.first_window + i)) return true;
    return false;
}

/* Probes this rank's windows. */
static bool router_probe_choices(router_fit *f, gq_error *e) {
    const calibrator *c = f->task->c;
    const calibration *of = c->of;
    const void *blocks[] = {NULL, f->task->blocks_copy, f->fitted};
    for (size_t i = 0; !of->text.idle && i < forward_stream_batches(c->base); i++) {
        f->window = of->text.first_window + forward_stream_first(c->base, i);
        f->marks = forward_job_marks(&of->text.job, forward_stream_first(c->base, i));
        f->place = forward_stream_loop(c->base, i) * of->text.all_windows + f->window;
        if (!batch_has_held(f, i)) continue;
        memset(f->gates, 0, f->tensor->ne[1] * f->batch_tokens * sizeof *f->gates);
        for (size_t choice = 0; choice < CHOICES; choice++) {
            if (choice) forward_layer_replace(c->at.layer, f->tensor, f->to->id, blocks[choice]);
            if (!router_probe_choice(f, i, choice, e)) return false;
        }
    }
    return true;
}

/* Gives all ranks the sums of all windows. */
static bool share_choices(const router_fit *f, gq_error *e) {
    const calibration *of = f->task->c->of;
    bool ok = true;
    for (size_t i = 0; ok && i < CHOICES * forward_job_loops(&of->text.job); i++)
        ok = windows_gather(of->text.comm, of->text.all_windows, of->settings.context,
                            f->of_window + i * of->text.all_windows, sizeof *f->of_window, e);
    return ok;
}

/* kept[0]: with the router as it was; kept[1]: fitted. Both as shares of the base model's gates. */
static bool compare_choices(router_fit *f, double kept[2], gq_error *e) {
    double sums[CHOICES] = {0};
    if (!router_probe_choices(f, e) || !share_choices(f, e)) return false;
    for (size_t i = 0; i < CHOICES * f->windows; i++) sums[i / f->windows] += f->of_window[i];
    f->all = sums[0];
    for (int way = 0; way < 2; way++) kept[way] = f->all > 0 ? sums[1 + way] / f->all : 0;
    return true;
}

/* ---- the fit ---- */

/* Makes blocks of what f->w holds. */
static bool encode_router(const router_fit *f, void *blocks, gq_error *e) {
    const calibration *of = f->task->c->of;
    strip_encoder with = {.kernels = of->kernels, .type = f->to, .settings = of->encoding};
    size_t bad = strip_beyond(&with, f->w, f->n_weights);
    if (bad < f->n_weights) return strip_fail_to_hold(&with, of->file, f->tensor, bad, f->w[bad], e);
    of->kernels->codecs[f->to->id].encode(f->w, blocks, f->tensor->ne[1], f->tensor->ne[0], NULL,
                                          of->encoding);
    return true;
}

/* *usable: the fit has numbers that the type holds. */
static bool make_fit(router_fit *f, bool *usable, gq_error *e) {
    const round_task *t = f->task;
    const calibration *of = t->c->of;
    strip_encoder with = {.kernels = of->kernels, .type = f->to};
    if (!strip_read_decoded(of->kernels, of->file, f->tensor, 0, f->n_weights, f->raw, f->w, e) ||
        !encode_router(f, t->blocks_copy, e))
        return false;
    *usable = t->factored->n_runs > 0 && t->held > 0;
    if (!*usable) return true;
    refit_rows(t->factored, matmul_pool(t->c->products), NULL, f->w, f->tensor->ne[1], f->z);
    *usable = of->kernels->first_not_finite(f->w, f->n_weights) == f->n_weights &&
              strip_beyond(&with, f->w, f->n_weights) == f->n_weights;
    return !*usable || encode_router(f, f->fitted, e);
}

static bool compare_outputs(const router_fit *f, output_errors *errors, gq_error *e) {
    const round_task *t = f->task;
    size_t rows = f->tensor->ne[1], columns = f->tensor->ne[0];
    matmul_weights was = {t->blocks_copy, f->to->id, rows, columns}, is = was;
    is.data = f->fitted;
    output_side base = {.weights = was, .x = t->base, .stride = t->stride};
    output_side rounded[] = {{.weights = was, .x = t->rounded, .stride = t->stride},
                             {.weights = is, .x = t->rounded, .stride = t->stride}};
    size_t n = ceil_div(rows, OUTPUT_SPAN);
    output_errors *spans = calloc(n, sizeof *spans);
    bool ok = spans ? output_compare(t->c->products, &base, rounded, 2, t->held, spans, e)
                    : gq_fail_memory(e, n * sizeof *spans);
    if (ok) output_errors_add(errors, spans, n);
    free(spans);
    return ok;
}

static void sum_up(const router_fit *f, calibrate_figures *sums, const output_errors *errors,
                   const double kept[2], bool fits) {
    calibrate_step_figures *step = &sums->steps[CALIBRATE_ROUTER];
    const cholesky *m = f->task->factored;
    sums->matrices++, sums->plain += !fits, sums->unchecked += f->task->held == 0;
    sums->power += errors->power, sums->plain_error += errors->error[0], sums->written += errors->error[fits];
    sums->tokens = m->tokens, sums->damp = m->damp;
    step->matrices++, step->kept += fits, step->compared += f->all > 0;
    step->without += (1 - kept[0]) * (1 - kept[0]);
    step->with += fits ? (1 - kept[1]) * (1 - kept[1]) : (1 - kept[0]) * (1 - kept[0]);
}

static bool write_router(router_fit *f, calibrate_figures *sums, round_reason *why, gq_error *e) {
    const round_task *t = f->task;
    const rounding_store *store = &t->c->of->store;
    output_errors errors = {0};
    double kept[2] = {1, 1};
    bool usable;
    if (!make_fit(f, &usable, e)) return false;
    if (usable && (!compare_choices(f, kept, e) || !compare_outputs(f, &errors, e))) return false;
    bool fits = usable && kept[1] > kept[0] && errors.error[1] < errors.error[0];
    if (fits) memcpy(t->blocks_copy, f->fitted, f->bytes);
    sum_up(f, sums, &errors, kept, fits);
    *why = fits ? ROUND_CALIBRATED : usable ? ROUND_WORSE : ROUND_UNCHECKED;
    return store->write(store->data, t->c->at.output, t->tensor, 0, t->blocks_copy, f->bytes, e);
}

bool router_refit(const round_task *t, calibrate_figures *sums, round_reason *why, gq_error *e) {
    const calibration *of = t->c->of;
    const model_tensor *tensor = of->tensors[t->tensor];
    memory_ledger l = {.failed = false};
    router_fit f = {.task = t,
                    .tensor = tensor,
                    .to = tensor_type_of(of->outputs[t->c->at.output][t->tensor].to),
                    .n_weights = shape_elements(tensor->ne),
                    .batch_tokens = of->text.bounds.batch * of->settings.context,
                    .windows = of->text.all_windows * forward_job_loops(&of->text.job)};
    f.bytes = tensor_type_bytes(f.to, f.tensor->ne[0], f.n_weights);
    lay_out_fit(&f, &l);
    bool ok = memory_had(&l, e) && write_router(&f, sums, why, e);
    free_fit(&f);
    return ok;
}
