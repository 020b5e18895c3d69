/* Tensors that no source tensor has are computed when all others are there (ARCH_FINISHES, arch/folder.h):
 * factors of the rotation, and vectors that are products of two. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf/tensors/tensors.h"

static float *numbers_new(uint64_t n, gq_error *e) {
    float *x = malloc((n ? n : 1) * sizeof *x);
    if (!x) gq_fail_memory(e, n * sizeof *x);
    return x;
}

/* A factor for each pair of elements of a head. The bound keeps the config from naming more than any model
 * has, as no source tensor has this size. */
static float *rope_numbers_new(const hf_build *b, uint64_t head_width, gq_error *e) {
    enum { HEAD_MOST = 1 << 16 };
    if (head_width >= 2 && head_width <= HEAD_MOST) return numbers_new(head_width / 2, e);
    hf_config_fail(b->config, e, "head_dim is %llu, expected 2 to %d", LLU(head_width), HEAD_MOST);
    return NULL;
}

static uint64_t even_head(const hf_build *b) { return b->sizes.heads ? b->sizes.width / b->sizes.heads : 0; }

static bool rope_text_is(const json_t *rope, const char *name) {
    const char *type = json_string_value(json_object_get(rope, "rope_type"));
    return type && strcasecmp(type, name) == 0;
}

static bool rope_number(const hf_build *b, const json_t *rope, const char *key, double missing, float *value,
                        gq_error *e) {
    const json_t *v = json_object_get(rope, key);
    double x = missing;
    if (v && !json_is_null(v) && !hf_value_float(b->config, v, key, &x, e)) return false;
    *value = (float)x;
    return true;
}

/* llama 3's factors: 1 where a wave is short, `factor` where it is long, and between them a mean by its
 * length. */
typedef struct llama3_rope {
    float base, factor, low, high, context;
} llama3_rope;

static float llama3_factor(const llama3_rope *r, uint64_t j, uint64_t dim) {
    const float two_pi = 6.28318530717958647692f;
    float e = (float)(2 * j) / (float)dim, freq = 1.0f / powf(r->base, e), wave = 1.0f / freq * two_pi;
    if (wave < r->context / r->high) return 1;
    if (wave > r->context / r->low) return r->factor;
    float s = (1.0f / wave * r->context - r->low) / (r->high - r->low);
    return 1.0f / ((1.0f - s) / r->factor + s);
}

/* Layers of full attention may rotate a part of each head; the rest has the factor 1. */
static bool rope_rotated(const hf_build *b, uint64_t n, uint64_t *rotated, gq_error *e) {
    double part = 1;
    const json_t *parts = hf_config_get(b->config, "partial_rotary_factors"),
                 *kinds = hf_config_get(b->config, "layer_types");
    *rotated = n;
    for (size_t i = 0; i < json_array_size(kinds); i++) {
        if (!hf_json_is(json_array_get(kinds, i), "full_attention")) continue;
        if (!hf_value_float(b->config, json_array_get(parts, i), "partial_rotary_factors", &part, e))
            return false;
        break;
    }
    if (part > 0 && part <= 1) *rotated = (uint64_t)((double)n * part);
    return true;
}

/* factor: in place of a missing one. */
static bool finish_rope(hf_build *b, uint64_t dim, double factor, bool is_partial, gq_error *e) {
    const json_t *rope = hf_config_rope_full(b->config), *theta = json_object_get(rope, "rope_theta");
    llama3_rope r = {.base = 10000};
    double base = 10000;
    uint64_t rotated = dim;
    if (!rope_text_is(rope, "llama3")) return true;
    if (json_is_array(theta)) theta = json_array_get(theta, 0);
    if ((theta && !hf_value_float(b->config, theta, "rope_theta", &base, e)) ||
        !rope_number(b, rope, "factor", factor, &r.factor, e) ||
        !rope_number(b, rope, "low_freq_factor", 1, &r.low, e) ||
        !rope_number(b, rope, "high_freq_factor", 4, &r.high, e) ||
        !rope_number(b, rope, "original_max_position_embeddings", 8192, &r.context, e) ||
        (is_partial && !rope_rotated(b, dim, &rotated, e)))
        return false;
    r.base = (float)base;
    if (!(r.base > 0 && r.factor > 0 && r.low > 0 && r.high > 0 && r.context > 0))
        return hf_config_fail(
            b->config, e,
            "llama 3's RoPE has rope_theta %g, factor %g, low_freq_factor %g, high_freq_factor %g, "
            "original_max_position_embeddings %g: expected more than 0",
            base, (double)r.factor, (double)r.low, (double)r.high, (double)r.context);
    float *x = rope_numbers_new(b, dim, e);
    for (uint64_t j = 0; x && j < dim / 2; j++) x[j] = j < rotated / 2 ? llama3_factor(&r, j, rotated) : 1;
    return hf_build_numbers(b, "rope_freqs.weight", x, dim / 2, e);
}

bool hf_finish_rope(hf_build *b, gq_error *e) { return finish_rope(b, b->sizes.head_width, 8, false, e); }

