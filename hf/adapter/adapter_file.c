/* Makes a GGUF adapter of a PEFT folder. Its modules stand for the matrices that they change: the rules of
 * the architecture make tensors of these, as of a model's, and what a tensor's view takes of rows it takes of
 * the lines of one narrow matrix, what of columns of the other.
 *
 * llama.cpp knows one alpha for all matrices, and divides it by each one's rank. Where the config has another
 * scale for a matrix (patterns, rank-stabilized), its lora_b is multiplied by what is missing.
 */
#include "hf/adapter/adapter.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "hf/metadata/metadata.h"

static const char INSTEAD[] =
    "llama.cpp's adapters hold only pairs of matrices; merge this adapter into its model instead (--lora)";

/* The lines of a narrow matrix that a tensor has, in its order. */
typedef struct adapter_lines {
    hf_view view; /* of line numbers */
    uint64_t n;
} adapter_lines;

/* One matrix of a tensor. */
typedef struct adapter_piece {
    const hf_delta *delta;
    const hf_factor *factor;
    adapter_lines lines;
    uint64_t first; /* element of the tensor */
} adapter_piece;

typedef struct adapter_tensor {
    model_tensor tensor; /* first member; its name is owned */
    adapter_piece *pieces;
    size_t n_pieces;
    bool has_lines; /* rows are lines, of the rank's length; else rows are ranks */
    float scale;    /* of all elements */
} adapter_tensor;

typedef struct adapter_container {
    hf_adapter adapter;
    hf_place place;
    hf_folder base;
    hf_config config;
    hf_list list; /* of the matrices that modules stand for: shapes without elements */
    hf_build build;
    hf_metadata metadata;
    adapter_tensor *tensors;
    size_t n;
} adapter_container;

/* ---- reading ---- */

/* Reads n lines from `first` on: element (i, k) goes to to[i * by_line + k * by_rank]. */
static bool piece_read_lines(const adapter_piece *p, uint64_t first, uint64_t n, float *to, uint64_t by_line,
                             uint64_t by_rank, gq_error *e) {
    const hf_view *l = &p->lines.view;
    for (uint64_t i = 0, some; i < n; i += some) {
        uint64_t at = hf_view_offset(l, l->n_dims, first + i);
        for (some = 1; i + some < n && hf_view_offset(l, l->n_dims, first + i + some) == at + some;) some++;
        if (!hf_factor_read(p->delta, p->factor, 0, at, some, to + i * by_line, by_line, by_rank, e))
            return false;
    }
    return true;
}

/* Reads whole lines, or, where rows are ranks, all of them, and hands out n elements. */
static bool piece_read(const adapter_tensor *t, const adapter_piece *p, uint64_t first, uint64_t n, float *to,
                       gq_error *e) {
    uint64_t rank = p->delta->rank, line = t->has_lines ? first / rank : 0;
    uint64_t lines = t->has_lines ? (first + n - 1) / rank - line + 1 : p->lines.n;
    float *x = calloc(lines * rank, sizeof *x);
    bool ok = (x || gq_fail_memory(e, lines * rank * sizeof *x)) &&
              piece_read_lines(p, line, lines, x, t->has_lines ? rank : 1, t->has_lines ? 1 : lines, e);
    for (uint64_t i = 0; ok && i < n; i++) to[i] = x[first - line * rank + i] * t->scale;
    free(x);
    return ok;
}

static const adapter_tensor *tensor_of(const model_tensor *t) {
    return (const adapter_tensor *)(const void *)t;
}

static bool container_read(const model_source *m, const model_tensor *of, uint64_t first, uint64_t n,
                           void *to, gq_error *e) {
    const adapter_tensor *t = tensor_of(of);
    float *x = to;
    (void)m;
    for (size_t i = 0; i < t->n_pieces && n > 0; i++) {
        const adapter_piece *p = &t->pieces[i];
        uint64_t end = p->first + p->lines.n * p->delta->rank, some;
        if (first >= end) continue;
        some = min(n, end - first);
        if (!piece_read(t, p, first - p->first, some, x, e)) return false;
        first += some, n -= some, x += some;
    }
    return true;
}

