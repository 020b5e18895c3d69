/* Measures how fast a model's matrices are multiplied with a vector on this machine. The matrices that one
 * token needs are listed (of experts, as many as it uses), and their rows are cut into runs of about 256 KiB.
 * Up to 1 GiB of runs is read into memory at a time, a batch, which is larger than any cache. In a pass all
 * threads go through the runs of a batch, small batches several times, so that a pass lasts at least a tenth of
 * a second. Turns of products and of reading the same bytes alternate, three each, and the fastest counts.
 * Times of batches are added up; a pass's time is divided among types by the time that threads spent on them.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/sized.h"
#include "codec/vector.h"
#include "gguf/facts.h"
#include "mixes/mixes.h"
#include "quantize/quantize.h"
#include "quantize/strips/strips.h"

struct gq_speed {
    size_t n;
    gq_speed_file *files;
    warning_list warnings;
    int threads;
};

/* ---- what a token needs ---- */

/* Tensors that are not multiplied: a token reads rows of them, or they are no matrices. */
static const char *const not_multiplied[] = {"token_embd.weight", "per_layer_token_embd.weight",
                                             "position_embd.weight", "token_types.weight"};
static const char *const not_matrices[] = {"_norm", "conv1d", "shortconv.conv."};

static bool is_multiplied(const model_source *m, const model_tensor *t) {
    const size_t n = strlen(t->name), end = strlen(".weight");
    if (t->n_dims < 2 || n < end || strcmp(t->name + n - end, ".weight") != 0) return false;
    /* The embedding serves as output matrix where there is no other. */
    if (!strcmp(t->name, not_multiplied[0])) return !model_tensor_named(m, "output.weight");
    for (size_t i = 1; i < sizeof not_multiplied / sizeof *not_multiplied; i++)
        if (!strcmp(t->name, not_multiplied[i])) return false;
    for (size_t i = 0; i < sizeof not_matrices / sizeof *not_matrices; i++)
        if (strstr(t->name, not_matrices[i])) return false;
    return true;
}

/* Rows of a tensor that a token is multiplied with: of experts, as many as are used at once. */
static uint64_t rows_used(const model_facts *facts, const model_tensor *t) {
    return t->ne[1] * mix_matrices_met(t->name, t->ne, facts);
}

/* ---- a batch of a model's runs, in memory ---- */

enum {
    MOST_MEMORY = 1 << 30, /* bytes of a batch: more than any cache */
    RUN_BYTES = 256 << 10, /* bytes of rows that a thread takes at once, about */
    RUN_ROWS = 4096,       /* at most */
    PASSES = 3,            /* the fastest of which counts */
    MOST_ROUNDS = 1 << 20,
};
#define SHORTEST 0.1 /* seconds that a pass lasts at least */

typedef struct speed_run { /* of rows */
    const model_tensor *tensor;
    uint64_t first; /* element */
    size_t rows;
    uint8_t *blocks;
} speed_run;

typedef struct speed_rows {
    const model_source *model;
    const kernels *kernels;
    codec_vector vector;
    uint8_t *memory;
    size_t size, used;
    speed_run *runs;
    size_t n, capacity;
} speed_rows;

static size_t run_bytes(const speed_run *r) { return (size_t)(r->rows * model_row_bytes(r->tensor)); }

static bool rows_add(speed_rows *p, const model_tensor *t, uint64_t row, size_t rows, gq_error *e) {
    if (!memory_grow(&p->runs, &p->capacity, p->n + 1, sizeof *p->runs, e)) return false;
    speed_run r = {.tensor = t, .first = row * t->ne[0], .rows = rows, .blocks = p->memory + p->used};
    p->runs[p->n++] = r;
    p->used += run_bytes(&r);
    return true;
}

static bool rows_read(void *arg, work_piece *at, gq_error *e) {
    const speed_rows *p = arg;
    const speed_run *r = &p->runs[at->number];
    at->weights = r->tensor->ne[0] * r->rows, at->bytes = run_bytes(r);
    return model_read(p->model, r->tensor, r->first, at->weights, r->blocks, e);
}

