/* Ids of the tokens that stand for no text (begin, end, padding, ...), and whether they are added to texts.
 *
 * tokenizer_config.json names the tokens by their texts, tokenizer.json has these texts' ids, config.json has
 * ids of its own for what is missing. Which tokens are added is known from the template by which
 * tokenizer.json surrounds a text; tokenizer_config.json has the last word. All steps follow llama.cpp's
 * converter, so that readers of the files behave alike.
 */
#include <stdio.h>
#include <string.h>

#include "hf/tokenizer/tokenizer.h"

static const struct {
    const char *name; /* in the folder's files */
    const char *key;  /* in a GGUF file; NULL: none */
    const char *flag; /* the same */
} types[HF_SPECIALS] = {
    [HF_BOS] = {"bos", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token"},
    [HF_EOS] = {"eos", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_eos_token"},
    [HF_UNK] = {"unk", "tokenizer.ggml.unknown_token_id", NULL},
    [HF_SEP] = {"sep", "tokenizer.ggml.seperator_token_id", "tokenizer.ggml.add_sep_token"},
    [HF_PAD] = {"pad", "tokenizer.ggml.padding_token_id", NULL},
    [HF_CLS] = {"cls", NULL, NULL},
    [HF_MASK] = {"mask", "tokenizer.ggml.mask_token_id", NULL},
    [HF_EOT] = {"eot", "tokenizer.ggml.eot_token_id", NULL},
    [HF_EOM] = {"eom", "tokenizer.ggml.eom_token_id", NULL},
};

static const json_t *member_of(const json_t *object, hf_special_type type, const char *format) {
    char key[32];
    snprintf(key, sizeof key, format, types[type].name);
    return json_object_get(object, key);
}

static bool same_token(const json_t *a, const json_t *b) {
    a = hf_token_content(a), b = hf_token_content(b);
    return a && b && json_equal(a, b);
}

/* ---- ids ---- */

static void specials_set(hf_specials *s, hf_special_type type, uint32_t id) {
    hf_special *special = &s->of[type];
    if (!special->is_set && id < s->below) special->is_set = true, special->id = id;
}

bool hf_special_find_text(const hf_tokenizer *t, const char *text, hf_special *found) {
    size_t i;
    const json_t *token;
    json_array_foreach(json_object_get(t->json, "added_tokens"), i, token) {
        const char *content = json_string_value(json_object_get(token, "content"));
        const json_t *id = json_object_get(token, "id");
        if (!content || strcmp(content, text) != 0) continue;
        found->is_set =
            json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) <= UINT32_MAX;
        found->id = found->is_set ? (uint32_t)json_integer_value(id) : 0;
        return found->is_set;
    }
    return false;
}

bool hf_specials_set_text(hf_specials *s, const hf_tokenizer *t, hf_special_type type, const char *text,
                          gq_error *e) {
    hf_special found = {.id = 0};
    if (!hf_special_find_text(t, text, &found))
        return hf_tokenizer_fail(t, "tokenizer.json", e,
                                 "added_tokens has no \"%s\", which models of this architecture need", text);
    specials_set(s, type, found.id);
    return true;
}

/* Finds the tokens by their texts in tokenizer_config.json or the template. */
static void specials_find_texts(hf_specials *s, const hf_tokenizer *t) {
    for (int type = 0; t->settings && type < HF_SPECIALS; type++) {
        const json_t *content = hf_token_content(s->of[type].token);
        hf_special found = {.id = 0};
        if (s->of[type].is_wanted && content && hf_special_find_text(t, json_string_value(content), &found))
            specials_set(s, (hf_special_type)type, found.id);
    }
}

/* Warns of an id that cannot be written. Old files have -1 for padding, which means none. */
static bool special_warn_left_out(const hf_specials *s, const hf_tokenizer *t, hf_special_type type,
                                  const json_t *id, gq_error *e) {
    const char *name = types[type].name;
    long long value = json_integer_value(id);
    if (!json_is_integer(id))
        return hf_folder_warn(t->folder, "config.json", e, "%s_token_id is not an integer; it is left out",
                              name);
    return (type == HF_PAD && value == -1) ||
           (value < 0 ? hf_folder_warn(t->folder, "config.json", e,
                                       "%s_token_id is %lld, which is not an id; it is left out", name, value)
                      : hf_folder_warn(t->folder, "config.json", e,
                                       "%s_token_id is %lld, but there are %llu tokens; it is left out", name,
                                       value, LLU(s->below)));
}

/* Finds the tokens by the ids in config.json. */
static bool specials_find_ids(hf_specials *s, const hf_tokenizer *t, gq_error *e) {
    const json_t *root = t->config->stored, *text = json_object_get(root, "text_config");
    for (int i = 0; i < HF_SPECIALS; i++) {
        hf_special_type type = (hf_special_type)i;
        const json_t *id = member_of(root, type, "%s_token_id");
        if (!id || json_is_null(id)) id = member_of(text, type, "%s_token_id");
        if (!s->of[type].is_wanted || s->of[type].is_set || !id || json_is_null(id) ||
            (json_is_array(id) && type == HF_EOS) || !types[type].key)
            continue;
        if (json_integer_value(id) > UINT32_MAX)
            return hf_config_fail(t->config, e, "%s_token_id is %lld, expected below 4294967296",
                                  types[type].name, (long long)json_integer_value(id));
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            (uint64_t)json_integer_value(id) >= s->below) {
            if (!special_warn_left_out(s, t, type, id, e)) return false;
            continue;
        }
        specials_set(s, type, (uint32_t)json_integer_value(id));
    }
    return true;
}

