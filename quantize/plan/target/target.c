/* A size instead of a name: types are chosen from what they cost each tensor, until the file has the size
 * asked for. docs/internals/mixes.md says how errors of different tensors compare.
 */
#include "quantize/plan/target/target.h"
#include "base/checked.h"
#include "base/units.h"
#include "quantize/plan/rounding.h"
#include "quantize/quantize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/comm/ranks.h"
#include "base/fail.h"
#include "base/name_index.h"
#include "base/relay.h"

static gq_target target_of(const gq_options *o, size_t output) { return o->outputs[output].target; }

bool plan_has_target(const gq_options *o, size_t output) {
    gq_target asked = target_of(o, output);
    return asked.size > 0 || asked.bpw != 0 || o->outputs[output].size_of;
}

static bool target_check_request(const gq_options *o, size_t output, gq_error *e) {
    gq_target asked = target_of(o, output);
    const char *filetype = o->outputs[output].filetype;
    if (asked.bpw != 0 && !(asked.bpw > 0 && asked.bpw <= 64))
        return gq_fail_usage(e, "target: %g bits per weight, expected more than 0 and less than 64",
                             asked.bpw);
    if ((asked.size > 0) + (asked.bpw > 0) + (o->outputs[output].size_of != NULL) > 1)
        return gq_fail_usage(e, "target: set a size or a number of bits per weight, not both");
    return !filetype ||
           gq_fail_usage(e, "a target takes the place of the file type, so %s cannot be asked for as well",
                         filetype);
}

bool plan_check_target(const gq_options *o, gq_error *e) {
    for (size_t i = 0; i < o->n_outputs; i++)
        if (plan_has_target(o, i) && !target_check_request(o, i, e)) return false;
    return true;
}

void plan_target_label(const gq_options *o, size_t output, char label[32]) {
    static const char units[] = {'B', 'K', 'M', 'G', 'T', 'P', 'E'};
    gq_target asked = target_of(o, output);
    double size = (double)asked.size;
    size_t i = 0;
    const char *size_of = o->outputs[output].size_of;
    const mix_named_recipe *named = size_of ? mix_recipe_named(size_of) : NULL;
    const mix_filetype *type = size_of ? mix_filetype_named(size_of) : NULL;
    if (size_of) {
        snprintf(label, 32, "%s-size", named ? named->name : type ? type->name : "");
        return;
    }
    for (; size >= 999.95 && i + 1 < sizeof units; i++) size /= 1000;
    if (asked.size)
        snprintf(label, 32, "%.4g%c%s", size, units[i], i ? "B" : "");
    else
        snprintf(label, 32, "%.4gbpw", asked.bpw);
}

/* ---- what there is to choose from ---- */

typedef struct target {
    gq_plan *plan;
    plan_assignment *a;
    const gq_options *options;
    size_t output;   /* the one whose types are chosen now */
    gq_target asked; /* and what is asked for it */
    bool *free;      /* no option or rule has fixed the type */
    uint32_t *fixed; /* the type of the others */
    bool *needed;    /* measured: the free ones and their outlets */
    size_t *outlets; /* of each tensor, the one through which it acts on the rest of the model; or itself */
    name_index by_name; /* of a->tensors */
    mix_uses uses;
    measured *found;     /* per tensor */
    size_t trial_layers; /* of a calibrated plan: whose tensors are tried one by one */
    budget_tensor *tensors;
    budget_candidate *candidates;
    size_t *choice;
} target;

enum { CANDIDATES = BUDGET_TYPES + 1 };

static bool find_tensor(const target *t, const char *name, uint64_t *i) {
    return name_index_find(&t->by_name, t->a->tensors, sizeof *t->a->tensors, name, i);
}

