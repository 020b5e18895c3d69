/* Lays out an output whose tensors have their types: chooses the shard of each tensor, makes the shards'
 * headers, and fixes every offset. There is one shard, or the same cut as the input's (keep_split), or shards
 * are filled in order up to a size (split_max_size). Filling needs the size of a header that does not exist
 * yet, so it is computed entry by entry with the header's own arithmetic (layout_filling). Then the headers
 * are made and give offsets, padding and file sizes. A set of several shards gets a number that its files
 * share, so that mixed sets are recognised. All of this is known before a weight is read. Laying out again
 * with other types (plan/target/target.c) replaces the layout before. */
#include "base/checked.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/safe_file.h"
#include "quantize/plan/plan.h"

enum { MAX_SHARDS = UINT16_MAX };

/* ---- which shard each tensor goes to ---- */

static bool set_split_keys(const gq_plan *plan, const plan_output *out, uint32_t shard, uint32_t n_shards,
                           gguf_header *h, gq_error *e) {
    if (n_shards == 1) return true;
    uint16_t number = (uint16_t)shard, count = (uint16_t)n_shards;
    int32_t tensors = (int32_t)plan->n_tensors;
    return gguf_header_set(h, "split.no", GGUF_U16, &number, sizeof number, e) &&
           gguf_header_set(h, "split.count", GGUF_U16, &count, sizeof count, e) &&
           gguf_header_set(h, "split.tensors.count", GGUF_INT32, &tensors, sizeof tensors, e) &&
           gguf_header_set(h, GGUF_SET_KEY, GGUF_U64, &out->digest, sizeof out->digest, e);
}

/* A shard as it fills: what its header and its data will take, by the header's own arithmetic. */
typedef struct layout_filling {
    uint64_t header, data; /* bytes so far; `header` without padding */
    uint32_t alignment;
} layout_filling;

/* Sets *f to shard `number` of n, without tensors. The first shard has the model's metadata, and with them
 * its alignment. */
static bool empty_shard(const gq_plan *plan, const plan_output *out, const gq_options *options,
                        uint32_t number, uint32_t n, layout_filling *f, gq_error *e) {
    gguf_header *h = gguf_header_new(e);
    bool ok = h && (number > 0 || plan_meta_write(plan, out, options, h, e)) &&
              set_split_keys(plan, out, number, n, h, e) &&
              gguf_header_measure(h, &f->header, &f->alignment, e);
    gguf_header_free(h);
    f->data = 0;
    return ok;
}

/* Adds a tensor to a shard. false: it was not added, as the shard would be larger than `most` bytes. */
static bool put_tensor(layout_filling *f, const gq_tensor *t, uint64_t most) {
    layout_filling g = *f;
    g.header += gguf_entry_size(t->name, t->n_dims);
    uint64_t header = round_up(g.header, g.alignment), size;
    if (__builtin_add_overflow(g.data, round_up(t->out_bytes, g.alignment), &g.data) ||
        __builtin_add_overflow(header, g.data, &size) || size > most)
        return false;
    *f = g;
    return true;
}

/* Adds tensors from `first` on, as many as fit but at least one, and returns the first that was not added.
 * *larger: set where one tensor alone is too large. */
static size_t fill_shard(const gq_plan *plan, const plan_output *out, layout_filling f, size_t first,
                         uint64_t most, bool *larger) {
    size_t i = first;
    while (i < plan->n_tensors && put_tensor(&f, &out->tensors[i], most)) i++;
    *larger |= i == first && first < plan->n_tensors;
    return i > first ? i : first + 1;
}

/* Fills shards in order, each up to the size asked for; a tensor that is larger gets a shard of its own. What
 * fits into one file is not split. */
static bool cut_at_size(gq_plan *plan, plan_output *out, const gq_options *options, gq_error *e) {
    layout_filling whole, first, other;
    if (!empty_shard(plan, out, options, 0, 1, &whole, e) ||
        !empty_shard(plan, out, options, 0, 2, &first, e) ||
        !empty_shard(plan, out, options, 1, 2, &other, e))
        return false;
    uint32_t shard = 0;
    bool larger = false, alone = false;
    size_t end = fill_shard(plan, out, whole, 0, options->split_max_size, &alone);
    if (end < plan->n_tensors)
        end = fill_shard(plan, out, first, 0, options->split_max_size, &larger);
    else
        larger = alone; /* one tensor, or none */
    for (size_t i = 0; i < plan->n_tensors; i++) {
        if (i == end) {
            if (++shard >= MAX_SHARDS)
                return gq_fail_usage(e, "splitting at %llu bytes makes more than %d shards",
                                     LLU(options->split_max_size), MAX_SHARDS);
            end = fill_shard(plan, out, other, i, options->split_max_size, &larger);
        }
        out->places[i].shard = shard;
    }
    out->n_shards = shard + 1;
    char most[UNITS_TEXT_BYTES];
    return !larger || warnings_add(&plan->warnings, e,
                                   "a shard of %s will be larger than the %s asked for: one tensor alone is",
                                   out->path, units_file(most, options->split_max_size));
}

