/* Small random models of every architecture that is run: a table of variants, at least one per architecture
 * and more for its optional features, and the code that makes metadata and tensors of a row. Names, sizes and
 * keys are written out here and not taken from arch/, so that an error there is not repeated
 * in its tests. What a row leaves out is filled in by fill_in. Values come from a generator that is seeded
 * with the variant's name. A matrix's values have a range that makes its outputs about as large as its
 * inputs, times a gain.
 */
#include "tests/support/forward_models.h"
#include "arch/arch.h"

#include <math.h>

enum { VARIANT_POSITIONS = 64 };

#define YARN "rope.scaling.type=yarn;rope.scaling.factor=4.0;rope.scaling.original_context_length=16"
#define EXPERTS .ffn = 'r', .experts = 6, .used = 2, .ff = 24

static const variant variants[] = {
    {.name = "llama"},
    {.name = "llama-bias", .arch = "llama", .qkv_bias = true, .out_bias = true, .ffn_bias = true, .kv = 4},
    {.name = "llama-freqs",
     .arch = "llama",
     .tied = true,
     .factors = 'f',
     .kv = 1,
     .keys = "rope.freq_base=500000.0"},
    {.name = "llama-linear",
     .arch = "llama",
     .fused_qkv = true,
     .keys = "rope.scaling.type=linear;rope.scaling.factor=2.5"},
    {.name = "llama-yarn", .arch = "llama", .keys = YARN ";rope.scaling.attn_factor=1.1"},
    {.name = "llama-longrope",
     .arch = "llama",
     .factors = 'l',
     .keys = "rope.scaling.type=longrope;rope.scaling.original_context_length=16"},
    {.name = "llama-moe", .arch = "llama", EXPERTS},
    {.name = "qwen2", .qkv_bias = true, .tied = true, .no_length = true, .logit_bias = true},
    {.name = "qwen3", .qk = 'h', .head = 12},
    {.name = "qwen2moe", .qkv_bias = true, .no_length = true, EXPERTS, .shared = 40, .shared_gate = true},
    {.name = "qwen3moe", .qk = 'h', EXPERTS},
    {.name = "gemma", .tied = true, .rotated = 4},
    {.name = "gemma2",
     .tied = true,
     .post = true,
     .keys = "attn_logit_softcapping=3.0;final_logit_softcapping=2.0;attention.sliding_window=6;"
             "rope.freq_base_swa=300.0"},
    {.name = "gemma2-46",
     .arch = "gemma2",
     .tied = true,
     .post = true,
     .layers = 46,
     .width = 24,
     .heads = 2,
     .kv = 1,
     .head = 6,
     .ff = 16},
    {.name = "gemma3",
     .tied = true,
     .post = true,
     .qk = 'h',
     .layers = 7,
     .keys = "rope.freq_base=1000000.0;rope.scaling.type=linear;rope.scaling.factor=8.0;"
             "attention.sliding_window=6;final_logit_softcapping=2.0"},
    {.name = "phi3",
     .fused_qkv = true,
     .ffn = 'f',
     .factors = 'l',
     .no_length = true,
     .rotated = 6,
     .kv = 4,
     .keys = "rope.scaling.original_context_length=300;rope.scaling.attn_factor=1.19;"
             "attention.sliding_window=7"},
    {.name = "olmo2",
     .no_pre = true,
     .inner = "",
     .post = true,
     .qk = 'f',
     .no_length = true,
     .layers = 4,
     .keys = YARN ";attention.sliding_window=6"},
    {.name = "granite",
     .tied = true,
     .keys = "embedding_scale=6.0;residual_scale=0.4;attention.scale=0.3;logit_scale=1.7"},
    {.name = "granite-norope",
     .arch = "granite",
     .keys = "embedding_scale=6.0;residual_scale=0.4;attention.scale=0.3;logit_scale=1.7;"
             "rope.scaling.finetuned=false"},
    {.name = "granitemoe",
     .tied = true,
     EXPERTS,
     .shared = 32,
     .keys = "embedding_scale=6.0;residual_scale=0.4;attention.scale=0.3;logit_scale=1.7;"
             "expert_shared_feed_forward_length=32"},
    {.name = "smollm3", .layers = 4},
    {.name = "mistral3",
     .keys = "rope.scaling.type=yarn;rope.scaling.factor=4.0;rope.scaling.original_context_length=12;"
             "attention.temperature_scale=0.5;rope.scaling.yarn_log_multiplier=0.8;"
             "rope.scaling.yarn_beta_fast=0.8;rope.scaling.yarn_beta_slow=0.5;rope.freq_base=4.0"},
    {.name = "command-r",
     .ln = true,
     .inner = "",
     .tied = true,
     .qk = 'e',
     .no_length = true,
     .keys = "logit_scale=0.6"},
    {.name = "cohere2",
     .ln = true,
     .inner = "",
     .tied = true,
     .no_length = true,
     .layers = 4,
     .keys = "logit_scale=0.6;attention.sliding_window=6"},
    {.name = "starcoder2",
     .ln = true,
     .norm_bias = true,
     .qkv_bias = true,
     .out_bias = true,
     .ffn_bias = true,
     .ffn = 'p',
     .no_length = true},
    {.name = "glm4", .post = true, .ffn = 'f', .qkv_bias = true, .rotated = 4},
    {.name = "glm4moe",
     .qkv_bias = true,
     .qk = 'h',
     .inner = "post_attention_norm",
     .rotated = 4,
     EXPERTS,
     .dense = 1,
     .shared = 24,
     .choice_bias = true,
     .keys = "expert_weights_scale=1.5;expert_weights_norm=true;expert_gating_func=2"},
    {.name = "gpt-oss",
     .qkv_bias = true,
     .out_bias = true,
     .inner = "post_attention_norm",
     EXPERTS,
     .expert_bias = true,
     .sinks = true,
     .keys = YARN ";attention.sliding_window=6;rope.freq_base=150000.0"},
    {.name = "deepseek2",
     .latent = 'f',
     .head = 14,
     .rotated = 6,
     .value = 10,
     EXPERTS,
     .dense = 1,
     .shared = 48,
     .choice_bias = true,
     .fused_experts = true,
     .groups = 3,
     .keys = YARN ";rope.scaling.yarn_log_multiplier=0.0707;expert_weights_scale=2.5;"
                  "expert_weights_norm=true;expert_gating_func=2;expert_group_count=3;"
                  "expert_group_used_count=2;attention.temperature_scale=0.5;attention.temperature_length=5"},
    {.name = "deepseek2-lite",
     .arch = "deepseek2",
     .latent = 'u',
     .layers = 27,
     .width = 24,
     .head = 14,
     .rotated = 6,
     .value = 10,
     EXPERTS,
     .dense = 1,
     .shared = 48,
     .keys = "expert_weights_scale=1.5"},
    {.name = "stablelm", .ln = true, .norm_bias = true, .qkv_bias = true, .no_length = true, .rotated = 4},
    {.name = "stablelm-12b",
     .arch = "stablelm",
     .ln = true,
     .norm_bias = true,
     .no_length = true,
     .rotated = 4,
     .qk = 'e',
     .inner = ""},
    {.name = "phi2",
     .ln = true,
     .norm_bias = true,
     .qkv_bias = true,
     .out_bias = true,
     .ffn_bias = true,
     .logit_bias = true,
     .ffn = 'p',
     .inner = "",
     .no_length = true,
     .rotated = 4,
     .kv = 4},
    {.name = "falcon",
     .ln = true,
     .norm_bias = true,
     .fused_qkv = true,
     .ffn = 'p',
     .inner = "",
     .no_length = true,
     .kv = 1},
    {.name = "falcon-40b",
     .arch = "falcon",
     .ln = true,
     .norm_bias = true,
     .fused_qkv = true,
     .ffn = 'p',
     .inner = "attn_norm_2",
     .no_length = true},
    {.name = "gptneox",
     .ln = true,
     .norm_bias = true,
     .qkv_bias = true,
     .out_bias = true,
     .ffn_bias = true,
     .fused_qkv = true,
     .ffn = 'p',
     .no_length = true,
     .kv = 4,
     .rotated = 4,
     .keys = "use_parallel_residual=true"},
    {.name = "gptneox-serial",
     .arch = "gptneox",
     .ln = true,
     .norm_bias = true,
     .qkv_bias = true,
     .out_bias = true,
     .ffn_bias = true,
     .fused_qkv = true,
     .ffn = 'p',
     .no_length = true,
     .kv = 4,
     .rotated = 4,
     .keys = "use_parallel_residual=false"},
    {.name = "internlm2", .no_length = true},
    {.name = "exaone4",
     .no_pre = true,
     .inner = "",
     .post = true,
     .qk = 'h',
     .tied = true,
     .factors = 'f',
     .no_length = true},
    {.name = "exaone4-64",
     .arch = "exaone4",
     .no_pre = true,
     .inner = "",
     .post = true,
     .qk = 'h',
     .layers = 64,
     .width = 16,
     .heads = 2,
     .kv = 1,
     .head = 8,
     .ff = 16,
     .no_length = true,
     .keys = "attention.sliding_window=6"},
    {.name = "ernie4_5", .tied = true},
    {.name = "hunyuan-dense", .qk = 'h', .tied = true, .keys = "rope.scaling.alpha=50.0"},
    {.name = "seed_oss", .qkv_bias = true, .inner = "post_attention_norm"},
    {.name = "olmoe", .qk = 'f', .no_length = true, .kv = 4, EXPERTS},
    {.name = "exaone", .factors = 'f'},
    {.name = "arcee", .ffn = 'p'},
    {.name = "minicpm", .tied = true, .keys = "embedding_scale=6.0;residual_scale=0.4;logit_scale=1.7"},
    {.name = "minicpm-plain", .arch = "minicpm", .tied = true},
    {.name = "phimoe",
     .norm_bias = true,
     .qkv_bias = true,
     .out_bias = true,
     .logit_bias = true,
     .factors = 'l',
     .no_length = true,
     EXPERTS,
     .keys = "rope.scaling.original_context_length=300"},
};

