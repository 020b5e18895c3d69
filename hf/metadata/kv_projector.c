/* Metadata of projectors: numbers that their configs and preprocessors have in other forms
 * than GGUF. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hf/metadata/metadata.h"

enum { FLOATS_MOST = 4096, MARKS_MOST = 4096 };

KV_MAKE(kv_floats) {
    const json_t *list = arch_value(c, i->names);
    size_t n = json_array_size(list);
    if (!list && i->need == IF) return true;
    if (!json_is_array(list) || n == 0 || n > FLOATS_MOST)
        return hf_config_fail(c, e, "%s, here or in preprocessor_config.json: expected an array of numbers",
                              i->names);
    for (size_t k = 0; k < n; k++) {
        double value;
        if (!hf_value_float(c, json_array_get(list, k), i->names, &value, e)) return false;
        if (!hf_metadata_add_f32(p, (float)value, e)) return false;
    }
    return hf_metadata_array(p, i->key, GGUF_FLOAT32, e);
}

KV_MAKE(kv_integers) {
    const json_t *list = arch_value(c, i->names);
    size_t n = json_array_size(list);
    if (!list && i->need == IF) return true;
    if (!json_is_array(list) || n > FLOATS_MOST)
        return hf_config_fail(c, e, "%s: expected an array of integers", i->names);
    for (size_t k = 0; k < n; k++) {
        const json_t *v = json_array_get(list, k);
        json_int_t x = json_integer_value(v);
        if (!json_is_integer(v) || x > INT32_MAX || x < INT32_MIN)
            return hf_config_fail(c, e, "%s: entry %zu is not a 32-bit integer", i->names, k);
        if (!hf_metadata_add_i32(p, x < 0 && i->value != 0 ? 0 : (int32_t)x, e)) return false;
    }
    return hf_metadata_array(p, i->key, GGUF_INT32, e);
}

KV_MAKE(kv_triple) {
    (void)c;
    for (int k = 0; k < 3; k++)
        if (!hf_metadata_add_f32(p, (float)(*i->names - '0'), e)) return false;
    return hf_metadata_array(p, i->key, GGUF_FLOAT32, e);
}

/* Sets a key to a number rounded down. */
static bool projector_set_floor(const arch_item *i, const hf_config *c, hf_metadata *p, double value,
                                gq_error *e) {
    if (!(value >= 0 && value <= UINT32_MAX))
        return hf_config_fail(c, e, "%s comes to %g, expected 0 to 4294967295", i->key, value);
    return hf_metadata_u32(p, i->key, (uint32_t)value, e);
}

KV_MAKE(kv_root) {
    uint32_t n;
    bool missing;
    return arch_u32(i, c, i->names, &n, &missing, e) && (missing || projector_set_floor(i, c, p, sqrt(n), e));
}

static bool kv_float_floor(const arch_item *i, const hf_config *c, hf_metadata *p, bool inverse,
                           gq_error *e) {
    double value;
    bool missing;
    return arch_float(i, c, i->names, &value, &missing, e) &&
           (missing || projector_set_floor(i, c, p, inverse ? 1.0 / value : floor(value), e));
}

KV_MAKE(kv_inverse) { return kv_float_floor(i, c, p, true, e); }

KV_MAKE(kv_floor) { return kv_float_floor(i, c, p, false, e); }

/* The names: what is squared, then how often, for which `value` may stand in. */
KV_MAKE(kv_square) {
    char side[HF_NAMES_PART];
    const char *often = arch_names_part(side, i->names, " ");
    uint32_t n, times = (uint32_t)i->value;
    if (!hf_config_u32(c, side, &n, e) || (*often && !(times ? hf_config_u32_or(c, often, times, &times, e)
                                                             : hf_config_u32(c, often, &times, e))))
        return false;
    return projector_set_floor(i, c, p, (double)n * n * times, e);
}

