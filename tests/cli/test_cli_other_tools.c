/* Lines of llama-quantize, llama-imatrix and llama-perplexity, word by word as their users type them: each
 * does what it means there, or says why it cannot. */
#include <jansson.h>

#include "tests/support/command.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"

FIXTURE(make_inputs) {
    char text[1300];
    folder = temporary_folder();
    model *m = evaluation_model(1);
    model_save(m, path("m.gguf"));
    quantize(path("m.gguf"), path("q4.gguf"), "Q4_K_S", 1);
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i * 3 % 8);
    write_whole(path("t.txt"), text, sizeof text);
    static const char *const links[] = {"gquant-imatrix", "gquant-perplexity", "gquant-quantize"};
    for (size_t i = 0; i < 3; i++) assert_int_equal(symlink(command_path(), path(links[i])), 0);
    return 0;
}

/* Runs a line in the folder; `gquant` and its links are found there or by path. Returns both outputs in one.
 */
static char *run_line(const char *line, int status) {
    char *script = NULL, *out, *err;
    const char *name = strncmp(line, "gquant ", 7) == 0 ? command_path() : ".";
    if (*name == '.')
        assert_true(asprintf(&script, "cd '%s' && ./%s", folder, line) > 0);
    else
        assert_true(asprintf(&script, "cd '%s' && '%s' %s", folder, name, line + 7) > 0);
    int found = run_command((const char *const[]){"sh", "-c", script, NULL}, &out, &err);
    if (found != status) fail_msg("%s: exit status %d, expected %d: %s", line, found, status, err);
    char *both = NULL;
    assert_true(asprintf(&both, "%s%s", out, err) >= 0);
    free(script), free(out), free(err);
    return both;
}

typedef struct tool_case {
    const char *line;
    int status;
    const char *says;
} tool_case;

static void run_cases(const tool_case *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char *out = run_line(cases[i].line, cases[i].status);
        if (!strstr(out, cases[i].says)) fail_msg("%s: no '%s' in: %s", cases[i].line, cases[i].says, out);
        free(out);
    }
}

TEST(lines_of_imatrix) {
    static const tool_case cases[] = {
        {"gquant imatrix -m m.gguf -f t.txt", 0, "imatrix.gguf: "},
        {"gquant imatrix -m m.gguf -f t.txt", 0, "imatrix.gguf: "}, /* replaced, as there */
        {"gquant imatrix --model m.gguf --file t.txt --output a.gguf", 0, "2 windows of 512"},
        {"gquant imatrix -m m.gguf -f t.txt -o a.gguf -c 64", 0, "20 windows of 64"},
        {"gquant imatrix -m m.gguf -f t.txt -o a.gguf -n", 0, "memory: at most "},
        {"gquant imatrix -m m.gguf -f t.txt -o a.gguf -c 64 --chunks 3", 0, "3 windows of 64"},
        {"gquant imatrix -m m.gguf -f t.txt -o a.gguf --chunks -1", 0, "2 windows of 512"},
        {"gquant imatrix -m m.gguf -f t.txt -o a.gguf -ngl 99 -b 512 -ub 512 -fa", 0,
         "ignored: -ngl, -b, -ub, -fa"},
        {"gquant imatrix -m m.gguf -f t.txt -o a.gguf -fa on --no-mmap -t 1", 0, "ignored: -fa, --no-mmap"},
        {"gquant imatrix -m m.gguf -f t.txt -o a.gguf --output-frequency 10 --save-frequency 20", 0,
         "ignored: --output-frequency, --save-frequency"},
        {"gquant imatrix -m m.gguf -f t.txt -o a.gguf --process-output --no-ppl", 0, "8 entries"},
        {"gquant imatrix -m m.gguf -f t.txt -o a.gguf --parse-special", 0, "7 entries"},
        {"gquant imatrix -m m.gguf -f t.txt -o a.dat --output-format dat -c 64", 0, "a.dat: 7 entries"},
        {"gquant imatrix -m m.gguf -f t.txt -o a.gguf --output-format dat", 2, "the name decides"},
        {"gquant imatrix -m m.gguf -f t.txt -o b.gguf -c 64 --in-file a.dat", 0, "20 windows of 64"},
        {"gquant imatrix show b.gguf", 0, "b.gguf: GGUF layout, 7 entries, 40 chunks of 64"},
        {"gquant imatrix --in-file a.dat --in-file b.gguf -o c.gguf", 0, ""},
        {"gquant imatrix --in-file a.dat --in-file b.gguf -o c.gguf --dry-run", 2, "nothing is computed"},
        {"gquant imatrix show c.gguf", 0, "60 chunks"},
        {"gquant imatrix --in-file c.gguf --show-statistics", 0, "c.gguf: GGUF layout"},
        {"gquant imatrix -m m.gguf --in-file c.gguf --show-statistics", 0, "weights have data"},
        {"gquant imatrix -m m.gguf -o a.gguf", 2, "-f TEXT is missing"},
        {"gquant imatrix -f t.txt -o a.gguf", 2, "-m MODEL is missing"},
        {"gquant imatrix -m m.gguf -f t.txt --chunk 4", 2, "windows at the beginning cannot be skipped"},
        {"gquant imatrix -m m.gguf -f t.txt --chunks x", 2, "expected a number of windows"},
        {"gquant imatrix -m m.gguf -f", 2, "-f needs an argument"},
        {"gquant imatrix -m m.gguf -f t.txt --blub", 2, "unknown option --blub;"},
        {"gquant imatrix -m m.gguf --help", 0, "as llama-imatrix"},
        {"gquant-imatrix -m m.gguf -f t.txt -o a.gguf -c 64", 0, "20 windows of 64"},
        {"gquant-imatrix", 2, "-m MODEL is missing"},
        {"gquant-imatrix --help", 0, "as llama-imatrix"},
    };
    run_cases(cases, sizeof cases / sizeof *cases);
    assert_false(exists(path("b.gguf.gquant-text.gguf")));
}

