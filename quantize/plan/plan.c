/* Everything that is known before a weight is read. */
#include "quantize/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/filetype.h"
#include "quantize/workers.h"

enum { MAX_PARTS = 1 << 20 };

const char *plan_input(const gq_plan *plan) { return plan->model.shards[0].file.path; }

bool plan_warn(gq_plan *plan, gq_error *e, const char *format, ...) {
    va_list args;
    va_start(args, format);
    bool ok = words_vadd(&plan->warnings, e, format, args);
    va_end(args);
    return ok;
}

/* ---- the request ---- */

/* What the public names mean to the encoders. */
static const codec_effort codec_efforts[] = {
    [GQ_EFFORT_DEFAULT] = EFFORT_DEFAULT, [GQ_EFFORT_FAST] = EFFORT_FAST, [GQ_EFFORT_BEST] = EFFORT_BEST};

static bool check_request(const gq_options *o, gq_error *e) {
    if (!o->input || o->n_outputs == 0)
        return gq_fail_usage(e, "an input and at least one output are needed");
    if (!plan_check_target(o, e)) return false;
    if (o->effort < 0 || (size_t)o->effort >= sizeof codec_efforts / sizeof *codec_efforts)
        return gq_fail_usage(e, "effort %d is none of fast, default and best", o->effort);
    if (o->threads < 0 || o->threads > WORKERS_MAX)
        return gq_fail_usage(e, "the number of threads is 1 to %d, not %d", WORKERS_MAX, o->threads);
    if (o->keep_split && o->split_max_size)
        return gq_fail_usage(e, "--keep-split and --split-max-size cannot be combined");
    if (o->join && o->part) return gq_fail_usage(e, "--join and --part cannot be combined");
    if (o->parts > MAX_PARTS || o->part > o->parts || (o->parts && !o->part && !o->join))
        return gq_fail_usage(e, "part %u of %u: parts are numbered from 1 to at most %d", o->part, o->parts,
                             MAX_PARTS);
    return true;
}

static bool read_type(const char *name, const char *option, int64_t *type, gq_error *e) {
    uint32_t id;
    *type = -1;
    if (!name) return true;
    if (!mix_type_named(name, option, &id, e)) return false;
    *type = id;
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
        out->filetype = mix_filetype_named(name);
        if (!out->filetype) {
            const char *near = mix_filetype_nearest(name);
            if (!near) return gq_fail_usage(e, "there is no file type '%s'", name);
            return gq_fail_usage(e, "there is no file type '%s'; did you mean %s?", name, near);
        }
        if (plan_has_target(options, i))
            plan_target_label(options, i, out->label);
        else
            snprintf(out->label, sizeof out->label, "%s", out->filetype->name);
        out->path = asked->path ? strdup(asked->path)
                                : plan_derive_path(options->out_dir, options->input, out->label);
        if (!out->path) return gq_fail_memory(e, strlen(options->input) + 32);
    }
    return true;
}

/* ---- sources: the tensors that are written, in their order ---- */

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
        const gguf_tensor *t = plan->model.tensors[i];
        plan_source *s = &all[plan->n_tensors];
        if (!plan_layers_rename(&plan->layers, t->name, s->name)) continue;
        s->tensor = t;
        mix_tensor *m = &facts[plan->n_tensors++];
        m->name = s->name, m->type = t->type->id;
        memcpy(m->ne, t->ne, sizeof m->ne);
    }
    ok = ok && mix_order(facts, plan->n_tensors, options->keep_split, order, e);
    for (size_t i = 0; ok && i < plan->n_tensors; i++) plan->sources[i] = all[order[i]];
    free(all), free(facts), free(order);
    return ok;
}

/* ---- types ---- */

