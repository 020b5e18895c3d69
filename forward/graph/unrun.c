#include "forward/graph/unrun.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/kv.h"
#include "arch/projector.h"
#include "arch/rules.h"
#include "base/checked.h"
#include "base/fail.h"

/* ---- blocks ---- */

enum { BLOCKS_MOST = 4096 };

/* A tensor's name around its block's number: "v.blk." and "attn_q.weight". */
typedef struct block_name {
    const char *name;
    model_block block;
} block_name;

static int compare_begins(const block_name *a, const block_name *b) {
    size_t m = (size_t)(a->block.digits - a->name), n = (size_t)(b->block.digits - b->name);
    int differ = memcmp(a->name, b->name, min(m, n));
    return differ ? differ : (m > n) - (m < n);
}

static int compare_names(const void *a, const void *b) {
    const block_name *x = a, *y = b;
    int differ = compare_begins(x, y);
    if (!differ) differ = strcmp(x->block.rest, y->block.rest);
    return differ ? differ : (x->block.number > y->block.number) - (x->block.number < y->block.number);
}

/* Whether some projectors of a kind, or some of their blocks, lack a tensor. */
static bool may_lack(const arch_projector *row, const char *name) {
    return row && (arch_names_match(row->may_lack, name) || arch_names_match(row->in_some, name));
}

/* Doubts the block that lacks a tensor which most of `all` blocks have: those numbers that are in `seen`. */
static bool block_doubt(const block_name *names, size_t have, const uint8_t *seen, size_t all,
                        warning_list *doubts, gq_error *e) {
    const block_name *n = names;
    uint64_t lacks = 0; /* the first that is not among the names, whose numbers ascend */
    for (size_t k = 0; !seen[lacks] || (k < have && names[k].block.number == lacks); lacks++)
        k += k < have && names[k].block.number == lacks;
    return warnings_add(doubts, e, "there is no tensor %.*s%llu.%s, which %zu of %zu blocks have",
                        (int)(n->block.digits - n->name), n->name, LLU(lacks), n->block.rest, have, all);
}

/* The same of the blocks whose names begin alike, which n names are of. */
static bool blocks_doubt(const arch_projector *row, const block_name *names, size_t n, uint8_t *seen,
                         warning_list *doubts, gq_error *e) {
    size_t all = 0, end;
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        all += !seen[names[i].block.number];
        seen[names[i].block.number] = 1;
    }
    for (size_t i = 0; ok && i < n; i = end) {
        for (end = i + 1; end < n && !strcmp(names[i].block.rest, names[end].block.rest);) end++;
        if (end - i < all && 2 * (end - i) > all && !may_lack(row, names[i].name))
            ok = block_doubt(names + i, end - i, seen, all, doubts, e);
    }
    for (size_t i = 0; i < n; i++) seen[names[i].block.number] = 0;
    return ok;
}

static bool blocks_check(const model_source *g, const arch_projector *row, warning_list *doubts,
                         gq_error *e) {
    uint8_t *seen = calloc(BLOCKS_MOST, 1);
    block_name *names = calloc(g->n_tensors + 1, sizeof *names);
    bool ok = (seen && names) || gq_fail_memory(e, g->n_tensors * sizeof *names);
    size_t n = 0, end;
    for (uint64_t i = 0; ok && i < g->n_tensors; i++) {
        names[n].name = g->by_name[i]->name;
        n += model_block_in(names[n].name, &names[n].block) && names[n].block.number < BLOCKS_MOST;
    }
    if (ok) qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 0; ok && i < n; i = end) {
        for (end = i + 1; end < n && !compare_begins(&names[i], &names[end]);) end++;
        ok = blocks_doubt(row, names + i, end - i, seen, doubts, e);
    }
    free(seen), free(names);
    return ok;
}

/* ---- projectors ---- */

