/* Metadata that speak of layers, after pruning: lists, numbers of first and last layers, periods; and what is
 * said where nothing can be written. tests/peer/pruned_table runs such models in llama.cpp.
 */
#include "gguf/model.h"
#include "tests/support/folder.h"
#include "tests/support/plans.h"

typedef struct pruning {
    const char *arch;
    uint32_t n_layers;
    const char
        *keys; /* "KEY=NUMBER" or "KEY=[N,N,...]" of bools, separated by spaces; '.' first: behind ARCH */
    const char *prune;
    const char *wanted;  /* likewise: what the output has; "KEY=-": no such key */
    const char *warning; /* a part of it; NULL: none */
} pruning;

static const pruning prunings[] = {
    /* lists */
    {"step35", 6, ".attention.sliding_window_pattern=[1,0,1,1,0,0] .five=[1,0,1,1,0]", "0,4",
     ".attention.sliding_window_pattern=[0,1,1,0] .five=[1,0,1,1,0] .block_count=4", NULL},
    /* of the layers before the prediction blocks alone */
    {"exaone-moe", 6, ".nextn_predict_layers=1 .attention.sliding_window_pattern=[1,0,1,1,0] .four=[1,0,1,1]",
     "0,4",
     ".attention.sliding_window_pattern=[0,1,1] .four=[1,0,1,1] .block_count=4 .nextn_predict_layers=1",
     NULL},
    {"dots3note", 5, ".nextn_predict_layers=2 .attention.indexer.types=[1,1,0]", "0,4",
     ".attention.indexer.types=[1,0] .block_count=3 .nextn_predict_layers=1", NULL},
    {"qwen3vl", 4, ".rope.dimension_sections=[1,1,1,0]", "1", ".rope.dimension_sections=[1,1,1,0]", NULL},
    {"bert", 4, ".classifier.output_labels=[1,1,1,0]", "1", ".classifier.output_labels=[1,1,1,0]", NULL},
    {"apertus", 4, "xielu.alpha_n=[1,0,0,1] xielu.eps=[1,1,0,0] other.four=[1,0,1,1]", "0,3",
     "xielu.alpha_n=[0,0] xielu.eps=[1,0] other.four=[1,0,1,1]", NULL},
    /* numbers of the first and the last layers */
    {"dots1", 6, ".leading_dense_block_count=2 .nextn_predict_layers=1", "1,2",
     ".leading_dense_block_count=1 .nextn_predict_layers=1", NULL},
    {"dots1", 6, ".leading_dense_block_count=1 .nextn_predict_layers=2", "0,4",
     ".leading_dense_block_count=0 .nextn_predict_layers=1", NULL},
    {"gemma4", 6, ".attention.shared_kv_layers=3", "0,5", ".attention.shared_kv_layers=2", NULL},
    {"t5", 6, ".decoder_block_count=4", "1,5", ".decoder_block_count=3 .block_count=4", NULL},
    {"llama", 6, ".leading_dense_blocks=3", "1", ".leading_dense_blocks=3", NULL},
    /* periods that become lists, where numbers no longer fit */
    {"qwen35", 8, "", "1", ".attention.recurrent_layers=[1,1,0,1,1,1,0]", NULL},
    {"qwen3next", 6, ".full_attention_interval=2", "3", ".attention.recurrent_layers=[1,0,1,1,0]", NULL},
    {"qwen35moe", 5, ".nextn_predict_layers=1", "0",
     ".attention.recurrent_layers=[1,1,0,0] .nextn_predict_layers=1", NULL},
    {"qwen35", 8, "", "0,1,2,3", ".attention.recurrent_layers=-", NULL},
    {"qwen35", 4, ".attention.recurrent_layers=[1,0,0,1]", "1", ".attention.recurrent_layers=[1,0,1]", NULL},
    {"gemma2", 5, "", "0", ".attention.sliding_window_pattern=[0,1,0,1]", NULL},
    {"gemma3", 7, ".attention.sliding_window=40", "1", ".attention.sliding_window_pattern=[1,1,1,1,0,1]",
     NULL},
    {"gemma3", 7, ".attention.sliding_window=40 .attention.sliding_window_pattern=2", "1",
     ".attention.sliding_window_pattern=[1,1,0,1,0,1]", NULL},
    {"gpt-oss", 4, ".attention.sliding_window=40", "3", ".attention.sliding_window_pattern=-", NULL},
    {"gpt-oss", 4, "", "0", ".attention.sliding_window_pattern=-", NULL},
    {"cohere2moe", 5, ".attention.sliding_window=40", "1", ".attention.sliding_window_pattern=[0,1,1,0]",
     NULL},
    {"cohere2", 5, ".attention.sliding_window=40 .attention.sliding_window_pattern=0", "1",
     ".attention.sliding_window_pattern=0", NULL},
    /* what no key can say */
    {"smollm3", 6, "", "1", "", "layer 3 becomes layer 2"},
    {"smollm3", 8, "", "4,5,6,7", "", NULL},
    {"qwen3vl", 4, ".n_deepstack_layers=2", "1", "", "the first 2 layers get features of images"},
    {"qwen3vl", 4, ".n_deepstack_layers=2", "2,3", "", NULL},
    {"llama4", 6, ".interleave_moe_layer_step=2", "2,3", "", "every 4 that has no RoPE"},
    {"llama4", 8, ".interleave_moe_layer_step=2", "0", "", "every 2 that has experts"},
    {"laguna", 5, ".attention.sliding_window=40", "0", ".attention.sliding_window_pattern=-",
     "attends to all"},
    {"glm-dsa", 5, ".attention.indexer.types=[1,1,0,0,1]", "1", ".attention.indexer.types=[1,0,0,1]",
     "layer 2 attends to the tokens that layer 1 chooses"},
    {"glm-dsa", 5, ".attention.indexer.types=[1,1,0,0,1]", "0,3", ".attention.indexer.types=[1,0,1]", NULL},
    {"glm-dsa", 5, ".attention.indexer.types=[0,1,0,1,1] .attention.sliding_window_pattern=[1,0,1,0,0]", "1",
     ".attention.indexer.types=[0,0,1,1] .attention.sliding_window_pattern=[1,1,0,0]", NULL},
    {"glm-dsa", 11, ".context_length=1048576", "3,7", ".attention.indexer.types=[1,1,1,0,0,1,0,0,1]", NULL},
    {"glm-dsa", 11, ".context_length=1048576", "6", ".attention.indexer.types=[1,1,1,0,0,0,0,0,0,1]",
     "layer 7 attends to the tokens that layer 6 chooses"},
    {"glm-dsa", 11, ".context_length=1048576", "3,4,5,6", ".attention.indexer.types=-",
     "layer 7 attends to the tokens that layer 6 chooses"},
    {"glm-dsa", 11, ".context_length=1048575", "3,7", ".attention.indexer.types=-", NULL},
    {"gemma3", 62, "", "61", "", "the scale of queries"},
    {"gemma3", 61, "", "60", "", NULL},
    {"command-r", 65, "", "64", "", NULL},
    {"command-r", 65, "", "3,64", "", "the norms of queries and keys"},
    {"deepseek2", 27, "", "3", "", NULL},
    {"deepseek2", 27, "", "3,4", "", "the form of queries"},
    {"rwkv7", 4, "", "0", "", "the values of layer 0"},
    {"rwkv7", 4, "", "1", "", NULL},
    {"deepseek4", 6, ".hash_layer_count=3", "1,4", ".hash_layer_count=2", NULL},
    {"minicpm", 4, "", "3", "", "the scale of layers"},
    {"minicpm", 4, ".residual_scale=1.0", "3", "", NULL},
};

