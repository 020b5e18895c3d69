/* What users say about single tensors: patterns with types, patterns to keep, recipes; and what is kept by
 * default. */
#include <pthread.h>

#include "mixes/mixes.h"
#include "tests/support/support.h"

static const mix_model unknown = {.n_blocks = -1};

/* The choice for one matrix of Q4_K_M under the options' patterns. */
static mix_choice choose(const mix_model *m, mix_options o, const char *name, gq_error *e) {
    mix_tensor t = {.name = name, .ne = {256, 512, 1, 1}, .type = GGUF_F16};
    uint32_t order = 0;
    mix_choice c = {.type = GGUF_TYPE_LIMIT};
    if (!o.filetype) o.filetype = mix_filetype_named("Q4_K_M");
    o.output_type = o.embedding_type = -1;
    mix_assign(m, &o, &t, 1, &order, &c, e);
    return c;
}

/* Type that a list of items gives to a name. */
static uint32_t type_under(const char *const *items, size_t n, const char *name) {
    gq_error e = {0};
    mix_pattern *p = mix_patterns_new(items, n, true, &e);
    if (!p) fail_msg("%s", e.text);
    mix_choice c = choose(&unknown, (mix_options){.patterns = p}, name, &e);
    mix_patterns_free(p);
    return c.type;
}

