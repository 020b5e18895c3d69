/* Several ranks do what one process does, with the same bytes, and end together whatever fails on one of
 * them. */
#include "tests/support/ranks.h"

#include "base/comm/fold.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"
#include "tests/support/runs.h"

/* Nodes that a fold of the leaves from begin to end - 1 has at its end: takes off the largest whole subtree at
 * the front, as often as there is one. */
static size_t fold_count_nodes(uint64_t begin, uint64_t end) {
    size_t n = 0;
    while (begin < end) {
        uint64_t leaves = begin ? begin & -begin : UINT64_C(1) << 63;
        while (leaves > end - begin) leaves /= 2;
        begin += leaves, n++;
    }
    return n;
}

/* ---- shares ---- */

/* In each turn all is shared out, nobody has more than one thing more than others, and after as many turns as
 * there are ranks all had the same. */
TEST(turns_even_out_what_is_shared) {
    for (int ranks = 1; ranks <= RANKS_MOST; ranks++) {
        gq_comm *comm = gq_comm_new(&(gq_transport){.size = sizeof(gq_transport), .ranks = ranks}, NULL);
        assert_non_null(comm);
        for (uint64_t n = 0; n < 40; n++) {
            uint64_t had[RANKS_MOST] = {0};
            for (uint64_t turn = 5; turn < 5 + (uint64_t)ranks; turn++) {
                assert_int_equal(comm_share_rotated(comm, n, turn, 0), 0);
                assert_int_equal(comm_share_rotated(comm, n, turn, ranks), n);
                for (int r = 0; r < ranks; r++) {
                    uint64_t share =
                        comm_share_rotated(comm, n, turn, r + 1) - comm_share_rotated(comm, n, turn, r);
                    assert_in_range(share, n / (uint64_t)ranks, (n + (uint64_t)ranks - 1) / (uint64_t)ranks);
                    had[r] += share;
                }
            }
            for (int r = 0; r < ranks; r++) assert_int_equal(had[r], n);
        }
        gq_comm_free(comm);
    }
}

/* ---- the tree of sums ---- */

enum { LEAVES = 41 };

/* The sum over leaves begin to end - 1, of which only some exist; false: none does. */
static bool tree_sum(const double *leaf, const bool *there, uint64_t begin, uint64_t size, double *sum) {
    double left = 0, right = 0;
    if (begin >= LEAVES) return false;
    if (size == 1) return *sum = leaf[begin], there[begin];
    bool has_left = tree_sum(leaf, there, begin, size / 2, &left),
         has_right = tree_sum(leaf, there, begin + size / 2, size / 2, &right);
    *sum = has_left && has_right ? left + right : has_left ? left : right;
    return has_left || has_right;
}

static void fold_share(fold *f, const double *leaf, const bool *there, uint64_t begin, uint64_t end) {
    *f = (fold){.begin = begin, .length = 1};
    for (uint64_t i = begin; i < end; i++)
        if (there[i]) *fold_begin_leaf(f, i, NULL) += leaf[i];
    fold_end(f, end);
    assert_true(f->capacity <= fold_most_nodes(begin, end));
}

TEST(any_shares_give_the_same_tree) {
    double leaf[LEAVES], sum;
    bool there[LEAVES];
    for (uint64_t seed = 0; seed < 60; seed++) {
        float *random = random_values(2 * LEAVES, seed + 1);
        for (size_t i = 0; i < LEAVES; i++)
            leaf[i] = (double)random[i] * (double)(1 << (i * 7 % 29)),
            there[i] = seed == 0 || random[LEAVES + i] > (seed % 2 ? -.4f : .2f);
        bool some = tree_sum(leaf, there, 0, 64, &sum);
        for (uint64_t a = 0; a <= LEAVES; a += 1 + seed % 3)
            for (uint64_t b = a; b <= LEAVES; b += 1 + seed % 5) {
                fold of[3];
                uint64_t begins[] = {0, a, b, LEAVES};
                for (size_t i = 0; i < 3; i++) fold_share(&of[i], leaf, there, begins[i], begins[i + 1]);
                if (seed == 0)
                    for (size_t i = 0; i < 3; i++)
                        assert_int_equal(of[i].n, fold_count_nodes(begins[i], begins[i + 1]));
                for (size_t i = 3; i-- > 1;)
                    for (size_t k = 0; k < of[i].n; k++)
                        assert_true(fold_append(&of[i - 1], of[i].nodes[k].first, of[i].nodes[k].sums, NULL));
                const double *total = fold_total(&of[0]);
                assert_true(!total == !some && (!total || *total == sum));
                for (size_t i = 0; i < 3; i++) fold_free(&of[i]);
            }
        free(random);
    }
}

