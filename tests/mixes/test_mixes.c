/* The rules that recorded models do not reach, and what must hold for any list of tensors. */
#include "mixes/mixes.h"
#include "tests/support/support.h"

static const mix_model unknown = {NULL, -1, 0, 0, 0, false};

static mix_options options(const char *filetype) {
    mix_options o = {.filetype = mix_filetype_named(filetype), .output_type = -1, .embedding_type = -1};
    if (!o.filetype) fail_msg("no file type %s", filetype);
    return o;
}

static mix_tensor tensor(const char *name, uint64_t columns, uint64_t rows) {
    return (mix_tensor){.name = name, .ne = {columns, rows, 1, 1}, .type = GGUF_F16};
}

static bool assign(const mix_model *m, const mix_options *o, const mix_tensor *tensors, size_t n,
                   mix_choice *choices, gq_error *e) {
    uint32_t *order = calloc(n + 1, sizeof *order);
    assert_non_null(order);
    bool ok = mix_order(tensors, n, false, order, e) && mix_assign(m, o, tensors, n, order, choices, e);
    free(order);
    return ok;
}

static mix_choice one(const mix_model *m, const mix_options *o, mix_tensor t) {
    mix_choice c;
    gq_error e = {0};
    if (!assign(m, o, &t, 1, &c, &e)) fail_msg("%s", e.text);
    return c;
}

TEST(filetypes_by_name_and_number) {
    assert_string_equal(mix_filetype_named("q4_k_m")->name, "Q4_K_M");
    assert_ptr_equal(mix_filetype_named("15"), mix_filetype_named("Q4_K_M"));
    assert_ptr_equal(mix_filetype_named("q4_k"), mix_filetype_named("Q4_K_M"));
    assert_ptr_equal(mix_filetype_named("Q3_K"), mix_filetype_named("Q3_K_M"));
    assert_ptr_equal(mix_filetype_named("Q5_K"), mix_filetype_named("Q5_K_M"));
    assert_int_equal(mix_filetype_named("copy")->id, -1);
    static const char *const refused[] = {
        "4",  "5", "6",   "33",  "34",  "35", "39",      "42",
        "-1", "",  " 15", "15 ", "1e1", "Q4", "Q4_K_XL", "99999999999999999999"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) assert_null(mix_filetype_named(refused[i]));
    for (size_t i = 0; i < mix_n_filetypes; i++) {
        const mix_filetype *f = &mix_filetypes[i];
        assert_ptr_equal(mix_filetype_named(f->name), f);
        assert_true(f->summary[0]);
        assert_true(f->id < 0 || tensor_type_of(f->base));
        for (size_t j = 0; j < i; j++) assert_int_not_equal(f->id, mix_filetypes[j].id);
    }
}

TEST(nearest_names) {
    assert_string_equal(mix_filetype_nearest("Q4KM"), "Q4_K_M");
    assert_string_equal(mix_filetype_nearest("q5_k_mm"), "Q5_K_M");
    assert_string_equal(mix_filetype_nearest("iq2xxs"), "IQ2_XXS");
    assert_string_equal(mix_filetype_nearest("mxfp4"), "MXFP4_MOE");
    assert_string_equal(mix_filetype_nearest("Q4_K_L"), "Q4_K_S");
    assert_string_equal(mix_filetype_nearest("q80"), "Q8_0");
    assert_string_equal(mix_filetype_nearest("fp16"), "F16");
    assert_null(mix_filetype_nearest(""));
    assert_null(mix_filetype_nearest("banana"));
    char longest[1000];
    memset(longest, 'Q', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    assert_null(mix_filetype_nearest(longest));
}

/* Which of n blocks get Q6_K for attn_v in Q4_K_M: a text of n digits, 1 for those that do. */
static void promoted(size_t n, char *text) {
    char names[128][48];
    mix_tensor tensors[128];
    mix_choice choices[128];
    mix_options o = options("Q4_K_M");
    for (size_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "blk.%zu.attn_v.weight", i);
        tensors[i] = tensor(names[i], 256, 256);
    }
    assert_true(assign(&unknown, &o, tensors, n, choices, NULL));
    for (size_t i = 0; i < n; i++) text[i] = choices[i].type == GGUF_Q6_K ? '1' : '0';
    text[n] = 0;
}