KV_MAKE(kv_activation) {
    const char *name = hf_config_text(c, i->names);
    bool silu = name && strcmp(name, "silu") == 0;
    if (!name && i->value != 0) name = "gelu";
    if (silu || (name && (i->value != 0 ? strncmp(name, "gelu", 4) : strcmp(name, "gelu")) == 0))
        return hf_metadata_bool(p, silu ? ".use_silu" : ".use_gelu", true, e);
    return i->need == IF || hf_config_fail(c, e, "%s is %s%s%s, expected \"gelu\" or \"silu\"", i->names,
                                           name ? "\"" : "", name ? name : "missing", name ? "\"" : "");
}

/* Numbers below 0 count from the end, as Python's do. */
KV_MAKE(kv_marked) {
    char name[HF_NAMES_PART];
    const char *count = arch_names_part(name, i->names, " ");
    bool marks[MARKS_MOST] = {0};
    uint32_t n;
    const json_t *list = arch_value(c, name);
    if (!hf_config_u32_or(c, count, 0, &n, e)) return false;
    if (n > MARKS_MOST)
        return hf_config_fail(c, e, "%u layers of the vision encoder, expected at most %d", n, MARKS_MOST);
    for (size_t k = 0; k < json_array_size(list); k++) {
        json_int_t at = json_integer_value(json_array_get(list, k));
        if (!json_is_integer(json_array_get(list, k)) || at >= (json_int_t)n || at < -(json_int_t)n)
            return hf_config_fail(c, e, "%s: entry %zu is not the number of one of %u layers", name, k, n);
        marks[at < 0 ? at + (json_int_t)n : at] = true;
    }
    for (uint32_t k = 0; k < n; k++)
        if (!hf_metadata_add_bool(p, marks[k], e)) return false;
    return hf_metadata_array(p, i->key, GGUF_BOOL, e);
}

/* The number of patches per side that are merged. Readers assume 4, as in all published models. */
KV_MAKE(clip_gemma3_scale) {
    uint32_t tokens, image, patch;
    if (!hf_config_u32_or(c, "pre.image_seq_length", 256, &tokens, e) ||
        !hf_config_u32(c, "vision.image_size", &image, e) ||
        !hf_config_u32(c, "vision.patch_size", &patch, e))
        return false;
    uint32_t side = (uint32_t)sqrt(tokens);
    if (!patch || !side) return hf_config_fail(c, e, "patch_size or image_seq_length is 0");
    uint32_t scale = image / patch / side;
    return scale == 0 || scale == 4 || hf_metadata_u32(p, i->key, scale, e);
}

/* Layers with full attention come every so many layers, the last of each group. */
KV_MAKE(clip_window_pattern) {
    const json_t *list = hf_config_get(c, i->names);
    uint32_t first = 0, last = 0;
    if (!json_is_array(list) || json_array_size(list) == 0)
        return hf_config_fail(c, e, "%s: expected an array of layers", i->names);
    for (size_t k = 0; k < json_array_size(list); k++) {
        uint32_t at;
        if (!hf_value_u32(c, json_array_get(list, k), i->names, &at, e)) return false;
        if (k == 0) first = at;
        if (k > 0 && (uint64_t)last + first + 1 != at)
            return hf_config_fail(c, e, "%s: entry %zu is %u, expected one every %llu layers", i->names, k,
                                  at, first + 1ULL);
        last = at;
    }
    return arch_set_u64(i, c, p, first + 1ULL, e);
}

KV_MAKE(clip_positions) {
    uint32_t positions, patch;
    if (hf_config_has(c, "vision.image_size")) return kv_u32(i, c, p, e);
    return hf_config_u32_or(c, "vision.num_position_embeddings", 2304, &positions, e) &&
           hf_config_u32_or(c, "vision.patch_size", 16, &patch, e) &&
           projector_set_floor(i, c, p, sqrt(positions) * patch, e);
}

/* The last layers may be left out: the text model gets what an earlier one makes, `value` without a key. */
KV_MAKE(clip_lfm2_blocks) {
    const json_t *layer = i->value != 0 ? NULL : hf_config_get(c, "root.vision_feature_layer");
    uint32_t n;
    json_int_t at = json_is_integer(layer) ? json_integer_value(layer)
                    : i->value != 0        ? (json_int_t)i->value
                                           : -1;
    if (!hf_config_u32(c, "vision.num_hidden_layers", &n, e)) return false;
    if ((layer && !json_is_integer(layer)) || at >= 0 || at < -(json_int_t)n)
        return hf_config_fail(c, e, "vision_feature_layer: expected -1 to -%u", n);
    return arch_set_u64(i, c, p, (uint64_t)((json_int_t)n + at + 1), e);
}

