/* Compares a model that is not run with what its architecture's row expects. Names and shapes are those that
 * running it looks for, in the same functions (tensors.c); here is what is asked beyond that: numbers of rows
 * that running a model takes from its tensors, the vocabulary, the blocks that predict more tokens and are
 * not run, and optional tensors that only some layers of a kind have. */
#include "forward/graph/sublayer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "forward/graph/unrun.h"
#include "forward/tokens/tokenizer.h"

/* A part of a model lacks so much that nothing is doubted of it. */
#define DOUBT(f, ...) \
    ((f)->ok = (f)->ok && (state_of(f)->kind != WHOLE_MODEL || \
                           warnings_add((f)->m->expected->doubts, (f)->e, __VA_ARGS__)))

/* Counts of an optional tensor among layers with the same sublayer. */
typedef struct expected_count {
    size_t has, lacks, first; /* first: the number of the first layer that lacks it */
} expected_count;
enum { LAYER_KINDS = MODEL_SUBLAYERS + 1 };

#define EXPERT_LENGTH "expert_feed_forward_length"
#define FFN_LENGTH "feed_forward_length"
#define SHARED_LENGTH "expert_shared_feed_forward_length"
/* Keys that say how many rows weights have, or of how many such parts their rows are. Of a weight's rows the
 * first whose key the model has counts. */
static const struct {
    weight_slot slot;
    const char *key;
    uint64_t parts;
    const char *times; /* NULL, or a key whose number is a factor */
} expected_rows[] = {
    {WEIGHT_FFN_UP, FFN_LENGTH, 1, NULL},
    {WEIGHT_CHANNEL_MIX_KEY, FFN_LENGTH, 1, NULL},
    {WEIGHT_FFN_UP_EXPS, EXPERT_LENGTH, 1, NULL},
    {WEIGHT_FFN_UP_EXPS, FFN_LENGTH, 1, NULL},         /* a share of it with arch_graph.experts_share */
    {WEIGHT_FFN_GATE_UP_EXPS, EXPERT_LENGTH, 2, NULL}, /* gate and up in one */
    {WEIGHT_FFN_GATE_UP_EXPS, FFN_LENGTH, 2, NULL},
    {WEIGHT_FFN_UP_SHEXP, SHARED_LENGTH, 1, "expert_shared_count"}, /* with arch_graph.shared_is_each */
    {WEIGHT_FFN_UP_SHEXP, EXPERT_LENGTH, 1, "expert_shared_count"},
    {WEIGHT_FFN_UP_CHEXPS, "expert_chunk_feed_forward_length", 1, NULL},
    {WEIGHT_FFN_LATENT_DOWN, "moe_latent_size", 1, NULL},
    {WEIGHT_FFN_ROUTED_DOWN, "expert_latent_length", 1, NULL},
    {WEIGHT_ATTN_Q_A, "attention.q_lora_rank", 1, NULL},
    {WEIGHT_TIME_MIX_W1, "time_mix_extra_dim", 5, NULL}, /* of decays, keys, values, queries and gates */
    {WEIGHT_TIME_MIX_DECAY_W1, "time_decay_extra_dim", 1, NULL},
    {WEIGHT_TIME_MIX_W1, "attention.decay_lora_rank", 1, NULL},
    {WEIGHT_TIME_MIX_A1, "attention.iclr_lora_rank", 1, NULL},
    {WEIGHT_TIME_MIX_V1, "attention.value_residual_mix_lora_rank", 1, NULL},
    {WEIGHT_TIME_MIX_G1, "attention.gate_lora_rank", 1, NULL},
};
enum { EXPECTED_ROWS = sizeof expected_rows / sizeof *expected_rows };

/* The kind of model that a file claims to be. */
typedef enum expected_kind {
    WHOLE_MODEL,
    PART_OF_MODEL, /* some tensors, as its metadata say */
    MTP_LAYERS     /* the blocks behind the layers, without these */
} expected_kind;

typedef struct expected_state {
    expected_kind kind;
    size_t lacks; /* tensors of a part, of those that are needed */
    model_facts facts;
    key_list length_of[EXPECTED_ROWS], factor_of[EXPECTED_ROWS];
    expected_count count_of[LAYER_KINDS][WEIGHT_SLOTS][2]; /* weights, biases */
} expected_state;

static expected_state *state_of(const tensor_finder *f) { return f->hooks->own; }

static bool name_is_of_ffn(const char *rest) {
    return strncmp(rest, "ffn_", 4) == 0 || strncmp(rest, "exp_probs", 9) == 0;
}

/* ---- what is asked while tensors are looked for ---- */

/* Whether a layer has its experts one by one, as old files do: blk.0.ffn_up.0.weight. */
static bool has_single_experts(const tensor_finder *f, const char *name) {
    char single[GGUF_MAX_NAME + 1];
    const char *at = strstr(name, "_exps.");
    return at &&
           snprintf(single, sizeof single, "%.*s.0.weight", (int)(at - name), name) < (int)sizeof single &&
           model_tensor_named(f->m->file, single);
}

static bool expected_may_lack(tensor_finder *f, const char *name) {
    char own[TENSOR_OWN_NAME];
    expected_state *state = state_of(f);
    model_block b;
    if (has_single_experts(f, name)) return true;
    if (state->kind == PART_OF_MODEL) return state->lacks++, true;
    if (state->kind == MTP_LAYERS && model_block_leads(name, &b) && b.number < f->m->sizes.layers)
        return true;
    if (!f->m->expected->may_lack(f->m->expected->user, name)) return false;
    DOUBT(f, "there is no tensor %s%s, which every %s model has; that is allowed", name,
          tensors_own_name(f, name, own), f->m->arch->name);
    return true;
}

