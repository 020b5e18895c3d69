/* Models that are not what a quantizer expects, and what the command says of them: adapters, importance data,
 * projectors, embedding models, models that are quantized already, names and keys that others trip over. */
#include "tests/support/one_model.h"

static void write_model(model *m, const char *path) { model_save(m, path); }

TEST(test_adapters) {
    const char *lora = in_folder(folder, "lora.gguf"), *out = in_folder(folder, "out.gguf");
    model *m = model_new("llama", 1);
    model_set_string(m, "general.type", "adapter");
    model_set_string(m, "adapter.type", "lora");
    model_add(m, "blk.0.attn_q.weight.lora_a", GGUF_F16, (uint64_t[4]){256, 8}, NULL);
    model_add(m, "blk.0.attn_q.weight.lora_b", GGUF_F16, (uint64_t[4]){8, 256}, NULL);
    write_model(m, lora);
    GQUANT_SAYS(1, "lora.gguf is an adapter (LoRA), which has no weights to quantize", lora, out, "Q4_K_M");
    GQUANT_SAYS(1, "llama-export-lora", "--out-dir", folder, lora, "COPY", "Q8_0");
    assert_int_equal(count_files(folder), 3);
    GQUANT(0, "-q", lora, out, "COPY");
    unlink(lora), unlink(out);
    GQUANT(0, "-q", "imatrix", "convert", matrix, out);
    GQUANT_SAYS(1, "is an imatrix, not a model", out, in_folder(folder, "b.gguf"), "Q4_K_M");
    unlink(out);
}

/* llama.cpp quantizes them as it does others; no number of blocks is known, so that all ffn_down are first.
 */
TEST(test_projectors) {
    const char *in = in_folder(folder, "mmproj.gguf"), *out = in_folder(folder, "out.gguf");
    model *m = model_new("clip.vision", 1); /* sets clip.vision.block_count */
    model_set_string(m, "general.architecture", "clip");
    model_add(m, "v.blk.0.attn_q.weight", GGUF_F16, (uint64_t[4]){256, 256}, NULL);
    model_add(m, "v.blk.0.ffn_down.weight", GGUF_F16, (uint64_t[4]){256, 256}, NULL);
    model_add(m, "v.position_embd.weight", GGUF_F16, (uint64_t[4]){256, 17}, NULL);
    write_model(m, in);
    GQUANT_SAYS(0, "Q4_0: a projector (mmproj)", in, out, "Q4_0");
    unlink(out);
    char *err = gquant(0, (const char *const[]){in, out, "Q8_0", NULL});
    assert_non_null(strstr(err, "clip.projector_type is missing or unknown"));
    free(err);
    unlink(out);
    json *plan = PLAN(folder, in, out, "Q4_K_M");
    assert_string_equal(report_type(plan, "v.blk.0.ffn_down.weight"), "Q6_K");
    assert_string_equal(report_type(plan, "v.blk.0.attn_q.weight"), "Q4_K");
    assert_string_equal(report_type(plan, "v.position_embd.weight"), "F16");
    json_free(plan);
    unlink(in);
}

