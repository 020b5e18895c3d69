/* A folder that is published again: what is whole stays, what is stale or damaged is noticed, and what somebody
 * else has written is not replaced. */
#include "gguf/model.h"
#include "tests/support/command.h"
#include "tests/support/folder.h"
#include "tests/support/plans.h"
#include "tests/support/tiny_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

static char *text_of(const char *name) { return (char *)read_whole(path(name), NULL); }

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
    gquant_says(0, "already exists and is complete", plain);
    turn_bit("w.gguf", 5000);
    gquant_says(1, "already exists", plain);
    turn_bit("w.gguf", 5000); /* as it was, but modified behind the file */
    gquant_says(0, "already exists and is complete", plain);
    turn_bit("w.gguf", 5000);
    gquant_says(1, "already exists", plain);
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
    gquant_says(1, "already exists", words);
    GQUANT(0, "publish", path("Cal"), "--out-dir", path("cal"), "Q4_0", "--context", "8", "-q", "--force",
           "--calibrate", path("one.txt"));
    words[7] = "--full-paths"; /* not quiet */
    gquant_says(0, "already exists and is complete", words);
    words[9] = path("two.txt");
    gquant_says(1, "already exists", words);
    words[9] = path("one.txt");
    /* Files that are touched are the same; other weights are others, however old they are. */
    tiny_folder_text(path("Cal"), "README.md", "---\nlicense: mit\n---\n");
    gquant_says(1, "its metadata has no general.license", words);
    assert_int_equal(unlink(path("Cal/README.md")), 0);
    static const char *const files[] = {"Cal/config.json", "Cal/model.safetensors"};
    for (size_t i = 0; i < 2; i++) assert_int_equal(utimensat(AT_FDCWD, path(files[i]), NULL, 0), 0);
    gquant_says(0, "already exists and is complete", words);
    turn_bit("Cal/model.safetensors", 5000);
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, path("Cal/model.safetensors"), old, 0), 0);
    gquant_says(1, "it was calibrated on other weights", words);
    turn_bit("Cal/model.safetensors", 5000);
    gquant_says(0, "already exists and is complete", words);
    words[4] = "Q8_0", words[8] = NULL; /* beside it one that is not calibrated */
    free(gquant(0, words));
    char *page = text_of("cal/README.md");
    says(page, "Q4\\_0, of an earlier command, was rounded with GPTQ-style error feedback.");
    assert_null(strstr(page, "weights were rounded"));
    free(page);
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
        {NULL, "llama.rope.freq_base", 0, "its llama.rope.freq_base differs"},
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
        gquant_says(0, "rope-Q4_0.gguf already exists and is complete", words);
        for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
            const char *expected = damages[i].expected;
            if (k == 1 && damages[i].key && !strcmp(damages[i].key, "gquant.digests")) continue;
            if (k == 1 && damages[i].tensor) expected = damages[i].tensor;
            damage_file("dam/rope-Q4_0.gguf", &damages[i]);
            gquant_says(1, expected ? expected : "already exists", words);
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
    } cases[] = {{{NULL}, {"--imatrix", path("one.dat")}, "it was made without an imatrix"},
                 {{"--imatrix", path("one.dat")}, {NULL}, "it was made with an imatrix, one.dat"},
                 {{"--imatrix", path("one.dat")}, {"--imatrix", path("two.dat")}, "another imatrix, one.dat"},
                 {{"--effort", "fast"}, {NULL}, "it was made with another effort"},
                 {{"--no-digests"}, {NULL}, "it has no digests"},
                 {{NULL}, {"--no-digests"}, "it has digests"},
                 {{"--tensor-type", "attn_q=Q8_0"}, {NULL}, "its blk.0.attn_q.weight is Q8_0, expected Q4_K"},
                 {{"--override-kv", "a.key=str:x"}, {"--override-kv", "a.key=str:y"}, "its a.key differs"},
                 {{"--override-kv", "a.key=str:x"}, {NULL}, "its metadata have a.key, which the output"},
                 {{NULL}, {"--override-kv", "a.key=str:x"}, "its metadata has no a.key"}};
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
    /* A page of both says of each file what is true of it. */
    static const char said[] = "Q4\\_K\\_M, of an earlier command, was quantized with an importance matrix.";
    GQUANT(0, "-q", "publish", path("in.gguf"), "--out-dir", path("why"), "Q6_K");
    char *page = text_of("why/README.md");
    says(page, said), says(page, "\n- imatrix\n"),
        assert_null(strstr(page, "uantized with an importance matrix,"));
    free(page);
    GQUANT(0, "-q", "publish", path("in.gguf"), "--out-dir", path("why"), "Q4_K_M", "--imatrix",
           path("one.dat"));
    page = text_of("why/README.md");
    says(page, "\nWhat this command names was quantized with an importance matrix, [`"),
        assert_null(strstr(page, said));
    free(page);
    copy_file("two.dat", "one.dat");
    GQUANT_SAYS(1, "it was made with another imatrix;", "publish", path("in.gguf"), "--out-dir", path("why"),
                "Q4_K_M", "--imatrix", path("one.dat"));
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
        assert_int_equal(files_in("left"), 4);
        for (size_t i = 0; i < sizeof left / sizeof *left; i++) write_whole(path(left[i]), "left", 4);
    }
    write_whole(path("left/.mine"), "my own", 6);
    GQUANT(0, "-q", "publish", path("in.gguf"), "--out-dir", path("left"), "Q4_0");
    assert_int_equal(files_in("left"), 5);
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
    gquant_says(1, "SHA256SUMS exists and was not written by gquant publish", words);
    snprintf(sums, sizeof sums, "%064d  draft-Other-Q8_0.gguf\n", 0); /* another model's stays */
    write_whole(path("hand/SHA256SUMS"), sums, strlen(sums));
    gquant_says(1, "divergence.svg exists and was not written by gquant publish", words);
    assert_int_equal(unlink(path("hand/divergence.svg")), 0);
    free(gquant(0, words));
    assert_int_equal(unlink(path("hand/README.md")), 0); /* a stop before the page */
    free(gquant(0, words));
    char *after = text_of("hand/SHA256SUMS");
    says(after, sums), says(after, "  Hand-Q8_0.gguf\n");
    free(after);
    turn_bit("hand/divergence.svg", 100);
    gquant_says(1, "divergence.svg was edited", words);
}

