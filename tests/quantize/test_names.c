/* Names: of what lies beside an output, however long the output's is. */
#include "tests/support/folder.h"
#include "tests/support/runs.h"

#include <dirent.h>

FIXTURE(set_up) {
    folder = temporary_folder();
    model_save(model_llama(4), path("in.gguf"));
    quantize(path("in.gguf"), path("wanted.gguf"), "Q8_0", 1);
    return 0;
}

static gq_options options_for(const gq_output *out) { return run_options(path("in.gguf"), out, 1); }

/* ---- long names ---- */

/* A name of n bytes that ends in .gguf, made of a text again and again. */
static const char *long_name(size_t n, const char *text) {
    static char name[256];
    size_t length = strlen(text);
    for (size_t i = 0; i < n; i++) name[i] = text[i % length];
    memcpy(name + n - 5, ".gguf", 6);
    return name;
}

/* Hidden files of the folder agree in their first bytes: all belong to the same output. */
static void assert_one_prefix(const char *in) {
    char first[256] = "";
    DIR *dir = opendir(in);
    assert_non_null(dir);
    for (struct dirent *d; (d = readdir(dir));) {
        const char *suffix = strstr(d->d_name, ".gquant");
        if (!suffix) continue;
        if (!*first) snprintf(first, sizeof first, "%.*s", (int)(suffix - d->d_name), d->d_name);
        assert_int_equal(strlen(first), suffix - d->d_name);
        assert_memory_equal(first, d->d_name, strlen(first));
    }
    closedir(dir);
    assert_true(*first);
}

TEST(parts_of_long_names_are_joined) {
    for (size_t n = 205; n <= 255; n += n < 215 || n == 254 ? 1 : 3) {
        char *own = temporary_folder();
        gq_output out = {.path = in_folder(own, long_name(n, "x")), .filetype = "Q8_0"};
        gq_options o = options_for(&out), whole = o;
        gq_error e;
        stopper all = {.after = 0};
        o.parts = 12;
        for (o.part = 12; o.part > 0; o.part--) assert_int_equal(run_some(&o, &all, &e), GQ_OK);
        assert_one_prefix(own);
        assert_non_null(strstr(failure(&whole), "was started in 12 parts"));
        o.parts = 0, o.join = true;
        gq_results_free(run_plan(&o));
        assert_same_file(path("wanted.gguf"), out.path);
        assert_int_equal(count_files(own), 1);
        remove_folder(own);
    }
}

TEST(interrupted_runs_of_long_names_go_on) {
    for (size_t n = 219; n <= 255; n += 6) {
        char *own = temporary_folder();
        gq_output out = {.path = in_folder(own, long_name(n, "y")), .filetype = "Q8_0"};
        gq_options o = options_for(&out);
        gq_error e;
        stopper some = {.after = 5}, last = {.after = 0};
        assert_int_equal(run_some(&o, &some, &e), GQ_INTERRUPTED);
        assert_one_prefix(own);
        assert_int_equal(run_some(&o, &last, &e), GQ_OK);
        assert_true(last.resumed > 0);
        assert_same_file(path("wanted.gguf"), out.path);
        assert_int_equal(count_files(own), 1);
        remove_folder(own);
    }
}

/* Names that differ only in what is cut off are two outputs all the same; letters stay whole. */
TEST(long_names_are_told_apart) {
    static const char *const letters[] = {"\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    for (size_t i = 0; i < 3; i++) {
        char *own = temporary_folder();
        size_t length = strlen(letters[i]), n = 245 / length * length + 5;
        const char *a = in_folder(own, long_name(n, letters[i])), *b;
        char other[4096];
        snprintf(other, sizeof other, "%s", a);
        other[strlen(other) - 6] ^= 1; /* the last letter in front of .gguf */
        b = other;
        gq_output both[] = {{.path = a, .filetype = "Q8_0"}, {.path = b, .filetype = "Q8_0"}};
        gq_options o = options_for(both);
        gq_error e;
        stopper some = {.after = 3}, last = {.after = 0};
        o.n_outputs = 2;
        assert_int_equal(run_some(&o, &some, &e), GQ_INTERRUPTED);
        assert_int_equal(count_files(own), 3);
        DIR *dir = opendir(own);
        for (struct dirent *d; (d = readdir(dir));) {
            if (!strstr(d->d_name, ".gquant")) continue;
            const char *end = strstr(d->d_name, ".gquant") - 9;
            assert_int_equal(*end, '-');
            assert_int_equal((size_t)(end - d->d_name - 1) % length, 0);
        }
        closedir(dir);
        assert_int_equal(run_some(&o, &last, &e), GQ_OK);
        assert_same_file(path("wanted.gguf"), a);
        assert_same_file(path("wanted.gguf"), b);
        assert_int_equal(count_files(own), 2);
        remove_folder(own);
    }
}

/* The name of a shard is longer than what was asked for; what has no room is refused before the work. */
TEST(long_names_of_shards) {
    char *own = temporary_folder();
    for (size_t n = 230; n <= 255; n += 5) {
        gq_output out = {.path = in_folder(own, long_name(n, "z")), .filetype = "Q8_0"};
        gq_options o = options_for(&out);
        gq_error e;
        stopper all = {.after = 0};
        o.split_max_size = 300000, o.force = true;
        if (n + 15 > 255) {
            assert_non_null(strstr(failure(&o), "a file name has at most 255"));
            continue;
        }
        o.parts = 2, o.part = 1;
        assert_int_equal(run_some(&o, &all, &e), GQ_OK);
        o.part = 2;
        assert_int_equal(run_some(&o, &all, &e), GQ_OK);
        o.part = o.parts = 0, o.join = true;
        gq_results_free(run_plan(&o));
    }
    remove_folder(own);
}

