/* A published folder: files, page and checksums; made again it stays as it is. */
#include "model/value.h"
#include "quantize/gquant_publish.h"
#include "tests/support/command.h"
#include "tests/support/folder.h"
#include "tests/support/plans.h"
#include "tests/support/tiny_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

static char *text_of(const char *name) {
    size_t n;
    char *text = (char *)read_whole(path(name), &n);
    text = realloc(text, n + 1);
    text[n] = 0;
    return text;
}

TEST(a_folder_has_files_page_and_sums) {
    static const char *const expected[] = {"license: \"mit\"",
                                           "base_model: \"owner/small\"",
                                           "quantized_by: \"me\"",
                                           "in-Q4\\_K\\_M.gguf",
                                           "(in-Q4_K_L.gguf)",
                                           "gquant publish in.gguf Q4_K_M q4_k_l",
                                           "SHA256SUMS"};
    const char *const words[] = {
        "publish",   path("in.gguf"), "--out-dir",    path("out"),   "Q4_K_M",         "q4_k_l", "-q",
        "--license", "mit",           "--base-model", "owner/small", "--quantized-by", "me",     NULL};
    free(gquant(0, words));
    char *page = text_of("out/README.md"), *sums = text_of("out/SHA256SUMS"), sum[GQ_SHA256_TEXT];
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) says(page, expected[i]);
    assert_true(gq_file_sha256(path("out/in-Q4_K_M.gguf"), sum, NULL));
    says(sums, sum), says(sums, "  in-Q4_K_L.gguf\n");
    GQUANT(0, "-q", path("in.gguf"), path("alone.gguf"), "Q4_K_M");
    assert_same_file(path("out/in-Q4_K_M.gguf"), path("alone.gguf"));
    /* Again: nothing is made, and what is damaged or missing is not taken for whole. */
    gquant_says(0, "", words);
    GQUANT_SAYS(0, "is there and whole", "publish", path("in.gguf"), "--out-dir", path("out"), "Q4_K_M");
    GQUANT_SAYS(1, "is there already", "publish", path("in.gguf"), "--out-dir", path("out"), "Q4_K_M", "-q",
                "--effort", "fast");
    assert_int_equal(truncate(path("out/in-Q4_K_M.gguf"), 5000), 0);
    GQUANT_SAYS(1, "is there already", "publish", path("in.gguf"), "--out-dir", path("out"), "Q4_K_M", "-q");
    GQUANT(0, "publish", path("in.gguf"), "--out-dir", path("out"), "Q4_K_M", "-q", "--force");
    assert_same_file(path("out/in-Q4_K_M.gguf"), path("alone.gguf"));
    free(page), free(sums);
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
    says(page, "on the same 512 tokens, of which "); /* of about 2,000 */
    says(page, "(Q8_0-of-Tiny.gguf)"), says(page, "(Q5_0-size-of-Tiny.gguf)"), says(page, "same top token");
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

