/* The metadata of one architecture: its list of items is found and set, what every reader needs is completed, and
 * what the config does not have, or does not have right, is read from tensors.
 *
 * Apertus keeps four numbers of each layer's activation as tensors of one element; GGUF has them as metadata, without
 * the architecture in front, each only if all layers have it. */
#include "hf/metadata/metadata.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hf/tensors/tensors.h"
#include "hf/tokenizer/tokenizer.h"

enum { BLOCKS_MOST = 8192 }; /* main and predicting; hf_config_read allows 4096 of the former */

bool hf_items_set(const arch_item *list, const hf_config *c, hf_metadata *p, gq_error *e) {
#define MAKE(member, function, type) [member] = (function),
    static kv_make *const makes[ARCH_MAKE_LIMIT] = {ARCH_MAKES(MAKE)};
#undef MAKE
    while (list->make != MAKE_END && makes[list->make](list, c, p, e)) list++;
    return list->make == MAKE_END;
}

KV_MAKE(kv_list) { return hf_items_set(i->list, c, p, e); }
KV_MAKE(kv_list_if) { return !arch_value(c, i->names) || hf_items_set(i->list, c, p, e); }

/* Adds the metadata that no reader can do without; a config that lacks their values is refused. */
static bool arch_complete(const hf_config *c, hf_metadata *p, gq_error *e) {
    static const arch_item needed[] = {U32(".embedding_length", "hidden_size"),
                                       U32(".attention.head_count", "num_attention_heads"),
                                       U32_IS(".context_length", 2048), END};
    for (const arch_item *i = needed; i->make != MAKE_END; i++)
        if (!hf_metadata_find(p, i->key) && !kv_u32(i, c, p, e)) return false;
    return hf_metadata_find(p, ".attention.layer_norm_epsilon") ||
           hf_metadata_find(p, ".attention.layer_norm_rms_epsilon") ||
           hf_metadata_f32(p, ".attention.layer_norm_rms_epsilon", 1e-6F, e);
}

bool hf_arch_metadata(const hf_config *c, hf_metadata *p, gq_error *e) {
    if (c->layers > BLOCKS_MOST || c->mtp > BLOCKS_MOST || hf_config_blocks(c) > BLOCKS_MOST)
        return hf_config_fail(c, e, "%llu layers and %llu MTP layers, expected at most %d together",
                              LLU(c->layers), LLU(c->mtp), BLOCKS_MOST);
    return hf_items_set(c->class_row->metadata ? c->class_row->metadata : c->like->metadata, c, p, e) &&
           arch_complete(c, p, e) && hf_modules_metadata(c, p, e);
}

/* ---- what tensors decide ---- */

/* Finds the source tensor of a layer's number; NULL: the layer has none. */
static bool number_find(hf_build *b, uint64_t layer, const char *number, const hf_source **found,
                        gq_error *e) {
    char name[96];
    snprintf(name, sizeof name, "layers.%llu.mlp.act_fn.%s", LLU(layer), number);
    return hf_build_source(b, name, found, e) &&
           (!*found || (*found)->stored->n == 1 ||
            hf_list_fail((*found)->list, (*found)->stored, e, "expected one element"));
}

static bool metadata_add_layers(hf_build *b, hf_metadata *metadata, const char *number, gq_error *e) {
    char name[96];
    bool whole = true;
    const hf_source *s;
    float x;
    for (uint64_t i = 0; i < b->config->layers; i++) {
        if (!number_find(b, i, number, &s, e)) return false;
        whole = whole && s;
    }
    for (uint64_t i = 0; whole && i < b->config->layers; i++)
        if (!number_find(b, i, number, &s, e) || !hf_build_floats(s, 0, 1, &x, e) ||
            !hf_metadata_add_f32(metadata, x, e))
            return false;
    snprintf(name, sizeof name, "xielu.%s", number);
    return hf_metadata_array(metadata, name, GGUF_FLOAT32, e);
}

/* ernie4_5-moe: how wide the shared experts are is in the tensors alone. The converter divides two numbers of
 * the config, which gives the same for the published models. */
