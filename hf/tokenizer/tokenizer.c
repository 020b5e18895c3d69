/* Makes the metadata of a model's tokenizer: chooses the files to read, and adds what its architecture has
 * beyond them.
 *
 * The architecture's row, or that of the class of models, has the files in the order in which they are tried,
 * and the exceptions (arch/folder.h). The vocabulary is read first, then written, then the ids of special tokens and
 * the chat template follow; exceptions come last, so that their values win.
 */
#include "hf/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const arch_tokenizer *kind_find(const hf_config *c) {
    return *c->class_row->tokenizer.files ? &c->class_row->tokenizer : &c->row->folder.tokenizer;
}

/* ---- which files ---- */

static bool files_have(const arch_file *files, arch_file file) {
    for (; *files; files++)
        if (*files == file) return true;
    return false;
}

static bool file_fails(const hf_tokenizer *t, const arch_file *files, gq_error *e) {
    static const struct {
        arch_file files[ARCH_FILES];
        const char *lacks, *behind; /* the architecture stands between, but where nothing is behind it */
    } rows[] = {{{FILE_UNIGRAM, FILE_SCORES},
                 HF_UNIGRAM_FILE " and no tokenizer.json of unigrams, one of which a ",
                 " model needs; get it from the model's repository"},
                {{FILE_SCORES},
                 "tokenizer.json of unigrams, which a model of this class needs; transformers can save it",
                 ""},
                {{FILE_SPIECE}, "spiece.model and no tokenizer.model, one of which a ", " model needs"},
                {{FILE_MODEL}, "tokenizer.model, which a ", " model needs"}};
    const hf_folder *f = t->folder;
    const char *only = hf_folder_has(f, "tekken.json")  ? "; its tekken.json cannot be read"
                       : hf_folder_has(f, "vocab.json") ? "; it can be saved from vocab.json by transformers"
                                                        : "";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (memcmp(files, rows[i].files, sizeof rows[i].files) == 0)
            return gq_fail(e, "%s has no %s%s%s", f->path, rows[i].lacks,
                           *rows[i].behind ? t->config->arch : "", rows[i].behind);
    if (t->json)
        return hf_tokenizer_fail(t, "tokenizer.json", e,
                                 "expected a SentencePiece model (BPE with byte_fallback), which a %s model "
                                 "without tokenizer.model needs",
                                 t->config->arch);
    return gq_fail(e, "%s has no tokenizer.json%s, which a %s model needs%s", f->path,
                   files_have(files, FILE_MODEL) ? " and no tokenizer.model" : "", t->config->arch, only);
}

/* Whether a file is there and of its kind. */
static bool file_fits(const hf_tokenizer *t, arch_file file) {
    switch (file) { /* without a default: the compiler names a member that is missing */
    case FILE_MODEL:
        return hf_folder_has(t->folder, "tokenizer.model");
    case FILE_UNIGRAM:
        return hf_folder_has(t->folder, HF_UNIGRAM_FILE);
    case FILE_PIECES:
        return hf_json_has_pieces(t);
    case FILE_WORDS:
        return hf_json_has_words(t);
    case FILE_SCORES:
        return hf_json_has_unigrams(t);
    case FILE_SPIECE:
        return hf_spiece_file(t) != NULL;
    case FILE_BYTES:
    case FILE_GEMMA4:
        return t->json != NULL;
    case FILE_UNSET: /* the rest is read without a choice (tokenizer_make) */
    case FILE_LINES:
    case FILE_WORLD:
    case FILE_RANKS:
    case FILE_NONE:
        break;
    }
    return false;
}

/* Chooses the first file that fits. */
static bool file_choose(const hf_tokenizer *t, const arch_tokenizer *kind, arch_file *file, gq_error *e) {
    static const arch_file bytes[ARCH_FILES] = {FILE_BYTES};
    const arch_file *files = *kind->files ? kind->files : bytes;
    if ((kind->exceptions & TOKENS_PHI3) && t->settings) {
        const char *name = json_string_value(json_object_get(t->settings, "tokenizer_class"));
        if (!name)
            return hf_tokenizer_fail(t, "tokenizer_config.json", e,
                                     "no tokenizer_class, by which a %s model's files are chosen",
                                     t->config->arch);
        if (strcmp(name, "GPT2Tokenizer") == 0) files = bytes;
    }
    for (const arch_file *f = files; *f; f++)
        if (file_fits(t, *f)) return *file = *f, true;
    return file_fails(t, files, e);
}

