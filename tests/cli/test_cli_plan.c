/* gquant plan: sizes, memory to run, what fits. */
#include "tests/support/command.h"

static char *folder, *model_path;

enum { LAYERS = 4, WIDTH = 256, HEADS = 8, SHARED = 2, VOCABULARY = 512 };

/* With the numbers that a cache follows from; `more` may add others. */
static void write_model(void (*more)(model *)) {
    model *m = model_llama(LAYERS);
    model_set_u32(m, "llama.embedding_length", WIDTH);
    model_set_u32(m, "llama.feed_forward_length", 512);
    model_set_u32(m, "llama.context_length", 100000);
    model_set_u32(m, "llama.vocab_size", VOCABULARY);
    if (more) more(m);
    model_save(m, model_path);
}

FIXTURE(set_up) {
    folder = temporary_folder();
    model_path = strdup(in_folder(folder, "model-F16.gguf"));
    return 0;
}

FIXTURE(tear_down) {
    free(model_path);
    remove_folder(folder);
    return 0;
}

static char *plan_output(const char *const *words) {
    const char *argv[20] = {"plan", model_path};
    for (size_t i = 0; words[i]; i++) argv[i + 2] = words[i];
    return output(0, argv);
}

static json *report(const char *const *words) {
    char *text = plan_output(words);
    json *j = json_parse(text);
    free(text);
    return j;
}
#define REPORT(...) report((const char *const[]){"--json", __VA_ARGS__, NULL})

static uint64_t cache_of(const char *context) {
    json *j = REPORT("--context", context);
    uint64_t bytes = (uint64_t)json_number(j, "cache_bytes", -1);
    json_free(j);
    return bytes;
}

/* ---- memory ---- */

enum { PER_TOKEN = 2 * SHARED * (WIDTH / HEADS) * 2 }; /* bytes of a layer: keys and values, F16 */

TEST(the_cache_follows_from_the_metadata) {
    write_model(NULL);
    assert_int_equal(cache_of("1"), LAYERS * PER_TOKEN);
    assert_int_equal(cache_of("5000"), 5000 * LAYERS * PER_TOKEN);
    json *j = REPORT("--ram", "1G");
    assert_int_equal(json_number(j, "context", 0), 8192);
    assert_int_equal(json_number(j, "cache_bytes", 0), 8192 * LAYERS * PER_TOKEN);
    assert_int_equal(json_number(j, "buffer_bytes", 0), 512 * 4 * (VOCABULARY + 4 * WIDTH + 2 * 512));
    json_free(j);
}

static void other_head_sizes(model *m) {
    model_set_u32(m, "llama.attention.key_length", 96);
    model_set_u32(m, "llama.attention.value_length", 96);
    model_set_array(m, "llama.attention.head_count_kv", GGUF_INT32, (int32_t[LAYERS]){2, 1, 4, 2}, LAYERS);
}

TEST(layers_may_differ) {
    write_model(other_head_sizes);
    assert_int_equal(cache_of("100"), 100 * (2 + 1 + 4 + 2) * (96 + 96) * 2);
}

static void window(model *m) {
    model_set_u32(m, "llama.attention.sliding_window", 1024);
    model_set_u32(m, "llama.attention.sliding_window_pattern", 2);
}

static void window_by_list(model *m) {
    model_set_u32(m, "llama.attention.sliding_window", 1024);
    model_set_array(m, "llama.attention.sliding_window_pattern", GGUF_BOOL, (uint8_t[LAYERS]){1, 1, 1, 0},
                    LAYERS);
}

static void window_without_layers(model *m) { model_set_u32(m, "llama.attention.sliding_window", 1024); }

TEST(sliding_windows_save_memory) {
    write_model(window);
    assert_int_equal(cache_of("10000"), PER_TOKEN * 2 * (10000 + 1024 + 512));
    write_model(window_by_list);
    assert_int_equal(cache_of("10000"), PER_TOKEN * (10000 + 3 * (1024 + 512)));
    write_model(window_without_layers);
    assert_int_equal(cache_of("10000"), PER_TOKEN * LAYERS * 10000);
}

