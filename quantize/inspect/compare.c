/* Measures how far quants are from their base model, tensor by tensor. Tensors are paired by name; one that
 * is missing, has another shape or cannot be decoded is left out with a warning. Then the base model's
 * tensors are taken one after another. Each strip of the base model is read and decoded once and measured
 * against the same strip of every quant. Threads share the pieces of a tensor, and sums are added in the
 * order of pieces. Where one side is stored transposed, both are read in squares instead of strips, so that
 * neither side's blocks are decoded many times. With an imatrix, errors weighted by it are measured as well. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/relay.h"
#include "base/sized.h"
#include "quantize/plan/plan.h"
#include "quantize/quantize.h"
#include "quantize/strips/strips.h"

/* A model and its name. */
typedef struct named_model {
    model_source model;
    char path[4096];
} named_model;

typedef struct compared_quant {
    named_model file;
    gq_summary summary;
    size_t n;
    gq_tensor *tensors; /* tensors that the quant shares with the base model */
    size_t *numbers;    /* each tensor's number in the base model */
    gq_loss *losses;
} compared_quant;

struct gq_comparison {
    const kernels *kernels;
    named_model base;
    size_t n_quants;
    compared_quant *quants;
    model_inputs inputs; /* without a path: no imatrix data */
    gq_origin *origins;  /* of the base model's tensors */
    bool *is_shared;     /* the same: some quant has it */
    warning_list warnings;
    double seconds;
};

/* ---- which tensors ---- */

static void comparison_fill_tensor(gq_tensor *to, const model_tensor *a, const model_tensor *b,
                                   gq_origin *origin) {
    *to = (gq_tensor){.name = b->name,
                      .source_name = a->name,
                      .n_weights = shape_elements(a->ne),
                      .n_dims = 4,
                      .from = a->type->id,
                      .to = b->type->id,
                      .wanted = b->type->id,
                      .why = "",
                      .transposed = b->transposed,
                      .origin = model_origin_show(a, origin),
                      .in_bytes = model_stored_bytes(a),
                      .out_bytes = model_stored_bytes(b)};
    memcpy(to->ne, b->ne, sizeof to->ne);
    while (to->n_dims > 1 && to->ne[to->n_dims - 1] == 1) to->n_dims--;
}

/* Whether only one of the two is stored transposed. */
static bool dimensions_are_exchanged(const model_tensor *a, const model_tensor *b) {
    return a->transposed != b->transposed;
}

static const char *undecodable_type(const kernels *k, const model_tensor *a, const model_tensor *b) {
    const model_tensor *both[] = {a, b};
    for (int i = 0; i < 2 && (a->type != b->type || dimensions_are_exchanged(a, b)); i++)
        if (!k->codecs[both[i]->type->id].decode) return both[i]->type->name;
    return NULL;
}

static bool same_shape(const model_tensor *a, const model_tensor *b) {
    uint64_t ne[4];
    memcpy(ne, b->ne, sizeof ne);
    if (dimensions_are_exchanged(a, b)) transposed_shape(b->ne, ne);
    return memcmp(a->ne, ne, sizeof ne) == 0;
}

/* Pairs a tensor of the base model with the quant's tensor of that name. Where they cannot be compared, a
 * warning says why. */
static bool comparison_pair_tensor(gq_comparison *c, compared_quant *to, size_t number, gq_error *e) {
    const model_tensor *a = c->base.model.tensors[number];
    const model_tensor *b = model_tensor_named(&to->file.model, a->name);
    if (!b) return warnings_add(&c->warnings, e, "%s is not in %s", a->name, to->file.path);
    if (!same_shape(a, b))
        return warnings_add(&c->warnings, e, "%s has another shape in %s", a->name, to->file.path);
    const char *type = undecodable_type(c->kernels, a, b);
    if (type)
        return warnings_add(&c->warnings, e, "%s: %s cannot be decoded, and the types differ", a->name, type);
    to->numbers[to->n] = number, c->is_shared[number] = true;
    comparison_fill_tensor(&to->tensors[to->n++], a, b, &c->origins[number]);
    return true;
}

