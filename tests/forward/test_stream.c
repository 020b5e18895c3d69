/* Models run over a text layer by layer: the same logits as of one batch, wherever the states are. */
#include <fcntl.h>
#include <zlib.h>

#include "forward/graph/layer.h"
#include "forward/stream/head.h"
#include "forward/stream/kld.h"
#include "forward/stream/stream.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"
#include "tests/support/forward_models.h"
#include "tests/support/forwarding.h"

enum { CONTEXT = 20, WINDOWS = 7, TOKENS = CONTEXT * WINDOWS, VOCABULARY = 512 };

static model_source file;
static forward_model *small;
static uint32_t ids[TOKENS];
static float *expected; /* logits */

FIXTURE(start) {
    gq_error e;
    size_t vocabulary;
    folder = temporary_folder();
    model_save(evaluation_model(3), path("model.gguf"));
    assert_true(gguf_model_open(&file, path("model.gguf"), &e));
    small = forward_model_new(&file, &e);
    if (!small) fail_msg("%s", e.text);
    for (size_t i = 0; i < TOKENS; i++) ids[i] = (uint32_t)(i * i * 31 % VOCABULARY);
    expected = forward_whole(&file, &(forwarding){.ids = ids, .n = TOKENS, .context = CONTEXT, .threads = 1},
                             &vocabulary, &e);
    assert_non_null(expected);
    return 0;
}

FIXTURE(finish) {
    (void)state;
    forward_model_free(small);
    model_close(&file);
    free(expected);
    remove_folder(folder);
    return 0;
}

/* ---- logits of a stream ---- */

typedef struct seen {
    size_t from, n, first, windows, streams, vocabulary;
    float *logits; /* [stream][window][place][vocabulary] */
} seen;

static bool start_windows(void *data, size_t first, size_t windows, gq_error *e) {
    seen *s = data;
    (void)e;
    s->first = first, s->windows = windows;
    return true;
}

static bool take_tile(void *data, size_t first, size_t rows, const float *const *logits, size_t stride,
                      gq_error *e) {
    const seen *s = data;
    (void)e;
    for (size_t i = 0; i < s->streams; i++)
        for (size_t r = 0; r < rows; r++)
            for (size_t k = 0; k < s->windows * s->n; k++)
                s->logits[((i * WINDOWS + s->first) * s->n + k) * s->vocabulary + first + r] =
                    logits[i][r * stride + k];
    return true;
}

static void check(const seen *s) {
    for (size_t i = 0; i < s->streams; i++)
        for (size_t w = 0; w < WINDOWS; w++)
            for (size_t p = 0; p < s->n; p++)
                assert_memory_equal(s->logits + ((i * WINDOWS + w) * s->n + p) * VOCABULARY,
                                    expected + (w * CONTEXT + s->from + p) * VOCABULARY,
                                    VOCABULARY * sizeof(float));
}

typedef struct asked {
    double work;
    size_t calls, stop; /* at this call; 0: never */
} asked;

static bool progress(void *data, double work, const char *what, gq_error *e) {
    asked *a = data;
    assert_true(what && *what);
    a->work += work;
    return ++a->calls != a->stop || gq_fail(e, "enough");
}

static forward_job job_of(asked *a) {
    return (forward_job){.ids = ids,
                         .windows = WINDOWS,
                         .context = CONTEXT,
                         .threads = 2,
                         .memory = UINT64_MAX,
                         .progress = progress,
                         .data = a};
}

/* Streams of the small model, n of them, with so many windows in a batch. */
static void run(size_t n, size_t batch, bool in_file, unsigned slots, size_t from, size_t places) {
    gq_error e;
    asked a = {0};
    forward_job j = job_of(&a);
    uint64_t bytes = forward_stream_bytes(small, WINDOWS, CONTEXT);
    forward_bounds b = {.batch = batch, .in_file = in_file};
    forward_run *r = forward_run_new(&j, &b, &e);
    forward_stream *s[3];
    int fd = slots ? hidden_state_slots_open(folder, bytes * slots * n, &e) : -1;
    for (size_t i = 0; i < n; i++) {
        hidden_state_slots keep = {.fd = fd, .path = "states", .at = bytes * slots * i, .slots = slots};
        s[i] = forward_stream_new(r, small, slots ? &keep : NULL, &e);
        assert_true(s[i] && forward_stream_embed(s[i], NULL, &e));
    }
    for (size_t layer = 0; layer < 3; layer++)
        for (size_t i = 0; i < n; i++) {
            const forward_layer *l = forward_run_layer(r, small, layer, &e);
            assert_true(l && forward_stream_pass(s[i], l, FORWARD_WHOLE, NULL, &e));
        }
    seen to = {.from = from, .n = places, .streams = n, .vocabulary = VOCABULARY};
    to.logits = calloc(n * WINDOWS * places * VOCABULARY, sizeof *to.logits);
    assert_true(forward_run_head(
        r, s, n,
        &(forward_head){.from = from, .n = places, .start = start_windows, .tile = take_tile, .data = &to},
        &e));
    check(&to);
    double work = (double)n * forward_job_work(&j, small, true);
    assert_true(a.work > work * (1 - 1e-12) && a.work < work * (1 + 1e-12));
    free(to.logits);
    for (size_t i = 0; i < n; i++) forward_stream_free(s[i]);
    forward_run_free(r);
    if (fd >= 0) close(fd);
}