/* Splits "KEY=VALUE" and completes the key. Returns the value. */
static const char *whole_key(const pruning *p, char *item, char key[128]) {
    char *equals = strchr(item, '=');
    assert_non_null(equals);
    *equals = 0;
    snprintf(key, 128, "%s%s", *item == '.' ? p->arch : "", item);
    return equals + 1;
}

static size_t flags_of(const char *text, uint8_t flags[64]) {
    size_t n = 0;
    for (; *text; text++)
        if (*text == '0' || *text == '1') flags[n++] = (uint8_t)(*text - '0');
    return n;
}

static void write_model(const pruning *p, const char *file) {
    model *m = model_new(p->arch, p->n_layers);
    char *items = strdup(p->keys), key[128], name[64];
    uint8_t flags[64];
    char *rest = items;
    for (char *item = strtok_r(items, " ", &rest); item; item = strtok_r(NULL, " ", &rest)) {
        const char *value = whole_key(p, item, key);
        if (*value == '[')
            model_set_array(m, key, GGUF_BOOL, flags, flags_of(value, flags));
        else if (strchr(value, '.'))
            model_set(m, key, GGUF_FLOAT32, &(float){strtof(value, NULL)}, sizeof(float));
        else
            model_set_u32(m, key, (uint32_t)atoi(value));
    }
    for (uint32_t i = 0; i < p->n_layers; i++) {
        snprintf(name, sizeof name, "blk.%u.ffn_down.weight", i);
        model_add(m, name, GGUF_F32, (uint64_t[]){32, 2, 1, 1}, (float[64]){0});
    }
    model_save(m, file);
    free(items);
}