/* Numbers of projectors: whether 0 is one that readers take. */
static const struct {
    const char *key;
    bool may_be_0;
} counts[] = {{"embedding_length", false},   {"attention.head_count", true}, {"patch_size", false},
              {"image_size", true},          {"projection_dim", true},       {"num_mel_bins", true},
              {"feed_forward_length", true}, {"block_count", true},          {"projector.scale_factor", true},
              {"spatial_merge_size", true}};
enum { COUNT_MOST = 1 << 24 };

static bool projector_check_encoder(const model_source *g, const model_facts *facts, const char *encoder,
                                    gq_error *e) {
    int64_t n, blocks = 0, width = 0, heads = 0;
    char key[64];
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        snprintf(key, sizeof key, "%s.%s", encoder, counts[i].key);
        if (!model_fact_int(facts, key, &n)) continue;
        if (n < !counts[i].may_be_0 || n > COUNT_MOST)
            return gq_fail_remedy(e, GQ_REMEDY_SET_METADATA, "%s: clip.%s is %lld, expected %d to %d",
                                  g->path, key, (long long)n, !counts[i].may_be_0, COUNT_MOST);
        if (!strcmp(counts[i].key, "embedding_length")) width = n;
    }
    snprintf(key, sizeof key, "%s.block_count", encoder);
    bool has_heads = model_fact_int(facts, key, &blocks) && blocks > 0;
    snprintf(key, sizeof key, "%s.attention.head_count", encoder);
    if (!has_heads || !model_fact_int(facts, key, &heads)) return true;
    bool divides = heads > 0 && (width % heads == 0 || model_fact(facts, "vision.sam.embedding_length"));
    return divides || gq_fail_remedy(e, GQ_REMEDY_SET_METADATA,
                                     "%s: clip.%s is %lld, expected a divisor of embedding_length, %lld",
                                     g->path, key, (long long)heads, (long long)width);
}

/* Means and deviations are of red, green and blue. */
static bool projector_check_colors(const model_source *g, const model_facts *facts, gq_error *e) {
    static const char *const keys[] = {"vision.image_mean", "vision.image_std"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const model_kv *kv = model_fact(facts, keys[i]);
        uint32_t type;
        uint64_t n;
        const uint8_t *elements;
        if (kv && model_kv_array(kv, &type, &n, &elements) && n != 3)
            return gq_fail_remedy(e, GQ_REMEDY_SET_METADATA,
                                  "%s: clip.%s is an array of %llu, expected 3 values", g->path, keys[i],
                                  LLU(n));
    }
    return true;
}

/* Whether a list of metadata has the projector's kind. */
static bool list_has_kind(const arch_item *list, const model_facts *facts) {
    static const char *const keys[] = {".projector_type", ".vision.projector_type", ".audio.projector_type"};
    for (const arch_item *i = list; i && i->make != MAKE_END; i++) {
        if (i->list && list_has_kind(i->list, facts)) return true;
        for (size_t k = 0; i->key && i->make == KV_TEXT && k < 3; k++) {
            const model_kv *kv = strcmp(i->key, keys[k]) ? NULL : model_fact(facts, keys[k] + 1);
            if (kv && model_kv_is_text(kv, i->names)) return true;
        }
    }
    return false;
}

/* Counts what rules make and the file lacks; *first: one such name. */
static size_t rules_count_lacking(const model_source *g, const arch_projector *row, const arch_rule *rules,
                                  bool has_audio, const char **first) {
    size_t n = 0;
    for (const arch_rule *r = rules; r && r->from; r++) {
        bool has = !*r->to || may_lack(row, r->to) || (arch_rule_is_heard(r) && !has_audio);
        for (uint64_t i = 0; !has && i < g->n_tensors; i++) has = arch_rule_makes(r, g->by_name[i]->name);
        if (!has && n++ == 0) *first = r->to;
    }
    return n;
}

static bool list_removes(const arch_item *list, const char *key) {
    for (const arch_item *i = list; i && i->make != MAKE_END; i++)
        if (i->make == KV_LIST ? list_removes(i->list, key)
                               : i->make == KV_REMOVE && i->key && !strcmp(i->key, key))
            return true;
    return false;
}