TEST(more_bits_examples) {
    /* The examples of docs/internals/mixes.md, as lists of blocks. */
    static const struct {
        size_t n;
        int first, last_from; /* blocks below, and from here on */
        int between[24];      /* ends with 0 */
    } cases[] = {
        {32, 4, 27, {6, 9, 12, 15, 18, 21, 24}},
        {28, 3, 23, {5, 8, 11, 14, 17, 20}},
        {6, 0, 5, {2}},
        {80, 10, 70, {12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45, 48, 51, 54, 57, 60, 63, 66, 69}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char want[129], got[129];
        memset(want, '0', cases[c].n);
        want[cases[c].n] = 0;
        for (int i = 0; i < (int)cases[c].n; i++)
            if (i < cases[c].first || i >= cases[c].last_from) want[i] = '1';
        for (const int *i = cases[c].between; *i; i++) want[*i] = '1';
        promoted(cases[c].n, got);
        assert_string_equal(got, want);
    }
}

TEST(values_of_big_models) {
    static const struct {
        mix_model model;
        const char *filetype;
        uint32_t type;
    } cases[] = {
        {{"llama", 80, 64, 8, 0, false}, "Q4_K_S", GGUF_Q5_K},
        {{"llama", 80, 64, 8, 0, false}, "Q3_K_S", GGUF_Q5_K},
        {{"llama", 80, 64, 8, 0, false}, "IQ3_M", GGUF_Q5_K},
        {{"llama", 80, 64, 8, 0, false}, "Q6_K", GGUF_Q6_K},
        {{"llama", 80, 64, 8, 0, false}, "IQ2_XS", GGUF_Q4_K}, /* below three bits the rule is off */
        {{"llama", 80, 64, 64, 0, false}, "Q3_K_S", GGUF_Q3_K},
        {{"llama", 79, 64, 8, 0, false}, "Q3_K_S", GGUF_Q3_K},
        {{"llama-embed", 80, 64, 8, 0, false}, "Q3_K_S", GGUF_Q5_K},
        {{"qwen2", 80, 64, 64, 0, false}, "Q3_K_S", GGUF_Q5_K},
        {{"olmo", 80, 64, 64, 0, false}, "Q3_K_S", GGUF_Q5_K},
        {{"deci", 80, 64, 64, 0, false}, "Q3_K_S", GGUF_Q5_K},
        {{"jais2", 68, 64, 64, 0, false}, "Q3_K_S", GGUF_Q5_K},
        {{"jais2", 80, 64, 64, 0, false}, "Q3_K_S", GGUF_Q3_K},
        {{"mystery", 80, 64, 8, 0, false}, "Q3_K_S", GGUF_Q3_K},
        {{"llama", 80, 64, 8, 8, false}, "Q3_K_S", GGUF_Q8_0}, /* eight experts go first */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mix_options o = options(cases[i].filetype);
        mix_tensor t = tensor("blk.70.attn_v.weight", 8192, 1024);
        assert_int_equal(one(&cases[i].model, &o, t).type, cases[i].type);
    }
}

TEST(binary_file_types) {
    static const struct {
        const char *filetype, *name;
        uint64_t columns;
        uint32_t type;
    } cases[] = {
        {"Q1_0", "blk.0.ffn_up.weight", 1024, GGUF_Q1_0}, {"Q2_0", "blk.0.ffn_up.weight", 1024, GGUF_Q2_0},
        {"Q1_0", "output.weight", 1024, GGUF_Q6_K},       {"Q2_0", "output.weight", 1024, GGUF_Q6_K},
        {"Q1_0", "output.weight", 96, GGUF_Q8_0},         {"Q2_0", "blk.0.ffn_up.weight", 96, GGUF_Q4_0},
        {"Q2_0", "blk.0.ffn_up.weight", 24, GGUF_F16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mix_options o = options(cases[i].filetype);
        assert_int_equal(one(&unknown, &o, tensor(cases[i].name, cases[i].columns, 8)).type, cases[i].type);
    }
    mix_tensor both[2] = {tensor("output.weight", 256, 8), tensor("token_embd.weight", 256, 8)};
    mix_choice choices[2];
    mix_options q1 = options("Q1_0"), q2 = options("Q2_0");
    assert_true(assign(&unknown, &q1, both, 2, choices, NULL));
    assert_int_equal(choices[1].type, GGUF_Q1_0);
    assert_true(assign(&unknown, &q2, both, 2, choices, NULL));
    assert_int_equal(choices[1].type, GGUF_Q4_K);

    /* Nothing stands in for Q1_0. */
    mix_tensor odd = tensor("blk.0.ffn_up.weight", 96, 8);
    gq_error e = {0};
    assert_false(assign(&unknown, &q1, &odd, 1, choices, &e));
    assert_non_null(strstr(e.text, "blk.0.ffn_up.weight"));
    assert_non_null(strstr(e.text, "96"));
}

TEST(unknown_facts_fire_no_rules) {
    mix_options o = options("Q4_K_M");
    /* No block_count: no place to compare with, so no promotion, and block numbers are not checked. */
    mix_model m = {"mystery", -1, 0, 0, 128, false};
    assert_int_equal(one(&m, &o, tensor("blk.0.ffn_down.weight", 256, 8)).type, GGUF_Q4_K);
    assert_int_equal(one(&m, &o, tensor("mtp.ffn_down.weight", 256, 8)).type, GGUF_Q4_K);
    assert_int_equal(one(&m, &o, tensor("blk.99.ffn_up.weight", 256, 8)).type, GGUF_Q4_K);
    /* No head counts: V is not promoted as if heads were shared. */
    mix_options q2 = options("Q2_K");
    assert_int_equal(one(&unknown, &q2, tensor("blk.0.attn_v.weight", 256, 8)).type, GGUF_Q3_K);
    mix_model shared = {"", -1, 32, 8, 0, false}, strange = {"", -1, INT64_MIN, -1, INT64_MIN, false};
    assert_int_equal(one(&shared, &q2, tensor("blk.0.attn_v.weight", 256, 8)).type, GGUF_Q4_K);
    assert_int_equal(one(&strange, &q2, tensor("blk.0.attn_v.weight", 256, 8)).type, GGUF_Q3_K);
}

TEST(block_numbers_of_models_with_experts) {
    mix_model m = {"mystery", 4, 0, 0, 2, false};
    mix_options o = options("Q4_K_M"), low = options("IQ2_XS"), mxfp4 = options("MXFP4_MOE"),
                f16 = options("F16");
    static const char *const bad[] = {"ffn_up.weight",
                                      "blk.4.ffn_down.weight",
                                      "blk.-1.ffn_up.weight",
                                      "blk..ffn_gate.weight",
                                      "blk.18446744073709551616.ffn_up.weight",
                                      "dec.blk.0.ffn_up.weight"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mix_tensor t = tensor(bad[i], 256, 8);
        mix_choice c;
        gq_error e = {0};
        assert_false(assign(&m, &o, &t, 1, &c, &e));
        assert_int_equal(e.status, GQ_FAILED);
        assert_non_null(strstr(e.text, bad[i]));
        assert_true(assign(&m, &low, &t, 1, &c, &e));
        assert_true(assign(&m, &mxfp4, &t, 1, &c, &e));
        assert_true(assign(&m, &f16, &t, 1, &c, &e));
        mix_options pure = o;
        pure.pure = true;
        assert_true(assign(&m, &pure, &t, 1, &c, &e));
    }
    assert_int_equal(one(&m, &o, tensor("blk.3.ffn_down.weight", 256, 8)).type, GGUF_Q6_K);
}

TEST(order_is_by_block_then_name) {
    static const char *const want[] = {"a.weight",      "blk.x.weight", "dec.blk.1.w",
                                       "output.weight", "blk.0.b",      "blk.0.c",
                                       "blk.2.a",       "blk.10.a",     "blk.99999999999999999999.a"};
    enum { N = sizeof want / sizeof *want };
    mix_tensor tensors[N];
    uint32_t order[N];
    for (size_t shift = 0; shift < N; shift++) {
        for (size_t i = 0; i < N; i++) tensors[i] = tensor(want[(i * 2 + shift) % N], 1, 1);
        assert_true(mix_order(tensors, N, false, order, NULL));
        for (size_t i = 0; i < N; i++) assert_string_equal(tensors[order[i]].name, want[i]);
        assert_true(mix_order(tensors, N, true, order, NULL));
        for (size_t i = 0; i < N; i++) assert_int_equal(order[i], i);
    }
}

TEST(odd_shapes) {
    static const struct {
        uint64_t ne[4];
        uint32_t type;
        mix_reason reason;
    } cases[] = {
        {{256, 8, 1, 1}, GGUF_Q4_K, MIX_RULE},
        {{256, 1, 1, 1}, GGUF_F32, MIX_ONE_DIM},
        {{256, 1, 4, 1}, GGUF_Q4_K, MIX_RULE},
        {{256, 1, 1, 4}, GGUF_Q4_K, MIX_RULE},
        {{256, 2, 3, 4}, GGUF_Q4_K, MIX_RULE},
        {{1, 64, 1, 1}, GGUF_F16, MIX_FALLBACK},
        {{31, 64, 1, 1}, GGUF_F16, MIX_FALLBACK},
        {{32, 64, 1, 1}, GGUF_Q5_0, MIX_FALLBACK},
        {{0, 64, 1, 1}, GGUF_F32, MIX_KEEP},
        {{64, 0, 1, 1}, GGUF_F32, MIX_KEEP},
        {{64, 64, 64, 0}, GGUF_F32, MIX_KEEP},
        {{UINT64_MAX, UINT64_MAX, UINT64_MAX, 2}, GGUF_F16, MIX_FALLBACK},
        {{1ull << 63, 2, 1, 1}, GGUF_Q4_K, MIX_RULE},
    };
    mix_options o = options("Q4_K_M");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mix_tensor t = {.name = "something.weight", .ne = {0}, .type = GGUF_F32};
        memcpy(t.ne, cases[i].ne, sizeof t.ne);
        mix_choice c = one(&unknown, &o, t);
        assert_int_equal(c.type, cases[i].type);
        assert_int_equal(c.reason, cases[i].reason);
        assert_int_equal(*c.why == 0, c.reason == MIX_RULE);
    }
    uint32_t order[1];
    assert_true(mix_order(NULL, 0, false, order, NULL));
    assert_true(mix_assign(&unknown, &o, NULL, 0, order, NULL, NULL));
}

TEST(types_by_name_must_fit) {
    mix_tensor t[] = {tensor("output.weight", 96, 8), tensor("token_embd.weight", 96, 8)};
    mix_choice c[2];
    gq_error e = {0};
    mix_options o = options("F16");
    o.output_type = GGUF_Q4_K;
    assert_false(assign(&unknown, &o, t, 2, c, &e));
    assert_int_equal(e.status, GQ_USAGE);
    assert_non_null(strstr(e.text, "output.weight"));
    assert_non_null(strstr(e.text, "output tensor's type"));
    o.output_type = GGUF_Q4_0, o.embedding_type = GGUF_Q6_K;
    assert_false(assign(&unknown, &o, t, 2, c, &e));
    assert_non_null(strstr(e.text, "token_embd.weight"));
    o.embedding_type = GGUF_IQ2_XS;
    t[1].ne[0] = 256;
    assert_true(assign(&unknown, &o, t, 2, c, &e));
    assert_true(c[1].needs_imatrix);
    assert_false(c[0].needs_imatrix);
}

/* ---- any list of tensors ---- */

static uint32_t seed;
static uint32_t draw(uint32_t below) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

enum { LIST = 300 };
typedef struct list {
    mix_tensor tensors[LIST];
    char names[LIST][128];
} list;

static void draw_list(list *l) {
    static const char *const parts[] = {"attn_v",   "attn_k",       "attn_q",    "attn_output",
                                        "ffn_up",   "ffn_gate",     "ffn_down",  "ffn_down_exps",
                                        "attn_qkv", "ffn_gate_inp", "odd_thing", "attn_norm"};
    static const uint64_t columns[] = {1, 8, 32, 64, 96, 256, 512, 1000, 4096};
    static const uint32_t types[] = {GGUF_F32, GGUF_F16, GGUF_BF16};
    for (int i = 0; i < LIST; i++) {
        char *name = l->names[i];
        int n = snprintf(name, 128, "blk.%d.%s.%d", i / 12, parts[draw(12)], i);
        if (i % 50 == 0) /* as long as a name can be */
            while (n < 120) name[n++] = 'x';
        snprintf(name + n, (size_t)(128 - n), ".weight");
        l->tensors[i] = (mix_tensor){.name = name,
                                     .ne = {columns[draw(9)], 1 + draw(64), 1 + draw(3), 1 + draw(2)},
                                     .type = types[draw(3)]};
    }
    snprintf(l->names[0], 128, "token_embd.weight");
    snprintf(l->names[1], 128, "%s", draw(2) ? "output.weight" : "x.weight");
}

TEST(holds_for_any_list) {
    static const char *const archs[] = {NULL,    "llama", "falcon",    "bailingmoe3",
                                        "qwen2", "flux",  "unheard-of"};
    static const int64_t blocks[] = {-1, 0, 1, 25, 80, INT64_MAX};
    list *l = calloc(1, sizeof *l), *mixed = calloc(1, sizeof *mixed);
    mix_choice *a = calloc(LIST, sizeof *a), *b = calloc(LIST, sizeof *b);
    size_t done = 0, quantized = 0;
    for (seed = 1; seed < 40; seed++) {
        uint32_t start = seed;
        draw_list(l);
        mix_model m = {archs[draw(7)], blocks[draw(6)], 1 + draw(64), draw(9), draw(10), false};
        for (size_t f = 0; f < mix_n_filetypes; f++) {
            mix_options o = {.filetype = &mix_filetypes[f],
                             .imatrix = draw(2),
                             .pure = draw(4) == 0,
                             .output_type = -1,
                             .embedding_type = -1};
            gq_error e = {0};
            if (!assign(&m, &o, l->tensors, LIST, a, &e)) {
                assert_int_equal(e.status, GQ_FAILED); /* a block number or Q1_0: never silent */
                assert_non_null(strstr(e.text, "tensor '"));
                continue;
            }
            done++;
            /* The order in the file plays no role. */
            for (int i = 0; i < LIST; i++) mixed->tensors[i] = l->tensors[(i * 7 + 3) % LIST];
            assert_true(assign(&m, &o, mixed->tensors, LIST, b, &e));
            for (int i = 0; i < LIST; i++) assert_memory_equal(&b[i], &a[(i * 7 + 3) % LIST], sizeof *a);
            for (int i = 0; i < LIST; i++) {
                const mix_tensor *t = &l->tensors[i];
                const tensor_type *type = tensor_type_of(a[i].type);
                assert_non_null(type);
                assert_int_equal(t->ne[0] % type->block_elements, 0);
                assert_int_equal(a[i].type != a[i].wanted, a[i].reason == MIX_FALLBACK);
                assert_int_equal(*a[i].why == 0, a[i].reason == MIX_RULE);
                bool changed = a[i].reason == MIX_RULE || a[i].reason == MIX_FALLBACK;
                if (!changed) assert_int_equal(a[i].type, t->type);
                quantized += type->quantized;
            }
        }
        seed = start;
    }
    assert_true(done > 500 && quantized > 10000);
    free(l), free(mixed), free(a), free(b);
}

TEST(hundred_thousand_tensors) {
    enum { N = 100000 };
    mix_tensor *tensors = calloc(N, sizeof *tensors);
    mix_choice *choices = calloc(N, sizeof *choices);
    char(*names)[48] = calloc(N, sizeof *names);
    assert_true(tensors && choices && names);
    for (size_t i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "blk.%zu.ffn_down.%zu.weight", (N - 1 - i) / 100, i % 100);
        tensors[i] = tensor(names[i], 256, 2);
    }
    mix_model m = {"llama", N / 100, 32, 8, 100, false};
    mix_options o = options("Q4_K_M");
    assert_true(assign(&m, &o, tensors, N, choices, NULL));
    size_t q6 = 0;
    for (size_t i = 0; i < N; i++) q6 += choices[i].type == GGUF_Q6_K;
    assert_int_equal(q6, 50000); /* 125 + 250 + 125 of 1000 blocks */
    free(tensors), free(choices), free(names);
}