static const model_kv *kv_of(const model_source *m, const char *key) {
    return model_kv_find(m->kv, m->n_kv, key);
}

static void check_keys(const pruning *p, const model_source *m) {
    char *items = strdup(p->wanted), key[128], *rest = items;
    for (char *item = strtok_r(items, " ", &rest); item; item = strtok_r(NULL, " ", &rest)) {
        const char *value = whole_key(p, item, key);
        const model_kv *kv = kv_of(m, key);
        uint8_t flags[64];
        uint32_t type;
        uint64_t n;
        const uint8_t *found;
        int64_t number;
        if (!kv != (*value == '-'))
            fail_msg("%s pruned of %s: %s is %s", p->arch, p->prune, key, kv ? "there" : "not there");
        if (*value == '-') continue;
        if (*value == '[') {
            assert_true(model_kv_array(kv, &type, &n, &found) && type == GGUF_BOOL);
            if (n != flags_of(value, flags) || memcmp(found, flags, n) != 0)
                fail_msg("%s pruned of %s: %s is not %s", p->arch, p->prune, key, value);
        } else {
            assert_true(model_kv_int(kv, &number));
            if (number != atoi(value))
                fail_msg("%s pruned of %s: %s is %lld", p->arch, p->prune, key, (long long)number);
        }
    }
    free(items);
}

TEST(metadata_of_pruned_models) {
    for (const pruning *p = prunings; p < prunings + sizeof prunings / sizeof *prunings; p++) {
        gq_output out = {.path = path("pruned.gguf"), .filetype = "COPY"};
        write_model(p, path("whole.gguf"));
        gq_options o = options_for(path("whole.gguf"), &out);
        o.prune_layers = p->prune, o.force = true;
        gq_plan *plan = must_plan(&o);
        size_t n;
        const char *const *warnings = gq_plan_warnings(plan, &n);
        bool found = false;
        for (size_t i = 0; i < n; i++) {
            bool ours = strstr(warnings[i], "layers to prune");
            if (ours && !p->warning) fail_msg("%s pruned of %s: %s", p->arch, p->prune, warnings[i]);
            found |= ours && strstr(warnings[i], p->warning);
        }
        if (p->warning && !found)
            fail_msg("%s pruned of %s: no warning of '%s'", p->arch, p->prune, p->warning);
        gq_results_free(must_run(plan));
        gq_plan_free(plan);
        model_source m = open_model(path("pruned.gguf"));
        check_keys(p, &m);
        model_close(&m);
    }
}

TEST(tensors_of_all_layers_are_in_the_way) {
    model *m = model_new("gemma4", 2);
    model_add(m, "blk.0.ffn_down.weight", GGUF_F32, (uint64_t[]){32, 2, 1, 1}, (float[64]){0});
    model_add(m, "blk.1.ffn_down.weight", GGUF_F32, (uint64_t[]){32, 2, 1, 1}, (float[64]){0});
    model_add(m, "per_layer_token_embd.weight", GGUF_F32, (uint64_t[]){32, 2, 1, 1}, (float[64]){0});
    model_save(m, path("per-layer.gguf"));
    gq_output out = {.path = path("per-layer-out.gguf"), .filetype = "COPY"};
    gq_options o = options_for(path("per-layer.gguf"), &out);
    o.prune_layers = "1";
    must_refuse(&o, GQ_USAGE, "per_layer_token_embd.weight holds values for each of the 2 layers");
    o.prune_layers = "7"; /* of which there is none */
    gq_plan_free(must_plan(&o));
}

int main(void) { return tests_run(folder_make, folder_remove); }