TEST(search_and_first_match) {
    static const char *const items[] = {"ffn_(up|gate)=Q6_K", "ffn_=iq4_nl", "blk\\.[0-3]\\.attn=f16",
                                        "ATTN=bf16"};
    static const struct {
        const char *name;
        uint32_t type;
    } cases[] = {
        {"blk.0.ffn_up.weight", GGUF_Q6_K},  {"blk.7.ffn_down_exps.weight", GGUF_IQ4_NL},
        {"blk.2.attn_k.weight", GGUF_F16},   {"blk.4.attn_k.weight", GGUF_BF16}, /* pattern in lower case */
        {"blk.4.ATTN_K.weight", GGUF_Q4_K},  {"something.weight", GGUF_Q4_K},
        {"blk.0.ffn_norm.weight", GGUF_F16}, {"ffn_up.bias", GGUF_F16}, /* left alone is left alone */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(type_under(items, 4, cases[i].name), cases[i].type);
}

TEST(ecmascript) {
    static const struct {
        const char *item, *name;
        bool hit;
    } cases[] = {
        {"^blk\\.\\d+\\.ffn_down\\.weight$=Q8_0", "blk.12.ffn_down.weight", true},
        {"^blk\\.\\d+\\.ffn_down\\.weight$=Q8_0", "blk.12.ffn_down_exps.weight", false},
        {"blk\\.(?:1?[0-9]|2[0-2])\\.=Q8_0", "blk.22.x.weight", true},
        {"blk\\.(?:1?[0-9]|2[0-2])\\.=Q8_0", "blk.23.x.weight", false},
        {"ffn_(?!down)=Q8_0", "blk.1.ffn_down.weight", false},
        {"\\bblk\\b=Q8_0", "blk.1.weight", true},
        {"(a)|b\\1=Q8_0", "b.weight", true}, /* a group that took no part is empty */
        {"\\x62lk=Q8_0", "blk.1.weight", true},
        {"\\u0062lk=Q8_0", "blk.1.weight", true},
        {"a{1,2}b=Q8_0", "xaab.weight", true},
        {"[^]weight=Q8_0", "x.weight", true},
        {"^weight=Q8_0", "x.weight", false},
        {"\\D\\d=Q8_0", "12.weight", true}, /* lower case: \d\d */
        {"[[:digit:]]=Q8_0", "blk.1.weight", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t type = type_under(&cases[i].item, 1, cases[i].name);
        if ((type == GGUF_Q8_0) != cases[i].hit)
            fail_msg("%s on %s: %d", cases[i].item, cases[i].name, (int)type);
    }
}

TEST(malformed_items) {
    static const struct {
        const char *item, *says;
    } cases[] = {
        {"attn_v", "PATTERN=TYPE"},
        {"=Q8_0", "before the '='"},
        {"attn_v=", "not a tensor type"},
        {"attn_v=Q9_X", "'Q9_X'"},
        {"attn_v=Q4_K_M", "Q4_K"},
        {"attn_v=COPY", "not a tensor type"},
        {"attn_v=q8_0 ", "'q8_0 '"},
        {"(attn=Q8_0", "(attn"},
        {"a=b=Q8_0", "'b=Q8_0'"},
        {"[z-a]=Q8_0", "[z-a]"},
        {"*=Q8_0", "*"},
        {"(?<n=Q8_0", "(?<n"},
        {"", "empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gq_error e = {0};
        const char *items[] = {"good=Q8_0", cases[i].item};
        assert_null(mix_patterns_new(items, 2, true, &e));
        assert_int_equal(e.status, GQ_USAGE);
        if (!strstr(e.text, cases[i].says)) fail_msg("%s: %s", cases[i].item, e.text);
    }
    gq_error e = {0};
    char longest[5000];
    memset(longest, 'a', sizeof longest);
    memcpy(longest + sizeof longest - 6, "=Q8_0", 6);
    const char *items[] = {longest};
    assert_null(mix_patterns_new(items, 1, true, &e));
    assert_non_null(strstr(e.text, "4096"));
    mix_patterns_free(NULL);
}

/* Patterns that would take longer than the age of the universe, or all memory, end with an error instead. */
TEST(hostile_patterns) {
    char name[128];
    memset(name, 'a', sizeof name - 1);
    memcpy(name + sizeof name - 8, ".weight", 8);
    static const char *const slow[] = {"(a+)+$=Q8_0", "(a|a)*[bc]=Q8_0", "(.*)*(.*)*(.*)*[!?]=Q8_0",
                                       "((a{1,60}){1,60}){1,60}[!?]=Q8_0"};
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
        gq_error e = {0};
        mix_pattern *p = mix_patterns_new(&slow[i], 1, true, &e);
        if (!p) continue; /* too large to compile is as good */
        mix_choice c = choose(&unknown, (mix_options){.patterns = p}, name, &e);
        if (c.type != GGUF_TYPE_LIMIT) fail_msg("%s: matched in time", slow[i]);
        assert_int_equal(e.status, GQ_USAGE);
        assert_non_null(strstr(e.text, name));
        mix_patterns_free(p);
    }
    enum { MANY = 60000 };
    const char **many = calloc(MANY, sizeof *many);
    assert_non_null(many);
    for (size_t i = 0; i < MANY; i++) many[i] = "(.{200}){9}=f16";
    gq_error e = {0};
    assert_null(mix_patterns_new(many, MANY, true, &e));
    assert_non_null(strstr(e.text, "16 MiB"));
    free(many);
}

/* A pattern for each of the tensors of a large model is fine; as many as a file of 1 MiB holds, on as many
 * names as another, would take minutes. */
TEST(many_patterns) {
    enum { FEW = 2000, MANY = 20000 };
    char(*texts)[64] = calloc(MANY, sizeof *texts), (*names)[64] = calloc(MANY, sizeof *names);
    const char **items = calloc(MANY, sizeof *items);
    mix_tensor *tensors = calloc(MANY, sizeof *tensors);
    uint32_t *order = calloc(MANY, sizeof *order);
    mix_choice *choices = calloc(MANY, sizeof *choices);
    assert_true(texts && names && items && tensors && order && choices);
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof *texts, "^blk\\.%u\\.ffn_(up|down)\\.weight$=Q6_K", i);
        snprintf(names[i], sizeof *names, "blk.%u.ffn_up.weight", i < FEW ? i : i + MANY);
        items[i] = texts[i], order[i] = i;
        tensors[i] = (mix_tensor){.name = names[i], .ne = {256, 256, 1, 1}, .type = GGUF_F16};
    }
    for (int many = 0; many < 2; many++) {
        gq_error e = {0};
        size_t n = many ? MANY : FEW;
        mix_pattern *p = mix_patterns_new(items, n, true, &e);
        if (!p) fail_msg("%s", e.text);
        mix_options o = {
            .filetype = mix_filetype_named("Q4_K_M"), .patterns = p, .output_type = -1, .embedding_type = -1};
        bool ok = mix_assign(&unknown, &o, tensors, n, order, choices, &e);
        assert_int_equal(ok, !many);
        if (many) assert_non_null(strstr(e.text, "20000 patterns take too long"));
        for (size_t i = 0; ok && i < n; i++) assert_int_equal(choices[i].type, GGUF_Q6_K);
        mix_patterns_free(p);
    }
    free(texts), free(names), free(items), free(tensors), free(order), free(choices);
}

