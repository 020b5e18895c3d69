/* A model from which layers were pruned can be run, and each layer that is left is what it was. */
#include "tests/support/command.h"
#include "tests/support/folder.h"
#include "tests/support/forward_models.h"
#include "tests/support/forwarding.h"

/* Logits of the model, 20 tokens of one window; malloc'ed. */
static float *logits_of(const char *file, size_t *n) {
    uint32_t ids[VARIANT_CONTEXT];
    gq_error e;
    size_t vocabulary;
    for (size_t i = 0; i < VARIANT_CONTEXT; i++) ids[i] = variant_id(i);
    model_source g = open_model(file);
    float *z = forward_whole(
        &g, &(forwarding){.ids = ids, .n = VARIANT_CONTEXT, .context = VARIANT_CONTEXT, .threads = 1},
        &vocabulary, &e);
    if (!z) fail_msg("%s", e.text);
    *n = VARIANT_CONTEXT * vocabulary;
    model_close(&g);
    return z;
}

/* A variant with these layers, without one of them by the command, equals the variant made without it: layers
 * are alike where their tensors have the same values, so all tensors of a name get those of layer 0. */
typedef struct pruned_case {
    const char *name, *mixers, *without; /* without: layer, as the option has it */
    uint32_t dense;
    const char *keys, *keys_left; /* of the whole model, of the pruned one; over the variant's */
    const char *mixers_left;
} pruned_case;

static const pruned_case cases[] = {
    {"qwen35", "dada", "2", 0, "", "attention.recurrent_layers=[1,0,0]", "daa"},
    {"lfm2moe", "caac", "0", 2, "attention.head_count_kv=[0,2,2,0]", "attention.head_count_kv=[2,2,0]",
     "aac"},
    {"nemotron_h", "2n2a", "1", 0, "attention.head_count_kv=[0,0,0,2];feed_forward_length=[0,40,0,0]",
     "attention.head_count_kv=[0,0,2];feed_forward_length=[0,0,0]", "22a"},
    {"nanbeige", "aaa", "2", 0, "", "", "aa"},
    {"glm-dsa", "aaa", "1", 0, "", "attention.indexer.types=[1,1]", "aa"},
    {"graniteswitch", "aaaa", "1", 0, "", "", "aaa"}, /* as many adapters as layers */
};

/* Writes the variant with the values of every tensor of a layer set by its name alone. */
static void write_alike(const pruned_case *c, bool is_pruned, const char *to) {
    variant v = *variant_named(c->name);
    v.mixers = is_pruned ? c->mixers_left : c->mixers;
    v.layers = (uint32_t)strlen(v.mixers);
    v.dense = c->dense ? c->dense - is_pruned : 0;
    model *m = variant_model(&v, GGUF_F32, NULL);
    variant_set(m, variant_arch(&v), is_pruned ? c->keys_left : c->keys);
    model_save(m, to);
    model_source g = open_model(to);
    m = model_new(NULL, 0);
    for (uint64_t k = 0; k < g.n_kv; k++)
        model_set(m, g.kv[k].key, g.kv[k].type, g.kv[k].value, g.kv[k].size);
    for (uint64_t k = 0; k < g.n_tensors; k++) {
        const model_tensor *t = g.tensors[k];
        const char *rest = strncmp(t->name, "blk.", 4) ? t->name : strchr(t->name + 4, '.');
        uint64_t n, random = 1;
        for (const char *at = rest; *at; at++) random = random * 31 + (uint8_t)*at;
        float *x = tensor_values(&g, t->name, &n);
        bool is_small = t->n_dims < 2 || strstr(rest, "ssm_a");
        for (uint64_t i = 0; i < n; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            x[i] =
                ((float)(random >> 40) * 0x1p-24f - (is_small ? 0 : 0.5f)) * (strstr(rest, "ssm_a") ? -1 : 1);
        }
        model_add(m, t->name, GGUF_F32, t->ne, x);
        free(x);
    }
    model_close(&g);
    model_save(m, to);
}

TEST(pruned_models_run_as_if_made_so) {
    const char *whole = strdup(in_folder(folder, "whole.gguf")), *out = strdup(in_folder(folder, "out.gguf"));
    const char *left = strdup(in_folder(folder, "left.gguf"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n, n_left;
        write_alike(&cases[i], false, whole), write_alike(&cases[i], true, left);
        GQUANT(0, "-q", "--force", "--prune-layers", cases[i].without, whole, out, "COPY");
        float *z = logits_of(out, &n), *expected = logits_of(left, &n_left);
        assert_int_equal(n, n_left);
        if (memcmp(z, expected, n * sizeof *z) != 0) fail_msg("%s differs", cases[i].name);
        free(z), free(expected);
    }
    free((void *)whole), free((void *)out), free((void *)left);
}

TEST(stacks_stay_whole) {
    const char *whole = in_folder(folder, "whole.gguf");
    model_save(variant_model(variant_named("hrm_text"), GGUF_F32, NULL), whole);
    GQUANT_SAYS(2, "cannot be pruned", "--prune-layers", "1", whole, "out.gguf", "COPY");
}

/* Metadata that are set must be true of the layers that are written. */
TEST(what_is_set_is_true_of_layers_that_stay) {
    const char *whole = in_folder(folder, "whole.gguf");
    model_save(variant_model(variant_named("qwen35moe"), GGUF_F32, NULL), whole);
    GQUANT_SAYS(2, "is set to 1, but the output has no MTP layers", "--no-mtp", "--override-kv",
                "qwen35moe.nextn_predict_layers=int:1", whole, "out.gguf", "COPY");
    GQUANT_SAYS(2, "block_count is set to 3, but 2 layers are written", "--no-mtp", "--override-kv",
                "qwen35moe.block_count=int:3", whole, "out.gguf", "COPY");
}

int main(void) { return tests_run(folder_make, folder_remove); }
