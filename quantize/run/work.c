#include "quantize/run/work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* A strip is what is in memory at once: whole rows, or part of a long one. With 2^16 elements its buffers
 * (the input, of up to 8 bytes each where they are only copied, and three of 4) stay in a core's second-level
 * cache. Under importance, encoders work on CODEC_MOST_LANES rows at once and take as long for fewer, so
 * strips of wide rows are larger there, up to 2^20 elements; 16-bit input and an output of 4 bits then touch
 * 7 bytes of each, 7 MiB. What is read back is decoded 2^16 elements at a time. */
enum { STRIP = 1 << 16, WIDE_STRIP = 1 << 20, PADDING = 1 << 12 };

typedef struct strip {
    uint64_t at; /* first element in the tensor */
    size_t rows, cols;
    uint64_t matrix, column;
} strip;

/* Most elements of a strip. */
static size_t strip_room(const plan_source *source) {
    uint64_t cols = source->tensor->ne[0];
    if (!source->importance || cols <= STRIP / CODEC_MOST_LANES) return STRIP;
    return cols < WIDE_STRIP / CODEC_MOST_LANES ? CODEC_MOST_LANES * (size_t)cols : WIDE_STRIP;
}

bool work_room_new(work_room *room, const gq_plan *plan, gq_error *e) {
    size_t most = STRIP;
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (strip_room(&plan->sources[i]) > most) most = strip_room(&plan->sources[i]);
    size_t in = most > 2 * STRIP ? 4 * most : 8 * STRIP, bytes = in + 8 * most + 4 * STRIP;
    *room = (work_room){.memory = NULL};
    if (posix_memalign(&room->memory, 64, bytes) != 0) {
        room->memory = NULL;
        return gq_fail_memory(e, bytes);
    }
    room->x = room->memory;
    room->decoded = room->x + most;
    room->out = (uint8_t *)(room->decoded + STRIP);
    room->in = room->out + 4 * most;
    room->sums = calloc(plan->n_outputs, sizeof *room->sums);
    return room->sums ? true : gq_fail_memory(e, plan->n_outputs * sizeof *room->sums);
}

void work_room_free(work_room *room) { free(room->memory), free(room->sums); }

/* ---- places ---- */

/* The strip that begins at element `at` of a chunk that ends at `end`. Importance changes from matrix to
 * matrix, so strips end with them where there is any. */
static strip strip_at(const plan_source *source, uint64_t at, uint64_t end) {
    const uint64_t *ne = source->tensor->ne;
    strip s = {.at = at, .rows = 1, .column = at % ne[0], .matrix = at / ne[0] / ne[1]};
    size_t most = strip_room(source);
    if (ne[0] > most) {
        uint64_t left = ne[0] - s.column, n = end - at < left ? end - at : left;
        s.cols = n < most ? n : most;
        return s;
    }
    uint64_t rows = (end - at) / ne[0], fit = most / ne[0], left = ne[1] - at / ne[0] % ne[1];
    /* Full batches where there are any; else half a batch or less, which is one of a CPU with fewer lanes. */
    fit = fit < CODEC_MOST_LANES ? fit : fit / CODEC_MOST_LANES * CODEC_MOST_LANES;
    while (source->importance && fit < CODEC_MOST_LANES && (fit & (fit - 1))) fit &= fit - 1;
    if (rows > fit) rows = fit;
    if (source->importance && rows > left) rows = left;
    s.rows = rows, s.cols = ne[0];
    return s;
}

/* ---- input ---- */

static work_status bad(const gq_plan *plan, const gguf_tensor *t, const char *what, uint64_t element, float x,
                       gq_error *e) {
    gq_fail(e, "%s: tensor %s: element %llu is %g, %s", plan->model.shards[t->shard].file.path, t->name,
            (unsigned long long)element, (double)x, what);
    return WORK_BAD_INPUT;
}