TEST(keep_beats_everything) {
    const char *types[] = {"attn=Q8_0"}, *keeps[] = {"attn_v", "^output"};
    mix_pattern *p = mix_patterns_new(types, 1, true, NULL), *k = mix_patterns_new(keeps, 2, false, NULL);
    assert_true(p && k);
    gq_error e = {0};
    mix_options o = {.patterns = p, .keep = k};
    mix_choice c = choose(&unknown, o, "blk.0.attn_v.weight", &e);
    assert_int_equal(c.type, GGUF_F16);
    assert_int_equal(c.reason, MIX_KEEP);
    assert_non_null(strstr(c.why, "pattern"));
    c = choose(&unknown, o, "blk.0.attn_k.weight", &e);
    assert_int_equal(c.type, GGUF_Q8_0);
    assert_int_equal(c.reason, MIX_OPTION);
    assert_int_equal(choose(&unknown, o, "output.weight", &e).reason, MIX_KEEP);
    o.pure = true;
    assert_int_equal(choose(&unknown, o, "blk.0.attn_v.weight", &e).type, GGUF_F16);
    o.filetype = mix_filetype_named("F32");
    assert_int_equal(choose(&unknown, o, "blk.0.attn_v.weight", &e).type, GGUF_F16);
    mix_patterns_free(p), mix_patterns_free(k);

    const char *empty[] = {""};
    assert_null(mix_patterns_new(empty, 1, false, &e));
    const char *upper[] = {"ATTN_V"}; /* only recipes are lower-cased */
    k = mix_patterns_new(upper, 1, false, NULL);
    assert_int_equal(choose(&unknown, (mix_options){.keep = k}, "blk.0.attn_v.weight", &e).reason, MIX_RULE);
    mix_patterns_free(k);
    k = mix_patterns_new(NULL, 0, false, NULL);
    assert_non_null(k);
    assert_int_equal(choose(&unknown, (mix_options){.keep = k}, "blk.0.attn_v.weight", &e).reason, MIX_RULE);
    mix_patterns_free(k);
}