/* As llama.cpp has them: rows of 384 fall back, the token types and positions stay. */
TEST(test_embedding_models) {
    const char *in = in_folder(folder, "bert.gguf");
    model *m = model_new("bert", 1);
    model_set_u32(m, "bert.pooling_type", 1);
    static const struct {
        const char *name, *type;
        uint64_t ne[4];
    } parts[] = {
        {"token_embd.weight", "Q8_0", {384, 64}},       {"token_types.weight", "F16", {384, 2}},
        {"position_embd.weight", "F16", {384, 16}},     {"blk.0.attn_q.weight", "Q5_0", {384, 384}},
        {"blk.0.attn_v.weight", "Q8_0", {384, 384}},    {"blk.0.ffn_down.weight", "Q6_K", {1536, 384}},
        {"blk.0.attn_output_norm.weight", "F16", {384}}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        model_add(m, parts[i].name, GGUF_F16, parts[i].ne, NULL);
    write_model(m, in);
    json *plan = PLAN(folder, in, "Q4_K_M");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_string_equal(report_type(plan, parts[i].name), parts[i].type);
    json_free(plan);
    GQUANT_SAYS(0, "rows that do not fit the wanted type", "-n", in, "Q4_K_M");
    unlink(in);
}

TEST(test_requantizing) {
    const char *half = in_folder(folder, "half.gguf"), *out = in_folder(folder, "out.gguf");
    GQUANT(0, "-q", source, half, "Q8_0");
    GQUANT_SAYS(1, "--allow-requantize", half, out, "Q4_K_M");
    GQUANT_SAYS(
        0, "tensors are quantized already, most as Q8_0: errors are measured against the quantized values",
        "--allow-requantize", half, out, "Q4_K_M");
    unlink(out);
    char *err = gquant(0, (const char *const[]){half, out, "COPY", NULL});
    assert_null(strstr(err, "quantized already")); /* nothing is lost */
    free(err);
    unlink(out);
    GQUANT_SAYS(0, "Q8_0: no tensor changes", half, out, "Q8_0");
    unlink(half), unlink(out);
}

TEST(test_long_names) {
    const char *in = in_folder(folder, "long.gguf");
    for (int length = 63; length <= 64; length++) {
        char name[65], *err;
        snprintf(name, sizeof name, "blk.0.%0*d.weight", length - 13, 0);
        model *m = model_new("llama", 1);
        model_add(m, name, GGUF_F16, (uint64_t[4]){256, 4}, NULL);
        write_model(m, in);
        err = gquant(0, (const char *const[]){"-n", in, "Q8_0", NULL});
        assert_int_equal(strstr(err, "longer than 63 bytes, which llama.cpp refuses") != NULL, length > 63);
        assert_int_equal(strstr(err, name) != NULL, length > 63);
        free(err);
    }
    unlink(in);
}

/* What stays of a tokenizer is of no use without the rest. */
TEST(test_half_a_tokenizer) {
    const char *in = in_folder(folder, "half.gguf"), *out = in_folder(folder, "out.gguf");
    model *m = model_new("llama", 1);
    model_set_string(m, "tokenizer.ggml.model", "gpt2");
    model_set_string(m, "tokenizer.ggml.pre", "qwen2");
    model_add(m, "a.weight", GGUF_F16, (uint64_t[4]){256, 4}, NULL);
    write_model(m, in);
    GQUANT_SAYS(0, "without tokenizer.ggml.pre llama.cpp cannot load the tokenizer", "--dry-run",
                "--remove-kv", "tokenizer.ggml.pre", in, out, "Q8_0");
    char *err =
        gquant(0, (const char *const[]){"--dry-run", "--remove-kv", "tokenizer.*", in, out, "Q8_0", NULL});
    assert_null(strstr(err, "cannot load the tokenizer"));
    free(err);
    unlink(in);
}

TEST(test_overrides) {
    const char *in = in_folder(folder, "keys.gguf");
    static const uint32_t heads[] = {2, 2};
    model *m = model_new("llama", 2);
    model_set_string(m, "odd.text", "a");
    model_set(m, "odd.truth", GGUF_BOOL, "\1", 1);
    model_set_array(m, "odd.list", GGUF_U32, heads, 2);
    model_set_array(m, "odd.bytes", GGUF_BOOL, "\1\0", 2);
    model_add(m, "a.weight", GGUF_F16, (uint64_t[4]){256, 4}, NULL);
    write_model(m, in);
    static const struct {
        const char *item, *mention; /* NULL: accepted */
    } rows[] = {
        {"tokenizer.ggml.add_bos_token=int:1", "llama.cpp reads the key as a bool, not u32"},
        {"tokenizer.ggml.mask_token_id=str:x",
         "reads the key as a number of 32 bits without a sign, not string"},
        {"tokenizer.chat_template=int:1", "llama.cpp reads the key as a string, not u32"},
        {"general.sampling.temp=str:x", "llama.cpp reads the key as a number, not string"},
        {"llama.attention.causal=int:0", "llama.cpp reads the key as a bool, not u32"},
        {"llama.attention.sliding_window=int:-3", "as a number of 32 bits without a sign, not i32"},
        {"llama.rope.scaling.factor=int:2", "llama.cpp reads the key as a float, not u32"},
        {"llama.expert_weights_norm=int:1", "llama.cpp reads the key as a bool, not u32"},
        {"tokenizer.ggml.scores=float:1", "llama.cpp reads the key as a list of f32, not f32"},
        {"tokenizer.ggml.eos_token_ids=int:3", "llama.cpp reads the key as a list, not u32"},
        {"llama.attention.sliding_window_pattern=float:2", "llama.cpp reads the key as"},
        {"tokenizer.ggml.precompiled_charsmap=str:x", "llama.cpp reads the key as a list, not string"},
        {"tokenizer.ggml.remove_extra_whitespaces=str:true", "as a bool, not string"},
        {"llama.expert_count=int:4", "the model has no tensors of experts"},
        {"llama.nextn_predict_layers=int:1", "the model has no tensors of MTP layers"},
        {"adapter.type=str:x", "this key is set by the adapter"},
        {"general.type=str:mmproj", "the file is a model, or a part of one"},
        {"odd.text=int:1", "the key has type string in the model, not u32"},
        {"odd.text=bool:true", "type string in the model, not bool"},
        {"odd.truth=int:1", "type bool in the model, not u32"},
        {"odd.truth=str:true", "type bool in the model, not string"},
        {"llama.block_count=str:2", "as a number of 32 bits without a sign, not string"},
        {"llama.block_count=bool:true", "as a number of 32 bits without a sign, not bool"},
        {"odd.bytes=bool:true", "type array in the model, not bool"},
        {"odd.list=str:2", "type array in the model, not string"},
        {"odd.list=int:2", NULL}, /* the same for all layers */
        {"odd.text=str:b", NULL},
        {"odd.truth=bool:false", NULL},
        {"llama.block_count=float:2", NULL},
        {"llama.block_count=int:3", NULL},
        {"odd.new=bool:true", NULL},
    };
    static const char *const names[][2] = {{"pre=str:nonsense", "no pre-tokenizer of this name is known"},
                                           {"model=str:gpt-2", "no tokenizer of this name is known"},
                                           {"pre=str:qwen2", NULL},
                                           {"pre=str:gemma4", NULL},
                                           {"model=str:gpt2", NULL}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char item[80];
        snprintf(item, sizeof item, "tokenizer.ggml.%s", names[i][0]);
        char *err = gquant(0, (const char *const[]){"-n", "--override-kv", item, in, "Q8_0", NULL});
        assert_true(names[i][1] ? strstr(err, names[i][1]) != NULL : !strstr(err, "is known"));
        free(err);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *words[] = {"-n", "--override-kv", rows[i].item, in, "Q8_0", NULL};
        if (rows[i].mention)
            gquant_says(2, rows[i].mention, words);
        else
            free(gquant(0, words));
    }
    unlink(in);
}

/* A tokenizer of another kind needs other lists. */
TEST(test_kinds_of_tokenizers) {
    const char *in = in_folder(folder, "kinds.gguf");
    static const float scores[] = {0, 1};
    static const char *const kinds[] = {"llama", "t5", "gpt2", "bert"},
                             texts[] = "\10\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0a b\3\0\0\0\0\0\0\0b c";
    for (size_t has = 0; has < 2; has++) {
        model *m = model_new("llama", 1);
        model_set_string(m, "tokenizer.ggml.model", "gpt2");
        model_set(m, "tokenizer.ggml.tokens", GGUF_ARRAY, texts, sizeof texts - 1);
        model_set(m, "tokenizer.ggml.merges", GGUF_ARRAY, texts, sizeof texts - 1);
        if (has) model_set_array(m, "tokenizer.ggml.scores", GGUF_FLOAT32, scores, 2);
        model_add(m, "a.weight", GGUF_F16, (uint64_t[4]){256, 4}, NULL);
        write_model(m, in);
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            char item[80];
            snprintf(item, sizeof item, "tokenizer.ggml.model=str:%s", kinds[i]);
            const char *words[] = {"-n", "--override-kv", item, in, "Q8_0", NULL};
            if (!has && i < 2)
                gquant_says(2, "the model has no tokenizer.ggml.scores, by which", words);
            else
                free(gquant(0, words));
        }
    }
    unlink(in);
}

int main(void) { return tests_run(set_up, tear_down); }
