/* tokenizer.json describes how a text is cut as a chain of steps with regular expressions; a GGUF file has a
 * name that llama.cpp knows the same for. A published vocabulary has its name by the ids that it gives one
 * text (check_name.c). For others the steps are written out as lines, one each, and the lines are looked up
 * in a table of the forms that published models have. Lines that are not there may still cut as one of
 * llama.cpp's groups does, which probe.c finds out.
 *
 * A line begins with a letter: S, cut at matches of the regular expression that follows; D, at digits, single
 * ones (1) or groups (0); B, to byte characters, after a cut by GPT-2's expression (1) or not (0); P, at
 * punctuation. Lines that begin with '?' are in no table.
 */
#include "hf/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define BLANKS "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" BLANKS
#define SLASH "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" BLANKS
#define WORD "[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define LLAMA_3 "S" CONTRACTION "|" WORD "\\p{L}+|\\p{N}{1,3}" REST "\nB0\n"

typedef enum merges_rule {
    MERGES_ANY, /* `ignore_merges` of the file does not matter */
    MERGES_IGNORED,
    MERGES_KEPT
} merges_rule;

typedef struct cut_form {
    const char *name;
    merges_rule merges;
    const char *lines;
} cut_form;

static const cut_form forms[] = {
    {"gpt-2", MERGES_ANY, "B1\n"},
    {"starcoder", MERGES_ANY, "D1\nB1\n"},
    {"llama-bpe", MERGES_IGNORED, LLAMA_3},
    {"dbrx", MERGES_KEPT, LLAMA_3},
    {"qwen2", MERGES_ANY, "S" CONTRACTION "|" WORD "\\p{L}+|\\p{N}" REST "\nB0\n"},
    {"qwen35", MERGES_ANY,
     "S" CONTRACTION "|" WORD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" BLANKS "\nB0\n"},
    {"deepseek-v3", MERGES_ANY,
     "S\\p{N}{1,3}\n"
     "S[一-龥぀-ゟ゠-ヿ]+\n"
     "S[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
     "| ?[\\p{P}\\p{S}]+[\\r\\n]*" BLANKS "\nB0\n"},
    {"gpt-4o", MERGES_ANY,
     "S" WORD UPPER "*" LOWER "+" CONTRACTION "?|" WORD UPPER "+" LOWER "*" CONTRACTION "?|\\p{N}{1,3}" SLASH
     "\nB0\n"},
    {"tekken", MERGES_ANY, "S" WORD UPPER "*" LOWER "+|" WORD UPPER "+" LOWER "*|\\p{N}" SLASH "\nB0\n"},
    {"falcon", MERGES_ANY, "PContiguous\nB1\nD0\nS[0-9][0-9][0-9]\n"},
    {"deepseek-coder", MERGES_ANY,
     "S[\\r\\n]\nS\\s?\\p{L}+\nS\\s?\\p{P}+\nS[一-龥ࠀ-一가-퟿]+\nD1\nB0\n"},
};

/* ---- lines ---- */

static bool lines_add(hf_text *l, const char *letter, const char *text, gq_error *e) {
    return hf_text_append(l, letter, strlen(letter), e) && hf_text_append(l, text, strlen(text), e) &&
           hf_text_append(l, "\n", 1, e);
}

/* Adds a regular expression; line breaks, which some files have as such, are written as the others do. */
static bool lines_add_regex(hf_text *l, const json_t *regex, gq_error *e) {
    const char *text = json_string_value(regex);
    bool ok = hf_text_append(l, "S", 1, e);
    for (size_t i = 0; ok && i < json_string_length(regex); i++)
        ok = text[i] == '\r'   ? hf_text_append(l, "\\r", 2, e)
             : text[i] == '\n' ? hf_text_append(l, "\\n", 2, e)
                               : hf_text_append(l, text + i, 1, e);
    return ok && hf_text_append(l, "\n", 1, e);
}

/* Whether pieces are the matches and what lies between them. Files made from tiktoken's remove what does not
 * match; their expressions match everywhere, so that nothing is removed. */
static bool step_isolates(const json_t *step) {
    bool is_inverted = json_is_true(json_object_get(step, "invert"));
    return hf_json_is(json_object_get(step, "behavior"), is_inverted ? "Removed" : "Isolated");
}

static bool lines_add_step(hf_text *l, const json_t *step, gq_error *e) {
    const char *type = json_string_value(json_object_get(step, "type"));
    const json_t *regex = json_object_get(json_object_get(step, "pattern"), "Regex"), *part;
    size_t i;
    if (!type) return lines_add(l, "?", "", e);
    if (strcmp(type, "Sequence") == 0) {
        json_array_foreach(json_object_get(step, "pretokenizers"), i, part) {
            if (!lines_add_step(l, part, e)) return false;
        }
        return true;
    }
    if (strcmp(type, "ByteLevel") == 0 && !json_is_true(json_object_get(step, "add_prefix_space")))
        return lines_add(l, "B", json_is_false(json_object_get(step, "use_regex")) ? "0" : "1", e);
    if (strcmp(type, "Digits") == 0)
        return lines_add(l, "D", json_is_true(json_object_get(step, "individual_digits")) ? "1" : "0", e);
    if (strcmp(type, "Punctuation") == 0 && hf_json_is(json_object_get(step, "behavior"), "Contiguous"))
        return lines_add(l, "P", "Contiguous", e);
    if (strcmp(type, "Split") == 0 && json_is_string(regex) && step_isolates(step))
        return lines_add_regex(l, regex, e);
    return lines_add(l, "?", type, e);
}

/* ---- names ---- */

static const char *form_find(const char *lines, bool ignores_merges, bool is_glm) {
    merges_rule rule = ignores_merges ? MERGES_IGNORED : MERGES_KEPT;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].lines, lines) == 0 && (forms[i].merges == MERGES_ANY || forms[i].merges == rule))
            return is_glm && strcmp(forms[i].name, "dbrx") == 0 ? "glm4" : forms[i].name;
    return NULL;
}