static bool kind_multiple(const hf_tokenizer *t, const arch_tokenizer *kind, uint32_t *multiple,
                          gq_error *e) {
    *multiple = kind->multiple ? kind->multiple : 1;
    return !(kind->exceptions & TOKENS_MULTIPLE_IS_SET) ||
           hf_config_u32_or(t->config, "pad_vocab_size_multiple", *multiple, multiple, e);
}

/* ---- vocabularies ---- */

static bool write_model_kind(hf_tokenizer *t, const char *model, gq_error *e) {
    return hf_metadata_text(t->metadata, "tokenizer.ggml.model", model, e);
}

static bool read_pieces(hf_tokenizer *t, const arch_tokenizer *kind, arch_file file, gq_error *e) {
    uint32_t multiple;
    bool adds_space = true;
    hf_added_rule rule = kind->exceptions & TOKENS_PHI3        ? HF_ADDED_AS_SET
                         : kind->exceptions & TOKENS_INTERNLM2 ? HF_ADDED_APPENDED
                         : kind->exceptions & TOKENS_ARCTIC    ? HF_ADDED_REDEFINED
                                                               : HF_ADDED_BY_LOOKS;
    bool ok = file == FILE_PIECES ? hf_json_pieces_vocabulary(t, false, e)
                                  : kind_multiple(t, kind, &multiple, e) &&
                                        hf_pieces_vocabulary(t, rule, multiple, &adds_space, e);
    return ok && hf_tokenizer_write_model(t, "llama", "default", e) && hf_tokenizer_write(t, true, e) &&
           (!(kind->exceptions & TOKENS_INTERNLM2) ||
            hf_metadata_bool(t->metadata, "tokenizer.ggml.add_space_prefix", adds_space, e));
}

/* A token that the folder calls an ordinary one, though it stands for no text. */
static void make_special(hf_tokenizer *t, const char *text) {
    for (uint64_t i = 0; i < t->listed; i++)
        if (t->tokens[i].text && t->tokens[i].length == strlen(text) &&
            memcmp(t->tokens[i].text, text, strlen(text)) == 0)
            t->tokens[i].type = HF_TOKEN_CONTROL;
}

static bool read_bytes(hf_tokenizer *t, const arch_tokenizer *kind, gq_error *e) {
    uint32_t multiple;
    t->is_glm = (kind->exceptions & (TOKENS_GLM4 | TOKENS_GLM_MOE | TOKENS_CHATGLM)) != 0;
    if (!kind_multiple(t, kind, &multiple, e) || !hf_json_vocabulary(t, multiple, e)) return false;
    if (kind->exceptions & TOKENS_LAGUNA) make_special(t, "</assistant>");
    static const char *const ends[] = {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token",
                                       "tokenizer.ggml.add_sep_token"};
    for (size_t i = 0; (kind->exceptions & TOKENS_ENDS_ALWAYS) && i < sizeof ends / sizeof *ends; i++)
        if (!hf_metadata_bool(t->metadata, ends[i], true, e)) return false;
    if ((kind->exceptions & TOKENS_BOS_IF_SET) && !hf_metadata_bool(t->metadata, *ends, false, e))
        return false;
    if ((kind->exceptions & TOKENS_KINDS) && !hf_tokenizer_write_kinds(t, e)) return false;
    return write_model_kind(t, "gpt2", e) && hf_pretokenizer_write(t, e) && hf_tokenizer_write(t, false, e) &&
           hf_merges_write(t, e);
}

static bool read_vocabulary(hf_tokenizer *t, const arch_tokenizer *kind, arch_file file, gq_error *e) {
    switch (file) {
    case FILE_BYTES:
        return read_bytes(t, kind, e);
    case FILE_UNIGRAM:
        return hf_unigram_write(t, e);
    case FILE_SCORES:
        return hf_json_unigrams_write(t, e);
    case FILE_SPIECE:
        return hf_spiece_write(t, e);
    case FILE_WORDS:
        return hf_words_vocabulary(t, e) && write_model_kind(t, "bert", e) && hf_words_write(t, e) &&
               hf_tokenizer_write(t, false, e);
    case FILE_GEMMA4:
        return hf_json_pieces_vocabulary(t, true, e) && write_model_kind(t, "gemma4", e) &&
               hf_tokenizer_write(t, true, e) && hf_merges_write(t, e);
    default: /* FILE_MODEL, FILE_PIECES */
        return read_pieces(t, kind, file, e);
    }
}