static bool metadata_set_shared_width(const hf_build *b, hf_metadata *metadata, gq_error *e) {
    uint64_t width = 0;
    for (size_t i = 0; i < b->n; i++) {
        const hf_tensor *t = &b->tensors[i];
        if (!name_ends(t->tensor.name, ".ffn_up_shexp.weight")) continue;
        if (width && t->tensor.ne[1] != width)
            return hf_config_fail(b->config, e, "'%s' has %llu rows, those of other layers %llu",
                                  t->stored_name, LLU(t->tensor.ne[1]), LLU(width));
        width = t->tensor.ne[1];
    }
    if (width > UINT32_MAX) return hf_config_fail(b->config, e, "shared experts of 2^32 or more rows");
    return !width || hf_metadata_u32(metadata, ".expert_shared_feed_forward_length", (uint32_t)width, e);
}

/* Reads the first element of a source tensor. *found: it is there. */
static bool first_read(hf_build *b, const char *name, bool *found, float *x, gq_error *e) {
    const hf_source *s;
    if (!hf_build_source(b, name, &s, e)) return false;
    *found = s != NULL;
    return !s || (s->stored->n > 0 ? hf_list_floats(s->list, s->stored, 0, 1, x, e)
                                   : hf_list_fail(s->list, s->stored, e, "expected an element"));
}

/* The slopes of the heads' biases follow from the largest one; the folder has the slopes. */
static bool metadata_set_alibi(hf_build *b, hf_metadata *metadata, gq_error *e) {
    bool found;
    float first;
    double most = 8, power = 1;
    if (!first_read(b, "relative_pe.slopes", &found, &first, e)) return false;
    while (power * 2 <= b->sizes.heads) power *= 2;
    if (found && !(first > 0))
        return hf_config_fail(b->config, e, "relative_pe.slopes begins with %g, expected a number above 0",
                              (double)first);
    if (found) most = -rint(log2((double)first) * power);
    return hf_metadata_f32(metadata, ".attention.max_alibi_bias", (float)most, e);
}

static bool metadata_set_logit_scale(hf_build *b, hf_metadata *metadata, gq_error *e) {
    bool found;
    float gain;
    return first_read(b, "lm_head_gain.w_g", &found, &gain, e) &&
           (!found || hf_metadata_f32(metadata, ".logit_scale", gain, e));
}

/* Among draft models only DSpark has such a head; a key names what it samples from. */
static bool metadata_set_confidence(const hf_build *b, hf_metadata *metadata, gq_error *e) {
    return !hf_metadata_find(metadata, ".sample_from_anchor") ||
           hf_metadata_bool(metadata, ".has_confidence_head", hf_build_find(b, "conf_proj.weight") != NULL,
                            e);
}

/* Sets an array of so many 64-bit integers; floats would round them. */
static bool metadata_set_wide(hf_build *b, hf_metadata *metadata, const char *name, const char *key,
                              uint64_t expected, gq_error *e) {
    const hf_stored *s = NULL;
    uint64_t x[64];
    for (size_t i = 0; i < b->list->n && !s; i++)
        if (name_ends(b->list->stored[i].name, name)) s = &b->list->stored[i];
    if (!s) return hf_config_fail(b->config, e, "missing tensor %s, by which n-grams are looked up", name);
    if (s->dtype != HF_I64 || s->n != expected)
        return hf_list_fail(
            b->list, s, e, "%llu elements of type %s, expected %llu of I64 by ngram_size and heads_per_ngram",
            LLU(s->n), hf_dtype_name(s->dtype), LLU(expected));
    for (uint64_t at = 0, n; at < s->n; at += n) {
        n = s->n - at < 64 ? s->n - at : 64;
        if (!gq_file_read(&b->list->folder->files[s->file].file, s->offset + 8 * at, x, 8 * n, e))
            return false;
        for (uint64_t i = 0; i < n; i++)
            if (!hf_metadata_add(metadata, &x[i], sizeof x[i], e)) return false;
    }
    return hf_metadata_array(metadata, key, GGUF_U64, e);
}

