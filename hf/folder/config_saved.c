/* A fine-tune's config.json is what transformers 5 saves: a class takes the published config's keys, turns some into
 * others (lists of kinds of layers, rope_parameters per kind, names shared by all models) and saves those alone. Rules
 * of arch/ know the published keys, so these are made again here, once, by model_type. The classes are in
 * transformers/models/NAME/configuration_NAME.py; tests/hf/hf_resaved saves the golden folders' configs with them.
 */
#include "hf/folder/folder.h"

#include <stdio.h>
#include <string.h>

#include "arch/kv.h"

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

/* Defaults of transformers' classes for keys that a config leaves out, where readers of GGUF files have another
 * default. Of keys with several names none may be there. */
static const struct {
    const char *names, *value, *types;
} class_defaults[] = {
    {"attention_value_scale", "0.707", "mimo_v2_flash"},
    {"final_logit_softcapping", "30.0", "gemma3n_text"},
    {"first_k_dense_replace", "1", "exaone_moe|glm4_moe"},
    {NAMES_NORM, "1e-5", "cohere|cohere2|cohere2_moe|jais2|nemotron_h|starcoder2"},
    {NAMES_NORM, "1e-12", "bert"},
    {"global_rope_theta|rope_parameters", "160000", "modernbert"},
    {"local_rope_theta|rope_parameters", "10000", "modernbert"},
    {NAMES_CONTEXT, "4096", "chameleon|nemotron|olmoe|stablelm|starcoder2"},
    {NAMES_CONTEXT, "8192", "eurobert|modernbert"},
    {NAMES_CONTEXT, "32768", "minicpm3"},
    {NAMES_CONTEXT, "131072", "ernie4_5|glm4_moe|gpt_oss|laguna"},
    {NAMES_CONTEXT, "163840", "deepseek_v32"},
    {NAMES_CONTEXT, "262144", "jamba|ministral3"},
    {NAMES_CONTEXT, "524288", "seed_oss"},
    {NAMES_CONTEXT, "1048576", "deepseek_v4|mistral4"},
    {"moe_num_shared_experts", "2", "ernie4_5_moe"},
    {"n_shared_experts", "1", "deepseek_v3|deepseek_v32|glm4_moe|glm_moe_dsa|hy_v4|mistral4|solar_open"},
    {"n_shared_experts", "2", "deepseek_v2"},
    {"norm_eps", "1e-5", "lfm2_moe|modernbert"},
    {"norm_topk_prob", "true",
     "cohere2_moe|deepseek_v3|deepseek_v32|glm4_moe|glm_moe_dsa|hy_v4|mistral4|solar_open"},
    {"num_dense_layers", "1", "afmoe"},
    {NAMES_USED, "1", "llama4_text"},
    {NAMES_USED, "2", "cohere2_moe|granitemoehybrid|granitemoeshared|mixtral"},
    {NAMES_KV_HEADS, "1", "deepseek_v4"},
    {"prefix_lm", "true", "hrm_text"},
    {NAMES_RMS, "1e-5",
     "afmoe|apertus|arcee|chameleon|ernie4_5|ernie4_5_moe|eurobert|exaone4|exaone_moe|glm4_moe|glm4v_text|"
     "glm5_next_text|glm_moe_dsa|glm_ocr_text|gpt_oss|granite_swa|hunyuan_v1_dense|hunyuan_v1_moe|hy_v3|"
     "kimi_linear|llama4_text|ministral3|mixtral|muse_glimmer_assistant|muse_glimmer_text|olmo3|solar_open"},
    {NAMES_BASE, "10000", "deepseek_v4"},
    {NAMES_BASE, "150000", "gpt_oss"},
    {NAMES_BASE, "500000",
     "bitnet|cohere|ernie4_5|ernie4_5_moe|exaone|llama4_text|muse_glimmer_assistant|olmo3|"
     "paddleocr_vl_text|qwen3_vl_moe_text|qwen3_vl_text"},
    {NAMES_BASE, "1000000",
     "gemma3_text|gemma3n_text|lfm2|lfm2_moe|minimax|mixtral|phimoe|qwen2_5_omni_text|qwen2_5_vl_text|"
     "qwen2_vl_text|qwen3_omni_moe_text|solar_open"},
    {NAMES_BASE, "2000000", "smollm3"},
    {NAMES_BASE, "5000000", "minimax_m2|minimax_m3_vl_text"},
    {NAMES_BASE, "6000000", "bailing_hybrid"},
    {NAMES_BASE, "8000000", "sarvam_moe"},
    {NAMES_BASE, "11158840", "hy_v3"},
    {NAMES_BASE, "12000000", "apertus"},
    {"routed_scaling_factor", "2.5", "deepseek_v3|deepseek_v32|glm_moe_dsa"},
    {"router_scaling_factor", "2.826", "hy_v3"},
    {"scoring_func", "\"sqrtsoftplus\"", "deepseek_v4"},
    {"sliding_window", "4096", "exaone4|olmo3"},
    {"swiglu_limit", "10.0", "deepseek_v4|glm5_next_text|hy_v4"},
    {"use_parallel_residual", "false", "stablelm"},
};

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Whether a name is one of several with '|' between. */
static bool is_one_of(const char *name, const char *names) {
    size_t length = strlen(name);
    for (size_t n; *names; names += n + (names[n] == '|')) {
        n = strcspn(names, "|");
        if (n == length && strncmp(names, name, n) == 0) return true;
    }
    return false;
}

/* Whether a config has a base for its rotation: null is none. Objects within rope_parameters are of kinds of layers. */
static bool has_base(const hf_config *c) {
    json_t *rope = json_object_get(c->merged, "rope_parameters"), *v;
    const char *key;
    json_object_foreach(rope, key, v) {
        if (json_is_object(v) || (strcmp(key, "rope_theta") == 0 && !json_is_null(v))) return true;
    }
    return hf_config_get(c, "rope_theta");
}

static bool defaults_restore(const hf_config *c, const char *type) {
    bool ok = true;
    for (size_t i = 0; ok && i < COUNT(class_defaults); i++) {
        const char *names = class_defaults[i].names;
        bool is_there = strcmp(names, NAMES_BASE) == 0 ? has_base(c) : hf_config_has(c, names);
        if (is_there || !is_one_of(type, class_defaults[i].types)) continue;
        json_t *value = json_loads(class_defaults[i].value, JSON_DECODE_ANY, NULL);
        ok = json_object_setn_new(c->merged, names, strcspn(names, "|"), value) == 0;
    }
    return ok;
}

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

/* DeepSeek V4: how many keys become one in each layer, and in MTP layers (none do); leading layers with tables;
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
    json_object_del(o, "layer_types"); /* whose words are no other model's */
    return !json_is_object(stretched) || rope_restore(o, stretched);
}

/* Adds to a list of `key` what the rotation of a kind of layers has, or a number. */
static bool step_add(json_t *to, const json_t *rope, const json_t *kind, const char *key) {
    const json_t *v = json_object_get(json_object_get(rope, json_string_value(kind)), key);
    return json_array_append_new(to, v ? json_copy((json_t *)v) : json_null()) == 0;
}

/* Step 3.5: lists with an entry for each layer, and for MTP layers. */
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
    ok = ok && defaults_restore(c, type);
    return ok || gq_fail_memory(e, 0);
}
