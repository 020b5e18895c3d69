/* Type assignments of whole models, as recorded from llama.cpp: every file type, with and without
 * importance data, pure, and with the options that change types. */
#include <dirent.h>

#include "mixes/mixes.h"
#include "tests/support/json.h"
#include "tests/support/support.h"

typedef struct golden {
    const char *path;
    json *j;
    mix_model model;
    size_t n;
    mix_tensor *tensors;
    uint32_t *order, *file_order;
    mix_choice *choices;
    uint32_t legend[256];
    size_t runs, assignments;
} golden;

static int64_t head_count(const json *hparams, const char *key, int64_t absent) {
    const json *v = json_get(hparams, key);
    if (!v) return absent;
    return (int64_t)(v->kind == KIND_ARRAY ? v->items[0].number : v->number);
}

static uint32_t type_named(const char *name) {
    const tensor_type *type = tensor_type_named(name);
    if (!type) fail_msg("no type '%s'", name);
    return type->id;
}

static void load(golden *g, const char *path) {
    *g = (golden){.path = path, .j = json_file(path)};
    const json *h = json_need(g->j, "hparams"), *tensors = json_need(g->j, "tensors"),
               *legend = json_need(g->j, "legend");
    g->model.arch = json_need(g->j, "arch")->text;
    g->model.n_blocks = (int64_t)json_need(h, "block_count")->number;
    g->model.n_head = head_count(h, "head_count", 0);
    g->model.n_head_kv = head_count(h, "head_count_kv", g->model.n_head);
    g->model.n_expert = head_count(h, "expert_count", 0);
    g->n = tensors->n;
    g->tensors = calloc(g->n, sizeof *g->tensors);
    g->order = calloc(g->n, sizeof *g->order);
    g->file_order = calloc(g->n, sizeof *g->file_order);
    g->choices = calloc(g->n, sizeof *g->choices);
    for (size_t i = 0; i < g->n; i++) {
        const json *t = &tensors->items[i], *shape = &t->items[1];
        g->tensors[i] =
            (mix_tensor){.name = t->items[0].text, .ne = {1, 1, 1, 1}, .type = type_named(t->items[2].text)};
        for (size_t d = 0; d < shape->n; d++) g->tensors[i].ne[d] = (uint64_t)shape->items[d].number;
    }
    for (size_t i = 0; i < legend->n; i++)
        g->legend[(unsigned char)*legend->items[i].key] = type_named(legend->items[i].text);
    assert_true(mix_order(g->tensors, g->n, false, g->order, NULL));
    assert_true(mix_order(g->tensors, g->n, true, g->file_order, NULL));
}

static void unload(golden *g) {
    json_free(g->j);
    free(g->tensors), free(g->order), free(g->file_order), free(g->choices);
}

/* The recorded dry runs did not look whether a type given by name divides the rows; the real run stopped
 * there. */
static const mix_tensor *impossible(const golden *g, const char *types) {
    for (size_t i = 0; i < g->n; i++)
        if (g->tensors[i].ne[0] % tensor_type_of(g->legend[(unsigned char)types[i]])->block_elements)
            return &g->tensors[i];
    return NULL;
}

/* llama.cpp spares embeddings and output the demand for importance data, and then stops in the middle of
 * a run where an option or --pure gives them one of these types. */
static bool undemanded_crash(const char *name, uint32_t type) {
    bool spared = strcmp(name, "output.weight") == 0 || strcmp(name, "token_embd.weight") == 0 ||
                  strcmp(name, "per_layer_token_embd.weight") == 0;
    return spared && (type == GGUF_IQ1_S || type == GGUF_IQ2_XXS || type == GGUF_IQ2_XS);
}

static void check_result(golden *g, const char *run, const json *expected, bool assigned, const gq_error *e) {
    const json *fails = json_get(expected, "fails");
    g->runs++;
    if (fails) {
        if (assigned)
            fail_msg("%s, %s: succeeded, but should fail: %s", g->path, run, json_text(fails, "why", ""));
        assert_non_null(strstr(e->text, json_text(fails, "tensor", "?")));
        assert_non_null(strstr(e->text, strstr(json_text(fails, "why", ""), "no block") ? "no block number"
                                                                                        : "out of range"));
        return;
    }
    const char *types = json_need(expected, "types")->text;
    assert_int_equal(strlen(types), g->n);
    const mix_tensor *misfit = impossible(g, types);
    if (misfit) {
        assert_false(assigned);
        assert_int_equal(e->status, GQ_USAGE);
        assert_non_null(strstr(e->text, misfit->name));
        return;
    }
    if (!assigned) fail_msg("%s, %s: %s", g->path, run, e->text);
    size_t fallbacks = 0;
    bool needs = false, demanded = json_yes(expected, "needs_imatrix");
    for (size_t i = 0; i < g->n; i++) {
        const mix_choice *c = &g->choices[i];
        uint32_t want = g->legend[(unsigned char)types[i]];
        if (c->type != want)
            fail_msg("%s, %s, %s: %s instead of %s", g->path, run, g->tensors[i].name,
                     tensor_type_name(c->type), tensor_type_name(want));
        bool fallback = c->reason == MIX_FALLBACK;
        assert_int_equal(fallback, c->wanted != c->type);
        assert_true((c->reason == MIX_RULE) == (*c->why == 0));
        fallbacks += fallback;
        needs |= c->needs_imatrix;
        demanded |= undemanded_crash(g->tensors[i].name, c->type);
        g->assignments++;
    }
    if (fallbacks != (size_t)json_number(expected, "fallbacks", 0))
        fail_msg("%s, %s: %zu fallbacks", g->path, run, fallbacks);
    /* The flag is recorded where it stopped a run, so only of runs without a matrix. */
    if (!strstr(run, "imatrix") && needs != demanded)
        fail_msg("%s, %s: needs an importance matrix: %d", g->path, run, needs);
}

