/* What the command says of a folder from Hugging Face: where its tensors come from, what is wrong in its
 * files, and which metadata of it are written. */
#include "tests/support/command.h"
#include "tests/support/folder.h"
#include "tests/support/tiny_folder.h"

static int folder_of_model(void **state) {
    folder_make(state);
    tiny_folder_write(path("Tiny-Model"), 1, 0, 1);
    write_whole(path("text.txt"), "ab cd e ab a b c d e abcd", 25);
    return 0;
}

/* Plans and reports name the folder's arrays beside the tensors, and patterns match the latter. */
TEST(what_becomes_of_its_arrays) {
    tiny_folder_write(path("Tiny-MoE"), 2, 3, 2);
    json *plan = PLAN(folder, "--tensor-type", "ffn_up_exps=Q6_K", path("Tiny-MoE"), "Q4_K_M");
    const json *up = report_tensor(plan, "blk.1.ffn_up_exps.weight"), *origin = json_need(up, "origin");
    assert_string_equal(json_text(up, "to", ""), "Q6_K");
    assert_string_equal(json_text(origin, "names", ""),
                        "model.layers.1.block_sparse_moe.experts.{0..2}.w3.weight");
    assert_string_equal(json_text(origin, "type", ""), "BF16");
    assert_string_equal(json_text(origin, "changes", ""), "stacked");
    assert_int_equal(json_number(origin, "bytes", 0), 3 * 256 * 256 * 2);
    assert_int_equal(json_number(up, "in_bytes", 0), 3 * 256 * 256 * 2);
    json_free(plan);
    char *table = NULL;
    assert_int_equal(run_command((const char *const[]){NULL, "--dry-run", "-v", path("Tiny-MoE"),
                                                       path("none.gguf"), "Q4_K_M", NULL},
                                 &table, NULL),
                     0);
    says(table, "from model.layers.0.self_attn.q_proj.weight: permuted");
    free(table);
    GQUANT(0, "--report", path("plan.csv"), "--dry-run", path("Tiny-MoE"), path("none.gguf"), "Q4_K_M");
    size_t n;
    char *csv = (char *)read_whole(path("plan.csv"), &n);
    says(csv, ",origin_names,origin_type,origin_changes\r\n");
    says(csv, ",\"model.layers.0.block_sparse_moe.experts.{0..2}.w2.weight\",\"BF16\",\"stacked\"\r\n");
    free(csv);
    char *info = PRINTED("info", path("Tiny-MoE"));
    says(info, "from model.layers.0.self_attn.k_proj.weight: permuted");
    free(info);
    GQUANT(0, "--force", path("Tiny-MoE"), path("moe.gguf"), "BF16");
    char *of_file = PRINTED("info", "--json", path("moe.gguf"));
    assert_null(strstr(of_file, "origin"));
    free(of_file);
}

static size_t count_of(const char *text, const char *part) {
    size_t n = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) n++;
    return n;
}

/* Optional files that are broken cost only what they would say; each is warned of once, in reports, too. */
TEST(broken_optional_files_are_warned_of) {
    const char *from = path("Odd-Model"), *report = path("odd.json");
    tiny_folder_write(from, 1, 0, 3);
    tiny_folder_text(from, "generation_config.json", "{\"top_k\":\"40\",\"temperature\":0.5,\"top_p\":");
    tiny_folder_text(from, "README.md", "---\nlicense: mit\nno end\n");
    char *messages =
        gquant(0, (const char *const[]){"--force", "--evaluate", path("text.txt"), "--context", "8",
                                        "--report", report, from, path("odd.gguf"), "Q8_0", NULL});
    assert_int_equal(count_of(messages, "generation_config.json"), 1);
    assert_int_equal(count_of(messages, "README.md: the front matter does not end"), 1);
    free(messages);
    json *j = json_file(report);
    size_t of_files = 0;
    const json *warnings = json_need(j, "warnings");
    for (size_t i = 0; i < warnings->n; i++)
        of_files += strstr(warnings->items[i].text, "it is left out") != NULL;
    assert_int_equal(of_files, 2);
    json_free(j);
    tiny_folder_text(from, "generation_config.json", "{\"top_k\":\"40\",\"temperature\":0.5}");
    const char *text = path("text.txt"),
               *rows[][9] = {{"info", from},
                             {"plan", from},
                             {"compare", from, path("odd.gguf")},
                             {"tokenize", from, text},
                             {"verify", from},
                             {"evaluate", "--context", "8", "--text", text, from},
                             {"evaluate", "--speed", from},
                             {"evaluate", "--context", "8", "--text", text, from, from},
                             {"imatrix", "compute", "-n", "--context", "8", from, text, path("odd.dat")},
                             {"--calibrate", text, "--context", "8", "-n", from, "Q8_0"},
                             {"publish", "-n", from, "--out-dir", path("page"), "Q8_0"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *line[10] = {NULL};
        memcpy(line, rows[i], sizeof rows[i]);
        messages = gquant(0, line);
        if (count_of(messages, "top_k is not a number that fits; it is left out") != 1)
            fail_msg("%s %s: %s", line[0], line[1], messages);
        free(messages);
    }
    tiny_folder_text(from, "generation_config.json", "[]");
    GQUANT_SAYS(0, "expected an object", "imatrix", "compute", "--context", "8", "--force", from,
                path("text.txt"), path("odd.dat"));
    char *of_json = NULL;
    assert_int_equal(
        run_command((const char *const[]){NULL, "info", "-q", "--json", from, NULL}, &of_json, NULL), 0);
    says(of_json, "expected an object; it is left out");
    free(of_json);
}

TEST(ids_below_zero_are_warned_of) {
    const char *from = path("Odd-Ids");
    size_t n;
    tiny_folder_write(from, 1, 0, 3);
    char file[4096], text[2048];
    snprintf(file, sizeof file, "%s/config.json", from);
    char *config = (char *)read_whole(file, &n);
    snprintf(text, sizeof text,
             "{\"bos_token_id\":-7,\"sep_token_id\":\"x\",\"pad_token_id\":-1,%.*s,\"eos_token_id\":8}",
             (int)n - 2, config + 1); /* the last one of a key counts */
    free(config);
    tiny_folder_text(from, "config.json", text);
    char *messages = gquant(0, (const char *const[]){"info", from, NULL});
    says(messages, "bos_token_id is -7, which is not an id; it is left out");
    says(messages, "sep_token_id is not an integer; it is left out");
    says(messages, "eos_token_id is 8, but there are 8 tokens");
    assert_null(strstr(messages, "pad_token_id"));
    free(messages);
}

/* Hundreds of mistakes are as many lines neither on a terminal nor in memory. */
TEST(warnings_are_bounded) {
    const char *from = path("Many-Mistakes");
    char text[8192] = "{\"top_k\":\"x\"";
    static const char *const keys[] = {"sequence",       "top_p",        "min_p",       "xtc_probability",
                                       "xtc_threshold",  "temperature",  "mirostat",    "penalty_last_n",
                                       "penalty_repeat", "mirostat_tau", "mirostat_eta"};
    tiny_folder_write(from, 1, 0, 3);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), ",\"%s\":[]", keys[i]);
    snprintf(text + strlen(text), sizeof text - strlen(text), "}");
    tiny_folder_text(from, "generation_config.json", text);
    char *messages = gquant(0, (const char *const[]){"info", from, NULL});
    assert_int_equal(count_of(messages, "it is left out"), 12);
    free(messages);
}