static bool container_fold_content(const model_source *m, uint32_t *content, gq_error *e) {
    const adapter_container *c = m->state;
    for (size_t i = 0; i < c->base.n_files; i++)
        *content = checksum_add(*content, &c->base.files[i].content, sizeof c->base.files[i].content);
    return hf_adapter_fold(&c->adapter, content, e);
}

static void container_close(void *state) {
    adapter_container *c = state;
    for (size_t i = 0; i < c->n; i++) free((char *)c->tensors[i].tensor.name), free(c->tensors[i].pieces);
    free(c->tensors);
    hf_build_free(&c->build);
    hf_list_free(&c->list);
    hf_metadata_free(&c->metadata);
    hf_config_free(&c->config);
    hf_folder_close(&c->base), hf_place_free(&c->place);
    hf_adapter_close(&c->adapter);
    free(c);
}

static const model_container container = {
    .read = container_read,
    .fold_content = container_fold_content,
    .close = container_close,
};

/* ---- the matrices that modules stand for ---- */

/* Copies of the model's own tensors below a change are left out; a GGUF model has them. */
static bool module_check(const hf_adapter *a, const hf_adapted *m, gq_error *e) {
    const hf_stored *others[] = {m->weight, m->own_bias, m->bias, m->magnitude, m->rows};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i]) return hf_list_fail(&a->list, others[i], e, "%s", INSTEAD);
    return m->a || m->embed_a || hf_list_fail(&a->list, m->base ? m->base : m->base_bias, e, "%s", INSTEAD);
}

/* Makes the source of a module, with a change that has the module's matrices. */
static bool source_make(adapter_container *c, const hf_adapted *m, hf_source *s, gq_error *e) {
    const hf_stored *a = m->a ? m->a : m->embed_a, *b = m->a ? m->b : m->embed_b;
    hf_stored *stored = &c->list.stored[c->list.n];
    hf_modules names = {.adapter = &c->adapter, .build = &c->build};
    double rank, scale;
    *stored = (hf_stored){.n_dims = 2, .file = a->file, .offset = a->offset};
    if (asprintf((char **)&stored->name, "%s.weight", m->module) < 0)
        return stored->name = NULL, gq_fail_memory(e, strlen(m->module));
    c->list.n++;
    *s = (hf_source){.name = strdup(stored->name), .list = &c->list, .stored = stored, .coding = &hf_plain};
    s->n_dims = 2;
    if (!s->name) return gq_fail_memory(e, strlen(m->module));
    if (a->n_dims != 2 || b->n_dims != 2 || a->shape[0] != b->shape[1] || a->shape[0] > UINT32_MAX)
        return hf_list_fail(&c->adapter.list, a, e, "its shape does not fit that of '%s'", b->name);
    if (!hf_adapter_scale(&c->adapter, m->module, &rank, &scale, e)) return false;
    if ((double)a->shape[0] != rank)
        return hf_list_fail(&c->adapter.list, a, e, "rank %llu, but %s says %g", LLU(a->shape[0]),
                            c->adapter.file, rank);
    bool transposed = m->embed_a || hf_module_is_transposed(&names, s);
    hf_factor fa = {a, 0, 0, 1, a->shape[1]}, fb = {b, 0, 0, b->shape[1], 1};
    s->rows = s->matrix_rows = s->shape[0] = transposed ? a->shape[1] : b->shape[0];
    s->columns = s->shape[1] = transposed ? b->shape[0] : a->shape[1];
    if (!(s->deltas.items = calloc(1, sizeof *s->deltas.items)))
        return gq_fail_memory(e, sizeof *s->deltas.items);
    s->deltas.n = s->deltas.capacity = 1;
    *s->deltas.items = (hf_delta){.list = &c->adapter.list,
                                  .rank = (uint32_t)a->shape[0],
                                  .scale = (float)(scale * rank / c->adapter.alpha)};
    s->deltas.items->rows = transposed ? fa : fb, s->deltas.items->columns = transposed ? fb : fa;
    return true;
}