/* ---- sources that convert ---- */

static mix_tensor converted(const char *name, uint64_t rows, uint32_t type, bool stays) {
    mix_tensor t = tensor(name, 256, rows);
    t.type = type, t.kept_type = tensor_type_of(GGUF_F32), t.stays = stays;
    return t;
}

static const char WEIGHT[] = "blk.0.attn_q.weight", NORM[] = "blk.0.attn_norm.weight",
                  ROUTER[] = "blk.0.ffn_gate_inp.weight";

static void assert_type(const char *filetype, mix_tensor t, uint32_t type) {
    mix_options o = options(filetype);
    mix_choice c = one(&unknown, &o, t);
    if (c.type != type || c.wanted != type)
        fail_msg("%s: %s is %s, wanted %s; expected %s", filetype, t.name, tensor_type_name(c.type),
                 tensor_type_name(c.wanted), tensor_type_name(type));
}

TEST(what_a_converter_keeps_has_its_type) {
    assert_type("Q4_K_M", converted(NORM, 1, GGUF_BF16, true), GGUF_F32);
    assert_type("Q4_K_M", converted(ROUTER, 8, GGUF_BF16, false), GGUF_F32);
    assert_type("Q4_K_M", converted(WEIGHT, 256, GGUF_BF16, false), GGUF_Q4_K);
    assert_type("Q4_K_M", tensor(NORM, 256, 1), GGUF_F16); /* a GGUF's keeps its own */
}

