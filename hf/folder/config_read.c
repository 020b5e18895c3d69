/* Reads config.json. Models with vision or audio encoders keep the text model's numbers in an object of their own,
 * which several names are in use for; its values are laid over those of the root, so that the rules look in
 * one place. The parameters of the rotation have changed their place twice over the years: they are brought
 * into the newest form once, here.
 */
#include "hf/folder/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS_MOST = 4096 }; /* the largest published models have some 130 */

/* ---- the text model's object ---- */

static bool config_merge(hf_config *c, gq_error *e) {
    static const char *const parts[] = {"llm_config", "lm_config", "language_config"};
    json_t *text = NULL;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (json_object_get(c->stored, parts[i])) text = json_object_get(c->stored, parts[i]);
    json_t *thinker = json_object_get(json_object_get(c->stored, "thinker_config"), "text_config");
    if (thinker) text = thinker;
    if (text && json_object_set(c->stored, "text_config", text) != 0) return gq_fail_memory(e, 0);
    c->merged = json_copy(c->stored);
    text = json_object_get(c->stored, "text_config");
    /* Draft models for several programs have the numbers of their layers apart. */
    json_t *layer = json_object_get(c->stored, "transformer_layer_config");
    if (!c->merged || (json_is_object(text) && json_object_update(c->merged, text) != 0) ||
        (json_is_object(layer) && json_object_update(c->merged, layer) != 0))
        return gq_fail_memory(e, 0);
    return true;
}

/* ---- the rotation ---- */

/* Sets rope[key] to the value of the first of the names that the config has, unless it already exists. */
static bool rope_complete(hf_config *c, json_t *rope, const char *key, const char *names) {
    const json_t *v = hf_config_find(c, names);
    return !v || json_object_get(rope, key) || json_object_set(rope, key, (json_t *)v) == 0;
}

static bool config_normalize_rope(hf_config *c, gq_error *e) {
    const json_t *given =
        hf_config_find(c, hf_config_has(c, "rope_parameters") ? "rope_parameters" : "rope_scaling");
    json_t *rope = json_is_object(given) ? json_copy((json_t *)given) : json_object();
    const json_t *local = hf_config_find(
        c, "local_rope_theta|rope_local_theta|rope_theta_local|swa_rope_theta|rope_local_base_freq");
    bool ok = rope != NULL;
    if (ok && !json_object_get(rope, "full_attention") && !json_object_get(rope, "sliding_attention")) {
        json_t *type = json_object_get(rope, "type");
        if (local)
            ok = json_object_set_new(rope, "sliding_attention", json_pack("{s:O}", "rope_theta", local)) == 0;
        ok = ok &&
             (json_object_get(rope, "rope_type") || !type || json_object_set(rope, "rope_type", type) == 0) &&
             rope_complete(
                 c, rope, "rope_theta",
                 "global_rope_theta|rope_global_theta|rope_theta_global|rope_theta|rotary_emb_base") &&
             rope_complete(c, rope, "partial_rotary_factor", "partial_rotary_factor|rope_pct|rope_percent") &&
             rope_complete(c, rope, "original_max_position_embeddings", "original_max_position_embeddings");
    }
    c->rope = rope;
    return ok || gq_fail_memory(e, 0);
}

const json_t *hf_config_rope_full(const hf_config *c) {
    const json_t *full = json_object_get(c->rope, "full_attention");
    return full ? full : c->rope;
}

/* ---- numbers of single layers ---- */

/* Finds the number that all layers with full attention, or all others, have under a key: their own in
 * per_layer_config, or else the model's. Fails where they differ. NULL: no such layer, or no number. */
static bool layers_agree(const hf_config *c, const char *key, bool full, json_t **value, gq_error *e) {
    const json_t *kinds = json_object_get(c->merged, "layer_types");
    const json_t *layers = json_object_get(c->merged, "per_layer_config");
    *value = NULL;
    for (uint64_t l = 0; l < c->layers; l++) {
        const char *kind = json_string_value(json_array_get(kinds, l));
        char number[24];
        if ((kind && strcmp(kind, "full_attention") == 0) != full) continue;
        snprintf(number, sizeof number, "%llu", LLU(l));
        json_t *own = json_object_get(json_object_get(layers, number), key);
        if (!own || json_is_null(own)) own = json_object_get(c->merged, key);
        if (*value && !json_equal(own, *value))
            return hf_config_fail(c, e, "per_layer_config: %s of layer %s differs from other layers with %s",
                                  key, number, kind ? kind : "such attention");
        *value = own;
    }
    return true;
}