/* ---- a model on ranks ---- */

enum { CONTEXT = 64, WINDOWS = 41, TOKENS = CONTEXT * WINDOWS, VOCABULARY = 512 };

static char text[8 * TOKENS];

FIXTURE(start) {
    folder = temporary_folder();
    write_run_models(path("model.gguf"), 2, path("experts.gguf"));
    quantize(path("model.gguf"), path("copy.gguf"), "Q4_0", 1);
    for (size_t i = 0, at = 0; i < TOKENS; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%zu ", i * i * 31 % VOCABULARY);
    return 0;
}

/* A short text has three groups of tokens, the last one of a single window. */
static gq_text the_text(bool is_short) {
    return (gq_text){.tokens = is_short ? 17 * CONTEXT : 0,
                     .name = "ids",
                     .bytes = text,
                     .n = strlen(text),
                     .ids = true,
                     .context = CONTEXT};
}

/* A request, and what its ranks had. */
typedef struct ranks_job {
    char model[256], copy[256], out[256];
    int threads;
    uint64_t memory;
    bool is_short, read_once;
    bool stops; /* the caller cancels, on rank 1, in the second layer */
    bool ok[RANKS_MOST];
    gq_error e[RANKS_MOST];
    uint64_t sent[RANKS_MOST], collectives;
    gq_importance_facts facts;
    gq_evaluated evaluated[2];
    gq_evaluation_facts evaluation;
} ranks_job;

static void note_half(void *data, const gq_progress *p) {
    if (p->bytes_done * 2 > p->bytes_total) *(bool *)data = true;
}
static bool is_half(void *data) { return *(bool *)data; }

static gq_importance_plan *plan_importance(const ranks_job *j, gq_comm *comm, gq_error *e) {
    gq_text t = the_text(j->is_short);
    return gq_importance_plan_new(&(gq_importance_request){.size = sizeof(gq_importance_request),
                                                           .model = j->model,
                                                           .texts = &t,
                                                           .n_texts = 1,
                                                           .out = j->out,
                                                           .output = true,
                                                           .force = true,
                                                           .threads = j->threads,
                                                           .memory = j->memory,
                                                           .comm = comm,
                                                           .read_once = j->read_once},
                                  e);
}

static void compute_importance(void *data, gq_comm *comm) {
    ranks_job *j = data;
    int rank = gq_comm_rank(comm);
    gq_error *e = &j->e[rank];
    bool half = false;
    gq_callbacks callbacks = {
        .size = sizeof callbacks, .user = &half, .progress = note_half, .cancelled = is_half};
    gq_importance_plan *p = plan_importance(j, comm, e);
    gq_imatrix *m = p ? gq_importance_compute(p, j->stops && rank == 1 ? &callbacks : NULL, e) : NULL;
    j->ok[rank] = gq_comm_agree(comm, m, e);
    j->sent[rank] = gq_comm_bytes_sent(comm);
    if (comm && rank == 1) j->collectives = comm_collectives(comm);
    if (p && rank == 0) j->facts = *gq_importance_summary(p);
    gq_imatrix_free(m);
    gq_importance_plan_free(p);
}

static void evaluate_copy(void *data, gq_comm *comm) {
    ranks_job *j = data;
    int rank = gq_comm_rank(comm);
    const char *copy = j->copy;
    char logits[300], base[300];
    snprintf(logits, sizeof logits, "%s.logits", j->out), snprintf(base, sizeof base, "%s.base", j->out);
    gq_evaluation *v = gq_evaluate(&(gq_evaluation_request){.size = sizeof(gq_evaluation_request),
                                                            .base_model = j->model,
                                                            .quants = &copy,
                                                            .n_quants = 1,
                                                            .text = the_text(j->is_short),
                                                            .threads = j->threads,
                                                            .logits = logits,
                                                            .base_out = base,
                                                            .replace_logits = true,
                                                            .comm = comm,
                                                            .read_once = j->read_once},
                                   &j->e[rank]);
    size_t n;
    j->ok[rank] = gq_comm_agree(comm, v, &j->e[rank]);
    if (v && rank == gq_comm_ranks(comm) - 1)
        memcpy(j->evaluated, gq_evaluation_models(v, &n), sizeof j->evaluated);
    if (v && rank == 0) j->evaluation = *gq_evaluation_summary(v);
    j->sent[rank] = gq_comm_bytes_sent(comm);
    gq_evaluation_free(v);
}

static ranks_job job_of(const char *name, const char *out, int threads) {
    ranks_job j = {.threads = threads};
    snprintf(j.model, sizeof j.model, "%s", path(name)),
        snprintf(j.copy, sizeof j.copy, "%s", path("copy.gguf"));
    snprintf(j.out, sizeof j.out, "%s", path(out));
    return j;
}

static void assert_all(const ranks_job *j, int n, bool ok) {
    for (int i = 0; i < n; i++)
        if (j->ok[i] != ok) fail_msg("rank %d of %d: %s", i, n, j->e[i].text);
    for (int i = 1; !ok && i < n; i++) /* rank 0 adds what is kept */
        assert_memory_equal(j->e[i].text, j->e[0].text, strlen(j->e[i].text));
}

/* Makes the files of one process. */
static void expect_importance(const char *name, const char *out, bool is_short) {
    ranks_job j = job_of(name, out, 1);
    j.is_short = is_short;
    compute_importance(&j, NULL);
    assert_all(&j, 1, true);
}

TEST(importance_is_that_of_one_process) {
    static const int ranks[] = {1, 2, 3, 4, 7};
    static const char *const models[] = {"model.gguf", "experts.gguf"};
    for (size_t m = 0; m < 2; m++) {
        expect_importance(models[m], "one.gguf", false);
        for (size_t i = 0; i < 5; i++) {
            ranks_job j = job_of(models[m], "many.gguf", 1 + (int)i % 2);
            ranks_run(ranks[i], compute_importance, &j, -1, 0, false);
            assert_all(&j, ranks[i], true);
            assert_same_file(path("one.gguf"), path("many.gguf"));
            assert_int_equal(j.facts.ranks, ranks[i]);
        }
    }
    assert_false(exists(path(".many.gguf.gquant-states")));
}

/* docs/internals/ranks.md has the formula. Sites of a layer: inputs of q, k and v; of the attention's output; of
 * gate and up; of down. */
TEST(ranks_send_what_the_documents_say) {
    enum { HEAD = 24, SITE = 24 + 8 + 8, LAYERS = 2 };
    static const uint64_t columns[] = {256, 256, 256, 512};
    ranks_job j = job_of("model.gguf", "many.gguf", 1);
    ranks_run(2, compute_importance, &j, -1, 0, false);
    assert_all(&j, 2, true);
    uint64_t nodes = fold_count_nodes(3, 6), parcels = 0, sums = 8 * (LAYERS + 1), sizes = 8 * (LAYERS + 1);
    for (size_t i = 0; i < 4; i++) parcels += LAYERS * (SITE + nodes * 8 * (1 + columns[i]));
    parcels += SITE + nodes * 8 * (1 + 256); /* the output matrix */
    assert_int_equal(nodes, 2);
    assert_int_equal(j.sent[1], HEAD * j.collectives + 4 * 8 + sums + sizes + parcels);
}

/* Some ranks have no window at all: 41 windows of 64 tokens are six groups. */
TEST(ranks_without_windows_change_nothing) {
    expect_importance("model.gguf", "one.gguf", false);
    ranks_job j = job_of("model.gguf", "many.gguf", 1);
    ranks_run(9, compute_importance, &j, -1, 0, false);
    assert_all(&j, 9, true);
    assert_same_file(path("one.gguf"), path("many.gguf"));
    uint64_t sent = j.sent[0];
    j.read_once = true;
    ranks_run(9, compute_importance, &j, -1, 0, false);
    assert_all(&j, 9, true);
    assert_same_file(path("one.gguf"), path("many.gguf"));
    assert_true(j.sent[0] > sent + 2 * 256 * 256 * 2);
}

static void assert_same_estimate(gq_estimate a, gq_estimate b) {
    assert_memory_equal(&a.value, &b.value, sizeof a.value);
    assert_memory_equal(&a.error, &b.error, sizeof a.error);
}

TEST(evaluation_is_that_of_one_process) {
    ranks_job one = job_of("model.gguf", "one", 1);
    evaluate_copy(&one, NULL);
    assert_all(&one, 1, true);
    static const int ranks[] = {2, 3, 9};
    for (size_t i = 0; i < 3; i++) {
        int n = ranks[i];
        ranks_job j = job_of("model.gguf", "many", 1 + n % 2);
        j.read_once = n == 9;
        ranks_run(n, evaluate_copy, &j, -1, 0, false);
        assert_all(&j, n, true);
        assert_int_equal(j.evaluation.ranks, n);
        for (int m = 0; m < 2; m++) {
            assert_same_estimate(one.evaluated[m].perplexity, j.evaluated[m].perplexity);
            assert_same_estimate(one.evaluated[m].kld, j.evaluated[m].kld);
            assert_memory_equal(one.evaluated[m].quantiles, j.evaluated[m].quantiles,
                                sizeof one.evaluated[m].quantiles);
        }
        assert_same_file(path("one.logits"), path("many.logits"));
        assert_same_file(path("one.base"), path("many.base"));
    }
}

/* ---- failures ---- */

/* Every collective fails once, on the first rank or on another, before and after: all ranks end with that
 * error, nothing is half-written, and the same request goes on. */
TEST(whatever_fails_ends_all) {
    static const struct {
        rank_work *work;
        const char *out;
    } jobs[] = {{compute_importance, "broken.gguf"}, {evaluate_copy, "broken"}};
    for (size_t k = 0; k < 2; k++) {
        ranks_job j = job_of("model.gguf", "whole.gguf", 1);
        j.is_short = true;
        uint64_t n = ranks_run(3, jobs[k].work, &j, -1, 0, false);
        assert_all(&j, 3, true);
        assert_true(n > 5);
        for (uint64_t i = 0; i + 1 < n; i++)
            for (int after = 0; after < 2; after++) {
                j = job_of("model.gguf", jobs[k].out, 1), j.is_short = true;
                remove(path(".broken.gguf.gquant-states"));
                ranks_run(3, jobs[k].work, &j, i % 2 ? 0 : 2, i, after);
                assert_all(&j, 3, false);
                assert_non_null(strstr(j.e[0].text, "was made to fail on rank"));
                assert_false(exists(path("broken.logits")) && i + 4 < n);
            }
    }
    ranks_job j = job_of("model.gguf", "broken.gguf", 1);
    j.is_short = true;
    compute_importance(&j, NULL);
    assert_all(&j, 1, true);
    expect_importance("model.gguf", "one.gguf", true);
    assert_same_file(path("one.gguf"), path("broken.gguf"));
}

/* One rank's caller stops it; others go on from there, with another number of ranks. */
TEST(what_one_rank_stops_others_continue) {
    static const int ranks[] = {1, 2, 5};
    expect_importance("model.gguf", "one.gguf", true);
    for (size_t i = 0; i < 3; i++) {
        ranks_job j = job_of("model.gguf", "stopped.gguf", 1);
        remove(path("stopped.gguf"));
        j.is_short = j.stops = true;
        ranks_run(3, compute_importance, &j, -1, 0, false);
        assert_all(&j, 3, false);
        assert_int_equal(j.e[0].status, GQ_INTERRUPTED);
        assert_false(exists(path("stopped.gguf")));
        assert_true(exists(path(".stopped.gguf.gquant-states")));
        j.stops = false;
        ranks_run(ranks[i], compute_importance, &j, -1, 0, false);
        assert_all(&j, ranks[i], true);
        assert_int_equal(j.facts.layers_finished, 1);
        assert_same_file(path("one.gguf"), path("stopped.gguf"));
    }
}

/* Ranks that were given different things say so. */
static void compute_other_text(void *data, gq_comm *comm) {
    ranks_job j = *(ranks_job *)data;
    int rank = gq_comm_rank(comm);
    if (rank == 1) snprintf(j.model, sizeof j.model, "%s", path("experts.gguf"));
    compute_importance(&j, comm);
    ((ranks_job *)data)->ok[rank] = j.ok[rank], ((ranks_job *)data)->e[rank] = j.e[rank];
}

TEST(ranks_with_different_models_are_refused) {
    ranks_job j = job_of("model.gguf", "never.gguf", 1);
    ranks_run(3, compute_other_text, &j, -1, 0, false);
    assert_all(&j, 3, false);
    assert_non_null(strstr(j.e[0].text, "rank 1 has another model, text or build than rank 0"));
    assert_false(exists(path("never.gguf")));
}

int main(void) { return tests_run(start, folder_remove); }
