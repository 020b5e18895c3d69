/* general.*: what catalogues and people look for. The README's front matter comes first, then what the
 * config's _name_or_path and the folder's own name say; each fills in what those before it left open. */
#include "hf/metadata/metadata.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- sampling ---- */

/* A file that is no JSON, and numbers of another kind, say nothing, as for llama.cpp's converter. */
static bool general_set_sampling(hf_folder *f, hf_metadata *p, gq_error *e) {
    static const struct {
        const char *name, *key;
        uint32_t type;
    } rows[] = {{"sequence", "general.sampling.sequence", GGUF_STRING},
                {"top_k", "general.sampling.top_k", GGUF_INT32},
                {"top_p", "general.sampling.top_p", GGUF_FLOAT32},
                {"min_p", "general.sampling.min_p", GGUF_FLOAT32},
                {"xtc_probability", "general.sampling.xtc_probability", GGUF_FLOAT32},
                {"xtc_threshold", "general.sampling.xtc_threshold", GGUF_FLOAT32},
                {"temperature", "general.sampling.temp", GGUF_FLOAT32},
                {"penalty_last_n", "general.sampling.penalty_last_n", GGUF_INT32},
                {"penalty_repeat", "general.sampling.penalty_repeat", GGUF_FLOAT32},
                {"repetition_penalty", "general.sampling.penalty_repeat", GGUF_FLOAT32},
                {"mirostat", "general.sampling.mirostat", GGUF_INT32},
                {"mirostat_tau", "general.sampling.mirostat_tau", GGUF_FLOAT32},
                {"mirostat_eta", "general.sampling.mirostat_eta", GGUF_FLOAT32}};
    static const char FILE_NAME[] = "generation_config.json";
    json_t *generation = NULL;
    gq_error why;
    if (!hf_folder_json(f, FILE_NAME, &generation, &why)) return hf_folder_warn_failed(f, &why, e);
    bool ok = !generation || json_is_object(generation) ||
              hf_folder_warn(f, FILE_NAME, e, "expected an object; it is left out");
    for (size_t r = 0; ok && r < sizeof rows / sizeof *rows; r++) {
        const json_t *v = json_object_get(generation, rows[r].name);
        double number = json_number_value(v);
        /* transformers' own name, of a factor that is often 1. */
        if (strcmp(rows[r].name, "repetition_penalty") == 0 &&
            (number == 1 || hf_metadata_find(p, rows[r].key)))
            continue;
        if (rows[r].type == GGUF_STRING && json_is_string(v))
            ok = hf_metadata_string(p, rows[r].key, json_string_value(v), json_string_length(v), e);
        else if (rows[r].type == GGUF_INT32 && json_is_number(v) && fabs(number) <= INT32_MAX)
            ok = hf_metadata_i32(p, rows[r].key, (int32_t)number, e);
        else if (rows[r].type == GGUF_FLOAT32 && json_is_number(v) && fabs(number) <= FLT_MAX)
            ok = hf_metadata_f32(p, rows[r].key, (float)number, e);
        else if (v && !json_is_null(v))
            ok = hf_folder_warn(f, FILE_NAME, e, "%s is not a %s; it is left out", rows[r].name,
                                rows[r].type == GGUF_STRING ? "text" : "number that fits");
    }
    json_decref(generation);
    return ok;
}

/* ---- names ---- */

/* Sets a text that is not empty, unless the key has one. */
static bool general_fill(hf_metadata *p, const char *key, const char *text, gq_error *e) {
    return !text || !*text || hf_metadata_find(p, key) || hf_metadata_text(p, key, text, e);
}

/* Sets a key to a list's texts with commas between, or to the one text. */
static bool general_fill_joined(hf_metadata *p, const char *key, const json_t *v, gq_error *e) {
    if (!json_is_array(v)) return general_fill(p, key, json_string_value(v), e);
    size_t n = 1, to = 0, i;
    const json_t *item;
    json_array_foreach((json_t *)v, i, item) n += json_string_length(item) + 1;
    char *text = malloc(n);
    if (!text) return gq_fail_memory(e, n);
    json_array_foreach((json_t *)v, i, item) {
        if (i) text[to++] = ',';
        memcpy(text + to, json_string_value(item), json_string_length(item));
        to += json_string_length(item);
    }
    text[to] = 0;
    bool ok = general_fill(p, key, text, e);
    free(text);
    return ok;
}

