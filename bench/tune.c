/* bench-tune: chooses the numbers that steer a search (codec_search): tries others on the reference data, and
 * prints the error and the cost of each.
 *
 * A try encodes rows of the reference data step by step with these numbers, decodes the blocks again, and
 * takes the relative error and the least processor time per weight of a few repetitions. Tries are sorted by
 * cost; a star marks one that no cheaper try equals. With --order it makes a list of scale pairs instead:
 * each time the pair that lowers the error most after those already in the list. */
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "bench/reference_data.h"
#include "bench/turns.h"
#include "codec/codec.h"

static const char usage[] =
    "usage: bench-tune [options] TYPE [MEMBER=VALUE[,VALUE...]...]\n"
    "Tries every combination of the values, else the present numbers and, of each that the type's search "
    "uses, smaller\n"
    "and larger ones. A star: nothing that was tried is both cheaper and better.\n"
    "  --effort NAME      where to start from: fast, default (default) or best\n"
    "  --importance       with importance data\n"
    "  --order MEMBER     find a new order for a list (placings or neighbours) instead, each pair the one "
    "that lowers\n"
    "                     the error most after those before it, with and without importance taken together\n"
    "  --isa LEVEL        kernels of this level, not of the best one (or set GQUANT_ISA)\n"
    "  --repeat N         least cost of N measurements (3)\n"
    "  --rows N           rows of the reference data to use (64)\n"
    "  --help             this text\n";

enum { COLS = REFERENCE_COLS, MOST_TRIES = 4096, ORDERED = 24 };

