/* A published folder: files, page and checksums. */
#include "publish/recommend.h"
#include "quantize/gquant_publish.h"
#include "tests/support/command.h"
#include "tests/support/folder.h"
#include "tests/support/plans.h"
#include "tests/support/tiny_folder.h"

#include <math.h>
#include <sys/stat.h>

static char *text_of(const char *name) { return (char *)read_whole(path(name), NULL); }

TEST(a_folder_has_files_page_and_sums) {
    static const char *const expected[] = {"license: \"mit\"",
                                           "base_model: \"owner/small\"",
                                           "quantized_by: \"me\"",
                                           "[Q4\\_K\\_M](in-Q4_K_M.gguf)",
                                           "(in-Q4_K_L.gguf)",
                                           "- **`Q4_K_L` and the like**: ",
                                           "gquant publish in.gguf Q4_K_M q4_k_l",
                                           "SHA256SUMS"};
    const char *const words[] = {
        "publish",   path("in.gguf"), "--out-dir",    path("out"),   "Q4_K_M",         "q4_k_l", "-q",
        "--license", "mit",           "--base-model", "owner/small", "--quantized-by", "me",     NULL};
    free(gquant(0, words));
    char *page = text_of("out/README.md"), *sums = text_of("out/SHA256SUMS"), sum[GQ_SHA256_TEXT];
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) says(page, expected[i]);
    assert_true(gq_file_sha256(path("in.gguf"), sum, NULL));
    says(page, "Made of `in.gguf` (SHA-256 `"), says(page, sum), says(page, " (build "),
        says(page, "with gquant 0.");
    assert_true(gq_file_sha256(path("out/in-Q4_K_M.gguf"), sum, NULL));
    says(sums, sum), says(sums, "  in-Q4_K_L.gguf\n");
    GQUANT(0, "-q", path("in.gguf"), path("alone.gguf"), "Q4_K_M");
    assert_same_file(path("out/in-Q4_K_M.gguf"), path("alone.gguf"));
    /* Again: nothing is made, and what is damaged or missing is not taken for whole. */
    gquant_says(0, "", words);
    char *out = NULL, *told = NULL, *plan = NULL;
    const char *const again[] = {NULL, "publish", path("in.gguf"), "--out-dir", path("out"), "Q4_K_M", NULL};
    assert_int_equal(run_command(again, &out, &told), 0);
    says(told, "already exists and is complete"), says(out, "\nin-Q4_K_M.gguf ");
    says(out, "\nin-Q4_K_L.gguf "), says(out, " Q4_K_L\n"),
        says(out, ": 0 of 1 files made"); /* all of the folder */
    free(out), free(told);
    assert_int_equal(run_command((const char *const[]){NULL, "publish", "-n", path("in.gguf"), "--out-dir",
                                                       path("out"), "Q4_K_M", "Q2_K", NULL},
                                 &plan, NULL),
                     0);
    says(plan, "Q4_K_M.gguf already exists: the run checks"), assert_null(strstr(plan, "Q2_K.gguf already"));
    free(plan);
    GQUANT_SAYS(1, "already exists", "publish", path("in.gguf"), "--out-dir", path("out"), "Q4_K_M", "-q",
                "--effort", "fast");
    assert_int_equal(truncate(path("out/in-Q4_K_M.gguf"), 5000), 0);
    GQUANT_SAYS(1, "already exists", "publish", path("in.gguf"), "--out-dir", path("out"), "Q4_K_M", "-q");
    GQUANT(0, "publish", path("in.gguf"), "--out-dir", path("out"), "Q4_K_M", "-q", "--force");
    assert_same_file(path("out/in-Q4_K_M.gguf"), path("alone.gguf"));
    free(page), free(sums);
}

