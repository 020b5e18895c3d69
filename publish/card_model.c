/* What the model card takes from the model's metadata: task, languages, license, data sets; how a prompt is
 * written, by the model's chat template; and how tokens are sampled. */
#include "publish/publish.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "publish/jinja/render.h"
#include "publish/text.h"

enum { CARD_TEXT_MOST = 4096, CARD_VALUES_MOST = 256 };

/* Adds facts of a key: its text, its number, or each of its texts. */
static void card_add_key(fact_list *l, const char *as, const gq_model *m, const char *key) {
    gq_value v[CARD_VALUES_MOST];
    size_t n, i = gq_model_find_key(m, key);
    const gq_metadata *all = gq_model_metadata(m, &n);
    size_t values = i < n ? gq_metadata_values(&all[i], v, all[i].list ? CARD_VALUES_MOST : 1) : 0;
    for (size_t k = 0; k < values; k++)
        if (v[k].kind == GQ_TEXT)
            fact_add_text(l, as, v[k].text, v[k].length < CARD_TEXT_MOST ? v[k].length : CARD_TEXT_MOST);
        else if (v[k].kind == GQ_UNSIGNED || v[k].kind == GQ_SIGNED)
            fact_add(l, as, "%" PRId64, v[k].as_signed);
}

bool card_matches(const char *pattern, const char *text) {
    for (; *pattern; pattern++, text++) {
        bool within = *pattern == *text;
        if (*pattern == '*') {
            do {
                if (card_matches(pattern + 1, text)) return true;
            } while (*text++);
            return false;
        }
        if (*pattern == '[')
            for (within = false, pattern++; *pattern != ']'; pattern++) {
                char last = pattern[1] == '-' ? pattern[2] : *pattern;
                within = within || (*text >= *pattern && *text <= last);
                if (pattern[1] == '-') pattern += 2;
            }
        if (!within || !*text) return false;
    }
    return !*text;
}