static void check_named_types(golden *g) {
    const json *assign = json_need(g->j, "assign");
    for (size_t i = 0; i < assign->n; i++) {
        const char *key = assign->items[i].key;
        char name[32] = "";
        assert_in_range(strcspn(key, "+"), 1, sizeof name - 1);
        memcpy(name, key, strcspn(key, "+"));
        mix_options o = {.filetype = mix_filetype_named(name), .output_type = -1, .embedding_type = -1};
        if (!o.filetype) fail_msg("no file type %s", name);
        o.imatrix = strstr(key, "+imatrix");
        o.pure = strstr(key, "+pure");
        /* In the compact copies, a text in place of a result names the run that has the same one. */
        const json *expected = &assign->items[i];
        if (expected->kind == KIND_STRING) expected = json_need(assign, expected->text);
        gq_error e = {0};
        bool ok = mix_assign(&g->model, &o, g->tensors, g->n, g->order, g->choices, &e);
        check_result(g, key, expected, ok, &e);
    }
}

static int64_t type_option(const json *options, const char *key) {
    const char *name = json_text(options, key, NULL);
    return name ? (int64_t)type_named(name) : -1;
}

static mix_pattern *pattern_option(const json *options) {
    const json *list = json_get(options, "tensor_type");
    if (!list) return NULL;
    char items[8][128];
    const char *texts[8];
    assert_in_range(list->n, 1, 8);
    for (size_t i = 0; i < list->n; i++) {
        const json *pair = &list->items[i];
        snprintf(items[i], sizeof items[i], "%s=%s", pair->items[0].text, pair->items[1].text);
        texts[i] = items[i];
    }
    mix_pattern *p = mix_patterns_new(texts, list->n, true, NULL);
    assert_non_null(p);
    return p;
}

static void check_options(golden *g) {
    const json *runs = json_need(g->j, "options");
    for (size_t i = 0; i < runs->n; i++) {
        const json *run = &runs->items[i], *options = json_need(run, "options");
        const json *patterns = json_get(options, "tensor_type");
        /* Recorded behind the place where pattern texts become lower case. */
        if (patterns && strcmp(patterns->items[0].items[0].text, "ATTN_V") == 0) continue;
        const char *name = json_yes(options, "only_copy") ? "COPY" : json_need(run, "ftype")->text;
        mix_pattern *p = pattern_option(options);
        mix_options o = {.filetype = mix_filetype_named(name),
                         .imatrix = json_yes(options, "imatrix"),
                         .pure = json_yes(options, "pure"),
                         .leave_output = json_yes(options, "leave_output_tensor"),
                         .output_type = type_option(options, "output_tensor_type"),
                         .embedding_type = type_option(options, "token_embedding_type"),
                         .patterns = p};
        assert_non_null(o.filetype);
        char label[64];
        snprintf(label, sizeof label, "option run %zu of %s%s", i, name, o.imatrix ? "+imatrix" : "");
        gq_error e = {0};
        bool keep_order = json_yes(options, "keep_split");
        bool ok = mix_assign(&g->model, &o, g->tensors, g->n, keep_order ? g->file_order : g->order,
                             g->choices, &e);
        check_result(g, label, run, ok, &e);
        mix_patterns_free(p);
    }
}

static void check_order(golden *g) {
    const json *visit = json_need(g->j, "visit");
    assert_int_equal(visit->n, g->n);
    for (size_t i = 0; i < g->n; i++) {
        assert_int_equal(g->order[i], (uint32_t)visit->items[i].number);
        assert_int_equal(g->file_order[i], i);
    }
}

/* Checks all JSON files in a folder whose names start with a prefix; returns how many there were. */
static size_t check_folder(const char *folder, const char *prefix) {
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    size_t files = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        size_t n = strlen(entry->d_name);
        if (n < 5 || strcmp(entry->d_name + n - 5, ".json") != 0) continue;
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0) continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        golden g;
        load(&g, path);
        check_order(&g);
        check_named_types(&g);
        check_options(&g);
        assert_true(g.runs > 100);
        print_message("%s: %zu runs, %zu assignments\n", entry->d_name, g.runs, g.assignments);
        unload(&g);
        files++;
    }
    closedir(dir);
    return files;
}

TEST(compact_copies) { assert_int_equal(check_folder(test_path("golden"), "mixes-"), 4); }

TEST(all_models) { assert_int_equal(check_folder(shared_path("golden/mixes"), ""), 26); }

int main(void) { return tests_run(NULL, NULL); }
