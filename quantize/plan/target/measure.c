/* Measures what each type would cost each tensor, for targets. Rows spread evenly over a tensor, and so over
 * the matrices of experts, are encoded in each type that it could get, decoded, and their errors added up.
 * The sample depends on shapes alone; each strip of it is measured by one thread, and strips are added up in
 * order. So the numbers are the same for any number of threads and on any processor. They are kept
 * beside the model; plan/target/target.c chooses by them. */
#include "quantize/plan/target/target.h"
#include "quantize/quantize.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checksum.h"
#include "base/memory.h"
#include "base/name_index.h"
#include "quantize/plan/rounding.h"
#include "quantize/strips/strips.h"

bool measure_applies(const gq_plan *plan, size_t tensor, size_t type) {
    const plan_source *s = &plan->sources[tensor];
    const codec *codecs = plan->kernels->codecs;
    return codecs[s->tensor->type->id].decode && codecs[budget_types[type]].encode &&
           budget_type_applies(type, s->name, s->tensor->type, s->tensor->ne[0],
                               s->inputs.columns > 0 || rounding_can_round(plan, s),
                               plan_qat_grid_holds(s, budget_types[type]));
}

const measurement *measure_trials(const gq_plan *plan) {
    return rounding_runs_ahead(plan) ? plan->runners->trials : NULL;
}

/* ---- the sample ---- */

typedef struct sample {
    uint64_t rows, cols; /* looked at */
    uint64_t per_strip;  /* rows */
    uint64_t strips;
} sample;

static sample sample_of(const model_tensor *t) {
    uint64_t all = shape_rows(t->ne), cols = t->ne[0] < STRIP_ELEMENTS ? t->ne[0] : STRIP_ELEMENTS;
    uint64_t rows = MEASURE_SAMPLE / cols;
    sample s = {.rows = rows < all ? rows : all, .cols = cols, .per_strip = STRIP_ELEMENTS / cols};
    s.strips = (s.rows + s.per_strip - 1) / s.per_strip;
    return s;
}

typedef struct sample_strip {
    uint32_t tensor, number;
    double power, error[BUDGET_TYPES];
} sample_strip;

typedef struct measure_job {
    const gq_plan *plan;
    sample_strip *strips;
} measure_job;

/* Returns the first element of the sample's j-th row. Rows are at equal distances; of long rows one stretch
 * after the other is taken. */
static uint64_t sample_element(const model_tensor *t, const sample *s, uint64_t j, uint64_t *matrix) {
    uint64_t all = shape_rows(t->ne), stretches = t->ne[0] / s->cols;
    uint64_t row = (uint64_t)(((__uint128_t)2 * j + 1) * all / (2 * s->rows));
    *matrix = row / t->ne[1];
    return row * t->ne[0] + j % stretches * s->cols;
}

/* Returns the relative squared error of rows, plain or under their importance, whichever is larger. The
 * importance alone misleads: a few tokens with massive activations make up nearly all of the mean squares of
 * some matrices (ffn_down of Qwen2.5's first layers), whose other columns then seem to need no bits. */
static double relative_error(const codec_error *of) {
    double plain = of->x2 > 0 ? of->e2 / of->x2 : 0, weighted = of->wx2 > 0 ? of->we2 / of->wx2 : 0;
    return fmax(plain, weighted);
}

/* Encodes rows in each type and adds their errors to *to. The rows are of one matrix, and so have the same
 * importance. */
static void try_types(const measure_job *j, sample_strip *to, size_t rows, size_t cols,
                      const float *importance, strip_buffers *scratch) {
    const float *x = scratch->decoded[0];
    strip_encoder encoder = {
        .kernels = j->plan->kernels, .importance = importance, .settings = &j->plan->settings};
    double power = 0;
    for (size_t type = 0; type < BUDGET_TYPES; type++) {
        codec_error sum = {0};
        if (to->error[type] < 0) continue;
        encoder.type = tensor_type_of(budget_types[type]);
        size_t held = strip_encode(&encoder, x, rows, cols, scratch->stored[1], scratch->decoded[1], &sum);
        to->error[type] += held == rows * cols ? relative_error(&sum) * sum.x2 : INFINITY;
        if (sum.n) power = sum.x2;
    }
    to->power += power;
}

