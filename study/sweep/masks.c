/* The number of masked tokens of a text is drawn uniformly, as such models are trained and evaluated: the mean over
 * tokens, then over texts, of -log p is then the bound of the text's -log p that training lowers. Numbers of
 * successive texts are spread by the golden ratio, so that few windows have all shares among them, too. */
#include "study/sweep/sweep.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/random.h"

static uint64_t share_of(uint64_t number, uint64_t n) { return (uint64_t)((__uint128_t)number * n >> 64); }

/* Finds the token that masks. */
static bool masks_token(const model_source *m, size_t vocabulary, uint32_t *token, gq_error *e) {
    static const char KEY[] = "tokenizer.ggml.mask_token_id";
    int64_t id;
    const model_kv *kv = model_kv_find(m->kv, m->n_kv, KEY);
    if (!kv)
        return gq_fail(e,
                       "%s: has no key %s, the id of the mask token, which a diffusion language model needs: "
                       "convert the model again from its folder, with mask_token_id in config.json",
                       m->path, KEY);
    if (!model_kv_int(kv, &id) || id < 0 || (uint64_t)id >= vocabulary)
        return gq_fail(e, "%s: %s is not a token of the model, which has 0 to %zu", m->path, KEY,
                       vocabulary - 1);
    return *token = (uint32_t)id, true;
}

/* Without the key logits are those of the next token, as in llama.cpp. */
static bool masks_shift(const model_source *m, bool *shifts, gq_error *e) {
    static const char KEY[] = "diffusion.shift_logits";
    const model_kv *kv = model_kv_find(m->kv, m->n_kv, KEY);
    if (kv && kv->type != GGUF_BOOL)
        return gq_fail(e, "%s: key %s has type %s, expected bool: convert the model again", m->path, KEY,
                       gguf_value_name(kv->type));
    return *shifts = !kv || *(const uint8_t *)kv->value, true;
}

bool masks_check(const model_source *m, size_t vocabulary, gq_error *e) {
    uint32_t token;
    bool shifts = true;
    return !forward_fills_masks(m) || (masks_token(m, vocabulary, &token, e) && masks_shift(m, &shifts, e));
}

/* The weight of token t of the windows among those that may be masked; 0: it may not be. */
static uint32_t masks_weight(const text_windows *w, size_t t) {
    if (!w->marks) return t % w->context ? FORWARD_WEIGHT_ONE : 0;
    return w->marks[t].position && w->marks[t].position != FORWARD_BEHIND_TEXT ? w->marks[t].weight : 0;
}

/* The token behind the text that begins at t. */
static size_t masks_text_end(const text_windows *w, size_t t) {
    for (t++; t % w->context && !(w->marks && !w->marks[t].position);) t++;
    return t;
}

/* Masks the k-th text, which has the tokens from `begin` to `end`. */
static void masks_set_text(text_windows *w, size_t begin, size_t end, uint64_t k, uint32_t mask,
                           masks_share share) {
    size_t n = 0, left, wanted;
    uint64_t state = k;
    for (size_t t = begin; t < end; t++) n += masks_weight(w, t) > 0;
    if (!n) return;
    wanted = share == MASKS_ALL ? n : 1 + random_spread(k + 1, n);
    float each = (float)((double)n / (double)wanted / FORWARD_WEIGHT_ONE);
    left = n;
    for (size_t t = begin, missing = wanted; t < end; t++) {
        uint32_t weight = masks_weight(w, t);
        if (!weight || share_of(random_next(&state), left--) >= missing) continue;
        w->masked[t].weight = each * (float)weight, w->ids[t] = mask, missing--;
    }
}

bool masks_set(text_windows *w, const model_source *m, size_t vocabulary, masks_share share, gq_error *e) {
    size_t all = w->n * w->context;
    uint32_t mask = 0;
    bool shifts = true;
    if (!forward_fills_masks(m)) return true;
    if (!masks_token(m, vocabulary, &mask, e) || !masks_shift(m, &shifts, e)) return false;
    w->masked = calloc(all, sizeof *w->masked), w->in_place = !shifts;
    if (!w->masked) return gq_fail_memory(e, mul_sat(all, sizeof *w->masked));
    for (size_t t = 0; t < all; t++) w->masked[t].token = w->ids[t];
    for (size_t begin = 0, end, k = 0; begin < all; begin = end, k++) {
        end = masks_text_end(w, begin);
        masks_set_text(w, begin, end, k, mask, share);
    }
    return true;
}