/* ---- special tokens of an architecture ---- */

typedef struct special_text {
    uint32_t exception;
    hf_special_type type;
    const char *text;
} special_text;

static const special_text special_texts[] = {
    {TOKENS_GLM4, HF_EOS, "<|endoftext|>"},     {TOKENS_GLM4, HF_UNK, "<|endoftext|>"},
    {TOKENS_GLM4, HF_BOS, "<|endoftext|>"},     {TOKENS_GLM4, HF_EOT, "<|user|>"},
    {TOKENS_GLM_MOE, HF_BOS, "[gMASK]"},        {TOKENS_GLM_MOE, HF_EOT, "<|user|>"},
    {TOKENS_GLM_MOE, HF_UNK, "<|endoftext|>"},  {TOKENS_GLM_MOE, HF_EOM, "<|observation|>"},
    {TOKENS_CHATGLM, HF_EOS, "<|endoftext|>"},  {TOKENS_CHATGLM, HF_UNK, "<|endoftext|>"},
    {TOKENS_CHATGLM, HF_EOT, "<|user|>"},       {TOKENS_SOLAR, HF_EOS, "<|endoftext|>"},
    {TOKENS_SOLAR, HF_EOT, "<|endoftext|>"},    {TOKENS_SOLAR, HF_UNK, "<unk>"},
    {TOKENS_SOLAR, HF_BOS, "<|startoftext|>"},  {TOKENS_MUSE, HF_EOT, "<|eot|>"},
    {TOKENS_DOTS, HF_EOT, "<|endofassistant|>"}};

/* Finds the end of a turn among the added tokens of tokenizer_config.json. */
static bool turn_end_find(const hf_tokenizer *t, bool must_be_special, bool *is_found, uint64_t *id,
                          gq_error *e) {
    const char *key;
    json_t *token;
    *is_found = false;
    json_object_foreach(json_object_get(t->settings, "added_tokens_decoder"), key, token) {
        const char *text = json_string_value(json_object_get(token, "content"));
        if (!text || strcmp(text, "<|im_end|>") != 0 ||
            (must_be_special && !json_is_true(json_object_get(token, "special"))))
            continue;
        if (!hf_token_id_of_key(t, "tokenizer_config.json", key, id, e)) return false;
        *is_found = true;
    }
    return true;
}

/* internlm2: any added token; internlm3 and Qwen Omni: one of tokenizer_config.json. */
static bool turn_end_apply(hf_specials *s, const hf_tokenizer *t, uint32_t exceptions, gq_error *e) {
    hf_special *bos = &s->of[HF_BOS], *eos = &s->of[HF_EOS];
    bool is_found;
    uint64_t id;
    if (!turn_end_find(t, (exceptions & TOKENS_INTERNLM3) != 0, &is_found, &id, e)) return false;
    if ((exceptions & TOKENS_INTERNLM2) && !is_found) {
        hf_special found = {.id = 0};
        is_found = hf_special_find_text(t, "<|im_end|>", &found);
        id = found.id;
        if (!is_found && !eos->is_set)
            return gq_fail(e, "%s: no end-of-text token: expected eos_token_id in config.json",
                           t->folder->path);
    }
    if (!is_found || ((exceptions & TOKENS_INTERNLM3) && !eos->is_set)) return true;
    eos->is_set = true, eos->id = (uint32_t)id;
    if (exceptions & TOKENS_OMNI) bos->is_set = true, bos->id = (uint32_t)id;
    return true;
}

static bool write_id(const hf_tokenizer *t, const char *name, const json_t *id, gq_error *e) {
    char key[64];
    uint32_t value;
    snprintf(key, sizeof key, "tokenizer.ggml.%s", name);
    if (!id || json_is_null(id)) return true;
    return hf_value_u32(t->config, id, name, &value, e) && hf_metadata_u32(t->metadata, key, value, e);
}

/* The config has an end of texts of its own; what generation ends at, first of several, ends a turn. */
static bool write_hunyuan(const hf_tokenizer *t, gq_error *e) {
    json_t *generation;
    if (!hf_folder_json(t->config->folder, "generation_config.json", &generation, e)) return false;
    const json_t *ends = json_object_get(generation, "eos_token_id");
    bool ok = write_id(t, "eos_token_id", hf_config_get(t->config, "eod_token_id"), e) &&
              (json_array_size(ends) < 2 || write_id(t, "eot_token_id", json_array_get(ends, 0), e));
    json_decref(generation);
    return ok;
}

