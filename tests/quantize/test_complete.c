/* Whether a model is complete: every tensor of every architecture that is run, left out or of another shape,
 * and what a plan makes of it. */
#include "arch/arch.h"
#include "forward/graph/forward.h"
#include "tests/support/folder.h"
#include "tests/support/forward_models.h"
#include "tests/support/model.h"

static model_source variant_opened(const variant *v) {
    model_save(variant_model(v, GGUF_F32, NULL), path("variant.gguf"));
    return open_model(path("variant.gguf"));
}

/* ---- each tensor once ---- */

static bool nothing_may_lack(void *user, const char *tensor) {
    (void)user, (void)tensor;
    return false;
}

/* Checks a model; false: *e says why not. Says how many doubts there were. */
static bool checked(const model_source *g, size_t *doubts, gq_error *e) {
    warning_list list = {0};
    bool ok = forward_model_check(g, &(model_expected){.may_lack = nothing_may_lack, .doubts = &list}, e);
    *doubts = list.n;
    warnings_free(&list);
    return ok;
}

static void drop_tensor(model_tensor **list, uint64_t n, const model_tensor *t) {
    uint64_t kept = 0;
    for (uint64_t i = 0; i < n; i++)
        if (list[i] != t) list[kept++] = list[i];
}

/* The same model without a tensor, as long as it is open. */
static model_source source_without(const model_source *g, const model_tensor *t) {
    model_source less = *g;
    less.tensors = malloc(g->n_tensors * sizeof *less.tensors);
    less.by_name = malloc(g->n_tensors * sizeof *less.by_name);
    memcpy(less.tensors, g->tensors, g->n_tensors * sizeof *less.tensors);
    memcpy(less.by_name, g->by_name, g->n_tensors * sizeof *less.by_name);
    drop_tensor(less.tensors, g->n_tensors, t), drop_tensor(less.by_name, g->n_tensors, t);
    less.n_tensors--;
    return less;
}

static bool is_one_of(const char *name, const char *const *list) {
    for (; *list; list++)
        if (strstr(name, *list)) return true;
    return false;
}

/* How many tensors of other layers have the same name but for the layer's number. */
static size_t alike(const model_source *g, const char *name) {
    const char *rest = strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') : NULL;
    size_t n = 0;
    for (uint64_t i = 0; rest && i < g->n_tensors; i++) {
        const char *other = g->tensors[i]->name,
                   *its = strncmp(other, "blk.", 4) ? NULL : strchr(other + 4, '.');
        n += its && strcmp(its, rest) == 0 && strcmp(other, name) != 0;
    }
    return n;
}

/* What a whole model may lack, as llama.cpp has something else for it. Of what is optional in a layer nobody
 * can tell whether it is missing where no other layer has it. */
static bool may_lack_unnoticed(const model_source *g, const char *name) {
    static const char *const names[] = {"output.",        "rope_freqs",       "rope_factors",
                                        "position_embd.", "attn_v.weight",    "attn_sinks",
                                        "indexer.",       "blk.0.time_mix_v", NULL};
    return is_one_of(name, names) || alike(g, name) == 0;
}

/* Tensors in whose place others may stand, so that one of these is named. */
static bool has_another_name(const model_source *g, const char *name) {
    static const char *const names[] = {
        "layer_output_norm.", "ssm_in.",  "attn_kv_b.", "time_mix_lerp_fused.",
        "blk.0.time_mix_v1.", "dense_2.", NULL};
    return is_one_of(name, names) || (strstr(name, "ffn_gate_up_exps.") && alike(g, name) == 0);
}

TEST(every_tensor_that_is_missing_is_noticed) {
    size_t refused = 0, doubted = 0, optional = 0, doubts;
    for (size_t i = 0; variant_at(i); i++) {
        const variant *v = variant_at(i);
        model_source g = variant_opened(v);
        gq_error e;
        if (!checked(&g, &doubts, &e)) fail_msg("%s: %s", v->name, e.text);
        if (doubts && !v->no_v) fail_msg("%s: %zu doubts of a whole model", v->name, doubts);
        for (uint64_t k = 0; k < g.n_tensors; k++) {
            const char *name = g.tensors[k]->name;
            model_source less = source_without(&g, g.tensors[k]);
            if (!checked(&less, &doubts, &e)) {
                refused++;
                if (!strstr(e.text, name) && !has_another_name(&g, name))
                    fail_msg("%s without %s: %s", v->name, name, e.text);
            } else if (doubts) {
                doubted++;
            } else if (may_lack_unnoticed(&g, name) || (!strcmp(v->name, "llada") && strstr(name, ".bias"))) {
                optional++;
            } else {
                fail_msg("%s without %s: nobody notices", v->name, name);
            }
            free(less.tensors), free(less.by_name);
        }
        model_close(&g);
    }
    print_message("%zu refused, %zu doubted, %zu optional\n", refused, doubted, optional);
    assert_in_range(refused, 6000, SIZE_MAX);
    assert_in_range(optional, 0, 150);
}

