/* Checks that a file is sound. All of it is read, piece by piece, for the CRC of each tensor; codes that a
 * type forbids are looked for, and values are decoded and must be finite. A sample of each piece is also
 * decoded by the plain decoder of codec/reference.c and multiplied with a vector: both ways have to agree
 * with the fast kernels. A problem does not end the work. It becomes the verdict of its tensor, always that
 * of the lowest piece, so that threads do not matter. Problems of the file as a whole (shards of two sets, a
 * wrong list of transposed tensors) go into the verdict of a tensor, too. In the end the CRCs are compared
 * with those of the file's own digests, and with those that the caller expects. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/checksum.h"
#include "base/relay.h"
#include "base/sized.h"
#include "codec/vector.h"
#include "quantize/plan/plan.h"
#include "quantize/quantize.h"
#include "quantize/strips/strips.h"

enum {
    /* Columns of a row that is multiplied to compare products. */
    PRODUCT = 256,
    /* Elements at the beginning of each piece that are decoded by the plain decoder, too, one of 512. It
     * takes some 30 times as long as the fast one, whose code is the same for all blocks; with one of 16 it
     * took four fifths of the time. */
    SAMPLE = 2048,
};

struct gq_verification {
    const kernels *kernels;
    model_source model;
    size_t n;
    gq_verdict *verdicts;
    warning_list problems; /* texts that the verdicts point to */
    warning_list missing;  /* names, as they are */
    warning_list warnings;
    gq_verified_type types[GGUF_TYPE_LIMIT]; /* by number; at the end only those it has */
    size_t n_types;
    codec_vector vector;                /* to multiply with */
    float x[PRODUCT], scratch[PRODUCT]; /* its own */
};

/* ---- codes ---- */

/* Checks a block of a type that has forbidden bytes; of other types every byte is good. Returns the first bad
 * byte of a block, -1: none. */
static int bad_tq1_0(const uint8_t *block) {
    for (int i = 0; i < 52; i++) {
        /* Five base-3 digits v are the byte ceil(256 v / 243), four of them v with a last digit of 0. */
        unsigned v = block[i] * 243u / 256;
        if ((256 * v + 242) / 243 != block[i] || (i >= 48 && v % 3)) return i;
    }
    return -1;
}

static int bad_tq2_0(const uint8_t *block) {
    for (int i = 0; i < 64; i++)
        if (block[i] & block[i] >> 1 & 0x55) return i; /* a code of 3 */
    return -1;
}

static int bad_mxfp4(const uint8_t *block) { return block[0] == 255 ? 0 : -1; } /* NaN as a scale */

static int bad_nvfp4(const uint8_t *block) {
    for (int i = 0; i < 4; i++)
        if (block[i] > 0x7E) return i; /* NaN, or with the sign bit that scales do not have */
    return -1;
}

static const struct {
    uint32_t type;
    int (*bad)(const uint8_t *block);
} ranges[] = {
    {GGUF_TQ1_0, bad_tq1_0}, {GGUF_TQ2_0, bad_tq2_0}, {GGUF_MXFP4, bad_mxfp4}, {GGUF_NVFP4, bad_nvfp4}};

/* ---- one tensor ---- */

typedef struct check_scratch {
    strip_buffers strips;
    float magnitude[STRIP_ELEMENTS], products[STRIP_ELEMENTS / 32]; /* of rows of 32 columns and more */
    gq_error problem;                                               /* of this piece; status GQ_OK: none */
    gq_verified_type agreed;                                        /* in this piece */
} check_scratch;

typedef struct check {
    const model_source *model;
    const model_tensor *tensor;
    const codec *codec;
    const kernels *kernels;
    const codec_vector *vector;
    gq_verified_type *agreed; /* in all tensors of the type */
    int (*bad)(const uint8_t *block);
    uint32_t *crcs;         /* per piece */
    uint64_t problem_piece; /* the lowest that has one; UINT64_MAX: none */
    gq_error problem;
} check;