/* Makes tensors of the matrices by the architecture's rules. */
static bool build_matrices(adapter_container *c, gq_error *e) {
    const hf_adapter *a = &c->adapter;
    size_t n = 0;
    hf_source *sources = calloc(a->n + 1, sizeof *sources);
    c->list =
        (hf_list){.folder = (hf_folder *)&a->folder, .stored = calloc(a->n + 1, sizeof *c->list.stored)};
    c->build = (hf_build){.config = &c->config, .arch = c->config.like, .list = &c->list};
    bool ok = (sources && c->list.stored) || gq_fail_memory(e, a->n * sizeof *sources);
    if (ok && a->alpha == 0) ok = hf_adapter_fail(a, e, "lora_alpha is 0: the adapter changes nothing");
    for (size_t i = 0; ok && i < a->n; i++)
        ok = module_check(a, &a->modules[i], e) && source_make(c, &a->modules[i], &sources[n++], e);
    if (!ok) return hf_sources_free(sources, sources ? n : 0), false;
    return hf_build_arrays(&c->build, &c->config, &c->list, sources, n, e);
}

/* ---- is it of this model? ---- */

static bool base_fail(const adapter_container *c, const hf_source *s, const char *why, uint64_t found,
                      uint64_t expected, gq_error *e) {
    const char *base = hf_adapter_base(&c->adapter);
    return gq_fail(e,
                   "%s: it changes '%s' of %llu %s, but the model in %s has %llu: it is for another model "
                   "(it names %.120s)",
                   c->adapter.folder.path, s->name, LLU(found), why, c->place.folder, LLU(expected),
                   base && *base ? base : "none");
}

/* Compares with config.json the matrices that read or write the hidden state. */
static bool base_check_widths(const adapter_container *c, gq_error *e) {
    static const char *const reads[] = {"attn_q.weight",   "attn_k.weight",   "attn_v.weight",
                                        "attn_qkv.weight", "ffn_gate.weight", "ffn_up.weight"},
                             *const writes[] = {"attn_output.weight", "ffn_down.weight"};
    hf_sizes sizes;
    if (!hf_config_sizes(&c->config, &sizes, e)) return false;
    for (size_t i = 0; sizes.width && i < c->build.n; i++) {
        const hf_tensor *t = &c->build.tensors[i];
        const char *layer = name_behind(t->tensor.name, "blk."), *name = layer ? strchr(layer, '.') : NULL;
        const hf_source *s = t->n_pieces ? t->pieces[0].source : NULL;
        for (size_t k = 0; name && s && k < sizeof reads / sizeof *reads; k++)
            if (!strcmp(name + 1, reads[k]) && t->tensor.ne[0] != sizes.width)
                return base_fail(c, s, "inputs", t->tensor.ne[0], sizes.width, e);
        for (size_t k = 0; name && s && k < sizeof writes / sizeof *writes; k++)
            if (!strcmp(name + 1, writes[k]) && t->tensor.ne[1] != sizes.width)
                return base_fail(c, s, "outputs", t->tensor.ne[1], sizes.width, e);
    }
    return true;
}

/* A matrix's name from the word before its first number on, as what stands before that differs among programs;
 * without a number from the module on: "layers.0.mlp.up_proj.weight", "lm_head.weight". */
static const char *matrix_tail(const char *name) {
    const char *word = name, *module = name;
    for (const char *at = name; (at = strchr(at, '.')); word = ++at) {
        if (at[1] >= '0' && at[1] <= '9') return word;
        module = word;
    }
    return module;
}

/* Whether weights have a module, and *fits: its matrix in this shape, or in a coding that does not show it. */
static bool weights_have(const hf_list *l, const hf_source *s, bool *fits) {
    const char *tail = matrix_tail(s->name);
    size_t n = strlen(tail) - strlen("weight"); /* with the dot */
    bool found = false;
    *fits = false;
    for (size_t i = 0; i < l->n; i++) {
        const hf_stored *t = &l->stored[i];
        const char *at = t->name;
        while (at && strncmp(at, tail, n) != 0) {
            const char *dot = strchr(at, '.');
            at = dot ? dot + 1 : NULL;
        }
        if (!at) continue;
        found = true;
        bool shows_shape = !strcmp(at + n, "weight") && t->n_dims == 2 && t->dtype <= HF_BF16;
        *fits |= !shows_shape || (t->shape[0] == s->rows && t->shape[1] == s->columns) ||
                 (t->shape[1] == s->rows && t->shape[0] == s->columns);
    }
    return found;
}