const variant *variant_at(size_t i) {
    size_t n = sizeof variants / sizeof *variants;
    if (i < n) return &variants[i];
    const variant *others[] = {variants_more, variants_mixers, variants_newer, variants_encoders};
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        for (const variant *v = others[k]; v->name; v++, n++)
            if (n == i) return v;
    return NULL;
}

const variant *variant_named(const char *name) {
    const variant *v = NULL;
    for (size_t i = 0; (v = variant_at(i)); i++)
        if (!strcmp(v->name, name)) return v;
    fail_msg("no variant %s", name);
    return NULL;
}

const char *variant_arch(const variant *v) { return v->arch ? v->arch : v->name; }

uint32_t variant_id(size_t i) { return (uint32_t)((i * i * 7 + i * 31 + i / 3) % VARIANT_VOCABULARY); }

/* ---- metadata ---- */

/* Sets a key to a list of integers, of numbers with a point, or of true and false, as the first one reads;
 * after "l:", of 64-bit integers. */
static void set_list(model *m, const char *key, const char *text) {
    enum { MOST = 48 };
    uint32_t whole[MOST], n = 0;
    float numbers[MOST];
    uint64_t longs[MOST];
    uint8_t truths[MOST];
    bool is_long = text[0] == 'l' && text[1] == ':';
    if (is_long) text += 2;
    uint32_t type = is_long                        ? GGUF_U64
                    : *text == 't' || *text == 'f' ? GGUF_BOOL
                    : strchr(text, '.')            ? GGUF_FLOAT32
                                                   : GGUF_U32;
    for (const char *at = text; n < MOST; at = strpbrk(at, ",]") + 1, n++) {
        truths[n] = *at == 't', numbers[n] = strtof(at, NULL), whole[n] = (uint32_t)strtoul(at, NULL, 10);
        longs[n] = strtoull(at, NULL, 10);
        if (*strpbrk(at, ",]") == ']') break;
    }
    model_set_array(m, key, type,
                    is_long                ? (const void *)longs
                    : type == GGUF_BOOL    ? (const void *)truths
                    : type == GGUF_FLOAT32 ? (const void *)numbers
                                           : (const void *)whole,
                    n + 1);
}