static bool target_new(target *t, gq_plan *plan, plan_assignment *a, const gq_options *options, gq_error *e) {
    size_t n = plan->n_tensors + 1;
    uint64_t output;
    *t = (target){.plan = plan, .a = a, .options = options};
    t->free = calloc(n, sizeof *t->free);
    t->fixed = calloc(n, sizeof *t->fixed);
    t->needed = calloc(n, sizeof *t->needed);
    t->outlets = calloc(n, sizeof *t->outlets);
    t->found = calloc(n, sizeof *t->found);
    t->tensors = calloc(n, sizeof *t->tensors);
    t->candidates = calloc(n, CANDIDATES * sizeof *t->candidates);
    t->choice = calloc(n, sizeof *t->choice);
    if (!name_index_all(&t->by_name, a->tensors, sizeof *a->tensors, plan->n_tensors, e)) return false;
    t->uses = (mix_uses){.n_expert = a->model.n_expert,
                         .experts_used = mix_experts_used(&plan->facts),
                         .tied = !find_tensor(t, "output.weight", &output)};
    return (t->free && t->fixed && t->needed && t->outlets && t->found && t->tensors && t->candidates &&
            t->choice) ||
           gq_fail_memory(e, n * CANDIDATES * sizeof *t->candidates);
}

/* Returns the types that the last plan_assign gave the output's tensors. */
static const mix_choice *choices_of(const target *t) {
    return t->a->choices + t->output * t->plan->n_tensors;
}

static size_t find_outlet(const target *t, size_t i) {
    char name[GGUF_MAX_NAME + 1];
    uint64_t k;
    for (size_t o = 0; mix_outlet(t->plan->sources[i].name, o, name); o++)
        if (find_tensor(t, name, &k)) return k;
    return i;
}

/* F16 fits any row, so with it everywhere nothing falls back, and each tensor shows what decides its type:
 * the same in every output. */
static bool find_free(target *t, gq_error *e) {
    plan_output *out = &t->plan->outputs[t->output];
    const mix_filetype *own = out->filetype;
    mix_pattern *recipe = out->recipe;
    size_t n = t->plan->n_tensors;
    out->filetype = mix_filetype_named("F16"), out->recipe = NULL; /* as all that have a target */
    for (size_t i = 0; i < n; i++) t->a->types[i] = GGUF_F16;
    t->a->options.types = t->a->types;
    bool ok = plan_assign(t->plan, t->a, t->output, e);
    out->filetype = own, out->recipe = recipe;
    if (!ok) return false;
    for (size_t i = 0; i < n; i++) {
        t->free[i] = choices_of(t)[i].reason == MIX_GIVEN;
        t->fixed[i] = choices_of(t)[i].type;
        t->outlets[i] = t->free[i] ? find_outlet(t, i) : i;
        if (t->free[i]) t->needed[i] = t->needed[t->outlets[i]] = true;
    }
    return true;
}

static bool keep_measurements(const target *t, const char *path, const char *key, gq_error *e) {
    if (!comm_is_first(t->plan->comm)) return true;
    return plan_check_inputs(t->plan, t->options, path, e) && measure_write(t->plan, path, key, t->found, e);
}

/* Sources forget what measuring needed: a calibrated run knows more. */
static void drop_sample(gq_plan *plan) {
    for (size_t i = 0; i < plan->n_tensors; i++) {
        plan_source *s = &plan->sources[i];
        s->covered = false, s->inputs = (tensor_inputs){.columns = 0}, s->inputs_digest = 0;
    }
    model_inputs_free(&plan->inputs);
}

static bool cover_needed(target *t, gq_error *e) {
    for (size_t i = 0; i < t->plan->n_tensors; i++)
        if (t->needed[i] && !plan_cover_source(t->plan, &t->plan->sources[i], t->options, e)) return false;
    return true;
}

/* Whether a rank measures a tensor, which is the k-th of those that are needed. */
static bool is_of_rank(const gq_comm *comm, size_t k, int rank) {
    return k % (size_t)gq_comm_ranks(comm) == (size_t)rank;
}