static const char STRANGE[] = "{\"added_tokens\":[],\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":"
                              "{\"Regex\":\"[a-c]+\"},\"behavior\":\"Isolated\"},"
                              "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":3,"
                              "\"e\":4,\"ab\":5,\"cd\":6,\"\xc4\xa0\":7},"
                              "\"merges\":[\"a b\",\"c d\"]}}";

/* Whoever knows the name of a pre-tokenizer that gquant does not know can give it. */
TEST(an_unknown_pre_tokenizer_can_be_named) {
    const char *from = path("Strange-Cut");
    tiny_folder_write(from, 1, 0, 3);
    tiny_folder_text(from, "tokenizer.json", STRANGE);
    GQUANT_SAYS(1, "tokenizer.ggml.pre has to be set; --override-kv KEY=TYPE:VALUE", from, path("cut.gguf"),
                "Q8_0");
    GQUANT_SAYS(1, "tokenizer.ggml.pre has to be set", "tokenize", from, path("text.txt"));
    GQUANT_SAYS(1, "tokenizer.ggml.pre has to be set", "imatrix", "compute", from, path("text.txt"),
                path("cut.dat"));
    GQUANT_SAYS(0, "tokenizer.ggml.pre has to be set", "info", from);
    GQUANT(0, "--override-kv", "tokenizer.ggml.pre=str:qwen2", from, path("cut.gguf"), "Q8_0");
    char *info = PRINTED("info", path("cut.gguf"));
    says(info, "qwen2");
    free(info);
    GQUANT(0, "tokenize", path("cut.gguf"), path("text.txt"));
    /* The text of a calibration is cut by that name, too. */
    GQUANT(0, "--calibrate", path("text.txt"), "--context", "8", "--override-kv",
           "tokenizer.ggml.pre=str:qwen2", from, path("cut-c.gguf"), "Q4_K_S");
    GQUANT_SAYS(1, "tokenizer.ggml.pre has to be set", "--calibrate", path("text.txt"), "--context", "8",
                from, path("cut-d.gguf"), "Q4_K_S");
    GQUANT(0, "compare", from, path("cut.gguf"));
}

/* Metadata of a folder are set and left out as those of a file; a report names no folders of files. */
TEST(metadata_of_a_folder_can_be_chosen) {
    char item[4200];
    write_whole(path("chat.jinja"), "{{ messages }}", 14);
    snprintf(item, sizeof item, "tokenizer.chat_template=file:%s", path("chat.jinja"));
    GQUANT(0, "--force", "--override-kv", item, "--remove-kv", "size_label", "--report", path("chat.json"),
           "--split-max-size", "300K", path("Tiny-Model"), path("chat.gguf"), "Q8_0");
    json *j = json_file(path("chat.json"));
    const json *options = json_need(j, "options");
    assert_string_equal(options->items[0].text, "--override-kv tokenizer.chat_template=file:chat.jinja");
    json_free(j);
    char *info = PRINTED("info", path("chat-00001-of-00002.gguf"));
    says(info, "{{ messages }}");
    assert_null(strstr(info, "size_label"));
    free(info);
    GQUANT_SAYS(2, "chat.jinja", "--force", "--override-kv", item, path("Tiny-Model"), path("chat.jinja"),
                "Q8_0");
    GQUANT_SAYS(2, "chat.jinja", "--override-kv", item, "--report", path("chat.jinja"), path("Tiny-Model"),
                path("chat2.gguf"), "Q8_0");
}

/* Files without weights, such as config.json, are no shards. */
TEST(a_folder_of_one_file_is_one_shard) {
    tiny_folder_write(path("One"), 1, 0, 1);
    GQUANT(0, "-q", "--keep-split", path("One"), path("one"), "Q8_0");
    assert_true(exists(path("one.gguf")));
}

int main(void) { return tests_run(folder_of_model, folder_remove); }
