/* The command line: what the bare arguments mean, option values, recipes. */
#include "tests/support/support.h"

#include "cli/cli.h"
#include "cli/options/options.h"

static bool parse(request *r, gq_error *e, const char *const *words) {
    char *argv[32] = {"gquant"};
    int argc = 1;
    for (; words[argc - 1]; argc++) argv[argc] = (char *)words[argc - 1];
    *e = (gq_error){0};
    return request_parse(r, argc, argv, e);
}
#define PARSE(...) parse(&r, &e, (const char *const[]){__VA_ARGS__, NULL})

/* ---- IN [OUT] TYPE [THREADS] ---- */

TEST(test_positional) {
    static const struct {
        const char *words[6], *out, *type;
        int threads;
    } rows[] = {
        {{"in", "Q4_K_M"}, NULL, "Q4_K_M", 0},
        {{"in", "q4_k_m", "8"}, NULL, "q4_k_m", 8},
        {{"in", "7"}, NULL, "7", 0},
        {{"in", "7", "8"}, NULL, "7", 8},
        {{"in", "out", "Q4_K_M"}, "out", "Q4_K_M", 0},
        {{"in", "out", "15"}, "out", "15", 0},
        {{"in", "./Q4_0", "Q8_0"}, "./Q4_0", "Q8_0", 0}, /* a file called like a type */
        {{"in", "./Q4_0", "Q8_0", "3"}, "./Q4_0", "Q8_0", 3},
        {{"in", "7", "7"}, NULL, "7", 7},
        {{"in", "out", "Q8_0", "0"}, "out", "Q8_0", 0},
        {{"in", "a=b.gguf", "Q8_0"},
         "a=b.gguf",
         "Q8_0",
         0}, /* '=' without a type behind it is part of a name */
        {{"--", "--pure", "-out", "Q8_0"}, "-out", "Q8_0", 0},
        {{"in", "--target-size", "7G"}, NULL, NULL, 0},
        {{"in", "out", "--target-size=7G"}, "out", NULL, 0},
        {{"in", "8", "--target-bpw=4.6"}, NULL, NULL, 8},
        {{"--target-bpw=4.6", "in", "out", "8"}, "out", NULL, 8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        request r;
        gq_error e;
        if (!parse(&r, &e, rows[i].words)) fail_msg("row %zu: %s", i, e.text);
        assert_int_equal(r.quantize.n_outputs, 1);
        if (rows[i].out)
            assert_string_equal(r.quantize.outputs[0].path, rows[i].out);
        else
            assert_null(r.quantize.outputs[0].path);
        if (rows[i].type)
            assert_string_equal(r.quantize.outputs[0].filetype, rows[i].type);
        else
            assert_null(r.quantize.outputs[0].filetype);
        assert_int_equal(r.quantize.threads, rows[i].threads);
        request_free(&r);
    }
}

/* Its argument stands behind an equals sign or is left out. */
TEST(test_projectors) {
    static const struct {
        const char *words[4], *type;
        size_t outputs;
    } rows[] = {
        {{"--mmproj", "in", "Q4_K_M"}, "F16", 1},
        {{"in", "Q4_K_M", "--mmproj"}, "F16", 1},
        {{"in", "Q8_0"}, NULL, 1},
        {{"--mmproj=q8_0", "in", "Q4_K_M"}, "Q8_0", 1},
        {{"in", "--mmproj=bf16"}, "BF16", 0},
        {{"--mmproj", "in"}, "F16", 0},
        {{"--mmproj=none", "in", "Q8_0"}, "none", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        request r;
        gq_error e;
        if (!parse(&r, &e, rows[i].words)) fail_msg("row %zu: %s", i, e.text);
        assert_int_equal(r.quantize.n_outputs, rows[i].outputs);
        assert_string_equal(r.quantize.input, "in");
        if (rows[i].type)
            assert_string_equal(r.mmproj, rows[i].type);
        else
            assert_null(r.mmproj);
        request_free(&r);
    }
}

TEST(test_several_targets) {
    static const struct {
        const char *words[8];
        size_t n;
        struct {
            const char *path, *filetype;
            uint64_t size;
            double bpw;
        } outputs[3];
    } rows[] = {
        {{"in", "--target-size", "7G", "--target-bpw", "4.5"},
         2,
         {{NULL, NULL, 7000000000, 0}, {.bpw = 4.5}}},
        {{"in", "--target-size", "7G", "--out-dir", "d"}, 1, {{.size = 7000000000}}},
        {{"--target-bpw", "3", "in", "Q8_0", "--out-dir=d"}, 2, {{.bpw = 3}, {.filetype = "Q8_0"}}},
        {{"--target-bpw", "3", "in", "x=Q8_0", "Q4_0"},
         3,
         {{.bpw = 3}, {.path = "x", .filetype = "Q8_0"}, {.filetype = "Q4_0"}}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        request r;
        gq_error e;
        if (!parse(&r, &e, rows[i].words)) fail_msg("row %zu: %s", i, e.text);
        assert_int_equal(r.quantize.n_outputs, rows[i].n);
        for (size_t o = 0; o < rows[i].n; o++) {
            const char *path = rows[i].outputs[o].path, *filetype = rows[i].outputs[o].filetype;
            const gq_output *found = &r.quantize.outputs[o];
            assert_true(path ? found->path && strncmp(found->path, path, strlen(path)) == 0 : !found->path);
            assert_true(filetype ? found->filetype && !strcmp(found->filetype, filetype) : !found->filetype);
            assert_int_equal(r.quantize.outputs[o].target.size, rows[i].outputs[o].size);
            assert_true(r.quantize.outputs[o].target.bpw == rows[i].outputs[o].bpw);
        }
        request_free(&r);
    }
}

/* The first word that no option takes may be a command. */
TEST(test_options_before_a_command) {
    static const struct {
        const char *words[8];
        command command;
        size_t n_arguments;
    } rows[] = {
        {{"info", "f"}, CMD_INFO, 1},
        {{"-q", "info", "f"}, CMD_INFO, 1},
        {{"--json", "info", "f"}, CMD_INFO, 1},
        {{"-qt", "1", "compare", "a", "b"}, CMD_COMPARE, 2},
        {{"--force", "imatrix", "merge", "a", "b", "c"}, CMD_IMATRIX, 4},
        {{"--threads=1", "verify", "-q", "f"}, CMD_VERIFY, 1},
        {{"--ram", "8G", "plan", "--context", "4096", "f"}, CMD_PLAN, 1},
        {{"--imatrix", "info", "x.gguf", "Q4_K"}, CMD_QUANTIZE, 2},
        {{"-r", "types", "x.gguf", "Q4_K"}, CMD_QUANTIZE, 2},
        {{"--imatrix", "--", "info", "x.gguf"}, CMD_INFO, 1},
        {{"--", "info", "Q4_K"}, CMD_QUANTIZE, 2},
        {{"-q", "--", "info", "Q4_K"}, CMD_QUANTIZE, 2},
        {{"x.gguf", "./info", "Q4_K"}, CMD_QUANTIZE, 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        request r;
        gq_error e;
        bool ok = parse(&r, &e, rows[i].words);
        if (i == 9) { /* compare and plan know --imatrix; info does not */
            assert_false(ok);
            assert_non_null(strstr(e.text, "unknown option --imatrix"));
        } else if (!ok) {
            fail_msg("row %zu: %s", i, e.text);
        }
        assert_int_equal(r.command, rows[i].command);
        if (ok) assert_int_equal(r.n_arguments, rows[i].n_arguments);
        request_free(&r);
    }
    request r;
    gq_error e;
    assert_true(PARSE("-qt", "3", "compare", "a", "b"));
    assert_true(r.quantize.threads == 3 && r.quiet);
    request_free(&r);
}

TEST(test_several_outputs) {
    request r;
    gq_error e;
    assert_true(PARSE("in", "--out-dir", "d", "Q4_K_M", "x.gguf=8", "Q8_0"));
    assert_int_equal(r.quantize.n_outputs, 3);
    assert_string_equal(r.quantize.out_dir, "d");
    assert_null(r.quantize.outputs[0].path);
    assert_string_equal(r.quantize.outputs[1].path, "d/x.gguf");
    assert_string_equal(r.quantize.outputs[1].filetype, "8");
    assert_string_equal(r.quantize.outputs[2].filetype, "Q8_0");
    request_free(&r);
    assert_true(PARSE("in", "a=1=Q4_0", "b=q6_k"));
    assert_int_equal(r.quantize.n_outputs, 2);
    assert_string_equal(r.quantize.outputs[0].path, "a=1");
    assert_string_equal(r.quantize.outputs[1].path, "b");
    request_free(&r);
}

TEST(test_bad_usage) {
    static const struct {
        const char *words[8], *mention;
    } rows[] = {
        {{NULL}, "IN [OUT] TYPE"},
        {{"in"}, "IN [OUT] TYPE"},
        {{"in", "Q4_KM"}, "did you mean Q4_K"},
        {{"in", "out", "Q9_K"}, "did you mean"},
        {{"in", "Q4_0", "zebra"}, "zebra"},
        {{"in", "out", "Q8_0", "many"}, "many"},
        {{"in", "out", "Q8_0", "1", "2"}, "'2'"},
        {{"in", "Q8_0", "4", "-t", "4"}, "twice"},
        {{"--imatrx", "x", "in", "Q8_0"}, "did you mean --imatrix"},
        {{"in", "Q8_0", "--tread=3"}, "did you mean --threads"},
        {{"in", "Q8_0", "--qqqqqqqqq"}, "--qqqqqqqqq"},
        {{"in", "Q8_0", "-z"}, "-z"},
        {{"in", "Q8_0", "--threads"}, "--threads needs"},
        {{"in", "Q8_0", "--pure=yes"}, "--pure takes no"},
        {{"--calibrate", "--calibrate-tokens", "2048", "in", "out", "Q8_0"},
         "option --calibrate needs TEXT, found --calibrate-tokens"},
        {{"in", "Q8_0", "--threads", "two"}, "two"},
        {{"in", "Q8_0", "--threads=-1"}, "-1"},
        {{"in", "Q8_0", "--effort", "bset"}, "fast, default or best"},
        {{"in", "Q8_0", "--part", "3/2"}, "K/N"},
        {{"in", "Q8_0", "--part", "0/2"}, "K/N"},
        {{"in", "Q8_0", "--part", "1"}, "K/N"},
        {{"in", "Q8_0", "--split-max-size", "lots"}, "40G"},
        {{"in", "Q8_0", "--tensor-type", ""}, "PATTERN=TYPE"},
        {{"types", "Q4_K_L", "extra"}, "too many"},
        {{"in", "Q8_0", "--target-size", "7G"}, "takes the place of the file type Q8_0: gquant ... in ("},
        {{"in", "out", "Q8_0", "--target-bpw", "4"}, "file type Q8_0: gquant ... in out ("},
        {{"in", "Q8_0", "4", "--target-bpw", "4"}, "file type Q8_0: gquant ... in 4 ("},
        {{"in.gguf"}, "as in: gquant in.gguf Q4_K_M"},
        {{"-q", "my in.gguf"}, "as in: gquant ... 'my in.gguf' Q4_K_M"},
        {{"it's.gguf"}, "as in: gquant 'it'\\''s.gguf' Q4_K_M"},
        {{"Q5_K_M"}, "as in: gquant MODEL.gguf Q5_K_M"},
        {{"--out-dir", "d", "in.gguf"}, "file type is missing"},
        {{"Q4_K_M", "in.gguf"}, "gquant in.gguf Q4_K_M"},
        {{"Q4_K_M", "in.gguf", "8"}, "gquant in.gguf Q4_K_M 8"},
        {{"Q4_K_M", "in.gguf", "out.gguf"}, "gquant in.gguf out.gguf Q4_K_M"},
        {{"in.gguf", "Q4_K_M", "out.gguf", "8"}, "gquant in.gguf out.gguf Q4_K_M 8"},
        {{"in", "Q4_0", "Q8_0"},
         "several outputs: gquant --out-dir DIR in Q4_0 Q8_0 (for a file of that name write ./Q4_0)"},
        {{"in", "Q4_0", "Q8_0", "Q6_K", "Q2_K"}, "gquant --out-dir DIR in Q4_0 Q8_0 Q6_K Q2_K"},
        {{"in", "Q4_0", "Q8_0", "3"}, "gquant --out-dir DIR in Q4_0 Q8_0 ("},
        {{"in", "7", "7", "7"}, "--out-dir"},
        {{"-", "Q8_0"}, "standard input"},
        {{"in", "-", "Q8_0"}, "standard output"},
        {{"in", "--", "-=Q8_0"}, "standard output"},
        {{"--imatrix", "/dev/null", "in", "/dev/null", "Q8_0"}, "the file of an option"},
        {{"in", "out", "1", "x", "--target-bpw", "4"}, "too many"},
        {{"in", "x", "--target-bpw", "4", "--target-bpw", "5"}, "unknown file type 'x'"},
        {{"--target-bpw", "4"}, "missing"},
        {{"in", "--target-bpw", "0"}, "such as 4.6"},
        {{"in", "--target-bpw", "4.6b"}, "such as 4.6"},
        {{"in", "--target-bpw", "nan"}, "such as 4.6"},
        {{"in", "--target-size", "0"}, "40G"},
        {{"infoo", "in"}, "did you mean 'gquant info'"},
        {{"in", "Q8_0", "--tensor-type", "a=Q7_K"}, "did you mean Q"},
        {{"in", "Q8_0", "--mmproj=Q4_K"}, "expected F16, BF16, F32, Q8_0 or none"},
        {{"in", "--mmproj=none"}, "file type is missing"},
        {{"in", "--mmproj", "--pure"}, "--pure is for the text model"},
        {{"in", "Q8_0", "--mmproj", "--part", "1/2"}, "--mmproj and --part cannot be combined"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        request r;
        gq_error e;
        bool ok = parse(&r, &e, rows[i].words);
        request_free(&r);
        if (ok || e.status != GQ_USAGE || !strstr(e.text, rows[i].mention))
            fail_msg("row %zu: expected bad usage with \"%s\", found %s \"%s\"", i, rows[i].mention,
                     ok ? "success" : "the error", e.text);
    }
}

/* What excludes each other in the library is told with the options' names, before any file is opened. */
TEST(test_conflicts) {
    static const struct {
        const char *words[8], *mention;
    } rows[] = {
        {{"in", "--target-size", "7G", "--pure"}, "--target-size and --pure cannot be combined: "},
        {{"in", "--pure", "--target-bpw", "5"}, "--target-bpw and --pure cannot be combined: "},
        {{"in", "Q8_0", "--include-weights", "a", "--exclude-weights", "b"},
         "--include-weights and --exclude-weights cannot be combined: "},
        {{"plan", "in", "--include-weights", "a", "--exclude-weights", "b"},
         "--include-weights and --exclude"},
        {{"in", "Q8_0", "--split-max-size", "1G", "--keep-split"},
         "--keep-split and --split-max-size cannot"},
        {{"in", "Q8_0", "--join", "--part", "1/2"}, "--join and --part cannot be combined: "},
        {{"in", "Q8_0", "--calibrate", "t", "--imatrix", "m"},
         "--imatrix and --calibrate cannot be combined"},
        {{"in", "Q8_0", "--calibrate-ids", "t", "--imatrix", "m"}, "--imatrix and --calibrate-ids cannot"},
        {{"in", "Q8_0", "--calibrate", "t", "--part", "1/2"}, "--part and --calibrate cannot be combined: "},
        {{"in", "Q8_0", "--calibrate", "t", "--join"}, "--join and --calibrate cannot be combined: "},
        {{"in", "Q8_0", "--calibrate", "t", "--transpose", "x"}, "--transpose and --calibrate cannot be"},
        {{"in", "Q8_0", "--calibrate", "t", "--calibrate-ids", "x"},
         "--calibrate and --calibrate-ids cannot"},
        {{"evaluate", "in", "--text", "t", "--ids", "x"}, "--text and --ids cannot be combined: "},
        {{"in", "Q8_0", "--memory", "1G"}, "--memory works only with --calibrate or --evaluate"},
        {{"in", "Q8_0", "--shrink", "0", "--evaluate", "t"}, "--shrink works only with --calibrate"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        request r;
        gq_error e = {.text = ""};
        bool ok = parse(&r, &e, rows[i].words);
        request_free(&r);
        if (ok || e.status != GQ_USAGE || strncmp(e.text, rows[i].mention, strlen(rows[i].mention)) != 0)
            fail_msg("row %zu: expected \"%s\", found %s \"%s\"", i, rows[i].mention,
                     ok ? "success" : "the error", e.text);
    }
    request r;
    gq_error e;
    assert_true(PARSE("in", "Q8_0", "--context", "64", "--evaluate", "t", "--part", "1/2"));
    request_free(&r);
    assert_true(PARSE("imatrix", "compute", "in", "t", "out", "--context", "64"));
    request_free(&r);
}

TEST(test_values) {
    request r;
    gq_error e;
    assert_true(PARSE("--pure", "in", "-t", "3", "Q8_0", "--effort=best", "--part", "2/5", "--split-max-size",
                      "1.5G", "--keep", "a", "--keep=b", "-nqr", "x.json", "--allow-requantize"));
    assert_true(r.quantize.pure && r.dry_run && r.quiet && r.quantize.allow_requantize && !r.verbose);
    assert_int_equal(r.quantize.threads, 3);
    assert_int_equal(r.quantize.effort, GQ_EFFORT_BEST);
    assert_int_equal(r.quantize.part, 2);
    assert_int_equal(r.quantize.parts, 5);
    assert_int_equal(r.quantize.split_max_size, 1500000000);
    assert_int_equal(r.quantize.keep.n, 2);
    assert_string_equal(r.quantize.keep.items[1], "b");
    assert_string_equal(r.report, "x.json");
    request_free(&r);
    assert_true(PARSE("in", "Q8_0"));
    assert_int_equal(r.quantize.effort, GQ_EFFORT_DEFAULT);
    request_free(&r);
}

/* ---- recipes ---- */

TEST(test_recipe) {
    char *folder = temporary_folder(), *path = text_format("%s/recipe", folder);
    static const char text[] =
        "# attention = first\nblk\\.0\\.attn=Q8_0\r\n\tffn_(up|gate)=q5_K,ffn_down=Q6_K\n\n#end";
    write_whole(path, text, strlen(text));
    request r;
    gq_error e;
    assert_true(PARSE("--tensor-type", "a=F16", "--tensor-type-file", path, "in", "Q4_0", "--custom-q",
                      "x=Q4_K,y=Q5_K"));
    static const char *const expected[] = {
        "a=F16", "blk\\.0\\.attn=Q8_0", "ffn_(up|gate)=q5_K", "ffn_down=Q6_K", "x=Q4_K", "y=Q5_K"};
    assert_int_equal(r.quantize.tensor_types.n, 6);
    for (size_t i = 0; i < 6; i++) assert_string_equal(r.quantize.tensor_types.items[i], expected[i]);
    request_free(&r);

    write_whole(path, "a=\0b", 4);
    assert_false(PARSE("--tensor-type-file", path, "in", "Q4_0"));
    assert_non_null(strstr(e.text, "zero byte"));
    request_free(&r);
    assert_false(PARSE("--tensor-type-file", folder, "in", "Q4_0"));
    assert_int_equal(e.status, GQ_FAILED);
    request_free(&r);
    write_whole(path, "a=Q8_0\nffn q6_K", 15);
    assert_false(PARSE("--tensor-type-file", path, "in", "Q4_0"));
    assert_non_null(strstr(e.text, "line 2"));
    request_free(&r);
    assert_false(PARSE("--tensor-type-file", "/nowhere/at/all", "in", "Q4_0"));
    assert_non_null(strstr(e.text, "/nowhere/at/all"));
    request_free(&r);
    char *large = need_memory(1, (1 << 20) + 1);
    memset(large, 'x', (1 << 20) + 1);
    write_whole(path, large, (1 << 20) + 1);
    assert_false(PARSE("--tensor-type-file", path, "in", "Q4_0"));
    assert_non_null(strstr(e.text, "at most 1048576"));
    request_free(&r);
    free(large);
    free(path);
    remove_folder(folder);
}

/* ---- units ---- */

TEST(test_units) {
    static const struct {
        const char *text;
        uint64_t bytes; /* 0: not a size */
    } rows[] = {{"1", 1},
                {"40G", 40000000000},
                {"7.5GiB", 8053063680},
                {"500M", 500000000},
                {"1kB", 1000},
                {"2T", 2000000000000},
                {"3Ki", 3072},
                {"", 0},
                {"0", 0},
                {"G", 0},
                {"1e9", 0},
                {"0x10", 0},
                {"-1", 0},
                {"1GG", 0},
                {"nan", 0},
                {"9999999T", 0},
                {"4 G", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t bytes = 0;
        bool ok = size_parse(rows[i].text, &bytes);
        if (ok != (rows[i].bytes > 0) || bytes != rows[i].bytes)
            fail_msg("\"%s\": %llu", rows[i].text, (unsigned long long)bytes);
    }
    char text[UNIT_ROOM];
    assert_string_equal(memory_text(text, 512), "512 bytes");
    assert_string_equal(memory_text(text, 3.25 * 1048576), "3.25 MiB");
    assert_string_equal(memory_text(text, 1024.0 * 1048576), "1.00 GiB");
    assert_string_equal(file_text(text, 512), "512 bytes");
    assert_string_equal(file_text(text, 105.4e6), "105 MB");
    assert_string_equal(file_text(text, 7.5e9), "7.50 GB");
    assert_string_equal(count_text(text, 8.03e9), "8.03 B");
    assert_string_equal(count_text(text, 12340), "12.3 k");
    assert_string_equal(time_text(text, 0.84), "0.8 s");
    assert_string_equal(time_text(text, 125), "2:05");
    assert_string_equal(time_text(text, 3725), "1:02:05");
}

int main(void) { return tests_run(NULL, NULL); }