/* Reads a stretch of one row into x, decoded. */
static bool read_stretch(const measure_job *j, const plan_source *source, strip at, float *x,
                         strip_buffers *scratch, gq_error *e) {
    const gq_plan *plan = j->plan;
    if (plan_transposes(source))
        return transposed_read(plan->kernels, &plan->model, source->stored, &at, scratch->stored[0],
                               scratch->decoded[1], x, e);
    return strip_read_decoded(plan->kernels, &plan->model, source->tensor, at.first, at.cols,
                              scratch->stored[0], x, e);
}

/* Returns the seconds that a weight of a sample takes a thread: it is encoded in all types that apply. */
static double measure_cost_per_weight(const gq_plan *plan, size_t tensor) {
    double seconds = SPEED_DECODE;
    for (size_t type = 0; type < BUDGET_TYPES; type++)
        if (measure_applies(plan, tensor, type))
            seconds += speed_encode(budget_types[type], plan->settings.effort) + SPEED_DECODE;
    return seconds;
}

static bool do_strip(void *arg, work_piece *p, gq_error *e) {
    const measure_job *w = arg;
    strip_buffers *scratch = p->scratch;
    sample_strip *to = &w->strips[p->number];
    const plan_source *source = &w->plan->sources[to->tensor];
    const model_tensor *t = source->tensor;
    sample s = sample_of(t);
    uint64_t begin = to->number * s.per_strip,
             end = begin + s.per_strip < s.rows ? begin + s.per_strip : s.rows;
    for (size_t type = 0; type < BUDGET_TYPES; type++)
        to->error[type] = measure_applies(w->plan, to->tensor, type) ? 0 : -1;
    for (uint64_t j = begin; j < end;) {
        uint64_t matrix, next, at = sample_element(t, &s, j, &matrix), offset = at % t->ne[0];
        size_t rows = 0;
        do { /* rows of one matrix (of long rows: one) */
            strip row = {.first = at, .rows = 1, .cols = s.cols, .column = at % t->ne[0]};
            if (!read_stretch(w, source, row, scratch->decoded[0] + rows * s.cols, scratch, e)) return false;
            rows++;
            if (++j < end) at = sample_element(t, &s, j, &next);
        } while (j < end && next == matrix);
        try_types(w, to, rows, s.cols, tensor_inputs_at(&source->inputs, matrix, offset), scratch);
    }
    p->weights = (end - begin) * s.cols;
    p->bytes = model_bytes_read(t, p->weights);
    p->work = (double)p->weights * measure_cost_per_weight(w->plan, to->tensor);
    return true;
}

/* ---- all tensors ---- */

static bool measure_is_known(const gq_plan *plan, size_t i, const measured *m) {
    for (size_t type = 0; type < BUDGET_TYPES; type++)
        if (measure_applies(plan, i, type) && (m->weights == 0 || m->error[type] < 0)) return false;
    return true;
}

bool measure_known(const gq_plan *plan, const bool *wanted, const measured *found) {
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (wanted[i] && !measure_is_known(plan, i, &found[i])) return false;
    return true;
}

/* Counts what is left to measure: seconds of one thread, and bytes that are read. */
static double measure_count_work(const gq_plan *plan, const bool *wanted, const measured *found,
                                 uint64_t *bytes) {
    double seconds = 0;
    *bytes = 0;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        if (!wanted[i] || measure_is_known(plan, i, &found[i])) continue;
        sample of = sample_of(plan->sources[i].tensor);
        *bytes += model_bytes_read(plan->sources[i].tensor, of.rows * of.cols);
        seconds += (double)(of.rows * of.cols) * measure_cost_per_weight(plan, i);
    }
    return seconds;
}

double measure_seconds(const gq_plan *plan, const bool *wanted, const measured *found) {
    uint64_t bytes;
    return measure_count_work(plan, wanted, found, &bytes) / threads_asked(plan->threads);
}

static void measure_fold_strips(const sample_strip *strips, size_t n, const gq_plan *plan, measured *found) {
    for (size_t i = 0; i < n; i++) {
        measured *m = &found[strips[i].tensor];
        sample s = sample_of(plan->sources[strips[i].tensor].tensor);
        if (strips[i].number == 0) *m = (measured){.weights = (double)(s.rows * s.cols), .sensitivity = -1};
        m->power += strips[i].power;
        for (size_t type = 0; type < BUDGET_TYPES; type++) m->error[type] += strips[i].error[type];
    }
}