/* Whether a tag is left out: it already exists, or is of files other than these. */
static bool card_omits_tag(const fact_list *l, const char *tag) {
    static const char *const others[] = {"gguf",         "quantized", "gquant",  "imatrix", "conversational",
                                         "transformers", "pytorch",   "tf",      "jax",     "safetensors",
                                         "onnx",         "mlx",       "region:*"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (card_matches(others[i], tag)) return true;
    return !strcmp(tag, fact_text(l, "architecture")) || !strcmp(tag, fact_text(l, "pipeline_tag"));
}

/* The task that a hub lists the model under: the one that its tags name, or what its metadata and its projector
 * say; nothing where none says it. */
static void card_add_task(fact_list *l, const gq_publication *p, const fact_list *tags) {
    static const char *const tasks[] = {"text-generation",      "feature-extraction",  "sentence-similarity",
                                        "text-ranking",         "text-classification", "fill-mask",
                                        "image-text-to-text",   "audio-text-to-text",  "any-to-any",
                                        "text2text-generation", "translation",         "text-to-image",
                                        "image-to-image",       "text-to-video",       "image-to-video",
                                        "text-to-speech"};
    enum { RANKS = 4 }; /* llama.cpp's number of the pooling that scores a text */
    size_t n;
    const gq_model *m = p->model;
    const gq_metadata *all = gq_model_metadata(m, &n);
    for (size_t k = 0; k < tags->n; k++)
        for (size_t t = 0; t < sizeof tasks / sizeof *tasks; t++)
            if (!strcmp(tags->items[k].text, tasks[t])) {
                fact_add(l, "pipeline_tag", "%s", tasks[t]);
                return;
            }
    const char *architecture = fact_text(l, "architecture");
    for (size_t i = 0; i < n; i++) {
        gq_value v;
        bool pools = card_matches("*.pooling_type", all[i].key) && gq_metadata_values(&all[i], &v, 1) == 1;
        if (!pools && !card_matches("lfm2.embedding_length_out", all[i].key)) continue;
        fact_add(l, "pipeline_tag", "%s", pools && v.as_signed == RANKS ? CARD_RANKS : CARD_EMBEDS);
        return;
    }
    if (!strcmp(architecture, "t5encoder")) fact_add(l, "pipeline_tag", CARD_EMBEDS);
    if (!strcmp(architecture, "t5encoder") || !strcmp(architecture, "wavtokenizer-dec")) return;
    if (gq_model_find_key(m, "tokenizer.ggml.model") < n && gq_model_find(m, "token_embd.weight") != SIZE_MAX)
        fact_add(l, "pipeline_tag",
                 !p->companions[GQ_PROJECTOR]         ? "text-generation"
                 : publication_has_sense(p, "vision") ? "image-text-to-text"
                                                      : "audio-text-to-text");
}

/* Adds the datasets that the model was made of, as OWNER/NAME. */
static void card_add_datasets(fact_list *l, const gq_model *m) {
    char key[64];
    for (int i = 0; i < CARD_VALUES_MOST; i++) {
        size_t n;
        snprintf(key, sizeof key, "general.dataset.%d.repo_url", i);
        const char *text = page_model_text(m, key, &n);
        if (!text) break;
        char *url = strndup(text, n);
        const char *id = url ? base_model_of_url(url) : NULL;
        if (id) fact_add(l, "dataset", "%s", id);
        free(url);
    }
    if (!*fact_text(l, "dataset")) card_add_key(l, "dataset", m, "general.datasets");
    fact_set(l, "has_dataset", *fact_text(l, "dataset"));
}

static void card_add_metadata(fact_list *l, const gq_publication *p) {
    static const struct {
        const char *fact, *key; /* "%s" in it: the architecture */
    } keys[] = {{"license", "general.license"},           {"license_name", "general.license.name"},
                {"license_link", "general.license.link"}, {"architecture", "general.architecture"},
                {"language", "general.languages"},        {"layers", "%s.block_count"},
                {"context_length", "%s.context_length"},  {"experts", "%s.expert_count"},
                {"experts_used", "%s.expert_used_count"}};
    const gq_publish_request *r = &p->request;
    fact_list tags = {.n = 0};
    if (r->license) fact_add(l, "license", "%s", r->license);
    for (size_t i = r->license ? 3 : 0; i < sizeof keys / sizeof *keys; i++) {
        char key[128];
        snprintf(key, sizeof key, keys[i].key[0] == '%' ? "%s%s" : "%.0s%s", fact_text(l, "architecture"),
                 keys[i].key + (keys[i].key[0] == '%' ? 2 : 0));
        card_add_key(l, keys[i].fact, p->model, key);
    }
    fact_set(l, "has_language", *fact_text(l, "language"));
    card_add_datasets(l, p->model);
    card_add_key(&tags, "tag", p->model, "general.tags");
    card_add_task(l, p, &tags);
    for (size_t i = 0; i < tags.n; i++)
        if (!card_omits_tag(l, tags.items[i].text)) fact_add(l, "tag", "%s", tags.items[i].text);
    fact_free(&tags);
    double n = (double)gq_model_summary(p->model)->n_weights;
    const struct {
        double unit; /* the smallest below whose 999.5, as %.3g rounds, the number stays */
        char letter;
    } units[] = {{1e6, 'M'}, {1e9, 'B'}, {1e12, 'T'}}, *unit = units;
    while (unit->letter != 'T' && n >= 999.5 * unit->unit) unit++;
    fact_add(l, "parameters", "%.3g %c", n / unit->unit, unit->letter);
    size_t n_keys;
    gq_model_metadata(p->model, &n_keys); /* a model of images has no vocabulary, and no context */
    fact_set(l, "has_vocabulary", gq_model_find_key(p->model, "tokenizer.ggml.model") < n_keys);
}

/* ---- the prompt ---- */

/* Returns the text of the token that a key names, malloc'ed; "": none. */
static char *card_token(const gq_model *m, const char *key) {
    size_t n, list = gq_model_find_key(m, "tokenizer.ggml.tokens");
    const gq_metadata *all = gq_model_metadata(m, &n);
    gq_value id = {0};
    bool has_id = list < n && page_model_value(m, key, &id) && id.kind == GQ_SIGNED && id.as_signed >= 0 &&
                  (uint64_t)id.as_signed < all[list].count;
    size_t at = has_id ? (size_t)id.as_signed : 0;
    gq_value *tokens = has_id ? calloc(at + 1, sizeof *tokens) : NULL;
    bool found = tokens && gq_metadata_values(&all[list], tokens, at + 1) > at && tokens[at].kind == GQ_TEXT;
    char *text = found ? strndup(tokens[at].text, tokens[at].length) : strdup("");
    free(tokens);
    return text;
}

/* Adds what the chat template makes of a conversation, with the system's words or, where it takes none, without. */
static void card_add_prompt(fact_list *l, const gq_model *m) {
    static const chat_message messages[] = {{"system", "{system_prompt}"},
                                            {"user", "{prompt}"},
                                            {"assistant", "{answer}"},
                                            {"user", "{next_prompt}"}};
    enum { MESSAGES = sizeof messages / sizeof *messages };
    size_t n;
    const char *template = page_model_text(m, "tokenizer.chat_template", &n);
    fact_set(l, "chat_template", template && n);
    if (!template) return;
    char *bos = card_token(m, "tokenizer.ggml.bos_token_id"),
         *eos = card_token(m, "tokenizer.ggml.eos_token_id"), *text = NULL;
    for (size_t first = 0; first < 2 && bos && eos && !text; first++)
        text = jinja_render(template, n, messages + first, MESSAGES - first, bos, eos, NULL);
    size_t length = text ? strlen(text) : 0; /* the page's line ends by itself */
    if (length && !strstr(text, "```")) fact_add_text(l, "prompt", text, length - (text[length - 1] == '\n'));
    free(bos), free(eos), free(text);
}

/* Adds the sampling settings that the metadata have, as options of llama.cpp's programs. */
static void card_add_sampling(fact_list *l, const gq_model *m) {
    static const char *const options[][2] = {{"temp", "temp"},
                                             {"top_k", "top-k"},
                                             {"top_p", "top-p"},
                                             {"min_p", "min-p"},
                                             {"penalty_repeat", "repeat-penalty"}};
    char line[160] = "", key[40];
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        gq_value v;
        snprintf(key, sizeof key, "general.sampling.%s", options[i][0]);
        size_t used = strlen(line);
        if (!page_model_value(m, key, &v) || (v.kind != GQ_FLOAT && v.kind != GQ_SIGNED)) continue;
        snprintf(line + used, sizeof line - used, "%s--%s %g", used ? " " : "", options[i][1],
                 v.kind == GQ_FLOAT ? v.as_float : (double)v.as_signed);
    }
    fact_add(l, "sampling", "%s", line);
}

void card_add_model(fact_list *l, const gq_publication *p) {
    card_add_metadata(l, p);
    card_add_prompt(l, p->model);
    card_add_sampling(l, p->model);
}
