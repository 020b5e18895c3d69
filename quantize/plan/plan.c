/* Makes a plan: everything that is known before the work starts. plan_fill has the order of the steps, each
 * of which is a file of this folder: check the request, open input and rounding (an imatrix is part of it),
 * list the tensors that are written, give them types, lay out each output, cut the work into chunks, compute
 * the checksums by which the plan is known again, and bound the rounding's memory. A step may use what those
 * before it have set, so their order matters: the layout needs the types, the checksums need the layout. Of
 * the weights only a small part is read, for a checksum and for targets. A plan does not change once it is
 * made. quantize/job.c then looks at what an earlier run has left beside the outputs. */
#include "quantize/quantize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/comm/ranks.h"
#include "base/fail.h"
#include "base/sized.h"
#include "base/units.h"
#include "quantize/plan/rounding.h"
#include "quantize/plan/target/target.h"
#include "quantize/strips/strips.h"

enum {
    MAX_PARTS = 1 << 20,
    SYNC_MS = 2000, /* a crash costs that much work; syncing more often slows the disk down */
};

/* ---- options that exclude each other ---- */

/* A row of `conflicts` is all that a new pair of options takes: the plan refuses it with the words of the
 * members, and a program that has asked gq_options_conflict refuses it with its own. A row whose member is not
 * in the list of members does not compile. */
typedef enum member_kind { IS_FLAG, IS_POINTER, IS_COUNT, IS_SIZE, IS_LIST, IS_TARGET } member_kind;

/* Members of gq_options that exclude others, and the words for them. */
#define MEMBERS(X) \
    X(outputs, "a target") \
    X(pure, "one type for all tensors") \
    X(imatrix, "an imatrix") \
    X(include_weights, "weights to include") \
    X(exclude_weights, "weights to exclude") \
    X(keep_split, "a split like the input's") \
    X(split_max_size, "a largest size of shards") \
    X(part, "doing a part") \
    X(join, "joining all parts") \
    X(calibration, "a calibration") \
    X(transpose, "transposing tensors") \
    X(prune_layers, "layers to leave out") \
    X(no_mtp, "a model without MTP layers") \
    X(mtp_only, "MTP layers alone") \
    X(tensor_scales, "factors of tensors")

#define MEMBER_ID(name, words) member_##name,
typedef enum member_id { MEMBERS(MEMBER_ID) } member_id;
#undef MEMBER_ID

/* The kind follows from the member's type, and decides whether the member is set. */
#define KIND_OF(name) \
    _Generic(((gq_options *)0)->name, \
        bool: IS_FLAG, \
        const char *: IS_POINTER, \
        const gq_calibration *: IS_POINTER, \
        uint32_t: IS_COUNT, \
        uint64_t: IS_SIZE, \
        gq_list: IS_LIST, \
        const gq_output *: IS_TARGET)
#define MEMBER(name, words) [member_##name] = {offsetof(gq_options, name), KIND_OF(name), words},
static const struct {
    size_t offset;
    member_kind kind;
    const char *words;
} members[] = {MEMBERS(MEMBER)};
#undef MEMBER

