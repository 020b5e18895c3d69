#include "forward/graph/attention/attention.h"

#include <math.h>

#include "base/fail.h"
#include "forward/graph/residual/residual.h"

enum { FARTHEST = 128 };

void relative_read_keys(forward_model *m, key_reader *r, model_sublayer *p) {
    attention_numbers *n = p->numbers;
    /* Bounds of the number of buckets: two directions, each with a bucket for near distances and one for
     * others. */
    enum { LEAST = 4, MOST = 1 << 16 };
    const char *key = "attention.relative_buckets_count";
    if (!m->arch->graph.has[WEIGHT_ATTN_REL_B]) return;
    n->buckets = key_number_needed(r, key, LEAST, MOST);
    if (n->buckets / 2 >= FARTHEST)
        key_fail(r, key, "is %zu, expected less than %d", n->buckets, 2 * FARTHEST);
}

void relative_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const attention_numbers *n = p->sublayer->numbers;
    const attention_layer *l = p->numbers;
    coder_layer of = coder_layer_of(f->m, f->index);
    if (!n->buckets) return;
    if (of.kind == CODER_CROSS) { /* no program reads it */
        tensors_take(f, tensors_layer_name(f->m, f->index, WEIGHT_ATTN_REL_B, ".weight").text, UNUSED,
                     SHAPE(l->heads, n->buckets));
        return;
    }
    tensors_take_weight(f, WEIGHT_ATTN_REL_B, of.block ? OPTIONAL : REQUIRED, SHAPE(l->heads, n->buckets));
    size_t first = of.kind == CODER_DECODER ? f->m->encoders : 0;
    if (f->l->weight[WEIGHT_ATTN_REL_B]) return;
    const model_tensor *lent = f->m->layers[first].weight[WEIGHT_ATTN_REL_B];
    if (f->ok && lent && lent->ne[0] != l->heads)
        f->ok = gq_fail(f->e, "%s: layer %zu has %zu heads, and tensor %s, which it uses, has %llu",
                        f->m->path, f->index, l->heads, lent->name, (unsigned long long)lent->ne[0]);
    f->l->weight[WEIGHT_ATTN_REL_B] = lent;
}

/* The number of a distance from a query to a key, positive where the key is behind it. As llama.cpp rounds. */
static uint32_t bucket_of(int64_t distance, size_t buckets, bool both_ways) {
    size_t of_side = both_ways ? buckets / 2 : buckets, near = of_side / 2;
    uint32_t first = both_ways && distance > 0 ? (uint32_t)of_side : 0;
    int64_t far = both_ways && distance > 0 ? distance : distance < 0 ? -distance : 0;
    if ((uint64_t)far < near) return first + (uint32_t)far;
    float steps = logf((float)((double)far / (double)near)) * (float)(of_side - near);
    double at = (double)near + (double)steps / log((double)FARTHEST / (double)near);
    size_t bucket = (size_t)floorf((float)at);
    return first + (uint32_t)(bucket < of_side ? bucket : of_side - 1);
}

void relative_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    const attention_numbers *n = p->numbers;
    attention_scratch *own = batch_own(b, p);
    if (!n->buckets) return;
    own->reach = b->context;
    for (int both = 0; both < 2; both++) own->bucket[both] = scratch_take(s, 2, own->reach, sizeof(uint32_t));
}

void relative_prepare(forward_batch *b, const model_sublayer *p) {
    const attention_numbers *n = p->numbers;
    const attention_scratch *own = batch_own(b, p);
    for (int both = 0; n->buckets && both < 2; both++)
        for (size_t i = 0; i < 2 * own->reach; i++)
            own->bucket[both][i] = bucket_of((int64_t)i - (int64_t)own->reach, n->buckets, both);
}

void relative_add(forward_batch *b, const sublayer_spec *p, const attention_heads *h,
                  const attention_block *s) {
    const attention_layer *l = p->numbers;
    const attention_scratch *own = batch_own(b, p->sublayer);
    const float *bias = b->layer->values[WEIGHT_ATTN_REL_B];
    for (size_t j = 0; bias && j < s->keys; j++) {
        const uint32_t *bucket = own->bucket[l->both_ways] + own->reach + s->key + j - s->of.first;
        for (size_t i = 0; i < s->of.queries; i++)
            s->scores[j * QUERIES + i] += bias[*(bucket - i) * h->heads + s->head];
    }
}
