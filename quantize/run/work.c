#include "quantize/run/work.h"

#include <string.h>
#include <zlib.h>

#include "quantize/strip.h"

/* Under importance, encoders work on CODEC_MOST_LANES rows at once and take as long for fewer, so strips of
 * wide rows are larger there, up to 2^20 elements; 16-bit input and an output of 4 bits then touch 7 bytes of
 * each, 7 MiB. What is read back is decoded STRIP elements at a time. */
enum { WIDE_STRIP = 1 << 20, PADDING = 1 << 12, OUT_BYTES = 4 };

/* Most elements of a strip. */
static size_t strip_room(const plan_source *source) {
    uint64_t cols = source->tensor->ne[0];
    if (!source->inputs.columns || cols <= STRIP / CODEC_MOST_LANES) return STRIP;
    return cols < WIDE_STRIP / CODEC_MOST_LANES ? CODEC_MOST_LANES * (size_t)cols : WIDE_STRIP;
}

/* ---- memory ---- */

void work_rooms_measure(work_rooms *r, const gq_plan *plan) {
    *r = (work_rooms){.n_outputs = plan->n_outputs, .strip = STRIP};
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (strip_room(&plan->sources[i]) > r->strip) r->strip = strip_room(&plan->sources[i]);
    /* Strips beyond STRIP are of weights, which have 4 bytes at most. */
    r->in = r->strip > 2 * STRIP ? 4 * r->strip : STORED_BYTES * STRIP;
    r->bytes = r->in + (sizeof(float) + OUT_BYTES) * r->strip + sizeof(float) * STRIP +
               r->n_outputs * (sizeof(chunk_sum) + sizeof(codec_error));
}

work_room work_room_in(const work_rooms *r, void *memory) {
    work_room room = {.x = memory};
    room.decoded = room.x + r->strip;
    room.out = (uint8_t *)(room.decoded + STRIP);
    room.in = room.out + OUT_BYTES * r->strip;
    room.sums = (chunk_sum *)(void *)(room.in + r->in);
    room.errors = (codec_error *)(void *)(room.sums + r->n_outputs);
    return room;
}

/* ---- places ---- */

/* The strip that begins at element `first` of a chunk that ends at `end`. Importance changes from matrix to
 * matrix, so strips end with them where there is any. */
static strip strip_at(const plan_source *source, uint64_t first, uint64_t end) {
    const uint64_t *ne = source->tensor->ne, as_one[4] = {ne[0], ne[1] * ne[2] * ne[3], 1, 1};
    bool importance = source->inputs.columns > 0;
    uint64_t most = strip_room(source), fit = most / ne[0];
    /* Full batches where there are any; else half a batch or less, which is one of a CPU with fewer lanes. */
    if (fit > CODEC_MOST_LANES) fit = fit / CODEC_MOST_LANES * CODEC_MOST_LANES;
    while (importance && fit < CODEC_MOST_LANES && (fit & (fit - 1))) fit &= fit - 1;
    if (fit > 0) most = fit * ne[0];
    return strip_from(importance ? ne : as_one, first, end - first < most ? end : first + most);
}

/* ---- output ---- */

static bool encode_strip(const gq_plan *plan, const plan_source *source, const gq_tensor *to, const strip *s,
                         const work_room *room, codec_error *error, gq_error *e) {
    strip_encoder encoder = {
        .kernels = plan->kernels, .type = gguf_type_of(to->to), .settings = &plan->settings};
    if (to->importance == GQ_IMPORTANCE_FULL) encoder.importance = strip_importance(s, &source->inputs);
    size_t held = strip_encode(&encoder, room->x, s->rows, s->cols, room->out, room->decoded, error);
    return held == s->rows * s->cols ||
           strip_fail_to_hold(&encoder, &plan->model, source->tensor, s->first + held, room->x[held], e);
}

/* A tensor's last chunk brings the zeros that lie behind the tensor. */
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

/* The first output that gives a tensor the type that output `o` gives it. Bytes and errors depend on nothing
 * else, so it encodes for all of them. */
static size_t encoder_of(const gq_plan *plan, size_t o, size_t tensor) {
    size_t first = 0;
    while (plan->outputs[first].tensors[tensor].to != plan->outputs[o].tensors[tensor].to) first++;
    return first;
}

