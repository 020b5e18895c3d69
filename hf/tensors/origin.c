/* Where a tensor comes from. Tensors are described from their pieces alone, whatever op has made them. A view
 * of a whole source tensor in its own order changes nothing. One that has fewer elements is a part; strides in
 * another order are a transposition where columns come before rows, else a permutation. */
#include "hf/tensors/tensors.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ORIGIN_TEXT = 1024 };

__attribute__((format(printf, 2, 3))) static void text_add(char to[ORIGIN_TEXT], const char *format, ...) {
    size_t n = strlen(to);
    va_list args;
    va_start(args, format);
    vsnprintf(to + n, ORIGIN_TEXT - n, format, args);
    va_end(args);
}

/* Adds a change, with "; " between it and those before it. */
static void change_add(char to[ORIGIN_TEXT], const char *change) {
    text_add(to, "%s%s", *to ? "; " : "", change);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static const char *piece_name(const hf_piece *p) { return p->source->stored->name; }

/* Whether the names of n pieces are the first one's beginning and end with the numbers first, first + 1, ...
 * between them, which a pattern can show. */
static bool names_are_counted(const hf_piece *p, size_t n, size_t head, const char *tail,
                              unsigned long long first) {
    char name[ORIGIN_TEXT];
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%.*s%llu%s", (int)head, piece_name(p), first + i, tail);
        if (!p[i].source || strcmp(name, piece_name(&p[i])) != 0) return false;
    }
    return true;
}

/* Writes the name of the source tensor of n pieces, or of several source tensors a pattern such as
 * experts.{0..127}.up_proj.weight. The first and the last piece have a source tensor. */
static void origin_write_names(const hf_piece *p, size_t n, char to[ORIGIN_TEXT]) {
    const char *first = piece_name(p), *last = piece_name(&p[n - 1]);
    size_t head = 0;
    if (strcmp(first, last) == 0) {
        text_add(to, "%s", first);
        return;
    }
    while (first[head] && first[head] == last[head]) head++;
    while (head > 0 && is_digit(first[head - 1])) head--;
    unsigned long long number = strtoull(first + head, NULL, 10);
    const char *tail = first + head + strspn(first + head, "0123456789");
    if (is_digit(first[head]) && names_are_counted(p, n, head, tail, number))
        text_add(to, "%.*s{%llu..%llu}%s", (int)head, first, number, number + n - 1, tail);
    else
        text_add(to, "%s and %zu more", first, n - 1);
}

/* Writes how a source tensor is coded: the type's short name, which ends before a comma, then its scales. */
static void source_write_type(const hf_source *s, char to[ORIGIN_TEXT]) {
    if (s->coding->write_type)
        s->coding->write_type(s, to, ORIGIN_TEXT);
    else
        text_add(to, "%s", hf_dtype_name(s->stored->dtype));
}

/* Returns the bytes of a source tensor, its scales and zeros, that n of its units are a share of. */
static uint64_t source_bytes(const hf_source *s, uint64_t n) {
    const hf_stored *all[] = {s->stored, s->scale, s->zero, s->group};
    double bytes = 0, units = (double)s->rows * (double)s->columns;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]) bytes += (double)all[i]->bytes;
    return units > 0 ? (uint64_t)(bytes * ((double)n / units) + 0.5) : 0;
}

/* Whether the rows of a view are columns of its source tensor. A GPTQ matrix is stored with its columns as rows, so
 * what is read along those is as it should be. */
static bool view_is_transposed(const hf_source *s, const hf_view *v) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < v->n_dims; i++) least = min(least, v->stride[i]);
    bool transposed =
        s->n_dims > 1 && s->columns > 1 && least < s->columns && v->stride[v->n_dims - 1] >= s->columns;
    return s->coding == &hf_gptq ? s->rows > 1 && !transposed : transposed;
}

/* Whether a dimension of a view lies inside of a later one. The last dimension is left out if it is a column,
 * which lies around all others. */
static bool view_is_permuted(const hf_view *v, bool last_is_column) {
    uint32_t n = v->n_dims - last_is_column;
    for (uint32_t i = 0; i + 1 < n; i++)
        if (v->stride[i] < v->stride[i + 1]) return true;
    return false;
}