TEST(every_other_shape_is_refused) {
    size_t doubts;
    for (size_t i = 0; variant_at(i); i++) {
        const variant *v = variant_at(i);
        model_source g = variant_opened(v);
        for (uint64_t k = 0; k < g.n_tensors; k++) {
            model_tensor *t = g.tensors[k];
            bool is_unused = (!strcmp(v->name, "pangu-embedded") || !strcmp(v->name, "llada")) &&
                             strstr(t->name, "rope_freqs");
            gq_error e;
            /* Converters fill up a table of n-grams with rows that nobody reads. */
            bool may_grow = !strcmp(variant_arch(v), "qwen4exp") && strstr(t->name, "per_layer_token_embd");
            for (uint32_t d = 0; d < t->n_dims && !is_unused && !(may_grow && d == 1); d++) {
                t->ne[d]++;
                if (checked(&g, &doubts, &e))
                    fail_msg("%s: dimension %u of %s may be %llu", v->name, d, t->name,
                             (unsigned long long)t->ne[d]);
                if (!strstr(e.text, "has shape")) fail_msg("%s: %s: %s", v->name, t->name, e.text);
                t->ne[d]--;
            }
        }
        model_close(&g);
    }
}

/* ---- plans ---- */

static gq_options copy_of(const char *in, gq_output *out) {
    *out = (gq_output){.path = path("out.gguf"), .filetype = "COPY"};
    return (gq_options){.size = sizeof(gq_options), .input = path(in), .outputs = out, .n_outputs = 1};
}

/* Writes a variant with keys set over its own and without a tensor, or without all whose names have a part
 * that begins with '.' (NULL: with all). */
static void write_variant(const char *name, const char *keys, const char *without, const char *to) {
    const variant *v = variant_named(name);
    model *m = variant_model(v, GGUF_F32, NULL);
    variant_set(m, variant_arch(v), keys);
    model_save(m, path("whole.gguf"));
    model_source g = open_model(path("whole.gguf"));
    m = model_new(NULL, 0);
    for (uint64_t k = 0; k < g.n_kv; k++)
        model_set(m, g.kv[k].key, g.kv[k].type, g.kv[k].value, g.kv[k].size);
    for (uint64_t k = 0; k < g.n_tensors; k++) {
        const model_tensor *t = g.tensors[k];
        uint64_t n;
        if (without && (*without == '.' ? strstr(t->name, without) != NULL : strcmp(t->name, without) == 0))
            continue;
        float *x = tensor_values(&g, t->name, &n);
        model_add(m, t->name, GGUF_F32, t->ne, x);
        free(x);
    }
    model_save(m, path(to));
    model_close(&g);
}

/* Whether a model with one more matrix (a classifier has a bias, too), of random values, is refused with a
 * text, or planned with it as a warning. */
static bool plan_says_with(const char *name, const char *keys, const char *matrix, uint64_t columns,
                           uint64_t rows, const char *text) {
    const variant *v = variant_named(name);
    model *m = variant_model(v, GGUF_F32, NULL);
    gq_output out;
    gq_error e = {0};
    float *x = random_values(columns * rows, 1);
    variant_set(m, variant_arch(v), keys);
    model_add(m, matrix, GGUF_F32, (uint64_t[4]){columns, rows, 1, 1}, x);
    if (strstr(matrix, "cls.")) model_add(m, "cls.output.bias", GGUF_F32, (uint64_t[4]){rows, 1, 1, 1}, x);
    free(x);
    model_save(m, path("more.gguf"));
    gq_options o = copy_of("more.gguf", &out);
    gq_plan *plan = gq_plan_new(&o, &e);
    bool says = plan ? !*text || warned(plan, text) : *text && strstr(e.text, text);
    if (!says) fail_msg("%s: '%s', expected '%s'", keys, plan ? "a plan" : e.text, text);
    gq_plan_free(plan);
    return plan;
}

static void plan_refuses(const char *name, const char *keys, const char *without, const char *text) {
    gq_output out;
    write_variant(name, keys, without, "in.gguf");
    gq_options o = copy_of("in.gguf", &out);
    const char *why = failure(&o);
    if (!strstr(why, text)) fail_msg("%s: expected '%s'", why, text);
}

static void plan_warns(const char *name, const char *keys, const char *without, const char *text) {
    gq_output out;
    write_variant(name, keys, without, "in.gguf");
    gq_options o = copy_of("in.gguf", &out);
    gq_plan *plan = must_plan(&o);
    if (!warned(plan, text)) fail_msg("%s, %s without %s: no warning '%s'", name, keys, without, text);
    gq_plan_free(plan);
}

