/* Tensors under construction, as ops see them: found or made by name, with pieces that are set once. */
#include "hf/tensors/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/memory.h"

bool hf_match_fail_shape(const hf_match *f, gq_error *e, const char *expected) {
    char shape[128] = "";
    for (uint32_t i = 0, n = 0; i < f->source->n_dims && n < 100; i++)
        n +=
            (uint32_t)snprintf(shape + n, sizeof shape - n, "%s%" PRIu64, i ? ", " : "", f->source->shape[i]);
    return hf_match_fail(f, e, "shape [%s], expected %s", shape, expected);
}

bool hf_match_fail_rows(const hf_match *f, gq_error *e, uint64_t n, const char *of) {
    char expected[128];
    snprintf(expected, sizeof expected, "a multiple of %" PRIu64 " rows (%s)", n, of);
    return hf_match_fail_shape(f, e, expected);
}

bool hf_pattern_write(const char *pattern, uint64_t layer, uint64_t expert, const char *end, char *to,
                      size_t size) {
    size_t n = 0;
    for (; *pattern && *pattern != '|' && n + 24 < size; pattern++)
        if (*pattern == '#' || (*pattern == '*' && expert != UINT64_MAX))
            n += (size_t)snprintf(to + n, size - n, "%llu", LLU(*pattern == '#' ? layer : expert));
        else
            to[n++] = *pattern;
    return (!*pattern || *pattern == '|') && n + (size_t)snprintf(to + n, size - n, "%s", end) < size;
}

hf_tensor *hf_build_find(const hf_build *b, const char *name) {
    uint64_t i;
    return name_index_find(&b->by_name, b->tensors, sizeof *b->tensors, name, &i) ? &b->tensors[i] : NULL;
}

hf_tensor *hf_build_add(hf_build *b, const char *name, size_t n_pieces, gq_error *e) {
    if (!memory_grow(&b->tensors, &b->capacity, b->n + 1, sizeof *b->tensors, e)) return NULL;
    hf_tensor *t = &b->tensors[b->n];
    *t = (hf_tensor){.tensor = {.name = strdup(name), .n_dims = 1, .ne = {1, 1, 1, 1}},
                     .pieces = calloc(n_pieces, sizeof *t->pieces),
                     .n_pieces = n_pieces};
    if (!t->tensor.name || !t->pieces) {
        free((char *)t->tensor.name), free(t->pieces);
        gq_fail_memory(e, n_pieces * sizeof *t->pieces);
        return NULL;
    }
    t->tensor.type = tensor_type_of(GGUF_F32);
    return name_index_add(&b->by_name, b->tensors, sizeof *b->tensors, b->n++, e) ? t : NULL;
}

/* The same with a shape: dimensions of 1 at its end are none. */
static hf_tensor *build_new(hf_build *b, const char *name, size_t n_pieces, uint32_t n_dims,
                            const uint64_t *ne, gq_error *e) {
    hf_tensor *t = hf_build_add(b, name, n_pieces, e);
    for (uint32_t i = 0; t && i < n_dims; i++) {
        t->tensor.ne[i] = ne[i];
        if (ne[i] != 1 || b->keeps_ones) t->tensor.n_dims = i + 1;
    }
    return t;
}

static bool ne_fits(const uint64_t have[GGUF_MAX_DIMS], uint32_t n_dims, const uint64_t *ne) {
    for (uint32_t i = 0; i < GGUF_MAX_DIMS; i++)
        if (have[i] != (i < n_dims ? ne[i] : 1)) return false;
    return true;
}

hf_tensor *hf_build_tensor(hf_build *b, const hf_match *f, unsigned which, size_t n_pieces, uint32_t n_dims,
                           const uint64_t *ne, gq_error *e) {
    char name[GGUF_MAX_NAME + 1];
    const char *to = f->rule->to;
    for (unsigned i = 0; i < which; i++) to = strchr(to, '|') + 1;
    if (!hf_pattern_write(to, f->layer, f->expert, f->suffix, name, sizeof name)) {
        hf_match_fail(f, e, "its name in GGUF is longer than %d bytes", GGUF_MAX_NAME);
        return NULL;
    }
    if (n_dims > GGUF_MAX_DIMS) {
        hf_match_fail(f, e, "%u dimensions, expected at most %d", n_dims, GGUF_MAX_DIMS);
        return NULL;
    }
    for (uint32_t i = 0; i < n_dims; i++)
        if (ne[i] == 0) {
            hf_match_fail(f, e, "no elements");
            return NULL;
        }
    hf_tensor *t = hf_build_find(b, name);
    if (!t) return build_new(b, name, n_pieces, n_dims, ne, e);
    if (n_pieces == t->n_pieces && n_pieces > 1 && ne_fits(t->tensor.ne, n_dims, ne)) return t;
    const char *other = t->stored_name ? t->stored_name : "a number of the config";
    if (n_pieces == 1)
        hf_match_fail(f, e, "'%s' is %s already", other, name);
    else
        hf_match_fail(f, e, "its shape differs from that of '%s', both parts of %s", other, name);
    return NULL;
}

