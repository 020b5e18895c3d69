/* Prediction blocks: their logits and inputs as llama.cpp has them, streams that leave their states, and blocks
 * that are left out. */
#include <math.h>

#include "forward/graph/draft/draft.h"
#include "forward/stream/head.h"
#include "tests/support/draft_models.h"
#include "tests/support/fed.h"
#include "tests/support/folder.h"

enum { LOGITS = VARIANT_IDS * VARIANT_VOCABULARY, WINDOWS = VARIANT_IDS / VARIANT_CONTEXT };

static uint32_t ids[VARIANT_IDS];

/* A model whose blocks are set up. */
typedef struct opened {
    model_source file;
    forward_model *model;
    warning_list warnings;
} opened;

static void open_drafts(opened *o, const draft_model *d, uint32_t type) {
    *o = (opened){.model = NULL};
    gq_error e;
    const char *file = in_folder(folder, "model.gguf");
    model_save(draft_model_new(d, type), file);
    o->file = open_model(file);
    if (!(o->model = forward_model_new(&o->file, &e))) fail_msg("%s: %s", d->name, e.text);
    if (!forward_model_find_mtp_layers(o->model, &o->warnings, &e)) fail_msg("%s: %s", d->name, e.text);
}

static void close_drafts(opened *o) {
    forward_model_free(o->model);
    model_close(&o->file);
    warnings_free(&o->warnings);
}

/* ---- what flows ---- */

/* ---- logits of a block ---- */

typedef struct drafted {
    float *logits; /* of each token */
    size_t windows;
} drafted;

static bool start_windows(void *data, size_t first, size_t windows, gq_error *e) {
    (void)first, (void)e;
    ((drafted *)data)->windows = windows;
    return true;
}

static bool take_tile(void *data, size_t first, size_t rows, const float *const *z, size_t stride,
                      gq_error *e) {
    drafted *d = data;
    (void)e;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < d->windows * VARIANT_CONTEXT; i++)
            d->logits[i * VARIANT_VOCABULARY + first + r] = z[0][r * stride + i];
    return true;
}

static bool end_windows(void *data, gq_error *e) {
    (void)e;
    drafted *d = data;
    d->logits += d->windows * VARIANT_CONTEXT * VARIANT_VOCABULARY;
    return true;
}

/* Runs a model's layers, and then a block by a stream of so many windows at a time; logits: of all tokens. */
static void run_block(const opened *o, size_t block, size_t windows, const forward_observer *observer,
                      float *logits) {
    gq_error e;
    forward_job job = {
        .ids = ids, .windows = WINDOWS, .context = VARIANT_CONTEXT, .threads = 2, .memory = UINT64_MAX};
    const forward_model *m = o->model, *draft = forward_model_mtp_layer(m, block);
    forward_bounds bounds = forward_bounds_of(&job, &m, 1, true);
    bounds.batch = windows;
    forward_run *r = forward_run_new(&job, &bounds, &e);
    forward_stream *s = forward_stream_new(r, m, NULL, &e);
    drafted to = {.logits = logits};
    const forward_head head = {
        .n = VARIANT_CONTEXT, .start = start_windows, .tile = take_tile, .end = end_windows, .data = &to};
    bool ok = forward_stream_embed(s, NULL, &e);
    for (size_t i = 0; ok && i < forward_model_sizes(m)->layers; i++)
        ok = forward_stream_pass(s, forward_run_layer(r, m, i, &e), FORWARD_WHOLE, NULL, &e);
    forward_stream_mtp(s, draft);
    ok = ok && forward_stream_pass(s, forward_run_layer(r, draft, forward_mtp_layer(draft), &e),
                                   FORWARD_WHOLE, observer, &e);
    ok = ok && (!logits || forward_run_head(r, &s, 1, &head, &e));
    forward_stream_free(s), forward_run_free(r);
    if (!ok) fail_msg("%s", e.text);
}

/* ---- against stored values ---- */

static double deviation(const float *z) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < LOGITS; i++) sum += (double)z[i], squares += (double)z[i] * (double)z[i];
    return sqrt(squares / LOGITS - sum / LOGITS * (sum / LOGITS));
}

/* How often a token flows into a matrix: once is reported, by turns, and then the sum of squares is near. */
static int turns_of(const char *name, const char *weight) {
    if (strcmp(name, "deepseek4") != 0) return 1;
    return strstr(weight, "attn_output_a") ? 2 : strstr(weight, "nextn.eh_proj") ? 4 : 1;
}

static void check_fed(const char *name, const char *line, fed_list *all) {
    char weight[64];
    double rows, squares;
    assert_int_equal(sscanf(line, "fed %63s %lf %lf", weight, &rows, &squares), 3);
    const fed *f = fed_of(all, weight);
    if (!f) fail_msg("%s: nothing told of %s", name, weight);
    int turns = turns_of(name, weight);
    rows /= turns, squares /= turns;
    if (f->rows != rows || !(fabs(f->squares - squares) <= (turns > 1 ? .1 : 1e-4) * squares))
        fail_msg("%s: %s: %g rows and squares of %g, expected %g and %g", name, weight, f->rows, f->squares,
                 rows, squares);
}

static void check_logit(const char *name, size_t token, size_t id, float found, double expected,
                        double most) {
    if (!(fabs((double)found - expected) <= most))
        fail_msg("%s: token %zu: logit %zu is %g, expected %g", name, token, id, (double)found, expected);
}