/* Gives all ranks what each has measured. */
static bool share_measurements(target *t, gq_error *e) {
    gq_comm *comm = t->plan->comm;
    size_t n = t->plan->n_tensors;
    measured *all = calloc(n + 1, sizeof *all);
    bool ok = all || gq_fail_memory(e, n * sizeof *all);
    for (int r = 0; ok && r < gq_comm_ranks(comm); r++) {
        memcpy(all, t->found, n * sizeof *all);
        ok = comm_broadcast_from(comm, r, all, n * sizeof *all, e);
        for (size_t i = 0, k = 0; ok && i < n; i++)
            if (t->needed[i] && is_of_rank(comm, k++, r)) t->found[i] = all[i];
    }
    free(all);
    return ok;
}

/* Measures the tensors that are needed; of ranks each some of them. */
static bool measure_with_ranks(target *t, const gq_callbacks *callbacks, bool *fresh, gq_error *e) {
    gq_plan *plan = t->plan;
    if (gq_comm_ranks(plan->comm) == 1)
        return measure_tensors(plan, t->needed, t->found, fresh, callbacks, e);
    bool *own = calloc(plan->n_tensors + 1, sizeof *own);
    bool ok = own || gq_fail_memory(e, plan->n_tensors);
    for (size_t i = 0, k = 0; ok && i < plan->n_tensors; i++)
        own[i] = t->needed[i] && is_of_rank(plan->comm, k++, gq_comm_rank(plan->comm));
    ok = ok && measure_tensors(plan, own, t->found, fresh, callbacks, e) && share_measurements(t, e);
    *fresh = true;
    free(own);
    return ok;
}

/* With a calibration trials depend on all that was measured, so a file that lacks anything counts for
 * nothing. */
static bool measure_all(target *t, bool *fresh, gq_error *e) {
    gq_plan *plan = t->plan;
    const gq_callbacks *callbacks = t->options->callbacks;
    if (measure_known(plan, t->needed, t->found)) return true;
    const measurement *trials_of = measure_trials(plan);
    if (!trials_of) return measure_with_ranks(t, callbacks, fresh, e);
    memset(t->found, 0, plan->n_tensors * sizeof *t->found);
    job_progress job;
    trials_forecast seconds = trials_of->forecast(plan, t->needed, t->trial_layers, t->options->forecast);
    double measuring = measure_seconds(plan, t->needed, t->found) / gq_comm_ranks(plan->comm),
           trials = seconds.layers + seconds.head;
    job_progress_begin(&job, callbacks, seconds.sample + measuring + trials);
    if (seconds.expected > 0) job.expected = seconds.expected + measuring;
    bool ok = trials_of->sample(plan, &plan->inputs, job_progress_stage(&job, seconds.sample), e) &&
              cover_needed(t, e) && measure_with_ranks(t, job_progress_stage(&job, measuring), fresh, e) &&
              trials_of->trials(plan, t->needed, t->trial_layers, t->found, job_progress_stage(&job, trials),
                                &seconds, e);
    if (ok) job_progress_end(&job);
    drop_sample(plan);
    trials_of->end(); /* the rounding's memory was computed without all this */
    return ok;
}

/* Sets how many layers' tensors are tried, and warns where memory holds no trial. */
static bool decide_trials(target *t, gq_error *e) {
    gq_plan *plan = t->plan;
    uint64_t least;
    if (!measure_trials(plan)) return true;
    if (!measure_trials(plan)->decide_layers(plan, t->needed, &t->trial_layers, &least, e)) return false;
    return t->trial_layers || !least ||
           warnings_add(&plan->warnings, e,
                        "trials need %llu MiB of memory, which is more than the limit; types are chosen by "
                        "estimated sensitivity instead",
                        LLU(least >> 20) + 1);
}