static bool pair_all(gq_comparison *c, compared_quant *to, gq_error *e) {
    const model_source *a = &c->base.model, *b = &to->file.model;
    to->tensors = calloc(a->n_tensors + 1, sizeof *to->tensors);
    to->numbers = calloc(a->n_tensors + 1, sizeof *to->numbers);
    to->losses = calloc(a->n_tensors + 1, sizeof *to->losses);
    if (!to->tensors || !to->numbers || !to->losses)
        return gq_fail_memory(e, a->n_tensors * sizeof *to->tensors);
    for (uint64_t i = 0; i < a->n_tensors; i++)
        if (!comparison_pair_tensor(c, to, i, e)) return false;
    for (uint64_t i = 0; i < b->n_tensors; i++)
        if (!model_tensor_named(a, b->tensors[i]->name) &&
            !warnings_add(&c->warnings, e, "%s is only in %s", b->tensors[i]->name, to->file.path))
            return false;
    if (to->n == 0)
        return gq_fail(e, "%s and %s have no tensor in common that can be compared", c->base.path,
                       to->file.path);
    return differing_warn(a, b, &c->warnings, e);
}

static void comparison_sum_quant(compared_quant *to) {
    gq_summary *s = &to->summary;
    const model_source *m = &to->file.model;
    const mix_filetype *filetype = mix_filetype_of(m->kv, m->n_kv);
    s->size = sizeof *s, s->path = to->file.path, s->filetype = filetype ? filetype->name : "",
    s->n_tensors = to->n;
    s->file_bytes = model_file_bytes(m);
    for (size_t i = 0; i < to->n; i++) {
        const gq_tensor *t = &to->tensors[i];
        s->n_weights += t->n_weights;
        s->in_bytes += t->in_bytes, s->out_bytes += t->out_bytes;
    }
}

/* ---- importance ---- */

static bool comparison_find_inputs(gq_comparison *c, const model_tensor *t, tensor_inputs *found,
                                   gq_error *e) {
    gq_error why = {0};
    return model_inputs_find_tensor(&c->inputs, t, t->transposed, found, &why) ||
           warnings_add(&c->warnings, e, "%s; compared without it", why.text);
}

/* Notes for the report whether a tensor had imatrix data. A tensor that both models store in full counts
 * as not quantized. */
static void note_coverage(const gq_comparison *c, compared_quant *to, gq_tensor *t, bool covered) {
    bool quantized = tensor_type_of(t->from)->quantized || tensor_type_of(t->to)->quantized;
    if (!c->inputs.path || (!covered && !quantized)) return;
    t->importance = covered ? GQ_IMPORTANCE_FULL : GQ_IMPORTANCE_MISSING;
    to->summary.n_without_imatrix += !covered;
}

/* ---- measuring ---- */

/* A quant's tensor and the base model's that it is compared with. */
typedef struct pairing {
    compared_quant *quant;
    size_t at; /* in the quant's tensors */
    const model_tensor *tensor;
    float *factors; /* of each of its matrices; NULL: it has none */
    struct piece_sum {
        codec_error sum;
        bool differs;
    } * pieces; /* folded in order */
} pairing;

typedef struct comparison_job {
    const gq_comparison *c;
    const model_tensor *tensor; /* the base model's */
    tensor_inputs inputs;
    size_t n;
    pairing *pairs;        /* one for each quant that has the tensor */
    uint64_t piece, strip; /* elements of a piece, and of it at once */
} comparison_job;

typedef struct compare_scratch {
    strip_buffers strips;
    float decoded[STRIP_ELEMENTS]; /* to read what is stored transposed */
} compare_scratch;

/* Measures the error of a piece. A piece may begin and end anywhere, while importance begins anew with each
 * row. */
static void measure_strips(const comparison_job *p, uint64_t first, size_t n, const strip_buffers *scratch,
                           codec_error *sum) {
    if (!p->inputs.columns) {
        p->c->kernels->measure(scratch->decoded[0], scratch->decoded[1], 1, n, NULL, sum);
        return;
    }
    for (size_t at = 0; at < n;) {
        strip s = strip_from(p->tensor->ne, first + at, first + n);
        p->c->kernels->measure(scratch->decoded[0] + at, scratch->decoded[1] + at, s.rows, s.cols,
                               tensor_inputs_at(&p->inputs, s.matrix, s.column), sum);
        at += s.rows * s.cols;
    }
}