/* What a file is said to be for never contradicts what was measured, whatever bits its weights have. */
TEST(purposes_follow_what_was_measured) {
    static const struct {
        double bits, apart;
        gq_level level;
        const char *words;
    } cases[] = {{5.46, .17, GQ_VISIBLE_LOSS, "| where memory is short; some is lost |"},
                 {5.46, .0004, GQ_INDISTINGUISHABLE, "| as good as the original |"},
                 {8.5, .015, GQ_CLOSE, "| little is lost; where memory allows |"},
                 {8.5, .015, GQ_VISIBLE_LOSS, "| the usual choice |"},
                 {3.1, 9, GQ_VISIBLE_LOSS, "| the last resort; much is lost |"},
                 {16, .015, GQ_CLOSE, "| the original's precision, "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gq_interval apart = {cases[i].apart, cases[i].apart, cases[i].apart, 9}, flips = {.5, .4, .6, 9};
        gq_page_row row = {.path = "m.gguf",
                           .type = "T",
                           .file_bytes = 1000,
                           .bits = cases[i].bits,
                           .relative_error = NAN,
                           .apart = &apart,
                           .flips = &flips,
                           .level = gq_level_text(cases[i].level)};
        gq_error e = {0};
        char *table = gq_page_table(&(gq_page){.size = sizeof(gq_page), .rows = &row, .n = 1}, false, &e);
        assert_non_null(table);
        says(table, cases[i].words);
        free(table);
    }
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
         {"| 123 | 23.4 |", "reads: a prompt of 512 tokens; writes: an answer of 128", "Some \\<CPU\\>, 4"}},
        {csv, 0, {" writes, tokens/s |", "| 5.50 |", "A \"fast\" one, big, GPU, 8 threads, build b2"}},
        {"{\"model_filename\":\"other\",\"n_gen\":1,\"avg_ts\":1}", 1, {"names none of the files"}},
        {"{\"model_filename\":\"in-Q4_0.gguf\",\"n_gen\":1,\"avg_ts\":-1}", 1, {"the speed '-1'"}},
        {"[{\"avg_ts\":1}]", 1, {"no model_filename"}},
        {"[{]", 1, {"no JSON"}},
        {"{\"model_filename\":\"a\",\"avg_ts\":1}", 1, {"no test of a prompt or an answer"}},
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
    char *first = PRINTED("plan", path("Told"), "--text", path("told.txt"), "--json");
    says(first, "\"expected_divergence\": "), says(first, "\"curve\": ");
    struct stat before, after;
    assert_int_equal(stat(path("Told.gquant-measure"), &before), 0);
    char *second = PRINTED("plan", path("Told"), "--text", path("told.txt"), "--json");
    assert_string_equal(first, second);
    GQUANT(0, "-q", "--dry-run", "--calibrate", path("told.txt"), "--target-size", "Q4_K_M", path("Told"));
    assert_int_equal(stat(path("Told.gquant-measure"), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    /* Kept nowhere, they are the same. */
    bool was_there = exists("none");
    char *third =
        PRINTED("plan", path("Told"), "--text", path("told.txt"), "--json", "--measure-file", "none");
    assert_string_equal(first, third);
    assert_true(was_there == exists("none"));
    free(third), free(first), free(second);
}

/* Turns a bit of a file's byte that far from its end. */
static void turn_bit(const char *name, size_t from_end) {
    size_t n;
    unsigned char *bytes = (unsigned char *)read_whole(path(name), &n);
    bytes[n - from_end] ^= 1;
    write_whole(path(name), bytes, n);
    free(bytes);
}

/* A file is kept while the weights, the way and the text of a calibration are the same, whatever the model's
 * times say, and else not taken for what would be made. */
TEST(what_is_stale_is_not_kept) {
#ifdef _WIN32
    skip(); /* times are not set there */
#endif
    char text[2000];
    const char *const plain[] = {"publish", path("w.gguf"), "--out-dir", path("stale"), "Q4_0", NULL};
    GQUANT(0, "-q", path("in.gguf"), path("w.gguf"), "COPY");
    free(gquant(0, plain));
    gquant_says(0, "is there and whole", plain);
    turn_bit("w.gguf", 5000);
    gquant_says(1, "is there already", plain);
    turn_bit("w.gguf", 5000); /* as it was, but modified behind the file */
    gquant_says(0, "is there and whole", plain);
    turn_bit("w.gguf", 5000);
    gquant_says(1, "is there already", plain);
    memset(text, 'c', sizeof text);
    tiny_folder_write(path("Cal"), 1, 0, 2);
    write_whole(path("one.txt"), text, sizeof text);
    memset(text, 'e', sizeof text);
    write_whole(path("two.txt"), text, sizeof text);
    const char *words[] = {"publish", path("Cal"), "--out-dir",   path("cal"),     "Q4_0", "--context",
                           "8",       "-q",        "--calibrate", path("one.txt"), NULL};
    words[8] = NULL; /* plain first */
    free(gquant(0, words));
    words[8] = "--calibrate";
    gquant_says(1, "is there already", words);
    GQUANT(0, "publish", path("Cal"), "--out-dir", path("cal"), "Q4_0", "--context", "8", "-q", "--force",
           "--calibrate", path("one.txt"));
    words[7] = "--full-paths"; /* not quiet */
    gquant_says(0, "is there and whole", words);
    words[9] = path("two.txt");
    gquant_says(1, "is there already", words);
}

static void copy_file(const char *from, const char *to) {
    size_t n;
    uint8_t *bytes = read_whole(path(from), &n);
    write_whole(path(to), bytes, n);
    free(bytes);
}

/* Writes zeros, or one byte that is another, into a copy of a published file. */
typedef struct damage {
    const char *tensor; /* of whose bytes; NULL: the value of `key` */
    const char *key;
    size_t n;             /* zeros to write into the middle; 0: the byte there is turned */
    const char *expected; /* in the refusal */
} damage;

static void damage_file(const char *name, const damage *d) {
    size_t n, middle;
    uint8_t *bytes = read_whole(path(name), &n);
    model_source m = open_model(path(name));
    if (d->tensor) {
        const model_tensor *t = model_tensor_named(&m, d->tensor);
        assert_non_null(t);
        middle = t->offset + t->size / 2;
    } else {
        const model_kv *kv = model_kv_find(m.kv, m.n_kv, d->key);
        assert_non_null(kv);
        const uint8_t *at = memmem(bytes, n, d->key, strlen(d->key));
        middle = (size_t)(at - bytes) + strlen(d->key) + 4 + kv->size / 2;
    }
    model_close(&m);
    if (d->n)
        memset(bytes + middle, 0, d->n);
    else
        bytes[middle] ^= 1;
    write_whole(path(name), bytes, n);
    free(bytes);
}

/* Whatever was changed in a published file is noticed before anything is written, and the rest is said to be
 * whole no more than that. */
TEST(damage_is_never_vouched_for) {
    static const damage damages[] = {
        {"blk.0.ffn_up.weight", NULL, 64, "the bytes of blk.0.ffn_up.weight are not those that were written"},
        {"blk.0.attn_norm.weight", NULL, 0, "the bytes of blk.0.attn_norm.weight are not those that"},
        {NULL, "llama.rope.freq_base", 0, "its llama.rope.freq_base is another"},
        {NULL, "general.architecture", 0, "it is damaged"},
        {NULL, "gquant.digests", 0, NULL},
        {NULL, "gquant.digests", 64, NULL}};
    static const char *const more[] = {NULL, "--no-digests"};
    model *m = model_llama(1);
    model_set(m, "llama.rope.freq_base", GGUF_FLOAT32, &(float){5000}, sizeof(float));
    model_save(m, path("rope.gguf"));
    for (size_t k = 0; k < 2; k++) {
        const char *const words[] = {"publish", path("rope.gguf"), "--out-dir", path("dam"), "Q4_0",
                                     "COPY",    more[k],           NULL};
        free(gquant(0, words));
        char *sums = text_of("dam/SHA256SUMS"), *after;
        copy_file("dam/rope-Q4_0.gguf", "right");
        gquant_says(0, "rope-Q4_0.gguf is there and whole", words);
        for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
            const char *expected = damages[i].expected;
            if (k == 1 && damages[i].key && !strcmp(damages[i].key, "gquant.digests")) continue;
            if (k == 1 && damages[i].tensor) expected = damages[i].tensor;
            damage_file("dam/rope-Q4_0.gguf", &damages[i]);
            gquant_says(1, expected ? expected : "is there already", words);
            copy_file("right", "dam/rope-Q4_0.gguf");
        }
        damage_file("dam/rope-COPY.gguf", &damages[1]);
        gquant_says(1, "the bytes of blk.0.attn_norm.weight are not those of ", words);
        after = text_of("dam/SHA256SUMS");
        assert_string_equal(after, sums);
        free(sums), free(after);
        remove_folder(strdup(path("dam")));
    }
}

/* A refusal says in what a file differs. */
TEST(refusals_say_why) {
    write_importance(path("one.dat"), 1);
    copy_file("one.dat", "two.dat");
    turn_bit("two.dat", 100); /* of a value */
    const struct {
        const char *first[2], *then[2], *expected;
    } cases[] = {
        {{NULL}, {"--imatrix", path("one.dat")}, "it was made without importance data"},
        {{"--imatrix", path("one.dat")}, {NULL}, "it was made with importance data, one.dat"},
        {{"--imatrix", path("one.dat")}, {"--imatrix", path("two.dat")}, "other importance data, one.dat"},
        {{"--effort", "fast"}, {NULL}, "it was made with another effort"},
        {{"--no-digests"}, {NULL}, "it has no digests"},
        {{NULL}, {"--no-digests"}, "it has digests"},
        {{"--tensor-type", "attn_q=Q8_0"}, {NULL}, "its blk.0.attn_q.weight is Q8_0, and would be Q4_K"},
        {{"--override-kv", "a.key=str:x"}, {"--override-kv", "a.key=str:y"}, "its a.key is another"},
        {{"--override-kv", "a.key=str:x"}, {NULL}, "its metadata have a.key, which would not"},
        {{NULL}, {"--override-kv", "a.key=str:x"}, "its metadata lack a.key"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *words[] = {
            "publish", path("in.gguf"), "--out-dir", path("why"), "Q4_K_M", "-q", NULL, NULL, NULL};
        memcpy(words + 6, cases[i].first, sizeof cases[i].first);
        free(gquant(0, words));
        memcpy(words + 6, cases[i].then, sizeof cases[i].then);
        gquant_says(1, cases[i].expected, words);
        remove_folder(strdup(path("why")));
    }
    /* The same name, other data. */
    GQUANT(0, "-q", "publish", path("in.gguf"), "--out-dir", path("why"), "Q4_K_M", "--imatrix",
           path("one.dat"));
    copy_file("two.dat", "one.dat");
    GQUANT_SAYS(1, "it was made with other importance data;", "publish", path("in.gguf"), "--out-dir",
                path("why"), "Q4_K_M", "--imatrix", path("one.dat"));
}

/* How many files a folder has. */
static size_t files_in(const char *name) {
    size_t n = 0;
    DIR *dir = opendir(path(name));
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (dir) closedir(dir);
    return n;
}

/* --force replaces files, but none that is read; and a model's own folder gets no page, which would be read
 * as its README.md. */
TEST(what_is_read_is_never_replaced) {
    tiny_folder_write(path("Own"), 1, 0, 1);
    mkdir(path("read"), 0777);
    write_importance(path("read/SHA256SUMS"), 1);
    GQUANT_SAYS(2, "SHA256SUMS is one of the inputs", "publish", path("in.gguf"), "--out-dir", path("read"),
                "Q4_0", "--force", "--imatrix", path("read/SHA256SUMS"));
    write_whole(path("read/README.md"), "a text to evaluate on", 21);
    GQUANT_SAYS(2, "README.md is one of the inputs", "publish", path("Own"), "--out-dir", path("read"),
                "Q4_0", "--force", "--evaluate", path("read/README.md"));
    write_whole(path("read/divergence.svg"), "{\"model_filename\":\"in-Q4_0.gguf\",\"n_gen\":1,\"avg_ts\":1}",
                54);
    GQUANT_SAYS(2, "divergence.svg is one of the inputs", "publish", path("in.gguf"), "--out-dir",
                path("read"), "Q4_0", "--force", "--speeds", path("read/divergence.svg"));
    assert_int_equal(files_in("read"), 3);
    GQUANT_SAYS(2, "is the model's own folder", "publish", path("Own"), "--out-dir", path("Own"), "Q4_0",
                "--force");
    GQUANT_SAYS(2, "is the model's own folder", "publish", path("Own"), "--out-dir", path("Own/."), "Q4_0");
    assert_int_equal(files_in("Own"), 3);
}

/* What cannot be written or run is noticed while nothing is there yet. */
TEST(checks_come_before_the_work) {
    static const char *const names[] = {"README.md", "SHA256SUMS", "divergence.svg"};
    char text[2000];
    memset(text, 'f', sizeof text);
    write_whole(path("check.txt"), text, sizeof text);
    tiny_folder_write(path("Check"), 1, 0, 1);
    for (size_t i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "places/%s", names[i]);
        mkdir(path("places"), 0777), mkdir(path(name), 0777);
        GQUANT_SAYS(1, "is a directory, not a regular file", "publish", path("Check"), "--out-dir",
                    path("places"), "Q8_0", "--evaluate", path("check.txt"), "--force");
        assert_int_equal(files_in("places"), 1);
        assert_int_equal(rmdir(path(name)), 0);
    }
    write_whole(path("short.txt"), text, 3);
    GQUANT_SAYS(1, "fewer than", "publish", path("Check"), "--out-dir", path("places"), "Q8_0", "--evaluate",
                path("short.txt"));
    GQUANT_SAYS(1, "", "publish", path("in.gguf"), "--out-dir", path("places"), "Q8_0", "--evaluate",
                path("check.txt")); /* it has no vocabulary */
    assert_int_equal(files_in("places"), 0);
}

/* Journals, records and unfinished files that a stopped run has left beside a finished one would be uploaded.
 */
TEST(leftovers_of_finished_files_go) {
    static const char *const left[] = {"left/.in-Q4_0.gguf.gquant-journal", "left/.in-Q4_0.gguf.gquant-names",
                                       "left/.in-Q4_0.gguf.gquant",
                                       "left/.in-Q4_0.gguf.gquant-journal-1-of-2"};
    for (int k = 0; k < 2; k++) {
        GQUANT(0, "-q", "publish", path("in.gguf"), "--out-dir", path("left"), "Q4_0");
        assert_int_equal(files_in("left"), 3);
        for (size_t i = 0; i < sizeof left / sizeof *left; i++) write_whole(path(left[i]), "left", 4);
    }
    write_whole(path("left/.mine"), "my own", 6);
    GQUANT(0, "-q", "publish", path("in.gguf"), "--out-dir", path("left"), "Q4_0");
    assert_int_equal(files_in("left"), 4);
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
    says(page, "pipeline_tag: \"text-generation\"\n"), says(page, " --memory 1G ");
    says(page, "    hf download REPOSITORY Page-Q8_0.gguf --local-dir .\n    llama-cli -m Page-Q8_0.gguf\n");
    says(page, "(KL divergence, in nats): 0 is the same model");
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

/* Checksums and charts of another hand stay, also where there is no page. */
TEST(files_of_another_hand_stay) {
    char text[2000], sums[128];
    memset(text, 'd', sizeof text);
    tiny_folder_write(path("Hand"), 1, 0, 1);
    write_whole(path("hand.txt"), text, sizeof text);
    const char *const words[] = {"publish",    path("Hand"),     "--out-dir", path("hand"), "Q8_0",     "-q",
                                 "--evaluate", path("hand.txt"), "--context", "64",         "--tokens", "256",
                                 NULL};
    mkdir(path("hand"), 0777);
    write_whole(path("hand/divergence.svg"), "<svg/>", 6);
    write_whole(path("hand/SHA256SUMS"), "my own\n", 7);
    gquant_says(1, "SHA256SUMS is there, and gquant publish has not made it", words);
    snprintf(sums, sizeof sums, "%064d  draft-Other-Q8_0.gguf\n", 0); /* another model's */
    write_whole(path("hand/SHA256SUMS"), sums, strlen(sums));
    gquant_says(1, "SHA256SUMS is there, and gquant publish has not made it", words);
    snprintf(sums, sizeof sums, "%064d  draft-Hand-Q8_0.gguf\n", 0);
    write_whole(path("hand/SHA256SUMS"), sums, strlen(sums));
    gquant_says(1, "divergence.svg is there, and", words);
    assert_int_equal(unlink(path("hand/SHA256SUMS")), 0);
    gquant_says(1, "divergence.svg is there, and gquant publish has not made it", words);
    assert_int_equal(unlink(path("hand/divergence.svg")), 0);
    free(gquant(0, words));
    assert_int_equal(unlink(path("hand/README.md")), 0); /* a stop before the page */
    free(gquant(0, words));
}

TEST(requests_that_are_refused) {
    GQUANT_SAYS(2, "--out-dir DIR is missing", "publish", path("in.gguf"), "Q4_0");
    GQUANT_SAYS(2, "nothing to make", "publish", path("in.gguf"), "--out-dir", path("none"));
    GQUANT_SAYS(2, "begin with another word", "publish", path("in.gguf"), "Q4_0", "--out-dir", path("none"),
                "--name", "mtp-{type}.gguf");
    GQUANT_SAYS(2, "with {type}", "publish", path("in.gguf"), "Q4_0", "--out-dir", path("none"), "--name",
                "a.gguf");
    GQUANT_SAYS(2, "no common size", "publish", path("in.gguf"), "--ladder", "--out-dir", path("none"));
    GQUANT_SAYS(2, "unknown file type", "publish", path("in.gguf"), "Q9", "--out-dir", path("none"));
    assert_false(exists(path("none")));
    mkdir(path("mine"), 0777);
    write_whole(path("mine/README.md"), "my own", 6);
    GQUANT_SAYS(1, "has not made it", "publish", path("in.gguf"), "Q4_0", "--out-dir", path("mine"));
    GQUANT(0, "publish", path("in.gguf"), "Q4_0", "--out-dir", path("dry"), "--dry-run");
    assert_false(exists(path("dry")));
    mkdir(path("long"), 0777);
    write_whole(path("long/README.md"), "my own, a long one", 18);
    assert_int_equal(truncate(path("long/README.md"), 2 << 20), 0);
    GQUANT_SAYS(1, "has not made it", "publish", path("in.gguf"), "Q4_0", "--out-dir", path("long"));
}

int main(void) { return tests_run(folder_with_model, folder_remove); }
