/* bench-divergence: KL divergence of next-token probabilities of quantized models from a small base model, as
 * llama-perplexity --kl-divergence computes it.
 *
 * The tokens (16-bit, little-endian) are cut into windows of 128, each of which starts with BOS instead of
 * its first token; the second half of a window is scored. Base model and quant run in binary32 from weights that
 * our decoders read. Printed per quant: perplexity, mean KL(base || quant) in nats with its standard error, the
 * share of equal top-1 tokens, and the difference of the KL from that of the quant before it in the list, with
 * the standard error of that difference (paired, over windows: tokens of one window are not independent).
 *
 * Runs dense models of the llama architecture, of any shape.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "codec/codec.h"
#include "gguf/gguf.h"
#include "gguf/model.h"

#ifdef __x86_64__
#define FAST __attribute__((target_clones("fma", "default")))
#else
#define FAST
#endif

enum { WINDOW_TOKENS = 128, HALF_TOKENS = WINDOW_TOKENS / 2, SCORED_TOKENS = HALF_TOKENS - 1 };

static _Noreturn void exit_with_reason(const char *what, const char *text) {
    fprintf(stderr, "bench-divergence: %s: %s\n", what, text);
    exit(1);
}

static void *bench_allocate(size_t bytes) {
    void *p = memory_lines(1, bytes, NULL);
    if (!p) exit_with_reason("memory", "not enough");
    return p;
}

/* ---- matrices ---- */
/* Rows in panels of 16, each panel column by column: products then need no sum across a vector. */
enum { PANEL_ROWS = 16, PANEL_TOKENS = 6 };
typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef struct panel_matrix {
    int rows, cols;
    float *panels;
} panel_matrix;

static panel_matrix pack_panels(const float *w, int rows, int cols) {
    panel_matrix m = {rows, cols,
                      bench_allocate(sizeof(float) * (size_t)(rows + PANEL_ROWS - 1) / PANEL_ROWS *
                                     PANEL_ROWS * (size_t)cols)};
    float *to = m.panels;
    for (int r = 0; r < rows; r += PANEL_ROWS)
        for (int c = 0; c < cols; c++)
            for (int k = 0; k < PANEL_ROWS; k++)
                *to++ = r + k < rows ? w[(size_t)(r + k) * (size_t)cols + (size_t)c] : 0;
    return m;
}

FAST static void multiply_one_panel(const float *panel, const float *x, int cols,
                                    float sums[PANEL_TOKENS * PANEL_ROWS]) {
    v8 s[PANEL_TOKENS][2] = {0};
    for (int c = 0; c < cols; c++) {
        v8 low = *(const v8 *)(panel + c * PANEL_ROWS), high = *(const v8 *)(panel + c * PANEL_ROWS + 8);
        for (int t = 0; t < PANEL_TOKENS; t++)
            s[t][0] += x[t * cols + c] * low, s[t][1] += x[t * cols + c] * high;
    }
    for (int t = 0; t < PANEL_TOKENS; t++)
        for (int k = 0; k < 2; k++) *(v8 *)(sums + t * PANEL_ROWS + 8 * k) = s[t][k];
}

/* out (tokens x rows) = x (tokens x cols) times the matrix transposed. x has room for PANEL_TOKENS - 1 more
 * rows.
 */
static void multiply_panels(float *out, const panel_matrix *m, const float *x, int tokens) {
    float sums[PANEL_TOKENS * PANEL_ROWS];
    for (int r = 0; r < m->rows; r += PANEL_ROWS)
        for (int t = 0; t < tokens; t += PANEL_TOKENS) {
            multiply_one_panel(m->panels + (size_t)r * (size_t)m->cols, x + t * m->cols, m->cols, sums);
            for (int i = t; i < t + PANEL_TOKENS && i < tokens; i++)
                for (int k = 0; k < PANEL_ROWS && r + k < m->rows; k++)
                    out[i * m->rows + r + k] = sums[(i - t) * PANEL_ROWS + k];
        }
}

/* ---- the model ---- */
typedef struct llama_layer {
    float *attention_norm, *feed_norm;
    panel_matrix q, k, v, o, gate, up, down;
} llama_layer;

typedef struct llama_model {
    int width, layers, heads, kv_heads, head, rotated, feed, vocabulary, bos;
    float epsilon, base;
    float *embedding, *norm;
    panel_matrix output;
    llama_layer *layer;
} llama_model;

