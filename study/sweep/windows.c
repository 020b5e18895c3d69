/* Turns a text into windows of token ids. A text is run through the model's own tokenizer; ids that stand for
 * one are read as decimal numbers; or tokens are drawn at random. The list is then cut to the number of tokens
 * asked for, each id is checked against the model's vocabulary, and tokens that do not fill a last window are
 * left over. A model runs on each window from position 0 on. So where the vocabulary begins texts with BOS, each
 * window's first token becomes BOS, and for an encoder its last token what ends a text, but not where the caller
 * gave ids. Which windows a calibration holds out follows from their number alone (windows_hold_out). Random
 * tokens come from a fixed seed: the same model gives the same windows. */
#include "study/sweep/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/checksum.h"
#include "base/fail.h"
#include "base/random.h"

static const char *name_of(const gq_text *text) { return text->name ? text->name : "the text"; }

/* ---- limits ---- */

/* The text itself, or what its name says. */
static bool text_open(gq_file *f, const gq_text *text, gq_error *e) {
    return text->bytes || !text->name ? gq_file_memory(f, name_of(text), text->bytes, text->n, NULL, e)
                                      : gq_file_open(f, text->name, e);
}

/* Memory that the process has taken leaves less for the text, but always enough for a text without long runs. */
token_limits windows_token_limits(uint64_t tokens, const windows_limits *limits) {
    enum { LEAST = 16 << 20 };
    uint64_t memory = limits->memory, taken = memory_budget_taken();
    token_limits l = {.tokens = tokens, .memory = max(LEAST, memory - min(memory, taken))};
    if (limits->callbacks) l.cancelled = limits->callbacks->cancelled, l.user = limits->callbacks->user;
    return l;
}

/* One token more than is wanted shows that the text has more. */
static token_limits limits_of(const gq_text *text, const windows_limits *limits) {
    return windows_token_limits(text->tokens ? add_sat(text->tokens, 1) : 0, limits);
}

/* ---- ids ---- */

static bool read_ids(token_list *to, const gq_text *text, const gq_file *file, const token_limits *limits,
                     gq_error *e) {
    ids_reader *r = calloc(1, sizeof *r);
    if (!r) return gq_fail_memory(e, sizeof *r);
    r->file = file, r->line = 1;
    int c = 0;
    bool ok = true;
    while (ok && !(limits->tokens && to->n >= limits->tokens)) {
        char shown[IDS_SHOWN];
        uint64_t id;
        bool is_id;
        ok = ids_next(r, &c, e);
        if (!ok || c < 0) break;
        r->line += c == '\n';
        if (ids_is_space(c)) continue;
        ok =
            ids_read_word(r, c, shown, &id, &is_id, e) &&
            (is_id || gq_fail(e, "%s, line %zu: found '%s', expected a token id, a decimal number below 2^32",
                              name_of(text), r->line, shown)) &&
            token_limits_allow(limits, to, e) && token_list_add(to, (uint32_t)id, e);
    }
    free(r);
    return ok;
}

/* ---- a text ---- */

static bool copy_warnings(const tokenizer *t, warning_list *to, gq_error *e) {
    size_t n;
    const char *const *warnings = tokenizer_warnings(t, &n);
    for (size_t i = 0; i < n; i++)
        if (!warnings_add(to, e, "%s", warnings[i])) return false;
    return true;
}

/* The tokens that texts begin and end with. */
typedef struct text_ends {
    bool begins, ends; /* ends: only asked of a model that gives embeddings */
    uint32_t bos, eos;
} text_ends;

static text_ends ends_of(const tokenizer *t, const model_source *m) {
    text_ends of = {0};
    of.begins = tokenizer_begins(t, &of.bos), of.ends = forward_embeds(m) && tokenizer_ends(t, &of.eos);
    return of;
}

/* What files begin with that are taken for texts by mistake. */
static const struct {
    const char *begins;
    size_t n;
    const char *what;
} not_texts[] = {{"\xff\xfe\0\0", 4, "UTF-32: convert it to UTF-8 (iconv -f UTF-32 -t UTF-8)"},
                 {"\0\0\xfe\xff", 4, "UTF-32: convert it to UTF-8 (iconv -f UTF-32 -t UTF-8)"},
                 {"\xff\xfe", 2, "UTF-16: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"},
                 {"\xfe\xff", 2, "UTF-16: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"},
                 {"\x1f\x8b", 2, "compressed (gzip): decompress it"},
                 {"\x28\xb5\x2f\xfd", 4, "compressed (zstd): decompress it"},
                 {"\xfd"
                  "7zXZ\0",
                  6, "compressed (xz): decompress it"},
                 {"PK\3\4", 4, "a zip archive: extract the text"},
                 {"GGUF\2\0", 6, "a GGUF model, not a text"},
                 {"GGUF\3\0", 6, "a GGUF model, not a text"}};