static const char *expected_name(const tensor_finder *f, const char *name, char other[GGUF_MAX_NAME + 1]) {
    static const char *const alternatives[][2] = {{"attn_q", "attn_qkv"},
                                                  {"attn_k_b", "attn_kv_b"},
                                                  {"ffn_gate_exps", "ffn_gate_up_exps"},
                                                  {"ffn_up_exps", "ffn_gate_up_exps"},
                                                  {"ssm_g_a", "ssm_g"}};
    const layer_spec *l = f->m->layers;
    model_block b;
    if (!model_block_leads(name, &b) || b.number >= f->m->sizes.layers) return name;
    bool is_ffn = name_is_of_ffn(b.rest);
    for (size_t i = 0; i < sizeof alternatives / sizeof *alternatives; i++) {
        size_t n = strlen(alternatives[i][0]);
        if (strncmp(b.rest, alternatives[i][0], n) != 0 || strcmp(b.rest + n, ".weight") != 0) continue;
        for (size_t k = 0; k < f->m->sizes.layers; k++) {
            snprintf(other, GGUF_MAX_NAME + 1, "blk.%zu.%s.weight", k, alternatives[i][1]);
            if (is_ffn ? l[k].ffn.sublayer != l[b.number].ffn.sublayer
                       : l[k].mixer.sublayer != l[b.number].mixer.sublayer)
                continue;
            if (!model_tensor_named(f->m->file, other)) continue;
            snprintf(other, GGUF_MAX_NAME + 1, "blk.%llu.%s.weight", (unsigned long long)b.number,
                     alternatives[i][1]);
            return other;
        }
    }
    return name;
}

/* The number that the layer has in a list; 0: there is none. */
static uint64_t layer_number(tensor_finder *f, const key_list *list) {
    key_reader r = {.facts = state_of(f)->facts, .file = f->m->path, .e = f->e, .ok = f->ok};
    uint64_t n = key_number_at(&r, list, f->index, 0, 0, MODEL_MOST);
    f->ok = r.ok;
    return n;
}

/* Whether a row's length of experts is one that readers of the architecture ignore. */
static bool experts_are_ffn(const tensor_finder *f, size_t row) {
    return f->m->arch->graph.experts_are_ffn && expected_rows[row].slot == WEIGHT_FFN_UP_EXPS &&
           strcmp(expected_rows[row].key, EXPERT_LENGTH) == 0;
}

/* Without any length llama.cpp takes 0 and refuses the tensor. */
static void require_length(tensor_finder *f, weight_slot s, const model_tensor *t) {
    const expected_state *state = state_of(f);
    bool is_ffn = false;
    for (size_t i = 0; i < EXPECTED_ROWS; i++) {
        if (expected_rows[i].slot != s || experts_are_ffn(f, i)) continue;
        if (state->length_of[i].kv) return;
        is_ffn = is_ffn || strcmp(expected_rows[i].key, FFN_LENGTH) == 0;
    }
    if (is_ffn && f->ok && state->kind != PART_OF_MODEL)
        f->ok = gq_fail_remedy(f->e, GQ_REMEDY_PART, "%s: there is no key %s.%s, though there is tensor %s",
                               f->m->path, f->m->arch->name, FFN_LENGTH, t->name);
}

static void expected_check_rows(tensor_finder *f, weight_slot s, const model_tensor *t) {
    const sublayer_kind *ffn = f->l->ffn.sublayer ? f->l->ffn.sublayer->kind : NULL;
    const expected_state *state = state_of(f);
    /* Where only the experts have a length, its size is its own. */
    if (s == WEIGHT_FFN_UP && ffn == &ffn_experts && !model_fact(&state->facts, EXPERT_LENGTH)) return;
    require_length(f, s, t);
    for (size_t i = 0; i < EXPECTED_ROWS; i++) {
        if (expected_rows[i].slot != s || !state->length_of[i].kv) continue;
        const char *times = expected_rows[i].times, *key = expected_rows[i].key;
        if (experts_are_ffn(f, i)) continue;
        uint64_t n = layer_number(f, &state->length_of[i]) * expected_rows[i].parts, found = tensor_rows(t);
        bool is_share = f->m->arch->graph.experts_share && strcmp(key, FFN_LENGTH) == 0 &&
                        (s == WEIGHT_FFN_UP_EXPS || s == WEIGHT_FFN_GATE_UP_EXPS);
        int64_t used;
        char why[128];
        if (!f->m->arch->graph.shared_is_each && strcmp(key, SHARED_LENGTH) == 0) times = NULL;
        if (times && state->factor_of[i].kv) n *= layer_number(f, &state->factor_of[i]);
        if ((s == WEIGHT_FFN_UP && ffn == &ffn_fused) ||
            (s == WEIGHT_FFN_UP_SHEXP && f->m->arch->graph.fused_shared))
            n *= 2;
        if (f->m->arch->graph.ffn_is_half) n /= 2;
        if (is_share && model_fact_int(&state->facts, "expert_used_count", &used) && used > 0)
            n /= (uint64_t)used;
        if (n == found || f->is_partial || !f->ok) return;
        snprintf(why, sizeof why, "%s.%s%s%s says", f->m->arch->name, key,
                 times      ? " times "
                 : is_share ? " shared by expert_used_count"
                            : "",
                 times ? times : "");
        tensor_shape of = {.ne = {t->ne[t->transposed ? 1 : 0], n, t->ne[2]}, .n = t->ne[2] > 1 ? 3 : 2};
        tensors_fail_shape(f, t, of, why);
        return;
    }
}