TEST(a_plan_refuses_what_is_not_whole) {
    plan_refuses("llama", "", "blk.1.ffn_up.weight",
                 "there is no tensor blk.1.ffn_up.weight, which every llama");
    plan_refuses("llama", "", "output_norm.weight", "output_norm.weight");
    plan_refuses("llama-moe", "", "blk.1.ffn_gate_inp.weight",
                 "there is no tensor blk.1.ffn_gate_inp.weight");
    plan_refuses(
        "llama", "feed_forward_length=48", NULL,
        "blk.0.ffn_up.weight has shape [32, 40], expected [32, 48], as llama.feed_forward_length says");
    plan_refuses("llama", "attention.head_count=8;attention.key_length=8;attention.value_length=8", NULL,
                 "blk.0.attn_q.weight has shape [32, 32], expected [32, 64]");
    /* the length of experts is feed_forward_length's, though they have a key of their own */
    for (int i = 0; i < 2; i++)
        plan_refuses(i ? "minimax-m2" : "hunyuan-moe", "feed_forward_length=77", NULL,
                     "ffn_up_exps.weight has shape");
    plan_refuses("llama-moe", "expert_count=5", NULL, "blk.0.ffn_gate_inp.weight has shape");
    plan_refuses("qwen2moe", "expert_feed_forward_length=23", NULL,
                 "as qwen2moe.expert_feed_forward_length says");
    plan_refuses("llama", "vocab_size=95", NULL, "token_embd.weight has shape [32, 96], expected [32, 95]");
    plan_refuses("internlm2", "", "output.weight", "there is no tensor output.weight");
    plan_refuses("qwen35moe", "", "blk.2.nextn.eh_proj.weight", "blk.2.nextn.eh_proj.weight");
    plan_refuses("qwen35moe", "", "blk.2.attn_k.weight", "blk.2.attn_k.weight");
}

/* Numbers that running a model takes from its tensors, which other programs take from the metadata. */
TEST(rows_of_small_matrices_are_those_of_the_metadata) {
    static const struct {
        const char *model, *key, *text;
    } all[] = {
        {"rwkv6", "feed_forward_length", "channel_mix_key.weight has shape [32, 40], expected [32, 77]"},
        {"rwkv6", "time_mix_extra_dim", "time_mix_w1.weight has shape [32, 20], expected [32, 385]"},
        {"rwkv6qwen2", "time_decay_extra_dim",
         "time_mix_decay_w1.weight has shape [32, 4], expected [32, 77]"},
        {"rwkv7", "feed_forward_length", "channel_mix_key.weight has shape [128, 40], expected [128, 77]"},
        {"rwkv7", "attention.decay_lora_rank", "time_mix_w1.weight has shape [128, 4], expected [128, 77]"},
        {"rwkv7", "attention.iclr_lora_rank", "time_mix_a1.weight has shape [128, 4], expected [128, 77]"},
        {"rwkv7", "attention.value_residual_mix_lora_rank", "blk.1.time_mix_v1.weight has shape [128, 4]"},
        {"rwkv7", "attention.gate_lora_rank", "time_mix_g1.weight has shape [128, 4], expected [128, 77]"},
        {"deepseek2", "attention.q_lora_rank", "attn_q_a.weight has shape [32, 20], expected [32, 77]"},
        {"dots1", "expert_feed_forward_length=24;expert_shared_count",
         "ffn_up_shexp.weight has shape [32, 48], expected [32, 1848]"},
        {"dbrx", "feed_forward_length",
         "blk.0.ffn_up_exps.weight has shape [32, 24, 6], expected [32, 77, 6]"},
        {"gemma4-moe", "expert_feed_forward_length=24;feed_forward_length",
         "blk.0.ffn_up.weight has shape [32, 24], expected [32, 77]"},
        {"grovemoe", "expert_chunk_feed_forward_length", "ffn_up_chexps.weight has shape [32, 12, 3]"},
        {"nemotron_h_moe", "moe_latent_size", "ffn_latent_down.weight has shape [32, 20], expected [32, 77]"},
    };
    plan_refuses("graniteswitch", "adapters.lora_rank=77", NULL,
                 "blk.0.attn_q.lora_a has shape [32, 4, 5], expected [32, 77, 5]");
    plan_refuses("graniteswitch", "", "blk.1.ffn_up.lora_b", "there is no tensor blk.1.ffn_up.lora_b");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char key[96], says[160];
        snprintf(key, sizeof key, "%s=77", all[i].key);
        snprintf(says, sizeof says, "as %s.", variant_arch(variant_named(all[i].model)));
        plan_refuses(all[i].model, key, NULL, all[i].text);
        plan_refuses(all[i].model, key, NULL, says);
    }
    plan_refuses("rwkv7", "attention.gate_lora_rank=0", NULL, ", 0], as rwkv7.attention.gate_lora_rank says");
}