static bool codes_in_range(const check *c, uint64_t first, size_t n, const uint8_t *stored, gq_error *e) {
    const tensor_type *type = c->tensor->type;
    for (size_t i = 0; c->bad && i < n / type->block_elements; i++) {
        int at = c->bad(stored + i * type->block_bytes);
        if (at >= 0)
            return gq_fail(e, "block %llu: byte %d is 0x%02x, not a valid %s code",
                           LLU(first / type->block_elements + i), at,
                           stored[i * type->block_bytes + (size_t)at], type->name);
    }
    return true;
}

static bool all_finite(const check *c, uint64_t first, size_t n, const float *x, gq_error *e) {
    size_t bad = c->kernels->first_not_finite(x, n);
    return bad == n || gq_fail(e, "element %llu is %g", LLU(first + bad), (double)x[bad]);
}

static bool decoders_agree(uint64_t first, size_t n, strip_buffers *scratch, gq_error *e) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(&scratch->decoded[0][i], &scratch->decoded[1][i], sizeof(float)) != 0)
            return gq_fail(e, "element %llu decodes to %g by the fast decoder and to %g by the plain one",
                           LLU(first + i), (double)scratch->decoded[0][i], (double)scratch->decoded[1][i]);
    return true;
}

/* Checks that products with a vector are those of the plain decoder's values (decoded[1]), within the
 * tolerance of codec/vector.h. */
static bool products_agree(const check *c, uint64_t first, size_t n, check_scratch *scratch, gq_error *e) {
    const tensor_type *type = c->tensor->type;
    const size_t cols = n % PRODUCT == 0           ? PRODUCT
                        : type->block_elements > 1 ? type->block_elements
                        : n < PRODUCT              ? n
                                                   : PRODUCT;
    const float *w = scratch->strips.decoded[1], *x = c->vector->x;
    reference_magnitude(type->id, scratch->strips.stored[0], scratch->magnitude, n);
    c->codec->dot(scratch->strips.stored[0], n / cols, cols, c->vector, scratch->products);
    for (size_t r = 0; r < n / cols; r++, w += cols) {
        double exact = 0, sum = 0;
        for (size_t k = 0; k < cols; k++) {
            exact += (double)w[k] * (double)x[k];
            sum += codec_dot_magnitude(type, c->vector, k, scratch->magnitude[r * cols + k]);
        }
        if (sum > 0x1p120) continue;
        const double off = fabs((double)scratch->products[r] - exact),
                     tolerance = codec_dot_tolerance(type, cols, sum);
        if (!(off <= tolerance))
            return gq_fail(
                e, "the product of elements %llu to %llu is %g by the fast decoder and %g by the plain one",
                LLU(first + r * cols), LLU(first + r * cols + cols - 1), (double)scratch->products[r], exact);
        scratch->agreed.worst = fmax(scratch->agreed.worst, off / tolerance);
    }
    return true;
}

static bool all_agree(const check *c, uint64_t first, size_t n, check_scratch *scratch, gq_error *e) {
    strip_buffers *strips = &scratch->strips;
    if (!reference_decode(c->tensor->type->id, strips->stored[0], strips->decoded[1], n)) return true;
    if (!decoders_agree(first, n, strips, e) || !products_agree(c, first, n, scratch, e)) return false;
    scratch->agreed.compared += n;
    return true;
}

static uint64_t piece_elements(const model_tensor *t, uint64_t number) {
    uint64_t piece = strip_whole(t, STRIP_PIECE);
    return min(piece, shape_elements(t->ne) - number * piece);
}