bool hf_finish_rope_16(hf_build *b, gq_error *e) { return finish_rope(b, b->sizes.head_width, 16, false, e); }

bool hf_finish_rope_even(hf_build *b, gq_error *e) { return finish_rope(b, even_head(b), 8, false, e); }

bool hf_finish_rope_partial(hf_build *b, gq_error *e) {
    return finish_rope(b, b->sizes.head_width, 8, true, e);
}

static bool finish_list(hf_build *b, const char *key, const char *name, uint64_t n, gq_error *e) {
    const json_t *list = json_object_get(b->config->rope, key);
    if (!list || json_is_null(list)) return true;
    if (json_array_size(list) != n)
        return hf_config_fail(b->config, e, "%s has %zu entries, expected %llu", key, json_array_size(list),
                              LLU(n));
    float *x = numbers_new(n, e);
    bool ok = x != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        double value;
        ok = hf_value_float(b->config, json_array_get(list, i), key, &value, e);
        if (ok) x[i] = (float)value;
    }
    if (ok) return hf_build_numbers(b, name, x, n, e);
    free(x);
    return false;
}

static bool finish_factors(hf_build *b, uint64_t dims, gq_error *e) {
    return finish_list(b, "long_factor", "rope_factors_long.weight", dims / 2, e) &&
           finish_list(b, "short_factor", "rope_factors_short.weight", dims / 2, e);
}

bool hf_finish_factors_whole(hf_build *b, gq_error *e) { return finish_factors(b, even_head(b), e); }

bool hf_finish_factors_latent(hf_build *b, gq_error *e) {
    uint32_t dims;
    return hf_config_u32(b->config, "qk_rope_head_dim", &dims, e) && finish_factors(b, dims, e);
}

bool hf_finish_factors(hf_build *b, gq_error *e) {
    uint64_t dims = even_head(b);
    double rotated;
    if (!hf_config_float_or(b->config, "partial_rotary_factor", 1, &rotated, e)) return false;
    if (rotated >= 0 && rotated <= 1 && b->sizes.heads)
        dims = (uint64_t)(rotated * b->sizes.width) / b->sizes.heads;
    return finish_factors(b, dims, e);
}

static bool finish_proportional(hf_build *b, double part, gq_error *e) {
    uint32_t width;
    if (!hf_config_u32(b->config, "global_head_dim|head_dim", &width, e)) return false;
    if (!(part >= 0 && part <= 1))
        return hf_config_fail(b->config, e, "partial_rotary_factor is %g, expected 0 to 1", part);
    float *x = rope_numbers_new(b, width, e);
    for (uint32_t j = 0; x && j < width / 2; j++) x[j] = j < (uint32_t)(width * part / 2) ? 1.0f : 1e30f;
    return hf_build_numbers(b, "rope_freqs.weight", x, width / 2, e);
}

bool hf_finish_proportional(hf_build *b, gq_error *e) {
    double part = 1;
    const json_t *full = hf_config_rope_full(b->config);
    if (!rope_text_is(full, "proportional"))
        return hf_config_fail(b->config, e,
                              "rope_parameters.full_attention.rope_type: expected \"proportional\"");
    return hf_value_float(b->config, json_object_get(full, "partial_rotary_factor"), "partial_rotary_factor",
                          &part, e) &&
           finish_proportional(b, part, e);
}

bool hf_finish_draft_gemma4(hf_build *b, gq_error *e) {
    const json_t *full = hf_config_rope_full(b->config);
    float part;
    if (rope_text_is(full, "default")) return true;
    if (json_object_get(full, "rope_type") && !rope_text_is(full, "proportional"))
        return hf_config_fail(b->config, e, "rope_type: expected \"default\" or \"proportional\"");
    return rope_number(b, full, "partial_rotary_factor", 0.25, &part, e) && finish_proportional(b, part, e);
}

/* One vector of a norm's weights and a projection to one number. */
static bool finish_product(hf_build *b, const char *from, const char *to, gq_error *e) {
    char norm[128], weight[128];
    snprintf(norm, sizeof norm, "%s_norm.weight", from),
        snprintf(weight, sizeof weight, "%s_proj.weight", from);
    const hf_source *x, *y;
    if (!hf_build_source(b, norm, &x, e) || !hf_build_source(b, weight, &y, e)) return false;
    if (!x && !y) return true;
    uint64_t n = b->sizes.width;
    if (!x || !y || x->rows * x->columns != n || y->rows * y->columns != n)
        return hf_config_fail(b->config, e, "%s and %s: expected two vectors of %llu", norm, weight, LLU(n));
    float *product = numbers_new(n, e), *other = numbers_new(n, e);
    const tensor_type *f32 = tensor_type_of(GGUF_F32);
    bool ok = product && other && hf_changed_read(x, 0, x->rows, 0, x->columns, f32, product, e) &&
              hf_changed_read(y, 0, y->rows, 0, y->columns, f32, other, e);
    for (uint64_t i = 0; ok && i < n; i++) product[i] *= other[i];
    free(other);
    if (ok) return hf_build_numbers(b, to, product, n, e);
    free(product);
    return false;
}