TEST(lines_of_perplexity) {
    static const tool_case cases[] = {
        {"gquant perplexity -m m.gguf -f t.txt", 0, "in windows of 512"},
        {"gquant perplexity --model m.gguf --file t.txt -c 64", 0, "1280 tokens in windows of 64"},
        {"gquant perplexity -m m.gguf -f t.txt -c 64 --chunks 4", 0, "256 tokens in windows of 64"},
        {"gquant perplexity -m m.gguf -f t.txt --ctx-size 64 --ppl-stride 0 -t 1", 0, "windows of 64"},
        {"gquant perplexity -m m.gguf -f t.txt -c 64 -ngl 99 -fa auto -ctk q8_0", 0,
         "ignored: -ngl, -fa, -ctk"},
        {"gquant perplexity -hf me/model -f t.txt", 2, "gquant downloads nothing; hf download"},
        {"gquant perplexity -m m.gguf -f t.txt -c 64 --kl-divergence-base base", 0, "perplexity"},
        {"gquant perplexity -m m.gguf -f t.txt -c 64 --save-all-logits base", 0, "perplexity"},
        {"gquant perplexity -m q4.gguf --kl-divergence-base base --kl-divergence", 0, "divergence"},
        {"gquant perplexity -m q4.gguf --kl-divergence-base base --kl-divergence | grep '^base '", 0,
         "   -      -  "}, /* a base file has no size of a model */
        {"gquant perplexity -m q4.gguf --kl-divergence --kl-divergence-base base -f t.txt -c 64", 0,
         "the same top-1 token in"},
        {"gquant perplexity -m m.gguf --kl-divergence-base base --kl-divergence", 0, "100.00 %"},
        {"gquant perplexity -m q4.gguf --kl-divergence", 2, "--kl-divergence-base FILE is missing"},
        {"gquant perplexity -m q4.gguf --kl-divergence-base t.txt --kl-divergence", 1, "_logits_"},
        {"gquant perplexity -m m.gguf -f t.txt --ppl-stride 256", 0,
         "1920 tokens in windows of 640, one every 256, 768"},
        {"gquant perplexity -m m.gguf -f t.txt -c 64 --ppl-stride 32 --chunks 3", 0,
         "240 tokens in windows of 80, one every 32, 96 of them scored"},
        {"gquant perplexity -m m.gguf -f t.txt -c 64 --ppl-stride 128", 2, "expected a stride from 1 to 127"},
        {"gquant perplexity -m m.gguf -f t.txt --ppl-stride x", 2, "expected a whole number from 1 on"},
        {"gquant perplexity -m m.gguf -f t.txt --ppl-stride 8 --kl-divergence-base base", 2,
         "windows of a base file do not overlap"},
        {"gquant perplexity -m m.gguf", 2, "-f TEXT is missing"},
        {"gquant perplexity -f t.txt", 2, "-m MODEL is missing"},
        {"gquant perplexity -m absent.gguf -f t.txt", 1, "absent.gguf"},
        {"gquant perplexity -m m.gguf -f t.txt --hellaswag", 2,
         "jq -c '{question: .ctx, choices: .endings, answer: .label}' hellaswag_val.jsonl > questions.jsonl "
         "&& "
         "gquant text --held-out held-out.txt && gquant evaluate m.gguf --text held-out.txt --choices "
         "questions.jsonl"},
        {"gquant perplexity -m m.gguf -bf t.txt --multiple-choice --multiple-choice-tasks 9", 2,
         "--choices questions.jsonl"},
        {"gquant perplexity -m m.gguf -f t.txt -n", 0, "at most "},
        {"gquant perplexity t.txt", 2, "unknown option t.txt;"},
        {"gquant perplexity --help", 0, "as llama-perplexity"},
        {"gquant perplexity --version", 0, "gquant "},
        {"gquant-perplexity -m m.gguf -f t.txt -c 64", 0, "1280 tokens in windows of 64"},
        {"gquant help perplexity", 0, "as llama-perplexity"},
    };
    run_cases(cases, sizeof cases / sizeof *cases);
}