/* Names the lines: as llama.cpp's converter does, by the ids that come of them; where it knows none, by the
 * table or by what they do. One group has several names, by whether tokens are looked for before merges. */
static bool lines_name(const hf_tokenizer *t, const char *lines, const char **name, gq_error *e) {
    bool ignores_merges = json_is_true(json_object_get(hf_json_model(t), "ignore_merges"));
    if (!hf_check_name(t, lines, name, e)) return false;
    if (!*name) *name = form_find(lines, ignores_merges, t->is_glm);
    if (*name) return true;
    if (!hf_probe_run(lines, name, e)) return false;
    if (*name && strcmp(*name, "llama-bpe") == 0) *name = form_find(LLAMA_3, ignores_merges, t->is_glm);
    return true;
}

/* Returns the bytes that a text has in common with another in front, whole characters only. */
static size_t common_bytes(const char *a, const char *b) {
    size_t n = 0;
    while (a[n] && a[n] == b[n]) n++;
    while (n > 0 && (a[n] & 0xc0) == 0x80) n--;
    return n;
}

/* The bytes of a text that a message quotes: the rest of its line, some 40. */
static int quoted_bytes(const char *text) {
    size_t n = strcspn(text, "\n");
    for (n = n > 40 ? 40 : n; n > 0 && (text[n] & 0xc0) == 0x80;) n--;
    return (int)n;
}

/* Makes the sentence for a caller who may know the name: where the known form differs that is the same for
 * longest, and all lines. */
static bool unknown_describe(hf_tokenizer *t, const char *lines, gq_error *e) {
    char begin[400];
    size_t best = 0, most = 0;
    hf_text l = {.n = 0};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t common = common_bytes(forms[i].lines, lines);
        if (common > most) best = i, most = common;
    }
    const char *known = forms[best].lines + most, *here = lines + most;
    /* transformers puts that step into a file that it opens by a class for sentencepiece, and saves it so. */
    static const char spaces[] =
        "tokenizer.json has merges of bytes, but cuts texts by Metaspace, as vocabularies of sentencepiece "
        "do: it "
        "was saved by another class than the model's (tokenizer_class of tokenizer_config.json); take the "
        "tokenizer.json of the base model:\n";
    int n =
        strstr(lines, "?Metaspace")
            ? snprintf(begin, sizeof begin, "%s", spaces)
            : snprintf(
                  begin, sizeof begin,
                  "tokenizer.json cuts texts in a way that no name is known for, nor are the ids that it "
                  "gives"
                  " llama.cpp's text. It is nearest to %s, but at byte %zu has '%.*s', expected '%.*s':\n",
                  forms[best].name, most, quoted_bytes(here), here, quoted_bytes(known), known);
    bool ok = hf_text_append(&l, begin, (size_t)n, e) && hf_text_append(&l, lines, strlen(lines), e);
    if (ok)
        *t->unknown_cut = l.text;
    else
        free(l.text);
    return ok;
}

bool hf_pretokenizer_write(hf_tokenizer *t, gq_error *e) {
    const json_t *steps = json_object_get(t->json, "pre_tokenizer");
    hf_text l = {.n = 0};
    bool ok = hf_text_append(&l, "", 0, e) && lines_add_step(&l, steps, e);
    if (ok) {
        const char *name;
        ok = lines_name(t, l.text, &name, e);
        if (ok)
            ok = name ? hf_metadata_text(t->metadata, "tokenizer.ggml.pre", name, e)
                      : unknown_describe(t, l.text, e);
    }
    free(l.text);
    return ok;
}