/* Sets a key to an integer (u), a number with a point (f), true or false (b), or a text (s), as `text` reads;
 * "u:", "f:", "b:" or "s:" before it fixes the type. */
static void set_one(model *m, const char *key, const char *text) {
    char type = text[0] && text[1] == ':' ? text[0] : 0;
    if (*text == '[') {
        set_list(m, key, text + 1);
        return;
    }
    if (type) text += 2;
    if (!type) {
        bool number = strspn(text, "-0123456789.") == strlen(text);
        type = number                                            ? (strchr(text, '.') ? 'f' : 'u')
               : !strcmp(text, "true") || !strcmp(text, "false") ? 'b'
                                                                 : 's';
    }
    if (type == 'f') {
        float f = strtof(text, NULL);
        model_set(m, key, GGUF_FLOAT32, &f, 4);
    } else if (type == 'u') {
        model_set_u32(m, key, (uint32_t)strtoul(text, NULL, 10));
    } else if (type == 'b') {
        uint8_t b = !strcmp(text, "true");
        model_set(m, key, GGUF_BOOL, &b, 1);
    } else {
        model_set_string(m, key, text);
    }
}

static void set_keys(model *m, const char *arch, const char *keys, const char *without) {
    char copy[1024], *save = NULL;
    snprintf(copy, sizeof copy, "%s", keys ? keys : "");
    for (char *at = strtok_r(copy, ";", &save); at; at = strtok_r(NULL, ";", &save)) {
        char *value = strchr(at, '='), key[256];
        *value++ = 0;
        if (without && !strcmp(at, without)) continue;
        snprintf(key, sizeof key, "%s.%s", arch, at);
        set_one(m, *at == ':' ? at + 1 : key, value);
    }
}

void variant_set(model *m, const char *arch, const char *keys) { set_keys(m, arch, keys, NULL); }

/* ---- tensors ---- */

