/* How far two models are apart, tensor by tensor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "imatrix/imatrix.h"
#include "mixes/mixes.h"
#include "quantize/scan.h"
#include "quantize/words.h"

struct gq_comparison {
    gguf_model models[2];
    imatrix matrix;
    const char *matrix_path; /* NULL: no importance data */
    gq_summary summary;
    size_t n;
    gq_tensor *tensors;
    gq_loss *losses;
    word_list warnings;
    char path[2][4096];
    double seconds;
};

/* ---- which tensors ---- */

static void describe(gq_tensor *to, const gguf_tensor *a, const gguf_tensor *b) {
    *to = (gq_tensor){.name = b->name,
                      .source_name = a->name,
                      .n_dims = 4,
                      .from = a->type->id,
                      .to = b->type->id,
                      .wanted = b->type->id,
                      .why = "",
                      .in_bytes = a->size,
                      .out_bytes = b->size};
    memcpy(to->ne, a->ne, sizeof to->ne);
    while (to->n_dims > 1 && to->ne[to->n_dims - 1] == 1) to->n_dims--;
}

static const char *undecodable(const kernels *k, const gguf_tensor *a, const gguf_tensor *b) {
    const gguf_tensor *both[] = {a, b};
    for (int i = 0; i < 2 && a->type != b->type; i++)
        if (!k->codecs[both[i]->type->id].decode) return both[i]->type->name;
    return NULL;
}

/* Why two tensors of one name cannot be compared is said in a warning. */
static bool pair(gq_comparison *c, const kernels *k, const gguf_tensor *a, gq_error *e) {
    const gguf_tensor *b = gguf_model_tensor(&c->models[1], a->name);
    if (!b) return words_add(&c->warnings, e, "%s is only in %s", a->name, c->path[0]);
    if (memcmp(a->ne, b->ne, sizeof a->ne) != 0)
        return words_add(&c->warnings, e, "%s has another shape in %s", a->name, c->path[1]);
    const char *type = undecodable(k, a, b);
    if (type)
        return words_add(&c->warnings, e, "%s: %s cannot be decoded, and the types differ", a->name, type);
    describe(&c->tensors[c->n++], a, b);
    return true;
}

static bool pair_all(gq_comparison *c, const kernels *k, gq_error *e) {
    const gguf_model *a = &c->models[0], *b = &c->models[1];
    c->tensors = calloc(a->n_tensors + 1, sizeof *c->tensors);
    c->losses = calloc(a->n_tensors + 1, sizeof *c->losses);
    if (!c->tensors || !c->losses) return gq_fail_memory(e, a->n_tensors * sizeof *c->tensors);
    for (uint64_t i = 0; i < a->n_tensors; i++)
        if (!pair(c, k, a->tensors[i], e)) return false;
    for (uint64_t i = 0; i < b->n_tensors; i++)
        if (!gguf_model_tensor(a, b->tensors[i]->name) &&
            !words_add(&c->warnings, e, "%s is only in %s", b->tensors[i]->name, c->path[1]))
            return false;
    return c->n > 0 || gq_fail(e, "%s and %s have no tensor that could be compared", c->path[0], c->path[1]);
}

static void summarise(gq_comparison *c) {
    gq_summary *s = &c->summary;
    const gguf_shard *first = &c->models[1].shards[0];
    int64_t filetype;
    s->path = c->path[1], s->filetype = "", s->n_tensors = c->n;
    if (gguf_kv_int(gguf_find(first->kv, first->n_kv, "general.file_type"), &filetype))
        for (size_t i = 0; i < mix_n_filetypes; i++)
            if (mix_filetypes[i].id == filetype) s->filetype = mix_filetypes[i].name;
    for (uint32_t i = 0; i < c->models[1].n_shards; i++) s->file_bytes += c->models[1].shards[i].file.size;
    for (size_t i = 0; i < c->n; i++) {
        const gq_tensor *t = &c->tensors[i];
        s->n_weights += t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
        s->in_bytes += t->in_bytes, s->out_bytes += t->out_bytes;
    }
}

/* ---- importance ---- */

static bool open_matrix(gq_comparison *c, const char *path, gq_error *e) {
    if (!path) return true;
    if (!imatrix_open(&c->matrix, path, e)) return false;
    c->matrix_path = path;
    return imatrix_check(&c->matrix, path, e) && words_add_lines(&c->warnings, e, c->matrix.warnings);
}