/* Numbers that no model has. */
static void absurd(model *m) {
    uint64_t huge = UINT64_MAX;
    float half = 0.5f;
    model_set(m, "llama.block_count", GGUF_U64, &huge, 8);
    model_set(m, "llama.attention.head_count", GGUF_FLOAT32, &half, 4);
    model_set(m, "llama.embedding_length", GGUF_U64, &huge, 8);
    model_set_array(m, "llama.attention.head_count_kv", GGUF_U8, "", 0);
    model_set_string(m, "llama.vocab_size", "many");
}

TEST(absurd_metadata_do_no_harm) {
    write_model(absurd);
    GQUANT_SAYS(1, "llama.block_count has type u64, but llama.cpp reads", "plan", model_path);
}

/* ---- advice ---- */

static const char *line_of(const char *text, const char *start) {
    const char *at = strstr(text, start);
    if (!at) fail_msg("no '%s' in %s", start, text);
    return at ? at + 1 : text;
}

static const json *row(const json *j, const char *type) {
    const json *types = json_need(j, "types");
    for (size_t i = 0; i < types->n; i++)
        if (!strcmp(json_text(&types->items[i], "file_type", ""), type)) return &types->items[i];
    return NULL;
}

/* The recommended type fits, and nothing of its kind that is larger does. */
TEST(the_best_that_fits_is_recommended) {
    write_model(NULL);
    json *j = REPORT("--context", "100");
    double q6 = json_number(row(j, "Q6_K"), "memory_bytes", 0);
    const json *q4 = row(j, "Q4_K_M");
    assert_true(json_number(q4, "memory_bytes", 0) < q6);
    json_free(j);

    char ram[32];
    snprintf(ram, sizeof ram, "%.0f", q6);
    j = REPORT("--context", "100", "--ram", ram, "--reserve", "0");
    assert_string_equal(json_text(j, "recommended", ""), "Q6_K");
    json_free(j);
    snprintf(ram, sizeof ram, "%.0f", q6 - 1);
    j = REPORT("--context", "100", "--ram", ram, "--reserve", "0");
    assert_string_equal(json_text(j, "recommended", ""), "Q5_K_M");
    json_free(j);
    j = REPORT("--ram", "100G"); /* as the words for people say, though the model fits as it is */
    assert_string_equal(json_text(j, "recommended", ""), "Q8_0");
    json_free(j);
}

/* The system has a share of the machine: what would fill it is not recommended. */
TEST(room_is_left_for_the_system) {
    write_model(NULL);
    json *j = REPORT("--ram", "100G");
    uint64_t copy = (uint64_t)json_number(row(j, "COPY"), "memory_bytes", 0);
    assert_true(json_number(j, "reserve", 0) == 8 * 0x1p30); /* at most */
    json_free(j);
    char ram[32]; /* the copy fits, but no eighth beside it */
    uint64_t bytes = copy + copy / 16;
    snprintf(ram, sizeof ram, "%llu", (unsigned long long)bytes);
    j = REPORT("--ram", ram);
    assert_false(json_yes(row(j, "COPY"), "fits"));
    assert_int_equal(json_number(j, "reserve", 0), bytes / 8);
    json_free(j);
    j = REPORT("--ram", ram, "--reserve", "0");
    assert_true(json_yes(row(j, "COPY"), "fits"));
    json_free(j);
    j = REPORT("--ram", ram, "--reserve", "1G"); /* more than there is */
    assert_string_equal(json_text(j, "recommended", "none"), "none");
    json_free(j);
    char *text = plan_output((const char *const[]){"--ram", "16Gi", NULL});
    says(text, "the machine: 16.0 GiB, of which 2.00 GiB are set aside for the system");
    free(text);
    text = plan_output((const char *const[]){NULL}); /* this machine */
    says(text, "this machine: "), says(text, " are set aside for the system");
    free(text);
}

/* People get one recommendation with its reason; a model in 16 bits that fits is recommended in fewer bytes all
 * the same. */