/* The divergence of what the block predicts from what is stored, in nats. */
static void check_kld(const char *name, const float *z, char *stored) {
    double x[VARIANT_VOCABULARY], sums[2] = {0, 0}, kl = 0;
    for (size_t i = 0; i < VARIANT_VOCABULARY; i++) {
        x[i] = strtod(stored, &stored);
        sums[0] += exp(x[i]), sums[1] += exp((double)z[i]);
    }
    for (size_t i = 0; i < VARIANT_VOCABULARY; i++)
        kl += exp(x[i]) / sums[0] * (x[i] - (double)z[i] - log(sums[0] / sums[1]));
    if (!(kl <= 1e-9)) fail_msg("%s: diverges by %g nats", name, kl);
}

TEST(logits_and_inputs_are_as_stored) {
    static char line[4096];
    static fed_list all;
    char name[64];
    FILE *f = fopen(test_path("golden/draft.txt"), "r");
    float *z = calloc(LOGITS, sizeof *z);
    size_t window = 0, checked = 0;
    opened o = {.model = NULL};
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        size_t number, first = window * VARIANT_CONTEXT;
        char *at = line + 5;
        if (sscanf(line, "block %63s %zu", name, &number) == 2) {
            if (o.model) close_drafts(&o);
            const draft_model *d = draft_model_named(name);
            open_drafts(&o, d, GGUF_F32), window = all.n = 0, checked++;
            if (o.warnings.n) fail_msg("%s: %s", name, o.warnings.items[0]);
            forward_observer observer = {.on_inputs = fed_take, .data = &all};
            run_block(&o, number - forward_model_sizes(o.model)->layers, 1, &observer, z);
        } else if (!strncmp(line, "fed ", 4)) {
            check_fed(name, line, &all);
        } else if (!strncmp(line, "last ", 5)) {
            size_t t = first + VARIANT_CONTEXT - 1;
            check_kld(name, z + t * VARIANT_VOCABULARY, at);
            for (size_t i = 0; i < VARIANT_VOCABULARY; i++)
                check_logit(name, t, i, z[t * VARIANT_VOCABULARY + i], strtod(at, &at), 4e-4 * deviation(z));
        } else {
            for (size_t t = 0; t < VARIANT_CONTEXT - 1; t++) {
                size_t id = t * 37 % VARIANT_VOCABULARY;
                check_logit(name, first + t, id, z[(first + t) * VARIANT_VOCABULARY + id], strtod(at, &at),
                            4e-4 * deviation(z));
            }
            window++;
        }
    }
    if (o.model) close_drafts(&o);
    free(z);
    fclose(f);
    assert_true(checked >= 17);
}

/* ---- others ---- */

/* Runs a block with so many windows at once. */
static float *block_logits(const opened *o, size_t windows) {
    float *z = calloc(LOGITS, sizeof *z);
    run_block(o, 0, windows, NULL, z);
    return z;
}

TEST(batches_change_nothing_and_states_stay) {
    for (size_t i = 0; draft_model_at(i); i++) {
        opened o;
        open_drafts(&o, draft_model_at(i), GGUF_F16);
        float *one = block_logits(&o, 1), *all = block_logits(&o, WINDOWS);
        if (memcmp(one, all, LOGITS * sizeof *one) != 0) fail_msg("%s differs", draft_model_at(i)->name);
        free(one), free(all);
        close_drafts(&o);
    }
}

/* Its matrices are told with their inputs, and no other model's tensors are. */
TEST(matrices_of_blocks_have_inputs) {
    opened o;
    open_drafts(&o, draft_model_named("glm4moe-ends"), GGUF_F32);
    fed_list all = {.n = 0};
    run_block(&o, 0, 1, &(forward_observer){.on_inputs = fed_take, .data = &all}, NULL);
    assert_non_null(fed_of(&all, "blk.2.nextn.shared_head_head.weight"));
    assert_null(fed_of(&all, "output.weight"));
    for (uint64_t i = 0; i < o.file.n_tensors; i++) {
        const model_tensor *t = o.file.tensors[i];
        if (strncmp(t->name, "blk.2.", 6) != 0 || !forward_feeds(o.model, t)) continue;
        if (!fed_of(&all, t->name)) fail_msg("nothing told of %s", t->name);
    }
    assert_true(forward_feeds(o.model, model_tensor_named(&o.file, "blk.2.nextn.eh_proj.weight")));
    close_drafts(&o);
}

static void check_left_out(const draft_model *d, const char *why) {
    gq_error e;
    warning_list warnings = {0};
    const char *file = in_folder(folder, "model.gguf");
    model_save(draft_model_new(d, GGUF_F32), file);
    model_source g = open_model(file);
    forward_model *run = forward_model_new(&g, &e);
    if (!run) fail_msg("%s", e.text);
    assert_true(forward_model_find_mtp_layers(run, &warnings, &e));
    assert_int_equal(forward_model_mtp_layers(run), 0);
    assert_int_equal(warnings.n, 1);
    if (!strstr(warnings.items[0], why)) fail_msg("%s", warnings.items[0]);
    warnings_free(&warnings);
    forward_model_free(run);
    model_close(&g);
}

TEST(blocks_that_cannot_be_run_are_left_out) {
    check_left_out(&(draft_model){.name = "exaone4"}, "of architecture 'exaone4' are not supported");
    gq_error e;
    const char *file = in_folder(folder, "model.gguf");
    model_save(draft_model_new(&(draft_model){.name = "glm4moe", .no_enorm = true}, GGUF_F32), file);
    model_source g = open_model(file);
    assert_null(forward_model_new(&g, &e)); /* a model is whole, or refused */
    if (!strstr(e.text, "no tensor blk.2.nextn.enorm.weight")) fail_msg("%s", e.text);
    model_close(&g);
}

FIXTURE(start) {
    folder = temporary_folder();
    for (size_t i = 0; i < VARIANT_IDS; i++) ids[i] = variant_id(i);
    return 0;
}

int main(void) { return tests_run(start, folder_remove); }