static bool choose_shards(gq_plan *plan, plan_output *out, const gq_options *options, gq_error *e) {
    out->n_shards = 1;
    if (options->split_max_size) return cut_at_size(plan, out, options, e);
    if (!options->keep_split) return true;
    if (plan->model.version != 0) {
        out->n_shards = plan->model.n_files;
        for (size_t i = 0; i < plan->n_tensors; i++) out->places[i].shard = plan->sources[i].tensor->shard;
        return true;
    }
    for (size_t i = 1; i < plan->n_tensors;
         i++) { /* of a folder: files that have tensors, which come one after another */
        out->n_shards += plan->sources[i].tensor->shard != plan->sources[i - 1].tensor->shard;
        out->places[i].shard = out->n_shards - 1;
    }
    return true;
}

/* ---- headers ---- */

/* Tensors of a shard follow each other in output order; `from` is the first that no earlier shard has. */
static bool lay_shard(const gq_plan *plan, plan_output *out, uint32_t number, size_t *from,
                      const gq_options *options, gq_error *e) {
    plan_shard *s = &out->shards[number];
    size_t first = *from, end = first;
    uint64_t data;
    s->path =
        plan_shard_path(out->path, options->keep_split || options->split_max_size, number, out->n_shards);
    s->temporary = s->path ? safe_file_beside(s->path, ".gquant") : NULL;
    if (!s->temporary) return gq_fail_memory(e, strlen(out->path) + 32);
    s->header = gguf_header_new(e);
    if (!s->header || (number == 0 && !plan_meta_write(plan, out, options, s->header, e)) ||
        !set_split_keys(plan, out, number, out->n_shards, s->header, e))
        return false;
    for (; end < plan->n_tensors && out->places[end].shard == number; end++) {
        const gq_tensor *t = &out->tensors[end];
        if (!gguf_header_add_shaped(s->header, t->name, t->n_dims, t->ne, tensor_type_of(t->to), e))
            return false;
    }
    if (!gguf_header_finish(s->header, &s->header_data, &s->header_size, &data, e)) return false;
    if (number == 0)
        out->digests_at =
            digests_await_run(plan, out) ? gguf_header_value_offset(s->header, GGUF_DIGESTS_KEY) : 0;
    if (number == 0)
        out->source_at = out->digests_at && plan_any_calibrated(plan, out)
                             ? gguf_header_value_offset(s->header, GGUF_SOURCE_KEY)
                             : 0;
    s->size = s->header_size + data;
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
    if (out->n_shards > 1) out->digest = plan_set_digest(plan, out);
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

/* ---- chunks ---- */

/* Whole rows, or CHUNK_ELEMENTS of a longer row. No dimension is 0 and their product does not overflow: the
 * reader has checked that. */
uint64_t chunk_length(const uint64_t ne[GGUF_MAX_DIMS], bool transposes) {
    uint64_t rows = CHUNK_ELEMENTS / ne[0];
    if (transposes && rows < CHUNK_BAND)
        return (shape_rows(ne) < CHUNK_BAND ? shape_rows(ne) : CHUNK_BAND) * ne[0];
    if (rows > CHUNK_ROWS) rows -= rows % CHUNK_ROWS;
    return ne[0] > CHUNK_ELEMENTS ? CHUNK_ELEMENTS : rows * ne[0];
}

uint64_t chunk_count(const uint64_t ne[GGUF_MAX_DIMS], uint64_t length) {
    if (length < ne[0]) return shape_rows(ne) * ceil_div(ne[0], length);
    uint64_t per_chunk = length / ne[0];
    return ceil_div(shape_rows(ne), per_chunk);
}

bool chunk_map_new(chunk_map *map, size_t n_tensors, gq_error *e) {
    map->n_tensors = n_tensors;
    map->n = 0;
    map->first = calloc(n_tensors + 1, sizeof *map->first);
    map->length = calloc(n_tensors + 1, sizeof *map->length);
    return (map->first && map->length) || gq_fail_memory(e, 2 * (n_tensors + 1) * sizeof *map->first);
}

void chunk_map_free(chunk_map *map) { free(map->first), free(map->length); }

size_t chunk_tensor(const chunk_map *map, uint64_t i) {
    size_t low = 0, high = map->n_tensors; /* first[low] <= i < first[high] */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (map->first[middle] <= i)
            low = middle;
        else
            high = middle;
    }
    return low;
}

chunk chunk_at(const chunk_map *map, uint64_t i, const uint64_t ne[GGUF_MAX_DIMS]) {
    chunk c = {.tensor = chunk_tensor(map, i)};
    uint64_t k = i - map->first[c.tensor], length = map->length[c.tensor];
    uint64_t total = shape_elements(ne);
    c.last = i + 1 == map->first[c.tensor + 1];
    if (ne[0] <= length) {
        c.first = k * length;
        c.n = total - c.first < length ? total - c.first : length;
        return c;
    }
    uint64_t per_row = ceil_div(ne[0], length);
    uint64_t column = k % per_row * length;
    c.first = k / per_row * ne[0] + column;
    c.n = ne[0] - column < length ? ne[0] - column : length;
    return c;
}
