/* A token has rows of a table for n-grams of 2, 3, ... tokens that end with it. Their numbers come of a hash:
 *
 *     mixed = id_0 factor_0 ^ id_1 factor_1 ^ ... (id_0: the token's own, id_1: the one before it, ...)
 *     row   = first_head + mixed mod rows_head
 *
 * Before the first token, and from an id that ends texts on, there are only such ids. The rows side by side,
 * e, go through two matrices, ple_key and ple_value. Each stream takes in, by a gate of its own:
 *
 *     s     = norm(key e) . norm(stream) / sqrt(width)
 *     gated = value e sigmoid(sign(s) sqrt(max(|s|, 1e-6)))
 *     stream += gated + silu(convolution of norm(gated)), over tokens as far apart as n-grams are long
 */
#include "forward/graph/residual/residual.h"

#include <math.h>

/* ---- keys and tensors ---- */

void ngrams_read_keys(ngram_numbers *n, const forward_model *m, key_reader *r) {
    key_list layers = key_list_of(r, "ple.layers");
    if (!layers.kv) return;
    n->layer = key_number_at(r, &layers, 0, 0, 0, m->sizes.layers - 1);
    n->size = key_number_needed(r, "ple.ngram_size", 2, NGRAM_MOST);
    n->per_size = key_number_needed(r, "ple.heads_per_ngram", 1, NGRAM_MOST_HEADS);
    n->taps = key_number_needed(r, "ple.conv_kernel", 1, MODEL_MOST);
    n->end = key_number_needed(r, "ple.eos_token_id", 0, MODEL_MOST);
    n->head = key_number_needed(r, "embedding_length_per_layer_input", 1, MODEL_MOST);
    if (!r->ok) return;
    n->heads = (n->size - 1) * n->per_size;
    if (n->heads > NGRAM_MOST_HEADS || n->heads * n->head != m->sizes.width) {
        key_fail(r, "ple.heads_per_ngram", "is %zu, but %zu rows of %zu values are not the width, %zu",
                 n->per_size, n->heads, n->head, m->sizes.width);
        return;
    }
    key_list factors = key_list_needed(r, "ple.layer_multipliers"),
             first = key_list_needed(r, "ple.head_offsets"),
             rows = key_list_needed(r, "ple.head_vocab_sizes");
    for (size_t i = 0; i < n->size && r->ok; i++)
        n->factor[i] = key_number_at(r, &factors, i, 0, 0, UINT64_MAX);
    for (size_t i = 0; i < n->heads && r->ok; i++) {
        n->first[i] = key_number_at(r, &first, i, 0, 0, MODEL_MOST);
        n->rows[i] = key_number_at(r, &rows, i, 0, 1, MODEL_MOST);
    }
}

void ngrams_find_table(tensor_finder *f, ngram_numbers *n) {
    enum { MOST_IDS = 1 << 24 }; /* integers that a float has exactly */
    const char *name = "per_layer_token_embd.weight";
    const model_tensor *t = model_tensor_named(f->m->file, name);
    uint64_t rows = t ? tensor_rows(t) : 1;
    if (!n->heads) return;
    n->table = tensors_take(f, name, REQUIRED, SHAPE(n->head, rows));
    for (size_t i = 0; f->ok && n->table && i < n->heads; i++)
        if (n->first[i] + n->rows[i] > rows)
            f->ok = gq_fail(f->e, "%s: tensor %s has %llu rows, too few for ple.head_offsets", f->m->path,
                            name, (unsigned long long)rows);
    if (f->ok && f->m->sizes.vocabulary > MOST_IDS)
        f->ok = gq_fail(f->e, "%s: %zu tokens, expected at most %d with n-grams", f->m->path,
                        f->m->sizes.vocabulary, MOST_IDS);
}

void ngrams_find_tensors(tensor_finder *f, uint64_t streams) {
    static const weight_slot norms[] = {WEIGHT_PLE_NORM_KEY, WEIGHT_PLE_NORM_QUERY, WEIGHT_PLE_NORM_CONV};
    key_reader r = {.facts = model_expected_facts(f->m), .file = f->m->path, .e = f->e, .ok = true};
    uint64_t d = f->m->sizes.width, taps = key_number_needed(&r, "ple.conv_kernel", 1, MODEL_MOST);
    tensors_take_weight(f, WEIGHT_PLE_KEY, REQUIRED, SHAPE(d, streams * d));
    tensors_take_weight(f, WEIGHT_PLE_VALUE, REQUIRED, SHAPE(d, d));
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        tensors_take_weight(f, norms[i], REQUIRED, SHAPE(streams * d));
    tensors_take_weight(f, WEIGHT_PLE_KERNEL, REQUIRED, SHAPE(taps, streams * d));
}

bool ngrams_are_read(const ngram_numbers *n, size_t layer) { return n->heads && layer == n->layer; }

/* The table's rows side by side and their value; keys, queries, gated values and their norms, of all streams;
 * gates. */
uint64_t ngrams_count_rows(const ngram_numbers *n, const forward_model *m, size_t streams) {
    uint64_t d = m->sizes.width;
    return n->heads ? 2 * d + 3 * streams * d + streams : 0;
}

void ngrams_lay_out(const ngram_numbers *n, ngram_scratch *own, scratch *s) {
    if (!n->heads) return;
    own->raw = scratch_take(s, model_row_bytes(n->table), 1, 1);
    own->values = scratch_take(s, n->head, 1, sizeof(float));
}

/* ---- running ---- */

