/* The metric of the scores, on small models of every architecture: errors of a made-up direction are put into
 * queries and keys, and the divergence of the weights that attention gives is what the metric says.
 */
#include "forward/graph/attention/scores.h"

#include <math.h>

#include "forward/graph/attention/attention.h"
#include "forward/graph/attention/rope.h"
#include "forward/graph/layer.h"
#include "forward/stream/stream.h"
#include "tests/support/folder.h"
#include "tests/support/forward_models.h"
#include "tests/support/numbers.h"

enum { CONTEXT = VARIANT_CONTEXT, EVERY = 3, MOST_ROWS = 64 };

static const char *name; /* of the variant at hand */
static size_t checked[3];

/* ---- the straightforward way ---- */
typedef struct weights {
    double p[CONTEXT][CONTEXT + 1]; /* [query][key]; behind the last: what sinks take */
} weights;

static weights weights_of(const forward_scores *s, size_t head) {
    weights w = {{{0}}};
    attention_block b = attention_score(s->batch, s->sublayer, s->heads, 0, head, 0, 0);
    attention_weigh(s->batch, s->sublayer, s->heads, &b);
    for (size_t t = 0; t < CONTEXT; t++) {
        double rest = 1;
        for (size_t k = 0; k < b.keys && k <= t + b.ahead; k++) {
            w.p[t][b.key + k] = (double)b.scores[k * QUERIES + t];
            rest -= w.p[t][b.key + k];
        }
        w.p[t][CONTEXT] = s->heads->sinks ? rest : 0;
    }
    return w;
}

/* Divergence of the weights of queries from `first` on, every n-th. */
static double kld(const weights *a, const weights *b, size_t first, size_t every) {
    double sum = 0;
    for (size_t t = first; t < CONTEXT; t += every)
        for (size_t k = 0; k <= CONTEXT; k++)
            if (a->p[t][k] > 0 && b->p[t][k] > 0)
                sum += a->p[t][k] * log(a->p[t][k] / b->p[t][k]) - a->p[t][k] + b->p[t][k];
    return sum;
}

/* What an error u of a weight's rows becomes on its way to the scores, for all tokens: [row][stride]. */
static float *brought_to_scores(const forward_scores *s, bool is_query, size_t head, const float *u,
                                size_t rows) {
    forward_batch *b = s->batch;
    const attention_layer *l = s->sublayer->numbers;
    const arch_graph *a = &b->model->arch->graph;
    size_t stride = b->stride, all = s->heads->head;
    float *x = calloc(all * stride, sizeof *x);
    const float *gains = b->layer->values[is_query ? WEIGHT_ATTN_Q_NORM : WEIGHT_ATTN_K_NORM];
    bool each = a->qk == QK_EACH || a->qk == QK_FULL;
    if (!each && a->qk != QK_HEAD) gains = NULL;
    for (int late = 0; late < 2; late++) {
        for (size_t c = 0; c < rows; c++)
            for (size_t t = 0; t < CONTEXT; t++) {
                if (!late) x[c * stride + t] = u[c];
                if (gains && a->qk_after_rope == late)
                    x[c * stride + t] *= gains[(each ? head * all : 0) + c];
            }
        if (!late && l->has_rope && rows == all)
            batch_rope(b, s->sublayer, x + s->heads->rotated_from * stride, 1, all);
    }
    if (is_query) batch_temper(b, s->sublayer, x, all);
    return x;
}

/* Adds factor * x to rows of activations, of one token or, with CONTEXT, of all. */
static void add_error(const forward_scores *s, const float *rows, const float *x, size_t n, size_t token,
                      float factor) {
    size_t stride = s->batch->stride;
    for (size_t c = 0; c < n; c++)
        for (size_t t = 0; t < CONTEXT; t++)
            if (token == CONTEXT || t == token) ((float *)rows)[c * stride + t] += factor * x[c * stride + t];
}

/* Rows from a head's queries to the next one's. */
static size_t query_step(const forward_scores *s) {
    return s->heads->q_head_stride ? s->heads->q_head_stride : s->heads->head;
}

static double by_metric(const double *metric, const float *u, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) sum += (double)u[i] * metric[i * n + j] * (double)u[j];
    return sum;
}

/* The factor with which an error moves no score by more than 1/20. */
static float small_factor(const forward_scores *s, const float *x, bool is_query, size_t head) {
    const attention_heads *h = s->heads;
    const attention_numbers *n = s->sublayer->sublayer->numbers;
    size_t kv = head * h->kv_heads / h->heads, stride = s->batch->stride;
    double squares = 0, most = 0;
    for (size_t t = 0; t < CONTEXT; t++) {
        double of_x = 0, of_other = 0;
        for (size_t c = 0; c < h->head; c++) {
            const float *other =
                is_query ? h->k + kv * h->k_head_stride * stride : h->q + head * query_step(s) * stride;
            if (is_query && c >= h->head - h->tail) other = h->k_tail - (h->head - h->tail) * stride;
            of_x += (double)x[c * stride + t] * (double)x[c * stride + t];
            of_other += (double)other[c * stride + t] * (double)other[c * stride + t];
        }
        squares = fmax(squares, of_x), most = fmax(most, of_other);
    }
    return (float)(0.05 / (sqrt(squares * most) * (double)n->score_scale + 1e-9));
}