/* Types that give the same tensors of a model give the same file, which is told before and in the page. */
TEST(same_files_are_named) {
    static const char same[] = "Q4_K_L is the same file as Q4_K_M";
    tiny_folder_write(path("Same"), 1, 0, 1);
    const char *words[] = {"publish",
                           path("Same"),
                           "--out-dir",
                           path("same"),
                           "Q4_K_M",
                           "Q4_K_L",
                           "Q8_0",
                           "--tensor-type",
                           "token_embd=Q8_0",
                           "--tensor-type",
                           "^output.weight=Q8_0",
                           "--dry-run",
                           NULL};
    gquant_says(0, same, words);
    words[11] = NULL;
    gquant_says(0, same, words);
    assert_same_file(path("same/Same-Q4_K_M.gguf"), path("same/Same-Q4_K_L.gguf"));
    char *page = text_of("same/README.md");
    says(page, "\n- `Q4_K_L` is the same file as `Q4_K_M`.\n"),
        assert_null(strstr(page, "`Q8_0` is the same"));
    free(page);
    words[5] = "Q4_K_S", words[4] = "Q4_K_M"; /* another number in the metadata */
    char *err = gquant(0, words);
    assert_null(strstr(err, "the same file"));
    free(err);
}

/* The page says how the texts that come with gquant are made. */
TEST(the_line_makes_the_held_out_text) {
    tiny_folder_write(path("Held"), 1, 0, 1);
    GQUANT(0, "-q", "text", "--held-out", path("held.txt"));
    GQUANT(0, "-q", "publish", path("Held"), "--out-dir", path("held"), "Q8_0", "--evaluate",
           path("held.txt"), "--context", "64", "--tokens", "256");
    char *page = text_of("held/README.md");
    says(page, "    gquant text --held-out held.txt && gquant publish Held Q8_0 ");
    free(page);
    GQUANT(0, "-q", "text", "--calibration", path("calibration.txt"));
    GQUANT(0, "-q", "publish", path("Held"), "--out-dir", path("held"), "Q8_0", "--calibrate",
           path("calibration.txt"), "--calibrate-tokens", "256", "--context", "64", "--force");
    page = text_of("held/README.md");
    says(page, "    gquant text --calibration calibration.txt && gquant publish Held Q8_0 ");
    free(page);
}

/* Whoever repeats the page's line needs no file that only saved time. */
TEST(the_line_has_what_changes_files) {
    GQUANT(0, "-q", path("in.gguf"), path("old.gguf"), "Q4_K_M");
    GQUANT(0, "publish", path("in.gguf"), "--out-dir", path("reused"), "Q4_K_M", "-q", "--reuse",
           path("old.gguf"), "--memory", "1G", "--effort", "default");
    assert_same_file(path("reused/in-Q4_K_M.gguf"), path("old.gguf"));
    char *page = text_of("reused/README.md");
    says(page, "    gquant publish in.gguf Q4_K_M --out-dir reused --effort default\n");
    free(page);
}

/* Measurements and scores are kept beside the model, however its path is written; where that is the folder
 * itself they are not kept, as they would be uploaded. */
TEST(what_is_kept_is_not_uploaded) {
    static const char *const models[] = {"upload/in.gguf", "upload/Tiny", "upload/Tiny/", "upload/Tiny/."},
                             *const kept[] = {"upload/in.gguf.gquant-measure", "upload/Tiny.gquant-measure",
                                              "upload/Tiny.gquant-scores",
                                              "upload/Tiny.gquant-scores.states"};
    char text[2000];
    size_t n;
    memset(text, 'a', sizeof text);
    write_whole(path("upload.txt"), text, sizeof text);
    assert_int_equal(mkdir(path("upload"), 0777), 0);
    tiny_folder_write(path("upload/Tiny"), 1, 0, 1);
    uint8_t *bytes = read_whole(path("in.gguf"), &n);
    write_whole(path("upload/in.gguf"), bytes, n);
    free(bytes);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        unlink(path("upload/README.md")); /* whose figures would have to stay */
        GQUANT(0, "-q", "publish", path(models[i]), "--out-dir", path("upload"), "--target-size", "Q5_0");
        if (i) /* a GGUF of such tensors has no tokenizer */
            GQUANT(0, "-q", "publish", path(models[i]), "--out-dir", path("upload"), "Q8_0", "--evaluate",
                   path("upload.txt"), "--context", "64", "--tokens", "512");
        for (size_t k = 0; k < sizeof kept / sizeof *kept; k++)
            if (exists(path(kept[k]))) fail_msg("%s: %s is there", models[i], kept[k]);
    }
    assert_true(exists(path("upload/README.md")));
}

