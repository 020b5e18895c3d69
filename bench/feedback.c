/* bench-feedback: speed of GPTQ-style error feedback, compared with matrix products in the same run.
 *
 *     bench-feedback [--isa LEVEL] [--threads N] [--type TYPE] [--effort 0..2] [--trials N] [--sweeps N]
 *         [--rows N] [--heads N] [COLUMNS...]
 *
 * Activations are random. Printed per width are GFLOP/s, and the ratio to a product of COLUMNS x COLUMNS
 * weights (F32) with 512 tokens, measured before and after each: of the Hessian of two streams (2 T n^2 + T n^2
 * operations for T tokens and n columns), the same in bf16, of its Cholesky factor (n^3 / 3), and of the pass
 * over rows with a Hessian in float32 and in bf16 (2 n^2 per row; 5 n^2 with the GPTAQ term of a second
 * stream). With one thread the time is CPU time. With --heads the rows are those of so many heads, in chains of
 * up to FEEDBACK_ROWS heads whose rows are rounded one after another.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/threads.h"
#include "bench/turns.h"
#include "forward/products/matmul.h"
#include "forward/products/product.h"
#include "study/inputs/inputs.h"

enum { TOKENS = 512, MOST_ROWS = 1 << 16 };

static const kernels *k;
static threads_pool *pool;
static int threads = 1, effort = EFFORT_DEFAULT, trials, sweeps;
static uint32_t type = GGUF_Q4_K;
static size_t rows = 256, heads; /* heads 0: rows are independent */