/* Measure what no earlier run has, and keep it. */
static bool target_measure(target *t, gq_error *e) {
    gq_plan *plan = t->plan;
    const char *asked = t->options->measure_file;
    gq_error why;
    char key[MEASURE_KEY],
        *path = asked ? strdup(asked)
                      : input_kept_path(plan_input(plan), &t->options->adapters, GQ_MEASURE_SUFFIX, NULL);
    if (!path) return gq_fail_memory(e, strlen(plan_input(plan)) + 32);
    bool ok = decide_trials(t, e) && (!asked || !*asked || measure_may_replace(path, e)), fresh = false;
    measure_key(plan, t->needed, t->trial_layers, key);
    ok = ok && (measure_trials(plan) || cover_needed(t, e)); /* which types apply depends on it */
    if (ok && comm_is_first(plan->comm)) measure_read(plan, path, key, t->found);
    ok = ok && comm_broadcast(plan->comm, t->found, plan->n_tensors * sizeof *t->found, e) &&
         measure_all(t, &fresh, e);
    bool keep = ok && *path;
    if (keep && fresh && !keep_measurements(t, path, key, &why)) {
        keep = false;
        ok = warnings_add(&plan->warnings, e, "the measurements are not saved: %s", why.text);
    }
    if (ok && keep)
        plan->measure_file = path;
    else
        free(path);
    return ok;
}

/* Returns the bytes that a tensor takes in a file as a type, with the padding behind it. */
static uint64_t target_bytes_as(const target *t, size_t i, uint32_t type) {
    const model_tensor *in = t->plan->sources[i].tensor;
    uint64_t bytes = shape_rows(in->ne) * gguf_row_bytes(tensor_type_of(type), in->ne[0]);
    uint64_t alignment = t->asked.size ? t->plan->model.alignment : 1;
    return round_up(bytes, alignment);
}

/* Sum of squares of the whole tensor. */
static double power_of(const target *t, size_t i) {
    const measured *m = &t->found[i];
    double all = (double)shape_elements(t->plan->sources[i].tensor->ne);
    return m->weights > 0 ? m->power * (all / m->weights) : 0;
}

/* Through what a tensor's errors act on the rest of the model, and how often: where nothing was tried. */
static double presumed_sensitivity(const target *t, size_t i) {
    double outlet = power_of(t, t->outlets[i]);
    return mix_sensitivity(t->plan->sources[i].name, outlet > 0 ? outlet : power_of(t, i), &t->uses);
}

/* Nats and what is presumed are different units: the presumed of those that are known in both, over what they
 * were found to be, as the mean of the logarithms. */
static double presumed_unit(const target *t) {
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < t->plan->n_tensors; i++) {
        double presumed = presumed_sensitivity(t, i);
        if (t->needed[i] && t->found[i].sensitivity > 0 &&
            presumed > 0) /* none at all says nothing of units */
            sum += log(t->found[i].sensitivity / presumed), n++;
    }
    return n ? exp(sum / (double)n) : 1;
}

/* Trials are short: what they do not show at all need not be nothing in other texts. */
static double sensitivity_of(const target *t, size_t i, double unit) {
    double presumed = unit * presumed_sensitivity(t, i), tried = t->found[i].sensitivity;
    return tried < 0 ? presumed : fmax(tried, presumed / 100);
}

/* Whether a type has too few bits for a table of n-grams: most of its rows are looked up by few texts, so
 * that errors of sampled rows and trials on a short text do not show what such a type does to it. */
static bool has_few_bits(const target *t, size_t i, uint32_t type) {
    enum { LEAST = 4 };
    const tensor_type *of = tensor_type_of(type);
    int64_t size;
    return strcmp(t->plan->sources[i].name, "per_layer_token_embd.weight") == 0 &&
           8 * (uint64_t)of->block_bytes < LEAST * (uint64_t)of->block_elements &&
           model_fact_int(&t->plan->facts, "ple.ngram_size", &size);
}

