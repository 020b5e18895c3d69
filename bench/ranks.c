/* Counts what each rank does and sends when ranks share a calibration. Ranks are threads of this process with
 * a thread each. Kernels that multiply, round and encode are replaced, as their work follows from sizes: the
 * replacements count operations and return numbers with which the run continues. Output files are meaningless,
 * and models far too large to be calibrated here can be counted.
 *
 *     bench-ranks MODEL.gguf TYPE TOKENS CONTEXT RANKS...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/comm/ranks.h"
#include "codec/feedback.h"
#include "codec/tile.h"
#include "quantize/gquant.h"
#include "study/inputs/inputs.h"
#include "tests/support/ranks.h"

typedef struct counted {
    double products, roots, rounding; /* floating-point operations */
    uint64_t sent;
} counted;

static counted of_rank[RANKS_MOST];
static _Thread_local counted *mine;
static _Thread_local bool in_root;

/* ---- kernels that count ---- */

static void count_multiply(const product_tile *t) {
    double n = 2. * (double)t->rows * (double)t->columns * (double)t->tokens;
    if (mine) *(in_root ? &mine->roots : &mine->products) += n;
    for (size_t r = 0; !t->add && r < t->rows; r++)
        for (size_t i = 0; i < t->tokens; i++)
            t->y[i / t->width * t->y_panel_stride + r * t->y_stride + i % t->width] = 1;
}

static void count_feedback(const feedback_task *t, const float *x, size_t rows, uint8_t *blocks,
                           feedback_sums *sums) {
    size_t bytes = rows * gguf_row_bytes(tensor_type_of(t->type), t->columns);
    (void)x, (void)sums;
    memset(blocks, 0, bytes);
    if (t->unswept) memset(t->unswept, 0, bytes);
    for (size_t i = 0; mine && i < t->n_hessians; i++) {
        double columns = (double)t->hessian[i].columns;
        mine->rounding += (double)rows * columns * columns * (1 + 2. * t->sweeps);
    }
}

/* An encoder does not know its type. */
#define ENCODER(name, type) \
    static void name(const float *x, uint8_t *blocks, size_t rows, size_t columns, const float *importance, \
                     const encode_settings *settings) { \
        (void)x, (void)importance, (void)settings; \
        memset(blocks, 0, rows *gguf_row_bytes(tensor_type_of(type), columns)); \
    }
ENCODER(encode_q4_k, GGUF_Q4_K)
ENCODER(encode_q6_k, GGUF_Q6_K)

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names for --wrap */
const kernels *__real_kernels_select(void);
const kernels *__wrap_kernels_select(void);
const kernels *__wrap_kernels_select(void) {
    static kernels own;
    static product_kernels products;
    static codec codecs[GGUF_TYPE_LIMIT];
    const kernels *real = __real_kernels_select();
    if (!real || own.codecs) return real ? &own : NULL;
    products = *real->products[MATMUL_FLOAT32], products.multiply = count_multiply;
    memcpy(codecs, real->codecs, sizeof codecs);
    codecs[GGUF_Q4_K].encode = encode_q4_k, codecs[GGUF_Q6_K].encode = encode_q6_k;
    own = *real;
    own.codecs = codecs, own.feedback = count_feedback, own.products[MATMUL_FLOAT32] = &products;
    return &own;
}

bool __real_cholesky_factor(hessian *m, hessian_settings settings, cholesky *f, gq_error *e);
bool __wrap_cholesky_factor(hessian *m, hessian_settings settings, cholesky *f, gq_error *e);
bool __wrap_cholesky_factor(hessian *m, hessian_settings settings, cholesky *f, gq_error *e) {
    in_root = true;
    bool ok = __real_cholesky_factor(m, settings, f, e);
    in_root = false;
    return ok;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* ---- a run ---- */

typedef struct ranks_request {
    const char *model, *type, *out, *ids;
    size_t tokens, context;
    gq_calibration_facts facts;
    uint64_t memory;
} ranks_request;

static void calibrate(void *data, gq_comm *comm) {
    ranks_request *r = data;
    gq_error e = {.status = GQ_OK};
    int rank = gq_comm_rank(comm);
    gq_calibration calibration = {.size = sizeof calibration,
                                  .text = {.tokens = r->tokens,
                                           .name = "ids",
                                           .bytes = r->ids,
                                           .n = strlen(r->ids),
                                           .ids = true,
                                           .context = (uint32_t)r->context}};
    gq_output output = {.path = r->out, .filetype = r->type};
    gq_options options = {.size = sizeof options,
                          .input = r->model,
                          .outputs = &output,
                          .n_outputs = 1,
                          .force = true,
                          .threads = 1,
                          .calibration = &calibration,
                          .comm = comm};
    of_rank[rank] = (counted){0};
    gq_plan *plan = gq_plan_new(&options, &e); /* rank 0 measures its speed for it: that is not counted */
    uint64_t before = gq_comm_bytes_sent(comm);
    mine = &of_rank[rank];
    if (!plan || !gq_run(plan, NULL, NULL, &e)) fprintf(stderr, "rank %d: %s\n", rank, e.text);
    mine->sent = gq_comm_bytes_sent(comm) - before;
    if (plan && rank == 0) r->facts = *gq_plan_calibration(plan);
    gq_plan_free(plan);
    mine = NULL;
}

static char *make_ids(size_t n) {
    char *ids = malloc(8 * n + 1);
    size_t at = 0;
    for (size_t i = 0; ids && i < n; i++) at += (size_t)sprintf(ids + at, "%zu ", i * i * 31 % 200);
    return ids;
}

static void report(const ranks_request *r, int n) {
    double most = 0, least = 0, products = 0, roots = 0;
    uint64_t sent = 0;
    for (int i = 0; i < n; i++) {
        double work = of_rank[i].products + of_rank[i].rounding;
        if (i == 0 || work > most) most = work;
        if (i == 0 || work < least) least = work;
        products += work, roots += of_rank[i].roots;
        if (of_rank[i].sent > sent) sent = of_rank[i].sent;
    }
    printf("%5d  %12.4g  %12.4g  %12.4g  %8.3f  %12.4g  %12.4g  %9.1f  %12llu\n", n, products, most, least,
           most / least, roots, roots / n, (double)r->facts.memory / (1 << 20), (unsigned long long)sent);
}

int main(int argc, char **argv) {
    char out[] = "/tmp/bench-ranks-XXXXXX";
    if (argc < 6) {
        fprintf(stderr, "usage: %s MODEL.gguf TYPE TOKENS CONTEXT RANKS...\n", argv[0]);
        return 2;
    }
    int fd = mkstemp(out);
    if (fd < 0) return 1;
    close(fd);
    ranks_request r = {.model = argv[1],
                       .type = argv[2],
                       .out = out,
                       .tokens = strtoul(argv[3], NULL, 10),
                       .context = strtoul(argv[4], NULL, 10)};
    r.ids = make_ids(r.tokens);
    printf("ranks  work of all   of the most  of the least  most/least  roots of all  per rank  memory MiB  "
           "sent at most\n");
    for (int i = 5; r.ids && i < argc; i++) {
        int n = atoi(argv[i]);
        if (n < 1 || n > RANKS_MOST) continue;
        ranks_run(n, calibrate, &r, -1, 0, false);
        report(&r, n);
        fflush(stdout);
    }
    remove(out);
    free((void *)r.ids);
    return 0;
}
