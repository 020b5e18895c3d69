/* Keeps measurements beside the model, in a GGUF without tensors: so the reader that trusts no file reads it,
 * and 'gquant info' shows it. A text says what the measurements belong to (measure_key). Each tensor has an
 * array of numbers: weights, power, weighted power, harm, then type and error in turn. A checksum over these
 * arrays tells whether they are as they were written, as a changed number would choose other types. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checksum.h"
#include "base/name_index.h"
#include "gguf/gguf.h"
#include "gguf/header.h"
#include "gguf/read.h"
#include "model/value.h"
#include "quantize/plan/identity.h"
#include "quantize/plan/target/measure.h"
#include "quantize/plan/target/measure_file.h"

static const char OF[] = "measured.of", SUM[] = "measured.crc32", PREFIX[] = "measured.tensor.",
                  TURNED[] = " transposed";
enum { HEAD = 4, NUMBERS = HEAD + 2 * BUDGET_TYPES, KEY = sizeof PREFIX + GGUF_MAX_NAME + sizeof TURNED };

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
    if (plan->calibration && n > 0 && n < MEASURE_KEY)
        snprintf(key + n, (size_t)(MEASURE_KEY - n), ", trials in %zu layers, tensors %08x", trial_layers,
                 trials_digest(plan, wanted));
}

static void tensor_key(const plan_source *s, char key[KEY]) {
    snprintf(key, KEY, "%s%s%s", PREFIX, s->tensor->name, plan_transposes(s) ? TURNED : "");
}

/* ---- reading ---- */

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
    if (!kv || !model_kv_array(kv, &type, &n, &elements) || type != GGUF_FLOAT64 || n < HEAD || n > NUMBERS ||
        (n - HEAD) % 2)
        return;
    memcpy(numbers, elements, n * sizeof *numbers);
    for (size_t i = 0; i < BUDGET_TYPES; i++) m.error[i] = -1;
    m.weights = numbers[0], m.power = numbers[1], m.weighted = numbers[2], m.harm = numbers[3];
    if (!(m.weights > 0 && m.weights <= MEASURE_SAMPLE && m.power >= 0 && m.weighted >= 0 && m.harm >= -1 &&
          isfinite(m.power + m.weighted + m.harm)))
        return;
    for (uint64_t i = HEAD; i < n; i += 2) {
        size_t index = type_index(numbers[i]);
        if (index == BUDGET_TYPES || !(numbers[i + 1] >= 0)) return; /* infinite: cannot hold the values */
        m.error[index] = numbers[i + 1];
    }
    *found = m;
}

static bool same_text(const model_kv *kv, const char *text) {
    const char *found;
    uint64_t n;
    return model_kv_string(kv, &found, &n) && n == strlen(text) && !memcmp(found, text, n);
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
    bool ours = same_text(model_kv_find(s.kv, s.n_kv, OF), key) && is_undamaged(s.kv, s.n_kv) &&
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
    return ours || gq_fail(e, "%s is there and holds no measurements; they need a name of their own", path);
}

/* ---- writing ---- */

static bool add_tensor(gguf_header *h, const plan_source *s, const measured *m, uint32_t *sum, gq_error *e) {
    char key[KEY];
    struct {
        uint32_t type, count[2]; /* as an array begins: no padding */
        double numbers[NUMBERS];
    } __attribute__((packed)) array = {.type = GGUF_FLOAT64};
    uint64_t n = 0;
    array.numbers[n++] = m->weights, array.numbers[n++] = m->power, array.numbers[n++] = m->weighted;
    array.numbers[n++] = m->harm;
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