/* Read a strip and decode it, where its type can be decoded; all its values must be finite, also where they
 * are only copied. */
static work_status read_strip(const gq_plan *plan, const gguf_tensor *t, const strip *s,
                              const work_room *room, gq_error *e) {
    const gq_file *file = &plan->model.shards[t->shard].file;
    size_t n = s->rows * s->cols;
    if (!gq_file_read(file, t->offset + gguf_type_bytes(t->type, s->at), room->in,
                      gguf_type_bytes(t->type, n), e))
        return WORK_FAILED;
    const codec *from = &plan->kernels->codecs[t->type->id];
    if (!from->decode) return WORK_DONE;
    from->decode(room->in, room->x, n);
    size_t first = plan->kernels->first_not_finite(room->x, n);
    return first == n ? WORK_DONE
                      : bad(plan, t, "and weights must be finite", s->at + first, room->x[first], e);
}

/* Index of the first value beyond what a type can hold; n: none. On the bits, a stretch at a time, so that
 * the compiler can use vectors. */
static size_t first_beyond(const float *x, size_t n, float most) {
    int32_t bound, bits;
    memcpy(&bound, &most, sizeof bound);
    for (size_t i = 0; i < n;) {
        size_t end = n - i < 1024 ? n : i + 1024;
        int32_t beyond = 0;
        for (size_t j = i; j < end; j++) {
            memcpy(&bits, &x[j], sizeof bits);
            beyond |= (bits & INT32_MAX) > bound;
        }
        for (; beyond && i < end; i++)
            if (fabsf(x[i]) > most) return i;
        i = end;
    }
    return n;
}

/* ---- output ---- */

/* Decode what was encoded, as many rows at a time as there is room for, or part of a long one, and add up the
 * errors. */
static work_status measure_strip(const gq_plan *plan, const plan_source *source, const gq_tensor *to,
                                 const strip *s, const work_room *room, const codec_importance *importance,
                                 codec_error *error, gq_error *e) {
    const gguf_type *type = gguf_type_of(to->to);
    size_t cols = s->cols < STRIP ? s->cols : STRIP, rows = STRIP / cols, n;
    for (size_t at = 0; at < s->rows * s->cols; at += n) {
        size_t left = s->rows - at / s->cols, column = at % s->cols;
        size_t some = left < rows ? left : rows,
               some_cols = s->cols - column < cols ? s->cols - column : cols;
        const codec_importance part = {importance ? importance->column + column : NULL};
        n = some * some_cols;
        plan->kernels->codecs[to->to].decode(room->out + gguf_type_bytes(type, at), room->decoded, n);
        plan->kernels->measure(room->x + at, room->decoded, some, some_cols, importance ? &part : NULL,
                               error);
        if (isfinite(error->max_e)) continue;
        size_t first = plan->kernels->first_not_finite(room->decoded, n);
        char what[96];
        snprintf(what, sizeof what, "and its block does not decode to finite numbers as %s", type->name);
        /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): a strip is never empty */
        return bad(plan, source->tensor, what, s->at + at + first % n, room->x[at + first % n], e);
    }
    return WORK_DONE;
}