/* The end of a turn is the first end-of-text token that is not also the begin-of-text token. */
static bool write_laguna(const hf_tokenizer *t, gq_error *e) {
    const json_t *ends = hf_config_get(t->config, "eos_token_id"),
                 *begin = hf_config_get(t->config, "bos_token_id"), *end;
    size_t i;
    if (!json_is_array(ends)) return true;
    json_array_foreach(ends, i, end) {
        if (!begin || !json_equal(end, begin)) return write_id(t, "eot_token_id", end, e);
    }
    return true;
}

/* Tokens that are never generated. */
static bool write_suppressed(const hf_tokenizer *t, gq_error *e) {
    json_t *generation;
    if (!hf_folder_json(t->config->folder, "generation_config.json", &generation, e)) return false;
    const json_t *ids = json_object_get(generation, "suppress_tokens"), *id;
    size_t i;
    bool ok = true;
    json_array_foreach(ids, i, id) {
        uint32_t value = 0;
        ok = ok && hf_value_u32(t->config, id, "suppress_tokens of generation_config.json", &value, e) &&
             (value <= INT32_MAX ||
              hf_config_fail(t->config, e, "suppress_tokens: %u is not a token", value)) &&
             hf_metadata_add_i32(t->metadata, (int32_t)value, e);
    }
    ok = ok && hf_metadata_array(t->metadata, "tokenizer.ggml.suppress_tokens", GGUF_INT32, e);
    json_decref(generation);
    return ok;
}

static bool specials_write(hf_tokenizer *t, const arch_tokenizer *kind, arch_file file, gq_error *e) {
    uint32_t exceptions = kind->exceptions;
    hf_specials s = {.below = file == FILE_MODEL || file == FILE_PIECES || file == FILE_UNIGRAM ||
                                      file == FILE_SPIECE || file == FILE_SCORES
                                  ? t->n
                                  : UINT64_MAX};
    const json_t *pad = hf_config_get(t->config, "pad_token_id");
    s.leaves_pad = (exceptions & TOKENS_HUNYUAN) && json_is_integer(pad) && json_integer_value(pad) < 0;
    if (!hf_specials_find(&s, t, e)) return false;
    for (size_t i = 0; i < sizeof special_texts / sizeof *special_texts; i++)
        if ((special_texts[i].exception & exceptions) &&
            !hf_specials_set_text(&s, t, special_texts[i].type, special_texts[i].text, e))
            return false;
    if ((exceptions & (TOKENS_INTERNLM2 | TOKENS_INTERNLM3 | TOKENS_OMNI)) &&
        !turn_end_apply(&s, t, exceptions, e))
        return false;
    if ((exceptions & TOKENS_BOS_IS_CHECKED) && s.of[HF_BOS].flag != 1)
        return hf_tokenizer_fail(t, "tokenizer_config.json", e, "expected \"add_bos_token\": true");
    bool has_own_end = (exceptions & TOKENS_HUNYUAN) && hf_config_get(t->config, "eod_token_id");
    return (has_own_end || hf_specials_set_first_end(&s, t, e)) && hf_specials_drop_flags(&s, t, e) &&
           hf_specials_write(&s, t->metadata, e) && (!(exceptions & TOKENS_HUNYUAN) || write_hunyuan(t, e)) &&
           (!(exceptions & TOKENS_LAGUNA) || write_laguna(t, e)) &&
           (!(exceptions & TOKENS_SUPPRESSED) || t->config->is_lent || write_suppressed(t, e));
}

/* ---- other exceptions ---- */

/* Whether a space goes in front of texts, where an architecture's files say so. Readers add one to pieces
 * unless they are reported not to, so the converter's files of a tokenizer.json without one are read otherwise
 * than the model does. */
static bool space_write(hf_tokenizer *t, uint32_t exceptions, arch_file file, gq_error *e) {
    static const char KEY[] = "tokenizer.ggml.add_space_prefix";
    const json_t *setting = json_object_get(t->settings, "add_prefix_space");
    if ((exceptions & TOKENS_GEMMA4) || ((exceptions & TOKENS_MODEL_NO_SPACE) && file == FILE_MODEL) ||
        ((exceptions & TOKENS_PIECES_NO_SPACE) && file == FILE_PIECES))
        return hf_metadata_bool(t->metadata, KEY, false, e);
    if ((exceptions & (TOKENS_LLAMA | TOKENS_SPACE_IS_SET)) && json_is_boolean(setting))
        return hf_metadata_bool(t->metadata, KEY, json_is_true(setting), e);
    return file != FILE_PIECES || hf_json_adds_space(t) || hf_metadata_bool(t->metadata, KEY, false, e);
}