TEST(one_recommendation_has_a_reason) {
    write_model(NULL);
    char *text = plan_output((const char *const[]){"--ram", "16G", NULL});
    says(text, "\nRecommended: Q8_0. "), says(text, "as it is, too"), says(text, "fits, the model as it is");
    says(line_of(text, "\nQ8_0 "), "fits, recommended");
    assert_null(strstr(strstr(text, "Recommended") + 1, "Recommended"));
    says(strstr(text, "Recommended"),
         "A smaller file generates tokens faster, in proportion to its size: Q4_K_M, the "
         "usual choice, 1.");
    assert_null(strstr(text, "For "));
    free(text);
    const char *half = in_folder(folder, "half.gguf");
    GQUANT(0, "-q", "--force", model_path, half, "Q4_K_M");
    text = PRINTED("plan", "--ram", "16G", half);
    says(text, "Recommended: keep the model as it is"), says(text, "would add to what was lost");
    free(text);
    text = PRINTED("plan", "--ram", "16G", "--json", half);
    says(text, "\"keep_model\": true"), assert_null(strstr(text, "\"recommended\""));
    free(text);
    unlink(half);
}

/* Rows that blocks do not fit get other types: a plan says which, and what they add. */
TEST(fallbacks_are_explained) {
    write_model(NULL);
    char *text = plan_output((const char *const[]){"--ram", "16G", NULL});
    assert_null(strstr(text, "are no multiple of the blocks"));
    free(text);
    const char *narrow = in_folder(folder, "narrow.gguf");
    model *m = model_new("tiny", 1);
    for (int i = 0; i < 2; i++)
        model_add(m, i ? "blk.0.ffn_up.weight" : "blk.0.ffn_down.weight", GGUF_F32,
                  (uint64_t[4]){i ? 256 : 96, 64}, NULL);
    model_save(m, narrow);
    text = PRINTED("plan", "-q", "--ram", "16G", narrow);
    says(text, "Rows of 96 weights are no multiple of the blocks of ");
    says(text, "\nIQ1_S "), says(text, "IQ4_NL in 1 tensor\n"), says(text, "Q8_0 in 1 tensor\n");
    free(text);
    unlink(narrow);
}

/* They are listed with their sizes, marked, and never recommended; where nothing else fits, one is named. */
TEST(types_that_need_importance_data_are_listed) {
    write_model(NULL);
    json *j = REPORT("--ram", "16G");
    const json *small = row(j, "IQ2_XXS");
    assert_non_null(small);
    double least = json_number(small, "memory_bytes", 0);
    assert_true(json_number(row(j, "Q2_K"), "memory_bytes", 0) > least + 100);
    assert_non_null(json_get(small, "needs_importance"));
    assert_null(json_get(row(j, "Q2_K"), "needs_importance"));
    json_free(j);
    char ram[32];
    snprintf(ram, sizeof ram, "%.0f", least + 50);
    char *text = plan_output((const char *const[]){"--ram", ram, "--reserve", "0", NULL});
    says(line_of(text, "\nIQ2_XXS "), "fits, needs an imatrix");
    says(text, "without an imatrix"), says(text, "With an imatrix IQ2_XXS fits");
    free(text);
}

/* Of a quantized model nothing larger is made, and the reader is told what it costs. */
TEST(quantized_models_get_smaller_only) {
    const char *source = in_folder(folder, "plain.gguf"), *half = in_folder(folder, "half.gguf");
    model_save(model_llama(2), source);
    GQUANT(0, "-q", source, half, "Q5_K_M");
    char *text;
    assert_int_equal(run_command((const char *const[]){NULL, "plan", "--json", half, NULL}, &text, NULL), 0);
    json *j = json_parse(text);
    assert_string_equal(json_text(j, "quantized", ""), "Q5_K");
    const json *types = json_need(j, "types");
    double whole = 0;
    for (size_t i = 0; i < types->n; i++)
        if (!strcmp(json_text(&types->items[i], "file_type", ""), "COPY"))
            whole = json_number(&types->items[i], "memory_bytes", 0);
    assert_true(types->n > 5 && whole > 0);
    for (size_t i = 0; i < types->n; i++) {
        bool copy = !strcmp(json_text(&types->items[i], "file_type", ""), "COPY");
        assert_true(copy || json_number(&types->items[i], "memory_bytes", 0) < whole);
    }
    json_free(j), free(text);
    assert_int_equal(run_command((const char *const[]){NULL, "plan", half, NULL}, &text, NULL), 0);
    assert_non_null(strstr(text, "quantized already, most of it as Q5_K"));
    assert_null(strstr(text, "\nQ8_0 "));
    free(text);
    assert_int_equal(run_command((const char *const[]){NULL, "plan", source, NULL}, &text, NULL), 0);
    assert_null(strstr(text, "quantized already"));
    assert_non_null(strstr(text, "\nQ8_0 "));
    free(text);
    unlink(source), unlink(half);
}

