#include "arch/arch.h"

#include <string.h>

#include "arch/rows.h"
#include "gguf/facts.h"

static const architecture *const files[] = {
    arch_rows_llama,   arch_rows_qwen,     arch_rows_gemma,     arch_rows_latent,    arch_rows_kda,
    arch_rows_granite, arch_rows_makers,   arch_rows_recurrent, arch_rows_experts,   arch_rows_plain,
    arch_rows_images,  arch_rows_encoders, arch_rows_others,    arch_rows_diffusion, arch_rows_drafts};

enum { FILES = sizeof files / sizeof *files };

const architecture *arch_at(size_t i) {
    for (size_t f = 0; f < FILES; f++)
        for (const architecture *a = files[f]; a->name; a++)
            if (i-- == 0) return a;
    return NULL;
}

const architecture *arch_named(const char *name) {
    for (size_t f = 0; f < FILES; f++)
        for (const architecture *a = files[f]; a->name; a++)
            if (strcmp(a->name, name) == 0) return a;
    return NULL;
}

static bool facts_are_of_embeddings(const model_facts *f) {
    int64_t causal;
    return model_fact(f, "pooling_type") || model_fact(f, "embedding_length_out") ||
           (model_fact_at(model_fact(f, "attention.causal"), 0, &causal) && !causal);
}

const architecture *arch_of_facts(const model_facts *facts) {
    const architecture *row = arch_named(facts->arch), *a;
    for (size_t i = 0; row && (a = arch_at(i)); i++)
        if (a->of_embeddings && strcmp(a->name, row->name) == 0 && facts_are_of_embeddings(facts)) return a;
    return row;
}

bool arch_has_sublayer(const architecture *a, arch_sublayer sublayer) {
    for (int i = 0; i < ARCH_GRAPH_SUBLAYERS; i++)
        if (a->graph.mixers[i] == sublayer || a->graph.ffns[i] == sublayer) return true;
    return a->graph.beside == sublayer || a->graph.tail == sublayer || a->graph.bank == sublayer;
}

bool arch_is_by_number(const architecture *a, arch_by_number what, uint64_t layers) {
    for (size_t i = 0; i < sizeof a->by_number / sizeof *a->by_number; i++) {
        const arch_numbered *n = &a->by_number[i];
        if (n->what == what && layers >= n->least && layers <= n->most) return true;
    }
    return false;
}

static arch_key_type type_of_make(arch_make make) {
    switch (make) {
    case KV_U32:
    case KV_LENGTHS:
    case KV_BLOCKS:
    case KV_PREDICT:
    case KV_FIRST:
    case KV_COUNT:
    case KV_TIMES:
    case KV_PRODUCT:
    case KV_SUM:
    case KV_QUOTIENT:
    case KV_KV_HEADS:
    case KV_GATING:
        return ARCH_KEY_INTEGER;
    case KV_FLOAT:
        return ARCH_KEY_FLOAT;
    case KV_BOOL:
    case KV_CAUSAL:
        return ARCH_KEY_BOOL;
    case KV_TEXT:
    case KV_COPY_TEXT:
        return ARCH_KEY_TEXT;
    default:
        return ARCH_KEY_UNKNOWN;
    }
}

static arch_key_type type_in_list(const arch_item *list, const char *key) {
    arch_key_type type = ARCH_KEY_UNKNOWN;
    for (const arch_item *i = list; i && i->make != MAKE_END && !type; i++)
        type = i->make == KV_LIST                   ? type_in_list(i->list, key)
               : i->key && strcmp(i->key, key) == 0 ? type_of_make(i->make)
                                                    : ARCH_KEY_UNKNOWN;
    return type;
}