KV_MAKE(clip_minicpm) {
    const char *mode = hf_config_text(c, "pre.downsample_mode");
    uint32_t layer;
    if (mode && strcmp(mode, "16x") != 0)
        return hf_config_fail(
            c, e, "downsample_mode is \"%s\", expected \"16x\"; llama.cpp's converter makes others", mode);
    if (!hf_config_u32_or(c, "root.insert_layer_id|vision.insert_layer_id", 6, &layer, e)) return false;
    return hf_metadata_u32(p, ".vision.projector.scale_factor", 4, e) &&
           hf_metadata_add_i32(p, (int32_t)layer, e) &&
           hf_metadata_array(p, ".vision.wa_layer_indexes", GGUF_INT32, e);
}

/* Some keys have no prefix: readers look for them so. */
KV_MAKE(clip_kimi25) {
    static const struct {
        const char *name, *key;
        uint32_t other;
    } sides[] = {{"vision.init_pos_emb_height|vision.pos_emb_height", "vision.pos_emb_height", 64},
                 {"vision.init_pos_emb_width|vision.pos_emb_width", "vision.pos_emb_width", 64},
                 {"vision.init_pos_emb_time|vision.pos_emb_time", "vision.pos_emb_time", 4}};
    const char *hidden_act = hf_config_text(c, "vision.projector_hidden_act");
    const json_t *merged = json_array_get(hf_config_get(c, "vision.merge_kernel_size"), 0);
    uint32_t patch, limit, height = 0, value, scale = 2;
    if (!hf_config_u32_or(c, "vision.patch_size", 14, &patch, e) ||
        !hf_config_u32_or(c, "pre.in_patch_limit", 16384, &limit, e) ||
        (merged && !hf_value_u32(c, merged, "merge_kernel_size", &scale, e)))
        return false;
    for (size_t k = 0; k < 3; k++) {
        if (!hf_config_u32_or(c, sides[k].name, sides[k].other, &value, e) ||
            !hf_metadata_u32(p, sides[k].key, value, e))
            return false;
        if (k == 0) height = value;
    }
    arch_item size = {.key = ".vision.image_size"}, least = {.key = ".vision.image_min_pixels"},
              most = {.key = ".vision.image_max_pixels"};
    double area = (double)patch * patch;
    return arch_set_u64(&size, c, p, (uint64_t)height * patch, e) &&
           hf_metadata_bool(p, ".use_gelu", !hidden_act || strcmp(hidden_act, "gelu") == 0, e) &&
           hf_metadata_u32(p, ".vision.projector.scale_factor", scale, e) &&
           projector_set_floor(&least, c, p, 8 * area, e) &&
           projector_set_floor(&most, c, p, limit * area, e);
}

KV_MAKE(clip_glm_pixels) {
    static const char *const rows[][2] = {{"pre.min_image_tokens", ".vision.image_min_pixels"},
                                          {"pre.max_image_tokens", ".vision.image_max_pixels"}};
    uint32_t patch, merge, tokens;
    if (!hf_config_u32_or(c, "pre.patch_size", 14, &patch, e) ||
        !hf_config_u32_or(c, "pre.merge_size", 2, &merge, e))
        return false;
    double side = (double)patch * merge;
    for (size_t k = 0; k < 2; k++) {
        arch_item pair = {.key = rows[k][1]};
        if (!hf_config_get(c, rows[k][0])) continue;
        if (!hf_config_u32(c, rows[k][0], &tokens, e) ||
            !projector_set_floor(&pair, c, p, side * side * tokens, e))
            return false;
    }
    return true;
}

KV_MAKE(clip_muse_size) {
    uint32_t height, patch, merge;
    return hf_config_u32(c, "vision.pos_emb_height", &height, e) &&
           hf_config_u32(c, "vision.patch_size", &patch, e) &&
           hf_config_u32(c, "vision.merge_size", &merge, e) &&
           projector_set_floor(i, c, p, (double)height * patch * merge, e);
}

