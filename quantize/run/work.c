/* A worker's way through a chunk: read a strip, decode it, and for each output encode it, decode that again
 * to measure the error, and write the blocks to their place. Outputs that give a tensor the same type share
 * one encoding. Tensors that keep their type are copied byte for byte. The blocks of calibrated tensors are
 * in the files already; they are read back and only measured. Transposed tensors are read in tiles, as stored
 * rows are columns of the output. A chunk's sums depend on the chunk alone, so results.c can fold them
 * whatever thread made them. work_verify reads a chunk back for the journal's sake: it is done only if the
 * bytes still have the CRC that was recorded. */
#include "quantize/run/run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/checked.h"
#include "base/checksum.h"
#include "base/sized.h"
#include "quantize/plan/rounding.h"

/* Under importance, encoders work on CODEC_MOST_LANES rows at once and take as long for fewer, so strips of
 * wide rows are larger there, up to 2^20 elements; 16-bit input and an output of 4 bits then touch 7 bytes of
 * each, 7 MiB. What is read back is decoded STRIP_ELEMENTS elements at a time. */
enum { WIDE_STRIP = 1 << 20, PADDING = 1 << 12, OUT_BYTES = 4 };

/* Elements of a tile, the part of a transposed tensor in memory at once. A tile has CHUNK_BAND rows and more,
 * so that no stored block is read many times, however long the rows are. */
enum { TILE = 1 << 20 };

/* Returns the most elements that a strip of a tensor has. */
static size_t strip_room(const plan_source *source) {
    uint64_t cols = source->tensor->ne[0];
    if (!source->inputs.columns || cols <= STRIP_ELEMENTS / CODEC_MOST_LANES) return STRIP_ELEMENTS;
    return cols < WIDE_STRIP / CODEC_MOST_LANES ? CODEC_MOST_LANES * (size_t)cols : WIDE_STRIP;
}

/* ---- memory ---- */

void work_scratches_measure(work_scratches *r, const gq_plan *plan) {
    *r = (work_scratches){.n_outputs = plan->n_outputs, .strip = STRIP_ELEMENTS};
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (strip_room(&plan->sources[i]) > r->strip) r->strip = strip_room(&plan->sources[i]);
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (plan_transposes(&plan->sources[i])) r->tile = TILE;
    /* Strips beyond STRIP_ELEMENTS are of weights, which have 4 bytes at most. */
    r->in = r->strip > 2 * STRIP_ELEMENTS ? 4 * r->strip : STORED_BYTES * STRIP_ELEMENTS;
    r->bytes = r->in + (sizeof(float) + OUT_BYTES) * r->strip + sizeof(float) * (STRIP_ELEMENTS + r->tile) +
               r->n_outputs * (sizeof(chunk_sum) + sizeof(codec_error));
}

work_scratch work_scratch_in(const work_scratches *r, void *memory) {
    work_scratch scratch = {.x = memory};
    scratch.decoded = scratch.x + r->strip;
    scratch.tile = scratch.decoded + STRIP_ELEMENTS;
    scratch.out = (uint8_t *)(scratch.tile + r->tile);
    scratch.in = scratch.out + OUT_BYTES * r->strip;
    scratch.sums = (chunk_sum *)(void *)(scratch.in + r->in);
    scratch.errors = (codec_error *)(void *)(scratch.sums + r->n_outputs);
    return scratch;
}

/* ---- a tensor ---- */

work_tensor *work_tensor_open(const gq_plan *plan, size_t number, const bool *reused, gq_error *e) {
    size_t size = sizeof(work_tensor) + plan->n_outputs * sizeof(struct work_output);
    work_tensor *t = calloc(1, size);
    if (!t) return gq_fail_memory(e, size), NULL;
    *t = (work_tensor){.plan = plan, .number = number, .source = &plan->sources[number]};
    t->strip = strip_room(t->source);
    for (size_t o = 0; o < plan->n_outputs; o++) {
        struct work_output *output = &t->outputs[o];
        output->to = &plan->outputs[o].tensors[number];
        output->calibrated = output->to->calibrated;
        t->digested |= plan->outputs[o].digests_at > 0;
        if (reused && reused[o * plan->n_tensors + number]) output->reused = &plan->outputs[o].offers[number];
        /* Bytes and errors depend on nothing but the type, unless they were made from the output's own
         * stream. */
        output->encoder = output->calibrated ? o : 0;
        while (t->outputs[output->encoder].to->to != output->to->to ||
               t->outputs[output->encoder].calibrated != output->calibrated)
            output->encoder++;
        output->with = (strip_encoder){
            .kernels = plan->kernels, .type = tensor_type_of(output->to->to), .settings = &plan->settings};
    }
    return t;
}