/* ---- the vocabulary and the head ---- */

/* The number of tokens by the metadata; false: not stated. */
static bool tokens_said(const model_facts *facts, uint64_t *n, const char **by) {
    uint32_t type;
    const uint8_t *elements;
    int64_t size;
    *by = "tokenizer.ggml.tokens has a token for each row";
    if (model_kv_array(model_facts_find(facts, "tokenizer.ggml.tokens"), &type, n, &elements)) return true;
    *by = "vocab_size says";
    if (!model_fact_int(facts, "vocab_size", &size) || size < 0) return false;
    *n = (uint64_t)size;
    return true;
}

/* llama.cpp takes its default in place of an id that no token has, and its converter writes such ids: those
 * of a file are doubts, which folders have reported already; one that is set is a slip. */
static void check_token_id(tensor_finder *f, const char *key, uint64_t tokens, bool is_set) {
    static const char behind[] = "_token_id";
    bool is_tokenizers = strncmp(key, "tokenizer.ggml.", 15) == 0;
    size_t n = strlen(key);
    int64_t value;
    if (!f->ok || n < sizeof behind || strcmp(key + n - (sizeof behind - 1), behind) != 0 ||
        !model_kv_int(model_facts_find(&state_of(f)->facts, key), &value) ||
        (value >= 0 && (uint64_t)value < tokens))
        return;
    if (is_set)
        f->ok = gq_fail(f->e, "%s: %s is set to %lld, but there are only %llu tokens", f->m->path, key,
                        (long long)value, (unsigned long long)tokens);
    else if (!is_tokenizers || f->m->file->version != 0 || strstr(key, ".mask_"))
        DOUBT(f, "%s is %lld, but there are %llu tokens%s", key, (long long)value, (unsigned long long)tokens,
              is_tokenizers ? ": llama.cpp takes its default instead" : "");
}

/* Whether there are more tokens only because the converter has added some up to a multiple, which vocab_size
 * does not count; a folder's tokens were compared with its vocab_size as they were read. */
static bool is_padded(const tensor_finder *f, uint64_t size, uint64_t tokens) {
    const arch_tokenizer *t = &f->m->arch->folder.tokenizer;
    if (!t->multiple || size > tokens) return false;
    return f->m->file->version == 0 || (t->exceptions & TOKENS_MULTIPLE_IS_SET) ||
           (tokens - size < t->multiple && tokens % t->multiple == 0);
}

/* Readers ignore vocab_size if there is a list of tokens. */
static void check_vocabulary_size(tensor_finder *f, uint64_t tokens) {
    const model_facts *facts = &state_of(f)->facts;
    const model_kv *kv = model_fact(facts, "vocab_size");
    int64_t size;
    if (!kv) return;
    bool is_set = model_kv_find(facts->set, facts->n_set, kv->key) == kv;
    if (!f->ok || !model_kv_int(kv, &size) || (uint64_t)size == tokens) return;
    if (is_set)
        f->ok = gq_fail(f->e, "%s: %s is set to %lld, but there are %llu tokens", f->m->path, kv->key,
                        (long long)size, (unsigned long long)tokens);
    else if (!is_padded(f, (uint64_t)size, tokens))
        DOUBT(f, "%s is %lld, but there are %llu tokens", kv->key, (long long)size,
              (unsigned long long)tokens);
}

