/* Compares the sizes of a projector's tensors with the words of arch/projector.h. Letters get their values from the
 * metadata or from the first tensor that has them; all others have to agree. A table says it for all kinds, since a
 * tensor of one name is of one size in terms of the others; a row has what differs.
 */
#include "hf/projector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LETTERS = 128, WORD_BYTES = 16, SIDE_MOST = 4096 };

/* The values of the letters. */
typedef struct shape_values {
    uint64_t value[LETTERS];        /* 0: not known yet */
    const hf_tensor *from[LETTERS]; /* the tensor that a letter's value is from; NULL: the config */
    uint64_t kv_heads;              /* of the vision encoder, by the config; 0: not known */
    uint64_t merged;                /* patches that are joined to one, 0: not known */
    bool has_class;                 /* there is a class embedding, which has a position as well */
} shape_values;

/* ---- one word ---- */

/* Returns what a letter stands for; 0: that is not known. Keys are as many as queries unless the config has another
 * number of heads for them, and heads are as wide as that number makes them. */
static uint64_t letter_value(shape_values *v, char letter) {
    bool is_audio = letter == 'h';
    uint64_t *x = &v->value[(unsigned char)letter], q = v->value[is_audio ? 'q' : 'Q'];
    uint64_t heads = v->value[is_audio ? 'n' : 'N'];
    if (*x || !q || !strchr("HKh", letter)) return *x;
    if (letter == 'K' && !(v->kv_heads && heads)) *x = q;
    if (letter == 'K' && !*x) *x = q / heads * v->kv_heads;
    if (letter != 'K' && heads) *x = q / heads;
    if (*x) v->from[(unsigned char)letter] = v->from[is_audio ? 'q' : 'Q'];
    return *x;
}

static bool is_square(uint64_t n) {
    uint64_t root = (uint64_t)(sqrt((double)n) + .5);
    return root * root == n;
}

static bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

/* Compares a dimension with a sum of products of letters: one of them that is not known yet gets what is left, several
 * fit. *expected: the sum, 0: it has no value. */
static bool sum_fits(shape_values *v, const char *word, uint64_t n, const hf_tensor *t, uint64_t *expected) {
    uint64_t sum = 0, factor_of_unknown = 0;
    char unknown = 0;
    for (*expected = 0; *word; word += *word == '+') {
        char *at, before = unknown;
        uint64_t product = strtoull(word, &at, 10);
        if (at == word && !is_letter(*at)) return false; /* no word of arch/projector.h: nothing fits */
        if (at == word) product = 1;
        for (; is_letter(*at); at++) {
            uint64_t known = letter_value(v, *at);
            if (!known && unknown) return true;
            if (!known) unknown = *at;
            if (known && __builtin_mul_overflow(product, known, &product)) return false;
        }
        word = at;
        if (unknown != before)
            factor_of_unknown = product;
        else if (__builtin_add_overflow(sum, product, &sum))
            return false;
    }
    *expected = unknown ? 0 : sum;
    if (!unknown) return sum == n;
    if (n <= sum || (n - sum) % factor_of_unknown) return false;
    v->value[(unsigned char)unknown] = (n - sum) / factor_of_unknown;
    v->from[(unsigned char)unknown] = t;
    return true;
}

static bool word_fits(shape_values *v, const char *word, uint64_t n, const hf_tensor *t, uint64_t *expected) {
    *expected = 0;
    if (*word == '?') return true;
    if (*word == '@') return is_square(n) || (v->has_class && is_square(n - 1));
    if (*word != '*' && *word != '^') return sum_fits(v, word, n, t, expected);
    if (!is_letter(word[1])) return false;
    uint64_t of = letter_value(v, word[1]);
    if (of == 0) return true;
    if (n % of == 0 && (*word == '*' || n == of || (v->merged ? n / of == v->merged : is_square(n / of))))
        return true;
    *expected = of;
    return false;
}

/* ---- a tensor ---- */