/* Whether readers take a token of their own for one that a file lacks. Those of vocabularies with scores have their
 * usual place. */
static bool guesses_absent(const hf_tokenizer *t) { return t->json && !hf_json_has_pieces(t); }

bool hf_specials_set_first_end(hf_specials *s, const hf_tokenizer *t, gq_error *e) {
    const json_t *root = t->config->stored, *ids = member_of(root, HF_EOS, "%s_token_id");
    if (!ids || json_is_null(ids))
        ids = member_of(json_object_get(root, "text_config"), HF_EOS, "%s_token_id");
    for (size_t i = 0; !s->of[HF_EOS].is_set && i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || (uint64_t)json_integer_value(id) >= t->n)
            continue;
        specials_set(s, HF_EOS, (uint32_t)json_integer_value(id));
        return hf_folder_warn(t->folder, "config.json", e,
                              "eos_token_id is a list, but a GGUF has one end-of-text token: %lld is "
                              "written; --override-kv tokenizer.ggml.eos_token_id=int:ID sets another",
                              (long long)json_integer_value(id));
    }
    if (s->of[HF_EOS].is_set) return true;
    if (json_array_size(ids) > 0)
        return hf_folder_warn(
            t->folder, "config.json", e,
            "eos_token_id is a list, but none of its ids is one of the %llu tokens; it is left out",
            LLU(t->n));
    return !guesses_absent(t) ||
           hf_folder_warn(
               t->folder, "", e,
               "no file names an end-of-text token (eos_token): programs will end texts at a token "
               "of their own; --override-kv tokenizer.ggml.eos_token_id=int:ID sets one");
}

bool hf_specials_drop_flags(hf_specials *s, const hf_tokenizer *t, gq_error *e) {
    static const hf_special_type ends[] = {HF_BOS, HF_EOS};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        hf_special *special = &s->of[ends[i]];
        const char *name = types[ends[i]].name;
        if (special->flag != 1 || !special->is_wanted) continue;
        if (special->is_set && !special->token && json_is_null(member_of(t->settings, ends[i], "%s_token")) &&
            !hf_folder_warn(t->folder, "tokenizer_config.json", e,
                            "add_%s_token is true and %s_token null, so transformers adds none, but "
                            "config.json has %s_token_id %u, which programs that read the GGUF add to each "
                            "text; --override-kv tokenizer.ggml.add_%s_token=bool:false stops that",
                            name, name, name, special->id, name))
            return false;
        if (special->is_set || !guesses_absent(t)) continue;
        special->flag = 0;
        if (!hf_folder_warn(t->folder, "tokenizer_config.json", e,
                            "add_%s_token is true, but there is no %s_token: false is written, or programs "
                            "would add a token of their own to each text",
                            name, name))
            return false;
    }
    return true;
}

/* Ids that no token has are written as llama.cpp's converter does, but programs stumble over them. */
static bool specials_warn_beyond(const hf_specials *s, const hf_tokenizer *t, gq_error *e) {
    for (int i = 0; i < HF_SPECIALS; i++)
        if (s->of[i].is_set && types[i].key && s->of[i].id >= t->n &&
            !hf_folder_warn(t->folder, "", e, "%s_token_id is %u, but there are %llu tokens", types[i].name,
                            s->of[i].id, LLU(t->n)))
            return false;
    return true;
}

/* ---- the template around a text ---- */

/* Returns the special token at a place of a template; NULL: something else is there. */
static const json_t *template_token(const json_t *template, size_t i) {
    const json_t *token = json_object_get(json_object_get(json_array_get(template, i), "SpecialToken"), "id");
    return json_string_length(token) ? token : NULL;
}

static bool template_is_sequence(const json_t *template, size_t i, const char *name) {
    const char *is =
        json_string_value(json_object_get(json_object_get(json_array_get(template, i), "Sequence"), "id"));
    return is && strcmp(is, name) == 0;
}

static void template_begin(hf_specials *s, const json_t *first) {
    hf_special *bos = &s->of[HF_BOS], *cls = &s->of[HF_CLS];
    if (!bos->token) bos->token = first;
    if (!cls->token) cls->token = first;
    bos->flag = same_token(first, bos->token) || same_token(first, cls->token);
}

/* A template that ends with another token than tokenizer_config.json says: the template's ends texts, the
 * other one then ends turns. */
static void template_end(hf_specials *s, const hf_tokenizer *t, const json_t *last) {
    hf_special *eos = &s->of[HF_EOS];
    if (t->settings && !same_token(last, eos->token)) {
        hf_special *other = !s->of[HF_EOT].is_wanted ? &s->of[HF_EOT] : &s->of[HF_EOM];
        if (!other->is_wanted) other->is_wanted = true, other->token = eos->token;
    }
    eos->token = last;
    eos->flag = true;
}