typedef struct search_member {
    const char *name;
    size_t at;  /* in codec_search */
    bool whole; /* an int, not a float */
} search_member;
#define MEMBER(name, whole) \
    { #name, offsetof(codec_search, name), whole }
static const search_member members[] = {
    MEMBER(lower.first, false),  MEMBER(lower.step, false), MEMBER(lower.tries, true),
    MEMBER(upper.first, false),  MEMBER(upper.step, false), MEMBER(upper.tries, true),
    MEMBER(moves, true),         MEMBER(move_step, false),  MEMBER(placings.n, true),
    MEMBER(placing_step, false), MEMBER(polish, true),      MEMBER(factors, true),
    MEMBER(neighbours.n, true),  MEMBER(reach, true),       MEMBER(grid.tries, true),
    MEMBER(grid.ratio, false),
};
enum { N_MEMBERS = sizeof members / sizeof *members };

static double member_get(const codec_search *s, const search_member *m) {
    int whole;
    float real;
    memcpy(&whole, (const char *)s + m->at, sizeof whole),
        memcpy(&real, (const char *)s + m->at, sizeof real);
    return m->whole ? whole : (double)real;
}
static void member_set(codec_search *s, const search_member *m, double value) {
    int whole = (int)value;
    float real = (float)value;
    memcpy((char *)s + m->at, m->whole ? (const void *)&whole : &real, sizeof real);
}
static const search_member *member_named(const char *name, size_t length) {
    for (size_t i = 0; i < N_MEMBERS; i++)
        if (strlen(members[i].name) == length && !strncmp(members[i].name, name, length)) return &members[i];
    return NULL;
}

/* ---- cost and error of a search ---- */
typedef struct tuner {
    const kernels *kernels;
    const tensor_type *type;
    const codec_columnwise *columnwise;
    codec_effort effort;
    bool weighted;
    int repeats;
    size_t rows;
    float *weights, *importance;
    float *x, *decoded; /* one batch: [column][lane] */
    uint8_t *blocks;
    float *row;
    void *state;
} tuner;

/* A batch's blocks at a column: sums its errors, returns the seconds that the search took. */
static double encode_batch(const tuner *t, const codec_search *search, size_t row, size_t col, bool weighted,
                           double *e2, double *x2) {
    size_t lanes = t->kernels->lanes, n = t->type->block_elements;
    const float *w = weighted ? t->importance + col : NULL;
    float gain[CODEC_MOST_LANES];
    for (size_t k = 0; k < lanes; k++)
        for (size_t i = 0; i < n; i++) t->x[i * lanes + k] = t->weights[(row + k) * COLS + col + i];
    double begin = turns_cpu_seconds();
    t->columnwise->choose(t->state, t->x, w, search);
    double seconds = turns_cpu_seconds() - begin;
    for (size_t i = 0; i < n; i += t->columnwise->group)
        t->columnwise->round(t->state, i, t->x + i * lanes, t->decoded + i * lanes);
    t->columnwise->gain_kept(t->state, t->x, t->decoded, w, gain);
    t->columnwise->finish(t->state, gain, t->blocks, t->type->block_bytes, lanes);
    for (size_t k = 0; k < lanes; k++) {
        t->kernels->codecs[t->type->id].decode(t->blocks + k * t->type->block_bytes, 0, t->row, n);
        for (size_t i = 0; i < n; i++) {
            double v = (double)t->x[i * lanes + k], e = v - (double)t->row[i], wi = w ? (double)w[i] : 1;
            *e2 += wi * e * e, *x2 += wi * v * v;
        }
    }
    return seconds;
}

typedef struct result {
    double error, cost; /* relative error; ns per weight */
    bool beaten;
    char text[200];
} result;

static result try_search(const tuner *t, const codec_search *search, bool weighted, int repeats) {
    result r = {.cost = INFINITY};
    size_t lanes = t->kernels->lanes, rows = t->rows / lanes * lanes;
    for (int i = 0; i < repeats; i++) {
        double e2 = 0, x2 = 0, seconds = 0;
        for (size_t row = 0; row < rows; row += lanes)
            for (size_t col = 0; col < COLS; col += t->type->block_elements)
                seconds += encode_batch(t, search, row, col, weighted, &e2, &x2);
        r.error = sqrt(e2 / x2), r.cost = fmin(r.cost, 1e9 * seconds / ((double)rows * COLS));
    }
    return r;
}

/* ---- combinations ---- */
typedef struct results {
    size_t n;
    result list[MOST_TRIES];
} results;

static void add_result(const tuner *t, results *all, const codec_search *search, const char *text) {
    if (all->n == MOST_TRIES) return;
    result *r = &all->list[all->n++];
    *r = try_search(t, search, t->weighted, t->repeats);
    snprintf(r->text, sizeof r->text, "%s", text);
}

/* Lists end where the highest effort uses all of them. */
static double member_limit(const tuner *t, const search_member *m) {
    bool list = m->at == offsetof(codec_search, placings.n) || m->at == offsetof(codec_search, neighbours.n);
    return list ? member_get(&t->columnwise->searches[EFFORT_BEST][t->weighted], m) : INFINITY;
}

/* All values of the first of `n` texts "MEMBER=VALUE,...", and for each those of the others. */
static bool try_combinations(const tuner *t, results *all, codec_search *search, char **texts, int n,
                             const char *before) {
    if (n == 0) return add_result(t, all, search, before), true;
    size_t length = strcspn(*texts, "=");
    const search_member *m = member_named(*texts, length);
    if (!m || !(*texts)[length]) return fprintf(stderr, "bench-tune: no number named %s\n", *texts), false;
    for (char *at = *texts + length; *at;) {
        char *end, text[200];
        double value = strtod(at + 1, &end);
        if (end == at + 1 || (*end && *end != ','))
            return fprintf(stderr, "bench-tune: %s: not a number\n", at), false;
        if (value > member_limit(t, m))
            return fprintf(stderr, "bench-tune: the list %s is shorter\n", m->name), false;
        member_set(search, m, value);
        snprintf(text, sizeof text, "%s%s%s=%g", before, *before ? " " : "", m->name, value);
        if (!try_combinations(t, all, search, texts + 1, n - 1, text)) return false;
        at = end;
    }
    return true;
}

/* Each number that is in use, alone: a little smaller and larger, and by half. */
static void try_variations(const tuner *t, results *all, const codec_search *present) {
    add_result(t, all, present, "as it is");
    for (size_t i = 0; i < N_MEMBERS; i++) {
        double now = member_get(present, &members[i]), last = now;
        static const double by[] = {0.5, 0.8, 1.25, 1.5};
        for (size_t k = 0; now != 0 && k < sizeof by / sizeof *by; k++) {
            codec_search search = *present;
            double value = members[i].whole ? rint(now * by[k]) : now * by[k];
            char text[200];
            if (value == now || value == last || value > member_limit(t, &members[i])) continue;
            last = value;
            member_set(&search, &members[i], value);
            snprintf(text, sizeof text, "%s=%g", members[i].name, value);
            add_result(t, all, &search, text);
        }
    }
}

static int by_cost(const void *a, const void *b) {
    double x = ((const result *)a)->cost, y = ((const result *)b)->cost;
    return (x > y) - (x < y);
}

static void print_results(results *all) {
    qsort(all->list, all->n, sizeof *all->list, by_cost);
    double best = INFINITY;
    puts("  ns/weight      error");
    for (size_t i = 0; i < all->n; i++) {
        const result *r = &all->list[i];
        printf("%c %9.3f %10.6f  %s\n", r->error < best ? '*' : ' ', r->cost, r->error, r->text);
        best = fmin(best, r->error);
    }
}

/* ---- orders ---- */
static int print_order(const tuner *t, codec_search *search, const char *name) {
    static int8_t list[ORDERED][2];
    codec_pairs *pairs = !strcmp(name, "placings")     ? &search->placings
                         : !strcmp(name, "neighbours") ? &search->neighbours
                                                       : NULL;
    if (!pairs || !pairs->list)
        return fprintf(stderr, "bench-tune: %s has no list %s\n", t->type->name, name), 1;
    pairs->list = (const int8_t(*)[2])list;
    for (pairs->n = 1; pairs->n <= ORDERED; pairs->n++) {
        int8_t *last = list[pairs->n - 1], best[2] = {0, 0};
        double least = INFINITY;
        for (int8_t a = -5; a <= 5; a++)
            for (int8_t b = -5; b <= 5; b++) {
                last[0] = a, last[1] = b;
                double error = try_search(t, search, false, 1).error + try_search(t, search, true, 1).error;
                if (error < least) least = error, best[0] = a, best[1] = b;
            }
        last[0] = best[0], last[1] = best[1];
        printf("{%d, %d}, /* %.6f */\n", best[0], best[1], least / 2);
        fflush(stdout);
    }
    return 0;
}

static void *tune_allocate(size_t bytes) {
    void *memory = memory_lines(1, bytes, NULL);
    if (!memory) fputs("bench-tune: out of memory\n", stderr), exit(1);
    return memory;
}

static void tune_make_buffers(tuner *t) {
    size_t batch = 4 * (size_t)t->type->block_elements * t->kernels->lanes;
    t->weights = tune_allocate(4 * (size_t)REFERENCE_ROWS * COLS),
    t->importance = tune_allocate(4 * (size_t)COLS);
    t->x = tune_allocate(batch), t->decoded = tune_allocate(batch), t->blocks = tune_allocate(batch),
    t->row = tune_allocate(batch);
    t->state = tune_allocate(t->columnwise->state_bytes);
    reference_data(t->weights, t->importance);
}

int main(int argc, char **argv) {
    static const struct option options[] = {{"effort", 1, NULL, 'e'}, {"importance", 0, NULL, 'w'},
                                            {"order", 1, NULL, 'o'},  {"isa", 1, NULL, 'i'},
                                            {"repeat", 1, NULL, 'r'}, {"rows", 1, NULL, 'n'},
                                            {"help", 0, NULL, 'h'},   {0}};
    static const char *const efforts[] = {"fast", "default", "best"};
    static results all;
    tuner t = {.kernels = kernels_select(), .effort = EFFORT_DEFAULT, .repeats = 3, .rows = 64};
    const char *list = NULL;
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) >= 0;) {
        if (o == 'w') t.weighted = true;
        if (o == 'o') list = optarg;
        if (o == 'i') t.kernels = kernels_level(optarg);
        if (o == 'r') t.repeats = atoi(optarg);
        if (o == 'n') t.rows = (size_t)strtoul(optarg, NULL, 10);
        if (o == 'e')
            for (int i = 0; i < 3; i++)
                if (!strcmp(optarg, efforts[i])) t.effort = (codec_effort)i;
        if (o == 'h') return fputs(usage, stdout) < 0;
        if (o == '?') return fputs(usage, stderr), 2;
    }
    t.type = optind < argc ? tensor_type_named(argv[optind]) : NULL;
    t.columnwise = t.type && t.kernels ? t.kernels->codecs[t.type->id].columnwise : NULL;
    if (!t.columnwise || t.repeats < 1 || t.rows < t.kernels->lanes || t.rows > REFERENCE_ROWS)
        return fputs(usage, stderr), 2;
    tune_make_buffers(&t);
    codec_search search = t.columnwise->searches[t.effort][t.weighted];
    if (list) return print_order(&t, &search, list);
    if (optind + 1 < argc && !try_combinations(&t, &all, &search, argv + optind + 1, argc - optind - 1, ""))
        return 2;
    if (optind + 1 == argc) try_variations(&t, &all, &search);
    print_results(&all);
    return 0;
}