/* Bytes of any kind have tokens, so only the text itself shows what is none: a file of another kind is refused, and a
 * warning says of bytes that are not UTF-8. */
static bool check_is_text(const gq_text *text, const gq_file *file, warning_list *warnings, gq_error *e) {
    enum { LOOKED_AT = 1 << 16 };
    size_t n = (size_t)min(file->size, LOOKED_AT), odd = 0, zeros = 0, first = SIZE_MAX;
    char *bytes = malloc(n + 1);
    if (!bytes) return gq_fail_memory(e, n);
    bool ok = gq_file_read(file, 0, bytes, n, e);
    for (size_t i = 0; ok && i < sizeof not_texts / sizeof *not_texts; i++)
        if (n >= not_texts[i].n && !memcmp(bytes, not_texts[i].begins, not_texts[i].n))
            ok = gq_fail(e, "%s is %s", name_of(text), not_texts[i].what);
    for (size_t i = 0, length; ok && i < n; i += length) {
        uint32_t code;
        length = gq_utf8(bytes + i, n - i, &code);
        bool is_cut = !length && file->size > n && n - i < 4; /* the rest of a character */
        if (is_cut) break;
        odd += !length, zeros += length && !bytes[i];
        if ((!length || !bytes[i]) && first == SIZE_MAX) first = i;
        length += !length;
    }
    free(bytes);
    return ok &&
           (odd + zeros == 0 ||
            warnings_add(
                warnings, e,
                "%s: %zu of its first %zu bytes are not UTF-8 or are zero, the first at offset %zu: is it "
                "a text, in UTF-8?",
                name_of(text), odd + zeros, n, first));
}

static bool windows_read_text(token_list *to, const gq_text *text, const gq_file *file,
                              const windows_limits *given, const model_source *m, text_ends *ends,
                              warning_list *warnings, gq_error *e) {
    tokenizer *t = model_check_whole(m, e) ? tokenizer_new(m->path, m->kv, m->n_kv, e) : NULL;
    if (!t) return gq_fail_again(e, e, "%s (ids of tokens can take the place of a text)", gq_error_text(e));
    if (!check_is_text(text, file, warnings, e)) return tokenizer_free(t), false;
    unsigned flags = TOKENIZE_ADD_SPECIAL | (text->parse_special ? TOKENIZE_PARSE_SPECIAL : 0u);
    token_limits limits = limits_of(text, given);
    bool ok =
        copy_warnings(t, warnings, e) && (tokenizer_read(t, file, flags, &limits, to, e) ||
                                          gq_fail_again(e, e, "%s: %s", name_of(text), gq_error_text(e)));
    if (ok && to->dropped)
        ok = warnings_add(
            warnings, e,
            "%s: %llu bytes have no token in this vocabulary and are left out; is it in a language "
            "that the model knows?",
            name_of(text), LLU(to->dropped));
    *ends = ends_of(t, m);
    tokenizer_free(t);
    return ok;
}

/* ---- windows ---- */

/* Begins each window with BOS, and keeps what stood there. */
static bool windows_begin(text_windows *w, uint32_t bos, gq_error *e) {
    w->replaced = malloc(w->n * sizeof *w->replaced);
    if (!w->replaced) return gq_fail_memory(e, w->n * sizeof *w->replaced);
    for (size_t i = 0; i < w->n; i++) {
        w->replaced[i] = w->ids[i * w->context];
        w->ids[i * w->context] = bos;
    }
    return true;
}

/* Begins and ends each window as a text. */
static bool windows_frame(text_windows *w, const text_ends *of, gq_error *e) {
    if (of->begins && !windows_begin(w, of->bos, e)) return false;
    for (size_t i = 0; of->ends && i < w->n; i++) w->ids[(i + 1) * w->context - 1] = of->eos;
    return true;
}

static bool check_ids(const gq_text *text, const token_list *l, size_t vocabulary, gq_error *e) {
    for (size_t i = 0; i < l->n; i++)
        if (l->ids[i] >= vocabulary)
            return gq_fail(e, "%s: token %zu is %u, but the model has %zu tokens, 0 to %zu; %s",
                           name_of(text), i + 1, l->ids[i], vocabulary, vocabulary - 1,
                           text->ids ? "are the ids of another vocabulary?"
                                     : "its vocabulary has more tokens than its embedding has rows");
    return true;
}