#define CONFLICT(one, other, why) \
    { {offsetof(gq_options, one), offsetof(gq_options, other), why, {0}}, member_##one, member_##other }
static const struct {
    gq_conflict public;
    member_id first, second;
} conflicts[] = {
    CONFLICT(outputs, pure, "a target mixes types"),
    CONFLICT(include_weights, exclude_weights, "name the weights to use or the weights to leave out"),
    CONFLICT(keep_split, split_max_size, "each says where shards end"),
    CONFLICT(join, part, "parts are joined when all are done"),
    CONFLICT(imatrix, calibration, "a calibration gathers more than an imatrix holds; leave the imatrix out"),
    CONFLICT(part, calibration,
             "a calibrated run cannot be done in parts, as each layer depends on those before it"),
    CONFLICT(join, calibration,
             "a calibrated run cannot be done in parts, as each layer depends on those before it"),
    CONFLICT(transpose, calibration,
             "a calibration cannot write transposed tensors; transpose those of the calibrated file"),
    CONFLICT(no_mtp, mtp_only, "the first leaves out what the second writes"),
    CONFLICT(prune_layers, mtp_only, "MTP layers alone have no layers to prune"),
    CONFLICT(tensor_scales, calibration, "a calibration does not support per-tensor scales"),
};
#undef CONFLICT

static bool has_target(const gq_options *o) {
    for (size_t i = 0; i < o->n_outputs; i++)
        if (o->outputs[i].target.size || o->outputs[i].target.bpw != 0 || o->outputs[i].size_of) return true;
    return false;
}

static bool is_asked(const gq_options *o, member_id id) {
    const void *at = (const char *)o + members[id].offset;
    switch (members[id].kind) {
    case IS_FLAG:
        return *(const bool *)at;
    case IS_POINTER:
        return *(const void *const *)at;
    case IS_COUNT:
        return *(const uint32_t *)at;
    case IS_SIZE:
        return *(const uint64_t *)at;
    case IS_LIST:
        return ((const gq_list *)at)->n;
    case IS_TARGET:
        return has_target(o);
    }
    return false;
}

const gq_conflict *gq_options_conflict(const gq_options *options) {
    gq_options o;
    if (!SIZED_TAKE(o, options, NULL)) return NULL;
    for (size_t i = 0; i < sizeof conflicts / sizeof *conflicts; i++)
        if (is_asked(&o, conflicts[i].first) && is_asked(&o, conflicts[i].second))
            return &conflicts[i].public;
    return NULL;
}

static bool conflicts_check(const gq_options *o, gq_error *e) {
    for (size_t i = 0; i < sizeof conflicts / sizeof *conflicts; i++)
        if (is_asked(o, conflicts[i].first) && is_asked(o, conflicts[i].second))
            return gq_fail_usage(e, "%s and %s cannot be combined: %s", members[conflicts[i].first].words,
                                 members[conflicts[i].second].words, conflicts[i].public.why);
    return true;
}

/* ---- the request ---- */

/* The encoders' effort for each public one. */
static const codec_effort codec_efforts[] = {
    [GQ_EFFORT_DEFAULT] = EFFORT_DEFAULT, [GQ_EFFORT_FAST] = EFFORT_FAST, [GQ_EFFORT_BEST] = EFFORT_BEST};

static bool plan_check_request(const gq_options *o, gq_error *e) {
    if (!o->input || o->n_outputs == 0)
        return gq_fail_usage(e, "no input or no output: expected an input and at least one output");
    if (!plan_check_target(o, e)) return false;
    if (o->projector && o->model)
        return gq_fail_usage(e, "a projector cannot be made of an open model: name its folder instead");
    if (o->effort < 0 || (size_t)o->effort >= sizeof codec_efforts / sizeof *codec_efforts)
        return gq_fail_usage(e, "effort %d, expected 0 (default), 1 (fast) or 2 (best)", o->effort);
    if (o->threads < 0 || o->threads > THREADS_MAX)
        return gq_fail_usage(e, "threads: expected 1 to %d, found %d", THREADS_MAX, o->threads);
    if (!conflicts_check(o, e)) return false;
    if (o->parts > MAX_PARTS || o->part > o->parts || (o->parts && !o->part && !o->join))
        return gq_fail_usage(e, "part %u of %u: parts are numbered from 1 to their number, at most %d",
                             o->part, o->parts, MAX_PARTS);
    return true;
}

static bool open_outputs(gq_plan *plan, const gq_options *options, gq_error *e) {
    plan->outputs = calloc(options->n_outputs, sizeof *plan->outputs);
    if (!plan->outputs) return gq_fail_memory(e, options->n_outputs * sizeof *plan->outputs);
    plan->n_outputs = options->n_outputs;
    for (size_t i = 0; i < plan->n_outputs; i++) {
        const gq_output *asked = &options->outputs[i];
        plan_output *out = &plan->outputs[i];
        const char *name = plan_has_target(options, i) ? "F16" : asked->filetype ? asked->filetype : "";
        if (!plan_open_filetype(out, name, e)) return false;
        const mix_named_recipe *named = mix_recipe_named(name);
        if (plan_has_target(options, i))
            plan_target_label(options, i, out->label);
        else
            snprintf(out->label, sizeof out->label, "%s", named ? named->name : out->filetype->name);
        out->path = asked->path ? strdup(asked->path) : plan_derive_path(options, out->label);
        uint32_t base = options->projector ? out->filetype->base : GGUF_F32;
        if (base != GGUF_F32 && base != GGUF_F16 && base != GGUF_BF16 && base != GGUF_Q8_0)
            return gq_fail_usage(e, "a projector is written as F32, F16, BF16 or Q8_0, not as %s",
                                 out->label);
        if (!out->path) return gq_fail_memory(e, strlen(options->input) + 32);
    }
    return true;
}

/* ---- sources: the tensors that are written, in their order ---- */

/* Reports what adapters change of layers that are left out; fails where nothing else is changed, except of MTP layers
 * alone, which adapters seldom change and which go with any of the model's files. */
static bool check_merged(gq_plan *plan, gq_error *e) {
    uint64_t all = 0, kept = 0;
    for (uint64_t i = 0; i < plan->model.n_tensors; i++) {
        const model_origin *origin = plan->model.tensors[i]->origin;
        char name[GGUF_MAX_NAME + 1];
        if (!origin || !origin->merged) continue;
        all++, kept += plan_layers_rename(&plan->layers, plan->model.tensors[i]->name, name);
    }
    if (all == kept) return true;
    return kept == 0 && !plan->layers.mtp_only
               ? gq_fail_usage(e,
                               "%s: all %llu tensors that the adapters change are of layers that are "
                               "left out: nothing would be merged",
                               plan_input(plan), LLU(all))
               : warnings_add(&plan->warnings, e,
                              "%llu of %llu tensors that the adapters change are of layers that are left "
                              "out",
                              LLU(all - kept), LLU(all));
}

static bool list_sources(gq_plan *plan, const gq_options *options, gq_error *e) {
    uint64_t n = plan->model.n_tensors;
    if (n > UINT32_MAX) return gq_fail(e, "%s: too many tensors", plan_input(plan));
    plan_source *all = calloc(n + 1, sizeof *all);
    mix_tensor *facts = calloc(n + 1, sizeof *facts);
    uint32_t *order = calloc(n + 1, sizeof *order);
    plan->sources = calloc(n + 1, sizeof *plan->sources);
    bool ok = all && facts && order && plan->sources;
    if (!ok) gq_fail_memory(e, (n + 1) * (2 * sizeof *all + sizeof *facts));
    for (uint64_t i = 0; ok && i < n; i++) {
        const model_tensor *t = plan->model.tensors[i];
        plan_source *s = &all[plan->n_tensors];
        if (!plan_layers_rename(&plan->layers, t->name, s->name)) continue;
        s->tensor = s->stored = t, s->number = i, s->transposed = t->transposed;
        mix_tensor *m = &facts[plan->n_tensors++];
        m->name = s->name, m->type = t->type->id;
        memcpy(m->ne, t->ne, sizeof m->ne);
    }
    ok = ok && mix_order(facts, plan->n_tensors, options->keep_split, order, e);
    for (size_t i = 0; ok && i < plan->n_tensors; i++) plan->sources[i] = all[order[i]];
    free(all), free(facts), free(order);
    return ok;
}

static bool plan_assign_types(gq_plan *plan, const gq_options *options, gq_error *e) {
    plan_assignment a = {.order = NULL};
    bool ok = plan_assignment_new(&a, plan, options, e);
    for (size_t o = 0; ok && o < plan->n_outputs; o++)
        ok = plan_has_target(options, o) || plan_assign(plan, &a, o, e);
    ok = ok && plan_targets(plan, &a, options, e);
    for (size_t o = 0; ok && o < plan->n_outputs; o++)
        ok = plan_warn_raised(plan, &plan->outputs[o], a.choices + o * plan->n_tensors, e);
    ok = ok && plan_cover(plan, options, e) && plan_check_types(plan, &a, options, e) &&
         plan_warn_patterns(plan, &a, e);
    plan_assignment_free(&a);
    return ok;
}

/* ---- fallbacks ---- */

static bool report_fallbacks(gq_plan *plan, const plan_output *out, const gq_options *options, gq_error *e) {
    const gq_summary *s = &out->summary;
    if (s->n_fallbacks == 0) return true;
    const gq_tensor *first = out->tensors;
    while (first->wanted == first->to) first++;
    char text[512], cost[UNITS_TEXT_BYTES];
    snprintf(text, sizeof text,
             "%llu %s rows that do not fit the wanted type, first %s: %llu column%s, %s for %s",
             LLU(s->n_fallbacks), s->n_fallbacks == 1 ? "tensor has" : "tensors have", first->source_name,
             LLU(first->ne[0]), plural_suffix(first->ne[0]), tensor_type_name(first->to),
             tensor_type_name(first->wanted));
    if (options->strict)
        return gq_fail(e, "%s: %s; fallback types are not allowed (strict)", plan_input(plan), text);
    return warnings_add(&plan->warnings, e, "%s: %s; together they add %s", s->filetype, text,
                        units_file(cost, s->fallback_bytes));
}

/* ---- chunks ---- */

static bool cut_chunks(gq_plan *plan, gq_error *e) {
    if (!chunk_map_new(&plan->chunks, plan->n_tensors, e)) return false;
    uint64_t *first = plan->chunks.first, *length = plan->chunks.length;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const plan_source *s = &plan->sources[i];
        length[i] = chunk_length(s->tensor->ne, plan_transposes(s));
        if (__builtin_add_overflow(first[i], chunk_count(s->tensor->ne, length[i]), &first[i + 1]))
            return gq_fail(e, "%s: the model has too many weights", plan_input(plan));
    }
    plan->chunks.n = first[plan->n_tensors];
    return true;
}