typedef struct maker {
    model *m;
    variant v; /* with all sizes filled in */
    uint32_t type;
    uint64_t random;
    int layer;         /* -1: tensors of the whole model */
    const char *coder; /* before the names of a layer's tensors; NULL: nothing */
    bool crosses;
} maker;

enum { DISTANCES = 12 }; /* relative position buckets of t5's heads */

static float uniform(uint64_t *random, float low, float high) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (float)(*random >> 40) * 0x1p-24f;
}

void variant_add(model *m, uint64_t *random, const char *name, uint32_t type, const uint64_t ne[4], float low,
                 float high) {
    uint64_t n = 1;
    for (int i = 0; i < 4; i++) n *= ne[i] ? ne[i] : 1;
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (uint64_t i = 0; i < n; i++) x[i] = uniform(random, low, high);
    model_add(m, name, type, ne, x);
    free(x);
}

static void add(maker *k, const char *name, uint32_t type, uint64_t a, uint64_t b, uint64_t c, float low,
                float high) {
    char full[128];
    if (k->coder && !strcmp(name, "attn_output.weight")) name = "attn_o.weight";
    if (k->layer < 0)
        snprintf(full, sizeof full, "%s", name);
    else
        snprintf(full, sizeof full, "%sblk.%d.%s%s", k->coder ? k->coder : "", k->layer,
                 k->crosses && !strncmp(name, "attn_", 5) ? "cross_" : "", name);
    variant_add(k->m, &k->random, full, type, (uint64_t[4]){a, b, c, 0}, low, high);
}

static void named(maker *k, const char *name, const char *what, uint32_t type, uint64_t a, uint64_t b,
                  uint64_t c, float low, float high) {
    char full[96];
    snprintf(full, sizeof full, "%s.%s", name, what);
    add(k, full, type, a, b, c, low, high);
}

/* Outputs of about `gain` times the inputs' size. */
static void matrix(maker *k, const char *name, uint64_t in, uint64_t out, uint64_t n, float gain) {
    float most = gain * sqrtf(3.0f / (float)in);
    named(k, name, "weight", k->type, in, out, n, -most, most);
}
static void bias(maker *k, const char *name, uint64_t n, uint64_t matrices, bool there) {
    if (there) named(k, name, "bias", GGUF_F32, n, matrices, 0, -0.5f, 0.5f);
}
static void norm(maker *k, const char *name) {
    if (k->v.no_norms) return;
    named(k, name, "weight", GGUF_F32, k->v.width, 0, 0, 0.5f, 1.5f);
    if (k->v.norm_bias) named(k, name, "bias", GGUF_F32, k->v.width, 0, 0, -0.3f, 0.3f);
}

static void add_latent(maker *k) {
    enum { LOW = 20 };
    const variant *v = &k->v;
    bool is_local = k->layer < 32 && v->local >> k->layer & 1;
    uint32_t latent = is_local ? 8 : 12, head = is_local ? 16 : v->head, value = is_local ? 8 : v->value;
    uint32_t plain = head - v->rotated;
    if (v->latent != 'u') {
        matrix(k, "attn_q_a", v->width, LOW, 0, 1);
        named(k, "attn_q_a_norm", "weight", GGUF_F32, LOW, 0, 0, 0.5f, 1.5f);
        matrix(k, "attn_q_b", LOW, v->heads * head, 0, 1.4f);
    } else {
        matrix(k, "attn_q", v->width, v->heads * head, 0, 1.4f);
    }
    matrix(k, "attn_kv_a_mqa", v->width, latent + v->rotated, 0, 1);
    named(k, "attn_kv_a_norm", "weight", GGUF_F32, latent, 0, 0, 0.5f, 1.5f);
    if (v->latent == 'f') {
        matrix(k, "attn_k_b", plain, latent, v->heads, 1);
        matrix(k, "attn_v_b", latent, value, v->heads, 1);
    } else {
        matrix(k, "attn_kv_b", latent, v->heads * (plain + value), 0, 1);
    }
}

/* One key for all heads, compressed keys by attention.compress_ratios, and groups of heads. */
static void add_compressor(maker *k, const char *prefix, uint32_t ratio, uint32_t head) {
    static const char *const names[] = {"compressor_kv", "compressor_gate"};
    uint32_t rows = ratio == 4 ? 2 * head : head;
    char name[64];
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, names[i]);
        matrix(k, name, k->v.width, rows, 0, 1.5f);
    }
    snprintf(name, sizeof name, "%scompressor_ape", prefix);
    named(k, name, "weight", GGUF_F32, rows, ratio, 0, -0.5f, 0.5f);
    snprintf(name, sizeof name, "%scompressor_norm", prefix);
    named(k, name, "weight", GGUF_F32, head, 0, 0, 0.5f, 1.5f);
}

