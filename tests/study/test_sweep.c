/* A pass of models over a text: which steps it has, in what order, and how it ends and goes on. */
#include "base/checksum.h"
#include "forward/graph/layer.h"
#include "quantize/quantize.h"
#include "study/sweep/sweep.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"
#include "tests/support/ranks.h"

enum { LAYERS = 3, CONTEXT = 16, WINDOWS = 4, MIB = 1 << 20 };

typedef struct running {
    model_source file;
    forward_model *model;
} running;
static running large, small;

static void make_runner(running *r, uint32_t layers) {
    gq_error e;
    model_save(evaluation_model(layers), path("model.gguf"));
    assert_true(input_open(&r->file, path("model.gguf"), &e));
    assert_non_null(r->model = forward_model_new(&r->file, &e));
    assert_int_equal(remove(path("model.gguf")), 0);
}

FIXTURE(start) {
    folder = temporary_folder();
    make_runner(&large, LAYERS), make_runner(&small, 1);
    return 0;
}

static int end(void **state) {
    forward_model_free(large.model), forward_model_free(small.model);
    model_close(&large.file), model_close(&small.file);
    return folder_remove(state);
}

/* ---- what happens ---- */

/* A letter per event: b before all; 0 to 9 on a layer, o on the output matrix; a after a step. */
typedef struct events {
    sweep s;
    char seen[64];
    int fail_after; /* so many steps; 0: never */
    int steps;
} events;

static void see(events *e, char c) { e->seen[strlen(e->seen)] = c; }

static bool before(void *data, gq_error *e) {
    events *v = data;
    see(v, 'b');
    for (size_t i = 0; i < v->s.plan->n_streams; i++)
        if (v->s.streams[i] && !forward_stream_embed(v->s.streams[i], NULL, e)) return false;
    return true;
}

static bool on(void *data, forward_layer *l, gq_error *e) {
    events *v = data;
    see(v, l ? (char)('0' + v->s.layer) : 'o');
    return !l || forward_stream_pass(v->s.streams[0], l, FORWARD_WHOLE, NULL, e);
}

static bool after(void *data, sweep_record *to, gq_error *e) {
    events *v = data;
    see(v, 'a');
    if (v->s.plan->checkpoint) {
        to->bytes = strdup("record"), to->n = 7;
        assert_non_null(to->bytes);
    }
    return ++v->steps != v->fail_after || gq_fail(e, "enough");
}

static uint32_t ids[WINDOWS * CONTEXT];
static const forward_job job = {
    .ids = ids, .windows = WINDOWS, .context = CONTEXT, .threads = 1, .memory = 512 * MIB};

static bool run(events *v, sweep_plan p, const sweep_calls *calls, uint64_t *sum) {
    gq_error e;
    p.text.job = job, p.text.bounds = forward_bounds_of(&job, p.models, p.n_streams, false);
    bool ok = sweep_open(&v->s, &p, &e) && sweep_run(&v->s, calls, &e);
    if (sum) *sum = forward_stream_sum(v->s.streams[0], 0);
    sweep_close(&v->s);
    return ok;
}

/* ---- tests ---- */

TEST(steps_come_in_order) {
    const forward_model *const models[] = {large.model};
    events v = {.steps = 0};
    sweep_calls calls = {.before = before, .on = on, .after = after, .data = &v};
    sweep_plan p = {.models = models, .n_streams = 1, .n_layers = LAYERS, .output = true};
    assert_int_equal(sweep_steps(&p), LAYERS + 1);
    assert_true(run(&v, p, &calls, NULL));
    assert_string_equal(v.seen, "b0a1a2aoa");
    v = (events){.steps = 0};
    p.numbers = (const uint64_t[]){0, 2}, p.n_layers = 2, p.output = false;
    assert_true(run(&v, p, &calls, NULL));
    assert_string_equal(v.seen, "b0a2a");
    v = (events){.fail_after = 2};
    p.numbers = NULL, p.n_layers = LAYERS;
    assert_false(run(&v, p, &calls, NULL));
    assert_string_equal(v.seen, "b0a1a");
}

/* A step is one of all models that have the layer; streams of one model share it. */
TEST(models_share_steps) {
    const forward_model *const models[] = {large.model, large.model, small.model};
    const bool absent[] = {false, true, false};
    events v = {.steps = 0};
    sweep_calls calls = {.before = before, .after = after, .data = &v};
    sweep_plan p = {.models = models, .absent = absent, .n_streams = 3, .n_layers = LAYERS};
    assert_true(run(&v, p, &calls, NULL));
    assert_string_equal(v.seen, "baaa");
}

static bool cancelled(void *user) { return ++*(int *)user > 3; }