void work_tensor_close(work_tensor *t) { free(t); }

/* ---- strips ---- */

/* Returns how many rows of `cols` columns a strip has at most: whole batches where they fit. With importance,
 * fewer rows than a batch are a power of two, which is a whole batch on a CPU with fewer lanes. */
static uint64_t fitting_rows(const work_tensor *t, uint64_t cols) {
    bool importance = t->source->inputs.columns > 0;
    uint64_t fit = t->strip / cols;
    if (fit > CODEC_MOST_LANES) return fit / CODEC_MOST_LANES * CODEC_MOST_LANES;
    while (importance && fit < CODEC_MOST_LANES && (fit & (fit - 1))) fit &= fit - 1;
    return fit;
}

/* The strip that begins at element `first` of a chunk that ends at `end`. Importance changes from matrix to
 * matrix, so strips end with them where there is any. */
static strip work_strip_at(const work_tensor *t, uint64_t first, uint64_t end) {
    const uint64_t *ne = t->source->tensor->ne, as_one[4] = {ne[0], shape_rows(ne), 1, 1};
    bool importance = t->source->inputs.columns > 0;
    uint64_t most = t->strip, fit = fitting_rows(t, ne[0]);
    if (fit > 0) most = fit * ne[0];
    return strip_from(importance ? ne : as_one, first, end - first < most ? end : first + most);
}

/* ---- output ---- */

static uint64_t width_of(const work_tensor *t) { return t->source->tensor->ne[0]; }

static bool read_strip(const work_tensor *t, const output_set *outputs, size_t o, const strip *s,
                       const work_scratch *scratch, gq_error *e) {
    const plan_place *place = &t->plan->outputs[o].places[t->number];
    const tensor_type *type = t->outputs[o].with.type;
    return output_read(outputs, o, place->shard,
                       place->offset + tensor_type_bytes(type, width_of(t), s->first), scratch->out,
                       s->rows * gguf_row_bytes(type, s->cols), e);
}

/* Reads the blocks of a strip that were made before; *ready: there are such. */
static bool read_ready(const work_tensor *t, const output_set *outputs, size_t o, const strip *s,
                       const work_scratch *scratch, bool *ready, gq_error *e) {
    const reuse_offer *r = t->outputs[o].reused;
    *ready = r || t->outputs[o].calibrated;
    if (r) return model_read(r->from, r->tensor, s->first, s->rows * s->cols, scratch->out, e);
    return !*ready || read_strip(t, outputs, o, s, scratch, e);
}

/* Returns the element of the stored tensor that is the i-th of a strip, for messages. */
static uint64_t element_of(const work_tensor *t, const strip *s, size_t i) {
    uint64_t element = s->first + i / s->cols * t->source->tensor->ne[0] + i % s->cols;
    return plan_transposes(t->source) ? transposed_element(t->source->stored, element) : element;
}

/* Encodes a strip into scratch->out and measures the error. Blocks of a calibrated tensor, and those that an
 * earlier output has, are read instead of encoded. */