static bool general_set_card(const json_t *front, hf_metadata *p, gq_error *e) {
    static const struct {
        const char *key, *const names[4];
    } rows[] = {{"general.name", {"name", "model_name"}},
                {"general.author", {"author", "model_author", "model_creator"}},
                {"general.version", {"version", "model_version"}},
                {"general.organization", {"organization", "model_organization"}},
                {"general.finetune", {"finetune", "model_finetune"}},
                {"general.basename", {"basename", "model_basename", "model_type"}},
                {"general.description", {"description", "model_description"}},
                {"general.size_label", {"size_label", "model_size_label"}},
                {"general.source.url", {"url"}},
                {"general.source.doi", {"doi"}},
                {"general.source.uuid", {"uuid"}},
                {"general.source.repo_url", {"repo_url"}},
                {"general.license", {"license"}},
                {"general.license.name", {"license_name"}},
                {"general.license.link", {"license_link"}}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (const char *const *name = rows[r].names; *name; name++)
            if (!general_fill_joined(p, rows[r].key, json_object_get(front, *name), e)) return false;
    return true;
}

static bool general_set_id(hf_metadata *p, const char *id, uint64_t weights, gq_error *e) {
    hf_model_id m;
    char title[HF_ID_MOST], organization[HF_ID_MOST];
    if (!hf_model_id_parse(&m, id, weights)) return true;
    hf_model_title(title, m.name), hf_model_title(organization, m.organization);
    return general_fill(p, "general.name", title, e) &&
           general_fill(p, "general.organization", organization, e) &&
           general_fill(p, "general.basename", m.basename, e) &&
           general_fill(p, "general.finetune", m.finetune, e) &&
           general_fill(p, "general.version", m.version, e) &&
           general_fill(p, "general.size_label", m.size, e);
}

static bool general_set_names(const hf_folder *f, const hf_config *c, uint64_t weights, hf_metadata *p,
                              gq_error *e) {
    const char *id = json_string_value(json_object_get(c->stored, "_name_or_path"));
    const char *slash = id ? strchr(id, '/') : NULL;
    if (id && !(slash && strchr(slash + 1, '/')) && !general_set_id(p, id, weights, e)) return false;
    char *name = NULL, *stem = NULL;
    bool ok = hf_folder_names(f->path, &name, &stem, e) && general_set_id(p, name, weights, e) &&
              general_fill(p, "general.name", name, e);
    free(name), free(stem);
    return ok;
}

/* Fails for a text's judge: such a model has the class and the source tensors of one that writes, and only its names
 * tell. llama.cpp's converter gives it another head. */
static bool general_check_judge(const hf_folder *f, const hf_config *c, const json_t *front, gq_error *e) {
    static const char *const judges[] = {"qwen3-reranker", "qwen3-vl-reranker"};
    char *id = NULL, *stem = NULL;
    bool ok = hf_folder_names(f->path, &id, &stem, e);
    const char *const names[] = {id, json_string_value(json_object_get(c->stored, "_name_or_path")),
                                 json_string_value(json_object_get(front, "#"))};
    for (size_t i = 0; ok && c->row->folder.may_judge && i < 3; i++)
        for (size_t k = 0; k < 2; k++)
            for (const char *at = names[i]; ok && at && *at; at++)
                if (strncasecmp(at, judges[k], strlen(judges[k])) == 0)
                    ok = hf_config_fail(
                        c, e,
                        "%s is a reranker, whose head is made of rows of the output matrix, which gquant "
                        "does not support: convert it with llama.cpp's converter, and quantize the GGUF",
                        names[i]);
    free(id), free(stem);
    return ok;
}

/* ---- what it was made of ---- */

/* Sets the metadata of one model or data set: KIND.N.name and so on. */
static bool general_set_source(hf_metadata *p, const char *kind, size_t i, const char *id, uint64_t weights,
                               gq_error *e) {
    char key[96], url[HF_ID_MOST + 32], title[HF_ID_MOST], organization[HF_ID_MOST];
    hf_model_id m;
    if (strstr(id, "://") || !hf_model_id_parse(&m, id, weights)) return true;
    snprintf(url, sizeof url, "https://huggingface.co/%s", id);
    hf_model_title(title, m.name), hf_model_title(organization, m.organization);
    const char *const rows[][2] = {{"name", title},
                                   {"version", m.version},
                                   {"organization", organization},
                                   {"repo_url", *m.organization ? url : ""}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        snprintf(key, sizeof key, "general.%s.%zu.%s", kind, i, rows[r][0]);
        if (!general_fill(p, key, rows[r][1], e)) return false;
    }
    return true;
}

static bool general_set_sources(const json_t *v, hf_metadata *p, const char *kind, uint64_t weights,
                                gq_error *e) {
    enum { SOURCES_MOST = 256 }; /* of a few keys each */
    char key[64];
    size_t n = json_is_string(v) ? 1 : json_array_size(v);
    if (n == 0) return true;
    if (n > SOURCES_MOST) n = SOURCES_MOST;
    snprintf(key, sizeof key, "general.%s.count", kind);
    if (!hf_metadata_u32(p, key, (uint32_t)n, e)) return false;
    for (size_t i = 0; i < n; i++)
        if (!general_set_source(p, kind, i, json_string_value(json_is_string(v) ? v : json_array_get(v, i)),
                                weights, e))
            return false;
    return true;
}

/* Sets a key to the texts of two keys. */
static bool general_set_texts(const json_t *front, hf_metadata *p, const char *key,
                              const char *const names[2], gq_error *e) {
    for (size_t k = 0; k < 2; k++) {
        const json_t *v = json_object_get(front, names[k]);
        size_t n = json_is_string(v) ? 1 : json_array_size(v);
        for (size_t i = 0; i < n; i++) {
            const json_t *text = json_is_string(v) ? v : json_array_get(v, i);
            if (!hf_metadata_add_string(p, json_string_value(text), json_string_length(text), e))
                return false;
        }
    }
    return hf_metadata_array(p, key, GGUF_STRING, e);
}

/* ---- the size ---- */

/* Writes a number with two or three digits and a letter: 1235814528 is 1.2B, 494000000 is 494M. */
static void general_write_size(char *text, size_t room, uint64_t n) {
    static const struct {
        double more_than;
        char letter;
    } units[] = {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {0, 'K'}};
    size_t u = 0;
    while (units[u].letter != 'K' && (double)n <= units[u].more_than) u++;
    double scaled = (double)n / (units[u].letter == 'K' ? 1e3 : units[u].more_than);
    double rounded = nearbyint(scaled);
    int digits = rounded >= 1 ? 1 + (int)floor(log10(rounded)) : 0;
    int decimals = digits < 2 ? 2 - digits : 0;
    unsigned scale = decimals == 0 ? 1 : decimals == 1 ? 10 : 100;
    /* The point is written here, because printf takes the one of the program's language. Its rounding is
     * kept: a product that is a half only because it was rounded goes to where the exact one lies. */
    double product = scaled * scale, rest = fma(scaled, scale, -product), all = nearbyint(product);
    if (product - floor(product) == 0.5 && rest != 0) all = rest > 0 ? ceil(product) : floor(product);
    uint64_t number = (uint64_t)all;
    unsigned behind = (unsigned)(number % scale);
    int at = snprintf(text, room, "%llu", LLU(number / scale));
    text += at, room -= (size_t)at;
    if (decimals == 1)
        snprintf(text, room, ".%u%c", behind, units[u].letter);
    else if (decimals == 2)
        snprintf(text, room, ".%02u%c", behind, units[u].letter);
    else
        snprintf(text, room, "%c", units[u].letter);
}

static bool general_set_size(const hf_counts *n, hf_metadata *p, gq_error *e) {
    char text[64];
    if (!n->weights) return true;
    int at = n->stacked ? snprintf(text, sizeof text, "%llux", LLU(n->experts / n->stacked)) : 0;
    general_write_size(text + at, sizeof text - (size_t)at,
                       n->stacked ? n->weights - n->expert_weights + n->per_expert : n->weights);
    return general_fill(p, "general.size_label", text, e);
}

/* ---- the whole ---- */

bool hf_general_metadata(hf_folder *f, const hf_config *c, const hf_counts *counts, hf_metadata *metadata,
                         gq_error *e) {
    static const char *const tags[2] = {"tags", "pipeline_tag"}, *const languages[2] = {"languages",
                                                                                        "language"};
    json_t *front = NULL;
    bool ok =
        hf_metadata_text(metadata, "general.architecture", c->arch, e) &&
        hf_metadata_text(metadata, "general.type", "model", e) && general_set_sampling(f, metadata, e) &&
        hf_readme_front(f, &front, e) && general_check_judge(f, c, front, e) &&
        general_set_card(front, metadata, e) && general_set_names(f, c, counts->weights, metadata, e) &&
        general_set_size(counts, metadata, e) &&
        general_set_sources(json_object_get(front, "base_model"), metadata, "base_model", counts->weights,
                            e) &&
        general_set_sources(json_object_get(front, "datasets"), metadata, "dataset", counts->weights, e) &&
        general_set_texts(front, metadata, "general.tags", tags, e) &&
        general_set_texts(front, metadata, "general.languages", languages, e);
    json_decref(front);
    return ok;
}