static bool check_piece(void *arg, work_piece *p, gq_error *e) {
    const check *c = arg;
    check_scratch *scratch = p->scratch;
    strip_buffers *strips = &scratch->strips;
    gq_error *problem = &scratch->problem;
    uint64_t first = p->number * strip_whole(c->tensor, STRIP_PIECE),
             end = first + piece_elements(c->tensor, p->number);
    problem->status = GQ_OK;
    scratch->agreed = (gq_verified_type){0};
    for (uint64_t at = first, n; at < end; at += n) {
        n = min(strip_whole(c->tensor, STRIP_ELEMENTS), end - at);
        if (!model_read(c->model, c->tensor, at, n, strips->stored[0], e)) return false;
        uint32_t *crc = &c->crcs[p->number];
        *crc = checksum_add(*crc, strips->stored[0], model_bytes(c->tensor, n));
        if (problem->status != GQ_OK || !c->codec->decode) continue;
        codec_decode_rows(c->codec, strips->stored[0], c->tensor->ne[0], strips->decoded[0], n);
        (void)(codes_in_range(c, at, n, strips->stored[0], problem) &&
               all_finite(c, at, n, strips->decoded[0], problem) &&
               (at > first || all_agree(c, at, n < SAMPLE ? n : SAMPLE, scratch, problem)));
    }
    p->weights = end - first, p->bytes = model_bytes_read(c->tensor, end - first);
    p->work = speed_read(p->bytes, p->weights);
    return true;
}

static bool fold_piece(void *arg, const work_piece *p, gq_error *e) {
    (void)e;
    check *c = arg;
    const check_scratch *scratch = p->scratch;
    const gq_error *problem = &scratch->problem;
    c->agreed->compared += scratch->agreed.compared;
    c->agreed->worst = fmax(c->agreed->worst, scratch->agreed.worst);
    if (problem->status != GQ_OK && p->number < c->problem_piece)
        c->problem_piece = p->number, c->problem = *problem;
    return true;
}

static bool set_problem(gq_verification *v, gq_verdict *verdict, gq_error *e, const char *text) {
    if (!warnings_add(&v->problems, e, "%s", text)) return false;
    verdict->problem = v->problems.items[v->problems.n - 1];
    return true;
}

static bool verify_tensor(gq_verification *v, schedule *s, size_t i, gq_error *e) {
    const model_tensor *t = v->model.tensors[i];
    gq_verdict *verdict = &v->verdicts[i];
    check c = {.model = &v->model,
               .tensor = t,
               .codec = &v->kernels->codecs[t->type->id],
               .kernels = v->kernels,
               .vector = &v->vector,
               .agreed = &v->types[t->type->id],
               .problem_piece = UINT64_MAX};
    uint64_t pieces = strip_pieces(t);
    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++)
        if (ranges[k].type == t->type->id) c.bad = ranges[k].bad;
    c.crcs = calloc(pieces + 1, sizeof *c.crcs);
    if (!c.crcs) return gq_fail_memory(e, pieces * sizeof *c.crcs);
    s->progress.tensor = t->name;
    bool ok = schedule_run(
        s, &(schedule_job){.end = pieces, .work = check_piece, .fold = fold_piece, .arg = &c}, e);
    *verdict =
        (gq_verdict){.name = t->name, .type = t->type->id, .decoded = c.codec->decode != NULL, .problem = ""};
    for (uint64_t k = 0; ok && k < pieces; k++)
        verdict->crc32 = checksum_join(verdict->crc32, c.crcs[k], model_bytes(t, piece_elements(t, k)));
    free(c.crcs);
    return ok && (c.problem_piece == UINT64_MAX || set_problem(v, verdict, e, c.problem.text));
}

/* ---- checksums ---- */

static int checksums_by_name(const void *a, const void *b) {
    return strcmp(((const gq_checksum *)a)->name, ((const gq_checksum *)b)->name);
}

static bool check_sum(gq_verification *v, gq_verdict *verdict, const gq_checksum *expected, gq_error *e) {
    char text[96];
    verdict->expected = expected != NULL;
    if (!expected || expected->crc32 == verdict->crc32 || *verdict->problem) return true;
    snprintf(text, sizeof text, "its bytes have the CRC-32 %08x, expected %08x", (unsigned)verdict->crc32,
             (unsigned)expected->crc32);
    return set_problem(v, verdict, e, text);
}