TEST(a_copy_goes_on_as_its_original) {
    gq_error e;
    asked a = {0};
    forward_job j = job_of(&a);
    forward_run *r = forward_run_new(&j, &(forward_bounds){.batch = 3}, &e);
    forward_stream *s[] = {forward_stream_new(r, small, NULL, &e), forward_stream_new(r, small, NULL, &e)};
    assert_true(s[0] && s[1] && forward_stream_embed(s[0], NULL, &e));
    for (size_t layer = 0; layer < 3; layer++) {
        const forward_layer *l = forward_run_layer(r, small, layer, &e);
        if (layer == 1) forward_stream_copy(s[1], s[0]);
        for (size_t i = 0; i < 2; i++)
            assert_true((layer == 0 && i == 1) || forward_stream_pass(s[i], l, FORWARD_WHOLE, NULL, &e));
    }
    seen to = {.n = CONTEXT, .streams = 2, .vocabulary = VOCABULARY};
    to.logits = calloc(2 * TOKENS * VOCABULARY, sizeof *to.logits);
    assert_true(forward_run_head(
        r, s, 2,
        &(forward_head){.from = 0, .n = CONTEXT, .start = start_windows, .tile = take_tile, .data = &to},
        &e));
    check(&to);
    free(to.logits);
    for (size_t i = 0; i < 2; i++) forward_stream_free(s[i]);
    forward_run_free(r);
}

TEST(logits_do_not_depend_on_where_states_are) {
    run(1, WINDOWS, false, 0, 0, CONTEXT);
    run(1, 3, false, 0, 0, CONTEXT);
    run(1, 3, true, 1, 5, 15);
    run(2, 2, true, 2, 10, 9);
    run(3, 4, false, 2, CONTEXT - 1, 1);
}

/* Of all places, against those of one batch. */
static void check_logits(forward_run *r, forward_stream *s) {
    gq_error e;
    seen to = {.n = CONTEXT, .streams = 1, .vocabulary = VOCABULARY};
    to.logits = calloc((size_t)TOKENS * VOCABULARY, sizeof *to.logits);
    const forward_head head = {
        .from = 0, .n = CONTEXT, .start = start_windows, .tile = take_tile, .data = &to};
    assert_true(forward_run_head(r, &s, 1, &head, &e));
    check(&to);
    free(to.logits);
}

static void pass_in_parts(forward_run *r, forward_stream *s, size_t layer) {
    gq_error e;
    const forward_layer *l = forward_run_layer(r, small, layer, &e);
    assert_true(l && forward_stream_pass(s, l, FORWARD_ATTENTION, NULL, &e));
    assert_true(forward_stream_pass(s, l, FORWARD_FFN, NULL, &e));
}