static mix_model model_facts(const gguf_facts *f) {
    mix_model m = {.arch = f->arch, .n_blocks = -1};
    if (!strcmp(f->arch, "clip")) m.n_blocks = 0; /* the incumbent does not read how many the parts have */
    gguf_fact_int(f, "block_count", &m.n_blocks);
    gguf_fact_int(f, "attention.head_count", &m.n_head);
    m.n_head_kv = m.n_head;
    gguf_fact_int(f, "attention.head_count_kv", &m.n_head_kv);
    gguf_fact_int(f, "expert_count", &m.n_expert);
    return m;
}

static const char *label(uint32_t type) { return gguf_type_name(type); }

/* Can this tensor become what the mix wants? */
static bool check_change(const gq_plan *plan, const plan_output *out, size_t i, bool needs_data,
                         const gq_options *options, gq_error *e) {
    const plan_source *source = &plan->sources[i];
    const gq_tensor *t = &out->tensors[i];
    const char *file = plan->model.shards[source->tensor->shard].file.path;
    const gguf_type *to = gguf_type_of(t->to);
    if (!to) return gq_fail(e, "%s: tensor %s: type %u is unknown", file, t->source_name, t->to);
    if (t->ne[0] % to->block_elements)
        return gq_fail(e, "%s: tensor %s: rows of %llu elements do not fit %s, whose blocks have %u", file,
                       t->source_name, (unsigned long long)t->ne[0], to->name, to->block_elements);
    if (t->to == t->from) return true;
    if (source->tensor->type->quantized && !options->allow_requantize)
        return gq_fail_remedy(e, GQ_REMEDY_REQUANTIZE,
                              "%s: tensor %s is already quantized, as %s; asked for: %s", file,
                              t->source_name, label(t->from), label(t->to));
    if (!plan->kernels->codecs[t->from].decode)
        return gq_fail(e, "%s: tensor %s is stored as %s, which gquant cannot decode", file, t->source_name,
                       label(t->from));
    if (!plan->kernels->codecs[t->to].encode)
        return gq_fail(e, "%s: tensor %s would become %s, which gquant cannot write", file, t->source_name,
                       label(t->to));
    if (needs_data && !source->importance)
        return gq_fail_remedy(e, plan->has_matrix ? GQ_REMEDY_OTHER_TYPE : GQ_REMEDY_NONE,
                              "%s: tensor %s: %s in a %s file needs importance data, and %s", file,
                              t->source_name, label(t->to), out->label,
                              options->imatrix ? "there is none for it" : "none is given");
    return true;
}

static uint64_t bytes_as(uint32_t type, const uint64_t ne[4]) {
    const gguf_type *t = gguf_type_of(type);
    return t ? gguf_type_bytes(t, gguf_elements(ne)) : 0;
}

static void fill_tensor(gq_tensor *t, const plan_source *source, const mix_choice *choice, bool keep_shape) {
    const gguf_tensor *in = source->tensor;
    *t = (gq_tensor){.name = source->name,
                     .source_name = in->name,
                     .from = in->type->id,
                     .to = choice->type,
                     .wanted = choice->wanted,
                     .why = choice->why ? choice->why : "",
                     .in_bytes = in->size,
                     .n_dims = in->n_dims,
                     .n_weights = gguf_elements(in->ne)};
    memcpy(t->ne, in->ne, sizeof t->ne);
    while (!keep_shape && t->n_dims > 1 && t->ne[t->n_dims - 1] == 1) t->n_dims--;
    t->out_bytes = bytes_as(t->to, t->ne);
}

static void summarise(plan_output *out, size_t n) {
    gq_summary *s = &out->summary;
    *s = (gq_summary){.path = out->path, .filetype = out->label, .n_tensors = n};
    for (size_t i = 0; i < n; i++) {
        gq_tensor *t = &out->tensors[i];
        s->n_weights += t->n_weights;
        s->in_bytes += t->in_bytes, s->out_bytes += t->out_bytes;
        if (t->wanted == t->to) continue;
        /* What the wanted type would take if rows could end within a block, to the nearest byte. */
        const gguf_type *wanted = gguf_type_of(t->wanted);
        double ideal = wanted ? (double)t->n_weights * wanted->block_bytes / wanted->block_elements
                              : (double)t->out_bytes;
        s->n_fallbacks++;
        if ((double)t->out_bytes > ideal) t->fallback_bytes = (uint64_t)((double)t->out_bytes - ideal + 0.5);
        s->fallback_bytes += t->fallback_bytes;
    }
}