static bool work_encode_strip(const work_tensor *t, const output_set *outputs, size_t o, const strip *s,
                              const work_scratch *scratch, gq_error *e) {
    strip_encoder encoder = t->outputs[o].with;
    codec_error *sum = &scratch->errors[o];
    if (t->outputs[o].to->importance == GQ_IMPORTANCE_FULL)
        encoder.importance = tensor_inputs_at(&t->source->inputs, s->matrix, s->column);
    bool ready;
    if (!read_ready(t, outputs, o, s, scratch, &ready, e)) return false;
    size_t held =
        ready ? strip_measure(&encoder, scratch->x, s->rows, s->cols, scratch->out, scratch->decoded, sum)
              : strip_encode(&encoder, scratch->x, s->rows, s->cols, scratch->out, scratch->decoded, sum);
    return held == s->rows * s->cols || strip_fail_to_hold(&encoder, &t->plan->model, t->source->stored,
                                                           element_of(t, s, held), scratch->x[held], e);
}

/* Writes the zeros behind a tensor; its last chunk does that. */
static bool write_padding(const output_set *outputs, size_t o, const plan_place *place, uint64_t size,
                          gq_error *e) {
    static const uint8_t zeros[PADDING];
    for (uint64_t at = place->offset + size; at < place->end;) {
        size_t n = place->end - at < PADDING ? (size_t)(place->end - at) : PADDING;
        if (!output_write(outputs, o, place->shard, at, zeros, n, e)) return false;
        at += n;
    }
    return true;
}

static bool write_strip(const work_tensor *t, const output_set *outputs, size_t encoder, uint64_t at,
                        const uint8_t *bytes, size_t n, gq_error *e) {
    for (size_t o = encoder; o < t->plan->n_outputs; o++) {
        const plan_place *place = &t->plan->outputs[o].places[t->number];
        if (t->outputs[o].encoder == encoder &&
            !output_write(outputs, o, place->shard, place->offset + at, bytes, n, e))
            return false;
    }
    return true;
}

/* Writes a piece of a chunk and adds it to the chunk's CRC. Pieces may come in any order: a piece's share of
 * the CRC depends only on its bytes and how many bytes of the chunk lie behind it. */
static bool put_bytes(const work_tensor *t, const output_set *outputs, size_t o, const chunk *c,
                      uint64_t first, const uint8_t *bytes, size_t n, const work_scratch *scratch,
                      gq_error *e) {
    const tensor_type *type = t->outputs[o].with.type;
    uint64_t at = tensor_type_bytes(type, width_of(t), first),
             behind = tensor_type_bytes(type, width_of(t), c->first + c->n) - at - n;
    scratch->sums[o].crc ^= checksum_join(checksum_add(0, bytes, n), 0, behind);
    return t->outputs[o].calibrated || write_strip(t, outputs, o, at, bytes, n, e);
}

/* Writes a strip. Parts of several rows each go to an offset of their own. */
static bool put_strip(const work_tensor *t, const output_set *outputs, size_t o, const chunk *c,
                      const strip *s, const work_scratch *scratch, gq_error *e) {
    const tensor_type *type = t->outputs[o].with.type;
    const uint8_t *bytes = scratch->in;
    if (!plan_copies(t->source, t->outputs[o].to)) {
        if (!work_encode_strip(t, outputs, o, s, scratch, e)) return false;
        bytes = scratch->out;
    }
    size_t pieces = s->cols < width_of(t) ? s->rows : 1, n = s->rows / pieces * gguf_row_bytes(type, s->cols);
    for (size_t i = 0; i < pieces; i++)
        if (!put_bytes(t, outputs, o, c, s->first + i * width_of(t), bytes + i * n, n, scratch, e))
            return false;
    return true;
}

static bool put_all(const work_tensor *t, const output_set *outputs, const chunk *c, const strip *s,
                    const work_scratch *scratch, gq_error *e) {
    for (size_t o = 0; o < t->plan->n_outputs; o++)
        if (t->outputs[o].encoder == o && !put_strip(t, outputs, o, c, s, scratch, e)) return false;
    return true;
}

static bool do_strips(const work_tensor *t, const output_set *outputs, const chunk *c,
                      const work_scratch *scratch, gq_error *e) {
    const gq_plan *plan = t->plan;
    for (uint64_t at = c->first; at < c->first + c->n;) {
        strip s = work_strip_at(t, at, c->first + c->n);
        if (!strip_read_decoded(plan->kernels, &plan->model, t->source->tensor, s.first, s.rows * s.cols,
                                scratch->in, scratch->x, e) ||
            !put_all(t, outputs, c, &s, scratch, e))
            return false;
        size_t bytes = model_bytes(t->source->tensor, s.rows * s.cols);
        if (t->digested) scratch->sums->source = checksum_add(scratch->sums->source, scratch->in, bytes);
        at += s.rows * s.cols;
    }
    return true;
}

