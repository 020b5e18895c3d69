/* bench-matmul: matrix products compared with OpenBLAS' sgemm, in the same run on the same data.
 *
 *     bench-matmul [--isa LEVEL] [--threads N] [--turns N] [--arithmetic bf16] [ROWSxCOLUMNSxTOKENS...]
 *
 * Both take turns; printed are the medians of all turns in GFLOP/s and the median of the turns' ratios, which
 * is what a busy machine disturbs least. OpenBLAS gets the weights as floats and kernels of the same level;
 * ours are F32, F16 and Q4_K. Without shapes: those of an 8 B model's matrices, and the two products of a
 * head of attention, by one thread, causal.
 *
 * With --arithmetic bf16 the comparison is with our own float32 products, and there are no heads, whose
 * products are always in float32.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "bench/turns.h"
#include "forward/products/matmul.h"

enum { MOST_TURNS = 101 };
typedef struct product_shape {
    size_t rows, columns, tokens;
} product_shape;

/* As CBLAS declares it, whose header is not there to build with. */
typedef void sgemm_of(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a,
                      int lda, const float *b, int ldb, float beta, float *c, int ldc);
enum { ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112 };

static const kernels *k;
static matmul *m;
static sgemm_of *sgemm; /* NULL: bf16 compared with float32 */
static int turns = 9;