static bool verification_check_sums(gq_verification *v, const gq_checksum *expected, size_t n, gq_error *e) {
    if (n == 0) return true;
    gq_checksum *sorted = calloc(n, sizeof *sorted);
    if (!sorted) return gq_fail_memory(e, n * sizeof *sorted);
    memcpy(sorted, expected, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, checksums_by_name);
    bool ok = true;
    for (size_t i = 0; ok && i < v->n; i++) {
        gq_checksum key = {.name = v->verdicts[i].name};
        ok = check_sum(v, &v->verdicts[i], bsearch(&key, sorted, n, sizeof *sorted, checksums_by_name), e);
    }
    free(sorted);
    for (size_t i = 0; ok && i < n; i++)
        ok = model_tensor_named(&v->model, expected[i].name) ||
             warnings_copy(&v->missing, e, expected[i].name);
    return ok;
}

/* Compares the checksums with the file's own digests. A copy has none for tensors that its input had not. */
static bool verification_check_digests(gq_verification *v, gq_error *e) {
    const uint8_t *digests = digests_find(&v->model);
    char text[256];
    bool ok = true;
    for (size_t i = 0; ok && digests && i < v->n; i++) {
        gq_verdict *verdict = &v->verdicts[i];
        tensor_digest d;
        memcpy(&d, digests + i * sizeof d, sizeof d);
        verdict->has_digest = d.made_by || d.source || d.bytes;
        if (!verdict->has_digest || d.bytes == verdict->crc32 || *verdict->problem) continue;
        snprintf(text, sizeof text,
                 "its bytes have the CRC-32 %08x, and %s in the file has %08x: it was changed after it was "
                 "written, or by a program that keeps the digests of what it replaces",
                 (unsigned)verdict->crc32, GGUF_DIGESTS_KEY, (unsigned)d.bytes);
        ok = set_problem(v, verdict, e, text);
    }
    return ok;
}

/* ---- types ---- */

/* Makes the vector: any numbers of about the same size and of both signs will do. */
static void make_vector(gq_verification *v) {
    for (int k = 0; k < PRODUCT; k++) v->x[k] = (float)(k % 2 ? -64 - k * 37 % 64 : 64 + k * 29 % 64) / 128;
    v->vector = codec_vector_make(v->x, PRODUCT, v->scratch);
}

static void sum_up_types(gq_verification *v) {
    for (size_t i = 0; i < v->n; i++) {
        gq_verified_type *of = &v->types[v->verdicts[i].type];
        of->type = v->verdicts[i].type, of->tensors++, of->problems += *v->verdicts[i].problem != 0;
    }
    for (size_t i = 0; i < GGUF_TYPE_LIMIT; i++)
        if (v->types[i].tensors) v->types[v->n_types++] = v->types[i];
}

/* ---- all tensors together ---- */

/* Shards of two runs may fit each other in all that the reader checks. The first tensor of the shard that
 * does not belong gets the problem. */
static bool check_set(gq_verification *v, gq_error *e) {
    uint32_t shard, other;
    char text[sizeof(gq_error)];
    if (!model_mixed(&v->model, &shard, &other)) return true;
    snprintf(text, sizeof text, "%s was not written together with %s: their %s differs",
             v->model.files[shard]->path, v->model.files[other]->path, GGUF_SET_KEY);
    for (size_t i = 0; i < v->n; i++)
        if (v->model.tensors[i]->shard >= shard) return set_problem(v, &v->verdicts[i], e, text);
    return v->n == 0 || set_problem(v, &v->verdicts[0], e, text);
}