bool measure_tensors(gq_plan *plan, const bool *wanted, measured *found, bool *fresh,
                     const gq_callbacks *callbacks, gq_error *e) {
    schedule s = {.pool = NULL};
    measure_job j = {.plan = plan};
    size_t n = 0, capacity = 0;
    bool ok = true;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        if (!wanted[i] || measure_is_known(plan, i, &found[i])) continue;
        sample of = sample_of(plan->sources[i].tensor);
        for (uint64_t k = 0; ok && k < of.strips; k++)
            if ((ok = memory_grow(&j.strips, &capacity, n + 1, sizeof *j.strips, e)))
                j.strips[n++] = (sample_strip){.tensor = (uint32_t)i, .number = (uint32_t)k};
    }
    if (ok && n == 0) return true;
    ok = ok && schedule_start(&s, plan->threads, sizeof(strip_buffers), callbacks, e);
    if (ok) s.work = measure_count_work(plan, wanted, found, &s.progress.bytes_total);
    ok = ok && schedule_run(&s, &(schedule_job){.end = n, .work = do_strip, .arg = &j}, e) &&
         warnings_add_threads(&plan->warnings, threads_pool_count(s.pool), e);
    if (ok) measure_fold_strips(j.strips, n, plan, found);
    *fresh = ok;
    schedule_end(&s);
    free(j.strips);
    return ok;
}

/* ---- from one run to the next ---- */

/* Keeps measurements beside the model, in a GGUF without tensors: so the reader that trusts no file reads it,
 * and 'gquant info' shows it. A text says what the measurements belong to (measure_key). Each tensor has an
 * array of numbers: weights, power, sensitivity, then type and error in turn. A checksum over these
 * arrays detects changes, as a changed number would choose other types. */

static const char OF[] = "measured.of", SUM[] = "measured.crc32", PREFIX[] = "measured.tensor.",
                  TRANSPOSED[] = " transposed";
enum {
    HEADER = 3,
    NUMBERS = HEADER + 2 * BUDGET_TYPES,
    KEY = sizeof PREFIX + GGUF_MAX_NAME + sizeof TRANSPOSED
};

/* Returns a checksum of what trials depend on: the layers that are written, which trials pass, and the wanted
 * tensors, among which as many trials as memory holds are spread. */
static uint32_t trials_digest(const gq_plan *plan, const bool *wanted) {
    uint32_t sum = checksum_add(0, plan->layers.kept, plan->layers.n * sizeof *plan->layers.kept);
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (wanted[i]) sum = checksum_add_text(sum, plan->sources[i].tensor->name);
    return sum;
}

void measure_key(const gq_plan *plan, const bool *wanted, size_t trial_layers, char key[MEASURE_KEY]) {
    char build[24];
    plan_build(build);
    int n = snprintf(key, MEASURE_KEY, "gquant %s, input %08x%08x, settings %08x, sample %d", build,
                     plan->identity.input, plan->identity.content, plan_settings_digest(plan),
                     (int)MEASURE_SAMPLE);
    if (measure_trials(plan) && n > 0 && n < MEASURE_KEY)
        snprintf(key + n, (size_t)(MEASURE_KEY - n), ", trials in %zu layers, tensors %08x", trial_layers,
                 trials_digest(plan, wanted));
}

static void tensor_key(const plan_source *s, char key[KEY]) {
    snprintf(key, KEY, "%s%s%s", PREFIX, s->tensor->name, plan_transposes(s) ? TRANSPOSED : "");
}

/* ---- reading the file ---- */

static size_t type_index(double id) {
    size_t i = 0;
    while (i < BUDGET_TYPES && (double)budget_types[i] != id) i++;
    return i;
}

/* Reads a tensor's numbers. Whatever the file holds, `found` gets only values that measuring could give. */
static void measure_file_read_tensor(const model_kv *kv, measured *found) {
    uint32_t type;
    uint64_t n;
    const uint8_t *elements;
    double numbers[NUMBERS];
    measured m = {.weights = 0};
    if (!kv || !model_kv_array(kv, &type, &n, &elements) || type != GGUF_FLOAT64 || n < HEADER ||
        n > NUMBERS || (n - HEADER) % 2)
        return;
    memcpy(numbers, elements, n * sizeof *numbers);
    for (size_t i = 0; i < BUDGET_TYPES; i++) m.error[i] = -1;
    m.weights = numbers[0], m.power = numbers[1], m.sensitivity = numbers[2];
    if (!(m.weights > 0 && m.weights <= MEASURE_SAMPLE && m.power >= 0 && m.sensitivity >= -1 &&
          isfinite(m.power + m.sensitivity)))
        return;
    for (uint64_t i = HEADER; i < n; i += 2) {
        size_t index = type_index(numbers[i]);
        if (index == BUDGET_TYPES || !(numbers[i + 1] >= 0)) return; /* infinite: cannot hold the values */
        m.error[index] = numbers[i + 1];
    }
    *found = m;
}