static double read_fact(const model_source *g, const char *key, double otherwise) {
    const model_kv *kv =
        model_kv_find(gguf_container_of(g)->shards->kv, gguf_container_of(g)->shards->n_kv, key);
    int64_t whole;
    double real;
    if (model_kv_int(kv, &whole)) return (double)whole;
    if (model_kv_float(kv, &real)) return real;
    if (isnan(otherwise)) exit_with_reason("missing metadata", key);
    return otherwise;
}

/* A tensor as floats of the given shape; absent: NULL where that is allowed. */
static float *read_weights(const model_source *g, const char *name, int rows, int cols, bool optional) {
    const model_tensor *t = model_tensor_named(g, name);
    gq_error e;
    if (!t && optional) return NULL;
    if (!t) exit_with_reason("missing tensor", name);
    const codec *c = &kernels_select()->codecs[t->type->id];
    if (t->ne[0] != (uint64_t)cols || t->ne[1] != (uint64_t)rows || !c->decode)
        exit_with_reason("unexpected shape or type", name);
    uint8_t *bytes = bench_allocate(t->size);
    float *w = bench_allocate(sizeof(float) * (size_t)rows * (size_t)cols);
    if (!gq_file_read(&gguf_container_of(g)->shards[t->shard].file, t->offset, bytes, t->size, &e))
        exit_with_reason(name, e.text);
    c->decode(bytes, 0, w, (size_t)rows * (size_t)cols);
    free(bytes);
    return w;
}

static panel_matrix load_matrix(const model_source *g, const char *name, int rows, int cols) {
    float *w = read_weights(g, name, rows, cols, false);
    panel_matrix m = pack_panels(w, rows, cols);
    free(w);
    return m;
}

static void load_layer(const model_source *g, const llama_model *m, int i, llama_layer *l) {
    char name[64];
    const struct {
        const char *part;
        panel_matrix *to;
        int rows, cols;
    } parts[] = {
        {"attn_q", &l->q, m->heads * m->head, m->width},
        {"attn_k", &l->k, m->kv_heads * m->head, m->width},
        {"attn_v", &l->v, m->kv_heads * m->head, m->width},
        {"attn_output", &l->o, m->width, m->heads * m->head},
        {"ffn_gate", &l->gate, m->feed, m->width},
        {"ffn_up", &l->up, m->feed, m->width},
        {"ffn_down", &l->down, m->width, m->feed},
    };
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        snprintf(name, sizeof name, "blk.%d.%s.weight", i, parts[k].part);
        *parts[k].to = load_matrix(g, name, parts[k].rows, parts[k].cols);
    }
    snprintf(name, sizeof name, "blk.%d.attn_norm.weight", i),
        l->attention_norm = read_weights(g, name, 1, m->width, false);
    snprintf(name, sizeof name, "blk.%d.ffn_norm.weight", i),
        l->feed_norm = read_weights(g, name, 1, m->width, false);
}

static llama_model load_llama(const char *path) {
    model_source g;
    gq_error e;
    if (!gguf_model_open(&g, path, &e)) exit_with_reason("cannot open", e.text);
    const model_tensor *embedding = model_tensor_named(&g, "token_embd.weight");
    if (!embedding) exit_with_reason("missing tensor", "token_embd.weight");
    if (model_tensor_named(&g, "rope_freqs.weight") || model_tensor_named(&g, "blk.0.ffn_gate_exps.weight"))
        exit_with_reason(path, "only dense models without scaled rotation are known here");
    llama_model m = {.vocabulary = (int)embedding->ne[1]};
    m.width = (int)read_fact(&g, "llama.embedding_length", NAN),
    m.layers = (int)read_fact(&g, "llama.block_count", NAN);
    m.heads = (int)read_fact(&g, "llama.attention.head_count", NAN);
    m.kv_heads = (int)read_fact(&g, "llama.attention.head_count_kv", m.heads);
    m.feed = (int)read_fact(&g, "llama.feed_forward_length", NAN);
    if (m.heads < 1 || m.kv_heads < 1 || m.heads % m.kv_heads || m.layers < 1 || m.layers > 1000)
        exit_with_reason(path, "impossible shape");
    int head = m.width / m.heads;
    m.head = (int)read_fact(&g, "llama.attention.key_length", head);
    m.rotated = (int)read_fact(&g, "llama.rope.dimension_count", m.head);
    m.base = (float)read_fact(&g, "llama.rope.freq_base", 10000);
    m.epsilon = (float)read_fact(&g, "llama.attention.layer_norm_rms_epsilon", NAN);
    m.bos = (int)read_fact(&g, "tokenizer.ggml.bos_token_id", 1);
    m.embedding = read_weights(&g, "token_embd.weight", m.vocabulary, m.width, false);
    m.norm = read_weights(&g, "output_norm.weight", 1, m.width, false);
    float *output = read_weights(&g, "output.weight", m.vocabulary, m.width, true);
    m.output = pack_panels(output ? output : m.embedding, m.vocabulary, m.width);
    free(output);
    m.layer = bench_allocate(sizeof *m.layer * (size_t)m.layers);
    for (int i = 0; i < m.layers; i++) load_layer(&g, &m, i, &m.layer[i]);
    model_close(&g);
    return m;
}