/* Whether llama.cpp loads a model with this tokenizer though there is none to tokenize with. */
static bool tokenizer_is_others(const char *name, uint64_t n) {
    static const char *const others[] = {"none", "no_vocab", "rwkv", "plamo2", "hybriddna"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (n == strlen(others[i]) && !memcmp(name, others[i], n)) return true;
    return false;
}

/* Doubts a file whose tokenizer llama.cpp refuses, and with it the file: text models without one are published, for
 * other programs. What folders have was compared as it was read. */
static void doubt_tokenizer(tensor_finder *f) {
    const model_source *g = f->m->file;
    const model_facts *facts = &state_of(f)->facts;
    const char *name;
    uint64_t n;
    gq_error why;
    if (!f->ok || g->version == 0 || state_of(f)->kind != WHOLE_MODEL) return;
    if (!model_kv_string(model_facts_find(facts, "tokenizer.ggml.model"), &name, &n)) {
        DOUBT(f, "tokenizer.ggml.model is missing: llama.cpp refuses such a file");
        return;
    }
    if (tokenizer_is_others(name, n)) return;
    model_kv *kv = malloc((g->n_kv + facts->n_set + 1) * sizeof *kv);
    if (!kv) {
        f->ok = gq_fail_memory(f->e, (g->n_kv + facts->n_set) * sizeof *kv);
        return;
    }
    for (uint64_t i = 0; i < facts->n_set; i++) kv[i] = facts->set[facts->n_set - 1 - i];
    if (g->n_kv) memcpy(kv + facts->n_set, g->kv, g->n_kv * sizeof *kv); /* the first of a key is found */
    tokenizer *t = tokenizer_new(g->path, kv, g->n_kv + facts->n_set, &why);
    if (!t)
        DOUBT(f, "the tokenizer cannot be read, and llama.cpp refuses such a file: %s",
              model_error_behind_path(&why, g->path));
    tokenizer_free(t), free(kv);
}

static void check_vocabulary(tensor_finder *f) {
    const model_source *g = f->m->file;
    const model_tensor *t = model_tensor_named(g, "token_embd.weight");
    const model_facts *facts = &state_of(f)->facts;
    const char *by;
    uint64_t n = 0, tokens;
    bool is_said = tokens_said(facts, &n, &by);
    tokens = n ? n : t ? tensor_rows(t) : UINT64_MAX;
    if (t && is_said && n != tensor_rows(t))
        tensors_fail_shape(f, t, (tensor_shape){.ne = {t->ne[t->transposed ? 1 : 0], n}, .n = 2}, by);
    if (t && !is_said && g->version != 0)
        DOUBT(f, "there is neither tokenizer.ggml.tokens nor %s.vocab_size: llama.cpp refuses such a file",
              f->m->arch->name);
    if (tokens != UINT64_MAX) check_vocabulary_size(f, tokens);
    for (uint64_t i = 0; i < g->n_kv; i++) {
        if (!model_kv_find(facts->set, facts->n_set, g->kv[i].key))
            check_token_id(f, g->kv[i].key, tokens, false);
    }
    for (uint64_t i = 0; i < facts->n_set; i++) check_token_id(f, facts->set[i].key, tokens, true);
    doubt_tokenizer(f);
}

/* Refuses an output matrix in models with tied embeddings: no program would read it. */
static void check_head(tensor_finder *f) {
    const char *name = "output.weight";
    char own[TENSOR_OWN_NAME];
    const model_tensor *t = model_tensor_named(f->m->file, name);
    if (f->ok && !t && f->m->file->needs_head) tensors_fail_missing(f, name);
    if (f->ok && t && f->m->arch->graph.tied == TIED_MUST)
        f->ok =
            gq_fail(f->e,
                    "%s: tensor %s%s differs from token_embd.weight, which %s models use as their output "
                    "matrix (tied embeddings); remove it if the embedding is right",
                    model_file_path(f->m->file, t), name, tensors_own_name(f, name, own), f->m->arch->name);
}

/* ---- what is left over ---- */

static void doubt_others(tensor_finder *f) {
    const model_source *g = f->m->file;
    const char *first = NULL;
    uint64_t n = 0;
    model_block b;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const char *name = g->by_name[i]->name;
        if (f->taken[i] || tensors_in_extra_block(f, name, &b)) continue;
        if (n++ == 0) first = name;
    }
    if (n == 1)
        DOUBT(f, "unknown tensor %s for architecture %s; other programs may refuse the file", first,
              f->m->arch->name);
    else if (n > 1)
        DOUBT(f,
              "%llu unknown tensors for architecture %s; other programs may refuse the file; the first is %s",
              (unsigned long long)n, f->m->arch->name, first);
}

/* ---- optional tensors ---- */

static void expected_count_optional(tensor_finder *f, weight_slot s, bool is_bias, bool has) {
    const layer_spec *l = f->l;
    const sublayer_spec *p = name_is_of_ffn(weight_facts_of[s].name) ? &l->ffn : &l->mixer;
    expected_count *c = &state_of(f)->count_of[p->sublayer ? p->sublayer->at : MODEL_SUBLAYERS][s][is_bias];
    if (s == WEIGHT_ATTN_SINKS) return; /* of some models only a few layers have them */
    if (has)
        c->has++;
    else if (c->lacks++ == 0)
        c->first = f->index;
}

/* Doubts a model without a bias of queries, keys and values, which all published ones of its kind have. */
static void doubt_no_bias(tensor_finder *f) {
    const tensor_name name = tensors_layer_name(f->m, 0, WEIGHT_ATTN_Q, ".bias");
    char own[TENSOR_OWN_NAME];
    for (size_t i = 0; i < f->m->sizes.layers; i++) {
        const model_tensor *const *bias = f->m->layers[i].bias;
        if (bias[WEIGHT_ATTN_Q] || bias[WEIGHT_ATTN_K] || bias[WEIGHT_ATTN_V] || bias[WEIGHT_ATTN_QKV])
            return;
    }
    if (f->m->arch->graph.bias_is_usual)
        DOUBT(f,
              "there is no tensor %s%s, nor another bias of queries, keys and values, which %s models have",
              name.text, tensors_own_name(f, name.text, own), f->m->arch->name);
}

/* Doubts a layer in which only some of queries, keys and values have a bias. */
static void doubt_biases(tensor_finder *f) {
    static const weight_slot slots[] = {WEIGHT_ATTN_Q, WEIGHT_ATTN_K, WEIGHT_ATTN_V};
    char own[TENSOR_OWN_NAME];
    for (size_t i = 0; i < f->m->sizes.layers && f->ok; i++) {
        const layer_spec *l = &f->m->layers[i];
        weight_slot lacks = WEIGHT_SLOTS;
        bool has = false;
        for (int k = 0; k < 3; k++) {
            if (!l->weight[slots[k]]) continue;
            if (l->bias[slots[k]])
                has = true;
            else
                lacks = slots[k];
        }
        if (!has || lacks == WEIGHT_SLOTS) continue;
        const tensor_name name = tensors_layer_name(f->m, i, lacks, ".bias");
        DOUBT(f, "there is no tensor %s%s, though others of queries, keys and values have a bias", name.text,
              tensors_own_name(f, name.text, own));
        return;
    }
}