/* A call that does not name the base model keeps the one that the page has, also before what the model says; a page
 * of another model is not asked. */
TEST(the_base_model_stays) {
    static const char base[] = "base_model: \"owner/small\"\n";
    GQUANT(0, "-q", "publish", path("in.gguf"), "--out-dir", path("based"), "Q4_0", "--base-model",
           "owner/small");
    for (int again = 0; again < 2; again++) {
        GQUANT(0, "-q", "publish", path("in.gguf"), "--out-dir", path("based"), "Q8_0");
        char *page = text_of("based/README.md");
        says(page, base);
        free(page);
    }
    GQUANT(0, "-q", "publish", path("in.gguf"), "--out-dir", path("based"), "Q4_0", "--base-model",
           "owner/new");
    char *page = text_of("based/README.md");
    says(page, "base_model: \"owner/new\"\n"), assert_null(strstr(page, base));
    free(page);
    copy_file("in.gguf", "else.gguf");
    GQUANT(0, "-q", "publish", path("else.gguf"), "--out-dir", path("based"), "Q4_0");
    page = text_of("based/README.md");
    assert_null(strstr(page, "base_model: "));
    free(page);
}

/* A shorter command keeps what the page says, and reports it; a page of another model is not asked. */
TEST(what_the_page_says_stays) {
    static const char title[] = "A *big* \\ one", by[] = "Zo\u00eb \"Z\"";
    const char *words[] = {
        "publish", path("in.gguf"), "--out-dir", lasting("says"), "Q4_0",           "--repo", "me/In-GGUF",
        "--title", title,           "--license", "mit",           "--quantized-by", by,       NULL};
    free(gquant(0, words));
    for (int again = 0; again < 2; again++) {
        char *out = OUTPUT(0, "publish", path("in.gguf"), "--out-dir", path("says"), "Q8_0");
        says(out,
             "kept from README.md: --repo me/In-GGUF --title 'A *big* \\ one' --license mit --quantized-by ");
        says(out, "upload: hf upload me/In-GGUF ");
        char *page = text_of("says/README.md");
        says(page, "\n# A \\*big\\* \\\\ one GGUF\n"), says(page, "license: \"mit\"\n");
        says(page, "quantized_by: \"Zo\\u00eb \\\"Z\\\"\"\n"), says(page, "hf download me/In-GGUF ");
        free(out), free(page);
    }
    char *out = OUTPUT(0, "publish", path("in.gguf"), "--out-dir", path("says"), "Q8_0", "--repo", "me/New");
    says(out, "kept from README.md: --title 'A "), says(out, "upload: hf upload me/New ");
    free(out);
    copy_file("in.gguf", "other.gguf");
    out = OUTPUT(0, "publish", path("other.gguf"), "--out-dir", path("says"), "Q4_0");
    assert_null(strstr(out, "kept from")), says(out, "hf upload OWNER/NAME");
    free(out);
    out = OUTPUT(0, "publish", path("other.gguf"), "--out-dir", path("says"), "Q4_0"); /* nothing was given */
    assert_null(strstr(out, "kept from"));
    free(out);
}