/* Newer configs of gemma4 have the heads of layers with full attention in an object per layer, older ones in
 * keys of their own, where the rules look. GGUF files have room for one number of each kind of layer. */
static bool config_gather_layers(hf_config *c, gq_error *e) {
    static const char *const rows[][2] = {{"head_dim", "global_head_dim"},
                                          {"num_key_value_heads", "num_global_key_value_heads"},
                                          {"num_attention_heads", NULL}};
    if (!c->row->folder.has_layer_configs || !json_is_object(json_object_get(c->merged, "per_layer_config")))
        return true;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const char *key = rows[r][0], *to = rows[r][1];
        json_t *full, *others, *common = json_object_get(c->merged, key);
        if (!layers_agree(c, key, true, &full, e) || !layers_agree(c, key, false, &others, e)) return false;
        if ((others && !json_equal(others, common)) || (full && !to && !json_equal(full, common)))
            return hf_config_fail(
                c, e, "per_layer_config: %s differs from the model's, in layers that cannot differ", key);
        if (full && to && (r == 0 || full != common) && !json_object_get(c->merged, to) &&
            json_object_set(c->merged, to, full) != 0)
            return gq_fail_memory(e, 0);
    }
    return true;
}

/* ---- the whole ---- */

static bool config_count_layers(hf_config *c, gq_error *e) {
    uint32_t n = 0;
    if (!hf_config_u32(c, "n_layers|num_hidden_layers|n_layer|num_layers|num_transformer_layers", &n, e))
        return false;
    if (n > LAYERS_MOST) return hf_config_fail(c, e, "%u layers, expected at most %d", n, LAYERS_MOST);
    c->layers = n;
    return true;
}

static bool config_count_stacks(hf_config *c, gq_error *e) {
    const char *key = c->row->folder.stack;
    uint32_t n = 0, bare = c->row->bare_layers;
    if (bare && c->layers <= bare)
        return hf_config_fail(c, e, "%llu layers, expected more than %u: the last %u %s not counted",
                              LLU(c->layers), bare, bare, bare == 1 ? "is" : "are");
    c->layers -= bare;
    if (!key) return true;
    if (hf_config_get(c, key) && !hf_config_u32(c, key, &n, e)) return false;
    if (n > LAYERS_MOST / 2) return hf_config_fail(c, e, "%s is %u, more than %d", key, n, LAYERS_MOST / 2);
    c->layers = 2 * (n ? n : c->layers);
    return true;
}

bool hf_config_open(hf_config *c, hf_folder *f, gq_error *e) {
    *c = (hf_config){.folder = f, .file = hf_folder_path(f, "config.json", e)};
    bool ok = c->file && hf_folder_json(f, "config.json", &c->stored, e);
    if (ok && !c->stored)
        ok = gq_fail(e,
                     "%s is a directory without config.json: expected a GGUF file, or a model's folder from "
                     "Hugging Face",
                     f->path);
    ok = ok && config_merge(c, e) && hf_config_restore(c, e);
    if (!ok) hf_config_free(c);
    return ok;
}

bool hf_config_read(hf_config *c, hf_folder *f, gq_error *e) {
    if (!hf_config_open(c, f, e)) return false;
    bool ok = hf_architecture_find_class(c, e) && config_normalize_rope(c, e) && config_count_layers(c, e) &&
              hf_architecture_decide(c, e) && config_count_stacks(c, e) && config_gather_layers(c, e);
    if (!ok) hf_config_free(c);
    return ok;
}

bool hf_config_read_like(hf_config *c, hf_folder *f, const hf_config *like, gq_error *e) {
    bool ok = hf_config_open(c, f, e) && config_normalize_rope(c, e) && config_count_layers(c, e);
    if (!ok) return hf_config_free(c), false;
    c->class_name = like->class_name, c->arch = like->arch;
    c->row = like->row, c->class_row = like->class_row, c->like = like->like;
    return true;
}

void hf_config_free(hf_config *c) {
    json_decref(c->rope), json_decref(c->merged), json_decref(c->stored), json_decref(c->modules);
    free(c->file);
    *c = (hf_config){.file = NULL};
}
