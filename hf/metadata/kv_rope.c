/* Pairs of the rotation of queries and keys: its base, how it is stretched for longer contexts, and what a
 * few architectures say of it in a way of their own. All look at the parameters that hf_config_read has
 * brought into one form. */
#include "hf/metadata/metadata.h"

#include <math.h>

static bool rope_is(const json_t *rope, const char *kind) {
    return hf_json_is(json_object_get(rope, "rope_type"), kind);
}

/* ---- any architecture ---- */

static bool rope_set_stretch(const hf_config *c, hf_metadata *p, gq_error *e) {
    static const arch_item linear[] = {ITEM_NAMES(".rope.scaling.type", KV_TEXT, "linear"),
                                       FLOAT(".rope.scaling.factor", "full.factor"), END};
    static const arch_item yarn[] = {
        ITEM_NAMES(".rope.scaling.type", KV_TEXT, "yarn"),
        FLOAT(".rope.scaling.factor", "full.factor"),
        U32(".rope.scaling.original_context_length", "full.original_max_position_embeddings"),
        FLOAT_IF(".rope.scaling.yarn_ext_factor", "full.extrapolation_factor"),
        FLOAT_IF(".rope.scaling.yarn_attn_factor", "full.attention_factor|full.attn_factor"),
        FLOAT_IF(".rope.scaling.yarn_beta_fast", "full.beta_fast"),
        FLOAT_IF(".rope.scaling.yarn_beta_slow", "full.beta_slow"),
        END};
    const json_t *rope = hf_config_rope_full(c);
    bool factor = arch_value(c, "full.factor") != NULL;
    if (rope_is(rope, "su") || rope_is(rope, "longrope"))
        return hf_metadata_text(p, ".rope.scaling.type", "longrope", e);
    if (factor && rope_is(rope, "linear")) return arch_plain_set(linear, c, p, e);
    return !factor || !rope_is(rope, "yarn") || arch_plain_set(yarn, c, p, e);
}

/* The parts of a head that are rotated with time, height and width of an image; readers expect four. */
static bool rope_set_sections(const hf_config *c, hf_metadata *p, const json_t *list, gq_error *e) {
    enum { SECTIONS = 4 };
    if (!json_is_array(list) || json_array_size(list) > SECTIONS)
        return hf_config_fail(c, e, "mrope_section: expected an array of at most %d integers", SECTIONS);
    for (size_t s = 0; s < SECTIONS; s++) {
        uint32_t value = 0;
        if (s < json_array_size(list) &&
            !hf_value_u32(c, json_array_get(list, s), "mrope_section", &value, e))
            return false;
        if (value > INT32_MAX) return hf_config_fail(c, e, "mrope_section: %u is too large", value);
        if (!hf_metadata_add_i32(p, (int32_t)value, e)) return false;
    }
    return hf_metadata_array(p, ".rope.dimension_sections", GGUF_INT32, e);
}

KV_MAKE(kv_rope) {
    const json_t *base = arch_value(c, "full.rope_theta");
    const json_t *local = json_object_get(json_object_get(c->rope, "sliding_attention"), "rope_theta");
    double theta;
    if (!rope_set_stretch(c, p, e)) return false;
    /* Step-3.5 has a base for each layer: see rope_step. */
    if (base && !json_is_array(base) &&
        (!hf_value_float(c, base, "rope_theta", &theta, e) ||
         !hf_metadata_f32(p, ".rope.freq_base", (float)theta, e)))
        return false;
    if (local && !json_is_null(local) &&
        (!hf_value_float(c, local, "sliding_attention.rope_theta", &theta, e) ||
         !hf_metadata_f32(p, ".rope.freq_base_swa", (float)theta, e)))
        return false;
    const json_t *sections = arch_value(c, "rope.mrope_section");
    return !sections || rope_set_sections(c, p, sections, e);
}

KV_MAKE(rope_section_list) { return rope_set_sections(c, p, arch_value(c, i->names), e); }

/* ---- a few architectures ---- */

KV_MAKE(rope_mistral) {
    static const arch_item rows[] = {FLOAT(".rope.scaling.yarn_log_multiplier", "rope.mscale_all_dim"),
                                     FLOAT(".attention.temperature_scale", "rope.llama_4_scaling_beta"), END};
    const char *type = hf_config_text(c, "model_type");
    if (!type || strcmp(type, "ministral3") != 0) return true;
    return rope_is(c->rope, "yarn") ? arch_plain_set(rows, c, p, e)
                                    : hf_config_fail(c, e, "rope_type: expected yarn for %s", type);
}