static void origin_write_ops(const hf_piece *p, char to[ORIGIN_TEXT]) {
    static const char *const words[] = {[HF_ADD] = "added to",
                                        [HF_MULTIPLY] = "multiplied",
                                        [HF_NEGATIVE_EXP] = "-exp",
                                        [HF_EXP] = "exp",
                                        [HF_SOFTPLUS] = "softplus",
                                        [HF_RECIPROCAL] = "1/x",
                                        [HF_ROUND_TERNARY] = "three values"};
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (i == 0 || p->ops[i].kind != p->ops[i - 1].kind)
            change_add(to, p->ops[i].kind == HF_ADD && p->ops[i].value == 1 ? "+1" : words[p->ops[i].kind]);
}

/* Facts about all pieces of a tensor together. */
typedef struct piece_facts {
    const hf_piece *piece; /* the first that has a source tensor; NULL: all are numbers */
    size_t n;              /* from that to the last one that has a source tensor */
    bool several;          /* source tensors */
    bool filled;           /* zeros are added */
    bool apart;            /* one does not begin where the one before it ends, in the same source tensor */
    bool differ;           /* source tensors are of different types or codings */
    bool changed;          /* an adapter changes one of them */
    uint64_t units;        /* of all pieces that have a source tensor */
    uint64_t bytes;        /* the same, as they are stored */
} piece_facts;

static piece_facts pieces_sum_up(const hf_tensor *t) {
    piece_facts f = {.piece = NULL};
    for (size_t i = 0; i < t->n_pieces; i++) {
        const hf_piece *p = &t->pieces[i];
        f.filled |= !p->source && !p->numbers;
        if (!p->source) continue;
        if (!f.piece) f.piece = p;
        f.apart |= p->view.base != f.piece->view.base + f.units || p->view.n_dims > 1;
        f.several |= p->source != f.piece->source;
        f.changed |= p->source->deltas.n > 0;
        f.differ |= p->source->coding != f.piece->source->coding ||
                    p->source->stored->dtype != f.piece->source->stored->dtype;
        f.n = (size_t)(p - f.piece) + 1;
        f.units += p->n, f.bytes += source_bytes(p->source, p->n);
    }
    return f;
}

static void origin_write_changes(const hf_tensor *t, const piece_facts *f, char to[ORIGIN_TEXT]) {
    if (!f->piece) {
        change_add(to, "computed");
        return;
    }
    const hf_source *s = f->piece->source;
    const hf_view *v = &f->piece->view;
    uint64_t whole = s->rows * s->columns;
    bool transposed = view_is_transposed(s, v), gptq = s->coding == &hf_gptq;
    if (s->coding == &hf_mxfp4)
        change_add(to, "repacked");
    else if (s->coding != &hf_plain)
        change_add(to, "dequantized");
    if ((f->several ? f->piece->n : f->units) < whole) change_add(to, "split");
    if (transposed) change_add(to, "transposed");
    if (view_is_permuted(v, transposed != gptq) || (t->n_pieces > 1 && !f->several && f->apart))
        change_add(to, "permuted");
    if (f->several) change_add(to, "stacked");
    if (f->filled) change_add(to, "zeros added");
    if (f->changed) change_add(to, "adapter merged");
    origin_write_ops(f->piece, to);
    if (!*to) change_add(to, "as is");
}

static bool origin_keep(const char **to, const char *text, gq_error *e) {
    *to = strdup(text);
    return *to || gq_fail_memory(e, strlen(text));
}

bool hf_tensor_describe(hf_tensor *t, gq_error *e) {
    char names[ORIGIN_TEXT] = "", type[ORIGIN_TEXT] = "", changes[ORIGIN_TEXT] = "";
    piece_facts f = pieces_sum_up(t);
    if (f.piece) origin_write_names(f.piece, f.n, names), source_write_type(f.piece->source, type);
    if (f.differ) text_add(type, " and others");
    origin_write_changes(t, &f, changes);
    t->origin.bytes = f.piece ? f.bytes : t->tensor.size;
    t->origin.quantized = f.piece && f.piece->source->coding != &hf_plain;
    t->origin.merged = f.changed;
    t->tensor.origin = &t->origin;
    return origin_keep(&t->origin.names, names, e) && origin_keep(&t->origin.type, type, e) &&
           origin_keep(&t->origin.changes, changes, e);
}