static void count_piece(const comparison_job *j, work_piece *p, uint64_t weights) {
    p->weights += weights, p->bytes += model_bytes_read(j->tensor, weights);
    for (size_t i = 0; i < j->n; i++) p->bytes += model_bytes_read(j->pairs[i].tensor, weights);
}

/* Reads the factors by which products with a matrix of NVFP4 are multiplied, NAME.scale. *factors: malloc'ed;
 * NULL: the model has none for it. */
static bool read_factors(const model_source *m, const model_tensor *t, float **factors, gq_error *e) {
    char name[GGUF_MAX_NAME + 1];
    size_t stem = strlen(t->name), n = (size_t)(t->ne[2] * t->ne[3]);
    *factors = NULL;
    if (t->type->id != GGUF_NVFP4 || stem < 7 || strcmp(t->name + stem - 7, ".weight") != 0) return true;
    snprintf(name, sizeof name, "%.*s.scale", (int)stem - 7, t->name);
    const model_tensor *found = model_tensor_named(m, name);
    if (!found || found->type->id != GGUF_F32 || shape_elements(found->ne) != n) return true;
    *factors = malloc(n * sizeof **factors);
    if (!*factors) return gq_fail_memory(e, n * sizeof **factors);
    return model_read(m, found, 0, n, *factors, e);
}

static void apply_factors(const pairing *of, uint64_t first, size_t n, float *x) {
    uint64_t matrix = of->tensor->ne[0] * of->tensor->ne[1];
    for (size_t i = 0; of->factors && i < n; i++) x[i] *= of->factors[(first + i) / matrix];
}

/* Each strip of the base model is read and decoded once, then compared with every quant's. */
static bool comparison_measure_piece(void *arg, work_piece *p, gq_error *e) {
    const comparison_job *j = arg;
    strip_buffers *scratch = p->scratch;
    const tensor_type *type = j->tensor->type;
    uint64_t first = p->number * j->piece, end = min(first + j->piece, shape_elements(j->tensor->ne));
    for (uint64_t at = first, n; at < end; at += n) {
        n = min(j->strip, end - at);
        if (!strip_read_decoded(j->c->kernels, &j->c->base.model, j->tensor, at, n, scratch->stored[0],
                                scratch->decoded[0], e))
            return false;
        for (size_t i = 0; i < j->n; i++) {
            const pairing *of = &j->pairs[i];
            struct piece_sum *sum = &of->pieces[p->number];
            if (!strip_read_decoded(j->c->kernels, &of->quant->file.model, of->tensor, at, n,
                                    scratch->stored[1], scratch->decoded[1], e))
                return false;
            apply_factors(of, at, n, scratch->decoded[1]);
            sum->differs |= of->tensor->type != type ||
                            memcmp(scratch->stored[0], scratch->stored[1], model_bytes(j->tensor, n)) != 0;
            /* A type without a decoder is the same in both models, and only bytes are compared. */
            if (j->c->kernels->codecs[type->id].decode) measure_strips(j, at, n, scratch, &sum->sum);
        }
    }
    count_piece(j, p, end - first);
    return true;
}

/* ---- where some are stored transposed ---- */

/* A square is as long on one side as on the other, so both orders of storing read it alike. No type has
 * blocks of more than 256 elements, so blocks are whole on both sides. A piece is a row of squares. */
enum { SQUARE = 256, SQUARES = STRIP_PIECE / SQUARE / SQUARE };
_Static_assert(SQUARE *SQUARE <= STRIP_ELEMENTS, "a square is read at once");

static uint64_t pieces_across(const model_tensor *t) {
    return (t->ne[0] + SQUARE * SQUARES - 1) / (SQUARE * SQUARES);
}
static uint64_t pieces_down(const model_tensor *t) { return ceil_div(t->ne[1], SQUARE); }