/* Integers that no coding explains would become weights of their size. */
static bool source_check_numbers(const hf_source *s, gq_error *e) {
    return s->coding != &hf_plain || s->stored->dtype < HF_E8M0 ||
           hf_list_fail(
               s->list, s->stored, e,
               "elements of type %s, expected floating-point numbers: use the model's folder in 16 bits",
               hf_dtype_name(s->stored->dtype));
}

bool hf_build_floats(const hf_source *s, uint64_t first, uint64_t n, float *to, gq_error *e) {
    if (s->coding != &hf_plain)
        return hf_list_fail(
            s->list, s->stored, e,
            "it is quantized, which is not supported for this tensor: use the model's folder in 16 bits");
    return source_check_numbers(s, e) && hf_list_floats(s->list, s->stored, first, n, to, e);
}

hf_piece *hf_build_piece(const hf_match *f, hf_tensor *t, size_t i, const hf_view *v, gq_error *e) {
    hf_piece *p = &t->pieces[i];
    if (f->source->coding == &hf_mxfp4 && v->n_dims > 0 && v->stride[v->n_dims - 1] != 1) {
        hf_match_fail(f, e, "MXFP4 blocks cannot be transposed or split");
        return NULL;
    }
    if (!source_check_numbers(f->source, e)) return NULL;
    if (p->source) {
        hf_match_fail(f, e, "'%s' is the same part of %s", p->source->name, t->tensor.name);
        return NULL;
    }
    *p = (hf_piece){.source = f->source, .view = *v};
    if (!t->stored_name) t->stored_name = f->source->name;
    return p;
}

hf_piece *hf_build_shaped(hf_build *b, const hf_match *f, unsigned which, const hf_view *v, uint32_t n_dims,
                          const uint64_t *ne, gq_error *e) {
    hf_tensor *t = hf_build_tensor(b, f, which, 1, n_dims, ne, e);
    return t ? hf_build_piece(f, t, 0, v, e) : NULL;
}

hf_piece *hf_build_view(hf_build *b, const hf_match *f, unsigned which, const hf_view *v, gq_error *e) {
    uint64_t ne[VIEW_DIMS] = {1};
    for (uint32_t i = 0; i < v->n_dims; i++) ne[i] = v->count[v->n_dims - 1 - i];
    ne[0] *= hf_source_unit(f->source);
    return hf_build_shaped(b, f, which, v, v->n_dims ? v->n_dims : 1, ne, e);
}

hf_view hf_match_view(const hf_match *f) {
    hf_view v = hf_view_of(f->source);
    if (f->is_transposed) hf_view_swap(&v, 1, 2);
    return v;
}

hf_piece *hf_build_whole(hf_build *b, const hf_match *f, gq_error *e) {
    hf_view v = hf_view_of(f->source);
    return hf_build_view(b, f, 0, &v, e);
}

bool hf_build_with_op(hf_build *b, const hf_match *f, hf_value_op_kind kind, double value, gq_error *e) {
    hf_piece *p = hf_build_whole(b, f, e);
    return p && hf_piece_add_op(p, kind, value, e);
}

hf_tensor *hf_build_pieces(hf_build *b, const hf_match *f, size_t n, gq_error *e) {
    hf_view v = hf_view_of(f->source);
    uint64_t ne[VIEW_DIMS] = {1};
    for (uint32_t i = 0; i < v.n_dims; i++) ne[i] = v.count[v.n_dims - 1 - i];
    return hf_build_tensor(b, f, 0, n, v.n_dims ? v.n_dims : 1, ne, e);
}

hf_piece *hf_build_reordered(hf_build *b, const hf_match *f, const hf_view *v, gq_error *e) {
    hf_tensor *t = hf_build_pieces(b, f, 1, e);
    return t ? hf_build_piece(f, t, 0, v, e) : NULL;
}

unsigned hf_match_names(const hf_match *f) {
    unsigned n = 1;
    for (const char *to = f->rule->to; (to = strchr(to, '|')); to++) n++;
    return n;
}

bool hf_build_equal_pieces(hf_build *b, const hf_match *f, uint32_t dim, unsigned n, gq_error *e) {
    for (unsigned i = 0; i < n; i++) {
        hf_view v = hf_match_view(f);
        uint64_t rows = v.count[dim] / n;
        if (!hf_view_cut(&v, dim, i * rows, rows, 1))
            return hf_match_fail(f, e, "%llu rows, expected %u equal parts", LLU(v.count[dim]), n);
        if (!hf_build_view(b, f, i, &v, e)) return false;
    }
    return true;
}

bool hf_build_numbers_shaped(hf_build *b, const char *name, float *numbers, uint64_t n, uint32_t n_dims,
                             const uint64_t *ne, gq_error *e) {
    uint64_t all = n_dims > 0 && n_dims <= GGUF_MAX_DIMS;
    for (uint32_t i = 0; all && i < n_dims; i++) all = mul_sat(all, ne[i]);
    if (numbers && all != n)
        hf_config_fail(b->config, e, "%s has %llu numbers, but its shape needs %llu", name, LLU(n), LLU(all));
    hf_tensor *t = numbers && all == n ? build_new(b, name, 1, n_dims, ne, e) : NULL;
    if (t)
        t->pieces[0] = (hf_piece){.numbers = numbers, .n = n};
    else
        free(numbers);
    return t != NULL;
}