/* A key that names tensors which are not there is reported with the first of them. */
static bool check_transposed(gq_verification *v, gq_error *e) {
    gq_error why = {0};
    if (gguf_model_check_transposed(&v->model, &why)) return true;
    return v->n == 0 || *v->verdicts[0].problem || set_problem(v, &v->verdicts[0], e, why.text);
}

static bool none_may_lack(void *user, const char *tensor) {
    (void)user, (void)tensor;
    return false;
}

/* A model that lacks tensors, or whose metadata contradict them, is reported with its first tensor. */
static bool check_complete(gq_verification *v, model_check *complete, gq_error *e) {
    gq_error why;
    if (!complete)
        return warnings_add(
            &v->warnings, e,
            "not verified that the model has all tensors of its architecture: " RUNNERS_MISSING);
    const model_expected expected = {.may_lack = none_may_lack, .doubts = &v->warnings};
    if (v->n == 0 || complete(&v->model, &expected, &why) || *v->verdicts[0].problem) return true;
    return set_problem(v, &v->verdicts[0], e, why.text);
}

static bool verification_run(gq_verification *v, int threads, model_check *complete,
                             const gq_callbacks *callbacks, gq_error *e) {
    schedule s;
    uint64_t bytes = 0;
    v->n = v->model.n_tensors;
    v->verdicts = calloc(v->n + 1, sizeof *v->verdicts);
    if (!v->verdicts) return gq_fail_memory(e, v->n * sizeof *v->verdicts);
    double work = 0;
    for (size_t i = 0; i < v->n; i++) {
        uint64_t weights = shape_elements(v->model.tensors[i]->ne),
                 read = model_bytes_read(v->model.tensors[i], weights);
        bytes += read, work += speed_read(read, weights);
    }
    v->kernels = strip_kernels(e);
    if (!v->kernels || !schedule_start(&s, threads, sizeof(check_scratch), callbacks, e)) return false;
    make_vector(v);
    s.progress.bytes_total = bytes, s.work = work;
    bool ok = true;
    for (size_t i = 0; ok && i < v->n; i++) ok = verify_tensor(v, &s, i, e);
    ok = ok && warnings_add_threads(&v->warnings, threads_pool_count(s.pool), e);
    schedule_end(&s);
    return ok && check_set(v, e) && check_transposed(v, e) && check_complete(v, complete, e);
}

gq_verification *verify_model(const char *path, const gq_checksum *expected, size_t n, int threads,
                              model_check *complete, const gq_callbacks *callbacks, gq_error *e) {
    gq_callbacks called;
    job_progress job;
    if (!SIZED_TAKE(called, callbacks, e)) return NULL;
    job_progress_begin(&job, &called, 1);
    gq_verification *v = calloc(1, sizeof *v);
    if (!v) return gq_fail_memory(e, sizeof *v), NULL;
    bool ok = input_open(&v->model, path, e) && warnings_join(&v->warnings, &v->model.warnings, e);
    if (ok && verification_run(v, threads, complete, job_progress_stage(&job, 1), e) &&
        verification_check_digests(v, e) && verification_check_sums(v, expected, n, e)) {
        sum_up_types(v);
        job_progress_end(&job);
        return v;
    }
    gq_verification_free(v);
    return NULL;
}

void gq_verification_free(gq_verification *v) {
    if (!v) return;
    model_close(&v->model);
    free(v->verdicts);
    warnings_free(&v->problems), warnings_free(&v->missing), warnings_free(&v->warnings);
    free(v);
}

const gq_verdict *gq_verification_verdicts(const gq_verification *v, size_t *n) {
    *n = v->n;
    return v->verdicts;
}

const gq_verified_type *gq_verification_types(const gq_verification *v, size_t *n) {
    *n = v->n_types;
    return v->types;
}

const char *const *gq_verification_missing(const gq_verification *v, size_t *n) {
    return warnings_texts(&v->missing, n);
}

const char *const *gq_verification_warnings(const gq_verification *v, size_t *n) {
    return warnings_texts(&v->warnings, n);
}