/* The model is called as its folder is, however the path ends, and checksums name any file as sha256sum does.
 */
TEST(names_are_those_of_files) {
#ifdef _WIN32
    skip(); /* no name has a backslash there */
#endif
    tiny_folder_write(path("back\\slash"), 1, 0, 1);
    GQUANT(0, "-q", "publish", path("back\\slash/."), "--out-dir", path("odd"), "Q8_0");
    char *sums = text_of("odd/SHA256SUMS");
    assert_int_equal(sums[0], '\\');
    says(sums, "  back\\\\slash-Q8_0.gguf\n");
    free(sums);
}

/* Of a Hugging Face folder, with what was lost, and a chart. */
TEST(losses_are_in_the_page) {
    char text[2000];
    memset(text, 'a', sizeof text);
    tiny_folder_write(path("Tiny"), 1, 0, 1);
    write_whole(path("text.txt"), text, sizeof text);
    GQUANT(0, "-q", "publish", path("Tiny"), "--out-dir", path("hf"), "Q8_0", "F16", "--target-size", "Q5_0",
           "--name", "{type}-of-{model}.gguf", "--evaluate", path("text.txt"), "--context", "64", "--tokens",
           "512");
    char *page = text_of("hf/README.md"), *chart = text_of("hf/divergence.svg");
    says(page, "on the same 512 tokens, of which "), says(page, "rough figures"); /* of about 2,000 */
    says(page, "(Q8_0-of-Tiny.gguf)"), says(page, "(Q5_0-size-of-Tiny.gguf)");
    says(page, "changed top-1 tokens"), says(page, "Evaluated on `text.txt` (SHA-256 `");
    says(chart, ">Q8_0</text>"), says(chart, "prefers-color-scheme:dark");
    free(chart);
    /* The same line again: nothing is run, and the page is the same. What is kept is not in the folder. */
    assert_true(exists(path("Tiny.gquant-scores")));
    size_t files = count_files(path("hf"));
    unlink(path("Tiny.gquant-scores.states")); /* which a run would make again */
    GQUANT(0, "-q", "publish", path("Tiny"), "--out-dir", path("hf"), "Q8_0", "F16", "--target-size", "Q5_0",
           "--name", "{type}-of-{model}.gguf", "--evaluate", path("text.txt"), "--context", "64", "--tokens",
           "512");
    assert_false(exists(path("Tiny.gquant-scores.states")));
    assert_int_equal(count_files(path("hf")), files);
    char *again = text_of("hf/README.md");
    assert_string_equal(again, page);
    free(again), free(page);
    GQUANT(0, "-q", "--report", path("single.md"), path("in.gguf"), path("s.gguf"), "Q4_0");
    GQUANT(0, "-q", "--report", path("single.svg"), "--force", path("in.gguf"), path("s.gguf"), "Q4_0");
    page = text_of("single.md"), chart = text_of("single.svg");
    says(page, "(s.gguf)"), says(chart, ">Q4_0</text>");
    free(page), free(chart);
}

/* What was measured of each file ends the run, in the words of the page, and so does the file to take. Before
 * the work its time, memory and disk space are known. */