static void free_llama(llama_model *m) {
    for (int i = 0; i < m->layers; i++) {
        llama_layer *l = &m->layer[i];
        panel_matrix *all[] = {&l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down};
        for (int k = 0; k < 7; k++) free(all[k]->panels);
        free(l->attention_norm), free(l->feed_norm);
    }
    free(m->layer), free(m->output.panels), free(m->embedding), free(m->norm);
}

/* ---- running it ---- */
static void normalise_rows(float *out, const float *x, const float *w, int width, float epsilon) {
    for (int t = 0; t < WINDOW_TOKENS; t++, x += width, out += width) {
        float sum = 0;
        for (int i = 0; i < width; i++) sum += x[i] * x[i];
        float scale = 1 / sqrtf(sum / (float)width + epsilon);
        for (int i = 0; i < width; i++) out[i] = x[i] * scale * w[i];
    }
}

static void rotate_heads(const llama_model *m, float *x, int heads) {
    for (int i = 0; i < m->rotated; i += 2) {
        float step = powf(m->base, -(float)i / (float)m->rotated);
        for (int t = 0; t < WINDOW_TOKENS; t++) {
            float c = cosf((float)t * step), s = sinf((float)t * step);
            for (int h = 0; h < heads; h++) {
                float *p = x + (t * heads + h) * m->head + i, a = p[0], b = p[1];
                p[0] = a * c - b * s, p[1] = a * s + b * c;
            }
        }
    }
}

/* Causal attention of one head. Keys lie in columns and loops run over the whole window, so that the compiler
 * vectorizes them. */
FAST static void attend_head(const float *q, const float *keys, const float *v, float *out, int n, int all,
                             int kv) {
    float scale = 1 / sqrtf((float)n);
    for (int t = 0; t < WINDOW_TOKENS; t++, q += all, out += all) {
        float p[WINDOW_TOKENS] = {0}, top = -INFINITY, sum = 0;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < WINDOW_TOKENS; j++) p[j] += q[i] * keys[i * WINDOW_TOKENS + j];
        for (int j = 0; j <= t; j++) top = p[j] > top ? p[j] : top;
        for (int j = 0; j <= t; j++) sum += p[j] = expf((p[j] - top) * scale);
        for (int i = 0; i < n; i++) out[i] = 0;
        for (int j = 0; j <= t; j++) {
            float share = p[j] / sum;
            for (int i = 0; i < n; i++) out[i] += share * v[j * kv + i];
        }
    }
}

static void attend_heads(const llama_model *m, float *out, const float *q, const float *k, const float *v) {
    int n = m->head, kv = m->kv_heads * n, all = m->heads * n;
    float *keys = bench_allocate(sizeof *keys * (size_t)(n * WINDOW_TOKENS));
    for (int h = 0; h < m->heads; h++) {
        int at = h / (m->heads / m->kv_heads) * n;
        for (int j = 0; j < WINDOW_TOKENS; j++)
            for (int i = 0; i < n; i++) keys[i * WINDOW_TOKENS + j] = k[j * kv + at + i];
        attend_head(q + h * n, keys, v + at, out + h * n, n, all, kv);
    }
    free(keys);
}

static void add_states(float *x, const float *y, int n) {
    for (int i = 0; i < n; i++) x[i] += y[i];
}