/* The values for a tensor, normalised in place: each entry belongs to one tensor. NULL: none. */
static bool find_importance(gq_comparison *c, const gguf_tensor *t, const float **values, gq_error *e) {
    const imatrix_entry *entry = c->matrix_path ? imatrix_find(&c->matrix, t->name) : NULL;
    uint64_t matrices = t->ne[2] * t->ne[3];
    gq_error why = {0};
    *values = NULL;
    if (!entry) return true;
    if (!imatrix_fits(entry, t->ne[0], matrices, c->matrix_path, &why))
        return words_add(&c->warnings, e, "%s; compared without it", why.text);
    for (uint64_t k = 0; k < matrices; k++) imatrix_column(entry, k, t->ne[0], entry->sums + k * t->ne[0]);
    *values = entry->sums;
    return true;
}

/* What the report says of a tensor's data. What both models store in full counts as not quantized. */
static void note_coverage(gq_comparison *c, gq_tensor *t, bool covered) {
    bool quantized = gguf_type_of(t->from)->quantized || gguf_type_of(t->to)->quantized;
    if (!c->matrix_path || (!covered && !quantized)) return;
    t->importance = covered ? GQ_IMPORTANCE_FULL : GQ_IMPORTANCE_MISSING;
    c->summary.n_without_importance += !covered;
}

/* ---- measuring ---- */

typedef struct pairing {
    const gq_comparison *c;
    const kernels *kernels;
    const gguf_tensor *tensors[2];
    const float *importance; /* NULL: none */
    struct piece {
        codec_error sum;
        bool differs;
    } * pieces; /* folded in order */
} pairing;

static bool decode(const pairing *p, int which, uint64_t first, size_t n, const scan_room *room,
                   gq_error *e) {
    const gguf_tensor *t = p->tensors[which];
    p->kernels->codecs[t->type->id].decode(room->stored[which], room->decoded[which], n);
    size_t bad = p->kernels->first_not_finite(room->decoded[which], n);
    return bad == n ||
           gq_fail(e, "%s: tensor %s: element %llu is %g, and weights must be finite", p->c->path[which],
                   t->name, (unsigned long long)(first + bad), (double)room->decoded[which][bad]);
}

/* Strips begin and end anywhere, importance begins anew with each row: whole rows together where there are
 * some, else the part of a row. */
static void measure_strip(const pairing *p, uint64_t first, size_t n, const scan_room *room,
                          codec_error *sum) {
    if (!p->importance) {
        p->kernels->measure(room->decoded[0], room->decoded[1], 1, n, NULL, sum);
        return;
    }
    const uint64_t *ne = p->tensors[0]->ne;
    for (size_t at = 0; at < n;) {
        uint64_t column = (first + at) % ne[0], row = (first + at) / ne[0], rows = (n - at) / ne[0];
        size_t cols = ne[0] - column < n - at ? (size_t)(ne[0] - column) : n - at;
        if (rows > ne[1] - row % ne[1]) rows = ne[1] - row % ne[1]; /* of this matrix */
        if (column > 0 || rows == 0) rows = 1;
        codec_importance importance = {.column = p->importance + row / ne[1] * ne[0] + column};
        p->kernels->measure(room->decoded[0] + at, room->decoded[1] + at, rows, cols, &importance, sum);
        at += rows * cols;
    }
}

static bool measure(void *arg, uint64_t number, uint64_t first, uint64_t n, const scan_room *room,
                    scan_work *done, gq_error *e) {
    pairing *p = arg;
    struct piece *piece = &p->pieces[number];
    const gguf_type *a = p->tensors[0]->type, *b = p->tensors[1]->type;
    for (uint64_t at = first; at < first + n; at += SCAN_STRIP) {
        size_t count = first + n - at < SCAN_STRIP ? (size_t)(first + n - at) : SCAN_STRIP;
        for (int i = 0; i < 2; i++)
            if (!scan_read(&p->c->models[i], p->tensors[i], at, count, room->stored[i], e)) return false;
        piece->differs |= a != b || memcmp(room->stored[0], room->stored[1], scan_bytes(a, count)) != 0;
        if (!p->kernels->codecs[a->id].decode) continue; /* then the types are the same */
        if (!decode(p, 0, at, count, room, e) || !decode(p, 1, at, count, room, e)) return false;
        measure_strip(p, at, count, room, &piece->sum);
    }
    *done = (scan_work){scan_bytes(a, n) + scan_bytes(b, n), n};
    return true;
}