/* Whether an item sets its key in all projectors of its kind. */
static bool item_is_always(const arch_item *i) {
    static const arch_make makes[] = {KV_U32,     KV_FLOAT,    KV_BOOL, KV_TEXT,   KV_BLOCKS, KV_FLOATS,
                                      KV_PRODUCT, KV_QUOTIENT, KV_ROOT, KV_SQUARE, KV_TRIPLE, KV_TIMES};
    bool is_one = false;
    for (size_t k = 0; k < sizeof makes / sizeof *makes; k++) is_one |= i->make == makes[k];
    return is_one && i->key && *i->key == '.' && i->need != IF && i->need != IF_NOT_ZERO;
}

/* The name of a tensor that begins so; NULL: there is none. */
static const char *tensor_beginning(const model_source *g, const char *begin) {
    for (uint64_t i = 0; i < g->n_tensors; i++)
        if (!strncmp(g->by_name[i]->name, begin, strlen(begin))) return g->by_name[i]->name;
    return NULL;
}

/* Counts metadata that all projectors of a row have and the file lacks; *first: one such key. Its kind is there, under
 * one of several keys. */
static size_t keys_count_lacking(const model_facts *facts, const arch_item *all, const arch_item *list,
                                 const bool has[2], const char **first) {
    size_t n = 0;
    for (const arch_item *i = list; i && i->make != MAKE_END; i++) {
        if (i->make == KV_LIST) n += keys_count_lacking(facts, all, i->list, has, first);
        if (!item_is_always(i) || strstr(i->key, "projector_type") || model_fact(facts, i->key + 1) ||
            list_removes(all, i->key) || (!strncmp(i->key, ".vision.", 8) && !has[0]) ||
            (!strncmp(i->key, ".audio.", 7) && !has[1]))
            continue;
        if (n++ == 0) *first = i->key;
    }
    return n;
}

/* Doubts metadata that all projectors of its kind have and it lacks. */
static bool projector_check_keys(const model_source *g, const model_facts *facts, warning_list *doubts,
                                 gq_error *e) {
    const char *lacking = NULL;
    const arch_projector *row;
    size_t least = SIZE_MAX;
    const bool has[2] = {tensor_beginning(g, "v."), tensor_beginning(g, "a.")};
    for (size_t i = 0; least && (row = arch_projector_at(i)); i++) {
        const char *first = NULL;
        if (!list_has_kind(row->folder.metadata, facts)) continue;
        size_t n = keys_count_lacking(facts, row->folder.metadata, row->folder.metadata, has, &first);
        if (n < least) least = n, lacking = first;
    }
    return !lacking ||
           warnings_add(doubts, e,
                        "there is no key clip%s, which such projectors have%s: llama.cpp may refuse it",
                        lacking, least > 1 ? ", and others" : "");
}

/* Doubts a number of blocks that is not that of the tensors. */
static bool projector_check_blocks(const model_source *g, const model_facts *facts, const arch_projector *row,
                                   const char *encoder, const char *begin, warning_list *doubts,
                                   gq_error *e) {
    char key[64];
    int64_t n, there = 0;
    if (row->counted && !strstr(row->counted, begin)) return true;
    snprintf(key, sizeof key, "%s.block_count", encoder);
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        model_block b;
        const char *name = g->by_name[i]->name;
        if (!strncmp(name, begin, strlen(begin)) && model_block_in(name, &b) && (int64_t)b.number >= there)
            there = (int64_t)b.number + 1;
    }
    return !there || !model_fact_int(facts, key, &n) || n == there ||
           warnings_add(doubts, e,
                        "clip.%s is %lld, but there are tensors of %lld blocks (%s): llama.cpp may refuse it",
                        key, (long long)n, (long long)there, begin);
}