/* Finds the tokens between two texts: `first` and `last` surround a single one. */
static void template_between(hf_specials *s, const json_t *pair, const json_t *first, const json_t *last) {
    size_t begin = 0, end = json_array_size(pair);
    if (end && first && same_token(template_token(pair, 0), first)) begin++;
    if (end > begin && last && same_token(template_token(pair, end - 1), last)) end--;
    if (end < begin + 3 || !template_is_sequence(pair, begin, "A") ||
        !template_is_sequence(pair, end - 1, "B"))
        return;
    size_t between = end - begin - 2, looked_at = between == 2 ? 2 : 1;
    bool is_sep = false;
    for (size_t i = begin + 1; i <= begin + looked_at; i++) {
        const json_t *token = template_token(pair, i);
        is_sep = is_sep || same_token(token, s->of[HF_SEP].token) || same_token(token, s->of[HF_EOS].token);
    }
    s->of[HF_SEP].flag = is_sep && !last;
}

/* A processor that has its two tokens as metadata of text and id. */
static void template_roberta(hf_specials *s, const json_t *processor) {
    const json_t *cls = json_array_get(json_object_get(processor, "cls"), 0),
                 *sep = json_array_get(json_object_get(processor, "sep"), 0);
    s->of[HF_BOS].flag = s->of[HF_EOS].flag = s->of[HF_SEP].flag = true;
    if (!s->of[HF_CLS].token) s->of[HF_CLS].token = cls ? cls : s->of[HF_BOS].token;
    if (!s->of[HF_SEP].token) s->of[HF_SEP].token = sep ? sep : s->of[HF_EOS].token;
}

static void template_read(hf_specials *s, const hf_tokenizer *t, const json_t *processor) {
    const char *type = json_string_value(json_object_get(processor, "type"));
    const json_t *single = json_object_get(processor, "single");
    const json_t *first = NULL, *last = NULL;
    size_t n = json_array_size(single);
    if (type && strcmp(type, "RobertaProcessing") == 0) template_roberta(s, processor);
    if (!type || strcmp(type, "TemplateProcessing") != 0) return;
    if (n > 1 && (first = template_token(single, 0))) template_begin(s, first);
    if (first && !hf_json_has_words(t) && !same_token(first, s->of[HF_BOS].token)) s->first = first;
    if (n > 1 && (last = template_token(single, n - 1))) template_end(s, t, last);
    template_between(s, json_object_get(processor, "pair"), first, last);
}

/* Readers put BOS before a text, or nothing. */
static bool specials_warn_first(const hf_specials *s, const hf_tokenizer *t, gq_error *e) {
    return !s->first || hf_folder_warn(t->folder, "tokenizer.json", e,
                                       "post_processor begins texts with \"%.40s\", which is not BOS: no key "
                                       "of a GGUF says so, and texts get other token ids",
                                       json_string_value(s->first));
}

static void specials_read_template(hf_specials *s, const hf_tokenizer *t) {
    const json_t *whole = json_object_get(t->json, "post_processor"),
                 *processors = json_object_get(whole, "processors"), *processor;
    size_t i;
    if (!processors) template_read(s, t, whole);
    json_array_foreach(processors, i, processor) { template_read(s, t, processor); }
}

/* ---- the whole ---- */

bool hf_specials_find(hf_specials *s, const hf_tokenizer *t, gq_error *e) {
    for (int i = 0; i < HF_SPECIALS; i++) {
        hf_special *special = &s->of[i];
        special->flag = -1;
        special->is_wanted = i < HF_EOT && !(i == HF_PAD && s->leaves_pad);
        special->token = member_of(t->settings, (hf_special_type)i, "%s_token");
        if (!hf_token_content(special->token)) special->token = NULL;
    }
    if (t->json && !s->of[HF_BOS].token) s->of[HF_BOS].token = s->of[HF_CLS].token;
    if (t->json && !s->of[HF_EOS].token) s->of[HF_EOS].token = s->of[HF_SEP].token;
    specials_read_template(s, t);
    for (int i = 0; i < HF_SPECIALS; i++) {
        const json_t *flag = member_of(t->settings, (hf_special_type)i, "add_%s_token");
        if (json_is_boolean(flag)) s->of[i].flag = json_is_true(flag);
    }
    specials_find_texts(s, t);
    return specials_find_ids(s, t, e) && specials_warn_beyond(s, t, e) && specials_warn_first(s, t, e);
}

bool hf_specials_write(const hf_specials *s, hf_metadata *metadata, gq_error *e) {
    for (int i = 0; i < HF_SPECIALS; i++) {
        const hf_special *special = &s->of[i];
        if (special->is_set && types[i].key && !hf_metadata_u32(metadata, types[i].key, special->id, e))
            return false;
        if (special->flag >= 0 && types[i].flag &&
            !hf_metadata_bool(metadata, types[i].flag, special->flag, e))
            return false;
    }
    return true;
}