/* Keys that llama.cpp needs for tensors that are there. */
TEST(keys_of_tensors_are_not_missing) {
    static const struct {
        const char *model, *key;
    } all[] = {
        {"deepseek2", "attention.head_count_kv"},
        {"deepseek2", "attention.q_lora_rank"},
        {"deepseek2", "expert_shared_count"},
        {"deepseek2", "leading_dense_block_count"},
        {"minicpm3", "attention.q_lora_rank"},
        {"bailingmoe3", "leading_dense_block_count"},
        {"glm-dsa", "attention.q_lora_rank"},
        {"deepseek32", "attention.head_count_kv"},
        {"glm4moe", "leading_dense_block_count"},
        {"cohere2moe", "leading_dense_block_count"},
        {"exaone-moe", "leading_dense_block_count"},
        {"bailingmoe2", "leading_dense_block_count"},
        {"hunyuan-moe", "expert_feed_forward_length"},
        {"llama4", "interleave_moe_layer_step"},
        {"arwkv7", "token_shift_count"},
        {"arwkv7", "attention.decay_lora_rank"},
        {"rwkv7", "attention.iclr_lora_rank"},
        {"rwkv7", "attention.value_residual_mix_lora_rank"},
        {"rwkv6", "time_mix_extra_dim"},
        {"rwkv6", "time_decay_extra_dim"},
        {"rwkv6qwen2", "time_decay_extra_dim"},
        {"kimi-k3", "expert_latent_length"},
        {"granite_swa", "expert_shared_feed_forward_length"},
        {"bert", "tokenizer.ggml.token_type_count"},
        {"jina-bert-v3", "tokenizer.ggml.token_type_count"},
        {"nomic-bert", "tokenizer.ggml.token_type_count"},
    };
    gq_output out;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char key[128], pattern[160], *pattern_at = pattern;
        bool is_whole = !strncmp(all[i].key, "tokenizer.", 10);
        snprintf(key, sizeof key, "%s%s%s", is_whole ? "" : variant_arch(variant_named(all[i].model)),
                 is_whole ? "" : ".", all[i].key);
        snprintf(pattern, sizeof pattern, "^%s$", key);
        write_variant(all[i].model, "", NULL, "in.gguf");
        gq_options o = copy_of("in.gguf", &out);
        o.remove_kv = (gq_list){(const char *const *)&pattern_at, 1};
        const char *why = failure(&o);
        if (!strstr(why, key)) fail_msg("%s: expected a key %s", why, key);
    }
    plan_refuses("gemma3n", "embedding_length_per_layer_input=[8,8]", NULL, "has type array");
}

/* Matrices behind a model that gives embeddings have the rows that its metadata say. */
TEST(outputs_are_those_of_the_metadata) {
    const char *out = "cls.output.weight";
    assert_false(
        plan_says_with("bert", "classifier.output_labels=[1,2]", out, 32, 3, "output_labels has 2 labels"));
    assert_true(plan_says_with("bert", "classifier.output_labels=[1,2]", out, 32, 2, ""));
    assert_true(plan_says_with("bert", "", out, 32, 3, "there is no key bert.classifier.output_labels"));
    assert_true(plan_says_with("bert", "", out, 32, 1, ""));
    assert_false(
        plan_says_with("lfm2", "embedding_length_out=31", "dense_2.weight", 32, 24, "expected [32, 31]"));
    assert_false(
        plan_says_with("lfm2", "embedding_length_out=s:x", "dense_2.weight", 32, 24, "has type string"));
    assert_true(plan_says_with("lfm2", "embedding_length_out=24", "dense_2.weight", 32, 24, ""));
}

TEST(a_plan_warns_of_what_may_be_right) {
    plan_warns("llama-bias", "", "blk.1.attn_q.bias", "there is no tensor blk.1.attn_q.bias");
    plan_warns("qwen2", "", ".bias", "nor another bias of queries, keys");
    plan_warns("llama", "", ".", "only a vocabulary");
    plan_warns("llama", ":general.architecture=s:qwen3tts", NULL, "unknown architecture 'qwen3tts'");
    plan_refuses("llama", ":general.architecture=s:wavtokenizer-dec", NULL, "missing tensor conv1d.weight");
    plan_refuses("llama", ":general.architecture=s:eagle3", NULL, "missing tensor fc.weight");
    plan_warns("llama", ":general.architecture=s:", NULL, "general.architecture is missing");
    plan_warns("lfm2", "embedding_length_out=24", NULL, "no tensor dense_2.weight, though the model has");
    plan_warns("gemma-embedding", "dense_3_feat_out=24", NULL, "no tensor dense_3.weight, though the");
    plan_warns("llama", ":general.type=s:part", "blk.1.ffn_up.weight", "it is a part of a llama model");
    plan_warns("llama", ":tokenizer.ggml.eos_token_id=96", NULL,
               "eos_token_id is 96, but there are 96 tokens");
    plan_warns("t5", "decoder_start_token_id=4097", NULL, "decoder_start_token_id is 4097, but there are");
    plan_warns("qwen35moe", "", "blk.2.nextn.shared_head_norm.weight", "blk.2.nextn.shared_head_norm.weight");
}