/* Doubts what all rows of the projector's kind have and it lacks. */
static bool projector_check_kind(const model_source *g, const model_facts *facts, warning_list *doubts,
                                 gq_error *e) {
    const arch_projector *row, *best = NULL;
    const char *lacking = NULL;
    size_t least = SIZE_MAX;
    const bool has_audio = tensor_beginning(g, "a.");
    for (size_t i = 0; (row = arch_projector_at(i)); i++) {
        const char *first = NULL, *more = NULL;
        if (!list_has_kind(row->folder.metadata, facts)) continue;
        size_t n = rules_count_lacking(g, row, row->folder.rules, has_audio, &first);
        n += rules_count_lacking(g, row, row->folder.more, has_audio, &more);
        if (n < least) least = n, lacking = first ? first : more, best = row;
    }
    if (!blocks_check(g, best, doubts, e)) return false;
    if (!best)
        return warnings_add(
            doubts, e,
            "a projector whose clip.projector_type is missing or unknown: not verified that all "
            "tensors are there");
    return projector_check_blocks(g, facts, best, "vision", "v.blk.", doubts, e) &&
           projector_check_blocks(g, facts, best, "audio", "a.blk.", doubts, e) &&
           (!lacking ||
            warnings_add(doubts, e,
                         "there is no tensor %.*s, which such projectors have: llama.cpp may refuse it",
                         (int)strcspn(lacking, "|"), lacking));
}

/* Compares sizes of an encoder's tensors with its metadata and with each other; the first that differs is doubted. */
typedef struct encoder_sizes {
    const model_source *g;
    uint64_t width;
    warning_list *doubts;
    gq_error *e;
    bool ok, is_doubted;
} encoder_sizes;

static void sizes_compare(encoder_sizes *s, const model_tensor *t, unsigned dimension, uint64_t expected,
                          const char *why) {
    if (!t || !s->ok || s->is_doubted || t->ne[dimension] == expected) return;
    s->is_doubted = true;
    s->ok = warnings_add(s->doubts, s->e,
                         "tensor %s has dimension %u of %llu, expected %llu, as %s: llama.cpp may refuse it",
                         t->name, dimension + 1, LLU(t->ne[dimension]), LLU(expected), why);
}

/* The tensor whose name is another's but for what follows the block's number. */
static const model_tensor *block_tensor(const model_source *g, const model_block *b, const char *block,
                                        const char *rest) {
    char name[GGUF_MAX_NAME + 1];
    snprintf(name, sizeof name, "%.*s%s", (int)(b->rest - block), block, rest);
    return model_tensor_named(g, name);
}

/* Both matrices of a block's feed-forward network; those of old files have each other's names. */
static void sizes_check_ffn(encoder_sizes *s, const model_block *b, const model_tensor *down) {
    const model_tensor *up = block_tensor(s->g, b, down->name, "ffn_up.weight"),
                       *gate = block_tensor(s->g, b, down->name, "ffn_gate.weight");
    if (!up) return;
    if (up->ne[1] == s->width && up->ne[0] != s->width && down->ne[0] == s->width) {
        const model_tensor *t = up;
        up = down, down = t;
    }
    sizes_compare(s, up, 0, s->width, "embedding_length says");
    sizes_compare(s, down, 1, s->width, "embedding_length says");
    sizes_compare(s, down, 0, up->ne[1], "ffn_up has rows");
    sizes_compare(s, gate, 0, s->width, "embedding_length says");
    sizes_compare(s, gate, 1, up->ne[1], "ffn_up has rows");
}

