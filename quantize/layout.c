/* Where every tensor of an output lies: shards, headers, offsets. */
#include <stdlib.h>
#include <string.h>

#include "quantize/plan.h"

enum { MAX_SHARDS = UINT16_MAX };

static uint64_t round_up(uint64_t n, uint64_t alignment) {
    return (n + alignment - 1) / alignment * alignment;
}

/* ---- which shard each tensor goes to ---- */

/* Bytes of a tensor's entry in the table: name, dimensions, type, offset. */
static uint64_t entry_size(const gq_tensor *t) {
    return 8 + strlen(t->name) + 4 + 8 * (uint64_t)t->n_dims + 4 + 8;
}

/* Header bytes of a shard before any tensor. */
static bool bare_header(const gq_plan *plan, const plan_output *out, const gq_options *options, bool first,
                        uint64_t *size, gq_error *e) {
    const uint8_t *bytes;
    uint64_t data;
    gguf_header *h = gguf_header_new(e);
    bool ok = h && (!first || plan_meta_write(plan, out, options, h, e)) &&
              gguf_header_finish(h, &bytes, size, &data, e);
    gguf_header_free(h);
    if (ok) *size += 128; /* more than the three split keys take */
    return ok;
}

/* Fill shards in order, each up to the wished size; a tensor that is larger than that has one of its own. */
static bool cut_at_size(gq_plan *plan, plan_output *out, const gq_options *options, gq_error *e) {
    uint64_t first, other, size, longest = 0;
    if (!bare_header(plan, out, options, true, &first, e) ||
        !bare_header(plan, out, options, false, &other, e))
        return false;
    uint32_t shard = 0;
    size = first;
    for (size_t i = 0, held = 0; i < plan->n_tensors; i++) {
        const gq_tensor *t = &out->tensors[i];
        /* Rounded for the largest alignment of practice; a header's own padding is in there too. */
        uint64_t more = round_up(t->out_bytes, GGUF_DEFAULT_ALIGNMENT) + entry_size(t);
        if (held > 0 && more > options->split_max_size -
                                   (size < options->split_max_size ? size : options->split_max_size)) {
            if (++shard >= MAX_SHARDS)
                return gq_fail_usage(e, "splitting at %llu bytes makes more than %d shards",
                                     (unsigned long long)options->split_max_size, MAX_SHARDS);
            size = other, held = 0;
        }
        size += more, held++;
        if (size > longest) longest = size;
        out->places[i].shard = shard;
    }
    out->n_shards = shard + 1;
    return longest <= options->split_max_size ||
           plan_warn(plan, e,
                     "a shard of %s will be larger than the %llu bytes asked for: one tensor alone is",
                     out->path, (unsigned long long)options->split_max_size);
}

static bool choose_shards(gq_plan *plan, plan_output *out, const gq_options *options, gq_error *e) {
    out->n_shards = 1;
    if (options->split_max_size) return cut_at_size(plan, out, options, e);
    if (!options->keep_split) return true;
    out->n_shards = plan->model.n_shards;
    for (size_t i = 0; i < plan->n_tensors; i++) out->places[i].shard = plan->sources[i].tensor->shard;
    return true;
}

/* ---- headers ---- */

static bool set_split_keys(const gq_plan *plan, const plan_output *out, uint32_t shard, gguf_header *h,
                           gq_error *e) {
    if (out->n_shards == 1) return true;
    uint16_t number = (uint16_t)shard, count = (uint16_t)out->n_shards;
    int32_t tensors = (int32_t)plan->n_tensors;
    return gguf_header_set(h, "split.no", GGUF_U16, &number, sizeof number, e) &&
           gguf_header_set(h, "split.count", GGUF_U16, &count, sizeof count, e) &&
           gguf_header_set(h, "split.tensors.count", GGUF_INT32, &tensors, sizeof tensors, e);
}

/* Tensors of a shard follow each other in output order; `from` is the first that no earlier shard has. */
static bool lay_shard(const gq_plan *plan, plan_output *out, uint32_t number, size_t *from,
                      const gq_options *options, gq_error *e) {
    plan_shard *s = &out->shards[number];
    size_t first = *from, end = first;
    uint64_t data;
    s->path = plan_shard_path(out->path, number, out->n_shards);
    s->temporary = s->path ? plan_beside(s->path, ".gquant") : NULL;
    if (!s->temporary) return gq_fail_memory(e, strlen(out->path) + 32);
    s->header = gguf_header_new(e);
    if (!s->header || (number == 0 && !plan_meta_write(plan, out, options, s->header, e)) ||
        !set_split_keys(plan, out, number, s->header, e))
        return false;
    for (; end < plan->n_tensors && out->places[end].shard == number; end++) {
        const gq_tensor *t = &out->tensors[end];
        if (!gguf_header_add_tensor(s->header, t->name, t->ne, gguf_type_of(t->to), e)) return false;
    }
    if (!gguf_header_finish(s->header, &s->head, &s->head_size, &data, e)) return false;
    s->size = s->head_size + data;
    for (size_t i = first; i < end; i++) {
        plan_place *p = &out->places[i];
        p->offset = gguf_header_tensor_offset(s->header, i - first);
        p->end = i + 1 < end ? gguf_header_tensor_offset(s->header, i + 1 - first) : s->size;
    }
    *from = end;
    return true;
}

void plan_layout_free(plan_output *out) {
    for (uint32_t s = 0; out->shards && s < out->n_shards; s++) {
        free(out->shards[s].path), free(out->shards[s].temporary);
        gguf_header_free(out->shards[s].header);
    }
    free(out->shards);
    out->shards = NULL;
}

bool plan_layout(gq_plan *plan, plan_output *out, const gq_options *options, gq_error *e) {
    if (plan->n_tensors > INT32_MAX && (options->keep_split || options->split_max_size))
        return gq_fail(e, "%s: %zu tensors are too many for a split model", plan_input(plan),
                       plan->n_tensors);
    plan_layout_free(out);
    if (!choose_shards(plan, out, options, e)) return false;
    out->shards = calloc(out->n_shards, sizeof *out->shards);
    if (!out->shards) return gq_fail_memory(e, out->n_shards * sizeof *out->shards);
    uint64_t total = 0;
    size_t from = 0;
    for (uint32_t s = 0; s < out->n_shards; s++) {
        if (!lay_shard(plan, out, s, &from, options, e)) return false;
        if (__builtin_add_overflow(total, out->shards[s].size, &total) || total > INT64_MAX)
            return gq_fail(e, "%s: the output would have more than 2^63 bytes", plan_input(plan));
    }
    out->summary.path = out->shards[0].path;
    out->summary.file_bytes = total;
    return true;
}