static bool metadata_set_ngrams(hf_build *b, hf_metadata *metadata, gq_error *e) {
    static const char *const rows[][2] = {{"ple_embedding.layer_multipliers", ".ple.layer_multipliers"},
                                          {"ple_embedding.ngram_heads_offsets", ".ple.head_offsets"},
                                          {"ple_embedding.ngram_heads_vocab_sizes", ".ple.head_vocab_sizes"}};
    const hf_tensor *table = hf_build_find(b, "per_layer_token_embd.weight");
    uint32_t length, heads;
    if (!hf_metadata_find(metadata, ".ple.layers")) return true;
    if (!hf_config_u32(b->config, "ngram_size", &length, e) ||
        !hf_config_u32(b->config, "heads_per_ngram", &heads, e))
        return false;
    /* Ids of an n-gram's places; n-grams of two tokens and more have heads. */
    uint64_t all = (length ? length - 1 : 0) * (uint64_t)heads, n[] = {length, all, all};
    if (!table || table->tensor.ne[0] > UINT32_MAX)
        return hf_config_fail(b->config, e, "missing tensor: the table of n-grams");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!metadata_set_wide(b, metadata, rows[i][0], rows[i][1], n[i], e)) return false;
    return hf_metadata_u32(metadata, ".embedding_length_per_layer_input", (uint32_t)table->tensor.ne[0], e);
}

static bool row_is_zeros(const hf_source *s, uint64_t row, uint64_t width, bool *zeros, gq_error *e) {
    float x[256];
    *zeros = true;
    for (uint64_t at = 0, n; *zeros && at < width; at += n) {
        n = width - at < 256 ? width - at : 256;
        if (!hf_list_floats(s->list, s->stored, row * width + at, n, x, e)) return false;
        for (uint64_t i = 0; i < n; i++) *zeros &= x[i] == 0;
    }
    return true;
}

/* Tokens that were added, and rows behind the vocabulary: those whose embedding is zeros would be likely ones. */
static bool metadata_set_untrained(hf_build *b, hf_metadata *metadata, gq_error *e) {
    const hf_source *s;
    const model_kv *types = hf_metadata_find(metadata, "tokenizer.ggml.token_type");
    if (!hf_build_source(b, "embed_tokens.weight", &s, e)) return false;
    if (!s || !types || s->n_dims != 2 || s->coding != &hf_plain) return true;
    for (uint32_t i = 0; i < s->rows && GGUF_ARRAY_HEADER + 4 * ((uint64_t)i + 1) <= types->size; i++) {
        int32_t type;
        bool zeros;
        memcpy(&type, types->value + GGUF_ARRAY_HEADER + 4 * (uint64_t)i, sizeof type);
        if (type == HF_TOKEN_NORMAL) continue;
        if (!row_is_zeros(s, i, s->columns, &zeros, e) ||
            (zeros && !hf_metadata_add_i32(metadata, (int32_t)i, e)))
            return false;
    }
    return hf_metadata_array(metadata, "tokenizer.ggml.suppress_tokens", GGUF_INT32, e);
}

bool hf_tensor_metadata(hf_build *b, hf_metadata *metadata, gq_error *e) {
    arch_tensor_metadata kind = b->config->row->folder.tensor_metadata;
    static const char *const numbers[] = {"alpha_p", "alpha_n", "beta", "eps"};
    for (size_t i = 0; kind == TENSOR_METADATA_XIELU && i < sizeof numbers / sizeof *numbers; i++)
        if (!metadata_add_layers(b, metadata, numbers[i], e)) return false;
    if (kind == TENSOR_METADATA_ALIBI) return metadata_set_alibi(b, metadata, e);
    if (kind == TENSOR_METADATA_NGRAMS) return metadata_set_ngrams(b, metadata, e);
    if (kind == TENSOR_METADATA_UNTRAINED) return metadata_set_untrained(b, metadata, e);
    if (kind == TENSOR_METADATA_CONFIDENCE) return metadata_set_confidence(b, metadata, e);
    if (kind == TENSOR_METADATA_LOGIT_SCALE) return metadata_set_logit_scale(b, metadata, e);
    return kind != TENSOR_METADATA_SHARED_WIDTH || metadata_set_shared_width(b, metadata, e);
}