/* Compares modules with the base model's weights, where these are there. */
static bool base_check_weights(const adapter_container *c, gq_error *e) {
    hf_folder folder;
    hf_list l = {.folder = &folder};
    size_t n = 0;
    bool ok = true;
    if (!hf_folder_open(&folder, c->place.folder, e)) return false;
    bool has_weights = hf_list_read(&l, &folder, &(gq_error){0});
    for (size_t i = 0; ok && has_weights && i < c->build.n_sources; i++) {
        const hf_source *s = &c->build.sources[i];
        bool fits, found = weights_have(&l, s, &fits);
        n += found;
        if (found && !fits)
            ok = gq_fail(e,
                         "%s: it changes a matrix of %llu rows of %llu, but '%s' of the model in %s has "
                         "another shape: it is "
                         "for another model",
                         c->adapter.folder.path, LLU(s->rows), LLU(s->columns), s->name, c->place.folder);
    }
    if (ok && has_weights && n == 0)
        ok = gq_fail(e,
                     "%s: the model in %s has no module '%s', nor another one that it changes: it is for "
                     "another model",
                     c->adapter.folder.path, c->place.folder,
                     c->build.n_sources ? c->build.sources[0].name : "");
    hf_list_free(&l), hf_folder_close(&folder);
    return ok;
}

/* ---- tensors ---- */

static bool tensor_fail(const hf_tensor *t, gq_error *e) {
    const hf_source *s = t->pieces[0].source;
    return gq_fail(e, "%s: '%s' becomes %s by an operation that low-rank matrices cannot go through: %s",
                   s ? hf_list_path(s->list, s->stored->file) : "the adapter", s ? s->name : "an array",
                   t->tensor.name, INSTEAD);
}

/* Parts a piece's view into what it takes of the source's rows and of its columns; those that come first are
 * the tensor's rows. *transposed: these are columns of the source. */
static bool piece_part(const hf_piece *p, adapter_lines *outer, adapter_lines *inner, bool *transposed) {
    const hf_view *v = &p->view;
    uint64_t columns = p->source->columns;
    adapter_lines of[2] = {{.n = 1}, {.n = 1}}; /* of rows, of columns */
    bool seen[2] = {false, false};
    int first = -1, last = -1;
    for (uint32_t i = 0; i < v->n_dims; i++) {
        if (v->count[i] == 1) continue;
        int k = v->stride[i] < columns;
        if (!k && v->stride[i] % columns) return false;
        if (seen[k] && last != k) return false;
        hf_view *to = &of[k].view;
        to->count[to->n_dims] = v->count[i],
        to->stride[to->n_dims++] = k ? v->stride[i] : v->stride[i] / columns;
        of[k].n = mul_sat(of[k].n, v->count[i]);
        if (first < 0) first = k;
        seen[k] = true, last = k;
    }
    of[0].view.base = v->base / columns, of[1].view.base = v->base % columns;
    *transposed = first == 1 && seen[0];
    *outer = of[*transposed], *inner = of[!*transposed];
    return true;
}

static adapter_tensor *tensor_add(adapter_container *c, const hf_tensor *of, const char *end, size_t n_pieces,
                                  gq_error *e) {
    adapter_tensor *t = &c->tensors[c->n];
    char *name = NULL;
    *t = (adapter_tensor){.scale = 1, .pieces = calloc(n_pieces, sizeof *t->pieces)};
    if (!t->pieces || asprintf(&name, "%s%s", of->tensor.name, end) < 0)
        return free(t->pieces), gq_fail_memory(e, n_pieces * sizeof *t->pieces), NULL;
    c->n++;
    t->tensor.name = name;
    if (strlen(name) <= GGUF_MAX_NAME) return t;
    gq_fail(e, "the tensor's name %s is longer than %d bytes", name, GGUF_MAX_NAME);
    return NULL;
}