static void sizes_check_block(encoder_sizes *s, const model_tensor *t, const model_block *b) {
    static const struct {
        const char *rest;
        unsigned dimension;
    } of_width[] = {{"ln1.weight", 0},    {"ln1.bias", 0},        {"ln2.weight", 0},
                    {"ln2.bias", 0},      {"attn_q.weight", 0},   {"attn_k.weight", 0},
                    {"attn_v.weight", 0}, {"attn_qkv.weight", 0}, {"attn_out.weight", 1}};
    for (size_t i = 0; i < sizeof of_width / sizeof *of_width; i++)
        if (!strcmp(b->rest, of_width[i].rest))
            sizes_compare(s, t, of_width[i].dimension, s->width, "embedding_length says");
    if (!strcmp(b->rest, "attn_out.weight")) {
        const model_tensor *q = block_tensor(s->g, b, t->name, "attn_q.weight");
        if (q) sizes_compare(s, t, 0, q->ne[1], "attn_q has rows");
    }
    if (!strcmp(b->rest, "attn_v.weight")) {
        const model_tensor *k = block_tensor(s->g, b, t->name, "attn_k.weight");
        if (k) sizes_compare(s, t, 1, k->ne[1], "attn_k has rows");
    }
    if (!strcmp(b->rest, "ffn_down.weight")) sizes_check_ffn(s, b, t);
}

/* A bias has an element for each row of its matrix. */
static void sizes_check_bias(encoder_sizes *s, const model_tensor *t) {
    char name[GGUF_MAX_NAME + 1];
    size_t n = strlen(t->name);
    if (n < 7 || strcmp(t->name + n - 7, ".weight") != 0 || t->n_dims > 2) return;
    snprintf(name, sizeof name, "%.*s.bias", (int)(n - 7), t->name);
    const model_tensor *bias = model_tensor_named(s->g, name);
    if (bias && bias->n_dims == 1) sizes_compare(s, bias, 0, t->ne[t->n_dims - 1], "its weight has rows");
}

/* Doubts tensors of an encoder that are of other sizes than its metadata say, or than their neighbors are. */
static bool projector_check_sizes(const model_source *g, const model_facts *facts, const char *encoder,
                                  const char *begin, warning_list *doubts, gq_error *e) {
    encoder_sizes s = {.g = g, .doubts = doubts, .e = e, .ok = true};
    int64_t width, patch;
    char key[64];
    snprintf(key, sizeof key, "%s.embedding_length", encoder);
    if (!model_fact_int(facts, key, &width)) return true;
    s.width = (uint64_t)width;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const model_tensor *t = g->by_name[i];
        model_block b;
        bool is_own = !strncmp(t->name, begin, strlen(begin));
        if (is_own && !strncmp(t->name + strlen(begin), "blk.", 4) && model_block_in(t->name, &b))
            sizes_check_block(&s, t, &b);
        if (is_own || !strncmp(t->name, "mm.", 3)) sizes_check_bias(&s, t);
    }
    snprintf(key, sizeof key, "%s.patch_size", encoder);
    const model_tensor *patches = model_tensor_named(g, "v.patch_embd.weight");
    if (*begin != 'v' || !patches) return s.ok;
    sizes_compare(&s, patches, patches->n_dims > 1 ? patches->n_dims - 1 : 0, s.width,
                  "embedding_length says");
    if (patches->n_dims == 4 && model_fact_int(facts, key, &patch))
        sizes_compare(&s, patches, 0, (uint64_t)patch, "patch_size says"),
            sizes_compare(&s, patches, 1, (uint64_t)patch, "patch_size says");
    return s.ok;
}

/* Whether some projectors have a kind under its key. */
static bool kind_is_known(const arch_item *list, const char *key, const model_kv *kv) {
    for (const arch_item *i = list; i && i->make != MAKE_END; i++)
        if ((i->list && kind_is_known(i->list, key, kv)) ||
            (i->make == KV_TEXT && i->key && !strcmp(i->key + 1, key) && model_kv_is_text(kv, i->names)))
            return true;
    return false;
}

/* Doubts an encoder that the metadata switch off, and, of a file without a kind of the whole, an encoder without a
 * known kind. */