/* Whether a plan warns of a small projector, of which one dimension is halved. */
static bool projector_says(const char *keys, int changed, unsigned dimension, const char *text) {
    struct {
        const char *name;
        uint64_t ne[4];
    } all[] = {{"v.patch_embd.weight", {4, 4, 3, 64}},    {"v.blk.0.attn_q.weight", {64, 32, 1, 1}},
               {"v.blk.0.attn_q.bias", {32, 1, 1, 1}},    {"v.blk.0.attn_out.weight", {32, 64, 1, 1}},
               {"v.blk.0.ffn_up.weight", {64, 96, 1, 1}}, {"v.blk.0.ffn_down.weight", {96, 64, 1, 1}}};
    model *m = variant_model(variant_named("llama"), GGUF_F32, NULL);
    gq_output out;
    variant_set(m, "llama",
                ":general.architecture=s:clip;:clip.vision.projector_type=s:qwen3vl_merger;"
                ":clip.vision.embedding_length=64;:clip.vision.patch_size=4;:clip.has_vision_encoder=b:true");
    variant_set(m, "llama", keys);
    float *x = random_values(4096 * 4, 1);
    if (dimension) all[changed].ne[dimension - 1] /= 2;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (dimension || (int)i != changed) model_add(m, all[i].name, GGUF_F32, all[i].ne, x);
    free(x);
    model_save(m, path("more.gguf"));
    gq_options o = copy_of("more.gguf", &out);
    gq_plan *plan = must_plan(&o);
    bool says = warned(plan, text);
    gq_plan_free(plan);
    return says;
}

TEST(sizes_of_projectors_are_those_of_their_metadata) {
    static const char *const parts[] = {"has dimension", "is missing or unknown", "is false"};
    for (size_t i = 0; i < 3; i++) assert_false(projector_says("", -1, 0, parts[i]));
    for (int i = 0; i < 6; i++)
        for (unsigned d = 1; d <= (i == 2 ? 1 : i ? 2 : 4); d++)
            if (i || d != 3) assert_true(projector_says("", i, d, "has dimension"));
    assert_true(
        projector_says(":clip.vision.embedding_length=128", -1, 0, "expected 128, as embedding_length"));
    assert_true(projector_says(":clip.vision.patch_size=5", -1, 0, "expected 5, as patch_size says"));
    assert_true(
        projector_says(":clip.has_vision_encoder=b:false", -1, 0, "has_vision_encoder is false, but"));
    assert_true(
        projector_says(":clip.vision.projector_type=s:x", -1, 0, "projector_type is missing or unknown"));
}