/* A run that ends in the middle of layer 1, and another that goes on from the states after layer 0. */
TEST(states_of_a_finished_layer_stay) {
    gq_error e;
    uint64_t bytes = forward_stream_bytes(small, WINDOWS, CONTEXT);
    for (int in_file = 0; in_file < 2; in_file++) {
        asked a = {0};
        forward_job j = job_of(&a);
        forward_bounds b = {.batch = 2, .in_file = in_file};
        hidden_state_slots keep = {
            .fd = hidden_state_slots_open(folder, 2 * bytes, &e), .path = "states", .slots = 2};
        forward_run *r = forward_run_new(&j, &b, &e);
        forward_stream *s = forward_stream_new(r, small, &keep, &e);
        assert_true(forward_stream_embed(s, NULL, &e));
        assert_true(forward_stream_pass(s, forward_run_layer(r, small, 0, &e), FORWARD_WHOLE, NULL, &e));
        a.stop = a.calls + 12;
        assert_false(forward_stream_pass(s, forward_run_layer(r, small, 1, &e), FORWARD_WHOLE, NULL, &e));
        assert_string_equal(e.text, "enough");
        forward_stream_free(s), forward_run_free(r);

        b.batch = 3, b.in_file = !in_file;
        r = forward_run_new(&j, &b, &e);
        s = forward_stream_new(r, small, &keep, &e);
        assert_true(forward_stream_resume(s, 1, &e));
        for (size_t i = 1; i < 3; i++)
            assert_true(forward_stream_pass(s, forward_run_layer(r, small, i, &e), FORWARD_WHOLE, NULL, &e));
        check_logits(r, s);
        forward_stream_free(s), forward_run_free(r);
        close(keep.fd);
    }
}

/* One that ends within the second part of layer 1, and another that goes on from the states after layer 0. */
TEST(states_of_a_layer_in_parts_stay) {
    gq_error e;
    uint64_t bytes = forward_stream_bytes(small, WINDOWS, CONTEXT);
    for (int in_file = 0; in_file < 2; in_file++) {
        asked a = {0};
        forward_job j = job_of(&a);
        j.threads = 1;
        forward_bounds b = {.batch = 2, .in_file = in_file};
        hidden_state_slots keep = {
            .fd = hidden_state_slots_open(folder, 2 * bytes, &e), .path = "states", .slots = 2};
        forward_run *r = forward_run_new(&j, &b, &e);
        forward_stream *s = forward_stream_new(r, small, &keep, &e);
        assert_true(forward_stream_embed(s, NULL, &e));
        pass_in_parts(r, s, 0);
        assert_true(forward_stream_pass(s, forward_run_layer(r, small, 1, &e), FORWARD_ATTENTION, NULL, &e));
        a.stop = a.calls + 8;
        assert_false(forward_stream_pass(s, forward_run_layer(r, small, 1, &e), FORWARD_FFN, NULL, &e));
        assert_string_equal(e.text, "enough");
        if (in_file) { /* the same stream goes back to where it was */
            assert_true(forward_stream_resume(s, 1, &e));
            for (size_t i = 1; i < 3; i++) pass_in_parts(r, s, i);
            check_logits(r, s);
            assert_true(forward_stream_embed(s, NULL, &e)); /* into slot 0 */
            pass_in_parts(r, s, 0);
        }
        forward_stream_free(s), forward_run_free(r);

        b.batch = 3, b.in_file = !in_file;
        r = forward_run_new(&j, &b, &e);
        s = forward_stream_new(r, small, &keep, &e);
        assert_true(forward_stream_resume(s, 1, &e));
        for (size_t i = 1; i < 3; i++) pass_in_parts(r, s, i);
        check_logits(r, s);
        forward_stream_free(s), forward_run_free(r);
        close(keep.fd);
    }
}

/* The checksum of a slot is that of its bytes, wherever states are read from, and stays until all of the next
 * layer has been written. */
TEST(sums_are_those_of_the_file) {
    uint64_t bytes = forward_stream_bytes(small, WINDOWS, CONTEXT);
    uint8_t *slot = malloc(bytes);
    for (int in_file = 0; in_file < 2; in_file++)
        for (unsigned slots = 1; slots <= 2; slots++) {
            gq_error e;
            asked a = {0};
            forward_job j = job_of(&a);
            j.threads = 1;
            forward_bounds b = {.batch = 2, .in_file = in_file};
            hidden_state_slots keep = {
                .fd = hidden_state_slots_open(folder, slots * bytes, &e), .path = "states", .slots = slots};
            forward_run *r = forward_run_new(&j, &b, &e);
            forward_stream *s = forward_stream_new(r, small, &keep, &e);
            assert_true(forward_stream_sum(s, 0) == 0 && forward_stream_embed(s, NULL, &e));
            for (size_t i = 0; i < 3; i++) {
                uint64_t before = forward_stream_sum(s, 0);
                assert_true(pread(keep.fd, slot, bytes, (off_t)(i % slots * bytes)) == (ssize_t)bytes);
                assert_true(before == (UINT64_C(1) << 32 | crc32_z(0, slot, bytes)));
                const forward_layer *l = forward_run_layer(r, small, i, &e);
                assert_true(forward_stream_pass(s, l, FORWARD_ATTENTION, NULL, &e));
                assert_true(forward_stream_sum(s, 0) == before);
                assert_true(forward_stream_pass(s, l, FORWARD_FFN, NULL, &e));
                assert_true(forward_stream_sum(s, 0) != before);
            }
            forward_stream_free(s), forward_run_free(r);
            close(keep.fd);
        }
    free(slot);
}

