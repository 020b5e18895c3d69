/* Every odd, damaged or hostile file of the shared corpus through the command, as its make.py says: to Q8_0,
 * within ten seconds and 512 MB of address space; and through the other commands, in 64 MiB. */
#include <sys/stat.h>

#include "gguf/gguf.h"
#include "gguf/model.h"
#include "tests/support/command.h"

static char *corpus, *outputs;

FIXTURE(set_up) {
    corpus = temporary_folder(), outputs = temporary_folder();
    return 0;
}

FIXTURE(tear_down) {
    remove_folder(corpus), remove_folder(outputs);
    return 0;
}

/* The keys a quantizer is supposed to rewrite. */
static bool rewritten(const char *key) {
    return !strcmp(key, "general.file_type") || !strcmp(key, "general.quantization_version") ||
           !strncmp(key, "split.", 6) || !strncmp(key, "quantize.imatrix.", 17) ||
           !strcmp(key, "gquant.digests") || !strcmp(key, "general.type");
}

static const char *kept_faithfully(const char *in_path, const char *out_path, gq_error *e) {
    model_source in, out;
    if (!gguf_model_open(&in, in_path, e)) return "the reader refuses the input";
    if (!gguf_model_open(&out, out_path, e)) {
        model_close(&in);
        return "the output is not a valid GGUF";
    }
    const char *wrong = in.n_tensors == out.n_tensors ? NULL : "another number of tensors";
    for (uint64_t i = 0; !wrong && i < in.n_tensors; i++) {
        const model_tensor *t = model_tensor_named(&out, in.tensors[i]->name);
        if (!t || memcmp(t->ne, in.tensors[i]->ne, sizeof t->ne) != 0)
            wrong = "a tensor is missing or reshaped";
    }
    const gguf_shard *a = &gguf_container_of(&in)->shards[0], *b = &gguf_container_of(&out)->shards[0];
    for (uint64_t i = 0; !wrong && i < a->n_kv; i++) {
        if (rewritten(a->kv[i].key)) continue;
        const model_kv *kv = model_kv_find(b->kv, b->n_kv, a->kv[i].key);
        int64_t number, other; /* in the type that readers take */
        bool is_number = model_kv_int(kv, &number) && model_kv_int(&a->kv[i], &other) && number == other;
        if (!is_number && (!kv || kv->type != a->kv[i].type || kv->size != a->kv[i].size ||
                           memcmp(kv->value, a->kv[i].value, kv->size) != 0))
            wrong = "a metadata value is missing or changed";
    }
    for (uint64_t i = 0; !wrong && i < b->n_kv; i++)
        if (!rewritten(b->kv[i].key) && !model_kv_find(a->kv, a->n_kv, b->kv[i].key))
            wrong = "a metadata key is new";
    model_close(&in), model_close(&out);
    return wrong;
}

/* Does the message name one of the case's files? Of a split model any shard may be the bad one. */
static bool names_file(const char *err, const json *c) {
    const char *members[] = {"model", "imatrix", "file"};
    for (size_t i = 0; i < 3; i++) {
        const char *path = json_text(c, members[i], NULL), *slash = path ? strrchr(path, '/') : NULL;
        if (!path) continue;
        char name[4096];
        snprintf(name, sizeof name, "%s", slash ? slash + 1 : path);
        char *shard = strstr(name, "-0000");
        if (shard) shard[5] = 0;
        if (strstr(err, name)) return true;
    }
    return false;
}

/* NULL: as it should be. */
static const char *judge(const json *c, int status, const char *err, const char *source, const char *out,
                         gq_error *e) {
    const char *expect = json_need(c, "expect")->text;
    const json *mention = json_get(c, "must_mention");
    if (status != 0 && status != 1 && status != 2) return "died, or took too long";
    if (status == 0) return strcmp(expect, "reject") ? kept_faithfully(source, out, e) : "accepted";
    if (strcmp(expect, "accept") == 0) return "rejected";
    if (exists(out)) return "rejected, yet there is an output";
    if (count_files(outputs)) return "rejected, yet something is left behind";
    if (strcmp(expect, "reject") == 0 && !names_file(err, c)) return "the message does not name the file";
    for (size_t i = 0; mention && i < mention->n; i++)
        if (!strstr(err, mention->items[i].text)) return "the message does not mention what it must";
    return NULL;
}

static bool try_case(const json *c) {
    char source[4096], matrix[4096];
    const char *imatrix = json_text(c, "imatrix", NULL), *out = in_folder(outputs, "out.gguf");
    snprintf(source, sizeof source, "%s/%s", corpus, json_need(c, "model")->text);
    snprintf(matrix, sizeof matrix, "%s/%s", corpus, imatrix ? imatrix : "");
    /* Ten seconds of processor time, so that a busy machine is not taken for a slow command; a hang ends too.
     */
    const char *limited[] = {"timeout",
                             "-s",
                             "KILL",
                             "120",
                             "prlimit",
                             "--as=536870912",
                             "--cpu=10",
                             command_path(),
                             source,
                             out,
                             "Q8_0",
                             "2",
                             "--override-kv",
                             "general.type=str:part", /* no file has a whole model */
                             "--imatrix",
                             matrix,
                             NULL};
    if (!imatrix) limited[14] = NULL;
    if (SANITIZED) limited[5] = "--core=0", limited[6] = "--cpu=60";
    char *err;
    int status = run_command(limited, NULL, &err);
    gq_error e = {0};
    const char *wrong = judge(c, status, err, source, out, &e);
    if (wrong)
        print_message("%s (%s): %s; exit status %d: %s %s\n", json_text(c, "id", ""),
                      json_text(c, "what", ""), wrong, status, err, e.text);
    unlink(out);
    free(err);
    return !wrong;
}

/* Whatever they make of it, no other command dies or needs much, either. With sanitizers, where a process
 * takes ten times as long, each file goes through one of them, the next file through another. */
static void try_others(const json *c, size_t number) {
    const char *in = json_need(c, "model")->text, *matrix = json_text(c, "imatrix", in);
    const char *const runs[][8] = {{"info", "--json", in},
                                   {"plan", in},
                                   {"verify", in},
                                   {"compare", in, in},
                                   {"imatrix", "show", matrix, in},
                                   {"-n", "--imatrix", matrix, in, "Q4_K_M"},
                                   {"-n", "--tensor-type-file", in, in, "Q8_0"},
                                   {"verify", "--report", in, in}};
    struct stat st;
    if (stat(in_folder(corpus, in), &st) == 0 && st.st_size > 1 << 20) return;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        if (!SANITIZED || (i + number) % 8 == 0) bounded(corpus, runs[i]);
}

TEST(test_corpus) {
    const char *script = shared_path("malformed/make.py");
    int status = run_command((const char *const[]){"python3", script, corpus, NULL}, NULL, NULL);
    if (status == 127) print_message("skipped: no python3\n"), skip();
    assert_int_equal(status, 0);
    json *manifest = json_file(in_folder(corpus, "manifest.json"));
    const json *cases = json_need(manifest, "cases");
    size_t bad = 0;
    for (size_t i = 0; i < cases->n; i++) {
        bad += !try_case(&cases->items[i]);
        try_others(&cases->items[i], i);
    }
    assert_true(cases->n > 300);
    json_free(manifest);
    if (bad) fail_msg("%zu cases went wrong", bad);
}

int main(void) { return tests_run(set_up, tear_down); }