static bool check_length(const gq_text *text, size_t tokens, size_t taken, size_t context, gq_error *e) {
    if (taken >= context) return true;
    if (tokens > taken)
        return gq_fail_usage(
            e, "%zu tokens are fewer than one window of %zu: take more tokens, or shorter windows", taken,
            context);
    return gq_fail(e,
                   "%s: has %zu tokens, fewer than one window of %zu: take a longer text, or shorter windows",
                   name_of(text), tokens, context);
}

static bool is_repetitive(const uint32_t *ids, size_t n) {
    enum { FEW = 8 };
    uint32_t met[FEW];
    size_t known = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < known && met[k] != ids[i]) k++;
        if (k == FEW) return false;
        if (k == known) met[known++] = ids[i];
    }
    return true;
}

/* Warns of windows that repeat a few tokens, as empty lines do: they say little about a model, and are mostly
 * an accident. */
static bool warn_of_repetition(const gq_text *text, const token_list *l, size_t context,
                               warning_list *warnings, gq_error *e) {
    enum { SHORT = 256 };
    size_t n = 0, first = 0, windows = l->n / context;
    for (size_t i = windows; context >= SHORT && i-- > 0;)
        if (is_repetitive(l->ids + i * context, context)) n++, first = i;
    return n == 0 ||
           warnings_add(
               warnings, e,
               "%s: %zu of %zu windows repeat a few tokens, the first one token %u at token %zu; such "
               "windows say little about a model: take another text",
               name_of(text), n, windows, l->ids[first * context + context / 2], first * context);
}

/* Packs conversations, of which each has an end. Encoders have no tokens that count more than others. */
static bool windows_read_chats(text_windows *w, const gq_text *text, const gq_file *file,
                               const model_source *model, size_t vocabulary, const windows_limits *limits,
                               warning_list *warnings, gq_error *e) {
    if (w->stride || (forward_is_bidirectional(model) && !forward_fills_masks(model)))
        return gq_fail_usage(e,
                             "%s: conversations with weights are for models that predict tokens, in "
                             "windows that do not overlap",
                             name_of(text));
    token_limits of_ids = limits_of(text, limits);
    if (chats_read(w, text, file, vocabulary, &of_ids, warnings, e)) return true;
    windows_free(w);
    return false;
}

/* Reads the tokens that the windows w are cut from: no more than the text may give, and at least a window. Of
 * conversations it makes the windows. */
static bool windows_read_tokens(text_windows *w, token_list *list, const gq_text *text,
                                const model_source *model, size_t vocabulary, const windows_limits *limits,
                                text_ends *ends, warning_list *warnings, gq_error *e) {
    gq_file file;
    if (!text_open(&file, text, e)) return false;
    token_limits of_ids = limits_of(text, limits);
    bool ok =
        file.size > 0 || gq_fail(e, "%s: is empty; a text of one window of %zu tokens or more is needed",
                                 name_of(text), w->context);
    if (ok && text->ids && chats_begin(&file)) {
        ok = windows_read_chats(w, text, &file, model, vocabulary, limits, warnings, e);
        gq_file_close(&file);
        return ok;
    }
    ok = ok && (text->ids ? read_ids(list, text, &file, &of_ids, e)
                          : windows_read_text(list, text, &file, limits, model, ends, warnings, e));
    gq_file_close(&file);
    size_t tokens = list->n;
    if (text->tokens && list->n > text->tokens) list->n = (size_t)text->tokens;
    ok = ok && check_ids(text, list, vocabulary, e) && check_length(text, tokens, list->n, w->context, e) &&
         warn_of_repetition(text, list, w->context, warnings, e);
    if (!ok) free(list->ids);
    return ok;
}

static text_windows windows_of(const gq_text *text) {
    return (text_windows){.context = text->context ? text->context : GQ_CONTEXT};
}

bool windows_read(text_windows *w, const gq_text *text, const model_source *model, size_t vocabulary,
                  const windows_limits *limits, warning_list *warnings, gq_error *e) {
    token_list list = {0};
    text_ends ends = {0};
    *w = windows_of(text);
    if (!windows_read_tokens(w, &list, text, model, vocabulary, limits, &ends, warnings, e)) return false;
    if (w->marks) return true;
    w->ids = list.ids;
    w->n = list.n / w->context;
    w->left_over = list.n % w->context;
    if (windows_frame(w, &ends, e)) return true;
    windows_free(w);
    return false;
}