/* ---- transposed tensors ---- */

/* Encodes and writes the strips of a tile, which is in scratch->tile. */
static bool do_tile(const work_tensor *t, const output_set *outputs, const chunk *c, const strip *tile,
                    const work_scratch *scratch, gq_error *e) {
    const uint64_t *ne = t->source->tensor->ne, first = tile->first / ne[0],
                   fit = fitting_rows(t, tile->cols);
    work_scratch part = *scratch;
    for (size_t r = 0; r < tile->rows;) {
        uint64_t row = first + r, left = ne[1] - row % ne[1]; /* rows of this matrix */
        strip s = {.first = tile->first + r * ne[0],
                   .rows = tile->rows - r < fit ? tile->rows - r : (size_t)fit,
                   .cols = tile->cols,
                   .matrix = row / ne[1],
                   .column = tile->column};
        if (t->source->inputs.columns && s.rows > left) s.rows = (size_t)left;
        part.x = scratch->tile + r * tile->cols;
        if (!put_all(t, outputs, c, &s, &part, e)) return false;
        r += s.rows;
    }
    return true;
}

/* Does a chunk of a transposed tensor, whose rows are whole and many. Where a tile does not hold them, each
 * tile has some columns of all rows. */
static bool do_tiles(const work_tensor *t, const output_set *outputs, const chunk *c,
                     const work_scratch *scratch, gq_error *e) {
    const gq_plan *plan = t->plan;
    const uint64_t width = t->source->tensor->ne[0];
    const size_t rows = (size_t)(c->n / width);
    uint64_t most = TILE / rows < STRIP_ELEMENTS ? TILE / rows : STRIP_ELEMENTS;
    if (most < width) most -= most % CHUNK_GRAIN;
    for (uint64_t column = 0; column < width; column += most) {
        strip tile = {.first = c->first + column,
                      .rows = rows,
                      .cols = (size_t)(width - column < most ? width - column : most),
                      .column = column};
        if (!transposed_read(plan->kernels, &plan->model, t->source->stored, &tile, scratch->in, scratch->x,
                             scratch->tile, e) ||
            !do_tile(t, outputs, c, &tile, scratch, e))
            return false;
    }
    return true;
}

/* ---- a chunk ---- */

bool work_chunk(const work_tensor *t, const output_set *outputs, uint64_t i, const work_scratch *scratch,
                gq_error *e) {
    const gq_plan *plan = t->plan;
    chunk c = chunk_at(&plan->chunks, i, t->source->tensor->ne);
    memset(scratch->errors, 0, plan->n_outputs * sizeof *scratch->errors);
    memset(scratch->sums, 0, plan->n_outputs * sizeof *scratch->sums);
    if (!(plan_transposes(t->source) ? do_tiles : do_strips)(t, outputs, &c, scratch, e)) return false;
    uint32_t source = scratch->sums->source;
    for (size_t o = 0; o < plan->n_outputs; o++) {
        size_t encoder = t->outputs[o].encoder;
        const codec_error *from = &scratch->errors[encoder];
        scratch->sums[o] = (chunk_sum){.x2 = from->x2,
                                       .e2 = from->e2,
                                       .wx2 = from->wx2,
                                       .we2 = from->we2,
                                       .max_e = from->max_e,
                                       .crc = scratch->sums[encoder].crc,
                                       .source = source};
        if (c.last &&
            !write_padding(outputs, o, &plan->outputs[o].places[t->number], t->outputs[o].to->out_bytes, e))
            return false;
    }
    return true;
}

/* ---- what earlier outputs have ---- */

/* Adds the blocks offered to an output's strip to their checksum. encode: also encodes the strip's weights,
 * which are in scratch->x, and returns in *same whether that gives the same blocks. */