/* ---- a pass: all runs of a batch, some rounds of them ---- */

typedef struct seconds { /* of all threads together, by type */
    double of[GGUF_TYPE_LIMIT];
} seconds;

typedef struct speed_pass {
    const speed_rows *batch;
    bool products; /* else the bytes are only read */
    uint64_t end;  /* runs of all rounds */
    _Atomic uint64_t next;
    pthread_mutex_t lock; /* over what follows */
    seconds spent;
    double begun, ended; /* by the first and by the last thread */
    uint64_t sum;        /* keeps the compiler from leaving the reading out */
} speed_pass;

static uint64_t do_run(const speed_pass *t, const speed_run *r, float *out) {
    const kernels *k = t->batch->kernels;
    if (!t->products) return k->read(r->blocks, run_bytes(r));
    k->codecs[r->tensor->type->id].dot(r->blocks, r->rows, (size_t)r->tensor->ne[0], &t->batch->vector, out);
    return 0;
}

static void take_runs(void *arg, int thread) {
    speed_pass *t = arg;
    (void)thread;
    const speed_rows *p = t->batch;
    float out[RUN_ROWS];
    seconds spent = {{0}};
    uint64_t sum = 0;
    const double begun = clock_seconds();
    double now = begun;
    for (uint64_t i; (i = atomic_fetch_add(&t->next, 1)) < t->end;) {
        const speed_run *r = &p->runs[i % p->n];
        sum += do_run(t, r, out);
        const double then = now;
        now = clock_seconds();
        spent.of[r->tensor->type->id] += now - then;
    }
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < GGUF_TYPE_LIMIT; i++) t->spent.of[i] += spent.of[i];
    t->begun = fmin(t->begun, begun), t->ended = fmax(t->ended, now);
    t->sum += sum;
    pthread_mutex_unlock(&t->lock);
}

/* Does a pass and returns the seconds of one round; by_type: each type's share of it. */
static double speed_time_pass(schedule *s, const speed_rows *p, bool products, uint64_t rounds,
                              seconds *by_type) {
    speed_pass t = {.batch = p, .products = products, .end = rounds * p->n, .begun = INFINITY};
    pthread_mutex_init(&t.lock, NULL);
    threads_together(s->pool, (size_t)threads_pool_most(s->pool), take_runs, &t);
    pthread_mutex_destroy(&t.lock);
    /* A run that lasts as long as the whole pass makes threads wait, so shares of the time are what counts.
     */
    const double whole = (t.ended - t.begun) / (double)rounds;
    double sum = 0;
    for (int i = 0; i < GGUF_TYPE_LIMIT; i++) sum += t.spent.of[i];
    for (int i = 0; i < GGUF_TYPE_LIMIT; i++) by_type->of[i] = sum > 0 ? t.spent.of[i] / sum * whole : 0;
    return whole;
}

/* Clocks reading and products alternately, so that both meet the same load on the machine, and adds the best
 * of each to `of`. */
typedef struct clocked {
    double whole;
    seconds by_type;
} clocked;

static void rows_clock(schedule *s, const speed_rows *p, clocked of[2]) {
    seconds by_type;
    const double first = speed_time_pass(s, p, true, 1, &by_type),
                 rounds = ceil(SHORTEST / fmax(first, 1e-9));
    clocked best[2] = {{.whole = INFINITY}, {.whole = INFINITY}};
    for (int i = 0; i < 2 * PASSES; i++) {
        const double whole =
            speed_time_pass(s, p, i % 2, rounds < MOST_ROUNDS ? (uint64_t)rounds : MOST_ROUNDS, &by_type);
        if (whole < best[i % 2].whole) best[i % 2] = (clocked){whole, by_type};
    }
    for (int i = 0; i < 2; i++) {
        of[i].whole += best[i].whole;
        for (int k = 0; k < GGUF_TYPE_LIMIT; k++) of[i].by_type.of[k] += best[i].by_type.of[k];
    }
}