TEST(sizes_are_those_of_the_files) {
    size_t n;
    write_model(NULL);
    const char *made = in_folder(folder, "made.gguf");
    GQUANT(0, "--force", "-q", model_path, made, "Q5_K_M");
    json *j = REPORT("--ram", "1G");
    free(read_whole(made, &n));
    assert_int_equal(json_number(row(j, "Q5_K_M"), "file_bytes", 0), n);
    json_free(j);
}

TEST(where_nothing_fits_a_target_may) {
    write_model(NULL);
    json *j = REPORT("--context", "100", "--tensor-type", "x=q8_0");
    double least = json_number(row(j, "Q2_K"), "memory_bytes", 0);
    json_free(j);
    char ram[32];
    snprintf(ram, sizeof ram, "%.0f", least - 5000);
    char *text = plan_output((const char *const[]){"--context", "100", "--ram", ram, "--reserve", "0", NULL});
    const char *at = strstr(text, "--target-size ");
    if (!at || !strstr(text, "No type fits")) fail_msg("%s", text);
    char size[32];
    sscanf(at, "--target-size %31s", size);
    GQUANT(0, "--force", "-q", "--target-size", size, model_path, in_folder(folder, "small.gguf"));
    free(text);
    text = plan_output((const char *const[]){"--ram", "1K", NULL});
    if (!strstr(text, "Nothing fits")) fail_msg("%s", text);
    says(text, "A smaller --context leaves more for it: "),
        says(text, "A smaller --reserve leaves more for it: ");
    free(text);
    text = plan_output((const char *const[]){"--ram", "1K", "--reserve", "0", NULL});
    says(text, "A smaller --context "), assert_null(strstr(text, "A smaller --reserve "));
    free(text);
}

TEST(nothing_is_written) {
    write_model(NULL);
    size_t files = count_files(folder);
    free(plan_output((const char *const[]){"--ram", "16G", NULL}));
    assert_int_equal(count_files(folder), files);
}

TEST(what_is_no_model_is_an_error) {
    write_whole(in_folder(folder, "no"), "no", 2);
    GQUANT(1, "plan", in_folder(folder, "no"));
    GQUANT(2, "plan", "--ram", "much", model_path);
    GQUANT(2, "plan", "--context", "0", model_path);
}

TEST(threads_are_an_option_as_elsewhere) {
    write_model(NULL);
    GQUANT(0, "plan", "-t", "1", model_path);
}

/* A size without a unit is bytes; as few of them are a slip. */
TEST(few_bytes_are_a_missing_unit) {
    write_model(NULL);
    GQUANT_SAYS(2, "16G", "plan", "--ram", "16", model_path);
    GQUANT_SAYS(2, "7.5G", "plan", "--ram", "7.5", model_path);
    GQUANT(0, "plan", "--ram", "16000000000", model_path);
}