static bool exceptions_write(hf_tokenizer *t, uint32_t exceptions, arch_file file, gq_error *e) {
    enum { CODE_LLAMA_TOKENS = 32016, GRANITE_CODE_TOKENS = 49152 };
    uint32_t size = 0;
    if ((exceptions & TOKENS_LLAMA) && !hf_config_u32_or(t->config, "vocab_size", 0, &size, e)) return false;
    const struct {
        bool applies;
        const char *key;
        uint32_t id;
    } ids[] = {{size == CODE_LLAMA_TOKENS, "tokenizer.ggml.eot_token_id", 32010},
               {exceptions & TOKENS_GEMMA, "tokenizer.ggml.eot_token_id", 107},
               {exceptions & TOKENS_NEMOTRON, "tokenizer.ggml.padding_token_id", 0},
               {exceptions & TOKENS_NEMOTRON, "tokenizer.ggml.unknown_token_id", 1},
               {(exceptions & TOKENS_MPT) && file == FILE_MODEL, "tokenizer.ggml.padding_token_id", 3},
               {(exceptions & TOKENS_MPT) && file == FILE_MODEL, "tokenizer.ggml.eos_token_id", 1},
               {(exceptions & TOKENS_MPT) && file == FILE_MODEL, "tokenizer.ggml.unknown_token_id", 0}};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (ids[i].applies && !hf_metadata_u32(t->metadata, ids[i].key, ids[i].id, e)) return false;
    bool never = size == GRANITE_CODE_TOKENS || (exceptions & TOKENS_BOS_NEVER) ||
                 ((exceptions & TOKENS_MPT) && file == FILE_MODEL);
    return (!(never || (exceptions & TOKENS_BOS_ALWAYS)) ||
            hf_metadata_bool(t->metadata, "tokenizer.ggml.add_bos_token", !never, e)) &&
           space_write(t, exceptions, file, e);
}

/* ---- the whole ---- */

static bool tokenizer_make(hf_tokenizer *t, const arch_tokenizer *kind, gq_error *e) {
    arch_file file = FILE_UNSET;
    if (!hf_folder_json(t->folder, "tokenizer.json", &t->json, e) ||
        !hf_folder_json(t->folder, "tokenizer_config.json", &t->settings, e))
        return false;
    if (json_object_size(t->settings) == 0) json_decref(t->settings), t->settings = NULL;
    switch (*kind->files) {
    case FILE_LINES:
        return hf_lines_write(t, e) && ((kind->exceptions & TOKENS_NO_TEMPLATE) || hf_templates_write(t, e));
    case FILE_WORLD:
        return hf_world_write(t, e);
    case FILE_RANKS:
        return hf_ranks_write(t, e);
    case FILE_NONE:
        return hf_tokenizer_size(t, 0, 1, e) && write_model_kind(t, "none", e);
    default:
        break;
    }
    return file_choose(t, kind, &file, e) && read_vocabulary(t, kind, file, e) &&
           specials_write(t, kind, file, e) && hf_templates_write(t, e) &&
           exceptions_write(t, kind->exceptions, file, e);
}

bool hf_tokenizer_metadata(hf_folder *f, const hf_config *c, hf_metadata *metadata, uint64_t *n_tokens,
                           char **unknown_cut, gq_error *e) {
    hf_tokenizer t = {.folder = f, .config = c, .metadata = metadata, .unknown_cut = unknown_cut};
    *unknown_cut = NULL;
    const arch_tokenizer *kind = kind_find(c);
    bool ok = tokenizer_make(&t, kind, e);
    if (ok && kind->chat && !hf_metadata_find(metadata, "tokenizer.chat_template"))
        ok = hf_metadata_text(metadata, "tokenizer.chat_template", kind->chat, e);
    *n_tokens = t.n;
    json_decref(t.json), json_decref(t.settings), json_decref(t.more), json_decref(t.made);
    free(t.model);
    free(t.tokens);
    if (!ok) free(*unknown_cut), *unknown_cut = NULL;
    return ok;
}