static bool read_square(const comparison_job *j, const model_source *m, const model_tensor *t, const strip *s,
                        uint8_t *stored, float *decoded, gq_error *e) {
    for (size_t r = 0; r < s->rows; r++)
        if (!strip_read_decoded(j->c->kernels, m, t, s->first + r * t->ne[0], s->cols,
                                stored + r * gguf_row_bytes(t->type, s->cols), decoded + r * s->cols, e))
            return false;
    return true;
}

static bool measure_square(const comparison_job *j, uint64_t number, const strip *s, compare_scratch *scratch,
                           gq_error *e) {
    const kernels *k = j->c->kernels;
    strip_buffers *both = &scratch->strips;
    size_t n = s->rows * s->cols;
    if (!read_square(j, &j->c->base.model, j->tensor, s, both->stored[0], both->decoded[0], e)) return false;
    for (size_t i = 0; i < j->n; i++) {
        const pairing *of = &j->pairs[i];
        const model_source *m = &of->quant->file.model;
        struct piece_sum *sum = &of->pieces[number];
        if (dimensions_are_exchanged(j->tensor, of->tensor)
                ? !transposed_read(k, m, of->tensor, s, both->stored[1], scratch->decoded, both->decoded[1],
                                   e)
                : !read_square(j, m, of->tensor, s, both->stored[1], both->decoded[1], e))
            return false;
        sum->differs |= of->tensor->type != j->tensor->type ||
                        memcmp(both->decoded[0], both->decoded[1], n * sizeof(float)) != 0;
        k->measure(both->decoded[0], both->decoded[1], s->rows, s->cols,
                   tensor_inputs_at(&j->inputs, s->matrix, s->column), &sum->sum);
    }
    return true;
}

static bool measure_squares(void *arg, work_piece *p, gq_error *e) {
    const comparison_job *j = arg;
    const uint64_t *ne = j->tensor->ne, down = pieces_down(j->tensor), across = pieces_across(j->tensor);
    uint64_t matrix = p->number / across / down, row = p->number / across % down * SQUARE,
             column = p->number % across * SQUARE * SQUARES;
    size_t rows = ne[1] - row < SQUARE ? (size_t)(ne[1] - row) : SQUARE;
    for (size_t i = 0; i < SQUARES && column < ne[0]; i++, column += SQUARE) {
        strip s = {.first = (matrix * ne[1] + row) * ne[0] + column,
                   .rows = rows,
                   .cols = ne[0] - column < SQUARE ? (size_t)(ne[0] - column) : SQUARE,
                   .matrix = matrix,
                   .column = column};
        if (!measure_square(j, p->number, &s, p->scratch, e)) return false;
        count_piece(j, p, s.rows * s.cols);
    }
    return true;
}

/* ---- a tensor ---- */

static bool comparison_fold_pieces(gq_comparison *c, const comparison_job *p, const pairing *of,
                                   uint64_t pieces, gq_error *e) {
    gq_loss loss = {.n = 0};
    bool differs = false;
    for (uint64_t i = 0; i < pieces; i++) {
        const codec_error *sum = &of->pieces[i].sum;
        differs |= of->pieces[i].differs;
        loss.n += sum->n, loss.x2 += sum->x2, loss.e2 += sum->e2;
        if (p->inputs.columns) loss.wx2 += sum->wx2, loss.we2 += sum->we2;
        if ((double)sum->max_e > loss.max_error) loss.max_error = (double)sum->max_e;
    }
    if (!differs) return true;
    of->quant->losses[of->at] = loss;
    note_coverage(c, of->quant, &of->quant->tensors[of->at], p->inputs.columns > 0);
    return loss.n || warnings_add(&c->warnings, e, "%s differs, but %s cannot be decoded", p->tensor->name,
                                  p->tensor->type->name);
}