/* Figures of the page are never dropped silently: the text or the speeds are named again, and unchanged files keep
 * theirs. */
TEST(figures_are_not_forgotten) {
    char text[2000];
    memset(text, 'd', sizeof text);
    tiny_folder_write(path("Fig"), 1, 0, 1);
    write_whole(path("fig.txt"), text, sizeof text);
    static const char speeds[] = "{\"model_filename\":\"Fig-Q8_0.gguf\",\"n_gen\":128,\"avg_ts\":5}";
    write_whole(path("fig.json"), speeds, strlen(speeds));
    const char *words[] = {
        "publish",    path("Fig"),     "--out-dir", path("fig"), "Q8_0",     "--context",
        "64",         "--tokens",      "256",       "-q",        "--speeds", path("fig.json"),
        "--evaluate", path("fig.txt"), NULL};
    free(gquant(0, words));
    char *page = text_of("fig/README.md"), *after;
    const char *row =
        strstr(strstr(page, "(Fig-Q8_0.gguf)"), "MB |"); /* behind the mark of the one to take */
    words[4] = "Q4_0", words[12] = NULL;
    gquant_says(1, "README.md has figures of an evaluation on fig.txt, which this command would drop: name",
                words);
    assert_false(exists(path("fig/Fig-Q4_0.gguf")));
    words[10] = "--evaluate", words[11] = path("fig.txt");
    gquant_says(1, "README.md has speeds of llama-bench, which this command would drop: name", words);
    words[10] = "--speeds", words[11] = path("fig.json"), words[12] = "--evaluate";
    free(gquant(0, words));
    after = text_of("fig/README.md");
    assert_non_null(memmem(after, strlen(after), row, strcspn(row, "\n")));
    says(after, "](Fig-Q4_0.gguf)");
    free(page), free(after);
}

/* Puts text into a file, behind the first place where it has `at`. */
static void edit(const char *name, const char *at, const char *text) {
    char *old = text_of(name), *place = strstr(old, at), *now;
    assert_non_null(place);
    assert_true(asprintf(&now, "%.*s%s%s", (int)(place + strlen(at) - old), old, text, place + strlen(at)) >
                0);
    write_whole(path(name), now, strlen(now));
    free(old), free(now);
}

/* Words of the page's owner stay where they stand, or stop the work; the page has all files of the model. */
TEST(edits_and_earlier_files_stay) {
    const char *words[] = {"publish", path("in.gguf"), "--out-dir", path("edit"), "Q4_0", NULL, NULL};
    free(gquant(0, words));
    edit("edit/README.md", "tags:\n", "- mine\n");
    edit("edit/README.md", "\n---\n", "Above.\n\n");
    edit("edit/README.md", "publish ends -->\n", "Below.\n");
    edit("edit/SHA256SUMS", ".gguf\n",
         "0000000000000000000000000000000000000000000000000000000000000000 *other.bin\n");
    write_whole(path("edit/other.bin"), "other", 5);
    const char *named[] = {"--force", path("in.gguf"), path("edit/of-another-name.gguf"), "Q5_0", NULL};
    free(gquant(0, named));
    words[4] = "Q8_0";
    gquant_says(0, "its front matter was edited", words);
    char *page = text_of("edit/README.md"), *sums = text_of("edit/SHA256SUMS");
    static const char *const kept[] = {"\n- mine\n",
                                       "\n---\nAbove.\n\n\n<!-- gquant",
                                       "ends -->\nBelow.\n",
                                       "](in-Q4_0.gguf)",
                                       "](in-Q8_0.gguf)",
                                       "by earlier commands",
                                       "[Q5\\_0](of-another-name.gguf)"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) says(page, kept[i]);
    says(sums, " *other.bin\n"), says(sums, "  in-Q4_0.gguf\n"), says(sums, "  in-Q8_0.gguf\n");
    free(gquant(0, words)); /* nothing is added the next time */
    char *again = text_of("edit/README.md"), *sums_again = text_of("edit/SHA256SUMS");
    assert_string_equal(page, again), assert_string_equal(sums, sums_again);
    free(again), free(sums_again), free(page), free(sums);
    edit("edit/README.md", "## Download and run\n", "Within.\n");
    gquant_says(1, "was edited between the marks", words);
    words[5] = "--force"; /* what is within goes, what is around stays */
    free(gquant(0, words));
    page = text_of("edit/README.md");
    assert_null(strstr(page, "Within.")), says(page, "Above."), says(page, "Below.");
    free(page);
    words[5] = NULL;
    edit("edit/README.md", "publish begins", "x");
    gquant_says(1, "without the marks", words);
}