TEST(image_models) {
    static const struct {
        const char *arch, *kept, *quantized;
    } cases[] = {
        {"flux", "img_in.weight", "double_blocks.0.img_attn.qkv.weight"},
        {"flux", "guidance_in.in_layer.weight", "single_blocks.37.linear1.weight"},
        {"flux", "final_layer.linear.weight", "double_blocks.0.img_mod.lin.weight"},
        {"sd3", "context_embedder.weight", "joint_blocks.0.x_block.attn.qkv.weight"},
        {"sd3", "t_embedder.mlp.0.weight", "joint_blocks.0.context_block.mlp.fc1.weight"},
        {"wan", "time_projection.1.weight", "blocks.0.self_attn.q.weight"},
        {"wan", "head.head.weight", "blocks.0.ffn.0.weight"},
        {"qwen_image", "proj_out.weight", "transformer_blocks.0.attn.to_out.0.weight"},
        {"qwen_image", "time_text_embed.timestep_embedder.linear_1.weight",
         "transformer_blocks.0.img_mod.1.weight"},
        {"ltxv", "adaln_single.linear.weight", "transformer_blocks.0.attn1.to_q.weight"},
        {"ltxv", "patchify_proj.weight", "transformer_blocks.0.ff.net.2.weight"},
        {"hyvid", "txt_in.t_embedder.mlp.0.weight", "double_blocks.0.img_attn_qkv.weight"},
        {"sdxl", "label_emb.0.0.weight", "input_blocks.4.1.transformer_blocks.0.attn1.to_k.weight"},
        {"sd1", "out.2.weight", "middle_block.1.transformer_blocks.0.attn1.to_out.2.weight"},
        {"aura", "cond_seq_linear.weight", "double_layers.0.attn.w1q.weight"},
        {"hidream", "double_stream_blocks.0.block.ff_i.gate.weight",
         "double_stream_blocks.0.block.ff_i.experts.0.w1.weight"},
        {"cosmos", "x_embedder.proj.1.weight", "blocks.0.mlp.layer1.weight"},
        {"lumina2", "noise_refiner.0.attention.qkv.weight", "layers.0.attention.qkv.weight"},
        {"z_image", "cap_embedder.1.weight", "layers.29.feed_forward.w1.weight"},
        {"chroma", "distilled_guidance_layer.layers.0.in_layer.weight", "double_blocks.0.txt_mlp.0.weight"},
        {"qwen_image", "model.diffusion_model.proj_out.weight", "transformer_blocks.1.proj_out.weight"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mix_model m = {.arch = cases[i].arch, .n_blocks = -1};
        gq_error e = {0};
        mix_choice c = choose(&m, (mix_options){0}, cases[i].kept, &e);
        if (c.reason != MIX_KEEP || c.type != GGUF_F16)
            fail_msg("%s, %s is not kept", cases[i].arch, cases[i].kept);
        assert_non_null(strstr(c.why, "architecture"));
        c = choose(&m, (mix_options){0}, cases[i].quantized, &e);
        if (c.reason != MIX_RULE) fail_msg("%s, %s is kept", cases[i].arch, cases[i].quantized);
        /* In a model of another kind the names mean nothing. */
        assert_int_equal(choose(&unknown, (mix_options){0}, cases[i].kept, &e).reason, MIX_RULE);
        /* A pattern can undo a default. */
        const char *items[] = {".=Q8_0"};
        mix_pattern *p = mix_patterns_new(items, 1, true, NULL);
        assert_int_equal(choose(&m, (mix_options){.patterns = p}, cases[i].kept, &e).type, GGUF_Q8_0);
        mix_patterns_free(p);
    }
}

TEST(odd_tensors_of_image_models) {
    static const struct {
        uint64_t ne[4];
        uint32_t source, type;
        mix_reason reason;
    } cases[] = {
        {{256, 512, 1, 1}, GGUF_BF16, GGUF_Q4_K, MIX_RULE},
        {{3, 3, 320, 320}, GGUF_F16, GGUF_F16, MIX_KEEP},
        {{256, 4, 1, 1}, GGUF_F32, GGUF_F32, MIX_KEEP},
        {{256, 5, 1, 1}, GGUF_F32, GGUF_Q4_K, MIX_RULE},
        {{48, 512, 1, 1}, GGUF_BF16, GGUF_BF16, MIX_FALLBACK},
        {{48, 512, 1, 1}, GGUF_F32, GGUF_F32, MIX_FALLBACK},
        {{96, 512, 1, 1}, GGUF_BF16, GGUF_Q5_0, MIX_FALLBACK},
        {{256, 512, 1, 1}, GGUF_I32, GGUF_I32, MIX_KEEP},
        {{512, 1, 1, 1}, GGUF_F32, GGUF_F32, MIX_ONE_DIM},
    };
    mix_model m = {.arch = "flux", .n_blocks = -1};
    mix_options o = {.filetype = mix_filetype_named("Q4_K_M"), .output_type = -1, .embedding_type = -1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mix_tensor t = {.name = "blocks.0.thing.weight", .type = cases[i].source};
        memcpy(t.ne, cases[i].ne, sizeof t.ne);
        uint32_t order = 0;
        mix_choice c;
        assert_true(mix_assign(&m, &o, &t, 1, &order, &c, NULL));
        if (c.type != cases[i].type || c.reason != cases[i].reason)
            fail_msg("case %zu: %s, %s", i, tensor_type_name(c.type), c.why);
        assert_int_equal(*c.why == 0, c.reason == MIX_RULE);
    }
}

TEST(recipes) {
    static const char text[] = "\xEF\xBB\xBF# a comment, with a comma=Q9\n"
                               "  ^blk\\.0\\.attn_k\\.weight$=q8_0\r\n"
                               "\tffn_down{1,2}=Q6_K,ffn_up=Q5_K,\n"
                               ",output#1=F16   # and a comment behind\n"
                               "token_embd=bf16";
    static const char *const want[] = {"^blk\\.0\\.attn_k\\.weight$=q8_0", "ffn_down{1,2}=Q6_K",
                                       "ffn_up=Q5_K", "output#1=F16", "token_embd=bf16"};
    mix_recipe r;
    gq_error e = {0};
    assert_true(mix_recipe_read(&r, "recipe", text, sizeof text - 1, &e));
    assert_int_equal(r.n, 5);
    for (size_t i = 0; i < r.n; i++) assert_string_equal(r.items[i], want[i]);
    mix_pattern *p = mix_patterns_new((const char *const *)r.items, r.n, true, &e);
    assert_non_null(p);
    assert_int_equal(choose(&unknown, (mix_options){.patterns = p}, "blk.1.ffn_up.weight", &e).type,
                     GGUF_Q5_K);
    mix_patterns_free(p);
    mix_recipe_free(&r);

    assert_true(mix_recipe_read(&r, "empty", "", 0, &e));
    assert_int_equal(r.n, 0);
    mix_recipe_free(&r);
}

TEST(malformed_recipes) {
    static const struct {
        const char *text, *where, *says;
    } cases[] = {
        {"a=q8_0\n  b=q9_9 c=q8_0", "line 2, column 3", "q9_9"}, {"a=q8_0 b\n", "line 1, column 8", "'b'"},
        {"# x\n\n=q8_0", "line 3, column 1", "before"},          {"a=q8_0,(b=q8_0", "line 1, column 8", "(b"},
        {"a=q8_0;b=q8_0", "line 1, column 1", "q8_0;b=q8_0"},
    };
    mix_recipe r;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gq_error e = {0};
        assert_false(mix_recipe_read(&r, "my.recipe", cases[i].text, strlen(cases[i].text), &e));
        assert_int_equal(e.status, GQ_USAGE);
        assert_int_equal(r.n, 0);
        if (strncmp(e.text, "my.recipe, ", 11) || !strstr(e.text, cases[i].where) ||
            !strstr(e.text, cases[i].says))
            fail_msg("case %zu: %s", i, e.text);
    }
    gq_error e = {0};
    assert_false(mix_recipe_read(&r, "binary", "a=q8_0\n\0b", 9, &e));
    assert_non_null(strstr(e.text, "line 2, column 1"));
}