static work_status encode_strip(const gq_plan *plan, const plan_source *source, const gq_tensor *to,
                                const strip *s, const work_room *room, codec_error *error, gq_error *e) {
    const codec *c = &plan->kernels->codecs[to->to];
    size_t n = s->rows * s->cols;
    char what[96];
    size_t beyond = isfinite(c->max_magnitude) ? first_beyond(room->x, n, c->max_magnitude) : n;
    if (beyond < n) {
        snprintf(what, sizeof what, "and %s holds no magnitude above %g", gguf_type_name(to->to),
                 (double)c->max_magnitude);
        return bad(plan, source->tensor, what, s->at + beyond, room->x[beyond], e);
    }
    codec_importance importance = {.column = NULL};
    const codec_importance *given = NULL;
    if (to->importance == GQ_IMPORTANCE_FULL) {
        importance.column = source->importance + s->matrix * source->tensor->ne[0] + s->column;
        given = &importance;
    }
    c->encode(room->x, room->out, s->rows, s->cols, given, &plan->settings);
    return measure_strip(plan, source, to, s, room, given, error, e);
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

static work_status put_strip(const gq_plan *plan, const output_set *outputs, size_t o, size_t tensor,
                             const strip *s, work_room *room, codec_error *error, gq_error *e) {
    const gq_tensor *to = &plan->outputs[o].tensors[tensor];
    const gguf_type *type = gguf_type_of(to->to);
    const uint8_t *bytes = room->in;
    size_t n = gguf_type_bytes(type, s->rows * s->cols);
    if (to->from != to->to) {
        work_status status = encode_strip(plan, &plan->sources[tensor], to, s, room, error, e);
        if (status != WORK_DONE) return status;
        bytes = room->out;
    }
    room->sums[o].crc = (uint32_t)crc32_z(room->sums[o].crc, bytes, n);
    return write_strip(plan, outputs, o, tensor, gguf_type_bytes(type, s->at), bytes, n, e) ? WORK_DONE
                                                                                            : WORK_FAILED;
}

static work_status do_strips(const gq_plan *plan, const output_set *outputs, const chunk *c, work_room *room,
                             codec_error *errors, gq_error *e) {
    const plan_source *source = &plan->sources[c->tensor];
    for (uint64_t at = c->first; at < c->first + c->n;) {
        strip s = strip_at(source, at, c->first + c->n);
        work_status status = read_strip(plan, source->tensor, &s, room, e);
        for (size_t o = 0; status == WORK_DONE && o < plan->n_outputs; o++)
            if (encoder_of(plan, o, c->tensor) == o)
                status = put_strip(plan, outputs, o, c->tensor, &s, room, &errors[o], e);
        if (status != WORK_DONE) return status;
        at += s.rows * s.cols;
    }
    return WORK_DONE;
}

work_status work_chunk(const gq_plan *plan, const output_set *outputs, uint64_t i, work_room *room,
                       gq_error *e) {
    size_t tensor = chunk_tensor(&plan->chunks, i);
    chunk c = chunk_at(&plan->chunks, i, plan->sources[tensor].tensor->ne);
    codec_error *errors = calloc(plan->n_outputs, sizeof *errors);
    if (!errors) return gq_fail_memory(e, plan->n_outputs * sizeof *errors), WORK_FAILED;
    memset(room->sums, 0, plan->n_outputs * sizeof *room->sums);
    work_status status = do_strips(plan, outputs, &c, room, errors, e);
    for (size_t o = 0; status == WORK_DONE && o < plan->n_outputs; o++) {
        size_t encoder = encoder_of(plan, o, tensor);
        const codec_error *from = &errors[encoder];
        room->sums[o] = (chunk_sum){.x2 = from->x2,
                                    .e2 = from->e2,
                                    .wx2 = from->wx2,
                                    .we2 = from->we2,
                                    .max_e = from->max_e,
                                    .crc = room->sums[encoder].crc};
        if (c.last && !write_padding(outputs, o, &plan->outputs[o].places[tensor],
                                     plan->outputs[o].tensors[tensor].out_bytes, e))
            status = WORK_FAILED;
    }
    free(errors);
    return status;
}

/* ---- reading back ---- */

static bool verify_output(const gq_plan *plan, const output_set *outputs, size_t o, const chunk *c,
                          work_room *room) {
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

bool work_verify(const gq_plan *plan, const output_set *outputs, uint64_t i, work_room *room) {
    size_t tensor = chunk_tensor(&plan->chunks, i);
    chunk c = chunk_at(&plan->chunks, i, plan->sources[tensor].tensor->ne);
    for (size_t o = 0; o < plan->n_outputs; o++)
        if (!verify_output(plan, outputs, o, &c, room)) return false;
    return true;
}