/* The factor that attention's scores get where the context is stretched, from the two lengths. */
KV_MAKE(rope_phi) {
    uint32_t length, original;
    const json_t *rope = hf_config_rope_full(c);
    if (!arch_value(c, "full.long_factor") && !arch_value(c, "full.short_factor")) return true;
    if (!hf_value_u32(c, arch_value(c, NAMES_CONTEXT), "max_position_embeddings", &length, e) ||
        !hf_value_u32(c, arch_value(c, "rope.original_max_position_embeddings"),
                      "original_max_position_embeddings", &original, e))
        return false;
    if (original < 2)
        return hf_config_fail(c, e, "original_max_position_embeddings is %u, expected at least 2", original);
    double stretch = (double)length / original, factor = 1;
    if (rope_is(rope, "su") || rope_is(rope, "longrope")) {
        if (stretch > 1) factor = sqrt(1 + log(stretch) / log(original));
    } else if (rope_is(rope, "yarn")) {
        if (stretch > 1) factor = 0.1 * log(stretch) + 1;
    } else {
        return hf_config_fail(c, e, "rope_type: expected su, longrope or yarn beside long_factor");
    }
    return hf_metadata_f32(p, i->key, (float)factor, e);
}

/* Sets the metadata of a model that runs with a larger base instead of one that changes with the length. */
static bool rope_set_hunyuan(const hf_config *c, hf_metadata *p, double alpha, double dims, bool dynamic,
                             gq_error *e) {
    enum { TRAINED = 32 << 10, STRETCHED = 256 << 10 };
    double theta = 10000;
    uint32_t length = 0;
    const json_t *given = arch_value(c, "rope.rope_theta");
    if (given && !hf_value_float(c, given, "rope_theta", &theta, e)) return false;
    if (!hf_config_u32_or(c, "max_position_embeddings", 0, &length, e)) return false;
    if (dynamic && (theta != 10000 || (length != TRAINED && length != STRETCHED)))
        return hf_config_fail(c, e,
                              "rope_type dynamic with rope_theta %g and max_position_embeddings %u, expected "
                              "10000, and %d or %d",
                              theta, length, TRAINED, STRETCHED);
    double base = theta * pow(alpha, dims / (dims - 2));
    if (!(dims > 2) || !(base > 0) || !isfinite((float)base))
        return hf_config_fail(c, e, "rope alpha %g with heads of %g gives no finite base", alpha, dims);
    return hf_metadata_f32(p, ".rope.freq_base", (float)base, e) &&
           hf_metadata_text(p, ".rope.scaling.type", "none", e) &&
           hf_metadata_f32(p, ".rope.scaling.factor", 1, e) &&
           (!dynamic || (hf_metadata_u32(p, ".rope.scaling.original_context_length", STRETCHED, e) &&
                         hf_metadata_u32(p, ".context_length", STRETCHED, e)));
}

KV_MAKE(rope_hunyuan) {
    static const arch_item given = {.names = "rope.alpha", .need = OR, .value = 50};
    bool dynamic = rope_is(c->rope, "dynamic"), missing;
    double alpha;
    hf_sizes s;
    if (!dynamic && !rope_is(c->rope, "xdrope")) return true;
    return hf_config_sizes(c, &s, e) && arch_float(&given, c, given.names, &alpha, &missing, e) &&
           rope_set_hunyuan(c, p, alpha, s.head_width, dynamic, e);
}

KV_MAKE(rope_hunyuan_experts) {
    enum { ALPHA = 1000, HEAD = 128 };
    static const arch_item given = {.names = "rope.alpha", .need = OR, .value = ALPHA};
    bool missing;
    double alpha;
    hf_sizes s;
    if (!rope_is(c->rope, "dynamic")) return true;
    if (!hf_config_sizes(c, &s, e) || !arch_float(&given, c, given.names, &alpha, &missing, e)) return false;
    if (alpha != ALPHA || s.heads == 0 || s.width / s.heads != HEAD)
        return hf_config_fail(c, e, "rope alpha %g, %u heads of a width of %u: expected %d and heads of %d",
                              alpha, s.heads, s.width, ALPHA, HEAD);
    return rope_set_hunyuan(c, p, alpha, HEAD, true, e);
}

KV_MAKE(rope_nemotron) {
    static const arch_item factor[] = {FLOAT_IF(".rope.scaling.factor", "factor|rope.factor"), END};
    return arch_plain_set(factor, c, p, e) &&
           hf_metadata_text(p, ".rope.scaling.type",
                            hf_metadata_find(p, ".rope.scaling.factor") ? "linear" : "none", e);
}