/* The page is of these weights: a file of others is not in it, though its names are the same. */
TEST(files_of_other_weights_are_not_listed) {
    const char *words[] = {"publish", path("other/Tiny"), "--out-dir", path("weights"), "Q4_0", NULL, NULL,
                           NULL};
    mkdir(path("other"), 0777);
    tiny_folder_write(path("other/Tiny"), 1, 0, 1);
    free(gquant(0, words));
    words[4] = "Q8_0";
    free(gquant(0, words)); /* the same weights */
    char *page = text_of("weights/README.md");
    says(page, "](Tiny-Q4_0.gguf)"), says(page, "](Tiny-Q8_0.gguf)");
    free(page);
    tiny_folder_write(path("other/Tiny"), 1, 0, 2);
    words[4] = "Q5_0";
    gquant_says(0, "it was made of other weights", words);
    page = text_of("weights/README.md");
    says(page, "](Tiny-Q5_0.gguf)"), assert_null(strstr(page, "](Tiny-Q4_0.gguf)"));
    free(page);
    tiny_folder_write(path("other/Tiny"), 1, 0, 3);
    words[4] = "Q6_K", words[5] = "--split-max-size",
    words[6] = "100K"; /* compared with the first shard's name */
    gquant_says(
        0, "Tiny-Q5_0.gguf is in the folder, and the page does not name it: it was made of other weights",
        words);
    page = text_of("weights/README.md");
    says(page, "](Tiny-Q6_K-00001-of-"), assert_null(strstr(page, "](Tiny-Q5_0.gguf)"));
    free(page);
}

/* Nor is a file with other metadata, which a program would run in another way. */
TEST(files_of_other_metadata_are_not_listed) {
    const char *words[] = {"publish", path("in.gguf"), "--out-dir", path("keys"), "Q4_0", NULL, NULL, NULL};
    free(gquant(0, words));
    words[4] = "Q8_0", words[5] = "--override-kv", words[6] = "general.version=str:2";
    free(gquant(0, words)); /* which runs alike */
    char *page = text_of("keys/README.md");
    says(page, "](in-Q4_0.gguf)"), says(page, "](in-Q8_0.gguf)");
    free(page);
    words[4] = "Q5_0", words[6] = "llama.rope.freq_base=float:77";
    gquant_says(
        0,
        "in-Q8_0.gguf is in the folder, and the page does not name it: its metadata are not those of the "
        "model now, llama.rope.freq_base differs",
        words);
    page = text_of("keys/README.md");
    says(page, "](in-Q5_0.gguf)"), assert_null(strstr(page, "](in-Q4_0.gguf)"));
    free(page);
    words[4] = "Q6_K", words[5] = NULL; /* a key that only an earlier file has, or has as it should */
    gquant_says(0, "in-Q5_0.gguf is in the folder, and the page does not name it", words);
    page = text_of("keys/README.md");
    says(page, "](in-Q6_K.gguf)"), says(page, "](in-Q4_0.gguf)"),
        assert_null(strstr(page, "](in-Q5_0.gguf)"));
    free(page);
}

