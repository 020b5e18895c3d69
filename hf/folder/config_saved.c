/* A fine-tune's config.json is what transformers 5 saves: a class takes the published config's keys, turns some into
 * others (lists of kinds of layers, rope_parameters per kind, names shared by all models) and saves those alone. Rules
 * of arch/ know the published keys, so these are made again here, once, by model_type. The classes are in
 * transformers/models/NAME/configuration_NAME.py; tests/hf/hf_resaved saves the golden folders' configs with them.
 */
#include "hf/folder/config_saved.h"

#include <stdio.h>
#include <string.h>

#include "hf/folder/json.h"

/* ---- names ---- */

/* Keys that are saved under another name. */
static const struct {
    const char *type, *key, *from;
} saved_keys[] = {
    {"bailing_hybrid", "max_position_embeddings", "model_max_length"},
    {"bailing_hybrid", "n_group", "num_expert_group"},
    {"bailing_hybrid", "norm_topk_prob", "moe_renormalize"},
    {"bailing_hybrid", "num_experts_per_tok", "num_experts_per_token"},
    {"exaone", "layer_norm_epsilon", "rms_norm_eps"},
    {"sarvam_moe", "num_experts", "n_routed_experts"},
    {"sarvam_moe", "num_shared_experts", "n_shared_experts"},
    {"sarvam_moe", "use_qkv_bias", "attention_bias"},
    {"step3p5", "moe_num_experts", "n_routed_experts"},
    {"step3p5", "moe_top_k", "num_experts_per_tok"},
    {"step3p5", "num_attention_groups", "num_key_value_heads"},
};

/* Keys whose saved value is another than the published one, which stands beside it. */
static const struct {
    const char *type, *key, *from;
} saved_values[] = {
    {"bailing_hybrid", "head_dim", "linear_head_dim"},          /* saved: qk_rope_head_dim */
    {"mimo_v2_flash", "sliding_window", "sliding_window_size"}, /* saved: one more, with the token itself */
};

/* Words of layer_types; type NULL: of all others. */
static const struct {
    const char *type, *word, *before;
} saved_words[] = {
    {"granitemoehybrid", "full_attention", "attention"},
    {"granitemoehybrid", "linear_attention", "mamba"},
    {"hy_v4", "indexed_attention", "deepseek_sparse_attention"},
    {NULL, "indexed_attention", "full_attention"},
    {NULL, "deepseek_sparse_attention", "full_attention"},
    {NULL, "qwen_sparse_attention", "full_attention"},
};

#define COUNT(list) (sizeof(list) / sizeof *(list))

static bool names_restore(json_t *o, const char *type) {
    bool ok = true;
    for (size_t i = 0; ok && i < COUNT(saved_keys); i++) {
        json_t *v = json_object_get(o, saved_keys[i].from);
        if (v && strcmp(saved_keys[i].type, type) == 0 && !json_object_get(o, saved_keys[i].key))
            ok = json_object_set(o, saved_keys[i].key, v) == 0;
    }
    for (size_t i = 0; ok && i < COUNT(saved_values); i++) {
        json_t *v = json_object_get(o, saved_values[i].from);
        if (json_is_integer(v) && strcmp(saved_values[i].type, type) == 0)
            ok = json_object_set(o, saved_values[i].key, v) == 0;
    }
    return ok;
}

static const char *word_before(const char *word, const char *type) {
    for (size_t i = 0; word && i < COUNT(saved_words); i++)
        if ((!saved_words[i].type || strcmp(saved_words[i].type, type) == 0) &&
            strcmp(saved_words[i].word, word) == 0)
            return saved_words[i].before;
    return NULL;
}

/* The list is another object's, too: words are changed in a copy. */
static bool words_restore(json_t *o, const char *type) {
    const json_t *kinds = json_object_get(o, "layer_types");
    if (!json_is_array(kinds)) return true;
    json_t *made = json_copy((json_t *)kinds);
    bool ok = made != NULL;
    for (size_t i = 0; ok && i < json_array_size(kinds); i++) {
        const char *before = word_before(hf_json_text(json_array_get(kinds, i)), type);
        if (before) ok = json_array_set_new(made, i, json_string(before)) == 0;
    }
    ok = ok && json_object_set(o, "layer_types", made) == 0;
    json_decref(made);
    return ok;
}