KV_MAKE(rope_qwen35) {
    static const int32_t sections[] = {11, 11, 10, 0};
    (void)c;
    if (hf_metadata_find(p, ".rope.dimension_sections")) return true;
    for (size_t s = 0; s < sizeof sections / sizeof *sections; s++)
        if (!hf_metadata_add_i32(p, sections[s], e)) return false;
    return hf_metadata_array(p, ".rope.dimension_sections", GGUF_INT32, e);
}

/* The base is 10000 where the file has none, so that one is not written; llama.cpp's converter writes none.
 */
KV_MAKE(rope_gptneox) {
    const json_t *v = arch_value(c, "rope.rope_theta");
    double theta;
    if (!v) return true;
    return hf_value_float(c, v, "rotary_emb_base", &theta, e) &&
           (theta == 10000 || hf_metadata_f32(p, i->key, (float)theta, e));
}

KV_MAKE(rope_deepseek) {
    const json_t *v = arch_value(c, "rope.mscale_all_dim");
    double factor;
    if (!v) return true;
    return hf_value_float(c, v, "mscale_all_dim", &factor, e) &&
           hf_metadata_f32(p, i->key, (float)(0.1 * factor), e);
}

/* A list of bases, one for each layer: the first layer has full attention, the second a window. */
KV_MAKE(rope_step) {
    static const char *const keys[] = {".rope.freq_base", ".rope.freq_base_swa"};
    const json_t *list = arch_value(c, "full.rope_theta");
    double theta;
    for (size_t k = 0; json_is_array(list) && k < 2; k++)
        if (!hf_value_float(c, json_array_get(list, k), "rope_theta: each of its first two entries", &theta,
                            e) ||
            !hf_metadata_f32(p, keys[k], (float)theta, e))
            return false;
    return true;
}

KV_MAKE(rope_ratio) {
    double ratio;
    return hf_config_float_or(c, i->names, 1, &ratio, e) &&
           hf_metadata_f32(p, i->key, (float)(10000 * ratio), e);
}

/* hunyuan_vl: heads are rotated by time, height and width, and the model runs with a larger base. The file has the
 * base as it was trained, and what makes it larger. */
KV_MAKE(rope_xd) {
    static const arch_item rows[] = {FLOAT(".rope.freq_base", "rope.rope_theta"),
                                     FLOAT(".rope.scaling.alpha", "rope.alpha"),
                                     ITEM_NAMES(".rope.scaling.type", KV_TEXT, "none"),
                                     FLOAT_OR(".rope.scaling.factor", "rope.factor", 1),
                                     U32(".rope.scaling.original_context_length", "max_position_embeddings"),
                                     U32(".context_length", "max_position_embeddings"),
                                     END};
    const json_t *sections = arch_value(c, "rope.xdrope_section|rope.mrope_section");
    bool rotates =
        rope_is(c->rope, "xdrope") || (rope_is(c->rope, "dynamic") && arch_value(c, "rope.mrope_section"));
    if (!rotates) return rope_hunyuan(i, c, p, e);
    if (!arch_plain_set(rows, c, p, e)) return false;
    return rope_set_sections(c, p, sections, e);
}

/* The stretch stands in the config's root. */
KV_MAKE(rope_grok) {
    static const arch_item yarn[] = {
        ITEM_NAMES(".rope.scaling.type", KV_TEXT, "yarn"),
        FLOAT(".rope.scaling.factor", "scaling_factor"),
        U32(".rope.scaling.original_context_length", "original_max_position_embeddings"),
        FLOAT(".rope.scaling.yarn_ext_factor", "extrapolation_factor"),
        FLOAT(".rope.scaling.yarn_attn_factor", "attn_factor"),
        FLOAT(".rope.scaling.yarn_beta_fast", "beta_fast"),
        FLOAT(".rope.scaling.yarn_beta_slow", "beta_slow"),
        END};
    const char *type = hf_config_text(c, "rope_type");
    return !type || (strcmp(type, "yarn") != 0 && strcmp(type, "original") != 0) ||
           arch_plain_set(yarn, c, p, e);
}

KV_MAKE(rope_plamo3) {
    static const arch_item yarn[] = {ITEM_NAMES(".rope.scaling.type", KV_TEXT, "yarn"),
                                     FLOAT(".rope.scaling.factor", "rope_scaling_factor"),
                                     U32(".rope.scaling.original_context_length", "initial_context_length"),
                                     FLOAT_IS(".rope.scaling.yarn_beta_fast", 32),
                                     FLOAT_IS(".rope.scaling.yarn_beta_slow", 1),
                                     END};
    double factor;
    return hf_config_float_or(c, "rope_scaling_factor", 1, &factor, e) &&
           (factor == 1 || arch_value(c, "rope.rope_type") || arch_plain_set(yarn, c, p, e));
}