/* Projectors are not run, but some of what readers refuse shows. */
TEST(projectors_are_compared_with_their_kind) {
#define CLIP ":general.architecture=s:clip;:clip."
    static const char *const bad[][2] = {
        {CLIP "vision.patch_size=0", "clip.vision.patch_size is 0"},
        {CLIP "vision.embedding_length=4294967295", "embedding_length is 4294967295"},
        {CLIP "vision.image_mean=[0.5,0.5]", "image_mean is an array of 2, expected 3"},
        {CLIP "vision.block_count=2;:clip.vision.embedding_length=65;:clip.vision.attention.head_count=4",
         "head_count is 4, expected a divisor of embedding_length, 65"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) plan_refuses("llama", bad[i][0], NULL, bad[i][1]);
    plan_warns("llama", CLIP "projector_type=s:zorblax", NULL, "projector_type is missing or unknown");
    plan_warns("llama", CLIP "projector_type=s:qwen3vl_merger", NULL,
               "there is no tensor v.patch_embd.weight, which such projectors have");
    plan_warns("llama", CLIP "projector_type=s:qwen3vl_merger", NULL, "there is no key clip.");
    plan_warns("qwen35moe", CLIP "projector_type=s:qwen3vl_merger", "blk.1.post_attention_norm.weight",
               "there is no tensor blk.1.post_attention_norm.weight, which");
#undef CLIP
}

/* What no model can have, whatever its tensors are; and half a model that does not say that it is a part. */
TEST(impossible_values_are_refused) {
    static const char *const all[][2] = {
        {"block_count=0", "block_count is 0"},
        {"block_count=3", "blk.2."},
        {"block_count=1", "blk.1."},
        {"block_count=1000000", "block_count is 1000000"},
        {"embedding_length=0", "embedding_length is 0"},
        {"embedding_length=34", "token_embd.weight has shape"},
        {"attention.head_count=0", "head_count is 0"},
        {"attention.head_count=3", "has shape"},
        {"attention.head_count_kv=0", "head_count_kv is 0"},
        {"attention.head_count_kv=77", "head_count_kv is 77"},
        {"context_length=0", "context_length is 0"},
        {"attention.layer_norm_rms_epsilon=f:-1", "epsilon is -1"},
        {"attention.layer_norm_rms_epsilon=f:nan", "epsilon is nan"},
        {"rope.freq_base=f:0", "freq_base is 0"},
        {"rope.scaling.factor=f:0", "factor is 0"},
        {"rope.scaling.type=s:dynamic", "type is 'dynamic'"},
        {"rope.dimension_count=1000000", "dimension_count is 1000000"},
        {"feed_forward_length=0", "feed_forward_length says"},
        {"attention.layer_norm_epsilon=f:-1", "epsilon is -1"},
        {"rope.freq_base_swa=f:0", "freq_base_swa is 0"},
        {"rope.scaling.yarn_beta_slow=f:-1", "beta_slow is -1"},
        {"embedding_scale=f:-1", "embedding_scale is -1"},
        {"pooling_type=7", "pooling_type is 7"},
        {"vocab_size=s:x", "vocab_size has type string, but llama.cpp reads"},
        {"vocab_size=b:true", "vocab_size has type bool"},
        {"rope.freq_base=[10000.0,10000.0]", "freq_base has type array"},
        {"rope.freq_base=s:10000", "freq_base has type string"},
        {"attention.key_length=[16]", "key_length has type array"},
        {"attention.value_length=[]", "value_length has type array"},
        {"context_length=f:512.5", "context_length has type f32"},
        {"attention.indexer.head_count=s:x", NULL}, /* of another architecture */
        {":tokenizer.ggml.model=7", "tokenizer.ggml.model has type u32"},
        {":tokenizer.ggml.add_bos_token=2", "add_bos_token has type u32"},
        {":tokenizer.ggml.tokens=s:x", "tokens has type string"},
        {":tokenizer.ggml.normalizer.lowercase=s:x", "lowercase has type string"},
        {":tokenizer.ggml.tokens=[1,2]", "tokens has type array of u32"},
        {":general.name=7", "general.name has type u32, but llama.cpp reads it as a string"},
        {":general.file_type=s:x", "general.file_type has type string"},
        {"vocab_size=0", "token_embd.weight has shape [32, 96], expected [32, 0], as vocab_size says"},
        {"feed_forward_length=[64,64,64]", "array of 3, expected one value for each of 2"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        gq_error e;
        if (!all[i][1]) {
            write_variant("llama", all[i][0], NULL, "in.gguf");
            gq_output out;
            gq_options o = copy_of("in.gguf", &out);
            gq_plan_free(must_plan(&o)); /* llama.cpp does not read it */
            continue;
        }
        plan_refuses("llama", all[i][0], NULL, all[i][1]);
        model_source g = open_model(path("in.gguf"));
        assert_null(forward_model_new(&g, &e));
        model_close(&g);
    }
    static const char *const sections[][2] = {
        {"[1,1,1]", "is an array of 3, expected 4 values"},
        {"[1,1,1,1,0]", "is an array of 5, expected 4 values"},
        {"[1,1,1,100000]", "has 100003 pairs in all sections, but a head has"}};
    static const char *const with_sections[] = {"qwen2vl",   "qwen3vl",    "qwen3vlmoe", "qwen35",
                                                "qwen35moe", "hunyuan_vl", "paddleocr"};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        for (size_t k = 0; k < sizeof with_sections / sizeof *with_sections; k++) {
            char key[96];
            snprintf(key, sizeof key, "rope.dimension_sections=%s", sections[i][0]);
            plan_refuses(with_sections[k], key, NULL, sections[i][1]);
        }
    plan_refuses("deepseek32", "attention.indexer.head_count=[4,4]", NULL,
                 "head_count has type array of u32");
    plan_refuses("llama", "", ".ffn_", "there is no tensor blk.0.ffn_");
    plan_refuses("llama", "", ".attn_", "there is no tensor blk.0.attn_");
    plan_refuses("qwen35moe", "nextn_predict_layers=0", NULL, "blk.");
    plan_refuses("qwen35moe", "block_count=2", NULL, "blk.2.");
    plan_refuses("gemma-embedding-dense", "dense_2_feat_in=7", NULL, "dense_2_feat_in is not");
    plan_refuses("glm-dsa", "attention.key_length=7", NULL, "attention.key_length is 7");
}

/* ---- numbers in other types ---- */

/* A KV pair's numbers in a wider type, or a bool as u8, as some programs write them; false: it is none that readers
 * take in one type alone. */
static bool widen(const model_kv *kv, uint8_t to[4096], model_kv *wide) {
    arch_key_type read = arch_key_of(kv->key).type;
    model_kv one = *kv;
    uint64_t n = 1, head = 0;
    if (read == ARCH_KEY_UNKNOWN || read == ARCH_KEY_NUMBER) return false;
    if (model_kv_array(kv, &one.type, &n, &one.value)) head = GGUF_ARRAY_HEADER;
    uint32_t type = one.type == GGUF_FLOAT32 ? GGUF_FLOAT64 : one.type == GGUF_BOOL ? GGUF_U8 : GGUF_INT64;
    uint64_t size = gguf_value_size(type);
    one.size = gguf_value_size(one.type);
    if (one.type == GGUF_STRING || (one.type == GGUF_BOOL && head) || head + n * size > 4096) return false;
    memcpy(to, &type, 4), memcpy(to + 4, &n, 8);
    for (uint64_t k = 0; k < n; k++, one.value += one.size) {
        int64_t i = *one.value;
        double x;
        model_kv_int(&one, &i);
        memcpy(to + head + k * size, model_kv_float(&one, &x) ? (void *)&x : (void *)&i, size);
    }
    *wide = (model_kv){kv->key, head ? GGUF_ARRAY : type, to, head + n * size};
    return true;
}

/* Copies a file with numbers in wider types; returns how many keys have some. */
static size_t write_widened(const char *from, const char *to) {
    model_source g = open_model(from);
    model *m = model_new(NULL, 0);
    size_t changed = 0;
    for (uint64_t k = 0; k < g.n_kv; k++) {
        uint8_t bytes[4096];
        model_kv kv = g.kv[k];
        changed += widen(&g.kv[k], bytes, &kv);
        model_set(m, kv.key, kv.type, kv.value, kv.size);
    }
    for (uint64_t k = 0; k < g.n_tensors; k++) {
        const model_tensor *t = g.tensors[k];
        uint64_t n;
        float *x = tensor_values(&g, t->name, &n);
        model_add(m, t->name, GGUF_F32, t->ne, x);
        free(x);
    }
    model_save(m, to);
    model_close(&g);
    return changed;
}

/* Readers take a number in one type, and so it is written, whatever its type was; and what is set, too. */
TEST(numbers_get_the_type_in_which_they_are_read) {
    static const char *const names[] = {"llama", "step35", "gemma4", "granitehybrid", "rwkv7", "t5"};
    static const char *const set[] = {"llama.context_length=int:4096", "llama.rope.freq_base=int:10000"};
    gq_output out;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        write_variant(names[i], ":tokenizer.ggml.bos_token_id=1;:tokenizer.ggml.add_bos_token=b:true", NULL,
                      "right.gguf");
        assert_in_range(write_widened(path("right.gguf"), path("in.gguf")), 8, 100);
        gq_options o = copy_of("right.gguf", &out);
        o.force = o.no_digests = true;
        gq_results_free(run_plan(&o));
        assert_int_equal(rename(path("out.gguf"), path("expected.gguf")), 0);
        o.input = path("in.gguf");
        gq_plan *plan = must_plan(&o);
        if (!warned(plan, " is stored as i64, but llama.cpp reads u32 and refuses"))
            fail_msg("%s: no warning", names[i]);
        gq_results_free(must_run(plan));
        gq_plan_free(plan);
        assert_same_file(path("out.gguf"), path("expected.gguf"));
    }
    write_variant("llama", "context_length=s:x;rope.freq_base=b:true", NULL, "in.gguf");
    gq_options o = copy_of("in.gguf", &out);
    o.force = true;
    assert_non_null(strstr(failure(&o), "has type"));
    o.override_kv = (gq_list){set, 2};
    gq_plan_free(must_plan(&o));
    unlink(path("out.gguf"));
}

/* A tokenizer that llama.cpp refuses is warned of: other programs may have their own. */
TEST(tokenizers_that_are_refused_are_doubted) {
    static const char *const all[][2] = {
        {":tokenizer.ggml.model=s:zorblax", "model is 'zorblax', an unsupported tokenizer"},
        {":tokenizer.ggml.model=s:", "model is '', an unsupported tokenizer"},
        {":tokenizer.ggml.model=s:gpt2", "merges is missing"},
        {":tokenizer.ggml.model=s:gpt2;:tokenizer.ggml.pre=s:QWEN2",
         "pre is 'QWEN2', an unknown pre-tokenizer"}};
    static const char *const removed[] = {"^tokenizer\\.ggml\\.model$", "vocab_size$"},
                             *const says[] = {"tokenizer.ggml.model is missing: llama.cpp refuses",
                                              "neither tokenizer.ggml.tokens nor llama.vocab_size"};
    gq_output out;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) plan_warns("llama", all[i][0], NULL, all[i][1]);
    plan_warns("llama", ":tokenizer.chat_template=7", NULL, "chat_template has type u32, but");
    plan_warns("llama", ":general.type=7", NULL, "general.type has type u32, but");
    for (size_t i = 0; i < 2; i++) {
        write_variant("llama", "", NULL, "in.gguf");
        gq_options o = copy_of("in.gguf", &out);
        o.force = true, o.remove_kv = (gq_list){&removed[i], 1};
        gq_plan *plan = must_plan(&o);
        if (!warned(plan, says[i])) fail_msg("no warning '%s'", says[i]);
        gq_plan_free(plan);
    }
}