TEST(numbers_of_16_bits_are_a_type_for_all_but_those_that_stay) {
    static const uint32_t types[] = {GGUF_F32, GGUF_F16, GGUF_BF16};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *name = tensor_type_name(types[i]);
        assert_type(name, converted(NORM, 1, GGUF_BF16, true), GGUF_F32);
        assert_type(name, converted(NORM, 1, GGUF_F32, false), types[i]);
        assert_type(name, converted(ROUTER, 8, GGUF_BF16, false), types[i]);
        assert_type(name, converted(WEIGHT, 256, GGUF_F32, false), types[i]);
    }
    assert_type("COPY", converted(ROUTER, 8, GGUF_BF16, false), GGUF_BF16);
    assert_type("COPY", converted(NORM, 1, GGUF_BF16, true), GGUF_BF16);
}

TEST(the_user_keeps_what_has_16_bits) {
    static const char *const all[] = {"."};
    mix_options o = options("Q4_K_M");
    mix_pattern *keep = mix_patterns_new(all, 1, false, NULL);
    o.keep = keep;
    assert_int_equal(one(&unknown, &o, converted(WEIGHT, 256, GGUF_BF16, false)).type, GGUF_BF16);
    assert_int_equal(one(&unknown, &o, converted(WEIGHT, 256, GGUF_BF16, true)).type, GGUF_F32);
    mix_patterns_free(keep);
}