static bool tensor_finish(adapter_tensor *t, const adapter_container *c, uint32_t n_dims,
                          const uint64_t ne[4], gq_error *e) {
    model_tensor *m = &t->tensor;
    uint64_t all = 0;
    m->type = m->kept_type = tensor_type_of(GGUF_F32), m->n_dims = n_dims;
    memcpy(m->ne, ne, sizeof m->ne);
    for (size_t i = 0; i < t->n_pieces; i++) {
        t->pieces[i].first = all, all += t->pieces[i].lines.n * t->pieces[i].delta->rank;
        m->offset = t->pieces[0].factor->stored->offset;
    }
    if (all != shape_elements(m->ne))
        return gq_fail(e, "%s: the matrices of %s do not make up its shape", c->adapter.file, m->name);
    m->size = model_bytes(m, all);
    return true;
}

/* Whether all matrices of a tensor have one rank and one scale. */
static bool tensor_check_pieces(const hf_tensor *t, gq_error *e) {
    const hf_delta *first = t->pieces[0].source ? t->pieces[0].source->deltas.items : NULL;
    for (size_t i = 0; i < t->n_pieces; i++) {
        const hf_piece *p = &t->pieces[i];
        const hf_delta *d = p->source ? p->source->deltas.items : NULL;
        if (!d && t->stored_name)
            return gq_fail(e,
                           "the adapter changes '%s', but not number %zu of the %zu matrices that are one "
                           "tensor with it (%s): merge the adapter into the model instead (--lora)",
                           t->stored_name, i, t->n_pieces, t->tensor.name);
        if (!d || p->n_ops || p->numbers || d->rank != first->rank || d->scale != first->scale)
            return tensor_fail(t, e);
    }
    return true;
}

/* The two tensors of one: a matrix for each piece, or, where pieces are rows of one matrix, one lora_a. */
static bool tensor_make(adapter_container *c, const hf_tensor *of, gq_error *e) {
    if (!tensor_check_pieces(of, e)) return false;
    const hf_delta *d = of->pieces[0].source->deltas.items;
    bool stacked = of->tensor.n_dims == 3 && of->n_pieces > 1,
         embeds = !strcmp(of->tensor.name, "token_embd.weight");
    adapter_tensor *a = tensor_add(c, of, ".lora_a", of->n_pieces, e);
    adapter_tensor *b = a ? tensor_add(c, of, ".lora_b", of->n_pieces, e) : NULL;
    if (!b) return false;
    for (size_t i = 0; i < of->n_pieces; i++) {
        const hf_piece *p = &of->pieces[i];
        const hf_delta *own = p->source->deltas.items;
        adapter_lines outer, inner;
        bool transposed;
        if (!piece_part(p, &outer, &inner, &transposed) || (!stacked && p->source != of->pieces[0].source))
            return tensor_fail(of, e);
        if (embeds) { /* lora_a has a row for each token */
            adapter_lines tokens = outer;
            outer = inner, inner = tokens, transposed = !transposed;
        }
        b->pieces[i] = (adapter_piece){own, transposed ? &own->columns : &own->rows, outer, 0};
        a->pieces[i] = (adapter_piece){own, transposed ? &own->rows : &own->columns, inner, 0};
    }
    uint64_t rank = d->rank, *ne = (uint64_t *)of->tensor.ne;
    uint64_t matrices = stacked ? ne[2] : 1;
    a->n_pieces = stacked ? of->n_pieces : 1, b->n_pieces = of->n_pieces;
    b->has_lines = true, a->has_lines = embeds, b->scale = d->scale;
    uint64_t ne_a[4] = {embeds ? rank : a->pieces[0].lines.n, embeds ? a->pieces[0].lines.n : rank, matrices,
                        1};
    uint64_t ne_b[4] = {rank, embeds ? b->pieces[0].lines.n : ne[1], embeds ? 1 : ne[2], 1};
    return tensor_finish(a, c, stacked ? 3 : 2, ne_a, e) && tensor_finish(b, c, of->tensor.n_dims, ne_b, e);
}