/* ---- the plan ---- */

static bool open_all(gq_plan *plan, const gq_options *options, gq_error *e) {
    plan->comm = options->comm;
    plan->threads = comm_threads(options->comm, options->threads);
    plan->settings.effort = codec_efforts[options->effort];
    plan->force = options->force;
    plan->share = options->join ? SHARE_JOIN : options->parts ? SHARE_PART : SHARE_WHOLE;
    plan->part = options->part, plan->parts = options->parts;
    plan->sync_ms = options->sync_ms ? options->sync_ms : SYNC_MS;
    plan->kernels = strip_kernels(e);
    if (!plan->kernels) return false;
    if (!open_outputs(plan, options, e)) return false;
    plan->model_is_lent = options->model;
    if (options->model) {
        plan->model = options->model->file;
        return true;
    }
    if (options->projector && (options->adapters.base || options->adapters.target))
        return gq_fail_usage(e, "a projector takes no base model and no target model, which are for text "
                                "models' adapters and draft models");
    return options->projector ? input_open_projector(&plan->model, options->input, &options->adapters, e)
                              : input_open_adapted(&plan->model, options->input, &options->adapters, e);
}

static void show_beside(gq_plan *plan) {
    for (size_t i = 0; i < plan->model.n_beside; i++) {
        const model_beside *b = &plan->model.beside[i];
        plan->beside[i] = (gq_beside){b->kind, b->n, b->bytes, b->is_in_outputs};
    }
}