/* Doubts a layer that lacks an optional tensor which others of its kind have. */
static void doubt_optional(tensor_finder *f) {
    size_t doubts = 0;
    char own[TENSOR_OWN_NAME];
    for (size_t i = 0; i < LAYER_KINDS * WEIGHT_SLOTS * 2 && f->ok; i++) {
        weight_slot s = (weight_slot)(i / 2 % WEIGHT_SLOTS);
        const expected_count *c = &state_of(f)->count_of[i / 2 / WEIGHT_SLOTS][s][i % 2];
        if (!c->lacks || !c->has) continue;
        const tensor_name name = tensors_layer_name(f->m, c->first, s, i % 2 ? ".bias" : ".weight");
        DOUBT(f, "there is no tensor %s%s, which %zu of %zu layers like this one have", name.text,
              tensors_own_name(f, name.text, own), c->has, c->has + c->lacks);
        doubts++;
    }
    if (doubts == 0) doubt_biases(f), doubt_no_bias(f);
    if (f->m->layers[0].bias[WEIGHT_ATTN_NORM] && f->m->output_norm && !f->m->output_norm_bias)
        DOUBT(f, "there is no tensor output_norm.bias, though the norms of layers have a bias");
}

/* ---- blocks that predict more tokens ---- */

/* Most real models have one or three. More are not looked at, so that the work has a bound. */
enum { EXTRA_BLOCKS_MOST = 64 };

static const char *extra_name(size_t block, const char *rest, char name[GGUF_MAX_NAME + 1]) {
    snprintf(name, GGUF_MAX_NAME + 1, "blk.%zu.%s", block, rest);
    return name;
}

static bool extra_has(const tensor_finder *f, size_t block, const char *rest) {
    char name[GGUF_MAX_NAME + 1];
    return model_tensor_named(f->m->file, extra_name(block, rest, name)) != NULL;
}

static void extra_require(tensor_finder *f, size_t block, const char *rest) {
    char name[GGUF_MAX_NAME + 1];
    if (f->ok && !extra_has(f, block, rest)) tensors_fail_missing(f, extra_name(block, rest, name));
}

/* Tensors that a block has and lacks of one sublayer. */
typedef struct extra_likeness {
    size_t has, lacks;
    const char *first; /* that it lacks */
} extra_likeness;

static void likeness_add(const tensor_finder *f, const model_tensor *t, size_t block, bool is_ffn,
                         extra_likeness *to) {
    model_block b;
    if (!t || !model_block_leads(t->name, &b) || name_is_of_ffn(b.rest) != is_ffn) return;
    if (extra_has(f, block, b.rest))
        to->has++;
    else if (to->lacks++ == 0)
        to->first = b.rest;
}

static extra_likeness likeness_of(const tensor_finder *f, const layer_spec *l, size_t block, bool is_ffn) {
    extra_likeness found = {0};
    bool has_streams =
        extra_has(f, block, "hc_attn_fn.weight"); /* glm5-next's blocks have one state per token */
    for (int s = 0; s < WEIGHT_SLOTS; s++) {
        if (!has_streams && s >= WEIGHT_HC_ATTN_FN && s <= WEIGHT_HC_FFN_INJECT) continue;
        likeness_add(f, l->weight[s], block, is_ffn, &found);
        likeness_add(f, l->bias[s], block, is_ffn, &found);
    }
    return found;
}

/* An MTP layer has a mixer and a feed-forward sublayer that earlier layers have: it is compared with the layer that is
 * most similar. One that is like none has a sublayer of its own. */
static void extra_compare(tensor_finder *f, size_t block, bool is_ffn) {
    extra_likeness best = {.lacks = SIZE_MAX};
    for (size_t i = 0; i < f->m->sizes.layers; i++) {
        extra_likeness like = likeness_of(f, &f->m->layers[i], block, is_ffn);
        if (like.has > best.has || (like.has == best.has && like.lacks < best.lacks)) best = like;
    }
    bool is_whole = !f->m->arch->graph.one_sublayer; /* then it has both sublayers */
    bool is_own =
        is_ffn && (extra_has(f, block, "ffn_gate_inp.weight") || extra_has(f, block, "ffn_down.weight"));
    if (best.first && (best.has > best.lacks || (best.has == 0 && is_whole && !is_own)))
        extra_require(f, block, best.first);
}

/* Whether layers have their own numbers of heads, so that a block's may be those of no layer. */
static bool heads_differ(const tensor_finder *f) {
    const model_facts *facts = &state_of(f)->facts;
    const model_kv *all = model_fact(facts, "attention.head_count"),
                   *kv = model_fact(facts, "attention.head_count_kv");
    return (all && all->type == GGUF_ARRAY) || (kv && kv->type == GGUF_ARRAY);
}

/* A shape that no layer's tensor of the kind has is wrong. */
static void extra_check_slot(tensor_finder *f, size_t block, weight_slot s, bool is_bias) {
    const char *suffix = is_bias ? ".bias" : ".weight";
    const model_tensor *t = model_tensor_named(f->m->file, tensors_layer_name(f->m, block, s, suffix).text);
    const model_tensor *other = NULL;
    for (size_t i = 0; i < f->m->sizes.layers && t; i++) {
        const layer_spec *l = &f->m->layers[i];
        const model_tensor *of = is_bias ? l->bias[s] : l->weight[s];
        if (!of) continue;
        if (memcmp(of->ne, t->ne, sizeof t->ne) == 0) return;
        other = of;
    }
    if (other && f->ok && strstr(t->name, ".attn_") && heads_differ(f))
        DOUBT(f, "tensor %s has another shape than in the layers before it", t->name);
    else if (other && f->ok)
        tensors_fail_shape(f, t,
                           (tensor_shape){{other->ne[0], other->ne[1], other->ne[2]}, (int)other->n_dims},
                           "in other layers");
}