TEST(a_sweep_is_cancelled) {
    const forward_model *const models[] = {large.model};
    int asked = 0;
    gq_callbacks callbacks = {.size = sizeof callbacks, .cancelled = cancelled, .user = &asked};
    events v = {.steps = 0};
    sweep_calls calls = {.after = after, .data = &v};
    sweep_plan p = {
        .models = models, .n_streams = 1, .n_layers = LAYERS, .progress = {.callbacks = &callbacks}};
    assert_false(run(&v, p, &calls, NULL));
    assert_true(asked == 4 && v.steps == 0);
}

/* With states in a checkpoint, which has a record per step: what is finished is not done again. */
TEST(an_interrupted_sweep_goes_on) {
    const forward_model *const models[] = {large.model};
    gq_error e;
    uint64_t sums[2];
    checkpoint_header h = {.kind = CHECKPOINT_IMPORTANCE,
                           .context = CONTEXT,
                           .windows = WINDOWS,
                           .slot = forward_stream_bytes(large.model, WINDOWS, CONTEXT),
                           .streams = 1};
    checkpoint_seal(&h);
    for (size_t way = 0; way < 2; way++) {
        checkpoint kept;
        events v = {.fail_after = way ? 3 : 0};
        sweep_calls calls = {.before = before, .after = after, .on = on, .data = &v};
        sweep_plan p = {
            .models = models, .n_streams = 1, .n_layers = LAYERS, .output = true, .checkpoint = &kept};
        assert_true(checkpoint_open(&kept, path("out"), &h, MIB, &e));
        assert_true(run(&v, p, &calls, &sums[way]) == !way);
        if (way) {
            assert_int_equal(kept.finished, 2);
            v = (events){.steps = 0};
            assert_true(run(&v, p, &calls, &sums[1]));
            assert_string_equal(v.seen, "2aoa");
        }
        assert_int_equal(kept.finished, LAYERS + 1);
        v = (events){.steps = 0};
        assert_true(run(&v, p, &calls, NULL));
        assert_string_equal(v.seen, "");
        checkpoint_remove(&kept), checkpoint_close(&kept);
    }
    assert_true(sums[0] != 0 && sums[0] == sums[1]);
}

/* What flows when ranks have different memory, and one reads the layers for all. */
enum { RANKS = 3 };
typedef struct shared_sweep {
    uint32_t sum[RANKS];
    uint64_t layer[RANKS];
    bool ok[RANKS];
    gq_error e[RANKS];
} shared_sweep;

static forward_answer add_inputs(void *data, const forward_inputs *in, gq_error *e) {
    uint32_t *sum = data;
    (void)e;
    for (size_t f = 0; f < in->features; f++)
        *sum = checksum_add(*sum, in->x + f * in->stride, in->tokens * sizeof *in->x);
    return FORWARD_ON;
}

/* The last rank has no windows. */
static void sweep_shared(void *data, gq_comm *comm) {
    shared_sweep *of = data;
    int rank = gq_comm_rank(comm);
    uint64_t least = forward_model_sizes(large.model)->layer_least;
    const uint64_t own[RANKS] = {0, least + (100 << 10), 0};
    const forward_model *const models[] = {large.model};
    forward_job mine = job;
    if (rank + 1 == RANKS) mine.windows = 0;
    sweep_plan p = {
        .text = {.job = mine, .comm = comm}, .models = models, .n_streams = 1, .n_layers = LAYERS};
    p.text.bounds = forward_bounds_of(&job, models, 1, false);
    p.text.bounds.layer = own[rank], p.text.all_windows = WINDOWS, p.text.read_once = true;
    const forward_observer observer = {.on_inputs = add_inputs, .data = &of->sum[rank]};
    const sweep_calls calls = {.observer = &observer};
    sweep s = {.plan = NULL};
    gq_error *e = &of->e[rank];
    bool ok = sweep_agree_layer(comm, true, &p.text.bounds.layer, e) && sweep_open(&s, &p, e) &&
              sweep_run(&s, &calls, e);
    of->layer[rank] = p.text.bounds.layer;
    of->ok[rank] = gq_comm_agree(comm, ok, e);
    sweep_close(&s);
}

TEST(ranks_hold_as_much_of_a_layer_as_the_least_of_them) {
    shared_sweep alone = {.sum = {0}}, many = {.sum = {0}};
    sweep_shared(&alone, NULL);
    assert_true(alone.ok[0] && alone.sum[0] && !alone.layer[0]);
    ranks_run(RANKS, sweep_shared, &many, -1, 0, false);
    for (int r = 0; r < RANKS; r++) {
        if (!many.ok[r]) fail_msg("rank %d: %s", r, many.e[r].text);
        assert_int_equal(many.layer[r], forward_model_sizes(large.model)->layer_least + (100 << 10));
        assert_int_equal(many.sum[r], r + 1 < RANKS ? alone.sum[0] : 0);
    }
    assert_true(many.layer[0] < forward_model_sizes(large.model)->layer_bytes);
}

int main(void) { return tests_run(start, end); }