static void assignment_free(plan_assignment *a) {
    mix_patterns_free(a->patterns), mix_patterns_free(a->keep);
    free(a->tensors), free(a->order), free(a->types), free(a->covered), free(a->choices);
}

static bool prepare(plan_assignment *a, gq_plan *plan, const gq_options *options, gq_error *e) {
    size_t n = plan->n_tensors;
    a->options = (mix_options){.imatrix = plan->has_matrix,
                               .pure = options->pure,
                               .leave_output = options->leave_output_tensor,
                               .keep_order = options->keep_split};
    if (!read_type(options->output_tensor_type, "--output-tensor-type", &a->options.output_type, e) ||
        !read_type(options->token_embedding_type, "--token-embedding-type", &a->options.embedding_type, e) ||
        !read_type(options->missing_importance, "missing importance", &a->options.missing_type, e))
        return false;
    if (options->tensor_types.n) {
        a->patterns = mix_patterns_new(options->tensor_types.items, options->tensor_types.n, true, e);
        if (!a->patterns) return false;
    }
    if (options->keep.n) {
        a->keep = mix_patterns_new(options->keep.items, options->keep.n, false, e);
        if (!a->keep) return false;
    }
    a->options.patterns = a->patterns, a->options.keep = a->keep;
    a->model = model_facts(&plan->facts);
    a->tensors = calloc(n + 1, sizeof *a->tensors);
    a->order = calloc(n + 1, sizeof *a->order);
    a->types = calloc(n + 1, sizeof *a->types);
    a->choices = calloc(n * plan->n_outputs + 1, sizeof *a->choices);
    a->covered = calloc(n + 1, sizeof *a->covered);
    if (!a->tensors || !a->order || !a->types || !a->covered || !a->choices)
        return gq_fail_memory(e, (n + 1) * (sizeof *a->tensors + plan->n_outputs * sizeof *a->choices));
    for (size_t i = 0; i < n; i++) { /* the sources are in order already */
        a->tensors[i].name = plan->sources[i].name;
        a->tensors[i].type = plan->sources[i].tensor->type->id;
        memcpy(a->tensors[i].ne, plan->sources[i].tensor->ne, sizeof a->tensors[i].ne);
        a->order[i] = (uint32_t)i;
        a->covered[i] = plan_has_importance(plan, &plan->sources[i]);
    }
    if (plan->has_matrix) a->options.covered = a->covered;
    return true;
}

static bool output_room(plan_output *out, size_t n, gq_error *e) {
    out->tensors = calloc(n + 1, sizeof *out->tensors);
    out->places = calloc(n + 1, sizeof *out->places);
    out->losses = calloc(n + 1, sizeof *out->losses);
    return (out->tensors && out->places && out->losses) || gq_fail_memory(e, (n + 1) * sizeof *out->tensors);
}

bool plan_assign(gq_plan *plan, plan_assignment *a, size_t output, gq_error *e) {
    plan_output *out = &plan->outputs[output];
    mix_choice *choices = a->choices + output * plan->n_tensors;
    size_t n = plan->n_tensors;
    a->options.filetype = out->filetype;
    if (!mix_assign(&a->model, &a->options, a->tensors, n, a->order, choices, e)) return false;
    bool keep_shape = mix_is_image_model(plan->facts.arch);
    for (size_t i = 0; i < n; i++) fill_tensor(&out->tensors[i], &plan->sources[i], &choices[i], keep_shape);
    summarise(out, n);
    return true;
}

