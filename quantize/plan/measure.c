/* Rows spread evenly over a tensor, and so over the matrices of experts, are quantized to each type it could
 * get. The sample depends on shapes alone; every strip of it is measured by one thread, and strips are added
 * up in order, so that the numbers are the same for any number of threads and on any processor.
 */
#include "quantize/plan/measure.h"

#include <math.h>
#include <stdlib.h>

#include "quantize/scan.h"

/* Types with long blocks first. Those with blocks of 32 serve where rows are no multiple of 256; elsewhere a
 * long block does better in the same bytes. */
const uint32_t measure_types[MEASURE_TYPES] = {GGUF_Q2_K, GGUF_Q3_K, GGUF_IQ4_XS, GGUF_Q4_K, GGUF_Q5_K,
                                               GGUF_Q6_K, GGUF_Q8_0, GGUF_F16,    GGUF_Q4_0, GGUF_IQ4_NL,
                                               GGUF_Q4_1, GGUF_Q5_0, GGUF_Q5_1};
enum { STAND_INS = 8 }; /* first of those for odd rows */

bool measure_applies(const gq_plan *plan, size_t tensor, size_t type) {
    const plan_source *s = &plan->sources[tensor];
    const gguf_type *from = s->tensor->type, *to = gguf_type_of(measure_types[type]);
    uint64_t cols = s->tensor->ne[0];
    const codec *codecs = plan->kernels->codecs;
    if (!codecs[from->id].decode || !codecs[to->id].encode || cols % to->block_elements) return false;
    if (type >= STAND_INS && cols % 256 == 0) return false;
    if (mix_demands_importance(s->name, to->id) && !s->importance) return false;
    return gguf_type_bytes(to, cols) < gguf_type_bytes(from, cols);
}

/* ---- the sample ---- */

typedef struct sample {
    uint64_t rows, cols; /* looked at */
    uint64_t per_strip;  /* rows */
    uint64_t strips;
} sample;

static sample sample_of(const gguf_tensor *t) {
    uint64_t all = t->ne[1] * t->ne[2] * t->ne[3], cols = t->ne[0] < SCAN_STRIP ? t->ne[0] : SCAN_STRIP;
    uint64_t rows = MEASURE_SAMPLE / cols;
    sample s = {.rows = rows < all ? rows : all, .cols = cols, .per_strip = SCAN_STRIP / cols};
    s.strips = (s.rows + s.per_strip - 1) / s.per_strip;
    return s;
}

typedef struct strip {
    uint32_t tensor, number;
    double power, weighted, error[MEASURE_TYPES];
} strip;

typedef struct job {
    const gq_plan *plan;
    strip *strips;
} job;

/* Where the j-th row of the sample lies: rows at equal distances, of long rows one stretch after the other.
 */
static uint64_t place(const gguf_tensor *t, const sample *s, uint64_t j, uint64_t *matrix) {
    uint64_t all = t->ne[1] * t->ne[2] * t->ne[3], stretches = t->ne[0] / s->cols;
    uint64_t row = (uint64_t)(((__uint128_t)2 * j + 1) * all / (2 * s->rows));
    *matrix = row / t->ne[1];
    return row * t->ne[0] + j % stretches * s->cols;
}

static bool read_row(const job *j, const gguf_tensor *t, uint64_t at, size_t cols, const scan_room *room,
                     float *to, gq_error *e) {
    const gguf_model *m = &j->plan->model;
    if (!scan_read(m, t, at, cols, room->stored[0], e)) return false;
    j->plan->kernels->codecs[t->type->id].decode(room->stored[0], to, cols);
    size_t bad = j->plan->kernels->first_not_finite(to, cols);
    return bad == cols ||
           gq_fail(e, "%s: tensor %s: element %llu is %g, and weights must be finite",
                   m->shards[t->shard].file.path, t->name, (unsigned long long)(at + bad), (double)to[bad]);
}

static float largest(const float *x, size_t n) {
    float most = 0;
    for (size_t i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i]));
    return most;
}