/* An earlier file that a bad disk has changed keeps its line of SHA256SUMS, and the page does not name it. */
TEST(damaged_files_are_not_listed) {
    const char *words[] = {"publish", path("in.gguf"), "--out-dir", path("damaged"), "Q4_0", NULL};
    free(gquant(0, words));
    words[4] = "Q8_0";
    free(gquant(0, words)); /* whole, and named by both */
    char *sums = text_of("damaged/SHA256SUMS"), *page = text_of("damaged/README.md");
    says(page, "](in-Q4_0.gguf)");
    free(page);
    size_t n;
    unsigned char *file = read_whole(path("damaged/in-Q4_0.gguf"), &n);
    file[n - 40] ^= 1;
    write_whole(path("damaged/in-Q4_0.gguf"), file, n);
    gquant_says(0, "its SHA-256 is not that of its line in SHA256SUMS", words);
    char *again = text_of("damaged/SHA256SUMS");
    assert_string_equal(sums, again);
    page = text_of("damaged/README.md");
    assert_null(strstr(page, "](in-Q4_0.gguf)")), says(page, "](in-Q8_0.gguf)");
    free(page);
    /* Without a line its own digests say so. */
    assert_int_equal(unlink(path("damaged/SHA256SUMS")), 0);
    gquant_says(0, "and its own digests show damage in", words);
    page = text_of("damaged/README.md");
    assert_null(strstr(page, "](in-Q4_0.gguf)")), says(page, "](in-Q8_0.gguf)");
    free(page);
    file[n - 40] ^= 1;
    write_whole(path("damaged/in-Q4_0.gguf"), file, n);
    assert_int_equal(unlink(path("damaged/SHA256SUMS")), 0);
    free(gquant(0, words));
    page = text_of("damaged/README.md");
    says(page, "](in-Q4_0.gguf)");
    GQUANT(0, "-q", "--force", path("in.gguf"), path("damaged/in-Q4_0.gguf"), "Q4_0", "--no-digests");
    assert_int_equal(unlink(path("damaged/SHA256SUMS")), 0);
    gquant_says(0, "it is listed, and nothing shows whether it is whole", words);
    free(sums), free(again), free(page), free(file);
}

/* Commands of a page work with any name; the same file in another split is not a second one. */
TEST(names_are_quoted_and_splits_counted_once) {
    const char *words[] = {"publish", path("other/My Model"), "--out-dir", path("quoted"), "Q4_0", NULL, NULL,
                           NULL};
    mkdir(path("other"), 0777);
    tiny_folder_write(path("other/My Model"), 1, 0, 1);
    free(gquant(0, words));
    char *page = text_of("quoted/README.md");
    says(page, "NAME 'My Model-Q4_0.gguf' --local-dir"), says(page, "-m 'My Model-Q4_0.gguf'\n");
    free(page);
    words[5] = "--split-max-size", words[6] = "20k";
    gquant_says(0, "in another split", words);
    page = text_of("quoted/README.md");
    says(page, "NAME --include 'My Model-Q4_0-*' --local-dir"), assert_null(strstr(page, "Q4_0.gguf"));
    free(page);
    GQUANT(0, "-q", path("other/My Model"), path("rank.gguf"), "F16", "--override-kv",
           "llama.pooling_type=int:4");
    GQUANT(0, "-q", "publish", path("rank.gguf"), "--out-dir", path("ranked"), "Q8_0");
    page = text_of("ranked/README.md");
    says(page, "pipeline_tag: \"text-ranking\""), assert_null(strstr(page, "llama-cli"));
    free(page);
    GQUANT_SAYS(2, "it is given twice", path("in.gguf"), path("o.gguf"), "Q4_0", "--prune-layers", "0",
                "--prune-layers", "1");
}

/* Writes a file with CR before each LF. */
static void write_crlf(const char *name) {
    char *old = text_of(name), *now = malloc(2 * strlen(old) + 1), *to = now;
    for (const char *at = old; *at; at++) {
        if (*at == '\n') *to++ = '\r';
        *to++ = *at;
    }
    write_whole(path(name), now, (size_t)(to - now));
    free(old), free(now);
}

/* What merges and editors make of a page. */
TEST(pages_that_git_has_changed) {
    const char *words[] = {"publish", path("in.gguf"), "--out-dir", path("git"), "Q4_0", NULL};
    free(gquant(0, words));
    char *page = text_of("git/README.md"), *sums = text_of("git/SHA256SUMS"), *twice;
    write_crlf("git/README.md"), write_crlf("git/SHA256SUMS");
    free(gquant(0, words));
    char *again = text_of("git/README.md"), *sums_again = text_of("git/SHA256SUMS");
    assert_string_equal(page, again), assert_string_equal(sums, sums_again);
    assert_true(asprintf(&twice, "%s%s", page, page) > 0);
    write_whole(path("git/README.md"), twice, strlen(twice));
    gquant_says(1, "has the marks of gquant publish more than once", words);
    *strstr(page, "<!-- gquant publish ends") = 0;
    write_whole(path("git/README.md"), page, strlen(page));
    gquant_says(1, "has no line '<!-- gquant publish ends -->'", words);
    free(page), free(sums), free(again), free(sums_again), free(twice);
}