static bool check_all(const gq_plan *plan, const plan_assignment *a, const gq_options *options, gq_error *e) {
    for (size_t o = 0; o < plan->n_outputs; o++)
        for (size_t i = 0; i < plan->n_tensors; i++)
            if (!check_change(plan, &plan->outputs[o], i, a->choices[o * plan->n_tensors + i].needs_imatrix,
                              options, e))
                return false;
    return true;
}

/* A slip in a pattern shows in that it does nothing. */
static bool warn_idle(gq_plan *plan, const mix_pattern *patterns, const char *option, gq_error *e) {
    const char *first;
    size_t n = mix_patterns_idle(patterns, &first);
    if (n == 0) return true;
    return plan_warn(plan, e, "%zu %s of %s: no tensor matches, or earlier patterns take all that do%s%s%s",
                     n, n == 1 ? "pattern" : "patterns", option, n == 1 ? ": '" : "; first: '", first, "'");
}

/* So does one for tensors that nothing changes. */
static bool warn_powerless(gq_plan *plan, const mix_pattern *patterns, gq_error *e) {
    const char *first;
    size_t n = mix_patterns_powerless(patterns, &first);
    if (n == 0) return true;
    return plan_warn(
        plan, e,
        "%zu %s of --tensor-type: all tensors that match stay as they are, being norms, vectors or "
        "named by another option, or since no quantized file type is made%s%s'",
        n, n == 1 ? "pattern" : "patterns", n == 1 ? ": '" : "; first: '", first);
}

static bool assign(gq_plan *plan, const gq_options *options, gq_error *e) {
    plan_assignment a = {.order = NULL};
    bool ok = prepare(&a, plan, options, e);
    for (size_t o = 0; ok && o < plan->n_outputs; o++)
        ok = output_room(&plan->outputs[o], plan->n_tensors, e);
    for (size_t o = 0; ok && o < plan->n_outputs; o++)
        ok = plan_has_target(options, o) || plan_assign(plan, &a, o, e);
    ok = ok && plan_targets(plan, &a, options, e);
    for (size_t o = 0; ok && o < plan->n_outputs; o++)
        ok = plan_warn_raised(plan, &plan->outputs[o], a.choices + o * plan->n_tensors, e);
    ok = ok && plan_cover(plan, options, e) && check_all(plan, &a, options, e) &&
         warn_idle(plan, a.patterns, "--tensor-type", e) && warn_idle(plan, a.keep, "--keep", e) &&
         warn_powerless(plan, a.patterns, e);
    assignment_free(&a);
    return ok;
}

/* ---- fallbacks ---- */

static bool report_fallbacks(gq_plan *plan, const plan_output *out, const gq_options *options, gq_error *e) {
    const gq_summary *s = &out->summary;
    if (s->n_fallbacks == 0) return true;
    const gq_tensor *first = out->tensors;
    while (first->wanted == first->to) first++;
    char text[512];
    snprintf(text, sizeof text,
             "%llu %s rows that do not fit the wanted type, first %s: %llu columns, %s for %s",
             (unsigned long long)s->n_fallbacks, s->n_fallbacks == 1 ? "tensor has" : "tensors have",
             first->source_name, (unsigned long long)first->ne[0], label(first->to), label(first->wanted));
    if (options->strict) return gq_fail(e, "%s: %s (--strict)", plan_input(plan), text);
    return plan_warn(plan, e, "%s: %s; all cost %llu bytes", s->filetype, text,
                     (unsigned long long)s->fallback_bytes);
}

/* ---- chunks ---- */

static bool cut_chunks(gq_plan *plan, gq_error *e) {
    if (!chunk_map_new(&plan->chunks, plan->n_tensors, e)) return false;
    uint64_t *first = plan->chunks.first;
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (__builtin_add_overflow(first[i], chunk_count(plan->sources[i].tensor->ne), &first[i + 1]))
            return gq_fail(e, "%s: the model has too many weights", plan_input(plan));
    plan->chunks.n = first[plan->n_tensors];
    return true;
}