/* The ids of the n-gram that ends at position t of a window, the last one first. */
static void ngram_ids(const ngram_numbers *n, const float *ids, size_t t, uint64_t *to) {
    bool ended = false;
    to[0] = (uint64_t)ids[t];
    for (size_t i = 1; i < n->size; i++) {
        ended = ended || t < i || (uint64_t)ids[t - i] == n->end;
        to[i] = ended ? n->end : (uint64_t)ids[t - i];
    }
}

/* Puts a token's rows of the table into column `to`. */
static bool ngrams_read_token(forward_batch *b, const ngram_numbers *n, const ngram_scratch *own,
                              const uint64_t *ids, float *to) {
    for (size_t h = 0; h < n->heads; h++) {
        uint64_t mixed = 0;
        for (size_t i = 0; i < 2 + h / n->per_size; i++) mixed ^= ids[i] * n->factor[i];
        uint64_t row = n->first[h] + mixed % n->rows[h];
        if (!model_read_row(b->model, n->table, row, own->raw, own->values, b->e)) return false;
        for (size_t c = 0; c < n->head; c++) to[(h * n->head + c) * b->stride] = own->values[c];
    }
    return true;
}

typedef struct ngram_run {
    const forward_batch *b;
    const ngram_numbers *n;
    float *value, *key, *query, *gates, *residual; /* key: later the gated values; query: later their norms */
    size_t streams;
} ngram_run;

/* A stream's gates, of a span of tokens. */
static void ngram_gate_span(void *data, size_t i, int) {
    const ngram_run *r = data;
    size_t s = r->b->stride, d = r->b->model->sizes.width, spans = ceil_div(r->b->tokens, ELEMENT_SPAN);
    size_t first = i % spans * ELEMENT_SPAN, end = min(first + ELEMENT_SPAN, r->b->tokens),
           stream = i / spans;
    float *gates = r->gates + stream * s, root = 1 / sqrtf((float)d);
    for (size_t t = first; t < end; t++) {
        float sum = 0;
        for (size_t c = stream * d; c < (stream + 1) * d; c++) sum += r->key[c * s + t] * r->query[c * s + t];
        sum *= root;
        float size = sqrtf(fmaxf(fabsf(sum), 1e-6F));
        gates[t] = sum > 0 ? size : sum < 0 ? -size : 0;
    }
    r->b->model->elements->sigmoid(gates + first, end - first);
}

static void ngram_value_row(void *data, size_t r, int) {
    const ngram_run *of = data;
    size_t s = of->b->stride, d = of->b->model->sizes.width;
    for (size_t t = 0; t < of->b->tokens; t++)
        of->key[r * s + t] = of->value[r % d * s + t] * of->gates[r / d * s + t];
}

/* Adds a row of gated values and of their convolution to the residual stream. */
static void ngram_add_row(void *data, size_t r, int) {
    const ngram_run *of = data;
    const forward_batch *b = of->b;
    size_t s = b->stride, taps = of->n->taps, apart = of->n->size;
    const float *kernel = b->layer->values[WEIGHT_PLE_KERNEL] + r * taps, *norms = of->query + r * s;
    float *gated = of->key + r * s, *residual = of->residual + r * b->residual_stride;
    float sums[ELEMENT_SPAN];
    for (size_t t = 0; t < b->tokens; t += ELEMENT_SPAN) {
        size_t n = min(ELEMENT_SPAN, b->tokens - t);
        for (size_t i = 0; i < n; i++) {
            size_t at = t + i, position = at - batch_span_at(b, at / b->context, at % b->context).first;
            sums[i] = 0;
            for (size_t k = 0; k < taps; k++) {
                size_t back = (taps - 1 - k) * apart;
                if (back <= position) sums[i] += norms[at - back] * kernel[k];
            }
        }
        b->model->elements->activate(&(activation_rule){.act = ACT_SILU}, sums, n);
        for (size_t i = 0; i < n; i++) residual[t + i] += gated[t + i] + sums[i];
    }
}

bool ngrams_add(forward_batch *b, const ngram_numbers *n, const ngram_scratch *own, size_t streams,
                float *residual) {
    size_t s = b->stride, d = b->model->sizes.width, all = streams * d;
    float *e = b->work, *value = e + d * s, *key = value + d * s, *query = key + all * s,
          *gates = query + all * s + all * s;
    const float *ids = residual + all * b->residual_stride, *const *values = b->layer->values;
    ngram_run r = {b, n, value, key, query, gates, residual, streams};
    for (size_t t = 0; t < b->tokens; t++) {
        uint64_t gram[NGRAM_MOST] = {0};
        size_t begin = batch_span_at(b, t / b->context, t % b->context).first;
        ngram_ids(n, ids + begin, t - begin, gram);
        if (!ngrams_read_token(b, n, own, gram, e + t)) return false;
    }
    if (!batch_report_inputs(b, e, s, (weight_slot[]){WEIGHT_PLE_KEY, WEIGHT_PLE_VALUE, WEIGHT_SLOTS}))
        return false;
    batch_multiply(b, WEIGHT_PLE_KEY, 0, e, s, key, s, b->tokens);
    batch_multiply(b, WEIGHT_PLE_VALUE, 0, e, s, value, s, b->tokens);
    batch_norm_streams(b, key, s, values[WEIGHT_PLE_NORM_KEY], key, streams);
    batch_norm_streams(b, residual, b->residual_stride, values[WEIGHT_PLE_NORM_QUERY], query, streams);
    threads_for(b->pool, streams * ceil_div(b->tokens, ELEMENT_SPAN), 1, ngram_gate_span, &r);
    threads_for(b->pool, all, THREADS_EVEN, ngram_value_row, &r);
    batch_norm_streams(b, key, s, values[WEIGHT_PLE_NORM_CONV], query, streams);
    threads_for(b->pool, all, THREADS_EVEN, ngram_add_row, &r);
    return true;
}