/* Layers with an indexer are those that attend to all tokens otherwise: their rotation has that name, too. */
static bool rope_words_restore(json_t *o) {
    json_t *rope = json_object_get(o, "rope_parameters"), *own = json_object_get(rope, "indexed_attention");
    if (!own || json_object_get(rope, "full_attention")) return true;
    json_t *made = json_copy(rope);
    bool ok = made && json_object_set(made, "full_attention", own) == 0 &&
              json_object_set(o, "rope_parameters", made) == 0;
    json_decref(made);
    return ok;
}

/* ---- single models ---- */

/* Nemotron-H: a letter for each layer. A model without experts is another architecture; the class has their keys in any
 * case. */
static bool nemotron_restore(json_t *o) {
    static const struct {
        const char *word;
        char letter;
    } letters[] = {{"linear_attention", 'M'}, {"mamba", 'M'}, {"full_attention", '*'},
                   {"attention", '*'},        {"moe", 'E'},   {"mlp", '-'}};
    static const char *const of_experts[] = {"num_experts_per_tok", "n_routed_experts", "n_shared_experts",
                                             "n_group", "topk_group"};
    enum { MOST = 4096 };
    static const char *const lists[][2] = {{"layers_block_type", "hybrid_override_pattern"},
                                           {"mtp_layers_block_type", "mtp_hybrid_override_pattern"}};
    for (size_t l = 0; l < COUNT(lists); l++) {
        const json_t *kinds = json_object_get(o, lists[l][0]);
        size_t n = json_array_size(kinds);
        char pattern[MOST + 1] = "";
        if (n == 0 || n > MOST || json_object_get(o, lists[l][1])) continue;
        if (l == 1 && json_integer_value(json_object_get(o, "num_nextn_predict_layers")) == 0) continue;
        for (size_t i = 0; i < n; i++) {
            pattern[i] = '?'; /* which the reader of the pattern refuses */
            for (size_t k = 0; k < COUNT(letters); k++)
                if (hf_json_is(json_array_get(kinds, i), letters[k].word)) pattern[i] = letters[k].letter;
        }
        if (json_object_set_new(o, lists[l][1], json_string(pattern)) != 0) return false;
        if (l == 1) continue;
        for (size_t k = 0; k < COUNT(of_experts) && !strchr(pattern, 'E'); k++)
            json_object_del(o, of_experts[k]);
        if (json_object_set_new(o, "num_hidden_layers", json_integer((json_int_t)n)) != 0) return false;
    }
    return true;
}

/* Falcon has one head of keys and values unless it is of the newer kind, whatever num_kv_heads says. */
static bool falcon_restore(json_t *o) {
    if (!json_is_true(json_object_get(o, "multi_query")) ||
        json_is_true(json_object_get(o, "new_decoder_architecture")))
        return true;
    return json_object_set_new(o, "num_kv_heads", json_integer(1)) == 0;
}

/* Makes rope_scaling, of the published form, of what one kind of layers has in rope_parameters, which goes. */
static bool rope_restore(json_t *o, const json_t *own) {
    static const char *const beside[] = {"attention_factor", "partial_rotary_factor", "rope_theta"};
    json_t *rope = json_copy((json_t *)own);
    bool is_plain = hf_json_is(json_object_get(rope, "rope_type"), "default");
    bool ok = rope && (is_plain || json_object_set(o, "rope_scaling", rope) == 0);
    for (size_t i = 0; rope && i < COUNT(beside); i++) json_object_del(rope, beside[i]);
    json_decref(rope);
    json_object_del(o, "rope_parameters");
    return ok;
}

/* DeepSeek V4: how many keys become one in each layer, and in those that predict (none do); leading layers with tables;
 * the rotation of layers that do, which is the one that is stretched. */