/* ---- the plan ---- */

static bool open_all(gq_plan *plan, const gq_options *options, gq_error *e) {
    plan->threads = options->threads ? options->threads : workers_available();
    plan->settings.effort = codec_efforts[options->effort];
    plan->force = options->force, plan->join = options->join;
    plan->part = options->part, plan->parts = options->parts;
    plan->kernels = kernels_select();
    if (!plan->kernels)
        return gq_fail_usage(e, "GQUANT_ISA names a level that is unknown or that this processor lacks");
    if (!open_outputs(plan, options, e) || !plan_check_filetypes(options, e)) return false;
    if (gguf_model_open(&plan->model, options->input, e)) return true;
    plan->model = (gguf_model){.n_shards = 0};
    return false;
}

static bool warn_mixed(gq_plan *plan, gq_error *e) {
    uint32_t shard, other;
    if (!gguf_model_mixed(&plan->model, &shard, &other)) return true;
    return plan_warn(plan, e, "%s and %s were not written together: their %s differs",
                     plan->model.shards[shard].file.path, plan->model.shards[other].file.path, GGUF_SET_KEY);
}

static bool make(gq_plan *plan, const gq_options *options, gq_error *e) {
    if (!check_request(options, e) || !open_all(plan, options, e) || !warn_mixed(plan, e) ||
        !plan_check_architecture(plan, e) || !plan_identify_input(plan, e) ||
        !plan_open_importance(plan, options, e))
        return false;
    if (options->prune_layers && !plan_layers_read(&plan->layers, options->prune_layers, &plan->model, e))
        return false;
    if (plan->layers.n_absent && !plan_warn(plan, e, "--prune-layers: the model has no layer %llu",
                                            (unsigned long long)plan->layers.absent))
        return false;
    if (!plan_overrides_read(&plan->overrides, &options->override_kv, &plan->model, e)) return false;
    plan->facts = gguf_facts_of(plan->model.shards[0].kv, plan->model.shards[0].n_kv, plan->overrides.items,
                                plan->overrides.n);
    if (!plan_check_kind(plan, e) || !list_sources(plan, options, e) || !assign(plan, options, e) ||
        !plan_advise(plan, e))
        return false;
    for (size_t o = 0; o < plan->n_outputs; o++)
        if (!plan_layout(plan, &plan->outputs[o], options, e) ||
            !report_fallbacks(plan, &plan->outputs[o], options, e))
            return false;
    if (!cut_chunks(plan, e)) return false;
    plan_identify_layout(plan);
    return true;
}

gq_plan *plan_make(const gq_options *options, gq_error *e) {
    gq_plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        gq_fail_memory(e, sizeof *plan);
        return NULL;
    }
    if (make(plan, options, e)) return plan;
    gq_plan_free(plan);
    return NULL;
}

static void free_output(plan_output *out) {
    plan_layout_free(out);
    free(out->path);
    free(out->tensors), free(out->places), free(out->losses);
}

void gq_plan_free(gq_plan *plan) {
    if (!plan) return;
    for (size_t o = 0; o < plan->n_outputs; o++) free_output(&plan->outputs[o]);
    words_free(&plan->warnings);
    free(plan->outputs), free(plan->sources), free(plan->modified);
    free(plan->layers.kept), free(plan->measure_file);
    plan_overrides_free(&plan->overrides);
    chunk_map_free(&plan->chunks);
    imatrix_free(&plan->matrix);
    gguf_model_close(&plan->model);
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
    *n = plan->warnings.n;
    return (const char *const *)plan->warnings.items;
}

const char *gq_plan_measure_file(const gq_plan *plan) { return plan->measure_file; }

const gq_loss *gq_plan_loss(const gq_plan *plan, size_t output, size_t tensor) {
    return &plan->outputs[output].losses[tensor];
}

double gq_plan_seconds(const gq_plan *plan) { return plan->seconds; }