/* ---- a file ---- */

typedef struct needed { /* of a model, by a token */
    const model_tensor **tensors;
    size_t n;
    uint64_t bytes, columns, row_bytes; /* bytes: of all; columns, row_bytes: the most of a row */
} needed;

static bool find_needed(gq_speed *v, gq_speed_file *f, const model_source *m, const model_facts *facts,
                        const kernels *k, needed *to, gq_error *e) {
    size_t unknown = 0;
    to->tensors = calloc(m->n_tensors + 1, sizeof(model_tensor *));
    if (!to->tensors) return gq_fail_memory(e, m->n_tensors * sizeof(model_tensor *));
    for (size_t i = 0; i < m->n_tensors; i++) {
        const model_tensor *t = m->tensors[i];
        if (!is_multiplied(m, t)) continue;
        if (!k->codecs[t->type->id].dot && ++unknown) continue;
        const uint64_t weights = rows_used(facts, t) * t->ne[0], bytes = model_bytes(t, weights);
        gq_speed_type *of = &f->types[t->type->id];
        of->type = t->type->id, of->matrices++, of->weights += weights, of->bytes += bytes;
        f->matrices++, f->weights += weights, f->bytes += bytes;
        to->tensors[to->n++] = t, to->bytes += bytes;
        if (t->ne[0] > to->columns) to->columns = t->ne[0];
        if (model_row_bytes(t) > to->row_bytes) to->row_bytes = model_row_bytes(t);
    }
    if (to->n == 0)
        return gq_fail(e,
                       "%s: no tensor in it is a matrix that can be multiplied, so no speed can be measured",
                       f->path);
    return !unknown ||
           warnings_add(&v->warnings, e, "%s: %zu matri%s of types without a decoder %s left out", f->path,
                        unknown, unknown == 1 ? "x" : "ces", unknown == 1 ? "is" : "are");
}

static bool rows_start(speed_rows *p, const needed *what, float **x, gq_error *e) {
    const size_t capacity = codec_vector_floats((size_t)what->columns);
    uint64_t size = what->bytes < MOST_MEMORY ? what->bytes : MOST_MEMORY;
    if (size < what->row_bytes) size = what->row_bytes;
    *x = memory_lines(what->columns + capacity, sizeof(float), e);
    if (!*x || !(p->memory = memory_pages(1, size, e))) return false;
    p->size = size;
    for (size_t i = 0; i < what->columns; i++) (*x)[i] = (float)((int)(i * 37 % 64) - 32) / 32 + 0x1p-6f;
    p->vector = codec_vector_make(*x, (size_t)what->columns, *x + what->columns);
    return true;
}

/* Reads and clocks the tensors that have come together. */
static bool rows_finish(schedule *s, speed_rows *p, clocked of[2], gq_error *e) {
    if (p->n == 0) return true;
    const schedule_job job = {.end = p->n, .work = rows_read, .arg = p};
    if (!schedule_run(s, &job, e)) return false;
    rows_clock(s, p, of);
    p->n = 0, p->used = 0;
    return true;
}

static bool clock_tensor(schedule *s, speed_rows *p, const model_tensor *t, uint64_t rows, clocked of[2],
                         gq_error *e) {
    const size_t bytes = (size_t)model_row_bytes(t);
    s->progress.tensor = t->name;
    for (uint64_t row = 0; bytes > 0 && row < rows;) {
        size_t n = bytes < RUN_BYTES ? RUN_BYTES / bytes : 1, fit = (p->size - p->used) / bytes;
        if (n > RUN_ROWS) n = RUN_ROWS;
        if (n > rows - row) n = (size_t)(rows - row);
        if (fit == 0) {
            if (!rows_finish(s, p, of, e)) return false;
            continue;
        }
        if (n > fit) n = fit;
        if (!rows_add(p, t, row, n, e)) return false;
        row += n;
    }
    return true;
}

