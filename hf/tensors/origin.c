/* Describes tensors from their pieces alone, whatever step has made them. A view of a whole array in its own
 * order changes nothing. One that has fewer elements is a part; strides in another order than the array's are
 * a transposition where columns come before rows, else a permutation.
 */
#include "hf/tensors/origin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { ORIGIN_TEXT = 1024 };

/* ---- texts that grow in a fixed buffer ---- */

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

/* ---- names ---- */

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

/* Writes the name of the array of n pieces, or of several arrays a pattern such as
 * experts.{0..127}.up_proj.weight. The first and the last piece have an array. */
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

/* ---- codings ---- */

/* Writes how an array is coded: the type's short name, which ends before a comma, then its scales. */
static void source_write_type(const hf_source *s, char to[ORIGIN_TEXT]) {
    const char *type = hf_dtype_name(s->stored->dtype);
    unsigned long long rows = s->scale_rows, columns = s->scale_columns;
    switch (s->coding) {
    case HF_MXFP4:
        text_add(to, "MXFP4");
        break;
    case HF_PACKED:
        text_add(to, "int%u, a scale per %llu columns", s->bits, columns);
        break;
    case HF_GPTQ:
        text_add(to, "GPTQ int%u, a scale per %llu columns", s->bits,
                 (unsigned long long)(s->rows / max(1, s->scale->shape[0])));
        break;
    case HF_TERNARY:
        text_add(to, "BitNet int2, a scale per matrix");
        break;
    case HF_SCALED:
        if (columns == s->columns && (rows == 1 || rows == s->matrix_rows))
            text_add(to, "%s, a scale per %s", type, rows == s->matrix_rows ? "matrix" : "row");
        else
            text_add(to, "%s, a scale per %llu x %llu block", type, rows, columns);
        break;
    default:
        text_add(to, "%s", type);
    }
}

/* Returns the bytes of an array, its scales and zeros, that n of its units are a share of. */
static uint64_t source_bytes(const hf_source *s, uint64_t n) {
    const hf_stored *all[] = {s->stored, s->scale, s->zero, s->group};
    double bytes = 0, units = (double)s->rows * (double)s->columns;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]) bytes += (double)all[i]->bytes;
    return units > 0 ? (uint64_t)(bytes * ((double)n / units) + 0.5) : 0;
}

/* ---- changes ---- */

/* Whether the rows of a view are columns of its array. A GPTQ matrix is stored with its columns as rows, so
 * what is read along those is as it should be. */
static bool view_is_transposed(const hf_source *s, const hf_view *v) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < v->n_dims; i++) least = min(least, v->stride[i]);
    bool turned =
        s->n_dims > 1 && s->columns > 1 && least < s->columns && v->stride[v->n_dims - 1] >= s->columns;
    return s->coding == HF_GPTQ ? s->rows > 1 && !turned : turned;
}

/* Whether some dimension of a view lies inside of one behind it; the last one is not looked at if it is a
 * column, which lies around all others. */
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
    const hf_piece *piece; /* the first that has an array; NULL: all are numbers */
    size_t n;              /* from that to the last one that has an array */
    bool several;          /* arrays */
    bool filled;           /* zeros are added */
    bool apart;            /* one does not begin where the one before it ends, in the same array */
    bool differ;           /* arrays are of different types or codings */
    bool changed;          /* an adapter changes one of them */
    uint64_t units;        /* of all pieces that have an array */
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
    bool turned = view_is_transposed(s, v), gptq = s->coding == HF_GPTQ;
    if (s->coding == HF_MXFP4)
        change_add(to, "repacked");
    else if (s->coding != HF_PLAIN)
        change_add(to, "dequantized");
    if ((f->several ? f->piece->n : f->units) < whole) change_add(to, "split");
    if (turned) change_add(to, "transposed");
    if (view_is_permuted(v, turned != gptq) || (t->n_pieces > 1 && !f->several && f->apart))
        change_add(to, "permuted");
    if (f->several) change_add(to, "stacked");
    if (f->filled) change_add(to, "zeros added");
    if (f->changed) change_add(to, "adapter merged");
    origin_write_ops(f->piece, to);
    if (!*to) change_add(to, "as is");
}

/* ---- the whole ---- */

static bool origin_keep(const char **to, const char *text, gq_error *e) {
    *to = strdup(text);
    return *to || gq_fail_memory(e, strlen(text));
}

bool hf_origin_describe(hf_tensor *t, gq_error *e) {
    char names[ORIGIN_TEXT] = "", type[ORIGIN_TEXT] = "", changes[ORIGIN_TEXT] = "";
    piece_facts f = pieces_sum_up(t);
    if (f.piece) origin_write_names(f.piece, f.n, names), source_write_type(f.piece->source, type);
    if (f.differ) text_add(type, " and others");
    origin_write_changes(t, &f, changes);
    t->origin.bytes = f.piece ? f.bytes : t->tensor.size;
    t->origin.quantized = f.piece && f.piece->source->coding != HF_PLAIN;
    t->tensor.origin = &t->origin;
    return origin_keep(&t->origin.names, names, e) && origin_keep(&t->origin.type, type, e) &&
           origin_keep(&t->origin.changes, changes, e);
}

void hf_origin_free(hf_tensor *t) {
    free((char *)t->origin.names), free((char *)t->origin.type), free((char *)t->origin.changes);
}