static bool write_strip(const gq_plan *plan, const output_set *outputs, size_t encoder, size_t tensor,
                        uint64_t at, const uint8_t *bytes, size_t n, gq_error *e) {
    for (size_t o = encoder; o < plan->n_outputs; o++) {
        const plan_place *place = &plan->outputs[o].places[tensor];
        if (encoder_of(plan, o, tensor) == encoder &&
            !output_write(outputs, o, place->shard, place->offset + at, bytes, n, e))
            return false;
    }
    return true;
}

static bool put_strip(const gq_plan *plan, const output_set *outputs, size_t o, size_t tensor, const strip *s,
                      const work_room *room, gq_error *e) {
    const gq_tensor *to = &plan->outputs[o].tensors[tensor];
    const gguf_type *type = gguf_type_of(to->to);
    const uint8_t *bytes = room->in;
    size_t n = gguf_type_bytes(type, s->rows * s->cols);
    if (to->from != to->to) {
        if (!encode_strip(plan, &plan->sources[tensor], to, s, room, &room->errors[o], e)) return false;
        bytes = room->out;
    }
    room->sums[o].crc = (uint32_t)crc32_z(room->sums[o].crc, bytes, n);
    return write_strip(plan, outputs, o, tensor, gguf_type_bytes(type, s->first), bytes, n, e);
}

static bool do_strips(const gq_plan *plan, const output_set *outputs, const chunk *c, const work_room *room,
                      gq_error *e) {
    const plan_source *source = &plan->sources[c->tensor];
    for (uint64_t at = c->first; at < c->first + c->n;) {
        strip s = strip_at(source, at, c->first + c->n);
        if (!strip_read_decoded(plan->kernels, &plan->model, source->tensor, s.first, s.rows * s.cols,
                                room->in, room->x, e))
            return false;
        for (size_t o = 0; o < plan->n_outputs; o++)
            if (encoder_of(plan, o, c->tensor) == o && !put_strip(plan, outputs, o, c->tensor, &s, room, e))
                return false;
        at += s.rows * s.cols;
    }
    return true;
}

bool work_chunk(const gq_plan *plan, const output_set *outputs, uint64_t i, const work_room *room,
                gq_error *e) {
    size_t tensor = chunk_tensor(&plan->chunks, i);
    chunk c = chunk_at(&plan->chunks, i, plan->sources[tensor].tensor->ne);
    memset(room->errors, 0, plan->n_outputs * sizeof *room->errors);
    memset(room->sums, 0, plan->n_outputs * sizeof *room->sums);
    if (!do_strips(plan, outputs, &c, room, e)) return false;
    for (size_t o = 0; o < plan->n_outputs; o++) {
        size_t encoder = encoder_of(plan, o, tensor);
        const codec_error *from = &room->errors[encoder];
        room->sums[o] = (chunk_sum){.x2 = from->x2,
                                    .e2 = from->e2,
                                    .wx2 = from->wx2,
                                    .we2 = from->we2,
                                    .max_e = from->max_e,
                                    .crc = room->sums[encoder].crc};
        if (c.last && !write_padding(outputs, o, &plan->outputs[o].places[tensor],
                                     plan->outputs[o].tensors[tensor].out_bytes, e))
            return false;
    }
    return true;
}

/* ---- reading back ---- */

static bool verify_output(const gq_plan *plan, const output_set *outputs, size_t o, const chunk *c,
                          const work_room *room) {
    const plan_place *place = &plan->outputs[o].places[c->tensor];
    const gguf_type *type = gguf_type_of(plan->outputs[o].tensors[c->tensor].to);
    uint64_t at = place->offset + gguf_type_bytes(type, c->first), end = at + gguf_type_bytes(type, c->n);
    uint32_t crc = 0;
    while (at < end) {
        size_t n = end - at < 4 * STRIP ? (size_t)(end - at) : 4 * STRIP;
        if (!output_read(outputs, o, place->shard, at, room->out, n, NULL)) return false;
        crc = (uint32_t)crc32_z(crc, room->out, n);
        at += n;
    }
    return crc == room->sums[o].crc &&
           (!c->last ||
            write_padding(outputs, o, place, plan->outputs[o].tensors[c->tensor].out_bytes, NULL));
}

bool work_verify(const gq_plan *plan, const output_set *outputs, uint64_t i, const work_room *room) {
    size_t tensor = chunk_tensor(&plan->chunks, i);
    chunk c = chunk_at(&plan->chunks, i, plan->sources[tensor].tensor->ne);
    for (size_t o = 0; o < plan->n_outputs; o++)
        if (!verify_output(plan, outputs, o, &c, room)) return false;
    return true;
}