static bool warn_mixed(gq_plan *plan, gq_error *e) {
    uint32_t shard, other;
    if (!model_mixed(&plan->model, &shard, &other)) return true;
    return warnings_add(&plan->warnings, e, "%s and %s were not written together: their %s differs",
                        plan->model.files[shard]->path, plan->model.files[other]->path, GGUF_SET_KEY);
}

/* Fails where the input lacks a KV pair that programs need, unless it is set. Then it counts as the input's, so that
 * a calibration's text is cut by it, too. */
static bool add_missing_kv(gq_plan *plan, gq_error *e) {
    model_source *m = &plan->model;
    const model_kv *set =
        m->missing_key ? model_kv_find(plan->overrides.items, plan->overrides.n, m->missing_key) : NULL;
    if (!set) return model_check_whole(m, e);
    plan->completed = malloc((m->n_kv + 1) * sizeof *plan->completed);
    if (!plan->completed) return gq_fail_memory(e, (m->n_kv + 1) * sizeof *plan->completed);
    memcpy(plan->completed, m->kv, m->n_kv * sizeof *plan->completed);
    plan->completed[m->n_kv++] = *set;
    m->kv = plan->completed, m->missing_key = NULL;
    return true;
}

static bool plan_choose_layers(gq_plan *plan, const gq_options *options, gq_error *e) {
    if (options->mtp_only) return plan_layers_mtp_only(&plan->layers, &plan->model, e);
    if (options->no_mtp)
        return plan_layers_without_mtp(&plan->layers, options->prune_layers, &plan->model, e);
    return !options->prune_layers || plan_layers_read(&plan->layers, options->prune_layers, &plan->model, e);
}

