/* The model card: README.md with the front matter that Hugging Face reads. Its words are templates (card/); this
 * file collects the facts that they are filled with, from the model's metadata, the plans and the evaluation.
 */
#include "publish/card.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checksum.h"
#include "publish/base_model.h"
#include "publish/chart.h"
#include "publish/folder.h"
#include "publish/jinja/render.h"
#include "publish/outputs.h"
#include "publish/sums.h"
#include "publish/table.h"
#include "publish/template.h"
#include "publish/text.h"

/* ---- what the model's metadata say ---- */

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

/* Whether a text matches a pattern of letters, '*' and sets such as [2-8]; Windows has no fnmatch. */
static bool card_matches(const char *pattern, const char *text) {
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

static const char CARD_EMBEDS[] = "feature-extraction", CARD_RANKS[] = "text-ranking";

static bool card_has_sense(const gq_publication *p, const char *kind) {
    size_t n;
    const gq_beside *b = gq_plan_beside(p->plan, &n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(b[i].kind, kind)) return true;
    return false;
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
                 !p->companions[GQ_PROJECTOR]  ? "text-generation"
                 : card_has_sense(p, "vision") ? "image-text-to-text"
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

static void card_add_model(fact_list *l, const gq_publication *p) {
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

/* ---- files ---- */

/* Parts of the file names in the table, and the fact that explains each. */
static void card_add_kinds(fact_list *l, const gq_publication *p) {
    static const struct {
        const char *label, *fact;
    } kinds[] = {
        {"Q[2-8]_K*", "kquants"}, {"IQ*", "iquants"},     {"Q[458]_[01]", "legacy"}, {"*F16", "floats"},
        {"F32", "floats"},        {"*FP4*", "fp4"},       {"for-*GB", "sizes"},      {"*GB", "sizes"},
        {"*MB", "sizes"},         {"*bpw", "sizes"},      {"*-size", "sizes"},       {"Q4_0", "repacked"},
        {"Q4_K*", "repacked"},    {"IQ4_NL", "repacked"}, {"Q[2456]_K_L", "large"},  {"Q3_K_XL", "large"}};
    for (size_t i = 0; i < p->n_files; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (card_matches(kinds[k].label, p->files[i].label) && !*fact_text(l, kinds[k].fact))
                fact_set(l, kinds[k].fact, true);
    uint64_t fallbacks = 0;
    for (size_t i = 0; i < gq_plan_outputs(p->plan); i++)
        if (gq_plan_summary(p->plan, i)->n_fallbacks > fallbacks)
            fallbacks = gq_plan_summary(p->plan, i)->n_fallbacks;
    if (fallbacks) fact_add(l, "fallbacks", "%" PRIu64, fallbacks);
    for (size_t i = 0, first; i < p->n; i++)
        if ((first = publication_first_same(p, i)) != i)
            fact_add(l, "same", "`%s` is the same file as `%s`.", p->labels[i], p->labels[first]);
}

/* Adds the file that the commands name, and how programs fetch it. */
static void card_add_recommended(fact_list *l, const gq_publication *p, const gq_page *page) {
    const char *why, *repo = p->request.repo ? p->request.repo : REPO_UNKNOWN;
    const gq_page_row *row = page_recommended(page, &why);
    const char *name = page_file_name(row->path), *shard = strstr(name, "-00001-of-");
    char *link = NULL, *download = NULL, size[24];
    size_t n;
    fact_add(l, "repo", "%s", repo), fact_set(l, "has_repo", p->request.repo);
    fact_add(l, "recommended", "%s", name), fact_add(l, "recommended_type", "%s", row->type),
        fact_add(l, "recommended_why", "%s", why);
    fact_add(l, "recommended_size", "%s", page_size(size, row->file_bytes));
    fact_set(l, "recommended_sharded", shard);
    FILE *to = open_memstream(&link, &n);
    if (to) page_write_link(to, name);
    if (to && fclose(to) == 0) fact_add(l, "recommended_link", "%s", link);
    free(link);
    to = open_memstream(&download, &n);
    if (to && shard) fprintf(to, "--include "), page_write_quoted(to, name, (size_t)(shard - name), "-*");
    if (to && !shard) page_write_word(to, name);
    if (to && fclose(to) == 0) fact_add(l, "download", "%s", download);
    free(download);
    bool is_type = gq_filetype_find(row->type) >= 0; /* which programs look for in files' names */
    fact_add(l, "hf_name", is_type ? "%s:%s" : "%s --hf-file %s", repo, is_type ? row->type : name);
    fact_add(l, "ollama_name", "%s:%s", repo, is_type ? row->type : name);
    fact_add(l, "lms_name", "%s%s%s", repo, is_type ? "@" : "", is_type ? row->type : "");
    const char *task = *fact_text(l, "has_vocabulary") ? fact_text(l, "pipeline_tag") : "";
    bool embeds = !strcmp(task, CARD_EMBEDS) || !strcmp(task, CARD_RANKS);
    if (*task) fact_add(l, "runs", embeds ? "embedding" : "cli");
    fact_set(l, "runs_chat", *task && !embeds);
    for (size_t i = 0; i < p->n_files && !*fact_text(l, "is_sharded"); i++)
        fact_set(l, "is_sharded", strstr(page_file_name(p->files[i].path), "-00001-of-"));
}

/* The words that llama.cpp needs beside a draft's file; drafts of other kinds it knows. */
static const char *card_draft_words(const char *draft) {
    static const char *const kinds[][2] = {{"eagle3", " --spec-type draft-eagle3"},
                                           {"gemma4-assistant", " --spec-type draft-mtp"}};
    gq_model *m = gq_model_open(draft, NULL);
    size_t n = 0;
    const char *arch = m ? page_model_text(m, "general.architecture", &n) : NULL, *words = "";
    for (size_t i = 0; arch && i < sizeof kinds / sizeof *kinds; i++)
        if (n == strlen(kinds[i][0]) && !memcmp(arch, kinds[i][0], n)) words = kinds[i][1];
    gq_model_close(m);
    return words;
}

/* Adds the files that belong to all files of the table. */
static void card_add_companions(fact_list *l, const gq_publication *p) {
    static const char *const names[GQ_COMPANIONS][3] = {
        [GQ_PROJECTOR] = {"mmproj", "mmproj_size", "mmproj_type"},
        [GQ_MTP_FILE] = {"mtp", "mtp_size", "mtp_type"},
        [GQ_DRAFT_FILE] = {"draft", "draft_size", "draft_type"}};
    bool has_vision = card_has_sense(p, "vision"), has_audio = card_has_sense(p, "audio");
    fact_add(l, "senses", has_vision && has_audio ? "Images and audio" : has_audio ? "Audio" : "Images");
    fact_add(l, "sense", has_vision ? "image" : "audio");
    for (gq_companion i = 0; i < GQ_COMPANIONS; i++) {
        char size[24];
        if (!p->companions[i]) continue;
        const gq_summary *s = gq_plan_summary(p->companions[i], 0);
        fact_add(l, names[i][0], "%s", page_file_name(s->path));
        fact_add(l, names[i][1], "%s", page_size(size, s->file_bytes));
        fact_add(l, names[i][2], "%s", s->filetype);
        if (i != GQ_PROJECTOR && !*fact_text(l, "has_draft")) fact_set(l, "has_draft", true);
        if (i == GQ_DRAFT_FILE) fact_add(l, "draft_words", "%s", card_draft_words(s->path));
    }
}

static void card_write_accepted(FILE *to, const void *what) {
    const gq_publication *p = what;
    gq_drafted d;
    for (size_t k = 0; k <= p->n_files; k++) {
        const publish_file *f = k ? &p->files[k - 1] : NULL;
        if ((f && !f->evaluated) || !gq_evaluation_drafted(p->evaluation, f ? f->evaluated : 0, &d)) continue;
        const gq_interval *length = &d.length[GQ_DRAFTED - 1];
        const char *name = f ? page_file_name(f->path) : "base model";
        fputs("| ", to), page_write_text(to, name, strlen(name), false);
        fprintf(to, " | %.1f %% (%.1f to %.1f) | %.2f (%.2f to %.2f) |\n", 100 * d.first.value,
                100 * d.first.low, 100 * d.first.high, length->value, length->low, length->high);
    }
}

/* Adds how many of a draft's tokens each file accepts, where that was evaluated. */
static bool card_add_accepted(fact_list *l, const gq_publication *p, gq_error *e) {
    gq_drafted d;
    size_t n;
    if (!p->evaluation || !gq_evaluation_drafted(p->evaluation, 0, &d)) return true;
    char *rows = page_text(card_write_accepted, p, &n, e);
    bool ok = rows;
    if (ok) fact_add(l, "accepted", "%s", rows);
    free(rows);
    fact_add(l, "drafted", "%d", GQ_DRAFTED), fact_add(l, "accepted_texts", "%" PRIu64, d.texts);
    return ok;
}

/* ---- how the files were made ---- */

/* Adds the name of a text and the digest of its bytes, as far as they are there. */
static void card_add_source(fact_list *l, const char *name_fact, const char *sum_fact, const gq_text *text) {
    char sum[SHA256_TEXT];
    uint8_t digest[SHA256_BYTES];
    if (!text->name) return;
    fact_add(l, name_fact, "%s", page_file_name(text->name));
    if (text->bytes) sha256_sum(text->bytes, text->n, digest), sha256_print(digest, sum);
    if (text->bytes || gq_file_sha256(text->name, sum, NULL)) fact_add(l, sum_fact, "%s", sum);
}

/* Returns the command with the imatrix under its name in the folder, malloc'ed; NULL: no memory. */
static char *card_command(const gq_publication *p) {
    static const char option[] = " --imatrix ";
    const char *how = p->request.how, *at = p->imatrix_name ? strstr(how, option) : NULL;
    char *line = NULL;
    if (!at || strpbrk(p->imatrix_name, " '\"\\$`&;<>|*?#()!")) return strdup(how);
    at += strlen(option);
    const char *end = strstr(at, " --");
    return asprintf(&line, "%.*s%s%s", (int)(at - how), how, p->imatrix_name, end ? end : "") < 0 ? NULL
                                                                                                  : line;
}

/* Adds the command that makes the folder again, broken before options where it is long, as code in Markdown. */
static void card_add_command(fact_list *l, const gq_publication *p) {
    enum { COLUMNS = 76 };
    char *how = p->request.how ? card_command(p) : NULL, *text = NULL;
    size_t n = 0, column = 0;
    FILE *to = how ? open_memstream(&text, &n) : NULL;
    for (const char *c = how, *quote = NULL; to && *c; c++, column++) {
        size_t option = !quote && !strncmp(c, " --", 3) ? 1 + strcspn(c + 1, " ") : 0;
        if (*c == '\'') quote = quote ? NULL : c;
        if (option && c[option] && strncmp(c + option, " --", 3) != 0)
            option += 1 + strcspn(c + option + 1, " ");
        if (option && column + option > COLUMNS) fputs(" \\\n       ", to), column = 8;
        fputc(iscntrl((unsigned char)*c) ? '?' : *c, to);
    }
    if (to && fclose(to) == 0) fact_add_text(l, "how", text, n);
    free(text), free(how);
}

/* Adds the importance matrix: its file in the folder, and the texts that it names. */
static void card_add_imatrix(fact_list *l, const gq_publication *p) {
    char sum[SHA256_TEXT];
    if (!p->imatrix_name) return;
    fact_add(l, "imatrix_name", "%s", p->imatrix_name);
    if (gq_file_sha256(p->options.imatrix, sum, NULL)) fact_add(l, "imatrix_sha256", "%s", sum);
    gq_imatrix *m = gq_imatrix_open(p->options.imatrix, &(gq_error){0});
    const gq_imatrix_facts *f = m ? gq_imatrix_summary(m) : NULL;
    char *text = NULL;
    size_t n = 0;
    FILE *to = f ? open_memstream(&text, &n) : NULL;
    const char *scored = p->evaluation ? p->request.evaluation->text.name : NULL;
    for (size_t i = 0; to && i < f->n_datasets; i++) {
        const char *name = page_file_name(f->datasets[i]);
        fprintf(to, "%s%s", i ? ", " : "", name);
        if (scored && !strcmp(page_file_name(scored), name)) fact_set(l, "is_named_alike", true);
    }
    if (to && fclose(to) == 0) fact_add_text(l, "imatrix_text", text, n);
    free(text);
    gq_imatrix_free(m);
}

/* Adds the commit of a folder that was downloaded from a hub, by the notes of `hf download` or the path in the cache. */
static void card_add_revision(fact_list *l, const gq_publication *p) {
    enum { DIGITS = 40, MOST = 4096 };
    char *notes = NULL, *folder = realpath(p->options.input, NULL), *text = NULL;
    size_t n = 0;
    if (folder && asprintf(&notes, "%s/.cache/huggingface/download/config.json.metadata", folder) < 0)
        notes = NULL;
    if (notes) text = gq_read_whole(notes, MOST, &n, &(gq_error){0});
    const char *commit = text ? text : folder ? page_file_name(folder) : "";
    size_t digits = strspn(commit, "0123456789abcdef");
    if (digits == DIGITS && (commit[digits] == 0 || commit[digits] == '\n'))
        fact_add_text(l, "revision", commit, DIGITS);
    free(notes), free(folder), free(text);
}

static void card_add_making(fact_list *l, const gq_publication *p) {
    const gq_calibration *c = p->options.calibration;
    card_add_command(l, p);
    card_add_revision(l, p);
    fact_add(l, "version", "%s", gq_version()), fact_add(l, "build", "%s", gq_build());
    fact_set(l, "has_earlier", p->n_files > p->n);
    card_add_imatrix(l, p);
    fact_set(l, "is_calibrated", c);
    if (c && c->random) fact_add(l, "calibration_text", "random tokens");
    if (c && !c->random) card_add_source(l, "calibration_text", "calibration_sha256", &c->text);
    if (p->evaluation) card_add_source(l, "text_name", "text_sha256", &p->request.evaluation->text);
    const char *calibrated = fact_text(l, "calibration_sha256");
    if (*calibrated && !strcmp(calibrated, fact_text(l, "text_sha256"))) fact_set(l, "is_seen", true);
}

/* ---- the page ---- */

static bool card_collect(fact_list *l, gq_publication *p, const gq_page *page, gq_error *e) {
    const char *base = p->base_model.id, *title = p->request.title;
    char sum[SHA256_TEXT];
    if (!publication_sum_source(p, sum, e)) return false;
    if (*sum)
        fact_add(l, "source", "%s", page_file_name(p->options.input)),
            fact_add(l, "source_sha256", "%s", sum);
    if (base) fact_add(l, "base_model", "%s", base);
    fact_add(l, "title", "%s",
             title                            ? title
             : base && !p->options.adapters.n ? strchr(base, '/') + 1
                                              : p->stem);
    for (size_t i = 0; i < p->options.adapters.n; i++)
        fact_add(l, "adapter", "%s", page_file_name(p->options.adapters.items[i].path));
    if (p->request.quantized_by) fact_add(l, "quantized_by", "%s", p->request.quantized_by);
    card_add_model(l, p);
    card_add_prompt(l, p->model);
    card_add_sampling(l, p->model);
    card_add_kinds(l, p);
    card_add_recommended(l, p, page);
    card_add_companions(l, p);
    card_add_making(l, p);
    fact_set(l, "is_evaluated", page->evaluation);
    fact_add(l, "measure", "%s", page_measure(page));
    fact_add(l, "context", "%" PRIu64, p->context);
    char *table = card_add_accepted(l, p, e) ? page_table(page, false, e) : NULL;
    bool ok = table;
    if (ok) fact_add_text(l, "table", table, strlen(table) - 1); /* without its last end of line */
    free(table);
    return ok;
}

/* Fills the rows of the table, which are in the order of the files. */
static bool card_fill_rows(const gq_publication *p, gq_page_row *rows, gq_error *e) {
    for (size_t i = 0; i < p->n_files; i++) {
        const publish_file *f = &p->files[i];
        rows[i] = (gq_page_row){.path = f->path,
                                .type = f->label,
                                .file_bytes = f->file_bytes,
                                .bits = f->bits,
                                .relative_error = NAN};
        if (p->evaluation && f->evaluated &&
            !gq_page_row_evaluated(&rows[i], p->evaluation, f->evaluated, &p->intervals[2 * i], e))
            return false;
    }
    return true;
}

/* Warns of what a reader of the page would miss or doubt. */
static bool card_warn_facts(gq_publication *p, const fact_list *l, gq_error *e) {
    return (*fact_text(l, "license") ||
            warnings_add(&p->warnings, e,
                         "license: the model names none, so README.md has none; set it with --license")) &&
           (!(*fact_text(l, "is_seen") || *fact_text(l, "is_named_alike")) ||
            warnings_add(&p->warnings, e,
                         "quants lose more on other texts than on %s, as %s; evaluate on a held-out text",
                         fact_text(l, "text_name"),
                         *fact_text(l, "is_seen") ? "it also calibrated them"
                                                  : "the imatrix was computed on a text of that name"));
}

/* Warns of figures that an earlier page had. */
static bool card_warn_chart(gq_publication *p, gq_error *e) {
    struct stat st;
    if (p->evaluation) return true;
    char *path = folder_path(p, PUBLISH_CHART, e);
    if (!path) return false;
    bool ok = lstat(path, &st) != 0 ||
              warnings_add(&p->warnings, e,
                           "%s is of an earlier evaluation, whose figures README.md no longer has: the same "
                           "command with an evaluation restores them",
                           path);
    free(path);
    return ok;
}

static bool card_write_files(gq_publication *p, const gq_page *page, gq_error *e) {
    fact_list facts = {.n = 0};
    bool ok = card_collect(&facts, p, page, e);
    char *front = ok ? template_fill(card_front, &facts, e) : NULL,
         *text = front ? template_fill(card_page, &facts, e) : NULL,
         *chart = text && p->evaluation ? gq_page_chart(page, e) : NULL;
    ok = text && (chart || !p->evaluation) && (!chart || folder_write_chart(p, chart, e)) &&
         folder_write_page(p, front, text, e) && card_warn_chart(p, e) && card_warn_facts(p, &facts, e) &&
         publication_write_sums(p, e);
    fact_free(&facts);
    free(front), free(text), free(chart);
    return ok;
}

bool publication_write_page(gq_publication *p, gq_error *e) {
    char *note = NULL;
    size_t n_models;
    const size_t n = p->n_files;
    gq_page_row *rows = calloc(n, sizeof *rows);
    p->intervals = calloc(2 * n, sizeof *p->intervals);
    bool ok = ((rows && p->intervals) || gq_fail_memory(e, n * (sizeof *rows + 2 * sizeof *p->intervals))) &&
              card_fill_rows(p, rows, e);
    ok = ok && (!p->request.speeds || speeds_take(&p->speeds, p->request.speeds, rows, n, &note, e));
    gq_page page = {.size = sizeof page, .rows = rows, .n = n, .memory = p->memory, .recommends = true};
    if (p->evaluation) {
        page.base_model = gq_evaluation_models(p->evaluation, &n_models);
        page.evaluation = gq_evaluation_summary(p->evaluation);
    }
    ok = ok && page_sort(&p->page, &page, e);
    p->page.speed_note = note;
    free(rows);
    return ok && card_write_files(p, &p->page, e);
}