/* With one thread the time is CPU time, which other load does not change. */
static double matmul_seconds(void) {
    struct timespec t;
    clock_gettime(threads_pool_most(matmul_pool(m)) == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *random_matrix(size_t n) {
    float *x = memory_lines(n, sizeof *x, NULL);
    uint64_t state = n;
    for (size_t i = 0; x && i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(int32_t)(state >> 32) * 0x1p-31f;
    }
    if (!x) exit(1);
    return x;
}

/* Called as often as fills a hundredth of a second. */
typedef void work(const void *what);
static double seconds_per_run(work *run, const void *what, int times) {
    double start = matmul_seconds();
    for (int i = 0; i < times; i++) run(what);
    return (matmul_seconds() - start) / times;
}
static void compare_products(const char *name, double operations, work *ours, work *theirs,
                             const void *what) {
    int times = 1 + (int)(1e-2 / (1e-6 + seconds_per_run(theirs, what, 1)));
    double our[MOST_TURNS] = {0}, their[MOST_TURNS] = {0}, ratio[MOST_TURNS] = {0};
    seconds_per_run(ours, what, times);
    for (int i = 0; i < turns; i++) {
        our[i] = seconds_per_run(ours, what, times), their[i] = seconds_per_run(theirs, what, times);
        ratio[i] = their[i] / our[i];
    }
    printf("%-34s %8.1f %8.1f %6.2f\n", name, 1e-9 * operations / turns_median(our, turns),
           1e-9 * operations / turns_median(their, turns), turns_median(ratio, turns));
    fflush(stdout);
}

/* ---- a matrix of the model ---- */
typedef struct product {
    product_shape s;
    matmul_weights w;
    const float *floats, *x;
    float *y;
} product;
static void product_in(matmul_arithmetic arithmetic, const product *p) {
    matmul_set_arithmetic(m, arithmetic);
    matmul_run(m, &p->w, p->x, p->s.tokens, p->y, p->s.tokens, p->s.tokens);
}
static void product_ours(const void *what) { product_in(sgemm ? MATMUL_FLOAT32 : MATMUL_BF16, what); }
static void product_float32(const void *what) { product_in(MATMUL_FLOAT32, what); }
static void product_theirs(const void *what) {
    const product *p = what;
    int rows = (int)p->s.rows, columns = (int)p->s.columns, tokens = (int)p->s.tokens;
    sgemm(ROW_MAJOR, AS_IT_IS, AS_IT_IS, rows, tokens, columns, 1, p->floats, columns, p->x, tokens, 0, p->y,
          tokens);
}
static void compare_matrix(product_shape s) {
    static const uint32_t types[] = {GGUF_F32, GGUF_F16, GGUF_Q4_K};
    float *w = random_matrix(s.rows * s.columns), *x = random_matrix(s.columns * s.tokens);
    float *y = random_matrix(s.rows * s.tokens);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const tensor_type *type = tensor_type_of(types[i]);
        if (s.columns % type->block_elements) continue;
        uint8_t *stored = malloc(s.rows * gguf_row_bytes(type, s.columns));
        if (!stored) exit(1);
        k->codecs[type->id].encode(w, stored, s.rows, s.columns, NULL, &(encode_settings){EFFORT_FAST, 0});
        product p = {s, {stored, type->id, s.rows, s.columns}, w, x, y};
        char name[80];
        snprintf(name, sizeof name, "%zu x %zu x %zu %s", s.rows, s.columns, s.tokens, type->name);
        compare_products(name, 2.0 * (double)s.rows * (double)s.columns * (double)s.tokens, product_ours,
                         sgemm ? product_theirs : product_float32, &p);
        free(stored);
    }
    free(w), free(x), free(y);
}

/* ---- a head of attention ---- */
static void head_ours(const void *what) { matmul_within(m, 0, what); }
static void head_theirs(const void *what) {
    const matmul_product *p = what;
    sgemm(ROW_MAJOR, p->transposed ? TRANSPOSED : AS_IT_IS, AS_IT_IS, (int)p->rows, (int)p->tokens,
          (int)p->columns, 1, p->w, (int)p->w_stride, p->x, (int)p->x_stride, 0, p->y, (int)p->y_stride);
}
static void compare_head(size_t width, size_t tokens) {
    size_t stride = tokens + 16; /* no power of two, which would have rows share sets of a cache */
    float *a = random_matrix(tokens * stride), *b = random_matrix(tokens * stride),
          *c = random_matrix(tokens * stride);
    double operations = 2.0 * (double)width * (double)tokens * (double)tokens;
    for (int values = 0; values < 2; values++) {
        matmul_product p = {.w = a, .x = b, .y = c, .tokens = tokens};
        p.w_stride = p.x_stride = p.y_stride = stride;
        p.rows = values ? width : tokens, p.columns = values ? tokens : width;
        p.transposed = !values;
        char name[80];
        snprintf(name, sizeof name, "head of %zu, %zu tokens: %s", width, tokens, values ? "v" : "k");
        compare_products(name, operations, head_ours, head_theirs, &p);
    }
    free(a), free(b), free(c);
}

/* The library, with the kernels of that level; both are set in the environment before it is loaded. */
static void load_openblas(const char *isa, int threads) {
    bool avx512 = !strcmp(isa, "x86-64-v4") || !strcmp(isa, "amx");
    const char *core = avx512 ? "SkylakeX" : !strcmp(isa, "x86-64-v3") ? "Haswell" : "Nehalem";
    if (avx512 || !strncmp(isa, "x86", 3)) setenv("OPENBLAS_CORETYPE", core, 0);
    void *library = dlopen("libopenblas.so.0", RTLD_NOW);
    *(void **)&sgemm = library ? dlsym(library, "cblas_sgemm") : NULL;
    void (*set_threads)(int) = NULL;
    char *(*name)(void) = NULL;
    if (library) *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
    if (library) *(void **)&name = dlsym(library, "openblas_get_corename");
    if (!sgemm || !set_threads) {
        fprintf(stderr, "bench-matmul: no libopenblas.so.0 (Debian: libopenblas0)\n");
        exit(1);
    }
    set_threads(threads);
    printf("%s, %d threads; OpenBLAS for %s\n", isa, threads, name ? name() : "?");
}

int main(int argc, char **argv) {
    int threads = 2, i = 1;
    matmul_arithmetic arithmetic = MATMUL_FLOAT32;
    gq_error e = {.text = ""};
    k = kernels_select();
    for (; i + 1 < argc && !strncmp(argv[i], "--", 2); i += 2) {
        if (!strcmp(argv[i], "--isa")) k = kernels_level(argv[i + 1]);
        if (!strcmp(argv[i], "--threads")) threads = atoi(argv[i + 1]);
        if (!strcmp(argv[i], "--turns")) turns = atoi(argv[i + 1]);
        if (!strcmp(argv[i], "--arithmetic") && !matmul_arithmetic_take(&arithmetic, argv[i + 1], &e))
            return fprintf(stderr, "%s\n", e.text), 2;
    }
    if (!k || threads < 1 || turns < 1 || turns > MOST_TURNS)
        return fprintf(stderr, "bench-matmul: bad argument\n"), 2;
    if (arithmetic == MATMUL_FLOAT32)
        load_openblas(kernels_name(k), threads);
    else
        printf("%s, %d threads\n", kernels_name(k), threads);
    m = matmul_new(k, threads_pool_new(threads), &e);
    if (!m) return fprintf(stderr, "%s\n", e.text), 1;
    printf("%-34s %8s %8s %6s\n", "rows x columns x tokens", sgemm ? "ours" : "bf16",
           sgemm ? "sgemm" : "float32", "ratio");
    if (i == argc) {
        static const product_shape shapes[] = {{4096, 4096, 512}, {14336, 4096, 512}, {4096, 14336, 512},
                                               {1024, 1024, 512}, {4096, 4096, 16},   {48, 4096, 512}};
        for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) compare_matrix(shapes[n]);
    }
    for (; i < argc; i++) {
        product_shape s;
        if (sscanf(argv[i], "%zux%zux%zu", &s.rows, &s.columns, &s.tokens) != 3) return 2;
        compare_matrix(s);
    }
    if (threads == 1 && sgemm) compare_head(128, 512), compare_head(64, 512);
    matmul_free(m);
    return 0;
}