TEST(a_run_ends_with_quality_and_the_file_to_take) {
    char text[2000];
    memset(text, 'a', sizeof text);
    tiny_folder_write(path("Ends"), 1, 0, 1);
    write_whole(path("ends.txt"), text, sizeof text);
    const char *words[] = {NULL,        "publish",  path("Ends"), "--out-dir",      path("ends"),
                           "Q8_0",      "Q4_0",     "--evaluate", path("ends.txt"), "--context",
                           "64",        "--tokens", "512",        "--license",      "mit",
                           "--dry-run", NULL};
    gq_error e;
    char *out = printed(words), *at = strstr(out, "time: about "), memory[16] = "";
    double disk = 0;
    if (!at ||
        sscanf(at, "time: about %*[^;]; memory: at most %*f %15[^;]; disk: %lf kB of free ", memory, &disk) !=
            2 ||
        strcmp(memory, "MiB") != 0)
        fail_msg("%s", out);
    free(out), words[15] = NULL, out = printed(words);
    double bytes = 0;
    for (size_t i = 0; i < 2; i++) {
        static const char *const files[] = {"ends/Ends-Q8_0.gguf", "ends/Ends-Q4_0.gguf"};
        gq_model *m = gq_model_open(path(files[i]), &e);
        bytes += (double)gq_model_summary(m)->file_bytes;
        gq_model_close(m);
    }
    if (fabs(1e3 * disk - bytes) > 500) fail_msg("%g kB, %g bytes", disk, bytes);
    words[15] = "--dry-run", at = printed(words), words[15] = NULL;
    says(at, "; disk: 0 bytes of free "); /* the files are there */
    free(at);
    char *page = text_of("ends/README.md"), *row = strstr(page, "(Ends-Q4_0.gguf)"),
         *line = strstr(out, "Ends-Q4_0.gguf");
    double of_page = -1, kld = -2;
    assert_true(row && line);
    assert_int_equal(sscanf(row, "(%*[^|]|%*[^|]|%*[^|]|%*[^|]|%*[^|]| %lf", &of_page), 1);
    assert_int_equal(sscanf(line, "%*s %*f %*s %*f %*s %lf", &kld), 1);
    if (!(kld > 0 && fabs(kld - of_page) <= .1 * kld)) fail_msg("%s\n%s", out, page);
    says(line, " on this text");
    const char *recommended = strstr(page, "**recommended**");
    assert_non_null(recommended);
    while (*recommended != '(') recommended--;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "Recommended: %.*s (", (int)strcspn(recommended + 1, ")"),
             recommended + 1);
    says(out, wanted);
    free(out), free(page);
}

/* One scale, by the upper ends of both intervals; one file is recommended: the smallest that is close to the
 * base model, else the smallest with the lowest loss, and without figures the smallest of usual size. */
TEST(quality_follows_what_was_measured) {
    static const struct {
        double bits[3], apart[3], changed_top1; /* apart NaN: not measured */
        const char *words[3];
        size_t recommended;
    } cases[] = {
        {{8.5, 6.6, 4.9}, {.0004, .015, .09}, .01, {"indistinguishable", "close", "visible loss"}, 1},
        {{8.5, 6.6, 4.9}, {.0004, .015, .09}, .05, {"close", "close", "visible loss"}, 1},
        {{8.5, 4.9, 3.1}, {.07, .08, .4}, .01, {"visible loss", "visible loss", "large loss"}, 1},
        {{16, 4.9, 3.1}, {.0004, 2, 9}, .01, {"indistinguishable", "severe loss", "severe loss"}, 2},
        {{8.5, 6.6, 4.9}, {.0004, .0005, .0006}, .91, {"severe loss", "severe loss", "severe loss"}, 2},
        {{8.5, 4.9, 3.1}, {NAN, NAN, NAN}, 0, {"", "", ""}, 1},
        {{8.5, 4.9, 4.45}, {NAN, NAN, NAN}, 0, {"", "", ""}, 1}, /* Q4_K_M before IQ4_XS */
        {{16, 3.4, 2.6}, {NAN, NAN, NAN}, 0, {"", "", ""}, 1}};
    static const char *const types[] = {"Q8_0", "Q4_K_M", "IQ4_XS"};
    static const char *const names[] = {"a.gguf", "b.gguf", "c.gguf"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gq_page_row rows[3];
        gq_interval apart[3],
            changed_top1 = {cases[i].changed_top1 / 2, cases[i].changed_top1 / 3, cases[i].changed_top1, 9};
        for (size_t k = 0; k < 3; k++) {
            bool is = !isnan(cases[i].apart[k]);
            apart[k] = (gq_interval){cases[i].apart[k] / 2, 0, cases[i].apart[k], 9};
            rows[k] = (gq_page_row){.path = names[k],
                                    .type = types[k],
                                    .file_bytes = 1000000 * (3 - k),
                                    .bits = cases[i].bits[k],
                                    .relative_error = NAN,
                                    .apart = is ? &apart[k] : NULL,
                                    .changed_top1 = is ? &changed_top1 : NULL};
        }
        gq_error e = {0};
        gq_page page = {.size = sizeof page, .rows = rows, .n = 3, .recommends = true};
        char *table = gq_page_table(&page, false, &e), line[200];
        assert_non_null(table);
        for (size_t k = 0; k < 3; k++) {
            bool is = k == cases[i].recommended;
            const char *word = cases[i].words[k];
            snprintf(line, sizeof line, "](%s)%s%s%s%s | %zu.00\u00a0MB | %.2f |\n", names[k],
                     *word ? " | " : "", word, is ? *word ? ", " : " " : "", is ? "**recommended**" : "",
                     3 - k, cases[i].bits[k]);
            says(table, line);
        }
        free(table);
    }
    assert_string_equal(recommend_reason(GQ_LARGE_LOSS),
                        "the smallest of the files that lose least (large loss)");
}