/* Compares all dimensions with the words up to a '|'. *dim: that does not fit. */
static bool words_fit(shape_values *v, const char *words, const hf_tensor *t, unsigned *dim,
                      uint64_t *expected) {
    const uint64_t *ne = t->tensor.ne;
    for (*dim = 0; *dim < GGUF_MAX_DIMS; ++*dim) {
        char word[WORD_BYTES];
        words += strspn(words, " ");
        size_t n = strcspn(words, " |");
        snprintf(word, sizeof word, "%.*s", (int)n, words);
        if (*word == '~') return true;
        words += n;
        bool ends = *word == 0 || strcmp(word, "+") == 0;
        if (ends) *expected = 1;
        if (ends ? ne[*dim] != 1 : !word_fits(v, word, ne[*dim], t, expected)) return false;
    }
    return true;
}

static bool shape_fail(const hf_build *b, const shape_values *v, const arch_tensor_size *s,
                       const hf_tensor *t, unsigned dim, uint64_t expected, gq_error *e) {
    char size[96] = "", why[GGUF_MAX_NAME + 96] = "";
    const uint64_t *ne = t->tensor.ne;
    for (unsigned i = 0, k = 0; i < max(1, t->tensor.n_dims) && k < sizeof size; i++)
        k += (unsigned)snprintf(size + k, sizeof size - k, "%s%llu", i ? " x " : "", LLU(ne[i]));
    char letter =
        !s->dims ? 0 : s->dims[strcspn(s->dims, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")];
    const hf_tensor *from = letter ? v->from[(unsigned char)letter] : NULL;
    if (expected && from)
        snprintf(why, sizeof why, ": %llu, by the size of %s", LLU(expected), from->tensor.name);
    else if (expected)
        snprintf(why, sizeof why, ": %llu", LLU(expected));
    return gq_fail(e,
                   "%s: tensor '%s' (%s): its shape is %s, and dimension %u is not what such a projector "
                   "has%s (%s): part of the model is damaged, or config.json is another model's",
                   b->list->folder->path, t->tensor.name, t->stored_name ? t->stored_name : "computed", size,
                   dim + 1, why, s->dims);
}

/* Checks that a tensor has one of the sizes, and a bias where it should. */
static bool shape_check(const hf_build *b, shape_values *v, const arch_tensor_size *s, const hf_tensor *t,
                        gq_error *e) {
    unsigned dim = 0;
    uint64_t expected = 0;
    bool fits = false;
    for (const char *words = s->dims; words && !fits; words = strchr(words, '|')) {
        shape_values tried = *v;
        words += *words == '|';
        fits = words_fit(&tried, words, t, &dim, &expected);
        if (fits) *v = tried;
    }
    if (!fits) return shape_fail(b, v, s, t, dim, expected, e);
    char bias[GGUF_MAX_NAME + 8];
    return !name_ends(s->dims, "+") ||
           !name_with_end(bias, sizeof bias, t->tensor.name, ".weight", ".bias") || hf_build_find(b, bias) ||
           gq_fail(e, "%s: tensor '%s' (%s): there is no %s beside it: download the whole model",
                   b->list->folder->path, t->tensor.name, t->stored_name ? t->stored_name : "computed", bias);
}

/* Whether a name is that of a shape: with numbers for its signs, and .weight or nothing behind. */
static bool shape_is_of(const char *of, const char *name) {
    for (; *of; of++) {
        if (*of != '#') {
            if (*of != *name++) return false;
            continue;
        }
        size_t digits = strspn(name, "0123456789");
        if (digits == 0) return false;
        name += digits;
    }
    return *name == 0 || strcmp(name, ".weight") == 0;
}

static const arch_tensor_size *shape_find(const arch_tensor_size *s, const char *name) {
    while (s && s->tensor && !shape_is_of(s->tensor, name)) s++;
    return s && s->tensor ? s : NULL;
}

/* ---- all ---- */

static bool shapes_check_list(const hf_build *b, shape_values *v, const arch_tensor_size *list,
                              const arch_tensor_size *before, gq_error *e) {
    for (const arch_tensor_size *s = list; s && s->tensor; s++)
        for (size_t i = 0; i < b->n; i++) {
            const hf_tensor *t = &b->tensors[i];
            if (t->stored_name && shape_is_of(s->tensor, t->tensor.name) &&
                !shape_find(before, t->tensor.name) && !shape_check(b, v, s, t, e))
                return false;
        }
    return true;
}

/* Sizes and counts of a tower: one of 0 would make others unknown. */
static const char *const counts[] = {"hidden_size",
                                     "d_model",
                                     "embed_dim",
                                     "width",
                                     "vt_hidden_size",
                                     "intermediate_size",
                                     "encoder_ffn_dim",
                                     "vt_intermediate_size",
                                     "num_attention_heads",
                                     "num_heads",
                                     "heads",
                                     "n_heads",
                                     "vt_num_attention_heads",
                                     "encoder_attention_heads",
                                     "num_key_value_heads",
                                     "num_hidden_layers",
                                     "num_layers",
                                     "n_layers",
                                     "depth",
                                     "layers",
                                     "encoder_layers",
                                     "vt_num_hidden_layers",
                                     "patch_size",
                                     "num_mel_bins",
                                     "spatial_merge_size",
                                     "temporal_patch_size",
                                     "head_dim"};

/* Fails for a size of the config that is 0 or below. */
static bool counts_check(const hf_config *c, const char *part, const char *named, gq_error *e) {
    for (size_t i = 0; named && i < sizeof counts / sizeof *counts; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s.%s", part, counts[i]);
        const json_t *v = hf_config_get(c, key);
        if (json_is_number(v) && !(json_number_value(v) > 0))
            return hf_config_fail(c, e, "%s.%s is %g, expected 1 or more", named, counts[i],
                                  json_number_value(v));
    }
    return true;
}

/* The heads of a tower have a width each. */
static bool heads_check(const hf_build *b, const shape_values *v, char queries, char heads, gq_error *e) {
    uint64_t q = v->value[(unsigned char)queries], n = v->value[(unsigned char)heads];
    return !q || !n || q % n == 0 ||
           hf_config_fail(b->config, e, "%llu heads, but the queries have %llu rows, in %s", LLU(n), LLU(q),
                          v->from[(unsigned char)queries] ? v->from[(unsigned char)queries]->tensor.name
                                                          : "the projector");
}

bool hf_projector_check_counts(const hf_config *c, const arch_projector *row, gq_error *e) {
    return counts_check(c, "vision", row->vision, e) && counts_check(c, "audio", row->audio, e);
}

bool hf_projector_check_shapes(const hf_build *b, const arch_projector *row, const hf_metadata *p,
                               gq_error *e) {
    bool has_vision = !row->counted || strstr(row->counted, "v.blk."),
         is_audio = !row->counted || strstr(row->counted, "a.blk.");
    shape_values v = {.kv_heads = 0};
    uint32_t kv_heads, positions;
    if (!hf_config_u32_or(b->config, "vision.num_key_value_heads", 0, &kv_heads, e) ||
        !hf_config_u32_or(b->config, "audio.max_source_positions", 0, &positions, e))
        return false;
    v.kv_heads = kv_heads, v.value['s'] = positions;
    if (has_vision) v.value['D'] = hf_metadata_number(p, ".vision.embedding_length");
    if (is_audio) v.value['d'] = hf_metadata_number(p, ".audio.embedding_length");
    v.value['T'] = hf_metadata_number(p, ".vision.projection_dim"), v.value['N'] = b->sizes.heads;
    v.value['t'] = hf_metadata_number(p, ".audio.projection_dim");
    v.value['n'] = is_audio ? hf_metadata_number(p, ".audio.attention.head_count") : 0;
    v.value['y'] = v.value['d'] * hf_metadata_number(p, ".audio.projector.stack_factor");
    uint32_t rate = hf_metadata_number(p, ".audio.projector.downsample_rate");
    if (rate) v.value['V'] = hf_metadata_number(p, ".audio.projector.window_size") / rate;
    uint64_t side = hf_metadata_number(p, ".vision.spatial_merge_size");
    v.merged = side < SIDE_MOST ? side * side : 0;
    v.has_class = hf_build_find(b, "v.class_embd");
    for (const arch_letter *l = row->letters; l && l->names; l++) {
        uint32_t n;
        if (!hf_config_u32_or(b->config, l->names, 0, &n, e)) return false;
        if (n % l->divisor == 0) v.value[(unsigned char)l->letter] = n / l->divisor;
    }
    return shapes_check_list(b, &v, arch_projector_shapes, row->shapes, e) &&
           shapes_check_list(b, &v, row->shapes, NULL, e) && heads_check(b, &v, 'Q', 'N', e) &&
           heads_check(b, &v, 'q', 'n', e);
}