/* Returns a checksum of the tensors' names and arrays. */
static uint32_t measure_file_checksum(const model_kv *kv, uint64_t n) {
    uint32_t sum = 0;
    for (uint64_t k = 0; k < n; k++)
        if (!strncmp(kv[k].key, PREFIX, sizeof PREFIX - 1))
            sum = checksum_add(checksum_add_text(sum, kv[k].key), kv[k].value, kv[k].size);
    return sum;
}

static bool is_undamaged(const model_kv *kv, uint64_t n) {
    const model_kv *found = model_kv_find(kv, n, SUM);
    uint32_t sum;
    if (!found || found->type != GGUF_U32) return false;
    memcpy(&sum, found->value, sizeof sum);
    return sum == measure_file_checksum(kv, n);
}

void measure_read(const gq_plan *plan, const char *path, const char *key, measured *found) {
    gq_file file;
    gguf_shard s;
    name_index by_key = {0};
    uint64_t k;
    char name[KEY];
    if (!gq_file_open(&file, path, NULL) || !gguf_shard_read(&s, &file, NULL)) return;
    bool ours = model_kv_is_text(model_kv_find(s.kv, s.n_kv, OF), key) && is_undamaged(s.kv, s.n_kv) &&
                name_index_all(&by_key, s.kv, sizeof *s.kv, s.n_kv, NULL);
    for (size_t i = 0; ours && i < plan->n_tensors; i++) {
        tensor_key(&plan->sources[i], name);
        if (name_index_find(&by_key, s.kv, sizeof *s.kv, name, &k))
            measure_file_read_tensor(&s.kv[k], &found[i]);
    }
    name_index_free(&by_key);
    gguf_shard_free(&s);
}

bool measure_may_replace(const char *path, gq_error *e) {
    gq_file file;
    gguf_shard s;
    struct stat st;
    if (stat(path, &st) != 0 && errno == ENOENT) return true;
    if (!gq_file_open(&file, path, e)) return false;
    bool readable = gguf_shard_read(&s, &file, NULL), ours = readable && model_kv_find(s.kv, s.n_kv, OF);
    if (readable) gguf_shard_free(&s);
    if (ours) return true;
    return files_begin_with(path, OF)
               ? gq_fail(e, "%s: damaged measurements; remove the file to measure again", path)
               : gq_fail(e, "%s exists and is not a file of measurements; choose another name", path);
}

/* ---- writing the file ---- */

static bool add_tensor(gguf_header *h, const plan_source *s, const measured *m, uint32_t *sum, gq_error *e) {
    char key[KEY];
    struct {
        uint32_t type, count[2]; /* as an array begins: no padding */
        double numbers[NUMBERS];
    } __attribute__((packed)) array = {.type = GGUF_FLOAT64};
    uint64_t n = 0;
    array.numbers[n++] = m->weights, array.numbers[n++] = m->power;
    array.numbers[n++] = m->sensitivity;
    for (size_t i = 0; i < BUDGET_TYPES; i++) {
        if (m->error[i] < 0) continue;
        array.numbers[n++] = budget_types[i], array.numbers[n++] = m->error[i];
    }
    memcpy(array.count, &n, sizeof n);
    tensor_key(s, key);
    uint64_t bytes = 12 + n * sizeof *array.numbers;
    *sum = checksum_add(checksum_add_text(*sum, key), &array, bytes);
    return gguf_header_set(h, key, GGUF_ARRAY, &array, bytes, e);
}

static bool measure_file_fill(gguf_header *h, const gq_plan *plan, const char *key, const measured *found,
                              gq_error *e) {
    uint32_t sum = 0;
    if (!gguf_header_set_string(h, OF, key, e)) return false;
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (found[i].weights > 0 && !add_tensor(h, &plan->sources[i], &found[i], &sum, e)) return false;
    return gguf_header_set_u32(h, SUM, sum, e);
}

bool measure_write(const gq_plan *plan, const char *path, const char *key, const measured *found,
                   gq_error *e) {
    const uint8_t *bytes;
    uint64_t size, data;
    gguf_header *h = gguf_header_new(e);
    bool ok = h && measure_file_fill(h, plan, key, found, e) &&
              gguf_header_finish(h, &bytes, &size, &data, e) && gq_write_whole(path, true, bytes, size, e);
    gguf_header_free(h);
    return ok;
}