/* Cuts a list into windows that overlap. */
static bool windows_cut_overlapping(text_windows *w, const token_list *list, gq_error *e) {
    size_t bytes = w->context * sizeof *w->ids;
    w->n = max(1, ceil_div(list->n - w->context, w->stride));
    w->left_over = list->n - w->context - (w->n - 1) * w->stride;
    w->ids = calloc(w->n, bytes);
    for (size_t i = 0; w->ids && i < w->n; i++)
        memcpy(w->ids + i * w->context, list->ids + i * w->stride, bytes);
    return w->ids || gq_fail_memory(e, mul_sat(w->n, bytes));
}

bool windows_read_overlapping(text_windows *w, const gq_text *text, size_t stride, const model_source *model,
                              size_t vocabulary, const windows_limits *limits, warning_list *warnings,
                              gq_error *e) {
    token_list list = {0};
    text_ends ends;
    bool ok = false;
    *w = windows_of(text);
    w->stride = stride;
    if (stride == 0 || stride >= w->context)
        return gq_fail_usage(
            e,
            "a stride of %zu tokens: expected a stride from 1 to %zu, as of each window of %zu the last "
            "tokens, one stride of them, are scored",
            stride, w->context - 1, w->context);
    if (windows_read_tokens(w, &list, text, model, vocabulary, limits, &ends, warnings, e)) {
        ok = windows_cut_overlapping(w, &list, e);
        free(list.ids);
    }
    return ok;
}

/* ---- tokens drawn at random ---- */

/* Returns the ids that may be drawn, *n of them, malloc'ed: the vocabulary's normal tokens, or all where it
 * names no kinds. */
static uint32_t *windows_ordinary_tokens(const model_source *m, size_t vocabulary, size_t *n, gq_error *e) {
    enum { NORMAL = 1 };
    const model_kv *kv = model_kv_find(m->kv, m->n_kv, "tokenizer.ggml.token_type");
    const uint8_t *kinds = NULL;
    uint32_t type, *ids = malloc(vocabulary * sizeof *ids);
    uint64_t known = 0;
    if (!ids) return gq_fail_memory(e, vocabulary * sizeof *ids), NULL;
    if (!kv || !model_kv_array(kv, &type, &known, &kinds) || type != GGUF_INT32) known = 0;
    for (size_t i = *n = 0; i < vocabulary && i < known; i++) {
        int32_t kind;
        memcpy(&kind, kinds + i * sizeof kind, sizeof kind);
        if (kind == NORMAL) ids[(*n)++] = (uint32_t)i;
    }
    for (size_t i = 0; *n == 0 && i < vocabulary; i++) ids[i] = (uint32_t)i;
    if (*n == 0) *n = vocabulary;
    return ids;
}

/* Finds what texts begin and end with; nothing where the tokenizer is not known. Returns false where memory
 * failed, which says nothing about the tokenizer. */
static bool find_ends(const model_source *m, text_ends *of, gq_error *e) {
    gq_error why = {.text = ""};
    tokenizer *t = tokenizer_new(m->path, m->kv, m->n_kv, &why);
    *of = t ? ends_of(t, m) : (text_ends){0};
    tokenizer_free(t);
    return t || why.remedy != GQ_REMEDY_MEMORY || gq_fail_again(e, &why, "%s", why.text);
}

bool windows_draw(text_windows *w, const gq_text *text, const model_source *model, size_t vocabulary,
                  gq_error *e) {
    enum { SEED = 1, MOST = 1 << 30 };
    size_t context = text->context ? text->context : GQ_CONTEXT, n_ids = 0;
    *w = (text_windows){.context = context, .n = text->tokens / context};
    if (text->tokens > MOST)
        return gq_fail_usage(e, "%llu tokens: at most %d can be drawn at random", LLU(text->tokens), MOST);
    if (!check_length(text, SIZE_MAX, text->tokens, context, e)) return false;
    uint32_t *ids = windows_ordinary_tokens(model, vocabulary, &n_ids, e);
    uint64_t seed = SEED;
    w->ids = ids ? calloc(w->n * context, sizeof *w->ids) : NULL;
    if (ids && !w->ids) gq_fail_memory(e, w->n * context * sizeof *w->ids);
    for (size_t i = 0; w->ids && i < w->n * context; i++)
        w->ids[i] = ids[(uint64_t)((__uint128_t)random_next(&seed) * n_ids >> 64)];
    free(ids);
    text_ends of;
    bool ok = w->ids && find_ends(model, &of, e);
    for (size_t i = 0; ok && i < w->n; i++) {
        if (of.begins && of.bos < vocabulary) w->ids[i * context] = of.bos;
        if (of.ends && of.eos < vocabulary) w->ids[(i + 1) * context - 1] = of.eos;
    }
    if (!ok) windows_free(w);
    return ok;
}