/* Rows that share a matrix, and so their importance. */
static void try_types(const job *j, strip *to, float *x, size_t rows, size_t cols, const float *column,
                      const scan_room *room) {
    const kernels *k = j->plan->kernels;
    codec_importance importance = {.column = column}, *given = column ? &importance : NULL;
    double power = 0, weighted = 0;
    float most = largest(x, rows * cols);
    for (size_t type = 0; type < MEASURE_TYPES; type++) {
        const codec *c = &k->codecs[measure_types[type]];
        codec_error sum = {0};
        if (to->error[type] < 0) continue;
        if (most > c->max_magnitude) {
            to->error[type] = INFINITY;
            continue;
        }
        c->encode(x, room->stored[1], rows, cols, given, &j->plan->settings);
        c->decode(room->stored[1], room->decoded[1], rows * cols);
        k->measure(x, room->decoded[1], rows, cols, given, &sum);
        to->error[type] += isfinite(sum.max_e) ? sum.we2 : INFINITY;
        power = sum.x2, weighted = sum.wx2;
    }
    to->power += power, to->weighted += weighted;
}

static bool do_strip(void *arg, uint64_t number, uint64_t first, uint64_t n, const scan_room *room,
                     scan_work *done, gq_error *e) {
    (void)first, (void)n;
    const job *w = arg;
    strip *to = &w->strips[number];
    const plan_source *source = &w->plan->sources[to->tensor];
    const gguf_tensor *t = source->tensor;
    sample s = sample_of(t);
    uint64_t begin = to->number * s.per_strip,
             end = begin + s.per_strip < s.rows ? begin + s.per_strip : s.rows;
    for (size_t type = 0; type < MEASURE_TYPES; type++)
        to->error[type] = measure_applies(w->plan, to->tensor, type) ? 0 : -1;
    for (uint64_t j = begin; j < end;) {
        uint64_t matrix, next, at = place(t, &s, j, &matrix), offset = at % t->ne[0];
        size_t rows = 0;
        do { /* rows of one matrix (of long rows: one) */
            if (!read_row(w, t, at, s.cols, room, room->decoded[0] + rows * s.cols, e)) return false;
            rows++;
            if (++j < end) at = place(t, &s, j, &next);
        } while (j < end && next == matrix);
        const float *column = source->importance ? source->importance + matrix * t->ne[0] + offset : NULL;
        try_types(w, to, room->decoded[0], rows, s.cols, column, room);
    }
    uint64_t weights = (end - begin) * s.cols;
    *done = (scan_work){gguf_type_bytes(t->type, weights), weights};
    return true;
}

/* ---- all tensors ---- */

static bool known(const gq_plan *plan, size_t i, const measured *m) {
    for (size_t type = 0; type < MEASURE_TYPES; type++)
        if (measure_applies(plan, i, type) && (m->weights == 0 || m->error[type] < 0)) return false;
    return true;
}

static void fold(const strip *strips, size_t n, const gq_plan *plan, measured *found) {
    for (size_t i = 0; i < n; i++) {
        measured *m = &found[strips[i].tensor];
        sample s = sample_of(plan->sources[strips[i].tensor].tensor);
        if (strips[i].number == 0) *m = (measured){.weights = (double)(s.rows * s.cols)};
        m->power += strips[i].power, m->weighted += strips[i].weighted;
        for (size_t type = 0; type < MEASURE_TYPES; type++) m->error[type] += strips[i].error[type];
    }
}

bool measure_tensors(gq_plan *plan, const bool *wanted, measured *found, bool *fresh,
                     const gq_callbacks *callbacks, gq_error *e) {
    scan s = {.rooms = NULL};
    job j = {.plan = plan};
    uint64_t n = 0, bytes = 0;
    for (int pass = 0; pass < 2; pass++) { /* count, then list */
        n = 0;
        for (size_t i = 0; i < plan->n_tensors; i++) {
            const gguf_tensor *t = plan->sources[i].tensor;
            if (!wanted[i] || known(plan, i, &found[i])) continue;
            sample of = sample_of(t);
            for (uint64_t k = 0; k < of.strips; k++, n++)
                if (pass) j.strips[n] = (strip){.tensor = (uint32_t)i, .number = (uint32_t)k};
            if (!pass) bytes += of.rows * gguf_type_bytes(t->type, of.cols);
        }
        if (n == 0) return true;
        if (!pass && !(j.strips = calloc(n, sizeof *j.strips)))
            return gq_fail_memory(e, n * sizeof *j.strips);
    }
    /* A strip is a piece for the workers, whatever it holds. */
    bool ok = scan_start(&s, plan->threads, callbacks, bytes, e) &&
              scan_tensor(&s, n * SCAN_PIECE, do_strip, &j, e) && workers_warn(&s.fewest, &plan->warnings, e);
    if (ok) fold(j.strips, n, plan, found);
    *fresh = ok;
    scan_end(&s);
    free(j.strips);
    return ok;
}
