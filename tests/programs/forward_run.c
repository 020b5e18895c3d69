/* forward_run MODEL TOKENS.u16 N WINDOW THREADS OUT.f32 [POOLED.f64]
 *
 * Runs the first N tokens (16-bit) of a file in windows and writes all logits, one vocabulary of floats per
 * token, as tests/peer/forward_table and tests/peer/hf_peer have them from llama.cpp. MODEL: a GGUF file or a folder.
 * TOKENS.u32: 32-bit ids. POOLED.f64: gets the embedding of each window, of an encoder.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gguf/gguf.h"
#include "hf/hf.h"
#include "tests/support/forwarding.h"

/* Of the second half of each window, each token after the one before. */
static double perplexity(const float *logits, const forwarding *f, size_t vocabulary) {
    double nll = 0;
    size_t scored = 0;
    for (size_t i = 0; i + 1 < f->n; i++) {
        const float *z = logits + i * vocabulary;
        double top = (double)z[0], sum = 0;
        if (i % f->context < f->context / 2 || i % f->context + 1 == f->context) continue;
        for (size_t v = 1; v < vocabulary; v++) top = fmax(top, (double)z[v]);
        for (size_t v = 0; v < vocabulary; v++) sum += exp((double)z[v] - top);
        nll -= (double)z[f->ids[i + 1]] - top - log(sum), scored++;
    }
    return exp(nll / (double)(scored ? scored : 1));
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    model_source g;
    gq_error e;
    if (argc < 7) return fprintf(stderr, "usage: forward_run MODEL TOKENS N WINDOW THREADS OUT\n"), 2;
    size_t n = strtoul(argv[3], NULL, 10), context = strtoul(argv[4], NULL, 10), vocabulary;
    bool is_wide = strlen(argv[2]) > 4 && strcmp(argv[2] + strlen(argv[2]) - 4, ".u32") == 0;
    size_t each = is_wide ? sizeof(uint32_t) : sizeof(uint16_t), embedded = 0;
    void *tokens = malloc(n * each);
    uint32_t *ids = malloc(n * sizeof *ids);
    FILE *f = fopen(argv[2], "rb"), *out = fopen(argv[6], "wb");
    if (!f || !out || fread(tokens, each, n, f) != n) return perror(argv[2]), 1;
    fclose(f);
    for (size_t i = 0; i < n; i++)
        ids[i] = is_wide ? ((const uint32_t *)tokens)[i] : ((const uint16_t *)tokens)[i];
    if (!(hf_model_is(argv[1]) ? hf_model_open(&g, argv[1], &e) : gguf_model_open(&g, argv[1], &e)))
        return fprintf(stderr, "%s\n", e.text), 1;
    forwarding run = {.ids = ids, .n = n / context * context, .context = context, .threads = atoi(argv[5])};
    forward_model *m = argc > 7 ? forward_model_new(&g, &e) : NULL;
    if (m) embedded = forward_model_sizes(m)->embedded;
    run.pooled = m ? calloc(n / context * embedded, sizeof *run.pooled) : NULL;
    forward_model_free(m);
    double begin = now();
    float *logits = forward_whole(&g, &run, &vocabulary, &e);
    if (!logits) return fprintf(stderr, "%s\n", e.text), 1;
    double seconds = now() - begin;
    fwrite(logits, sizeof *logits, run.n * vocabulary, out);
    if (fclose(out) != 0) return perror(argv[6]), 1;
    if (run.pooled &&
        (!(out = fopen(argv[7], "wb")) ||
         fwrite(run.pooled, sizeof *run.pooled, n / context * embedded, out) != n / context * embedded ||
         fclose(out) != 0))
        return perror(argv[7]), 1;
    printf("tokens %zu vocab %zu ppl %.6f seconds %.3f tokens_per_s %.1f\n", run.n, vocabulary,
           perplexity(logits, &run, vocabulary), seconds, (double)run.n / seconds);
    free(run.pooled), free(logits), free(ids), free(tokens);
    model_close(&g);
    return 0;
}