static void check(const char *what, size_t layer, size_t head, double found, double wanted) {
    if (!(fabs(found - wanted) <= 0.02 * wanted + 1e-8))
        fail_msg("%s: layer %zu: %s of head %zu: divergence %g, by the metric %g", name, layer, what, head,
                 found, wanted);
}

static void check_queries(const forward_scores *s, const forward_row_group *g, const double *metric) {
    const attention_numbers *n = s->sublayer->sublayer->numbers;
    for (size_t head = 0; head < g->heads; head++) {
        float u[MOST_ROWS];
        fill_normal(u, g->rows, 1);
        float *x = brought_to_scores(s, true, head, u, g->rows), by = small_factor(s, x, true, head);
        const float *q = s->heads->q + head * query_step(s) * s->batch->stride;
        weights before = weights_of(s, head);
        double found = 0;
        for (int sign = -1; sign <= 1; sign += 2) {
            add_error(s, q, x, g->rows, CONTEXT, by * (float)sign);
            weights after = weights_of(s, head);
            found += kld(&before, &after, 0, EVERY) / 2;
            add_error(s, q, x, g->rows, CONTEXT, -by * (float)sign);
        }
        double scale = (double)n->score_scale * (double)by;
        check("queries", s->batch->layer->index, head, found,
              scale * scale / 2 * by_metric(metric + head * g->rows * g->rows, u, g->rows));
        free(x), checked[0]++;
    }
}

static void check_keys(const forward_scores *s, const forward_row_group *g, const double *metric) {
    const attention_numbers *n = s->sublayer->sublayer->numbers;
    const attention_layer *l = s->sublayer->numbers;
    const attention_heads *h = s->heads;
    for (size_t kv = 0; kv < g->heads; kv++) {
        float u[MOST_ROWS];
        fill_normal(u, g->rows, 1);
        float *x = brought_to_scores(s, false, kv, u, g->rows), by = INFINITY;
        const float *k = h->k + kv * h->k_head_stride * s->batch->stride;
        for (size_t head = 0; head < h->heads; head++)
            if (head * h->kv_heads / h->heads == kv) by = fminf(by, small_factor(s, x, false, head));
        double found = 0, scale = (double)n->score_scale * (double)by;
        for (size_t head = 0; head < h->heads; head++) {
            if (head * h->kv_heads / h->heads != kv) continue;
            weights before = weights_of(s, head);
            for (size_t token = 0; token < CONTEXT; token += EVERY)
                for (int sign = -1; sign <= 1; sign += 2) {
                    add_error(s, k, x, g->rows, token, by * (float)sign);
                    weights after = weights_of(s, head);
                    found += kld(&before, &after, l->both_ways ? 0 : token, 1) / 2;
                    add_error(s, k, x, g->rows, token, -by * (float)sign);
                }
        }
        check("keys", s->batch->layer->index, kv, found,
              scale * scale / 2 * by_metric(metric + kv * g->rows * g->rows, u, g->rows));
        free(x), checked[1]++;
    }
}

/* What flows out of attn_output, behind the norm's weights, for an error in the values of a head. */
static void check_values(const forward_scores *s, const forward_row_group *g, const double *metric) {
    const forward_layer *l = s->batch->layer;
    const model_tensor *out = l->plan->weight[WEIGHT_ATTN_OUTPUT];
    const float *w = (const float *)l->own[WEIGHT_ATTN_OUTPUT].data;
    const float *gains = s->sublayer->after == WEIGHT_SLOTS ? NULL : l->values[s->sublayer->after];
    for (size_t kv = 0; kv < g->heads; kv++) {
        float u[MOST_ROWS];
        double found = 0, wanted;
        fill_normal(u, g->rows, 1);
        for (size_t head = 0; head < s->heads->heads; head++)
            for (size_t r = 0; head * s->heads->kv_heads / s->heads->heads == kv && r < out->ne[1]; r++) {
                double y = 0;
                for (size_t i = 0; i < g->rows; i++)
                    y += (double)w[r * out->ne[0] + head * g->rows + i] * (double)u[i];
                y *= gains ? (double)gains[r] : 1;
                found += y * y;
            }
        wanted = by_metric(metric + kv * g->rows * g->rows, u, g->rows);
        if (!(fabs(found - wanted) <= 1e-4 * wanted))
            fail_msg("%s: values of head %zu: %g, by the metric %g", name, kv, found, wanted);
        checked[2]++;
    }
}

/* ---- the library ---- */
typedef struct gathered {
    forward_row_group groups[FORWARD_MOST_GROUPS];
    double *metrics[FORWARD_MOST_GROUPS];
    size_t n;
    bool checks, called;
} gathered;