/* Types for models that were made for them come last, and a word says so. */
TEST(types_for_special_models_come_last) {
    write_model(NULL);
    char *text = plan_output((const char *const[]){"--ram", "16G", NULL});
    const char *copy = line_of(text, "\nF32 ");
    static const char *const special[] = {"\nTQ1_0 ", "\nTQ2_0 ", "\nQ1_0 "};
    for (size_t i = 0; i < 3; i++) {
        const char *row = line_of(text, special[i]);
        assert_true(row > copy);
        char line[128];
        snprintf(line, sizeof line, "%.*s", (int)strcspn(row, "\n"), row);
        says(line, "for ");
    }
    free(text);
    json *j = REPORT("--ram", "16G");
    assert_string_equal(json_text(row(j, "TQ1_0"), "made_for", ""), "ternary models");
    assert_null(json_get(row(j, "Q4_K_M"), "made_for"));
    json_free(j);
}

/* Rows that fit and an end that says nothing does contradict each other. */
TEST(what_fits_is_not_denied) {
    write_model(NULL);
    json *j = REPORT("--context", "100");
    double least = json_number(row(j, "TQ1_0"), "memory_bytes", 0),
           q2 = json_number(row(j, "Q2_K"), "memory_bytes", 0);
    json_free(j);
    assert_true(least + 3000 < q2);
    char ram[32];
    snprintf(ram, sizeof ram, "%.0f", least + 2000);
    char *text = plan_output((const char *const[]){"--context", "100", "--ram", ram, "--reserve", "0", NULL});
    bool denied = strstr(text, "Nothing fits") || strstr(text, "No type fits");
    if (denied != !strstr(text, "  fits\n")) fail_msg("%s", text);
    says(text, "for ternary models");
    free(text);
}

TEST(data_is_no_model) {
    static const char *const kinds[] = {"imatrix", "adapter"};
    for (size_t i = 0; i < 2; i++) {
        const char *file = in_folder(folder, "kind.gguf");
        model *m = model_new(NULL, 0);
        model_set_string(m, "general.type", kinds[i]);
        model_add(m, "blk.0.attn_q.weight.in_sum2", GGUF_F32, (uint64_t[4]){256}, NULL);
        model_add(m, "blk.0.attn_q.weight.counts", GGUF_F32, (uint64_t[4]){1}, NULL);
        model_save(m, file);
        GQUANT_SAYS(1, kinds[i][0] == 'i' ? "is an imatrix, not a model" : "is an adapter", "plan", file);
        unlink(file);
    }
}

/* Entries of the same names for other numbers of columns keep every type but F16 and the like out. */
TEST(data_of_another_model_is_refused) {
    const char *other = in_folder(folder, "other.gguf"), *data = in_folder(folder, "other.dat");
    write_model(NULL);
    static const char *const names[] = {"blk.0.attn_q.weight", "blk.1.ffn_down.weight"};
    float values[128];
    for (size_t i = 0; i < 128; i++) values[i] = 1;
    FILE *f = fopen(data, "wb");
    int32_t n = 2;
    fwrite(&n, 4, 1, f);
    for (size_t i = 0; i < 2; i++) {
        int32_t length = (int32_t)strlen(names[i]), calls = 1, columns = 128;
        fwrite(&length, 4, 1, f), fwrite(names[i], 1, (size_t)length, f);
        fwrite(&calls, 4, 1, f), fwrite(&columns, 4, 1, f), fwrite(values, 4, 128, f);
    }
    fclose(f);
    GQUANT_SAYS(1, "blk.0.attn_q.weight", "plan", "--imatrix", data, "--ram", "16G", model_path);
    unlink(other), unlink(data);
}

/* Of entries that the model has no tensor for. */
TEST(data_that_match_nothing_are_told) {
    const char *data = in_folder(folder, "none.dat");
    write_model(NULL);
    FILE *f = fopen(data, "wb");
    int32_t n = 1, length = 6, calls = 1, columns = 2;
    float values[2] = {1, 1};
    fwrite(&n, 4, 1, f), fwrite(&length, 4, 1, f), fwrite("absent", 1, 6, f);
    fwrite(&calls, 4, 1, f), fwrite(&columns, 4, 1, f), fwrite(values, 4, 2, f);
    fclose(f);
    GQUANT_SAYS(0, "is it of another model?", "plan", "--imatrix", data, model_path);
    unlink(data);
}

int main(void) { return tests_run(set_up, tear_down); }