static bool tensors_make(adapter_container *c, gq_error *e) {
    c->tensors = calloc(2 * c->build.n + 1, sizeof *c->tensors);
    if (!c->tensors) return gq_fail_memory(e, c->build.n * sizeof *c->tensors);
    for (size_t i = 0; i < c->build.n; i++)
        if (!tensor_make(c, &c->build.tensors[i], e)) return false;
    if (c->n == 0)
        return hf_adapter_fail(&c->adapter, e, "no tensor of the adapter belongs to the language model");
    if (!json_is_true(json_object_get(c->config.merged, "tie_word_embeddings")) ||
        !hf_build_find(&c->build, "output.weight"))
        return true;
    return hf_adapter_fail(&c->adapter, e,
                           "it changes the output head, which is tied to the token embedding: merge the "
                           "adapter into the model instead (--lora)");
}

/* ---- the whole ---- */

static bool adapter_warn_scales(adapter_container *c, gq_error *e) {
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) n += c->tensors[i].scale != 1;
    return n == 0 ||
           hf_folder_warn(&c->adapter.folder, "", e,
                          "%zu lora_b tensor%s scaled, as llama.cpp divides one alpha by each tensor's rank",
                          n, n == 1 ? " is" : "s are");
}

static bool adapter_metadata(adapter_container *c, gq_error *e) {
    hf_counts counts = {0};
    hf_config config = c->config;
    config.folder = &c->adapter.folder;
    c->metadata.prefix = c->config.arch;
    if (!hf_general_metadata(&c->adapter.folder, &config, &counts, &c->metadata, e)) return false;
    hf_metadata_remove(&c->metadata, "general.size_label");
    return hf_metadata_text(&c->metadata, "general.type", "adapter", e) &&
           hf_metadata_text(&c->metadata, "adapter.type", "lora", e) &&
           hf_metadata_f32(&c->metadata, "adapter.lora.alpha",
                           (float)(c->adapter.alpha * c->adapter.given_scale), e);
}

static bool adapter_gather(model_source *m, adapter_container *c, gq_error *e) {
    size_t n = c->adapter.folder.n_files, n_base = c->base.n_files;
    m->tensors = calloc(c->n + 1, sizeof *m->tensors), m->files = calloc(n + n_base + 1, sizeof *m->files);
    if (!m->tensors || !m->files) return gq_fail_memory(e, c->n * sizeof *m->tensors);
    for (size_t i = 0; i < n; i++) m->files[m->n_files++] = &c->adapter.folder.files[i].file;
    for (size_t i = 0; i < n_base; i++) m->files[m->n_files++] = &c->base.files[i].file;
    for (size_t i = 0; i < c->n; i++) {
        c->tensors[i].tensor.shard = c->tensors[i].pieces[0].factor->stored->file;
        m->tensors[m->n_tensors++] = &c->tensors[i].tensor;
    }
    m->path = c->adapter.folder.path, m->kv = c->metadata.kv, m->n_kv = c->metadata.n;
    m->alignment = GGUF_DEFAULT_ALIGNMENT;
    if (!warnings_join(&m->warnings, &c->base.warnings, e) ||
        !warnings_join(&m->warnings, &c->adapter.folder.warnings, e))
        return false;
    return model_index_names(m, e);
}

bool hf_adapter_file_open(model_source *m, const char *path, const char *base, gq_error *e) {
    *m = (model_source){.path = NULL};
    adapter_container *c = m->state = calloc(1, sizeof *c);
    if (!c) return gq_fail_memory(e, sizeof *c);
    m->container = &container;
    bool ok =
        hf_adapter_open(&c->adapter, &(gq_adapter){.path = path}, e) && hf_place_find(&c->place, base, e);
    if (ok && c->place.is_image) ok = gq_fail(e, "%s is not the folder of a language model", base);
    ok = ok && hf_folder_open(&c->base, c->place.folder, e) && hf_config_read(&c->config, &c->base, e) &&
         build_matrices(c, e) && base_check_widths(c, e) && base_check_weights(c, e) && tensors_make(c, e) &&
         adapter_warn_scales(c, e) && adapter_metadata(c, e) && adapter_gather(m, c, e);
    if (!ok) model_close(m);
    return ok;
}