/* What patterns did is in the choices, of as many assignments as there were; the patterns stay as they are.
 */
TEST(patterns_that_do_nothing) {
    static const char *const types[] = {"attn_q=Q8_0", "norm=Q6_K", "attn_q.w=Q5_K", "ffn=Q6_K", "none=F16"};
    static const char *const names[] = {"blk.0.attn_q.weight", "blk.0.attn_norm.weight",
                                        "blk.0.ffn_up.weight"};
    mix_pattern *p = mix_patterns_new(types, 5, true, NULL),
                *k = mix_patterns_new((const char *const[]){"attn_q", "zzz"}, 2, false, NULL);
    mix_choice c[3];
    mix_idle_patterns idle;
    gq_error e = {0};
    for (int i = 0; i < 3; i++) c[i] = choose(&unknown, (mix_options){.patterns = p}, names[i], &e);
    assert_int_equal(c[0].pattern, 0);
    assert_int_equal(c[1].pattern, 1);
    assert_int_equal(c[2].pattern, 3);
    assert_int_equal(c[0].keeper, MIX_NO_PATTERN);
    assert_true(c[0].by_pattern && !c[1].by_pattern && c[2].by_pattern);
    assert_true(mix_patterns_idle(p, c, 3, &idle, &e));
    assert_int_equal(idle.unmatched, 2);
    assert_string_equal(idle.first_unmatched, "attn_q.w=Q5_K"); /* the one before it takes all */
    assert_int_equal(idle.powerless, 1);
    assert_string_equal(idle.first_powerless, "norm=Q6_K");
    assert_true(mix_patterns_idle(p, c, 1, &idle, &e)); /* what the others did is forgotten */
    assert_int_equal(idle.unmatched, 4);
    assert_int_equal(idle.powerless, 0);

    c[0] = choose(&unknown, (mix_options){.patterns = p, .keep = k}, names[0], &e);
    assert_int_equal(c[0].keeper, 0);
    assert_false(c[0].by_pattern);
    assert_true(mix_patterns_idle(k, c, 1, &idle, &e));
    assert_int_equal(idle.unmatched, 1);
    assert_string_equal(idle.first_unmatched, "zzz");
    assert_int_equal(idle.powerless, 0); /* to keep is all they are for */
    assert_true(mix_patterns_idle(NULL, c, 1, &idle, &e));
    assert_int_equal(idle.unmatched, 0);
    mix_patterns_free(p), mix_patterns_free(k);
}

/* Assigns, again and again, by patterns that another thread uses at the same time. */
static void *assign_by_shared(void *patterns) {
    static const char *const names[] = {"blk.0.attn_q.weight", "blk.0.ffn_up.weight", "aaaaaaaaaaaa.weight"};
    static const uint32_t types[] = {GGUF_Q8_0, GGUF_Q6_K, GGUF_Q4_K};
    for (size_t i = 0; i < 3000; i++) {
        gq_error e = {0};
        mix_choice c = choose(&unknown, (mix_options){.patterns = patterns}, names[i % 3], &e);
        if (e.text[0] || c.type != types[i % 3]) return (void *)names[i % 3];
    }
    return NULL;
}

TEST(threads_may_share_patterns) {
    static const char *const items[] = {"(a+)+b=F16", "(.*)attn_(.*)=Q8_0", "ffn_(up|gate)=Q6_K"};
    gq_error e = {0};
    mix_pattern *p = mix_patterns_new(items, 3, true, &e);
    if (!p) fail_msg("%s", e.text);
    pthread_t other;
    void *failed;
    assert_int_equal(pthread_create(&other, NULL, assign_by_shared, p), 0);
    const char *here = assign_by_shared(p);
    assert_int_equal(pthread_join(other, &failed), 0);
    if (here || failed) fail_msg("%s: another type", here ? here : (const char *)failed);
    mix_patterns_free(p);
}

int main(void) { return tests_run(NULL, NULL); }