static void add_compressed(maker *k) {
    enum { LOW = 20, GROUPS = 2, GROUP_ROWS = 6, INDEXER_HEADS = 12, INDEXER_HEAD = 64 };
    static const uint32_t ratios[] = {4, 0, 128, 4, 0};
    const variant *v = &k->v;
    uint32_t all = v->heads * v->head, ratio = ratios[k->layer];
    matrix(k, "attn_q_a", v->width, LOW, 0, 1);
    named(k, "attn_q_a_norm", "weight", GGUF_F32, LOW, 0, 0, 0.5f, 1.5f);
    matrix(k, "attn_q_b", LOW, all, 0, 1.4f);
    matrix(k, "attn_kv", v->width, v->head, 0, 1);
    named(k, "attn_kv_a_norm", "weight", GGUF_F32, v->head, 0, 0, 0.5f, 1.5f);
    named(k, "attn_sinks", "weight", GGUF_F32, v->heads, 0, 0, -1, 3);
    matrix(k, "attn_output_a", all / GROUPS, GROUPS * GROUP_ROWS, 0, 1);
    matrix(k, "attn_output_b", GROUPS * GROUP_ROWS, v->width, 0, 1);
    if (ratio) add_compressor(k, "attn_", ratio, v->head);
    if (ratio != 4) return;
    add_compressor(k, "indexer_", ratio, INDEXER_HEAD);
    matrix(k, "indexer.attn_q_b", LOW, INDEXER_HEADS * INDEXER_HEAD, 0, 1);
    matrix(k, "indexer.proj", v->width, INDEXER_HEADS, 0, 1);
}

/* A table of the experts that each token id has. */
static void add_expert_table(maker *k) {
    const variant *v = &k->v;
    enum { MOST_USED = 4 };
    char name[64];
    float ids[VARIANT_VOCABULARY * MOST_USED];
    for (size_t i = 0; i < VARIANT_VOCABULARY; i++)
        for (uint32_t j = 0; j < v->used; j++)
            ids[i * v->used + j] = (float)((i * 7 + i / 5 + j * (1 + i % (v->experts - 1))) % v->experts);
    snprintf(name, sizeof name, "blk.%d.ffn_gate_tid2eid.weight", k->layer);
    model_add(k->m, name, GGUF_I32, (uint64_t[4]){v->used, VARIANT_VOCABULARY, 0, 0}, ids);
}

static void add_attention(maker *k) {
    const variant *v = &k->v;
    if (v->latent == 'c') {
        add_compressed(k);
        return;
    }
    uint32_t q = v->heads * v->head, n = v->kv * v->head, values = v->kv * v->value;
    bool has_kv = !v->own_kv || k->layer < (int)v->own_kv;
    if (v->latent) {
        add_latent(k);
    } else if (v->fused_qkv) {
        matrix(k, "attn_qkv", v->width, q + n + values, 0, 1.2f);
        bias(k, "attn_qkv", q + n + values, 0, v->qkv_bias);
    } else {
        uint32_t q_and_gate = v->gated_q ? 2 * q : q;
        matrix(k, "attn_q", v->width, q_and_gate, 0, 1.4f), bias(k, "attn_q", q_and_gate, 0, v->qkv_bias);
        if (has_kv) matrix(k, "attn_k", v->width, n, 0, 1.4f), bias(k, "attn_k", n, 0, v->qkv_bias);
        bool no_v = k->layer < 32 && v->no_v >> k->layer & 1; /* a bit for each of the first layers */
        if (has_kv && !no_v)
            matrix(k, "attn_v", v->width, values, 0, 1), bias(k, "attn_v", values, 0, v->qkv_bias);
    }
    for (int i = 0; v->qk && i < (has_kv && v->qk != 's' ? 2 : 1); i++) {
        uint32_t heads = i ? v->kv : v->heads;
        named(k, i ? "attn_k_norm" : "attn_q_norm", "weight", GGUF_F32,
              v->qk == 'f'   ? heads * v->head
              : v->qk == 's' ? 1
                             : v->head,
              v->qk == 'e' || v->qk == 's' ? heads : 0, 0, 0.8f, 1.6f);
    }
    bool is_local = k->layer < 32 && v->local >> k->layer & 1;
    matrix(k, "attn_output", v->heads * (is_local ? 8 : v->value), v->width, 0, 1);
    bias(k, "attn_output", v->width, 0, v->out_bias);
    if (v->gate) matrix(k, "attn_gate", v->width, v->heads * (v->gate == 'h' ? 1 : v->value), 0, 1.5f);
    if (v->sinks && !(v->no_sinks >> k->layer & 1))
        named(k, "attn_sinks", "weight", GGUF_F32, v->heads, 0, 0, -1, 3);
}