/* With a single slot nothing is left of the states before a layer, and parts go on all the same. */
TEST(one_slot_will_do) {
    gq_error e;
    asked a = {0};
    forward_job j = job_of(&a);
    j.threads = 1;
    forward_bounds b = {.batch = 3, .in_file = true};
    uint64_t bytes = forward_stream_bytes(small, WINDOWS, CONTEXT);
    hidden_state_slots keep = {
        .fd = hidden_state_slots_open(folder, bytes, &e), .path = "states", .slots = 1};
    forward_run *r = forward_run_new(&j, &b, &e);
    forward_stream *s = forward_stream_new(r, small, &keep, &e);
    assert_int_equal(forward_stream_batches(s), 3);
    assert_true(forward_stream_embed(s, NULL, &e));
    for (size_t i = 0; i < 3; i++) {
        for (size_t batch = 0; batch < 3; batch++)
            assert_true(forward_stream_probe(s, batch, forward_run_layer(r, small, i, &e), FORWARD_WHOLE,
                                             NULL, NULL, &e));
        pass_in_parts(r, s, i);
    }
    check_logits(r, s);
    double work = forward_job_work(&j, small, true); /* probes are not told */
    assert_true(a.work > work * (1 - 1e-12) && a.work < work * (1 + 1e-12));
    a.stop = a.calls + 3;
    assert_false(
        forward_stream_probe(s, 0, forward_run_layer(r, small, 0, &e), FORWARD_WHOLE, NULL, NULL, &e));
    assert_string_equal(e.text, "enough");
    forward_stream_free(s), forward_run_free(r);
    close(keep.fd);
}

TEST(a_copy_for_looks_is_counted) {
    forward_job j = job_of(&(asked){0});
    const forward_model *models[] = {small, small};
    for (int in_file = 0; in_file < 2; in_file++) {
        j.memory = in_file ? 0 : UINT64_MAX, j.probes = false;
        forward_bounds plain = forward_bounds_of(&j, models, 2, false);
        j.probes = true;
        forward_bounds probes = forward_bounds_of(&j, models, 2, false);
        uint64_t copy = forward_stride(plain.batch * CONTEXT) * 256 * sizeof(float);
        assert_true(plain.in_file == in_file && probes.batch == plain.batch);
        assert_int_equal(probes.peak - plain.peak, in_file ? 0 : copy);
    }
}

TEST(bounds_keep_to_the_memory) {
    forward_job j = job_of(&(asked){0});
    const forward_model *models[] = {small, small};
    forward_bounds most = forward_bounds_of(&j, models, 2, true);
    assert_true(most.batch == WINDOWS && !most.in_file && most.peak < 1u << 30);
    uint64_t least = most.peak;
    for (uint64_t memory = most.peak; memory > most.peak / 4; memory -= most.peak / 50) {
        j.memory = memory;
        forward_bounds b = forward_bounds_of(&j, models, 2, true);
        assert_true(b.batch >= 1 && b.batch <= WINDOWS);
        assert_true(b.peak <= memory || (b.batch == 1 && b.in_file));
        assert_true(b.peak <= least);
        least = b.peak;
    }
    j.memory = 0;
    assert_true(forward_bounds_of(&j, models, 2, true).in_file);
    j.extra_bytes = 1 << 20;
    assert_int_equal(forward_bounds_of(&j, models, 2, true).peak - least, 1 << 20);
    j.windows = SIZE_MAX / 2; /* never run, and counted without harm */
    assert_true(forward_bounds_of(&j, models, 2, true).in_file);
}