/* Hidden states after the last norm, of the window's second half: HALF_TOKENS x width. */
static void run_llama(const llama_model *m, const int *ids, float *hidden_states) {
    int d = m->width, all = m->heads * m->head, kv = m->kv_heads * m->head,
        rows = WINDOW_TOKENS + PANEL_TOKENS;
    float *x =
        bench_allocate(sizeof(float) * (size_t)rows * (size_t)(2 * d + 2 * all + 2 * kv + 2 * m->feed));
    float *h = x + rows * d, *q = h + rows * d, *mixed = q + rows * all, *k = mixed + rows * all,
          *v = k + rows * kv;
    float *gate = v + rows * kv, *up = gate + rows * m->feed;
    for (int t = 0; t < WINDOW_TOKENS; t++)
        memcpy(x + t * d, m->embedding + (size_t)ids[t] * (size_t)d, sizeof(float) * (size_t)d);
    for (const llama_layer *l = m->layer; l < m->layer + m->layers; l++) {
        normalise_rows(h, x, l->attention_norm, d, m->epsilon);
        multiply_panels(q, &l->q, h, WINDOW_TOKENS), multiply_panels(k, &l->k, h, WINDOW_TOKENS),
            multiply_panels(v, &l->v, h, WINDOW_TOKENS);
        rotate_heads(m, q, m->heads), rotate_heads(m, k, m->kv_heads);
        attend_heads(m, mixed, q, k, v);
        multiply_panels(h, &l->o, mixed, WINDOW_TOKENS);
        add_states(x, h, WINDOW_TOKENS * d);
        normalise_rows(h, x, l->feed_norm, d, m->epsilon);
        multiply_panels(gate, &l->gate, h, WINDOW_TOKENS), multiply_panels(up, &l->up, h, WINDOW_TOKENS);
        for (int i = 0; i < WINDOW_TOKENS * m->feed; i++) gate[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
        multiply_panels(h, &l->down, gate, WINDOW_TOKENS);
        add_states(x, h, WINDOW_TOKENS * d);
    }
    normalise_rows(h, x, m->norm, d, m->epsilon);
    memcpy(hidden_states, h + HALF_TOKENS * d, sizeof(float) * (size_t)(HALF_TOKENS * d));
    free(x);
}

/* ---- comparing ---- */
typedef struct sums {
    double kl, kl2, nll, same;
} sums;

static int likeliest_token(const float *z, int n) {
    int top = 0;
    for (int i = 1; i < n; i++)
        if (z[i] > z[top]) top = i;
    return top;
}

static void compare_logits(const float *p, const float *q, int n, int next, sums *s) {
    int tp = likeliest_token(p, n), tq = likeliest_token(q, n);
    double sum_p = 0, sum_q = 0, cross = 0;
    for (int i = 0; i < n; i++) {
        double a = (double)p[i] - (double)p[tp], b = (double)q[i] - (double)q[tq], e = exp(a);
        sum_p += e, sum_q += exp(b), cross += e * (a - b);
    }
    double kl = cross / sum_p + log(sum_q / sum_p);
    s->kl += kl, s->kl2 += kl * kl, s->same += tp == tq;
    /* cppcheck-suppress invalidFunctionArg ; n is at least 1, and the top-1 token adds 1 to each sum */
    s->nll -= (double)q[next] - (double)q[tq] - log(sum_q);
}

typedef struct text {
    int windows, *ids; /* WINDOW_TOKENS per window */
} text;

static threads_pool *pool;

typedef struct windows_run {
    const llama_model *m;
    const text *t;
    float *hidden_states;
} windows_run;

static size_t states_of_window(const llama_model *m) { return (size_t)(HALF_TOKENS * m->width); }

static void run_window(void *data, size_t w, int thread) {
    const windows_run *r = data;
    (void)thread;
    run_llama(r->m, r->t->ids + w * WINDOW_TOKENS, r->hidden_states + states_of_window(r->m) * w);
}

/* Hidden states of all windows: windows x HALF_TOKENS x width, padded for products of PANEL_TOKENS rows.
 */
static float *states_of(const llama_model *m, const text *t) {
    size_t room = (size_t)(PANEL_TOKENS * m->width);
    float *hidden_states = bench_allocate(sizeof(float) * (states_of_window(m) * (size_t)t->windows + room));
    threads_for(pool, (size_t)t->windows, 1, run_window, &(windows_run){m, t, hidden_states});
    return hidden_states;
}

typedef struct scoring {
    const llama_model *a, *b;
    const float *hidden_states, *copies;
    const text *t;
    sums *of_window;
} scoring;

static void score_window(void *data, size_t w, int thread) {
    const scoring *c = data;
    int n = c->a->vocabulary;
    size_t at = w * states_of_window(c->a), floats = (size_t)(HALF_TOKENS * n);
    float *p = bench_allocate(sizeof(float) * floats), *q = bench_allocate(sizeof(float) * floats);
    (void)thread;
    multiply_panels(p, &c->a->output, c->hidden_states + at, SCORED_TOKENS),
        multiply_panels(q, &c->b->output, c->copies + at, SCORED_TOKENS);
    for (int i = 0; i < SCORED_TOKENS; i++)
        compare_logits(p + i * n, q + i * n, n, c->t->ids[(int)w * WINDOW_TOKENS + HALF_TOKENS + i + 1],
                       &c->of_window[w]);
    free(p), free(q);
}

/* kl[w]: the mean of window w. */
static sums score_copy(const llama_model *a, const float *hidden_states, const llama_model *b, const text *t,
                       double *kl) {
    sums all = {0}, *of_window = bench_allocate(sizeof *of_window * (size_t)t->windows);
    memset(of_window, 0, sizeof *of_window * (size_t)t->windows);
    scoring c = {a, b, hidden_states, states_of(b, t), t, of_window};
    threads_for(pool, (size_t)t->windows, 1, score_window, &c);
    for (int w = 0; w < t->windows; w++) {
        const sums *s = &of_window[w];
        kl[w] = s->kl / SCORED_TOKENS;
        all.kl += s->kl, all.kl2 += s->kl2, all.nll += s->nll, all.same += s->same;
    }
    free((float *)c.copies), free(of_window);
    return all;
}

static text read_tokens(const char *path, long limit, const llama_model *m) {
    FILE *f = fopen(path, "rb");
    if (!f) exit_with_reason("cannot open", path);
    uint8_t pair[2];
    int *ids = bench_allocate(sizeof *ids * (size_t)limit);
    long n = 0;
    for (; n < limit && fread(pair, 2, 1, f) == 1; n++)
        if ((ids[n] = pair[0] | pair[1] << 8) >= m->vocabulary)
            exit_with_reason(path, "a token beyond the vocabulary");
    fclose(f);
    text t = {(int)(n / WINDOW_TOKENS), ids};
    if (t.windows < 2) exit_with_reason(path, "too short");
    for (int w = 0; w < t.windows; w++) ids[w * WINDOW_TOKENS] = m->bos;
    return t;
}

int main(int argc, char **argv) {
    long limit = 40000;
    if (argc > 2 && !strcmp(argv[1], "--tokens")) limit = atol(argv[2]), argc -= 2, argv += 2;
    pool = threads_pool_new(threads_asked(0));
    if (argc < 4 || limit < 1)
        return fputs("usage: bench-divergence [--tokens N] ORIGINAL.gguf TOKENS.u16 COPY.gguf...\n", stderr),
               2;
    llama_model original = load_llama(argv[1]);
    text t = read_tokens(argv[2], limit, &original);
    float *hidden_states = states_of(&original, &t);
    double *kl = bench_allocate(sizeof *kl * (size_t)t.windows),
           *before = bench_allocate(sizeof *kl * (size_t)t.windows);
    double n = (double)t.windows * SCORED_TOKENS;
    puts("copy,perplexity,kl,kl_se,same_top_percent,kl_change,kl_change_se");
    for (int k = 3; k < argc; k++) {
        llama_model copy = load_llama(argv[k]);
        if (copy.vocabulary != original.vocabulary || copy.width != original.width)
            exit_with_reason(argv[k], "another shape");
        sums s = score_copy(&original, hidden_states, &copy, &t, kl);
        double mean = s.kl / n;
        printf("%s,%.4f,%.7f,%.7f,%.3f", argv[k], exp(s.nll / n), mean, sqrt((s.kl2 / n - mean * mean) / n),
               100 * s.same / n);
        double change = 0, change2 = 0;
        for (int w = 0; w < t.windows; w++)
            change += kl[w] - before[w], change2 += (kl[w] - before[w]) * (kl[w] - before[w]);
        change /= t.windows;
        if (k > 3)
            printf(",%.7f,%.7f\n", change, sqrt((change2 / t.windows - change * change) / t.windows));
        else
            puts(",,");
        fflush(stdout);
        memcpy(before, kl, sizeof *kl * (size_t)t.windows);
        free_llama(&copy);
    }
    free(hidden_states), free(kl), free(before), free(t.ids);
    free_llama(&original);
    return 0;
}