TEST(what_is_quantized_is_copied_unless_asked_otherwise) {
    mix_tensor t = converted(WEIGHT, 256, GGUF_MXFP4, false);
    t.kept_type = tensor_type_of(GGUF_MXFP4);
    mix_options o = options("Q4_K_M");
    mix_choice c = one(&unknown, &o, t);
    assert_int_equal(c.type, GGUF_MXFP4);
    assert_int_equal(c.reason, MIX_KEEP);
    assert_string_equal(c.why, "kept: quantized already");
    o.requantize = true;
    assert_int_equal(one(&unknown, &o, t).type, GGUF_Q4_K);
    static const char *const items[] = {"attn_q=q6_k"};
    mix_pattern *patterns = mix_patterns_new(items, 1, true, NULL);
    o = options("Q4_K_M"), o.patterns = patterns;
    c = one(&unknown, &o, t);
    assert_int_equal(c.type, GGUF_Q6_K);
    assert_true(c.by_pattern);
    t.ne[0] = 32; /* the pattern's type does not fit: it has not decided */
    c = one(&unknown, &o, t);
    assert_int_equal(c.type, GGUF_MXFP4);
    assert_false(c.by_pattern);
    mix_patterns_free(patterns);
}

int main(void) { return tests_run(NULL, NULL); }