static bool check_offer(const work_tensor *t, size_t o, const reuse_offer *offer, const strip *s, bool encode,
                        const work_scratch *scratch, bool *same, gq_error *e) {
    const size_t bytes = s->rows * gguf_row_bytes(t->outputs[o].with.type, s->cols);
    *same = true;
    if (encode && !work_encode_strip(t, NULL, o, s, scratch, e)) return false;
    if (!model_read(offer->from, offer->tensor, s->first, s->rows * s->cols, scratch->in, e)) return false;
    if (encode) *same = memcmp(scratch->in, scratch->out, bytes) == 0;
    scratch->sums[o].crc = checksum_add(scratch->sums[o].crc, scratch->in, bytes);
    return true;
}

/* Whether a strip of what is offered to an output is encoded to be compared; a copy is compared with the
 * source's own bytes, and what was made of more than its own weights by its checksum alone. first: of the chunk. */
static bool work_encodes_offer(const work_tensor *t, size_t o, const reuse_offer *offer, bool first) {
    return offer && offer->from && !plan_copies(t->source, t->outputs[o].to) && !t->outputs[o].calibrated &&
           !plan_transposes(t->source) && (first || !offer->is_digested);
}

/* Reads a strip of the source, decoded where some offer needs it, and adds it to its checksum; transposed
 * weights are not needed. */
static bool work_read_source(const work_tensor *t, const reuse_offer *const *offers, const strip *s,
                             bool first, const work_scratch *scratch, gq_error *e) {
    const gq_plan *plan = t->plan;
    const model_tensor *from = t->source->tensor;
    const size_t n = s->rows * s->cols;
    bool encodes = false, reads = false;
    for (size_t o = 0; o < plan->n_outputs; o++) {
        const reuse_offer *offer = offers[o] ? &offers[o][t->number] : NULL;
        encodes |= work_encodes_offer(t, o, offer, first);
        reads |= offer && offer->from && !plan_transposes(t->source);
    }
    if (!reads) return true;
    if (!(encodes
              ? strip_read_decoded(plan->kernels, &plan->model, from, s->first, n, scratch->in, scratch->x, e)
              : model_read(&plan->model, from, s->first, n, scratch->in, e)))
        return false;
    scratch->sums->source = checksum_add(scratch->sums->source, scratch->in, model_bytes(from, n));
    return true;
}

bool work_check_offers(const work_tensor *t, const reuse_offer *const *offers, uint64_t i,
                       const work_scratch *scratch, gq_error *e) {
    const gq_plan *plan = t->plan;
    chunk c = chunk_at(&plan->chunks, i, t->source->tensor->ne);
    memset(scratch->errors, 0, plan->n_outputs * sizeof *scratch->errors);
    memset(scratch->sums, 0, plan->n_outputs * sizeof *scratch->sums);
    for (uint64_t at = c.first; at < c.first + c.n;) {
        strip s = work_strip_at(t, at, c.first + c.n);
        bool first = at == c.first, same;
        if (!work_read_source(t, offers, &s, first, scratch, e)) return false;
        for (size_t o = 0; o < plan->n_outputs; o++) {
            const reuse_offer *offer = offers[o] ? &offers[o][t->number] : NULL;
            if (!offer || !offer->from) continue;
            bool unlike = scratch->errors[o].n == WORK_UNLIKE;
            if (!check_offer(t, o, offer, &s, work_encodes_offer(t, o, offer, first), scratch, &same, e))
                return false;
            if (unlike || !same) scratch->errors[o].n = WORK_UNLIKE;
        }
        at += s.rows * s.cols;
    }
    return true;
}

/* ---- reading back ---- */