/* Keys of all architectures, by their beginning and end; NULL: any end. The first row counts. */
static const struct {
    const char *begin, *end;
    arch_key_type type;
} common_keys[] = {{"tokenizer.ggml.add_", NULL, ARCH_KEY_BOOL},
                   {"tokenizer.ggml.", "_token_id", ARCH_KEY_INTEGER},
                   {"tokenizer.ggml.model", "", ARCH_KEY_TEXT},
                   {"tokenizer.ggml.remove_extra_whitespaces", "", ARCH_KEY_BOOL},
                   {"tokenizer.ggml.escape_whitespaces", "", ARCH_KEY_BOOL},
                   {"tokenizer.ggml.precompiled_charsmap", "", ARCH_KEY_LIST},
                   {"tokenizer.ggml.eos_token_ids", "", ARCH_KEY_LIST},
                   {"tokenizer.ggml.tokens", "", ARCH_KEY_LIST},
                   {"tokenizer.ggml.token_type", "", ARCH_KEY_LIST},
                   {"tokenizer.ggml.scores", "", ARCH_KEY_LIST},
                   {"tokenizer.ggml.merges", "", ARCH_KEY_LIST},
                   {"tokenizer.ggml.pre", "", ARCH_KEY_TEXT},
                   {"tokenizer.chat_template", "", ARCH_KEY_TEXT},
                   {"general.sampling.sequence", "", ARCH_KEY_TEXT},
                   {"general.sampling.", NULL, ARCH_KEY_NUMBER},
                   {"general.name", "", ARCH_KEY_TEXT},
                   {"general.type", "", ARCH_KEY_TEXT},
                   {"general.architecture", "", ARCH_KEY_TEXT}};

arch_key_type arch_type_of_key(const char *key) {
    /* those that one item makes with others */
    static const char *const floats[] = {".rope.freq_base", ".rope.freq_base_swa", ".rope.scaling.factor",
                                         ".rope.scaling.attn_factor"};
    arch_key_type type = ARCH_KEY_UNKNOWN;
    const char *own = strchr(key, '.');
    size_t length = strlen(key);
    for (size_t i = 0; i < sizeof common_keys / sizeof *common_keys; i++) {
        const char *end = common_keys[i].end;
        size_t n = strlen(common_keys[i].begin), m = end ? strlen(end) : 0;
        if (strncmp(key, common_keys[i].begin, n) == 0 &&
            (!end || (*end ? length >= n + m && strcmp(key + length - m, end) == 0 : length == n)))
            return common_keys[i].type;
    }
    if (!own || strncmp(key, "general.", 8) == 0 || strncmp(key, "tokenizer.", 10) == 0) return type;
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (strcmp(own, floats[i]) == 0) return ARCH_KEY_FLOAT;
    for (size_t i = 0; arch_at(i) && !type; i++) type = type_in_list(arch_at(i)->folder.metadata, own);
    return type;
}

const char *arch_key_type_name(arch_key_type type) {
    static const char *const names[] = {
        [ARCH_KEY_UNKNOWN] = "",     [ARCH_KEY_INTEGER] = "number of 32 bits without a sign",
        [ARCH_KEY_FLOAT] = "float",  [ARCH_KEY_BOOL] = "bool",
        [ARCH_KEY_TEXT] = "string",  [ARCH_KEY_LIST] = "list",
        [ARCH_KEY_NUMBER] = "number"};
    return names[type];
}

bool arch_key_type_is(arch_key_type type, uint32_t stored) {
    switch (type) {
    case ARCH_KEY_INTEGER: /* of any size: the format's description has U64 for several keys */
        return stored <= GGUF_INT32 || stored == GGUF_U64 || stored == GGUF_INT64;
    case ARCH_KEY_FLOAT:
        return stored == GGUF_FLOAT32 || stored == GGUF_FLOAT64;
    case ARCH_KEY_BOOL:
        return stored == GGUF_BOOL;
    case ARCH_KEY_TEXT:
        return stored == GGUF_STRING;
    case ARCH_KEY_LIST:
        return stored == GGUF_ARRAY;
    case ARCH_KEY_NUMBER:
        return stored != GGUF_BOOL && stored != GGUF_STRING && stored != GGUF_ARRAY;
    case ARCH_KEY_UNKNOWN:
        break;
    }
    return true;
}