static void add_experts(maker *k) {
    const variant *v = &k->v;
    float router = 1.5f * sqrtf(3.0f / (float)v->width);
    named(k, "ffn_gate_inp", "weight", GGUF_F32, v->width, v->experts, 0, -router, router);
    bias(k, "ffn_gate_inp", v->experts, 0, v->expert_bias);
    if (k->layer < (int)v->tables)
        add_expert_table(k);
    else if (v->choice_bias)
        add(k, v->bare_choice ? "exp_probs_b" : "exp_probs_b.bias", GGUF_F32, v->experts, 0, 0, -0.3f, 0.3f);
    uint32_t in = v->latents ? v->latents : v->width;
    if (v->latents) {
        matrix(k, v->routed_names ? "ffn_routed_down" : "ffn_latent_down", v->width, in, 0, 1);
        matrix(k, v->routed_names ? "ffn_routed_up" : "ffn_latent_up", in, v->width, 0, 1);
        if (v->routed_names) named(k, "ffn_routed_norm", "weight", GGUF_F32, in, 0, 0, 0.5f, 1.5f);
    }
    if (v->fused_experts) {
        matrix(k, "ffn_gate_up_exps", v->width, 2 * v->ff, v->experts, 1.7f);
    } else {
        if (!v->plain_experts) matrix(k, "ffn_gate_exps", in, v->ff, v->experts, 1.7f);
        matrix(k, "ffn_up_exps", in, v->ff, v->experts, 1.7f);
        bias(k, "ffn_gate_exps", v->ff, v->experts, v->expert_bias);
        bias(k, "ffn_up_exps", v->ff, v->experts, v->expert_bias);
    }
    matrix(k, "ffn_down_exps", v->ff, in, v->experts, 1.7f);
    bias(k, "ffn_down_exps", v->width, v->experts, v->expert_bias);
    if (!v->shared) return;
    if (v->shared_gate) matrix(k, "ffn_gate_inp_shexp", v->width, 0, 0, 1.5f);
    if (!v->fused_shared && !v->plain_experts) matrix(k, "ffn_gate_shexp", v->width, v->shared, 0, 1.5f);
    matrix(k, "ffn_up_shexp", v->width, v->fused_shared ? 2 * v->shared : v->shared, 0, 1.5f);
    matrix(k, "ffn_down_shexp", v->shared, v->width, 0, 1.5f);
}

static void add_channel_mix(maker *k) {
    const variant *v = &k->v;
    named(k, "channel_mix_lerp_k", "weight", GGUF_F32, v->width, 0, 0, 0, 1);
    matrix(k, "channel_mix_key", v->width, v->ff, 0, 1.5f),
        matrix(k, "channel_mix_value", v->ff, v->width, 0, 1);
    if (v->ffn == 'n') return;
    named(k, "channel_mix_lerp_r", "weight", GGUF_F32, v->width, 0, 0, 0, 1);
    matrix(k, "channel_mix_receptance", v->width, v->width, 0, 1.5f);
}

static void add_ffn(maker *k) {
    const variant *v = &k->v;
    if (v->ffn == 'c' || v->ffn == 'n') {
        add_channel_mix(k);
        return;
    }
    uint32_t up = v->ffn == 'f' ? 2 * v->ff : v->ff;
    if (v->ffn == 'r' && k->layer >= (int)v->dense && (!v->step || (k->layer + 1) % (int)v->step == 0)) {
        add_experts(k);
        if (!v->dense_too) return;
    }
    if (v->ffn != 'p' && v->ffn != 'f' && !v->plain_experts)
        matrix(k, "ffn_gate", v->width, v->ff, 0, 1.5f), bias(k, "ffn_gate", v->ff, 0, v->ffn_bias);
    matrix(k, "ffn_up", v->width, up, 0, 1.5f), bias(k, "ffn_up", up, 0, v->ffn_bias);
    matrix(k, "ffn_down", v->ff, v->width, 0, 1.5f), bias(k, "ffn_down", v->width, 0, v->ffn_bias);
}

/* The norms of the parts' outputs. */
static void add_norms_after(maker *k) {
    static const char *const names[] = {"post_attention_norm", "post_ffw_norm"};
    for (int i = 0; i < 2 && (k->v.post || k->v.post_names[0]); i++) {
        if (k->v.post_names[0])
            norm(k, k->v.post_names[i]);
        else if (k->v.bare_norms)
            add(k, names[i], GGUF_F32, k->v.width, 0, 0, 0.5f, 1.5f);
        else
            norm(k, names[i]);
    }
}

/* Tensors that a variant lists: small ones, and matrices, whose values may have a bound after '@'. Some
 * matrices keep their type in all models. */