bool windows_begin_as_texts(text_windows *w, const model_source *model, gq_error *e) {
    text_ends of;
    return w->replaced || w->marks ||
           (find_ends(model, &of, e) && (!of.begins || windows_begin(w, of.bos, e)));
}

uint32_t windows_checksum(const uint32_t *ids, const forward_mark *marks, size_t tokens) {
    uint32_t sum = checksum_add(0, ids, tokens * sizeof *ids);
    return marks ? checksum_add(sum, marks, tokens * sizeof *marks) : sum;
}

uint32_t windows_sum_up(const text_windows *w) {
    size_t tokens = w->n * w->context;
    uint32_t sum = windows_checksum(w->ids, w->marks, tokens);
    return w->masked ? checksum_add(sum, w->masked, tokens * sizeof *w->masked) : sum;
}

forward_job windows_job(const text_windows *w) {
    return (forward_job){.ids = w->ids,
                         .windows = w->n,
                         .context = w->context,
                         .marks = w->marks,
                         .masked = w->masked,
                         .in_place = w->in_place};
}

bool windows_tokenize(const model_source *model, const char *const *texts, size_t n, token_list *to,
                      gq_error *e) {
    tokenizer *t = tokenizer_new(model->path, model->kv, model->n_kv, e);
    uint32_t eos;
    bool ok = t, ends = ok && tokenizer_ends(t, &eos);
    for (size_t i = 0; ok && i < n; i++) {
        gq_file file;
        ok = gq_file_memory(&file, "a text", texts[i], strlen(texts[i]), NULL, e);
        if (!ok) break;
        ok = tokenizer_read(t, &file, TOKENIZE_ADD_SPECIAL, &(token_limits){.memory = 0}, &to[i], e);
        if (ok && ends && to[i].n && to[i].ids[to[i].n - 1] == eos) to[i].n--;
        gq_file_close(&file);
    }
    tokenizer_free(t);
    return ok;
}

bool windows_warn_longer(size_t context, size_t trained, const char *model, warning_list *warnings,
                         gq_error *e) {
    if (context < 2 &&
        !warnings_add(warnings, e,
                      "windows of one token: it attends to itself alone, as no token of a longer text does"))
        return false;
    return trained == 0 || context <= trained ||
           warnings_add(warnings, e, "windows of %zu tokens are longer than the %zu that %s was made for",
                        context, trained, model);
}

void windows_free(text_windows *w) {
    free(w->ids), free(w->replaced), free(w->marks), free(w->masked);
    *w = (text_windows){.n = 0};
}

/* ---- windows that are held out ---- */

/* every is the smallest multiple of HELD_OUT_ONE_IN with n / every <= most, that is, above n / (most + 1). */
windows_held windows_hold_out(size_t n, size_t context) {
    size_t most = HELD_OUT_TOKENS / context;
    if (most < 1) most = 1;
    if (n < 2) return (windows_held){.every = 0};
    if (n < HELD_OUT_ONE_IN) return (windows_held){.every = n, .n = 1};
    size_t every = (n / (HELD_OUT_ONE_IN * (most + 1)) + 1) * HELD_OUT_ONE_IN;
    return (windows_held){.every = every, .n = n / every};
}

size_t windows_share(const gq_comm *comm, size_t n, size_t context, int rank) {
    size_t group = token_group_windows(context);
    return min(n, comm_share(comm, ceil_div(n, group), rank) * group);
}

bool windows_gather(gq_comm *comm, size_t n, size_t context, void *array, size_t each, gq_error *e) {
    size_t ranks = (size_t)gq_comm_ranks(comm);
    if (ranks == 1) return true;
    uint64_t *begins = calloc(ranks + 1, sizeof *begins);
    bool ok = begins || gq_fail_memory(e, (ranks + 1) * sizeof *begins);
    for (size_t r = 0; ok && r <= ranks; r++) begins[r] = windows_share(comm, n, context, (int)r) * each;
    ok = ok && comm_gather(comm, array, begins, e);
    free(begins);
    return ok;
}
