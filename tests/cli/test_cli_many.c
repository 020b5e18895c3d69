/* No look-up takes longer for every record that there is: headers made of as many keys, lists or tensors as a
 * mebibyte holds, and a model of a hundred thousand tensors, are done within the seconds and the memory that
 * bounded() allows, where searching all records for each would take minutes. */
#include "tests/support/command.h"
#include "tests/support/folder.h"

enum { MANY = 100000, OUTPUTS = 20 };

static void finish(model *m, const char *name) { model_save(m, in_folder(folder, name)); }

static void add_keys(model *m, unsigned n) {
    char key[16];
    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof key, "%05x", i);
        model_set(m, key, GGUF_U8, "", 1);
    }
}

/* n tensors of seven roles, a few of them experts'. */
static void add_tensors(model *m, unsigned n) {
    static const char *const roles[] = {"attn_q",   "attn_v",   "attn_output",  "ffn_up",
                                        "ffn_down", "ffn_gate", "ffn_down_exps"};
    static const float values[64] = {0.5f, -0.25f, 0.125f};
    char name[64];
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof name, "blk.%u.%s.weight", i / 7, roles[i % 7]);
        model_add(m, name, GGUF_F16, (const uint64_t[4]){32, 2}, values);
    }
}

/* Facts of the model come last, so that each look for one goes through all keys. */
static void make_layers(void) {
    model *m = model_new("none", 1);
    add_keys(m, 50000);
    model_set_string(m, "general.architecture", "a");
    model_set_u32(m, "a.attention.head_count", 1), model_set_u32(m, "a.embedding_length", 64);
    model_set_u32(m, "a.attention.sliding_window", 99), model_set_u32(m, "a.block_count", 65536);
    finish(m, "layers.gguf");
}

static void make_arrays(void) {
    char key[16];
    model *m = model_new("a", 2);
    for (unsigned i = 0; i < 28000; i++) {
        snprintf(key, sizeof key, "a.%05x", i);
        model_set_array(m, key, GGUF_U8, "\1\2", 2);
    }
    add_tensors(m, 14);
    finish(m, "arrays.gguf");
}

static void make_header(void) {
    model *m = model_new("a", 1);
    add_keys(m, 50000);
    add_tensors(m, 14);
    finish(m, "header.gguf");
}

static void make_experts(void) {
    model *m = model_new("a", 1);
    model_set_u32(m, "a.expert_count", 8);
    add_keys(m, 20000);
    add_tensors(m, 2800);
    finish(m, "experts.gguf");
}

static void make_many(void) {
    model *m = model_new("llama", MANY / 7 + 1);
    add_tensors(m, MANY);
    finish(m, "many.gguf");
}

#define BOUNDED(times, ...) bounded_times(times, folder, (const char *const[]){__VA_ARGS__, NULL})

/* words, and twenty outputs. */
static void twenty(const char *const *words) {
    static char types[OUTPUTS][24];
    const char *all[48];
    size_t n = 0;
    while (words[n]) all[n] = words[n], n++;
    for (int i = 0; i < OUTPUTS; i++) {
        snprintf(types[i], sizeof types[i], "o%d=Q8_0", i);
        all[n++] = types[i];
    }
    all[n] = NULL;
    bounded_times(OUTPUTS, folder, all);
}
#define TWENTY(...) twenty((const char *const[]){__VA_ARGS__, NULL})

TEST(test_headers) {
    BOUNDED(1, "plan", "layers.gguf");
    BOUNDED(1, "plan", "experts.gguf");
    BOUNDED(1, "--dry-run", "--prune-layers", "1", "arrays.gguf", "Q8_0");
    TWENTY("--dry-run", "--out-dir", ".", "--prune-layers", "1", "arrays.gguf");
    TWENTY("--force", "--out-dir", ".", "header.gguf");
    BOUNDED(1, "--dry-run", "--target-bpw", "10", "experts.gguf");
}

TEST(test_many_tensors) {
    enum { TIMES = 4 };
    const char *in = "many.gguf", *out = "many-out.gguf", *report = "many.json";
    BOUNDED(TIMES, "info", in);
    BOUNDED(TIMES, "--dry-run", "--prune-layers", "3,7", in, "Q8_0");
    BOUNDED(TIMES, "--report", report, in, out, "Q8_0");
    BOUNDED(TIMES, "compare", in, out);
    BOUNDED(2 * TIMES, "verify", "-r", report, out);      /* a report of 40 MB, in memory as a tree */
    BOUNDED(TIMES, "--dry-run", "--target-bpw", "9", in); /* measures, and keeps that */
    BOUNDED(TIMES, "--dry-run", "--target-bpw", "6", in); /* reads it */
    BOUNDED(TIMES, "--dry-run", "--out-dir", ".", in, "a=Q8_0", "b=Q4_0", "c=Q5_1");
    BOUNDED(TIMES, "--dry-run", "--split-max-size", "100K", in, "Q8_0");
}

FIXTURE(set_up) {
    folder = temporary_folder();
    make_layers(), make_arrays(), make_header(), make_experts(), make_many();
    return 0;
}

int main(void) { return tests_run(set_up, folder_remove); }