static void add_listed(maker *k, const char *list) {
    char copy[1024], *save = NULL;
    snprintf(copy, sizeof copy, "%s", list ? list : "");
    for (char *at = strtok_r(copy, ";", &save); at; at = strtok_r(NULL, ";", &save)) {
        uint64_t ne[3] = {0};
        char *size = strchr(at, '='), *bound = strchr(at, '@');
        *size++ = 0;
        for (int i = 0; i < 3 && size; i++) {
            ne[i] = strtoul(size, &size, 10);
            size = *size == 'x' ? size + 1 : NULL;
        }
        float most = bound ? strtof(bound + 1, NULL) : sqrtf(3.0f / (float)ne[0]);
        bool is_kept =
            k->layer < 0 || !strstr(at, ".weight") || strstr(at, "altup_") || strstr(at, "laurel_");
        if (ne[1])
            add(k, at, is_kept ? GGUF_F32 : k->type, ne[0], ne[1], ne[2], -most, most);
        else
            add(k, at, GGUF_F32, ne[0], 0, 0, strstr(at, "_score") ? -0.3f : 0.5f,
                strstr(at, "_score") ? 0.3f : 1.5f);
    }
}

/* The layer's own sizes, where they differ from layer to layer. */
static void choose_sizes(maker *k) {
    variant *v = &k->v;
    if (*v->heads_at) v->heads = v->heads_at[k->layer];
    if (*v->head_at) v->head = v->value = v->head_at[k->layer];
    if (*v->kv_at) v->kv = v->kv_at[k->layer];
    if (*v->ff_at) v->ff = v->ff_at[k->layer];
}

/* A list of such sizes instead of a number. */
static void set_sizes(maker *k, const char *arch, const char *name, const uint8_t *sizes) {
    uint32_t list[6];
    char key[128];
    if (!*sizes) return;
    snprintf(key, sizeof key, "%s.%s", arch, name);
    for (size_t i = 0; i < k->v.layers; i++) list[i] = sizes[i];
    model_set_array(k->m, key, GGUF_U32, list, k->v.layers);
}

/* The blocks of an encoder, or of the decoder that reads its output. */
static void add_coder(maker *k, const char *coder, uint32_t blocks) {
    const variant *v = &k->v;
    k->coder = coder;
    for (k->layer = 0; k->layer < (int)blocks; k->layer++) {
        for (int i = 0; i < (*coder == 'd' ? 2 : 1); i++) {
            k->crosses = i;
            norm(k, "attn_norm");
            add_attention(k);
            if (k->layer == 0 || v->own_distances)
                named(k, "attn_rel_b", "weight", GGUF_F32, v->heads, DISTANCES, 0, -1, 1);
        }
        k->crosses = false;
        norm(k, "ffn_norm");
        add_ffn(k);
    }
    k->coder = NULL;
}

static void add_tensors(maker *k) {
    const variant *v = &k->v;
    k->layer = -1;
    matrix(k, "token_embd", v->width, v->vocabulary, 0, 1);
    if (!v->tied) matrix(k, "output", v->width, v->vocabulary, 0, 2);
    bias(k, "output", VARIANT_VOCABULARY, 0, v->logit_bias);
    if (!v->last || *v->last) norm(k, v->last ? v->last : "output_norm");
    add_listed(k, v->extra_model);
    if (v->embedding_norm) norm(k, "token_embd_norm");
    if (v->positions)
        named(k, "position_embd", "weight", GGUF_F32, v->width, VARIANT_POSITIONS, 0, -0.3f, 0.3f);
    if (v->factors == 'f') add(k, "rope_freqs.weight", GGUF_F32, v->rotated / 2, 0, 0, 1, 8);
    if (v->factors == 'l') add(k, "rope_factors_long.weight", GGUF_F32, v->rotated / 2, 0, 0, 1, 30);
    if (v->factors == 'l') add(k, "rope_factors_short.weight", GGUF_F32, v->rotated / 2, 0, 0, 1, 2);
    if (v->coders) add_coder(k, "enc.", v->layers);
    if (v->coders == 'b') add_coder(k, "dec.", v->decoders);
    for (k->layer = 0; k->layer < (v->coders ? 0 : (int)v->layers); k->layer++) {
        char mixer = v->mixers ? v->mixers[k->layer] : 'a';
        bool is_ffn_alone = mixer == 'n' && !v->one_sublayer;
        if (!v->no_pre && !(v->no_first && k->layer == 0) && !is_ffn_alone) norm(k, "attn_norm");
        choose_sizes(k);
        if (mixer == 'a' || v->beside) add_attention(k);
        if (mixer != 'a' && mixer != 'n')
            variant_add_mixer(&(variant_layer){k->m, &k->random, k->layer, k->type}, v->width, mixer);
        if (v->one_sublayer && mixer != 'n') continue;
        add_norms_after(k);
        add_listed(k, v->extra);
        if (k->layer < 32 && v->extra_at >> k->layer & 1)
            add_listed(k, "indexer.attn_q_b.weight=20x768;indexer.attn_k.weight=32x64;"
                          "indexer.proj.weight=32x12;indexer.k_norm.weight=64;indexer.k_norm.bias=64");
        if (k->layer < 32 && v->no_rotation && v->extra_at >> k->layer & 1)
            add_listed(k, "indexer_compressor_gate.weight=32x64@0.6;indexer_compressor_ape.weight=64x4@0.5");
        if (!v->ff) continue;
        if (!v->one_sublayer && (!v->inner || *v->inner)) norm(k, v->inner ? v->inner : "ffn_norm");
        add_ffn(k);
    }
    k->layer = -1;
    add_listed(k, v->extra_last);
}