static void extra_check_shapes(tensor_finder *f, size_t block) {
    uint64_t d = f->m->sizes.width, rows = f->m->sizes.vocabulary;
    const struct {
        const char *rest;
        tensor_shape of;
    } own[] = {{"nextn.eh_proj.weight", SHAPE(2 * d, d)},
               {"nextn.enorm.weight", SHAPE(d)},
               {"nextn.hnorm.weight", SHAPE(d)},
               {"nextn.shared_head_norm.weight", SHAPE(d)},
               {"layer_output_norm.weight", SHAPE(d)},
               {"attn_norm.weight", SHAPE(d)},
               {"ffn_norm.weight", SHAPE(d)},
               {"post_attention_norm.weight", SHAPE(d)},
               {"nextn.embed_tokens.weight", SHAPE(d, rows)},
               {"nextn.shared_head_head.weight", SHAPE(d, rows)}};
    char name[GGUF_MAX_NAME + 1];
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        tensors_take(f, extra_name(block, own[i].rest, name), OPTIONAL, own[i].of);
    for (int s = 0; s < 2 * WEIGHT_SLOTS && f->ok; s++)
        extra_check_slot(f, block, (weight_slot)(s / 2), s % 2);
}

static void check_extra_blocks(tensor_finder *f, size_t blocks) {
    static const char *const needed[] = {"nextn.eh_proj.weight", "nextn.enorm.weight", "nextn.hnorm.weight"};
    size_t layers = f->m->sizes.layers;
    if (blocks - layers > EXTRA_BLOCKS_MOST) return;
    for (size_t i = layers; i < blocks && f->ok; i++) {
        f->is_partial = false;
        for (int k = 0; k < 3; k++) extra_require(f, i, needed[k]);
        extra_compare(f, i, false), extra_compare(f, i, true);
        if (f->ok) extra_check_shapes(f, i);
        if (!extra_has(f, i, "nextn.shared_head_norm.weight") && !extra_has(f, i, "layer_output_norm.weight"))
            DOUBT(f, "there is no tensor blk.%zu.nextn.shared_head_norm.weight: predictions pass no norm", i);
        if (!extra_has(f, i, "ffn_norm.weight") && !extra_has(f, i, "post_attention_norm.weight"))
            DOUBT(
                f,
                "there is no tensor blk.%zu.ffn_norm.weight: the feed-forward sublayer reads through no norm",
                i);
    }
}

/* ---- the whole ---- */

/* A file of MTP layers alone, as llama.cpp's converter makes one for drafting: it has tensors of these and
 * none of the layers. */
static bool has_mtp_layers_alone(const forward_model *m) {
    bool predicts = false;
    model_block b;
    if (!m->arch->graph.extra_layers || (m->file->container && m->file->container->own_name)) return false;
    for (uint64_t i = 0; i < m->file->n_tensors; i++) {
        if (!model_block_leads(m->file->tensors[i]->name, &b)) continue;
        if (b.number < m->sizes.layers) return false;
        predicts = true;
    }
    return predicts;
}

static bool warn_of_part(const tensor_finder *f) {
    const expected_state *state = state_of(f);
    return state->kind != PART_OF_MODEL ||
           warnings_add(f->m->expected->doubts, f->e,
                        "general.type says that it is a part of a %s model; it has %zu of the %zu required "
                        "tensors, and shapes were not verified",
                        f->m->arch->name, f->n_required - state->lacks, f->n_required);
}

/* Blocks that predict are behind those that are layers. */
static void check_predicting_names(tensor_finder *f) {
    const model_source *g = f->m->file;
    model_block b;
    for (uint64_t i = 0; f->ok && f->m->arch->graph.extra_layers && i < g->n_tensors; i++)
        if (model_block_leads(g->by_name[i]->name, &b) && b.number < f->m->sizes.layers &&
            strncmp(b.rest, "nextn.", 6) == 0)
            f->ok = gq_fail(f->e,
                            "%s: tensor %s belongs to an MTP layer, but by block_count and "
                            "nextn_predict_layers of %s block %llu is an ordinary layer",
                            model_file_path(g, g->by_name[i]), g->by_name[i]->name, f->m->arch->name,
                            (unsigned long long)b.number);
}

/* block_count has all blocks, those that predict, too. Programs that read a file refuse what is beyond. */
static void check_block_numbers(tensor_finder *f) {
    const model_source *g = f->m->file;
    const model_kv *count = model_fact(&state_of(f)->facts, "block_count");
    int64_t blocks;
    model_block b;
    if (!count || !model_kv_int(count, &blocks) || f->m->expected->without_blocks) return;
    for (uint64_t i = 0; f->ok && i < g->n_tensors; i++)
        if (model_block_leads(g->by_name[i]->name, &b) && b.number >= (uint64_t)blocks)
            f->ok = gq_fail(f->e, "%s: tensor %s belongs to block %llu, expected less than %s, which is %lld",
                            model_file_path(g, g->by_name[i]), g->by_name[i]->name,
                            (unsigned long long)b.number, count->key, (long long)blocks);
}

/* Keys that llama.cpp reads for a weight, of architectures whose converted models have them: without the key it
 * takes another number, and refuses the tensor. All models with decays of low rank have both of their keys. */
