/* general.*: from the README, the config, the folder's name, generation_config.json and the weights' number.
 */
#include "hf/metadata/metadata.h"
#include "tests/support/hf_metadata.h"

static const char *const config = "{\"architectures\":[\"LlamaForCausalLM\"],\"num_hidden_layers\":1}";
static const hf_counts counts = {.weights = 7241732096};

static void general(const char *text, const char *readme, const char *generation) {
    if (readme) write_text("README.md", readme);
    if (generation) write_text("generation_config.json", generation);
    metadata_begin(text);
    made.ok = hf_general_metadata(&made.folder, &made.config, &counts, &made.metadata, &made.error);
    assert_true(made.ok);
}

static int clean_up(void **state) {
    metadata_end(state);
    remove(path("README.md")), remove(path("generation_config.json"));
    return 0;
}

static void expect_texts(const char *key, const char *joined) {
    const model_kv *kv = metadata_of(key, GGUF_ARRAY);
    char all[512] = "";
    for (uint64_t at = GGUF_ARRAY_HEADER, n; at < kv->size; at += GGUF_STRING_HEADER + n) {
        memcpy(&n, kv->value + at, 8);
        snprintf(all + strlen(all), sizeof all - strlen(all), "%.*s|", (int)n, kv->value + at + 8);
    }
    assert_string_equal(all, joined);
}

TEST_WITH(a_card_is_read, NULL, clean_up) {
    general(
        config,
        "---\r\n# comment\nlicense:\n- mit\n- \"apache-2.0\" # why\nmodel_name: 'It''s' # not\n"
        "name: \nlanguage:\n  - en\n  - \"no\"\ntags: [chat, \"a, b\", c]\npipeline_tag: text\n"
        "base_model: Qwen/Qwen2.5-7B-v2\ndatasets:\n- name: an object\n- org/some-set\n"
        "widget:\n  text: |\n    license: wrong\nmodel-index:\n- x: 1\nversion: !!str 3\n---\nauthor: me\n",
        NULL);
    expect_text("general.architecture", "llama");
    expect_text("general.type", "model");
    expect_text("general.license", "mit,apache-2.0");
    expect_text("general.name", "It's");
    expect_texts("general.languages", "en|no|");
    expect_texts("general.tags", "chat|a, b|c|text|");
    expect_u32("general.base_model.count", 1);
    expect_text("general.base_model.0.name", "Qwen2.5 7B v2");
    expect_text("general.base_model.0.organization", "Qwen");
    expect_text("general.base_model.0.version", "v2");
    expect_text("general.base_model.0.repo_url", "https://huggingface.co/Qwen/Qwen2.5-7B-v2");
    expect_u32("general.dataset.count", 1);
    expect_text("general.dataset.0.name", "Some Set");
    expect_none("general.author");
    expect_none("general.version");
}

TEST_WITH(what_is_no_card_says_nothing, NULL, clean_up) {
    general(config, "# Model\n---\nlicense: mit\n---\n", "{broken");
    expect_none("general.license");
    metadata_end(NULL);
    general(config, "---\nlicense: mit\n", "{\"top_k\":\"many\",\"top_p\":null}");
    expect_none("general.license");
    expect_none("general.sampling.top_k");
    expect_none("general.sampling.top_p");
    metadata_end(NULL);
    general(config, "---\nlicense: \"open\nauthor: \xff\xfe\nname: [a\n\t- b\n: c\n-\n- d\n---\n", NULL);
    expect_none("general.license");
    expect_none("general.author");
    expect_text("general.name", "a");
}

TEST_WITH(sampling_comes_from_its_file, NULL, clean_up) {
    general(config, NULL, "{\"top_k\":20,\"top_p\":0.5,\"temperature\":1,\"repetition_penalty\":2}");
    assert_int_equal(metadata_number("general.sampling.top_k", GGUF_INT32), 20);
    expect_f32("general.sampling.top_p", 0.5F);
    expect_f32("general.sampling.temp", 1);
    expect_f32("general.sampling.penalty_repeat", 2);
}