/* ---- inputs and outputs that are named like what lies beside an output ---- */

/* A model under a name that the run would give to a file of its own: refused, and left alone. */
TEST(inputs_named_like_temporaries_stay) {
    static const char *const names[] = {".out.gguf.gquant", ".out.gguf.gquant-journal",
                                        ".out.gguf.gquant-journal-1-of-2"};
    gq_output out = {.path = path("out.gguf"), .filetype = "Q8_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n;
        uint8_t *bytes = read_whole(path("in.gguf"), &n);
        write_whole(path(names[i]), bytes, n);
        free(bytes);
        gq_options o = options_for(&out);
        o.input = path(names[i]);
        assert_non_null(strstr(failure(&o), "is one of the inputs, and has the name"));
        o.part = 2, o.parts = 2, o.force = true;
        assert_non_null(strstr(failure(&o), "is one of the inputs, and has the name"));
        assert_same_file(path("in.gguf"), path(names[i]));
        assert_int_equal(unlink(path(names[i])), 0);
        assert_false(exists(out.path));
    }
}

/* One entry that fits the model, in the legacy layout. */
static void write_importance(const char *to) {
    static const char name[] = "blk.0.ffn_up.weight";
    int counts[] = {1, sizeof name - 1, 1, 256};
    float ones[256];
    for (int i = 0; i < 256; i++) ones[i] = 1 + (float)(i % 7);
    FILE *f = fopen(to, "wb");
    assert_non_null(f);
    fwrite(&counts[0], 4, 1, f), fwrite(&counts[1], 4, 1, f), fwrite(name, 1, sizeof name - 1, f);
    fwrite(&counts[2], 4, 2, f), fwrite(ones, 4, 256, f);
    fclose(f);
}

TEST(importance_named_like_temporaries_stays) {
    static const char *const names[] = {".out.gguf.gquant", ".out.gguf.gquant-journal-2-of-2",
                                        "in.gguf.gquant-measure"};
    write_importance(path("wanted.dat"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool measured = i == 2; /* whose place nothing else is for */
        gq_output out = {.path = path("out.gguf"), .filetype = measured ? NULL : "Q8_0"};
        gq_options o = options_for(&out);
        write_importance(path(names[i]));
        o.imatrix = path(names[i]);
        if (measured) {
            out.target.bpw = 5;
            assert_true(announced(&o, "is one of the inputs"));
        } else {
            assert_non_null(strstr(failure(&o), "is one of the inputs, and has the name"));
        }
        assert_same_file(path("wanted.dat"), path(names[i]));
        assert_int_equal(unlink(path(names[i])), 0);
    }
}

/* What else the caller reads, by the list in which he says so. */
TEST(other_inputs_named_like_temporaries_stay) {
    static const char *const names[] = {".out.gguf.gquant",
                                        ".out.gguf.gquant-journal",
                                        ".out.gguf.gquant-journal-1-of-2",
                                        ".out.gguf.gquant-names",
                                        "out.gguf",
                                        "in.gguf.gquant-measure"};
    enum { NAMES = sizeof names / sizeof *names };
    for (size_t i = 0; i < NAMES; i++) {
        bool measured = i == NAMES - 1;
        gq_output out = {.path = path("out.gguf"), .filetype = measured ? NULL : "Q8_0"};
        gq_options o = options_for(&out);
        const char *others[] = {"not there", path(names[i])};
        write_whole(others[1], "theirs", 6);
        o.other_inputs = (gq_list){others, 2}, o.force = true;
        if (measured) {
            out.target.bpw = 5;
            assert_true(announced(&o, "is one of the inputs"));
        } else {
            assert_non_null(strstr(failure(&o), "is one of the inputs"));
        }
        size_t n;
        char *after = (char *)read_whole(path(names[i]), &n);
        assert_string_equal(after, "theirs");
        free(after);
        assert_int_equal(unlink(path(names[i])), 0);
    }
}

/* Nor are measurements lost that a plan keeps under such a name, or under an output's. */
TEST(measurements_named_like_temporaries_stay) {
    static const char *const names[] = {".out.gguf.gquant", ".out.gguf.gquant-journal",
                                        ".out.gguf.gquant-names", "out.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        gq_output out = {.path = path("out.gguf"), .target.bpw = 5};
        gq_options o = options_for(&out);
        o.measure_file = path(names[i]), o.force = true;
        assert_non_null(strstr(failure(&o), "is one of the inputs"));
        assert_true(exists(path(names[i])));
        assert_int_equal(unlink(path(names[i])), 0);
    }
}

TEST(outputs_named_like_temporaries_of_others) {
    static const char *const names[] = {".b.gguf.gquant", ".b.gguf.gquant-journal",
                                        ".b.gguf.gquant-journal-1-of-2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        gq_output both[] = {{.path = path("b.gguf"), .filetype = "Q8_0"},
                            {.path = path(names[i]), .filetype = "Q4_0"}};
        gq_options o = options_for(both);
        o.n_outputs = 2;
        assert_non_null(strstr(failure(&o), i ? "would overwrite a file that gquant writes" : "two outputs would be written"));
        assert_false(exists(path("b.gguf")) || exists(path(names[i])));
    }
}

int main(void) { return tests_run(set_up, folder_remove); }