static bool plan_fill(gq_plan *plan, const gq_options *options, gq_error *e) {
    if (!plan_check_request(options, e) || !open_all(plan, options, e) ||
        !plan_choose_layers(plan, options, e) || !plan_scale_tensors(plan, options, e) ||
        !warnings_join(&plan->warnings, &plan->model.warnings, e) || !warn_mixed(plan, e) ||
        !plan_overrides_read(&plan->overrides, &options->override_kv, &plan->model, &plan->warnings, e) ||
        !add_missing_kv(plan, e) ||
        !plan_removed_find(&plan->removed, &options->remove_kv, &plan->model, &plan->warnings, e) ||
        !plan_check_complete(plan, options, e) || !plan_identify_input(plan, e))
        return false;
    show_beside(plan);
    if (plan->layers.n_absent &&
        !warnings_add(&plan->warnings, e, "layers to prune: no layer %llu in the model",
                      LLU(plan->layers.absent)))
        return false;
    plan->facts = model_facts_of(plan->model.kv, plan->model.n_kv, plan->overrides.items, plan->overrides.n);
    if (!plan_layer_overrides_check(plan, e) || !plan_check_kind(plan, options, e) ||
        !rounding_open(plan, options, e) || !plan_check_layers(plan, e) || !check_merged(plan, e) ||
        !list_sources(plan, options, e) || !plan_transpose(plan, options, e) ||
        !plan_find_qat_grids(plan, options, e) || !plan_assign_types(plan, options, e) ||
        !plan_advise(plan, e) || !plan_warn_qat_grids(plan, e))
        return false;
    for (size_t o = 0; o < plan->n_outputs; o++)
        if (!plan_layout(plan, &plan->outputs[o], options, e) ||
            !report_fallbacks(plan, &plan->outputs[o], options, e))
            return false;
    if (!cut_chunks(plan, e) || !plan_reuse(plan, options, e)) return false;
    plan_identify_layout(plan);
    return !plan->rounding->kind->bound || plan->rounding->kind->bound(plan, e);
}

gq_plan *plan_make(const gq_options *options, const struct model_runners *runners, gq_error *e) {
    gq_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return gq_fail_memory(e, sizeof *plan), NULL;
    plan->runners = runners;
    if (plan_fill(plan, options, e)) return plan;
    gq_plan_free(plan);
    return NULL;
}

static void free_output(plan_output *out) {
    plan_layout_free(out);
    free(out->path);
    free(out->tensors), free(out->places), free(out->offers);
    mix_patterns_free(out->recipe);
}

void gq_plan_free(gq_plan *plan) {
    if (!plan) return;
    for (size_t o = 0; o < plan->n_outputs; o++) free_output(&plan->outputs[o]);
    warnings_free(&plan->warnings);
    free(plan->outputs), free(plan->sources);
    free(plan->measure_file);
    free(plan->layers.kept);
    plan_overrides_free(&plan->overrides);
    plan_removed_free(&plan->removed);
    free(plan->completed);
    chunk_map_free(&plan->chunks);
    model_inputs_free(&plan->inputs);
    rounding_free(plan->rounding);
    if (!plan->model_is_lent) model_close(&plan->model);
    for (size_t i = 0; i < plan->n_reused; i++) model_close(&plan->reused[i]);
    free(plan->reused);
    free(plan);
}

const gq_summary *gq_plan_summary(const gq_plan *plan, size_t output) {
    return &plan->outputs[output].summary;
}

size_t gq_plan_outputs(const gq_plan *plan) { return plan->n_outputs; }

const gq_tensor *gq_plan_tensors(const gq_plan *plan, size_t output, size_t *n) {
    *n = plan->n_tensors;
    return plan->outputs[output].tensors;
}

const char *const *gq_plan_warnings(const gq_plan *plan, size_t *n) {
    return warnings_texts(&plan->warnings, n);
}

const gq_calibration_facts *gq_plan_calibration(const gq_plan *plan) { return plan->rounding->facts; }

const uint32_t *gq_plan_calibration_ids(const gq_plan *plan, uint64_t *n) {
    *n = plan->rounding->n_ids;
    return plan->rounding->ids;
}

const gq_beside *gq_plan_beside(const gq_plan *plan, size_t *n) {
    *n = plan->model.n_beside;
    return plan->beside;
}

double gq_plan_seconds(const gq_plan *plan) { return plan->seconds; }

const char *gq_plan_measure_file(const gq_plan *plan) { return plan->measure_file; }