static size_t group_bytes(const forward_row_group *g) {
    return g->heads * g->rows * g->rows * sizeof(double);
}

static forward_answer on_scores(void *data, const forward_scores *s, gq_error *e) {
    gathered *g = data;
    if (!forward_scores_add(s, g->groups, g->n, 0, NULL, EVERY, g->metrics, e)) return FORWARD_FAILED;
    g->called = true;
    for (size_t i = 0; i < g->n; i++) {
        forward_row_kind kind = g->groups[i].kind;
        assert_true(g->groups[i].rows <= MOST_ROWS);
        if (kind == ROWS_OF_VALUES && !forward_scores_add_values(s, &g->groups[i], g->metrics[i], e))
            return FORWARD_FAILED;
        if (!g->checks) continue;
        (kind == ROWS_OF_QUERIES ? check_queries
         : kind == ROWS_OF_KEYS  ? check_keys
                                 : check_values)(s, &g->groups[i], g->metrics[i]);
    }
    return FORWARD_END;
}

static forward_answer go_on(void *data, const forward_inputs *in, gq_error *e) {
    (void)data, (void)in, (void)e;
    return FORWARD_ON;
}

/* Gathers the metrics of a layer, one behind the other; the caller frees them. */
static double *probe_layer(forward_stream *s, const forward_model *m, const forward_layer *l, bool checks,
                           size_t *bytes) {
    gq_error e;
    gathered g = {.checks = checks};
    double *all;
    *bytes = 0;
    g.n = forward_row_groups(m, forward_layer_number(l), g.groups);
    for (size_t i = 0; i < g.n; i++) *bytes += group_bytes(&g.groups[i]);
    all = calloc(1, *bytes + 1);
    for (size_t i = 0, at = 0; i < g.n; at += group_bytes(&g.groups[i++]))
        g.metrics[i] = all + at / sizeof *all;
    if (!forward_stream_probe(s, 0, l, forward_model_splits(m) ? FORWARD_ATTENTION : FORWARD_WHOLE,
                              &(forward_observer){.on_inputs = go_on, .on_scores = on_scores, .data = &g},
                              NULL, &e))
        fail_msg("%s: %s", name, e.text);
    bool rests = forward_stream_skips(s, 0, l); /* the first loop of such a model skips the layer */
    if (g.called != (g.n > 0 && !rests)) fail_msg("%s: %zu groups of rows", name, g.n);
    return all;
}

static void run_variant(const variant *v, int threads, bool in_parts, bool checks, double **found,
                        size_t *bytes) {
    static uint32_t ids[CONTEXT];
    gq_error e;
    model_save(variant_model(v, GGUF_F32, NULL), path("model"));
    for (size_t i = 0; i < CONTEXT; i++) ids[i] = variant_id(i);
    model_source g = open_model(path("model"));
    forward_model *m = forward_model_new(&g, &e);
    if (!m) fail_msg("%s: %s", v->name, e.text);
    forward_job job = {.ids = ids, .windows = 1, .context = CONTEXT, .threads = threads, .probes = true};
    const forward_sizes *sizes = forward_model_sizes(m); /* some rows of attn_output are not in memory */
    forward_bounds bounds = {.batch = 1, .layer = in_parts ? sizes->layer_least + sizes->layer_bytes / 5 : 0};
    forward_run *r = forward_run_new(&job, &bounds, &e);
    forward_stream *s = forward_stream_new(r, m, NULL, &e);
    assert_true(forward_stream_embed(s, NULL, &e));
    *found = NULL, *bytes = 0;
    for (size_t i = 0; i < forward_model_sizes(m)->layers; i++) {
        forward_layer *l = forward_run_layer(r, m, i, &e);
        size_t more;
        double *metrics = probe_layer(s, m, l, checks, &more);
        *found = realloc(*found, *bytes + more + 1);
        memcpy((uint8_t *)*found + *bytes, metrics, more);
        *bytes += more, free(metrics);
        if (!forward_stream_pass(s, l, FORWARD_WHOLE, NULL, &e)) fail_msg("%s: %s", v->name, e.text);
    }
    forward_stream_free(s), forward_run_free(r), forward_model_free(m), model_close(&g);
}

/* ---- tests ---- */
TEST(metrics_are_of_finite_errors) {
    for (size_t i = 0; variant_at(i); i++) {
        double *one, *three;
        size_t bytes, same;
        name = variant_at(i)->name;
        seed_random(i);
        run_variant(variant_at(i), 1, false, true, &one, &bytes);
        run_variant(variant_at(i), 3, true, false, &three, &same);
        if (bytes != same || memcmp(one, three, bytes))
            fail_msg("%s: threads, or where rows are, change sums", name);
        free(one), free(three);
    }
    for (int kind = 0; kind < 3; kind++) assert_true(checked[kind] > 100);
}

int main(void) { return tests_run(folder_make, folder_remove); }