static bool compare_pairs(gq_comparison *c, schedule *s, comparison_job *p, gq_error *e) {
    bool squares = false;
    p->piece = strip_whole(p->tensor, STRIP_PIECE), p->strip = strip_whole(p->tensor, STRIP_ELEMENTS);
    for (size_t i = 0; i < p->n; i++) {
        const model_tensor *quant = p->pairs[i].tensor;
        squares |= dimensions_are_exchanged(p->tensor, quant);
        p->piece = strip_whole(quant, p->piece), p->strip = strip_whole(quant, p->strip);
    }
    uint64_t pieces = squares
                          ? pieces_across(p->tensor) * pieces_down(p->tensor) * shape_matrices(p->tensor->ne)
                          : ceil_div(shape_elements(p->tensor->ne), p->piece);
    struct piece_sum *all = calloc(p->n * pieces + 1, sizeof *all);
    if (!all) return gq_fail_memory(e, p->n * pieces * sizeof *all);
    for (size_t i = 0; i < p->n; i++) p->pairs[i].pieces = all + i * pieces;
    s->progress.tensor = p->tensor->name;
    schedule_job work = {
        .end = pieces, .work = squares ? measure_squares : comparison_measure_piece, .arg = p};
    bool ok = schedule_run(s, &work, e);
    for (size_t i = 0; ok && i < p->n; i++) {
        const pairing *of = &p->pairs[i];
        ok = comparison_fold_pieces(c, p, of, pieces, e);
        if (ok && s->callbacks && s->callbacks->tensor_done)
            s->callbacks->tensor_done(s->callbacks->user, (size_t)(of->quant - c->quants), of->at,
                                      &of->quant->losses[of->at]);
    }
    free(all);
    return ok;
}

/* All tensors of the base model; `next` has for each quant the first of its tensors that is not compared yet. */
static bool compare_all(gq_comparison *c, schedule *s, size_t *next, pairing *pairs, gq_error *e) {
    for (uint64_t number = 0; number < c->base.model.n_tensors; number++) {
        comparison_job p = {.c = c, .tensor = c->base.model.tensors[number], .pairs = pairs};
        bool ok = true;
        for (size_t i = 0; i < c->n_quants; i++) {
            compared_quant *to = &c->quants[i];
            if (next[i] == to->n || to->numbers[next[i]] != number) continue;
            pairing *of = &pairs[p.n++];
            *of = (pairing){
                .quant = to, .at = next[i]++, .tensor = model_tensor_named(&to->file.model, p.tensor->name)};
            ok = ok && read_factors(&to->file.model, of->tensor, &of->factors, e);
        }
        ok = ok &&
             (p.n == 0 || (comparison_find_inputs(c, p.tensor, &p.inputs, e) && compare_pairs(c, s, &p, e)));
        for (size_t i = 0; i < p.n; i++) free(pairs[i].factors);
        if (!ok) return false;
    }
    return true;
}

static bool warn_uncovered(gq_comparison *c, gq_error *e) {
    bool missing = false, any = false;
    for (size_t k = 0; k < c->n_quants; k++) {
        const compared_quant *to = &c->quants[k];
        missing |= to->summary.n_without_imatrix > 0;
        for (size_t i = 0; i < to->n; i++) any |= to->tensors[i].importance == GQ_IMPORTANCE_FULL;
    }
    if (any || !missing) return importance_warn_unknown(&c->inputs, &c->base.model, &c->warnings, e);
    return warnings_add(&c->warnings, e,
                        "%s: no entry (of %llu) belongs to a tensor that differs; is it of another model?",
                        c->inputs.path, LLU(c->inputs.n_entries));
}

static bool comparison_open_model(gq_comparison *c, named_model *m, const char *path,
                                  const gq_adapters *adapters, gq_error *e) {
    snprintf(m->path, sizeof m->path, "%s", path);
    return input_open_adapted(&m->model, path, adapters, e) &&
           warnings_join(&c->warnings, &m->model.warnings, e);
}

/* Counts the bytes that will be read: of the base model, each tensor that some quant shares. */
static uint64_t bytes_to_read(const gq_comparison *c) {
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < c->base.model.n_tensors; i++)
        if (c->is_shared[i]) bytes += model_stored_bytes(c->base.model.tensors[i]);
    for (size_t i = 0; i < c->n_quants; i++) bytes += c->quants[i].summary.out_bytes;
    return bytes;
}