/* Digits of changed tokens follow their interval; a figure may break before its error, so that the table fits its page. */
TEST(figures_have_the_digits_that_count) {
    const gq_evaluated of = {.path = "", .kld = {.0213, .0004}, .perplexity = {2472.4, 75}};
    const gq_evaluation_facts facts = {.size = sizeof facts};
    const gq_interval kld = {.0213, .02, .0226, 9}, changed_top1 = {.24706, .20392, .29021, 9};
    const gq_page_row row = {.path = "a.gguf",
                             .type = "Q5_K_M",
                             .file_bytes = 3000000,
                             .bits = 5.5,
                             .evaluated = &of,
                             .relative_error = NAN,
                             .kld = &kld,
                             .changed_top1 = &changed_top1};
    const gq_page page = {.size = sizeof page, .rows = &row, .n = 1, .base_model = &of, .evaluation = &facts};
    gq_error e = {0};
    char *table = gq_page_table(&page, false, &e);
    assert_non_null(table);
    says(table, "| 0.0213 ±\u00a00.0004 | 24.7\u00a0% (20.4\u00a0to\u00a029.0) |");
    free(table);
}

/* Speeds are those of llama-bench, in any of its formats; tests of other lengths, of both speeds at once and
 * of other files are passed over. */
TEST(speeds_are_what_llama_bench_measured) {
    static const char tests_json[] =
        "[{\"build_commit\":\"b1\",\"cpu_info\":\"Some <CPU>\",\"gpu_info\":\"\",\"n_threads\":4,"
        "\"model_filename\":\"/m/in-Q4_0.gguf\",\"n_prompt\":512,\"n_gen\":0,\"avg_ts\":123.4},"
        "{\"model_filename\":\"in-Q4_0.gguf\",\"n_prompt\":0,\"n_gen\":128,\"avg_ts\":23.44},"
        "{\"model_filename\":\"in-Q4_0.gguf\",\"n_prompt\":0,\"n_gen\":64,\"avg_ts\":99},"
        "{\"model_filename\":\"in-Q4_0.gguf\",\"n_prompt\":9,\"n_gen\":9,\"avg_ts\":98},"
        "{\"model_filename\":\"in-Q4_0.gguf\",\"n_prompt\":0,\"n_gen\":128,\"n_depth\":9,\"avg_ts\":97}]";
    static const char csv[] =
        "build_commit,cpu_info,gpu_info,model_filename,n_threads,n_prompt,n_gen,avg_ts\n"
        "\"b2\",\"A \"\"fast\"\" one, big\",\"GPU\",\"in-Q4_0.gguf\",\"8\",\"0\",\"128\",\"5.5\"\n";
    const struct {
        const char *text;
        int status;
        const char *says[3];
    } cases[] = {
        {tests_json,
         0,
         {"| 123 | 23.4 |", "prompt: 512 tokens; generation: 128 tokens", "Some \\<CPU\\>, 4"}},
        {csv, 0, {" generation, tokens/s |", "| 5.50 |", "A \"fast\" one, big, GPU, 8 threads, build b2"}},
        {"{\"model_filename\":\"other\",\"n_gen\":1,\"avg_ts\":1}",
         1,
         {"no test is of a file in the folder"}},
        {"{\"model_filename\":\"in-Q4_0.gguf\",\"n_gen\":1,\"avg_ts\":-1}", 1, {"the speed '-1'"}},
        {"[{\"avg_ts\":1}]", 1, {"no model_filename"}},
        {"[{]", 1, {"not valid JSON"}},
        {"{\"model_filename\":\"a\",\"avg_ts\":1}",
         1,
         {"no test of prompt processing (pp) or generation (tg)"}},
        {"\"", 1, {"no test"}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_whole(path("bench"), cases[i].text, strlen(cases[i].text));
        const char *const words[] = {"publish", path("in.gguf"), "--out-dir",   path("fast"), "Q4_0",
                                     "-q",      "--speeds",      path("bench"), NULL};
        gquant_says(cases[i].status, cases[i].status ? cases[i].says[0] : "", words);
        char *page = cases[i].status ? NULL : text_of("fast/README.md");
        for (size_t k = 0; page && k < 3; k++) says(page, cases[i].says[k]);
        free(page);
    }
}

/* What is measured is kept, so that the second time says the same, and a target finds it. */
TEST(a_plan_foretells) {
    char text[2000];
    memset(text, 'b', sizeof text);
    tiny_folder_write(path("Told"), 1, 0, 2);
    write_whole(path("told.txt"), text, sizeof text);
    char *first = PRINTED("-q", "plan", path("Told"), "--text", path("told.txt"), "--json");
    says(first, "\"expected_divergence\": "), says(first, "\"curve\": ");
    struct stat before, after;
    assert_int_equal(stat(path("Told.gquant-measure"), &before), 0);
    char *second = PRINTED("-q", "plan", path("Told"), "--text", path("told.txt"), "--json");
    assert_string_equal(first, second);
    GQUANT(0, "-q", "--dry-run", "--calibrate", path("told.txt"), "--target-size", "Q4_K_M", path("Told"));
    assert_int_equal(stat(path("Told.gquant-measure"), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    /* Kept nowhere, they are the same. */
    bool was_there = exists("none");
    char *third =
        PRINTED("-q", "plan", path("Told"), "--text", path("told.txt"), "--json", "--measure-file", "none");
    assert_string_equal(first, third);
    assert_true(was_there == exists("none"));
    free(third), free(first), free(second);
}

/* The page tells a hub what it is, and a reader how to get and run it. A limit of memory decides bytes of a
 * calibration. */
TEST(pages_say_what_is_needed) {
    char text[4000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i * 3 % 8);
    write_whole(path("cal.txt"), text, sizeof text);
    tiny_folder_write(path("Page"), 1, 0, 1);
    GQUANT(0, "-q", "publish", path("Page"), "--out-dir", path("page"), "Q8_0", "--calibrate",
           path("cal.txt"), "--context", "64", "--memory", "1G", "--evaluate", path("cal.txt"));
    char *page = text_of("page/README.md"), *chart = text_of("page/divergence.svg");
    says(page, "The files were made with this text: ");
    says(page, "pipeline_tag: \"text-generation\"\n"), says(page, " --memory 1G ");
    says(page, "    hf download OWNER/NAME Page-Q8_0.gguf --local-dir .\n    llama-cli -m Page-Q8_0.gguf\n");
    says(page, "calibrated on `cal.txt` (SHA-256 `");
    assert_null(strstr(page, "{{")); /* no tag of the template is left */
    size_t across = 0, upright = 0;
    for (const char *at = chart; (at = strstr(at, "class=\"grid\" d=\"M")); at++)
        ++*(strchr(at + 14, 'H') && strcspn(at + 14, "H") < strcspn(at + 14, "V") ? &upright : &across);
    assert_in_range(across, 2, 8), assert_in_range(upright, 2, 8);
    free(page), free(chart);
    static const char *const names[] = {
        "nonsense", "/a", "a/", "a/b/c", "a b/c", "https://huggingface.co/a/b", ".a/b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        GQUANT_SAYS(2, "expected OWNER/NAME", "publish", path("in.gguf"), "--out-dir", path("page"), "Q8_0",
                    "--base-model", names[i]);
}

/* What the folder's card and config say goes into the front matter; what the page names is told at the end. */
TEST(cards_have_what_the_folder_says) {
    static const char *const expected[] = {
        "base_model: \"Owner/Small-1B\"\nbase_model_relation: quantized\nlicense: \"mit\"\n",
        "language:\n- \"en\"\n- \"fr\"\n",
        "datasets:\n- \"some/data\"\n",
        "- \"poetry\"\n",
        "# Small-1B GGUF\n",
        "of [Owner/Small-1B](https://huggingface.co/Owner/Small-1B)",
        "## Sampling settings\n\n    --temp 0.6 --top-k 20 --repeat-penalty 1.05\n",
        "Made of revision `0123456789abcdef0123456789abcdef01234567` of",
        "llama-cli -hf me/Small-GGUF:Q8_0"};
    tiny_folder_write(path("Small-1B"), 1, 0, 1);
    tiny_folder_text(
        path("Small-1B"), "README.md",
        "---\nlicense: mit\nlanguage:\n- en\n- fr\ndatasets: [some/data]\ntags: [poetry, safetensors]\n"
        "base_model: Owner/Small-Base\n---\n");
    tiny_folder_text(path("Small-1B"), "generation_config.json",
                     "{\"temperature\": 0.6, \"top_k\": 20, \"repetition_penalty\": 1.05}");
    char *config = text_of("Small-1B/config.json"), *with;
    assert_true(asprintf(&with, "{\"_name_or_path\": \"Owner/Small-1B\", %s", strchr(config, '{') + 1) > 0);
    tiny_folder_text(path("Small-1B"), "config.json", with);
    static const char *const notes[] = {"Small-1B/.cache", "Small-1B/.cache/huggingface",
                                        "Small-1B/.cache/huggingface/download"};
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        assert_int_equal(mkdir(path(notes[i]), 0777), 0);
    tiny_folder_text(path(notes[2]), "config.json.metadata",
                     "0123456789abcdef0123456789abcdef01234567\netag\n1764410000.5\n");
    char *out = PRINTED("publish", path("Small-1B"), "--out-dir", path("Small-GGUF"), "Q8_0", "--repo",
                        "me/Small-GGUF");
    says(out, "base model: Owner/Small-1B, by _name_or_path in config.json");
    assert_null(strstr(out, "before: "));
    says(out, "upload: hf upload me/Small-GGUF "), says(out, "Recommended: Small-1B-Q8_0.gguf (");
    char *page = text_of("Small-GGUF/README.md"), *attributes = text_of("Small-GGUF/.gitattributes");
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) says(page, expected[i]);
    assert_null(strstr(page, "- \"safetensors\"")), assert_null(strstr(page, "Small-Base"));
    says(attributes, "*.gguf filter=lfs diff=lfs merge=lfs -text\n");
    free(out), free(page), free(attributes), free(config);
    /* A name that is another is what the model was made from. */
    tiny_folder_write(path("Other"), 1, 0, 1);
    tiny_folder_text(path("Other"), "config.json", with);
    out = PRINTED("publish", path("Other"), "--out-dir", path("unnamed"), "Q8_0", "--title", "A *title*",
                  "--license", "mit");
    says(out, "Other names none, so README.md has none"), says(out, "hf upload OWNER/NAME");
    says(out, "before: README.md's commands name OWNER/NAME, too; repeat this one with --repo\n");
    page = text_of("unnamed/README.md");
    says(page, "# A \\*title\\* GGUF\n"), assert_null(strstr(page, "base_model"));
    says(page, "license: \"mit\"\n"), assert_null(strstr(page, "Sampling"));
    free(out), free(page), free(with);
    GQUANT_SAYS(0, "license: the model names none", "publish", path("Other"), "--out-dir", path("unlicensed"),
                "Q8_0");
    page = text_of("unlicensed/README.md");
    says(page, " parameters, "), says(page, ", architecture ");
    free(page);
    GQUANT_SAYS(2, "the repository 'me': expected OWNER/NAME", "publish", path("in.gguf"), "--out-dir",
                path("unnamed"), "Q8_0", "--repo", "me");
}

/* The importance matrix goes along, under the model's name, and another one does not take its place. */
TEST(the_importance_matrix_is_published) {
    write_importance(path("data.dat"), 1);
    const char *const words[] = {"publish",   path("in.gguf"),  "--out-dir", path("matrix"), "Q4_0", "-q",
                                 "--imatrix", path("data.dat"), NULL};
    free(gquant(0, words));
    assert_same_file(path("matrix/in-imatrix.dat"), path("data.dat"));
    char *page = text_of("matrix/README.md"), *sums = text_of("matrix/SHA256SUMS"), sum[GQ_SHA256_TEXT];
    assert_true(gq_file_sha256(path("data.dat"), sum, NULL));
    says(page, "[`in-imatrix.dat`](in-imatrix.dat) (SHA-256 `"), says(page, sum), says(page, "- imatrix\n");
    says(sums, sum), says(sums, "  in-imatrix.dat\n");
    says(page, " --imatrix in-imatrix.dat\n"); /* which the reader has */
    free(page), free(sums);
    write_whole(path("matrix/in-imatrix.dat"), "other", 5);
    gquant_says(1, "in-imatrix.dat already exists and differs from the imatrix", words);
    GQUANT(0, "-q", "publish", path("in.gguf"), "--out-dir", path("matrix"),
           "Q8_0"); /* without one it stays */
}

/* The prompt is what the model's chat template makes of a conversation. */
TEST(prompts_are_those_of_the_chat_template) {
    static const char *const templates[][2] = {
        {"{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + '\\n' }}{% endfor %}<|assistant|>",
         "```\n<|system|>\n{system_prompt}\n<|user|>\n{prompt}\n<|assistant|>\n{answer}\n<|user|>\n{next_"
         "prompt}\n"
         "<|assistant|>\n```\n"},
        {"{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}{{ messages[0].content "
         "}}",
         "```\n{prompt}\n```\n"},
        {"{{something else}}", "## Prompt format\n\nThe chat template in each file makes the prompt"}};
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        char set[200];
        snprintf(set, sizeof set, "tokenizer.chat_template=str:%s", templates[i][0]);
        GQUANT(0, "-q", "--force", "--override-kv", set, path("in.gguf"), path("chat.gguf"), "COPY");
        GQUANT(0, "-q", "--force", "publish", path("chat.gguf"), "--out-dir", path("chat"), "Q8_0");
        char *page = text_of("chat/README.md");
        says(page, templates[i][1]), says(page, "- conversational\n");
        free(page);
    }
}

/* Each section of a card's template is closed, within the one that it is in, and holds none of its own name. */
TEST(templates_are_whole) {
    static const char *const files[] = {"front", "page", "notes"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[64], open[16][32], tag[32];
        size_t depth = 0, tags = 0;
        snprintf(name, sizeof name, "../publish/card/%s.template", files[i]);
        char *text = (char *)read_whole(test_path(name), NULL);
        for (const char *at = text; (at = strstr(at, "{{")); at += 2, tags++) {
            assert_int_equal(sscanf(at + 2, "%*[#^/]%31[a-z_0-9]}}", tag) == 1, strchr("#^/", at[2]) != NULL);
            if (at[2] == '/') {
                assert_true(depth > 0);
                assert_string_equal(open[--depth], tag);
            } else if (strchr("#^", at[2])) {
                for (size_t k = 0; k < depth; k++) assert_string_not_equal(open[k], tag);
                assert_true(depth < 16);
                memcpy(open[depth++], tag, sizeof tag);
            }
        }
        assert_int_equal(depth, 0);
        assert_true(tags > 5);
        free(text);
    }
}

int main(void) { return tests_run(folder_with_model, folder_remove); }