/* What is left out counts as missing, and what is set must be right. */
TEST(changes_of_metadata_count) {
    static const char *const removed[] = {"^llama\\.attention\\.head_count$",
                                          "^llama\\.feed_forward_length$"};
    static const char *const set[] = {"tokenizer.ggml.eos_token_id=int:96", "llama.vocab_size=int:95",
                                      "llama.context_length=int:0"};
    static const char *const says[] = {"eos_token_id is set to 96", "vocab_size", "context_length is 0"};
    gq_output out;
    write_variant("llama", "", NULL, "in.gguf");
    for (size_t i = 0; i < 5; i++) {
        gq_options o = copy_of("in.gguf", &out);
        if (i < 2)
            o.remove_kv = (gq_list){&removed[i], 1};
        else
            o.override_kv = (gq_list){&set[i - 2], 1};
        const char *why = failure(&o), *text = i < 2 ? "there is no key llama." : says[i - 2];
        if (!strstr(why, text)) fail_msg("%s: expected '%s'", why, text);
    }
}

TEST(what_is_not_whole_is_not_sound) {
    gq_error e;
    size_t n;
    write_variant("llama", "", "blk.1.ffn_up.weight", "in.gguf");
    gq_verification *v = gq_verify(path("in.gguf"), NULL, 0, 1, NULL, &e);
    assert_non_null(v);
    assert_non_null(
        strstr(gq_verification_verdicts(v, &n)->problem, "there is no tensor blk.1.ffn_up.weight"));
    gq_verification_free(v);
}