/* Rows of an image by the number of its tokens, as readers count them. */
KV_MAKE(clip_gemma3n_patch) {
    uint32_t size, tokens;
    if (!hf_config_u32_or(c, "pre.size.height", 768, &size, e) ||
        !hf_config_u32_or(c, "pre.image_seq_length", 256, &tokens, e))
        return false;
    return tokens ? hf_metadata_u32(p, i->key, size / tokens, e)
                  : hf_config_fail(c, e, "image_seq_length is 0");
}

/* Whether layers of the audio encoder have a window: all but the last of each group; without groups, none. */
KV_MAKE(clip_mimo_windows) {
    uint32_t layers, group;
    bool is_hybrid;
    if (!hf_config_u32(c, "audio.encoder_layers", &layers, e) ||
        !hf_config_u32_or(c, "audio.swa_per_block", 1, &group, e) ||
        !hf_config_bool_or(c, "audio.hybrid_attention", false, &is_hybrid, e))
        return false;
    if (layers > MARKS_MOST)
        return hf_config_fail(c, e, "%u layers of the audio encoder, expected at most %d", layers,
                              MARKS_MOST);
    for (uint32_t k = 0; k < layers; k++)
        if (!hf_metadata_add_i32(p, is_hybrid && group > 1 && k % group < group - 1 ? 0 : -1, e))
            return false;
    return hf_metadata_array(p, i->key, GGUF_INT32, e);
}

KV_MAKE(clip_mlp_ratio) {
    uint32_t width, inner;
    double ratio;
    if (hf_config_get(c, "vision.intermediate_size"))
        return hf_config_u32(c, "vision.intermediate_size", &inner, e) &&
               hf_metadata_u32(p, i->key, inner, e);
    return hf_config_u32(c, "vision.hidden_size|vision.width", &width, e) &&
           hf_config_float(c, "vision.mlp_ratio", &ratio, e) &&
           projector_set_floor(i, c, p, nearbyint(width * ratio), e);
}

/* ---- Granite's projectors ---- */

static bool granite_pinpoints(const hf_config *c, hf_metadata *p, gq_error *e) {
    const json_t *sizes = hf_config_get(c, "root.image_grid_pinpoints");
    for (size_t i = 0; i < json_array_size(sizes); i++)
        for (size_t k = 0; k < 2; k++) { /* height and width: width goes first */
            uint32_t side;
            if (!hf_value_u32(c, json_array_get(json_array_get(sizes, i), 1 - k), "image_grid_pinpoints",
                              &side, e) ||
                !hf_metadata_add_i32(p, (int32_t)side, e))
                return false;
        }
    return hf_metadata_array(p, ".vision.image_grid_pinpoints", GGUF_INT32, e);
}

bool clip_granite(const arch_item *item, const hf_config *c, hf_metadata *p, gq_error *e) {
    granite_projector list[GRANITE_MOST];
    const char *rate = hf_config_text(c, "root.downsample_rate");
    unsigned query, window;
    int end = 0;
    size_t n;
    (void)item;
    if (!rate || sscanf(rate, "%9u/%9u%n", &query, &window, &end) != 2 || rate[end])
        return hf_config_fail(c, e, "downsample_rate is %s, expected \"QUERIES/WINDOW\"",
                              rate ? rate : "missing");
    if (!granite_projectors(c, list, &n, e) ||
        !hf_metadata_u32(p, ".vision.projector.query_side", query, e) ||
        !hf_metadata_u32(p, ".vision.projector.window_side", window, e))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!hf_metadata_add_i32(p, (int32_t)list[i].vision_layer, e)) return false;
    if (!hf_metadata_array(p, ".vision.feature_layer", GGUF_INT32, e)) return false;
    for (size_t i = 0; i < n; i++)
        if (!hf_metadata_add_i32(p, list[i].is_spatial ? (int32_t)list[i].number : -1, e)) return false;
    return hf_metadata_array(p, ".vision.projector.spatial_offsets", GGUF_INT32, e) &&
           granite_pinpoints(c, p, e);
}