static void list_candidates(target *t) {
    double unit = presumed_unit(t);
    for (size_t i = 0; i < t->plan->n_tensors; i++) {
        budget_candidate *c = t->candidates + i * CANDIDATES;
        size_t n = 0;
        uint32_t own = t->free[i] ? t->plan->sources[i].tensor->type->id : t->fixed[i];
        c[n++] = (budget_candidate){own, target_bytes_as(t, i, own), 0};
        const measured *m = &t->found[i];
        double weight = m->power > 0 ? sensitivity_of(t, i, unit) / m->power : 0;
        for (size_t k = 0; t->free[i] && k < BUDGET_TYPES; k++) {
            uint32_t type = budget_types[k];
            double error = plan_qat_grid_holds(&t->plan->sources[i], type) ? 0 : m->error[k] * weight;
            if (measure_applies(t->plan, i, k) && error <= 1e300 && !has_few_bits(t, i, type))
                c[n++] = (budget_candidate){type, target_bytes_as(t, i, type), error};
        }
        t->tensors[i] = (budget_tensor){c, n};
    }
}

/* ---- the choice ---- */

/* Lay the output out with the types chosen. *size is what the target limits: the file, or its tensors' bytes. */
static bool target_lay_out(target *t, uint64_t *size, gq_error *e) {
    gq_plan *plan = t->plan;
    plan_output *out = &plan->outputs[t->output];
    size_t warnings = plan->warnings.n;
    for (size_t i = 0; i < plan->n_tensors; i++) t->a->types[i] = t->tensors[i].candidates[t->choice[i]].type;
    if (!plan_assign(plan, t->a, t->output, e)) return false;
    out->filetype = mix_prevalent(t->a->tensors, choices_of(t), plan->n_tensors);
    if (!plan_layout(plan, out, t->options, e)) return false;
    warnings_cut(&plan->warnings, warnings); /* the final layout says them again */
    *size = t->asked.size ? out->summary.file_bytes : out->summary.out_bytes;
    return true;
}

/* Gives the output the types of its file type: that without a target has lost them as the free tensors were
 * found. */
static bool target_assign_named(target *t, gq_error *e) {
    t->a->options.types = NULL;
    bool ok = plan_assign(t->plan, t->a, t->output, e);
    t->a->options.types = t->a->types;
    return ok;
}

/* Lays the output out as the file type whose size is asked for, and asks for that size. */
static bool target_take_size_of(target *t, gq_error *e) {
    gq_plan *plan = t->plan;
    plan_output *out = &plan->outputs[t->output];
    const char *name = t->options->outputs[t->output].size_of;
    size_t warnings = plan->warnings.n;
    if (!name) return true;
    if (!plan_open_filetype(out, name, e)) return false;
    bool ok = target_assign_named(t, e) && plan_layout(plan, out, t->options, e);
    mix_patterns_free(out->recipe);
    out->recipe = NULL, t->asked.size = out->summary.file_bytes;
    warnings_cut(&plan->warnings, warnings);
    return ok;
}

static uint64_t limit_of(const target *t) {
    if (t->asked.size) return t->asked.size;
    return (uint64_t)(t->asked.bpw * (double)t->plan->outputs[t->output].summary.n_weights / 8);
}

static bool target_smallest_size(target *t, uint64_t *size, uint64_t *chosen, gq_error *e) {
    *chosen = 0;
    for (size_t i = 0; i < t->plan->n_tensors; i++) {
        const budget_tensor *b = &t->tensors[i];
        t->choice[i] = 0;
        for (size_t k = 1; k < b->n; k++)
            if (b->candidates[k].bytes < b->candidates[t->choice[i]].bytes) t->choice[i] = k;
        *chosen += b->candidates[t->choice[i]].bytes;
    }
    return target_lay_out(t, size, e);
}