TEST(tensors_may_be_missing_by_name) {
    gq_output out;
    write_variant("llama", "", "blk.1.ffn_up.weight", "in.gguf");
    gq_options o = copy_of("in.gguf", &out);
    const char *patterns[] = {"ffn_up", "nothing"};
    o.allow_missing = (gq_list){patterns, 1};
    gq_plan *plan = must_plan(&o);
    assert_true(warned(plan, "there is no tensor blk.1.ffn_up.weight, which every llama model has; that is"));
    gq_results_free(must_run(plan));
    gq_plan_free(plan);
    o.force = true, o.allow_missing.n = 2;
    plan = must_plan(&o);
    assert_true(warned(plan, "no missing tensor's name matches 'nothing'"));
    gq_plan_free(plan);
    patterns[0] = "ffn_down";
    assert_non_null(strstr(failure(&o), "blk.1.ffn_up.weight"));
    patterns[0] = "(";
    failure(&o);
}

TEST(an_adapter_has_only_some_tensors) {
    gq_output out;
    write_variant("llama", ":general.type=s:adapter", "blk.1.ffn_up.weight", "in.gguf");
    gq_options o = copy_of("in.gguf", &out);
    o.force = true;
    gq_plan_free(must_plan(&o));
}

/* What is set decides, as it does in the output. */
TEST(overrides_count) {
    gq_output out;
    const char *set[] = {"llama.feed_forward_length=int:48"};
    write_variant("llama", "", NULL, "in.gguf");
    gq_options o = copy_of("in.gguf", &out);
    o.force = true, o.override_kv = (gq_list){set, 1};
    assert_non_null(strstr(failure(&o), "as llama.feed_forward_length says"));
    set[0] = "clip.vision.patch_size=int:3";
    gq_plan *plan = must_plan(&o);
    assert_true(warned(plan, "it is set in the file of the llama model, where nobody reads it"));
    gq_plan_free(plan);
}

int main(void) { return tests_run(folder_make, folder_remove); }