static bool verify_output(const gq_plan *plan, const output_set *outputs, size_t o, const chunk *c,
                          const work_scratch *scratch) {
    const plan_place *place = &plan->outputs[o].places[c->tensor];
    const tensor_type *type = tensor_type_of(plan->outputs[o].tensors[c->tensor].to);
    const uint64_t width = plan->sources[c->tensor].tensor->ne[0];
    uint64_t at = place->offset + tensor_type_bytes(type, width, c->first),
             end = at + tensor_type_bytes(type, width, c->n);
    uint32_t crc = 0;
    while (at < end) {
        size_t n = end - at < 4 * STRIP_ELEMENTS ? (size_t)(end - at) : 4 * STRIP_ELEMENTS;
        if (!output_read(outputs, o, place->shard, at, scratch->out, n, NULL)) return false;
        crc = checksum_add(crc, scratch->out, n);
        at += n;
    }
    return crc == scratch->sums[o].crc &&
           (!c->last ||
            write_padding(outputs, o, place, plan->outputs[o].tensors[c->tensor].out_bytes, NULL));
}

bool work_verify(const gq_plan *plan, const output_set *outputs, uint64_t i, const work_scratch *scratch) {
    size_t tensor = chunk_tensor(&plan->chunks, i);
    chunk c = chunk_at(&plan->chunks, i, plan->sources[tensor].tensor->ne);
    for (size_t o = 0; o < plan->n_outputs; o++)
        if (!verify_output(plan, outputs, o, &c, scratch)) return false;
    return true;
}

/* ---- what chunks cost ---- */

/* Whether an output before this one encodes the tensor in the same type, so that both share the blocks. */
static bool is_shared(const gq_plan *plan, size_t output, size_t tensor, const bool *reused) {
    const gq_tensor *t = &plan->outputs[output].tensors[tensor];
    for (size_t o = 0; o < output; o++) {
        const gq_tensor *other = &plan->outputs[o].tensors[tensor];
        if (other->to == t->to && other->calibrated == t->calibrated &&
            !(reused && reused[o * plan->n_tensors + tensor]))
            return true;
    }
    return false;
}

double run_cost_per_weight(const gq_plan *plan, size_t tensor, const bool *reused) {
    const model_tensor *from = plan->sources[tensor].tensor;
    double weights = (double)shape_elements(from->ne);
    if (!(weights > 0)) return 0;
    double cost = (double)model_bytes_read(from, shape_elements(from->ne)) / weights * SPEED_BYTE;
    bool decoded = false;
    for (size_t o = 0; o < plan->n_outputs; o++) {
        const gq_tensor *t = &plan->outputs[o].tensors[tensor];
        cost += (double)t->out_bytes / weights * SPEED_BYTE;
        if (t->to == t->from) continue;
        decoded = true;
        if ((reused && reused[o * plan->n_tensors + tensor]) || t->calibrated)
            cost += SPEED_DECODE;
        else if (!is_shared(plan, o, tensor, reused))
            cost += speed_encode(t->to, plan->settings.effort) + SPEED_DECODE;
    }
    return cost + (decoded ? SPEED_DECODE : 0);
}

double gq_plan_run_seconds(const gq_plan *plan) {
    double seconds = 0;
    for (size_t i = 0; i < plan->n_tensors; i++)
        seconds += (double)shape_elements(plan->sources[i].tensor->ne) * run_cost_per_weight(plan, i, NULL);
    seconds /= threads_asked(plan->threads);
    return seconds + rounding_seconds_left(plan);
}

void gq_plan_needs(const gq_plan *plan, gq_needs *to) {
    enum { SLACK = 4 << 20 }; /* stacks, streams */
    const gq_calibration_facts *c = gq_plan_calibration(plan);
    work_scratches r;
    struct rusage so_far = {0};
    gq_needs n = {.size = sizeof n, .seconds = gq_plan_run_seconds(plan)};
    work_scratches_measure(&r, plan);
    getrusage(RUSAGE_SELF, &so_far);
    n.memory = (uint64_t)so_far.ru_maxrss * 1024 + (uint64_t)threads_asked(plan->threads) * r.bytes + SLACK;
    n.memory = max(n.memory, c ? c->memory : 0);
    if (output_needs(plan, &n.disk) && c) n.disk += c->disk - min(c->disk, plan->rounding->kept_bytes);
    n.disk_free = output_room(plan->outputs[0].summary.path);
    sized_give(to, &n, sizeof n);
}