static bool fail_unreachable(const target *t, uint64_t size, gq_error *e) {
    const gq_summary *s = &t->plan->outputs[t->output].summary;
    char asked[UNITS_TEXT_BYTES], least[UNITS_TEXT_BYTES];
    units_compare_files(asked, t->asked.size, least, size);
    if (t->asked.size) /* to the byte, as that can be asked for */
        return gq_fail_usage(e,
                             "%s: a file of %s cannot be reached: with the smallest types to choose from it "
                             "has %llu bytes, %s%s",
                             plan_input(t->plan), asked, LLU(size), least,
                             t->plan->rounding->knows_inputs || t->plan->inputs.n_entries
                                 ? ""
                                 : "; an imatrix adds smaller types");
    return gq_fail_usage(
        e, "%s: %g bits per weight cannot be reached: the smallest types to choose from make %.4f",
        plan_input(t->plan), t->asked.bpw, 8 * (double)s->out_bytes / (double)s->n_weights);
}

/* Chooses types that fit the target. Headers may grow with the choice, so it is made again with the bytes
 * that are left until it fits; once or twice. */
static bool target_choose(target *t, gq_error *e) {
    uint64_t size, chosen;
    budget_result result;
    if (!target_smallest_size(t, &size, &chosen, e)) return false;
    uint64_t limit = limit_of(t);
    if (size > limit) return fail_unreachable(t, size, e);
    for (uint64_t budget = limit - (size - chosen);; budget -= size - limit) {
        if (!budget_choose(t->tensors, t->plan->n_tensors, budget, t->choice, &result, e) ||
            !target_lay_out(t, &size, e))
            return false;
        if (size <= limit) break;
        if (size - limit > budget) return fail_unreachable(t, size, e);
    }
    for (size_t i = 0; i < t->plan->n_tensors; i++)
        if (t->free[i] && t->choice[i] != 0) return true;
    return warnings_add(&t->plan->warnings, e,
                        "%s: nothing is quantized: with the types it has, the model is within the target",
                        t->plan->outputs[t->output].label);
}

/* ---- what is to be expected ---- */

/* Nats that a tensor's errors add as a type; NaN: not measured. */
static double expected_of(const target *t, size_t i, uint32_t type, double unit) {
    const measured *m = &t->found[i];
    size_t k = 0;
    if (type == t->plan->sources[i].tensor->type->id || !tensor_type_of(type)->quantized ||
        plan_qat_grid_holds(&t->plan->sources[i], type))
        return 0; /* or next to nothing */
    while (k < BUDGET_TYPES && budget_types[k] != type) k++;
    if (!t->needed[i] || k == BUDGET_TYPES || m->error[k] < 0) return NAN;
    return m->power > 0 ? m->error[k] * sensitivity_of(t, i, unit) / m->power : 0;
}

/* Sets the KL divergence to expect of an output that has its types. Without trials, errors have no unit. */
static void target_foretell(target *t) {
    plan_output *out = &t->plan->outputs[t->output];
    if (!t->trial_layers) return;
    double unit = presumed_unit(t), sum = 0;
    for (size_t i = 0; i < t->plan->n_tensors; i++) sum += expected_of(t, i, out->tensors[i].to, unit);
    out->summary.expected = sum;
}

bool plan_targets(gq_plan *plan, plan_assignment *a, const gq_options *options, gq_error *e) {
    target t = {.plan = NULL};
    bool ok = true;
    for (size_t o = 0; ok && o < plan->n_outputs; o++) {
        bool asked = plan_has_target(options, o);
        if (!asked && !options->foretell) continue;
        bool first = !t.plan;
        ok = !first || target_new(&t, plan, a, options, e);
        t.output = o, t.asked = target_of(options, o);
        ok = ok && (!first || (find_free(&t, e) && target_measure(&t, e)));
        ok = ok && (!asked || target_take_size_of(&t, e));
        if (ok && asked) list_candidates(&t);
        ok = ok && (asked ? target_choose(&t, e) : target_assign_named(&t, e));
        if (ok) target_foretell(&t);
    }
    free(t.free), free(t.fixed), free(t.needed), free(t.outlets), free(t.found), free(t.tensors);
    free(t.candidates), free(t.choice), name_index_free(&t.by_name);
    return ok;
}