/* What the options do to a file is tested in test_cli_parity.c. */
TEST(lines_of_quantize) {
    static const tool_case cases[] = {
        {"gquant imatrix -m m.gguf -f t.txt -o i.gguf -c 64", 0, "i.gguf: "},
        {"gquant-quantize m.gguf o1.gguf Q4_K_M", 0, "o1.gguf: Q4_K_M"},
        {"gquant-quantize m.gguf o2.gguf q4_k_m", 0, "o2.gguf: Q4_K_M"},
        {"gquant-quantize m.gguf o3.gguf 15", 0, "o3.gguf: Q4_K_M"},
        {"gquant-quantize m.gguf o4.gguf Q4_K_M 2", 0, "o4.gguf: Q4_K_M"},
        {"gquant-quantize m.gguf Q5_K_S", 0, "m-Q5_K_S.gguf: Q5_K_S"},
        {"gquant-quantize --allow-requantize q4.gguf o6.gguf Q4_0", 0, "o6.gguf: Q4_0"},
        {"gquant-quantize q4.gguf o7.gguf Q4_0", 1, "--allow-requantize"},
        {"gquant-quantize --leave-output-tensor m.gguf o8.gguf Q4_K_M", 0, "o8.gguf: Q4_K_M"},
        {"gquant-quantize --pure m.gguf o9.gguf Q4_K_M", 0, "o9.gguf: Q4_K_M"},
        {"gquant-quantize --imatrix i.gguf m.gguf o10.gguf IQ4_XS", 0, "weighted"},
        {"gquant-quantize --imatrix i.gguf --include-weights ffn_down m.gguf o11.gguf Q4_K_M", 0,
         "o11.gguf: "},
        {"gquant-quantize --imatrix i.gguf --exclude-weights ffn_down m.gguf o12.gguf Q4_K_M 2", 0,
         "o12.gguf: "},
        {"gquant-quantize --output-tensor-type q8_0 m.gguf o13.gguf Q4_K_M", 0, "o13.gguf: Q4_K_M"},
        {"gquant-quantize --token-embedding-type q8_0 m.gguf o14.gguf Q4_K_M", 0, "o14.gguf: Q4_K_M"},
        {"gquant-quantize --tensor-type attn_v=q8_0 --tensor-type ffn_down=q6_k m.gguf o15.gguf Q4_K_M", 0,
         "o15.gguf: Q4_K_M"},
        {"gquant-quantize --tensor-type-file types.txt m.gguf o16.gguf Q4_K_M", 0, "o16.gguf: Q4_K_M"},
        {"gquant-quantize --prune-layers 1 m.gguf o17.gguf Q4_K_M", 0, "o17.gguf: Q4_K_M"},
        {"gquant-quantize --keep-split m.gguf o18.gguf Q4_K_M", 0, "o18.gguf: Q4_K_M"},
        {"gquant-quantize --override-kv general.name=str:x m.gguf o19.gguf Q4_K_M", 0, "o19.gguf: Q4_K_M"},
        {"gquant-quantize m.gguf o20.gguf COPY", 0, "no weight has changed"},
        {"gquant-quantize --dry-run m.gguf o21.gguf Q4_K_M", 0, "o21.gguf: Q4_K_M"},
        {"gquant --dry-run m.gguf o21.gguf=Q4_0 o22.gguf=Q8_0 | grep '^o21'", 0, " kB  "},
        {"gquant-quantize m.gguf o22.gguf IQ2_XS", 1, "needs an imatrix"},
        {"gquant-quantize m.gguf o1.gguf Q4_K_M", 0, "already exists and is complete"},
        {"gquant-quantize m.gguf o1.gguf Q4_K_S", 1, "--force replaces it"},
        {"gquant-quantize m.gguf o23.gguf Q4_K_X", 2, "did you mean Q4_K_"},
        {"gquant m.gguf --outfile o24.gguf --outtype Q4_K_M", 0, "o24.gguf: Q4_K_M"},
        {"gquant-quantize", 2, "usage: gquant"},
    };
    write_whole(path("types.txt"), "attn_k=q6_k ffn_up=q8_0", 23);
    run_cases(cases, sizeof cases / sizeof *cases);
    assert_same_file(path("o1.gguf"), path("o2.gguf"));
    assert_same_file(path("o1.gguf"), path("o3.gguf"));
    assert_same_file(path("o1.gguf"), path("o4.gguf"));
    assert_false(exists(path("o21.gguf")));
}