static void require_keys(tensor_finder *f) {
    static const struct {
        weight_slot slot;
        const char *key;
    } of[] = {{WEIGHT_ATTN_Q_A, "attention.q_lora_rank"},
              {WEIGHT_ATTN_K_B, "attention.head_count_kv"},
              {WEIGHT_ATTN_K_B, "attention.key_length_mla"},
              {WEIGHT_ATTN_K_B, "attention.value_length_mla"},
              {WEIGHT_FFN_UP_EXPS, EXPERT_LENGTH}, /* others' rows are compared with feed_forward_length */
              {WEIGHT_FFN_UP_SHEXP, "expert_shared_count"},
              {WEIGHT_FFN_ROUTED_DOWN, "expert_latent_length"},
              {WEIGHT_TIME_MIX_RECEPTANCE, "token_shift_count"},
              {WEIGHT_TIME_MIX_DECAY_W1, "time_mix_extra_dim"},
              {WEIGHT_TIME_MIX_DECAY_W1, "time_decay_extra_dim"},
              {WEIGHT_TIME_MIX_W1, "attention.decay_lora_rank"},
              {WEIGHT_TIME_MIX_A1, "attention.iclr_lora_rank"},
              {WEIGHT_TIME_MIX_V1, "attention.value_residual_mix_lora_rank"},
              {WEIGHT_TIME_MIX_G1, "attention.gate_lora_rank"}};
    for (size_t i = 0; i < sizeof of / sizeof *of && f->ok; i++) {
        bool is_made = of[i].slot == WEIGHT_TIME_MIX_DECAY_W1 || arch_makes_key(f->m->arch, of[i].key);
        if (!is_made || model_fact(&state_of(f)->facts, of[i].key)) continue;
        if (strcmp(of[i].key, EXPERT_LENGTH) == 0 && !f->m->arch->graph.experts_are_ffn) continue;
        const model_tensor *t = NULL;
        for (size_t k = 0; !t && k < f->m->sizes.layers; k++) t = f->m->layers[k].weight[of[i].slot];
        if (!t) continue;
        if (of[i].slot == WEIGHT_FFN_UP_SHEXP && model_fact(&state_of(f)->facts, SHARED_LENGTH))
            DOUBT(f, "there is no key %s.%s, though there is tensor %s: llama.cpp may refuse it",
                  f->m->arch->name, of[i].key, t->name);
        else
            f->ok = gq_fail_remedy(f->e, GQ_REMEDY_SET_METADATA,
                                   "%s: there is no key %s.%s, though there is tensor %s", f->m->path,
                                   f->m->arch->name, of[i].key, t->name);
    }
}

/* BERT models have a number of token types, with or without a table of them. */
static void require_token_types(tensor_finder *f) {
    static const char key[] = "tokenizer.ggml.token_type_count";
    if (f->ok && f->m->arch->graph.kinds && !model_facts_find(&state_of(f)->facts, key))
        f->ok = gq_fail_remedy(f->e, GQ_REMEDY_SET_METADATA,
                               "%s: there is no key %s, which every %s model has: llama.cpp refuses it",
                               f->m->path, key, f->m->arch->name);
}

/* A classifier has an output for each label; without labels it has one. */
static void check_labels(tensor_finder *f) {
    const model_source *g = f->m->file;
    const model_tensor *t = model_tensor_named(g, "cls.output.weight");
    const model_kv *labels = model_fact(&state_of(f)->facts, "classifier.output_labels");
    uint32_t type;
    uint64_t n, rows = t ? t->ne[1] : 0;
    const uint8_t *elements;
    if (!t || !f->ok) return;
    if (labels && model_kv_array(labels, &type, &n, &elements) && n != rows)
        f->ok = gq_fail(f->e, "%s: %s has %llu labels, but tensor %s has %llu rows, one for each label",
                        model_file_path(g, t), labels->key, (unsigned long long)n, t->name,
                        (unsigned long long)rows);
    if (!labels && rows != 1)
        DOUBT(f,
              "tensor %s has %llu rows, but there is no key %s.classifier.output_labels: llama.cpp expects "
              "one row then, "
              "and refuses the file",
              t->name, (unsigned long long)rows, f->m->arch->name);
}

/* Tensors that a model may lack, and keys which say that it has them. */
static void doubt_keys(tensor_finder *f) {
    static const char *const of[][2] = {{"dense_2_feat_out", "dense_2.weight"},
                                        {"dense_3_feat_out", "dense_3.weight"},
                                        {"embedding_length_out", "dense_2.weight"}};
    const model_facts *facts = &state_of(f)->facts;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        if (i == 2 && strcmp(f->m->arch->name, "lfm2") != 0) continue; /* others' are of other tensors */
        if (model_fact(facts, of[i][0]) && !model_tensor_named(f->m->file, of[i][1]))
            DOUBT(f, "there is no tensor %s, though the model has the key %s: its embeddings are others",
                  of[i][1], of[i][0]);
    }
}

static void find_and_check(tensor_finder *f) {
    const expected_state *state = state_of(f);
    int64_t blocks;
    check_vocabulary(f), check_head(f), check_predicting_names(f);
    if (f->ok && state->kind != PART_OF_MODEL) check_block_numbers(f);
    if (!f->ok || !tensors_find_all(f)) return;
    if (f->m->arch->graph.extra_layers && !f->m->expected->without_blocks && state->kind != PART_OF_MODEL &&
        model_fact_int(&state->facts, "block_count", &blocks))
        check_extra_blocks(f, (size_t)blocks);
    if (f->ok && state->kind == WHOLE_MODEL)
        require_keys(f), require_token_types(f), check_labels(f), doubt_optional(f), doubt_others(f),
            doubt_keys(f);
    f->ok = f->ok && warn_of_part(f);
}