TEST_WITH(names_fill_what_is_open, NULL, clean_up) {
    const char *mine = "{\"architectures\":[\"LlamaForCausalLM\"],\"num_hidden_layers\":1,"
                       "\"_name_or_path\":\"my-org/mymodel-7B-Chat-v1.5\"}";
    general(mine, "---\nmodel_type: other\n---\n", NULL);
    expect_text("general.name", "Mymodel 7B Chat v1.5");
    expect_text("general.organization", "My Org");
    expect_text("general.basename", "other");
    expect_text("general.finetune", "Chat");
    expect_text("general.version", "v1.5");
    expect_text("general.size_label", "7B");
    metadata_end(NULL);
    /* A path is no id: the folder's name counts. */
    general(
        "{\"architectures\":[\"LlamaForCausalLM\"],\"num_hidden_layers\":1,\"_name_or_path\":\"/a/b-9B\"}",
        NULL, NULL);
    expect_text("general.size_label", "7.2B");
    metadata_end(NULL);
    general("{\"architectures\":[\"LlamaForCausalLM\"],\"num_hidden_layers\":1,\"_name_or_path\":\"\"}", NULL,
            NULL);
    char title[HF_ID_MOST];
    hf_model_title(title, strrchr(folder, '/') + 1);
    expect_text("general.name", title);
}

TEST_WITH(sizes_have_three_digits, NULL, clean_up) {
    static const struct {
        hf_counts counts;
        const char *text;
    } cases[] = {
        {{.weights = 1235814528}, "1.2B"}, {{.weights = 494000000}, "494M"},
        {{.weights = 28160}, "28K"},       {{.weights = 430}, "0.43K"},
        {{.weights = 1150000000}, "1.1B"}, {{46702792704, 45097156608, 5637144576, 768, 96}, "8x7.2B"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        metadata_begin(config);
        assert_true(
            hf_general_metadata(&made.folder, &made.config, &cases[i].counts, &made.metadata, &made.error));
        expect_text("general.size_label", cases[i].text);
        metadata_end(NULL);
    }
}

TEST(ids_are_taken_apart) {
    static const struct {
        const char *id;
        uint64_t weights;
        const char *basename, *finetune, *version, *size;
    } cases[] = {
        {"a/Llama-3.1-8B-Instruct", 8000000000, "Llama-3.1", "Instruct", "", "8B"},
        {"bloom-7b1", 7100000000, "bloom", "", "", "7.1B"},
        {"Phi-3-mini-128k-instruct", 3800000000, "Phi-3", "128k-instruct", "", "mini"},
        {"Mixtral-8x7B-v0.1", 46700000000, "Mixtral", "", "v0.1", "8x7B"},
        {"Qwen3-30B-A3B-fp16", 30000000000, "Qwen3", "", "", "30B-A3B"},
        {"model-small-7B", 7000000000, "model-small", "", "", "7B"},
        {"gpt-neo", 1, "", "", "", ""},
        {"a sentence - 7B", 7, "", "", "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hf_model_id m;
        assert_true(hf_model_id_parse(&m, cases[i].id, cases[i].weights));
        assert_string_equal(m.basename, cases[i].basename);
        assert_string_equal(m.finetune, cases[i].finetune);
        assert_string_equal(m.version, cases[i].version);
        assert_string_equal(m.size, cases[i].size);
    }
}

TEST(long_ids_say_nothing) {
    char id[4096], title[HF_ID_MOST];
    hf_model_id m;
    memset(id, 'a', sizeof id), id[sizeof id - 1] = 0;
    assert_false(hf_model_id_parse(&m, id, 1));
    assert_false(hf_model_id_parse(&m, "", 1));
    hf_model_title(title, id);
    assert_string_equal(title, "");
    memset(id, '-', HF_ID_MOST - 1), id[HF_ID_MOST - 1] = 0;
    assert_true(hf_model_id_parse(&m, id, 1));
    for (size_t i = 0; i + 4 < HF_ID_MOST; i += 4) memcpy(id + i, "-7b1", 4);
    assert_true(hf_model_id_parse(&m, id, 7100000000));
    assert_string_equal(m.size, "7.1B");
    hf_model_title(title, "qwen2moe v1 GPT x-ray");
    assert_string_equal(title, "Qwen2Moe v1 GPT X Ray");
}

int main(void) { return tests_run(folder_make, folder_remove); }