static bool compare_with(gq_comparison *c, schedule *s, size_t *next, pairing *pairs, gq_error *e) {
    c->origins = calloc(c->base.model.n_tensors + 1, sizeof *c->origins);
    c->is_shared = calloc(c->base.model.n_tensors + 1, sizeof *c->is_shared);
    if (!c->origins || !c->is_shared) return gq_fail_memory(e, c->base.model.n_tensors * sizeof *c->origins);
    for (size_t i = 0; i < c->n_quants; i++) {
        if (!pair_all(c, &c->quants[i], e)) return false;
        comparison_sum_quant(&c->quants[i]);
    }
    s->progress.bytes_total = bytes_to_read(c);
    return compare_all(c, s, next, pairs, e) && warn_uncovered(c, e) &&
           warnings_add_threads(&c->warnings, threads_pool_count(s->pool), e);
}

static bool comparison_run(gq_comparison *c, const gq_comparison_request *r, gq_error *e) {
    schedule s;
    c->kernels = strip_kernels(e);
    if (!c->kernels ||
        (r->imatrix && (!model_inputs_read(&c->inputs, r->imatrix, (inputs_filter){.n = 0}, e) ||
                        !warnings_add_lines(&c->warnings, e, c->inputs.warnings))) ||
        !comparison_open_model(c, &c->base, r->base_model, &r->adapters, e))
        return false;
    for (size_t i = 0; i < c->n_quants; i++)
        if (!comparison_open_model(c, &c->quants[i].file, r->quants[i], NULL, e)) return false;
    size_t *next = calloc(c->n_quants, sizeof *next);
    pairing *pairs = calloc(c->n_quants, sizeof *pairs);
    bool ok = (next && pairs) || gq_fail_memory(e, c->n_quants * sizeof *pairs);
    if (ok && (ok = schedule_start(&s, r->threads, sizeof(compare_scratch), r->callbacks, e))) {
        ok = compare_with(c, &s, next, pairs, e);
        c->seconds = clock_seconds() - s.started;
        schedule_end(&s);
    }
    free(next), free(pairs);
    return ok;
}

gq_comparison *gq_compare(const gq_comparison_request *request, gq_error *e) {
    gq_comparison_request asked;
    gq_callbacks callbacks;
    if (!SIZED_TAKE(asked, request, e) || !SIZED_TAKE(callbacks, asked.callbacks, e)) return NULL;
    asked.callbacks = &callbacks;
    if (!asked.base_model || asked.n_quants == 0)
        return gq_fail_usage(e, "a base model and at least one quantized model are needed"), NULL;
    gq_comparison *c = calloc(1, sizeof *c);
    if (c) c->quants = calloc(asked.n_quants + 1, sizeof *c->quants);
    if (!c || !c->quants) {
        gq_fail_memory(e, sizeof *c + asked.n_quants * sizeof *c->quants);
        free(c);
        return NULL;
    }
    c->n_quants = asked.n_quants;
    job_progress job;
    job_progress_begin(&job, &callbacks, 1);
    asked.callbacks = job_progress_stage(&job, 1);
    if (comparison_run(c, &asked, e)) return job_progress_end(&job), c;
    gq_comparison_free(c);
    return NULL;
}

void gq_comparison_free(gq_comparison *c) {
    if (!c) return;
    model_close(&c->base.model);
    for (size_t i = 0; i < c->n_quants; i++) {
        compared_quant *to = &c->quants[i];
        model_close(&to->file.model);
        free(to->tensors), free(to->numbers), free(to->losses);
    }
    free(c->quants), free(c->origins), free(c->is_shared);
    model_inputs_free(&c->inputs);
    warnings_free(&c->warnings);
    free(c);
}

const gq_summary *gq_comparison_summary(const gq_comparison *c, size_t quant) {
    return &c->quants[quant].summary;
}

const gq_tensor *gq_comparison_tensors(const gq_comparison *c, size_t quant, size_t *n) {
    *n = c->quants[quant].n;
    return c->quants[quant].tensors;
}

const size_t *gq_comparison_numbers(const gq_comparison *c, size_t quant) { return c->quants[quant].numbers; }

const gq_loss *gq_comparison_losses(const gq_comparison *c, size_t quant) { return c->quants[quant].losses; }

const char *const *gq_comparison_warnings(const gq_comparison *c, size_t *n) {
    return warnings_texts(&c->warnings, n);
}

double gq_comparison_seconds(const gq_comparison *c) { return c->seconds; }