static bool check_model(forward_model *m, bool is_part, gq_error *e) {
    expected_state *state = calloc(1, sizeof *state);
    if (!state) return gq_fail_memory(e, sizeof *state);
    state->kind = is_part ? PART_OF_MODEL : has_mtp_layers_alone(m) ? MTP_LAYERS : WHOLE_MODEL;
    state->facts = model_expected_facts(m);
    for (size_t i = 0; i < EXPECTED_ROWS; i++) {
        const char *key = expected_rows[i].key, *times = expected_rows[i].times;
        state->length_of[i] = (key_list){key, model_fact(&state->facts, key)};
        if (times) state->factor_of[i] = (key_list){times, model_fact(&state->facts, times)};
    }
    const tensor_hooks hooks = {.name = expected_name,
                                .may_lack = expected_may_lack,
                                .check_rows = is_part ? NULL : expected_check_rows,
                                .count_optional = expected_count_optional,
                                .own = state};
    tensor_finder f = {.m = m, .e = e, .ok = true, .hooks = &hooks};
    find_and_check(&f);
    free(f.taken), free(state);
    return f.ok;
}

/* A part may lack keys as well as tensors, but what it has must be right. */
static bool check_as(const model_source *g, const model_expected *expected, const architecture *row,
                     bool is_part, gq_error *e) {
    gq_error why;
    forward_model *m = calloc(1, sizeof *m);
    if (!m) return gq_fail_memory(e, sizeof *m);
    m->file = g, m->path = g->path, m->arch = row, m->sublayer_kinds = sublayer_kinds, m->expected = expected;
    bool ok;
    if (model_read_keys(m, &why))
        ok = check_model(m, is_part, e);
    else if (is_part && m->lacks_key)
        ok = warnings_add(
            expected->doubts, e,
            "general.type says that it is a part of a %s model; its tensors were not verified: %s", row->name,
            model_error_behind_path(&why, g->path));
    else
        ok = gq_fail_remedy(e, m->lacks_key ? GQ_REMEDY_PART : GQ_REMEDY_NONE, "%s", why.text);
    forward_model_free(m);
    return ok;
}

/* Files of these kinds have only some tensors, some of them with the architecture of a whole model; of
 * folders that have been compared when they were opened there is nothing more to compare. */
static bool is_no_model(const model_source *g, const model_facts *facts, const architecture *row) {
    static const char *const kinds[] = {"adapter", "imatrix", "mmproj"};
    if (row && (row->is_projector || (row->folder.shapes && g->version == 0))) return true;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (model_fact_is(facts, "general.type", kinds[i])) return true;
    return false;
}

bool forward_model_check(const model_source *g, const model_expected *expected, gq_error *e) {
    model_facts own = model_facts_of(g->kv, g->n_kv, NULL, 0),
                facts = model_facts_of(g->kv, g->n_kv, expected->set, expected->n_set);
    const architecture *row = arch_of_facts(&facts);
    if (g->n_tensors == 0)
        return warnings_add(expected->doubts, e,
                            "the model has no tensors, only a vocabulary; the output is the same");
    if (row && !row->image.keeps && !bounds_check(&facts, g->path, expected->doubts, e)) return false;
    if (row && row->is_projector && g->version != 0)
        return unrun_check_projector(g, &facts, expected->doubts, e);
    if (is_no_model(g, &own, arch_of_facts(&own))) return true;
    if (!*facts.arch)
        return warnings_add(expected->doubts, e,
                            "general.architecture is missing: not verified that all tensors are there, and "
                            "llama.cpp refuses such a file");
    if (row && row->folder.shapes && !model_fact_is(&facts, "general.type", "part"))
        return unrun_check_shapes(g, row, &facts, expected->doubts, e);
    if (!arch_can_run(row))
        return warnings_add(expected->doubts, e,
                            "unknown architecture '%s': not verified that all tensors are there", facts.arch);
    return check_as(g, expected, row, model_fact_is(&facts, "general.type", "part"), e);
}

/* ---- a model that is to be run: it is whole, or refused ---- */

/* row NULL: the architecture is not known at all. */
static bool unknown_architecture(const char *path, const char *name, const architecture *row, gq_error *e) {
    const char *kind = row ? row->kind : NULL;
    if (!*name) return gq_fail(e, "%s: there is no key general.architecture", path);
    return gq_fail(e,
                   "%s: architecture '%s' cannot be run%s%s; it can be quantized, also with an imatrix that "
                   "another program computed for tensors of these names%s (docs/internals/forward.md lists "
                   "the architectures that can be run)",
                   path, name, kind ? ": it is " : "", kind ? kind : "",
                   !kind ? ", and log-probabilities that another program has written of it and of its "
                           "quantized models can be compared"
                         : "");
}

static bool none_may_lack(void *, const char *) { return false; }

/* Refuses what all other commands refuse, even if a run does not read it: token ids, rows that the metadata
 * name. Doubts do not stop a run. */
static bool model_is_whole(const model_source *g, gq_error *e) {
    warning_list doubts = {0};
    bool ok = forward_model_check(g, &(model_expected){.may_lack = none_may_lack, .doubts = &doubts}, e);
    if (!ok && e) e->remedy = GQ_REMEDY_NONE; /* there is none that a run knows */
    warnings_free(&doubts);
    return ok;
}

forward_model *forward_model_new(const model_source *g, gq_error *e) {
    model_facts facts = model_facts_of(g->kv, g->n_kv, NULL, 0);
    const architecture *row = arch_of_facts(&facts);
    if (!arch_can_run(row)) return unknown_architecture(g->path, facts.arch, row, e), NULL;
    if (!model_is_whole(g, e)) return NULL;
    return model_new_of(g, row, sublayer_kinds, e);
}