/* Tokens, and what would be run, as JSON on standard output: one object, and nothing is written. What people
 * are told on standard error stands behind it here. */
TEST(what_would_be_run_is_json) {
    static const tool_case cases[] = {
        {"gquant tokenize m.gguf t.txt --json", 0, "\"ids\": [8, 0, 3, "},
        {"gquant m.gguf dry.gguf Q4_K_M -n --json", 0, "\"kind\": \"plan\""},
        {"gquant evaluate m.gguf --text t.txt -n --json", 0, "\"windows\": 2"},
        {"gquant evaluate m.gguf --text t.txt -n --json --stride 200", 0, "\"stride\": 200"},
        {"gquant imatrix compute m.gguf t.txt dry.gguf -n --json", 0, "\"windows\": 2"},
    };
    run_cases(cases, sizeof cases / sizeof *cases);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *out = run_line(cases[i].line, 0);
        json_error_t why;
        json_t *read = json_loads(out, JSON_DISABLE_EOF_CHECK, &why);
        if (!json_is_object(read)) fail_msg("%s: %s: %s", cases[i].line, why.text, out);
        json_decref(read);
        free(out);
    }
    assert_false(exists(path("dry.gguf")));
}

/* The same bytes as by gquant's own words. */
TEST(both_ways_are_one) {
    free(run_line("gquant imatrix -m m.gguf -f t.txt -o there.gguf -c 64", 0));
    free(run_line("gquant imatrix compute m.gguf t.txt here.gguf --context 64", 0));
    assert_same_file(path("there.gguf"), path("here.gguf"));
    free(run_line("gquant perplexity -m m.gguf -f t.txt -c 64 --kl-divergence-base there", 0));
    free(run_line("gquant evaluate m.gguf --text t.txt --context 64 --base-out here", 0));
    assert_same_file(path("there"), path("here"));
}

static bool is_there(const char *name) { return access(path(name), F_OK) == 0; }

/* The text's own data, which the second line adds to, is nobody's file, and no failure leaves it. */
TEST(data_to_add_is_looked_at_before_the_model_runs) {
    static const char mine[] = "x.gguf.gquant-text.gguf";
    write_whole(path("bad.dat"), "nothing", 7);
    free(run_line("gquant imatrix -m m.gguf -f t.txt -o y.dat -c 64", 0));
    static const tool_case cases[] = {
        {"gquant imatrix -m m.gguf -f t.txt -o x.gguf -c 64 --in-file bad.dat", 1, "bad.dat"},
        {"gquant imatrix -m m.gguf -f t.txt -o x.gguf -c 64 --in-file absent.dat", 1, "absent.dat"},
        {"gquant imatrix -m m.gguf -f absent.txt -o x.gguf -c 64 --in-file y.dat", 1, "absent.txt"},
        {"gquant imatrix -m m.gguf -f t.txt -o y.dat -c 64 --in-file y.dat", 1, "y.dat"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *out = run_line(cases[i].line, cases[i].status);
        if (!strstr(out, cases[i].says) || (i != 2 && strstr(out, "windows of")))
            fail_msg("%s: no '%s' in: %s", cases[i].line, cases[i].says, out);
        free(out);
        assert_false(is_there(mine));
        assert_false(is_there("x.gguf"));
    }
    write_whole(path(mine), "mine", 4);
    char *out = run_line("gquant imatrix -m m.gguf -f t.txt -o x.gguf -c 64 --in-file y.dat", 1);
    assert_non_null(strstr(out, "rename it"));
    free(out);
    size_t n;
    free(read_whole(path(mine), &n));
    assert_int_equal(n, 4);
    assert_int_equal(unlink(path(mine)), 0);
    free(run_line("gquant imatrix -m m.gguf -f t.txt -o x.gguf -c 64 --in-file y.dat", 0));
    assert_true(is_there("x.gguf") && !is_there(mine));
}

int main(void) { return tests_run(make_inputs, folder_remove); }