static bool fold(gq_comparison *c, size_t tensor, const pairing *p, uint64_t pieces, gq_error *e) {
    gq_loss loss = {.n = 0};
    bool differs = false;
    for (uint64_t i = 0; i < pieces; i++) {
        const codec_error *sum = &p->pieces[i].sum;
        differs |= p->pieces[i].differs;
        loss.n += sum->n, loss.x2 += sum->x2, loss.e2 += sum->e2;
        if (p->importance) loss.wx2 += sum->wx2, loss.we2 += sum->we2;
        if ((double)sum->max_e > loss.max_error) loss.max_error = (double)sum->max_e;
    }
    if (differs) c->losses[tensor] = loss;
    if (differs) note_coverage(c, &c->tensors[tensor], p->importance != NULL);
    return !differs || loss.n ||
           words_add(&c->warnings, e, "%s differs, but %s cannot be decoded", p->tensors[0]->name,
                     p->tensors[0]->type->name);
}

static bool compare_tensor(gq_comparison *c, scan *s, size_t i, gq_error *e) {
    gq_tensor *t = &c->tensors[i];
    pairing p = {.c = c, .kernels = s->kernels};
    for (int k = 0; k < 2; k++) p.tensors[k] = gguf_model_tensor(&c->models[k], t->name);
    if (!find_importance(c, p.tensors[0], &p.importance, e)) return false;
    uint64_t elements = scan_elements(p.tensors[0]), pieces = scan_pieces(elements);
    p.pieces = calloc(pieces + 1, sizeof *p.pieces);
    if (!p.pieces) return gq_fail_memory(e, pieces * sizeof *p.pieces);
    s->progress.tensor = t->name;
    bool ok = scan_tensor(s, elements, measure, &p, e) && fold(c, i, &p, pieces, e);
    free(p.pieces);
    if (ok && s->callbacks && s->callbacks->tensor_done)
        s->callbacks->tensor_done(s->callbacks->user, 0, i, &c->losses[i]);
    return ok;
}

static bool warn_uncovered(gq_comparison *c, gq_error *e) {
    bool any = c->summary.n_without_importance == 0;
    for (size_t i = 0; i < c->n; i++) any |= c->tensors[i].importance == GQ_IMPORTANCE_FULL;
    return any ||
           words_add(&c->warnings, e,
                     "%s: none of its %llu entries belongs to a tensor that differs; is it of another model?",
                     c->matrix_path, (unsigned long long)c->matrix.n_entries);
}

static bool compare(gq_comparison *c, const char *const paths[2], const char *matrix, int threads,
                    const gq_callbacks *callbacks, gq_error *e) {
    scan s;
    if (!open_matrix(c, matrix, e)) return false;
    for (int i = 0; i < 2; i++) {
        snprintf(c->path[i], sizeof c->path[i], "%s", paths[i]);
        if (gguf_model_open(&c->models[i], paths[i], e)) continue;
        c->models[i] = (gguf_model){.n_shards = 0};
        return false;
    }
    if (!scan_start(&s, threads, callbacks, 0, e)) return false;
    bool ok = pair_all(c, s.kernels, e);
    if (ok) {
        summarise(c);
        s.progress.bytes_total = c->summary.in_bytes + c->summary.out_bytes;
    }
    for (size_t i = 0; ok && i < c->n; i++) ok = compare_tensor(c, &s, i, e);
    ok = ok && warn_uncovered(c, e) && workers_warn(&s.fewest, &c->warnings, e);
    c->seconds = scan_seconds() - s.started;
    scan_end(&s);
    return ok;
}

gq_comparison *gq_compare(const char *a, const char *b, const char *matrix, int threads,
                          const gq_callbacks *callbacks, gq_error *e) {
    gq_comparison *c = calloc(1, sizeof *c);
    if (!c) {
        gq_fail_memory(e, sizeof *c);
        return NULL;
    }
    if (compare(c, (const char *const[]){a, b}, matrix, threads, callbacks, e)) return c;
    gq_comparison_free(c);
    return NULL;
}

void gq_comparison_free(gq_comparison *c) {
    if (!c) return;
    for (int i = 0; i < 2; i++) gguf_model_close(&c->models[i]);
    imatrix_free(&c->matrix);
    free(c->tensors), free(c->losses);
    words_free(&c->warnings);
    free(c);
}

const gq_summary *gq_comparison_summary(const gq_comparison *c) { return &c->summary; }

const gq_tensor *gq_comparison_tensors(const gq_comparison *c, size_t *n) {
    *n = c->n;
    return c->tensors;
}

const gq_loss *gq_comparison_losses(const gq_comparison *c) { return c->losses; }

const char *const *gq_comparison_warnings(const gq_comparison *c, size_t *n) {
    *n = c->warnings.n;
    return (const char *const *)c->warnings.items;
}

double gq_comparison_seconds(const gq_comparison *c) { return c->seconds; }