/* Source tensors of integers are read whole: they are tables of tokens. */
int64_t *hf_ids_read(const hf_match *f, gq_error *e) {
    const hf_stored *s = f->source->stored;
    const gq_file *file = &f->source->list->folder->files[s->file].file;
    bool is_wide = s->dtype == HF_I64;
    if (!is_wide && s->dtype != HF_I32) {
        hf_match_fail(f, e, "elements of type %s, expected I64 or I32", hf_dtype_name(s->dtype));
        return NULL;
    }
    int64_t *ids = malloc((s->n ? s->n : 1) * sizeof *ids);
    if (!ids) return gq_fail_memory(e, s->n * sizeof *ids), NULL;
    int32_t *narrow = (int32_t *)(void *)ids;
    if (!gq_file_read(file, s->offset, ids, s->bytes, e)) return free(ids), NULL;
    for (uint64_t i = s->n; !is_wide && i > 0;
         i--) { /* from behind, since the wide ones lie over the others */
        int32_t id;
        memcpy(&id, narrow + i - 1, sizeof id);
        memcpy(ids + i - 1, &(int64_t){id}, sizeof *ids);
    }
    return ids;
}

bool hf_build_ids(hf_build *b, const hf_match *f, uint32_t type, int64_t *ids, uint64_t n, uint64_t rows,
                  gq_error *e) {
    hf_tensor *t = hf_build_tensor(b, f, 0, 1, 2, (uint64_t[]){n / rows, rows}, e);
    if (t) {
        t->pieces[0] = (hf_piece){.ids = ids, .n = n}, t->stored_name = f->source->name;
        t->tensor.type = tensor_type_of(type);
    } else
        free(ids);
    return t != NULL;
}

bool hf_build_numbers(hf_build *b, const char *name, float *numbers, uint64_t n, gq_error *e) {
    return hf_build_numbers_shaped(b, name, numbers, n, 1, &n, e);
}

static bool tensor_check_pieces(const hf_build *b, const hf_tensor *t, gq_error *e) {
    for (size_t k = 0; k < t->n_pieces; k++)
        if (!t->pieces[k].source && !t->pieces[k].n)
            return hf_config_fail(b->config, e,
                                  "%s needs %zu tensors such as '%s', and number %zu is missing",
                                  t->tensor.name, t->n_pieces, t->stored_name, k);
    return true;
}

bool hf_build_complete(const hf_build *b, hf_type_setter *set_type, const void *user, gq_error *e) {
    for (size_t i = 0; i < b->n; i++) {
        hf_tensor *t = &b->tensors[i];
        if (!tensor_check_pieces(b, t, e) || !set_type(b, user, t, e)) return false;
        if (!hf_tensor_join(t, e)) return gq_fail_again(e, e, "%s: %s", b->config->file, gq_error_text(e));
        if (!hf_tensor_describe(t, e)) return false;
    }
    return true;
}

/* Compares names from their ends on; the shorter of two that agree comes first. */
static int compare_ends(const char *x, const char *y) {
    size_t n = strlen(x), m = strlen(y);
    while (n > 0 && m > 0 && x[n - 1] == y[m - 1]) n--, m--;
    int left = n > 0 ? (unsigned char)x[n - 1] : -1, right = m > 0 ? (unsigned char)y[m - 1] : -1;
    return left - right;
}

static int compare_source_ends(const void *a, const void *b) {
    return compare_ends((*(hf_source *const *)a)->name, (*(hf_source *const *)b)->name);
}

static bool build_sort_by_end(hf_build *b, gq_error *e) {
    if (b->by_end) return true;
    b->by_end = malloc((b->n_sources + 1) * sizeof *b->by_end);
    if (!b->by_end) return gq_fail_memory(e, b->n_sources * sizeof *b->by_end);
    for (size_t i = 0; i < b->n_sources; i++) b->by_end[i] = &b->sources[i];
    if (b->n_sources) qsort(b->by_end, b->n_sources, sizeof *b->by_end, compare_source_ends);
    return true;
}

bool hf_build_source(hf_build *b, const char *name, const hf_source **found, gq_error *e) {
    if (!build_sort_by_end(b, e)) return false;
    size_t low = 0, high = b->n_sources;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_ends(b->by_end[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < b->n_sources && name_ends(b->by_end[low]->name, name) ? b->by_end[low] : NULL;
    return !*found || source_check_numbers(*found, e);
}

void hf_build_free(hf_build *b) {
    for (size_t i = 0; i < b->n; i++) {
        hf_tensor *t = &b->tensors[i];
        for (size_t k = 0; k < t->n_pieces; k++)
            free((float *)t->pieces[k].numbers), free((int64_t *)t->pieces[k].ids);
        hf_tensor_free(t);
        free(t->pieces), free((char *)t->tensor.name);
    }
    hf_sources_free(b->sources, b->n_sources);
    free(b->by_end), free(b->tensors);
    name_index_free(&b->by_name);
    *b = (hf_build){.config = NULL};
}