static double feedback_seconds(void) {
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *allocate_lines(size_t bytes) {
    void *p = memory_lines(1, bytes, NULL);
    if (!p) exit(1);
    return p;
}
static float *random_activations(size_t n, float unit) {
    float *x = allocate_lines(sizeof *x * n);
    uint64_t state = n;
    for (size_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = unit * (float)(int32_t)(state >> 32) * 0x1p-31f;
    }
    return x;
}

/* ---- what is measured beside ---- */
static double product_seconds(const float *w, const float *x, size_t n) {
    gq_error e;
    matmul *m = matmul_new(k, pool, &e);
    float *y = allocate_lines(sizeof *y * n * TOKENS);
    if (!m) exit(1);
    matmul_weights of = {w, GGUF_F32, n, n};
    matmul_run(m, &of, x, TOKENS, y, TOKENS, TOKENS);
    double start = feedback_seconds();
    matmul_run(m, &of, x, TOKENS, y, TOKENS, TOKENS);
    double took = feedback_seconds() - start;
    matmul_free(m), free(y);
    return took;
}

typedef struct bench_site {
    size_t n;
    float *x, *y, *w;
    double product; /* seconds of the last one */
} bench_site;

/* Before and after what it is compared with. */
static void print_rate(bench_site *s, const char *what, double seconds, double operations) {
    double after = product_seconds(s->w, s->y, s->n), n = (double)s->n;
    double rate = 1e-9 * operations / seconds, beside = 1e-9 * 4 * n * n * TOKENS / (s->product + after);
    printf("%6zu  %-28s %8.2f s %8.1f %8.1f %6.2f\n", s->n, what, seconds, rate, beside, rate / beside);
    fflush(stdout);
    s->product = after;
}

typedef struct bench_pass {
    const bench_site *s;
    const feedback_hessian *runs;
    size_t n_runs, room;
    uint8_t *rooms, *blocks;
    size_t heads; /* of a chain */
    float *factors, *rest;
} bench_pass;

static feedback_task pass_task(const bench_pass *p, int thread) {
    return (feedback_task){.kernels = k,
                           .type = type,
                           .effort = (codec_effort)effort,
                           .hessian = p->runs,
                           .n_hessians = p->n_runs,
                           .columns = p->s->n,
                           .scratch = p->rooms + (size_t)thread * p->room,
                           .sweeps = sweeps,
                           .trials = trials};
}

static void pass_over_rows(void *data, size_t i, int thread) {
    const bench_pass *p = data;
    size_t row = i * FEEDBACK_ROWS, n = p->s->n;
    feedback_sums sums = {0};
    feedback_task t = pass_task(p, thread);
    t.by = product_kernels_for(k, p->runs->arithmetic);
    codec_feedback(&t, p->s->w + row % n * n, rows - row < FEEDBACK_ROWS ? rows - row : FEEDBACK_ROWS,
                   p->blocks + row * gguf_row_bytes(tensor_type_of(type), n), &sums);
}

static void pass_over_chain(void *data, size_t i, int thread) {
    const bench_pass *p = data;
    size_t n = p->s->n, length = rows / heads, head = i * p->heads, row = head * length;
    feedback_chain chain = {.heads = heads - head < p->heads ? heads - head : p->heads,
                            .length = length,
                            .together = 1,
                            .stride = length,
                            .factors = p->factors,
                            .rest = p->rest + row * feedback_padded(n)};
    feedback_sums sums = {0};
    feedback_task t = pass_task(p, thread);
    t.chain = &chain;
    codec_feedback(&t, p->s->w + row % n * n, chain.heads * length,
                   p->blocks + row * gguf_row_bytes(tensor_type_of(type), n), &sums);
}

static double pass_seconds(const bench_site *s, const feedback_hessian *runs, size_t n_runs) {
    bench_pass p = {
        .s = s, .runs = runs, .n_runs = n_runs, .room = feedback_bytes(k, type, s->n, MATMUL_BF16)};
    p.rooms = allocate_lines((size_t)threads * p.room);
    p.blocks = allocate_lines(rows * gguf_row_bytes(tensor_type_of(type), s->n));
    p.heads = heads < FEEDBACK_ROWS ? heads : FEEDBACK_ROWS;
    if (heads) {
        size_t length = rows / heads;
        p.factors = random_activations(FEEDBACK_ROWS * length * length, 0.01f);
        p.rest = allocate_lines(rows * feedback_padded(s->n) * sizeof *p.rest);
    }
    double start = feedback_seconds();
    if (heads)
        threads_for(pool, (heads + p.heads - 1) / p.heads, 1, pass_over_chain, &p);
    else
        threads_for(pool, (rows + FEEDBACK_ROWS - 1) / FEEDBACK_ROWS, 1, pass_over_rows, &p);
    double took = feedback_seconds() - start;
    free(p.rooms), free(p.blocks), free(p.factors), free(p.rest);
    return took;
}

static void print_passes(bench_site *s, const cholesky *f, const char *const names[2]) {
    double n = (double)s->n, row = n * n * (double)rows;
    float gptaq_a = f->runs->gptaq_a;
    print_rate(s, names[0], pass_seconds(s, f->runs, f->n_runs), 5 * row);
    f->runs->gptaq_a = 0;
    print_rate(s, names[1], pass_seconds(s, f->runs, f->n_runs), 2 * row);
    f->runs->gptaq_a = gptaq_a;
}

static hessian *measure_moments(bench_site *s, matmul_arithmetic arithmetic, const char *what) {
    gq_error e;
    double n = (double)s->n;
    hessian *m = hessian_new(k, (hessian_shape){s->n, s->n, true, 0, 0, arithmetic}, pool, &e);
    if (!m) exit(1);
    double start = feedback_seconds();
    for (int i = 0; i < 2; i++) hessian_add(m, s->x, TOKENS, s->y, TOKENS, TOKENS);
    print_rate(s, what, feedback_seconds() - start, 2 * TOKENS * 3 * n * n);
    return m;
}

static void measure_width(size_t n) {
    gq_error e;
    if (heads && rows > n) exit((fprintf(stderr, "bench-feedback: more rows than columns\n"), 2));
    cholesky f;
    bench_site s = {n, random_activations(n * TOKENS, 1), random_activations(n * TOKENS, 1),
                    random_activations(n * n, 0.05f), 0};
    double columns = (double)n, start;
    s.product = product_seconds(s.w, s.y, n);
    hessian_free(measure_moments(&s, MATMUL_BF16, "hessian, bf16"));
    hessian *m = measure_moments(&s, MATMUL_FLOAT32, "hessian");
    start = feedback_seconds();
    if (!cholesky_factor(m, HESSIAN_DEFAULT, &f, &e) || !f.n_runs) exit(1);
    print_rate(&s, "root", feedback_seconds() - start, columns * columns * columns / 3);
    hessian_free(m);
    print_passes(&s, &f, (const char *[]){"pass, two streams", "pass, one stream"});
    cholesky_round(&f, MATMUL_BF16, pool);
    print_passes(&s, &f, (const char *[]){"pass in bf16, two streams", "pass in bf16, one stream"});
    cholesky_free(&f);
    free(s.x), free(s.y), free(s.w);
}

int main(int argc, char **argv) {
    int i = 1;
    k = kernels_select();
    for (; i + 1 < argc && !strncmp(argv[i], "--", 2); i += 2) {
        const char *value = argv[i + 1];
        if (!strcmp(argv[i], "--isa")) k = kernels_level(value);
        if (!strcmp(argv[i], "--threads")) threads = atoi(value);
        if (!strcmp(argv[i], "--effort")) effort = atoi(value);
        if (!strcmp(argv[i], "--trials")) trials = atoi(value);
        if (!strcmp(argv[i], "--sweeps")) sweeps = atoi(value);
        if (!strcmp(argv[i], "--heads")) heads = strtoul(value, NULL, 10);
        if (!strcmp(argv[i], "--rows")) rows = strtoul(value, NULL, 10);
        for (uint32_t t = 0; !strcmp(argv[i], "--type") && t < GGUF_TYPE_LIMIT; t++)
            if (tensor_type_of(t) && turns_is_listed(value, tensor_type_of(t)->name)) type = t;
    }
    if (!k || threads < 1 || effort < 0 || effort > EFFORT_BEST || !rows || rows > MOST_ROWS ||
        (heads && rows % heads) || !k->codecs[type].columnwise)
        return fprintf(stderr, "bench-feedback: bad argument\n"), 2;
    pool = threads_pool_new(threads);
    if (!pool) return 1;
    printf("%s, %d threads, %s, %zu rows\n%6s  %-28s %10s %8s %8s %6s\n", kernels_name(k), threads,
           tensor_type_of(type)->name, rows, "n", "", "time", "GFLOP/s", "product", "ratio");
    if (i == argc) measure_width(4096), measure_width(14336);
    for (; i < argc; i++) measure_width(strtoul(argv[i], NULL, 10));
    threads_pool_free(pool);
    return 0;
}