static bool deepseek4_restore(json_t *o) {
    const json_t *kinds = json_object_get(o, "layer_types"), *rates = json_object_get(o, "compress_rates"),
                 *mlps = json_object_get(o, "mlp_layer_types");
    json_t *stretched = json_object_get(json_object_get(o, "rope_parameters"), "compress");
    if (json_is_array(kinds) && json_is_object(rates) && !json_object_get(o, "compress_ratios")) {
        json_t *list = json_array();
        json_int_t more = json_integer_value(json_object_get(o, "num_nextn_predict_layers"));
        bool ok = list != NULL;
        for (size_t i = 0; ok && i < json_array_size(kinds); i++) {
            const json_t *rate = json_object_get(rates, json_string_value(json_array_get(kinds, i)));
            ok = json_array_append_new(list, json_integer(json_integer_value(rate))) == 0;
        }
        for (json_int_t i = 0; ok && i < more && i < 64; i++)
            ok = json_array_append_new(list, json_integer(0)) == 0;
        if (json_object_set_new(o, "compress_ratios", list) != 0 || !ok) return false;
    }
    if (json_is_array(mlps) && !json_object_get(o, "num_hash_layers")) {
        size_t n = 0;
        while (hf_json_is(json_array_get(mlps, n), "hash_moe")) n++;
        if (json_object_set_new(o, "num_hash_layers", json_integer((json_int_t)n)) != 0) return false;
    }
    return !json_is_object(stretched) || rope_restore(o, stretched);
}

/* Adds to a list of `key` what the rotation of a kind of layers has, or a number. */
static bool step_add(json_t *to, const json_t *rope, const json_t *kind, const char *key) {
    const json_t *v = json_object_get(json_object_get(rope, json_string_value(kind)), key);
    return json_array_append_new(to, v ? json_copy((json_t *)v) : json_null()) == 0;
}

/* Step 3.5: lists with an entry for each layer, and for those that predict. */
static bool step_restore(json_t *o) {
    json_t *rope = json_object_get(o, "rope_parameters"), *kinds = json_object_get(o, "layer_types"),
           *more = json_object_get(o, "mtp_layer_types"), *mlps = json_object_get(o, "mlp_layer_types"),
           *heads = json_object_get(o, "num_sliding_attention_heads"),
           *groups = json_object_get(o, "num_attention_groups");
    if (!json_is_object(rope) || !json_is_array(kinds) || json_object_get(o, "moe_layers_enum")) return true;
    json_t *all = json_copy(kinds), *bases = json_array(), *parts = json_array();
    bool ok = all && bases && parts && (!json_is_array(more) || json_array_extend(all, more) == 0);
    for (size_t i = 0; ok && i < json_array_size(all); i++)
        ok = step_add(bases, rope, json_array_get(all, i), "rope_theta") &&
             step_add(parts, rope, json_array_get(all, i), "partial_rotary_factor");
    ok = ok && json_object_set(o, "layer_types", all) == 0 && json_object_set(o, "rope_theta", bases) == 0 &&
         json_object_set(o, "partial_rotary_factors", parts) == 0;
    json_decref(all), json_decref(bases), json_decref(parts);
    char text[16] = "";
    size_t first = 0; /* readers know where layers with experts begin */
    while (first < json_array_size(mlps) && !hf_json_is(json_array_get(mlps, first), "sparse")) first++;
    snprintf(text, sizeof text, "%zu", first);
    const json_t *full = json_object_get(rope, "full_attention");
    if (ok && heads && groups && !json_object_get(o, "attention_other_setting"))
        ok = json_object_set_new(
                 o, "attention_other_setting",
                 json_pack("{s:O,s:O}", "num_attention_heads", heads, "num_attention_groups", groups)) == 0;
    return ok && json_object_set_new(o, "moe_layers_enum", json_string(text)) == 0 &&
           (!full || rope_restore(o, full));
}

bool hf_config_restore(hf_config *c, gq_error *e) {
    static const struct {
        const char *type;
        bool (*restore)(json_t *o);
    } models[] = {{"nemotron_h", nemotron_restore},
                  {"falcon", falcon_restore},
                  {"deepseek_v4", deepseek4_restore},
                  {"step3p5", step_restore}};
    const char *type = hf_json_text(json_object_get(c->merged, "model_type"));
    if (!type) type = "";
    bool ok =
        names_restore(c->merged, type) && words_restore(c->merged, type) && rope_words_restore(c->merged);
    for (size_t i = 0; ok && i < COUNT(models); i++)
        if (strcmp(models[i].type, type) == 0) ok = models[i].restore(c->merged);
    return ok || gq_fail_memory(e, 0);
}