static bool projector_check_switch(const model_source *g, const model_facts *facts, const char *encoder,
                                   const char *begin, warning_list *doubts, gq_error *e) {
    char key[64];
    const char *first = tensor_beginning(g, begin);
    bool is_known = false;
    snprintf(key, sizeof key, "has_%s_encoder", encoder);
    const model_kv *has = model_fact(facts, key);
    if (first && has && has->type == GGUF_BOOL && !*has->value &&
        !warnings_add(doubts, e, "clip.%s is false, but there is tensor %s: llama.cpp does not read it", key,
                      first))
        return false;
    if (!first || model_fact(facts, "projector_type")) return true;
    snprintf(key, sizeof key, "%s.projector_type", encoder);
    const model_kv *kind = model_fact(facts, key);
    const arch_projector *row;
    for (size_t i = 0; kind && !is_known && (row = arch_projector_at(i)); i++)
        is_known = kind_is_known(row->folder.metadata, key, kind);
    return is_known || warnings_add(doubts, e,
                                    "clip.%s is missing or unknown, though there is tensor %s: llama.cpp may "
                                    "refuse it",
                                    key, first);
}

static bool projector_check_tensors(const model_source *g, const model_facts *facts, const char *encoder,
                                    const char *begin, warning_list *doubts, gq_error *e) {
    return projector_check_sizes(g, facts, encoder, begin, doubts, e) &&
           projector_check_switch(g, facts, encoder, begin, doubts, e);
}

bool unrun_check_projector(const model_source *g, const model_facts *facts, warning_list *doubts,
                           gq_error *e) {
    return projector_check_encoder(g, facts, "vision", e) && projector_check_encoder(g, facts, "audio", e) &&
           projector_check_colors(g, facts, e) && projector_check_kind(g, facts, doubts, e) &&
           projector_check_keys(g, facts, doubts, e) &&
           projector_check_tensors(g, facts, "vision", "v.", doubts, e) &&
           projector_check_tensors(g, facts, "audio", "a.", doubts, e);
}

/* ---- drafts and decoders ---- */

/* Whether the tensor of a shape is there in one block or none; '#' is the number. */
static bool shape_is_there(const model_source *g, const char *shape, uint64_t block,
                           char name[GGUF_MAX_NAME + 1]) {
    const char *number = strchr(shape, '#');
    if (number)
        snprintf(name, GGUF_MAX_NAME + 1, "%.*s%llu%s", (int)(number - shape), shape,
                 (unsigned long long)block, number + 1);
    else
        snprintf(name, GGUF_MAX_NAME + 1, "%s", shape);
    return model_tensor_named(g, name);
}

/* Whether all tensors are there that some shapes need; name: the first that is not. */
static bool shapes_are_there(const model_source *g, const arch_shape *shapes, const model_facts *facts,
                             char name[GGUF_MAX_NAME + 1]) {
    for (const arch_shape *s = shapes; s && s->tensor; s++) {
        int64_t blocks = 1;
        const char *count = !strncmp(s->tensor, "convnext.", 9) ? "convnext.block_count" : "block_count";
        if (s->when != SHAPE_NEEDED || s->if_true || s->if_fewer ||
            (s->with && !model_tensor_named(g, s->with)))
            continue;
        if (strchr(s->tensor, '#') && !model_fact_int(facts, count, &blocks)) continue;
        for (int64_t i = 0; i < blocks && i < BLOCKS_MOST; i++)
            if (!shape_is_there(g, s->tensor, (uint64_t)i, name)) return false;
    }
    return true;
}

bool unrun_check_shapes(const model_source *g, const architecture *row, const model_facts *facts,
                        warning_list *doubts, gq_error *e) {
    char name[GGUF_MAX_NAME + 1], other[GGUF_MAX_NAME + 1];
    bool ok = shapes_are_there(g, row->folder.shapes, facts, name);
    for (const arch_class *c = row->folder.classes; !ok && c && c->name; c++) /* a file names no class */
        ok = c->shapes && shapes_are_there(g, c->shapes, facts, other);
    return ok ? blocks_check(g, NULL, doubts, e)
              : gq_fail(e, "%s: missing tensor %s, which the architecture %s has", g->path, name, row->name);
}