static void set_seconds(gq_speed_file *f, const clocked of[2]) {
    size_t n = 0;
    f->read_seconds = of[0].whole, f->seconds = of[1].whole;
    for (int i = 0; i < GGUF_TYPE_LIMIT; i++) {
        if (!f->types[i].matrices) continue;
        f->types[i].read_seconds = of[0].by_type.of[i], f->types[i].seconds = of[1].by_type.of[i];
        f->types[n++] = f->types[i];
    }
    f->n_types = n;
}

static bool clock_model(gq_speed *v, gq_speed_file *f, const model_source *m, schedule *s, gq_error *e) {
    const model_facts facts = model_facts_of(m->kv, m->n_kv, NULL, 0);
    needed what = {0};
    float *x = NULL;
    clocked of[2] = {{0}};
    speed_rows p = {.model = m, .kernels = strip_kernels(e)};
    f->types = calloc(GGUF_TYPE_LIMIT, sizeof *f->types);
    bool ok = p.kernels && (f->types || gq_fail_memory(e, GGUF_TYPE_LIMIT * sizeof *f->types)) &&
              find_needed(v, f, m, &facts, p.kernels, &what, e) && rows_start(&p, &what, &x, e);
    s->progress.bytes_total += what.bytes;
    for (size_t i = 0; ok && i < what.n; i++)
        ok = clock_tensor(s, &p, what.tensors[i], rows_used(&facts, what.tensors[i]), of, e);
    ok = ok && rows_finish(s, &p, of, e);
    s->progress.tensor = NULL;
    if (ok) set_seconds(f, of);
    free(what.tensors), free(x), free(p.memory), free(p.runs);
    return ok;
}

static bool clock_file(gq_speed *v, const char *path, schedule *s, gq_error *e) {
    model_source m;
    gq_speed_file *f = &v->files[v->n++];
    f->path = strdup(path);
    if (!f->path) return gq_fail_memory(e, strlen(path) + 1);
    if (!input_open(&m, path, e)) return false;
    f->file_bytes = model_file_bytes(&m);
    bool ok = warnings_join(&v->warnings, &m.warnings, e) && clock_model(v, f, &m, s, e);
    model_close(&m);
    return ok;
}

/* ---- the call ---- */

gq_speed *gq_speed_measure(const gq_speed_request *request, gq_error *e) {
    schedule s = {0};
    gq_speed_request asked;
    gq_callbacks callbacks;
    if (!SIZED_TAKE(asked, request, e) || !SIZED_TAKE(callbacks, asked.callbacks, e)) return NULL;
    gq_speed *v = calloc(1, sizeof *v);
    bool ok =
        v && (v->files = calloc(asked.n_models + 1, sizeof *v->files)) ? true : gq_fail_memory(e, sizeof *v);
    ok = ok && schedule_start(&s, asked.threads, 64, &callbacks, e);
    if (ok) v->threads = threads_pool_most(s.pool);
    for (size_t i = 0; ok && i < asked.n_models; i++) ok = clock_file(v, asked.models[i], &s, e);
    ok = ok && warnings_add_threads(&v->warnings, threads_pool_count(s.pool), e);
    schedule_end(&s);
    if (ok) return v;
    gq_speed_free(v);
    return NULL;
}

void gq_speed_free(gq_speed *v) {
    if (!v) return;
    for (size_t i = 0; i < v->n; i++) free((char *)v->files[i].path), free(v->files[i].types);
    free(v->files);
    warnings_free(&v->warnings);
    free(v);
}

const gq_speed_file *gq_speed_files(const gq_speed *v, size_t *n) {
    *n = v->n;
    return v->files;
}

int gq_speed_threads(const gq_speed *v) { return v->threads; }

const char *const *gq_speed_warnings(const gq_speed *v, size_t *n) { return warnings_texts(&v->warnings, n); }