TEST(batches_have_as_many_tokens_as_asked_for) {
    forward_job j = job_of(&(asked){0});
    const forward_model *of = small;
    j.windows = 1 << 20, j.memory = UINT64_MAX; /* never run */
    assert_int_equal(forward_bounds_of(&j, &of, 1, false).batch, 2048 / CONTEXT);
    j.batch_tokens = forward_batch_tokens(of); /* no mixture */
    assert_int_equal(forward_bounds_of(&j, &of, 1, false).batch, 2048 / CONTEXT);
    j.batch_tokens = 5000;
    assert_int_equal(forward_bounds_of(&j, &of, 1, false).batch, 5000 / CONTEXT);
    uint64_t whole = forward_peak_in_file(&j, &of, 1, 5000 / CONTEXT, 0);
    j.memory = whole;
    forward_bounds b = forward_bounds_of(&j, &of, 1, false);
    assert_true(b.in_file && b.batch == 5000 / CONTEXT && b.peak == whole);
    j.memory = whole - 1;
    assert_true(forward_bounds_of(&j, &of, 1, false).batch < 5000 / CONTEXT);
}

typedef struct counted {
    forward_mark marks[TOKENS];
    size_t n;
} counted;

/* Notes that a prediction counts as much as the token that is predicted, of the second half of a window. */
static bool prediction_counts(void *data, const kld *d, size_t position, size_t next, double weight,
                              gq_error *e) {
    counted *c = data;
    (void)d, (void)position, (void)e;
    assert_true(next % CONTEXT > CONTEXT / 2);
    assert_true(weight * FORWARD_WEIGHT_ONE == c->marks[next].weight);
    c->n++;
    return true;
}

TEST(an_encoder_with_a_decoder_predicts_the_second_half) {
    gq_error e;
    asked a = {0};
    counted c = {.n = 0};
    model_save(variant_model(variant_named("t5"), GGUF_F32, NULL), path("halves.gguf"));
    model_source g = open_model(path("halves.gguf"));
    forward_model *m = forward_model_new(&g, &e);
    size_t vocabulary = forward_model_sizes(m)->vocabulary;
    uint32_t own[TOKENS];
    for (uint32_t i = 0; i < TOKENS; i++) {
        own[i] = ids[i] % (uint32_t)vocabulary;
        c.marks[i] = (forward_mark){.position = i % CONTEXT, .weight = 1 + i};
    }
    forward_job j = job_of(&a);
    j.ids = own, j.marks = c.marks;
    forward_run *r = forward_run_new(&j, &(forward_bounds){.batch = 3}, &e);
    forward_stream *s[] = {forward_stream_new(r, m, NULL, &e), forward_stream_new(r, m, NULL, &e)};
    for (size_t i = 0; i < 2; i++) assert_true(s[i] && forward_stream_embed(s[i], NULL, &e));
    for (size_t layer = 0; layer < forward_model_sizes(m)->layers; layer++) {
        const forward_layer *l = forward_run_layer(r, m, layer, &e);
        for (size_t i = 0; i < 2; i++)
            assert_true(l && forward_stream_pass(s[i], l, FORWARD_WHOLE, NULL, &e));
    }
    forward_predictions to = {.job = &j, .model = m, .at = prediction_counts, .data = &c};
    assert_true(forward_run_predictions(r, s, 2, &to, &e));
    assert_int_equal(c.n, WINDOWS * (CONTEXT / 2 - 1));
    for (size_t i = 0; i < 2; i++) forward_stream_free(s[i]);
    forward_run_free(r), forward_model_free(m), model_close(&g);
}

TEST(what_cannot_be_kept_is_said) {
    gq_error e;
    asked a = {0};
    forward_job j = job_of(&a);
    forward_run *r = forward_run_new(&j, &(forward_bounds){.batch = 2, .in_file = true}, &e);
    assert_null(forward_stream_new(r, small, NULL, &e));
    assert_non_null(strstr(e.text, "do not fit"));
    assert_int_equal(hidden_state_slots_open(folder, INT64_MAX, &e), -1);
    assert_non_null(strstr(e.text, "9223372036854775807 bytes"));
    assert_int_equal(hidden_state_slots_open(path("nowhere"), 1, &e), -1);
    /* a file that another process has cut */
    hidden_state_slots keep = {
        .fd = hidden_state_slots_open(folder, forward_stream_bytes(small, WINDOWS, CONTEXT), &e),
        .path = "FILE",
        .slots = 1};
    forward_stream *s = forward_stream_new(r, small, &keep, &e);
    assert_true(forward_stream_embed(s, NULL, &e) && ftruncate(keep.fd, 12345) == 0);
    assert_false(forward_stream_pass(s, forward_run_layer(r, small, 0, &e), FORWARD_WHOLE, NULL, &e));
    assert_non_null(strstr(e.text, "FILE: hidden states cannot be read"));
    forward_stream_free(s), forward_run_free(r);
    close(keep.fd);
}

int main(void) { return tests_run(start, finish); }