bool hf_finish_residuals(hf_build *b, gq_error *e) {
    for (uint64_t i = 0; i < b->config->layers; i++) {
        static const char *const pairs[2][2] = {{"self_attention_res", "attn_res_score"},
                                                {"mlp_res", "ffn_res_score"}};
        for (int k = 0; k < 2; k++) {
            char from[64], to[64];
            snprintf(from, sizeof from, "layers.%llu.%s", LLU(i), pairs[k][0]);
            snprintf(to, sizeof to, "blk.%llu.%s.weight", LLU(i), pairs[k][1]);
            if (!finish_product(b, from, to, e)) return false;
        }
    }
    return finish_product(b, "output_attn_res", "output_res_score.weight", e);
}

/* Queries and keys have norms without weights; queries are scaled behind theirs. */
bool hf_finish_query_scale(hf_build *b, gq_error *e) {
    double scale;
    if (!hf_config_float(b->config, "qk_scale_factor", &scale, e)) return false;
    for (uint64_t i = 0; i < 2 * b->config->layers; i++) {
        char name[64];
        float *x = rope_numbers_new(b, b->sizes.head_width, e),
              *whole = x ? realloc(x, b->sizes.head_width * sizeof *x) : NULL;
        if (!whole) return free(x), gq_fail_memory(e, 0);
        for (uint32_t k = 0; k < b->sizes.head_width; k++) whole[k] = i % 2 ? 1 : (float)scale;
        snprintf(name, sizeof name, "blk.%llu.attn_%c_norm.weight", LLU(i) / 2, i % 2 ? 'k' : 'q');
        if (!hf_build_numbers(b, name, whole, b->sizes.head_width, e)) return false;
    }
    return true;
}

/* Whisper's table of positions, which models of this kind compute: 1500 rows of sines, then cosines. */
bool hf_finish_sinusoids(hf_build *b, gq_error *e) {
    enum { POSITIONS = 1500, WIDTH_MOST = 1 << 16 };
    uint32_t width;
    if (!hf_config_u32(b->config, "audio.d_model|audio.hidden_size", &width, e)) return false;
    if (width < 4 || width > WIDTH_MOST || width % 2)
        return hf_config_fail(b->config, e, "d_model is %u, expected an even number from 4 to %d", width,
                              WIDTH_MOST);
    float *x = numbers_new((uint64_t)POSITIONS * width, e);
    uint32_t half = width / 2;
    float rate = (float)(-log(10000.0) / (half - 1));
    for (uint32_t t = 0; x && t < POSITIONS; t++)
        for (uint32_t k = 0; k < half; k++) {
            float angle = (float)t * expf(rate * (float)k);
            x[(uint64_t)t * width + k] = sinf(angle), x[(uint64_t)t * width + half + k] = cosf(angle);
        }
    return hf_build_numbers_shaped(b, "a.position_embd.weight", x, (uint64_t)POSITIONS * width, 2,
                                   (uint64_t[]){width, POSITIONS}, e);
}

/* A config that counts kinds of tokens has a row for each; readers of the file run the model without one, too. */
bool hf_finish_kinds(hf_build *b, gq_error *e) {
    for (size_t i = 0; i < b->n; i++)
        if (strcmp(b->tensors[i].tensor.name, "token_types.weight") == 0) return true;
    return !hf_config_get(b->config, "type_vocab_size") ||
           hf_folder_warn(b->list->folder, "", e,
                          "missing tensor token_types.weight, though type_vocab_size is set: embeddings will "
                          "differ; download the whole model");
}

bool hf_finish_judge(hf_build *b, gq_error *e) {
    const hf_source *pooler;
    return hf_finish_kinds(b, e) && hf_build_source(b, "pooler.dense.weight", &pooler, e) &&
           (!pooler || hf_folder_warn(b->list->folder, "", e,
                                      "'%s', the classifier's pooler, is left out, as GGUFs cannot have it: "
                                      "the classifier's outputs will differ from the model's",
                                      pooler->name));
}

bool hf_finish_tasks(hf_build *b, gq_error *e) {
    size_t n = json_array_size(hf_config_get(b->config, "lora_adaptations"));
    return hf_finish_kinds(b, e) &&
           (!n ||
            hf_folder_warn(b->list->folder, "", e,
                           "the LoRA matrices of %zu tasks (lora_adaptations) are left out: llama.cpp's "
                           "converter makes an adapter of each, to be loaded with this GGUF",
                           n));
}

bool hf_build_finish(hf_build *b, gq_error *e) {
#define FINISH(member, function) [member] = (function),
    static hf_finish *const finishes[ARCH_FINISH_LIMIT] = {ARCH_FINISHES(FINISH)};
#undef FINISH
    arch_finish finish = b->config->class_row->finish ? b->config->class_row->finish : b->arch->finish;
    return !finish || finishes[finish](b, e);
}