/* Words behind a byte that ends texts would be lost; lines of .gitattributes that are comments send nothing. */
TEST(files_that_are_no_texts) {
    static const char *const names[][2] = {
        {"zero/README.md",
         "README.md could not be read as a text of up to 1 MiB: nothing that was in it is kept"},
        {"zero/SHA256SUMS",
         "SHA256SUMS could not be read as a text of up to 1 MiB: nothing that was in it is kept"},
        {"zero/.gitattributes", NULL}};
    const char *words[] = {"publish", path("in.gguf"), "--out-dir", path("zero"), "Q4_0", NULL, NULL};
    free(gquant(0, words));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n;
        char *old = (char *)read_whole(path(names[i][0]), &n), *now = malloc(n + 5);
        memcpy(now, old, n), memcpy(now + n, "\0mine", 5);
        write_whole(path(names[i][0]), now, n + 5);
        gquant_says(1, "cannot be read as a text of up to 1 MiB", words);
        words[5] = "--force";
        if (names[i][1]) gquant_says(0, names[i][1], words);
        words[5] = NULL;
        write_whole(path(names[i][0]), old, n);
        free(old), free(now);
    }
    write_whole(path("zero/.gitattributes"), "# *.gguf filter=lfs\n", 20);
    free(gquant(0, words));
    char *lines = text_of("zero/.gitattributes");
    says(lines, "# *.gguf filter=lfs\n*.gguf filter=lfs diff");
    free(lines);
}

/* Another call at work in the folder is waited for. */
TEST(two_calls_do_not_share_a_folder) {
#ifdef _WIN32
    skip(); /* folders have no locks there */
#endif
    mkdir(path("two"), 0777);
    int fd = open(path("two"), O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    GQUANT_SAYS(1, "another gquant is publishing", "publish", path("in.gguf"), "--out-dir", path("two"),
                "Q4_0");
    GQUANT(0, "-q", "publish", path("in.gguf"), "--out-dir", path("two"), "Q4_0", "--dry-run");
    close(fd);
    GQUANT(0, "-q", "publish", path("in.gguf"), "--out-dir", path("two"), "Q4_0");
}

TEST(requests_that_are_refused) {
    GQUANT_SAYS(2, "--out-dir DIR is missing", "publish", path("in.gguf"), "Q4_0");
    GQUANT_SAYS(2, "nothing to make", "publish", path("in.gguf"), "--out-dir", path("none"));
    GQUANT_SAYS(2, "begin with this word", "publish", path("in.gguf"), "Q4_0", "--out-dir", path("none"),
                "--name", "mtp-{type}.gguf");
    GQUANT_SAYS(2, "with {type}", "publish", path("in.gguf"), "Q4_0", "--out-dir", path("none"), "--name",
                "a.gguf");
    GQUANT_SAYS(2, "no common size", "publish", path("in.gguf"), "--ladder", "--out-dir", path("none"));
    GQUANT_SAYS(2, "unknown file type 'Q4_K_N', did you mean Q4_K_", "publish", path("in.gguf"), "Q4_K_N",
                "--out-dir", path("none"));
    GQUANT_SAYS(2, "unknown file type", "publish", path("in.gguf"), "Q9", "--out-dir", path("none"));
    assert_false(exists(path("none")));
    mkdir(path("mine"), 0777);
    write_whole(path("mine/README.md"), "my own", 6);
    GQUANT_SAYS(1, "was not written by gquant publish", "publish", path("in.gguf"), "Q4_0", "--out-dir",
                path("mine"));
    GQUANT(0, "publish", path("in.gguf"), "Q4_0", "--out-dir", path("dry"), "--dry-run");
    assert_false(exists(path("dry")));
    mkdir(path("long"), 0777);
    write_whole(path("long/README.md"), "my own, a long one", 18);
    assert_int_equal(truncate(path("long/README.md"), 2 << 20), 0);
    GQUANT_SAYS(1, "cannot be read as a text of up to 1 MiB", "publish", path("in.gguf"), "Q4_0", "--out-dir",
                path("long"));
}

/* A terminal does nothing of what a folder's name has in it. */
TEST(names_of_folders_are_shown) {
    const char *out = lasting("red\033[31m");
    GQUANT(0, "-q", "publish", path("in.gguf"), "--out-dir", out, "Q4_0");
    char *err = gquant(0, (const char *const[]){"publish", path("in.gguf"), "--out-dir", out, "Q4_0", NULL});
    says(err, "already exists and is complete"), says(err, "red\\x1b[31m");
    assert_plain(err);
    free(err);
}

int main(void) { return tests_run(folder_with_model, folder_remove); }