/* ---- together ---- */

static void fill_in(variant *v) {
#define FILL(member, value) v->member = v->member ? v->member : (value)
    FILL(layers, 2), FILL(width, 32), FILL(heads, 4), FILL(kv, 2);
    FILL(head, v->width / v->heads), FILL(value, v->head), FILL(rotated, v->head), FILL(ff, 40);
    FILL(vocabulary, VARIANT_VOCABULARY);
#undef FILL
}

model *variant_model(const variant *given, uint32_t type, const char *without) {
    maker k = {.v = *given, .type = type};
    char keys[1024];
    const char *arch = variant_arch(given);
    fill_in(&k.v);
    if (given->no_rotation) k.v.rotated = 0;
    const variant *v = &k.v;
    for (const char *c = v->name; *c; c++) k.random = k.random * 31 + (uint8_t)*c;
    k.m = model_new(arch, v->layers);
    snprintf(keys, sizeof keys,
             "context_length=%u;embedding_length=%u;feed_forward_length=%u;attention.head_count=%u;"
             "attention.head_count_kv=%u;rope.dimension_count=%u;vocab_size=%u;"
             "attention.layer_norm_%sepsilon=0.00001",
             v->positions ? (unsigned)VARIANT_POSITIONS : 4096u, v->width, v->ff, v->heads,
             v->latent == 'f' ? 1 : v->kv, v->rotated, v->vocabulary, v->ln ? "" : "rms_");
    variant_set(k.m, arch, keys);
    set_sizes(&k, arch, "attention.head_count", v->heads_at);
    set_sizes(&k, arch, "attention.head_count_kv", v->kv_at);
    set_sizes(&k, arch, "feed_forward_length", v->ff_at);
    if (v->latent == 'f')
        snprintf(keys, sizeof keys,
                 "attention.q_lora_rank=20;attention.kv_lora_rank=12;attention.key_length=%u;"
                 "attention.value_length=12;attention.key_length_mla=%u;attention.value_length_mla=%u",
                 12 + v->rotated, v->head, v->value);
    else
        snprintf(keys, sizeof keys, "attention.key_length=%u;attention.value_length=%u%s", v->head, v->value,
                 v->latent ? ";attention.kv_lora_rank=12" : "");
    if (!v->no_length) variant_set(k.m, arch, keys);
    if (v->experts) {
        snprintf(keys, sizeof keys, "expert_count=%u;expert_used_count=%u;leading_dense_block_count=%u",
                 v->experts, v->used, v->dense);
        variant_set(k.m, arch, keys);
        /* where feed_forward_length is that of all experts used */
        snprintf(keys, sizeof keys, "expert_feed_forward_length=%u%s", v->ff,
                 v->shared ? ";expert_shared_feed_forward_length=" : "");
        if (v->shared) snprintf(keys + strlen(keys), sizeof keys - strlen(keys), "%u", v->shared);
        if (arch_named(arch)->graph.experts_share) variant_set(k.m, arch, keys);
        snprintf(keys, sizeof keys, "expert_feed_forward_length=%u", v->ff);
        if (arch_named(arch)->graph.experts_are_ffn &&
            arch_makes_key(arch_named(arch), "expert_feed_forward_length"))
            set_keys(k.m, arch, keys, without);
        if (v->shared && arch_makes_key(arch_named(arch), "expert_shared_count"))
            set_keys(k.m, arch, "expert_shared_count=1", without);
        snprintf(keys, sizeof keys, "expert_latent_length=%u", v->latents);
        if (v->latents && arch_makes_key(arch_named(arch), "expert_latent_length"))
            set_keys(k.m, arch, keys, without);
    }
    if (v->latent == 'q' || v->latent == 'c') set_keys(k.m, arch, "attention.q_lora_rank=20", without);
    model_set_string(k.m, "tokenizer.ggml.model", "none");
    if (v->mask) model_set_u32(k.m, "tokenizer.ggml.mask_token_id", v->mask);
    set_keys(k.m, arch, v->keys, without);
    add_tensors(&k);
    return k.m;
}
