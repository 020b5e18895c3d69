/* forward_run MODEL.gguf TOKENS.u16 N WINDOW THREADS OUT.f32 [SUMS]
 *
 * Runs the first N tokens (16-bit) of a file in windows and writes all logits, one vocabulary of floats per
 * token; SUMS: the sums of squares of what flows into each weight. Layouts as tests/forward_table has them
 * from llama.cpp.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/forwarding.h"

typedef struct entry {
    char name[GGUF_MAX_NAME + 1];
    size_t features, matrices;
    double *count, *sum;
} entry;
typedef struct collector {
    entry *entries;
    size_t n;
} collector;

static entry *entry_of(collector *c, const gguf_tensor *t, const forward_inputs *in) {
    for (size_t i = 0; i < c->n; i++)
        if (!strcmp(c->entries[i].name, t->name)) return &c->entries[i];
    c->entries = realloc(c->entries, (c->n + 1) * sizeof *c->entries);
    entry *e = &c->entries[c->n++];
    *e = (entry){.features = in->features, .matrices = in->matrices};
    snprintf(e->name, sizeof e->name, "%s", t->name);
    e->count = calloc(in->matrices, sizeof(double));
    e->sum = calloc(in->matrices * in->features, sizeof(double));
    return e;
}

static bool collect(void *data, const forward_inputs *in, gq_error *error) {
    (void)error;
    for (size_t k = 0; k < in->n_weights; k++) {
        entry *e = entry_of(data, in->weights[k], in);
        e->count[in->matrix] += (double)in->tokens;
        for (size_t c = 0; c < in->features; c++)
            for (size_t t = 0; t < in->tokens; t++) {
                double v = (double)in->x[c * in->stride + t];
                e->sum[in->matrix * in->features + c] += v * v;
            }
    }
    return true;
}

static void write_sums(const collector *c, const char *path) {
    FILE *f = fopen(path, "wb");
    if (!f) perror(path), exit(1);
    for (size_t i = 0; i < c->n; i++) {
        const entry *e = &c->entries[i];
        uint32_t head[] = {(uint32_t)strlen(e->name)}, dim[] = {(uint32_t)e->features, (uint32_t)e->matrices};
        fwrite(head, 4, 1, f), fwrite(e->name, 1, head[0], f), fwrite(dim, 4, 2, f);
        fwrite(e->count, 8, e->matrices, f), fwrite(e->sum, 8, e->matrices * e->features, f);
    }
    fclose(f);
}

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
    gguf_model g;
    gq_error e;
    if (argc < 7) return fprintf(stderr, "usage: forward_run MODEL TOKENS N WINDOW THREADS OUT [SUMS]\n"), 2;
    size_t n = strtoul(argv[3], NULL, 10), context = strtoul(argv[4], NULL, 10), vocabulary;
    uint16_t *tokens = malloc(n * sizeof *tokens);
    uint32_t *ids = malloc(n * sizeof *ids);
    FILE *f = fopen(argv[2], "rb"), *out = fopen(argv[6], "wb");
    if (!f || !out || fread(tokens, 2, n, f) != n) return perror(argv[2]), 1;
    fclose(f);
    for (size_t i = 0; i < n; i++) ids[i] = tokens[i];
    if (!gguf_model_open(&g, argv[1], &e)) return fprintf(stderr, "%s\n", e.text), 1;
    collector c = {0};
    forward_site site = {collect, &c};
    forwarding run = {.ids = ids,
                      .n = n / context * context,
                      .context = context,
                      .threads = atoi(argv[5]),
                      .site = argc > 7 ? &site : NULL};
    double begin = now();
    float *logits = forward_whole(&g, &run, &vocabulary, &e);
    if (!logits) return fprintf(stderr, "%s\n", e.text), 1;
    double seconds = now() - begin;
    fwrite(logits, sizeof *logits, run.n * vocabulary, out);
    if (fclose(out) != 0) return perror(argv[6]), 1;
    if (argc > 7) write_sums(&c, argv[7]);
    printf("tokens %zu vocab %zu ppl %.6f seconds %.3f tokens_per_s %.1f\n", run.n, vocabulary,
           perplexity(logits, &run, vocabulary), seconds, (double)run.n / seconds);
    free(logits), free(ids), free(tokens);
    gguf_model_close(&g);
    return 0;
}
