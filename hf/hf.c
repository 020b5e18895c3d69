/* Puts a model's parts together: files are listed, source tensors become tensors, and the config, the tokenizer
 * and the README become metadata. Reading goes through hf/tensors/tensor.c; what the files hold is summed up by a
 * checksum of the texts that were read whole, the places of all source tensors, and a sample of the weights. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "hf/adapter/adapter.h"
#include "hf/hf.h"
#include "hf/metadata/metadata.h"
#include "hf/projector.h"
#include "hf/tokenizer/tokenizer.h"

typedef struct hf_container {
    hf_place place;
    hf_folder folder;
    hf_adapters adapters;
    hf_config config;
    hf_target target; /* of a draft model */
    hf_list list;
    hf_build build;
    hf_metadata metadata;
    char *path;        /* of the folder, or of the only file that is read */
    bool is_projector; /* the projector is read, not the text model */
    char *unknown_cut; /* a sentence; NULL: the pre-tokenizer is known */
} hf_container;

static const hf_tensor *tensor_of(const model_tensor *t) { return (const hf_tensor *)(const void *)t; }

/* ---- the container's functions ---- */

static bool container_read(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n, void *to,
                           gq_error *e) {
    (void)m;
    return hf_tensor_read(tensor_of(t), first, n, to, e);
}

static void advise_need(void *user, const gq_file *f, uint64_t offset, uint64_t bytes) {
    (void)user;
    gq_file_will_need(f, offset, bytes);
}

static void advise_drop(void *user, const gq_file *f, uint64_t offset, uint64_t bytes) {
    (void)user;
    gq_file_dont_need(f, offset, bytes);
}

static void ask_cold(void *user, const gq_file *f, uint64_t offset, uint64_t bytes) {
    bool *cold = user;
    *cold = *cold || gq_file_is_cold(f, offset, min(bytes, 8 << 20));
}

static void container_advise(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n,
                             model_advice advice) {
    (void)m;
    hf_tensor_ranges(tensor_of(t), first, n, advice == MODEL_WILL_NEED ? advise_need : advise_drop, NULL);
}

static bool container_is_cold(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n) {
    bool cold = false;
    (void)m;
    hf_tensor_ranges(tensor_of(t), first, n, ask_cold, &cold);
    return cold;
}

static bool container_fold_content(const model_source *m, uint32_t *content, gq_error *e) {
    const hf_container *c = m->state;
    hf_folder_fold(&c->folder, content), hf_folder_fold(&c->target.folder, content);
    return hf_list_fold(&c->list, content, e) && hf_adapters_fold(&c->adapters, content, e);
}

static bool container_own_name(const model_source *m, const char *name, char *to, size_t size) {
    const hf_container *c = m->state;
    return hf_names_find_source(&c->build, name, to, size);
}

static void container_close(void *state) {
    hf_container *c = state;
    hf_build_free(&c->build);
    hf_list_free(&c->list);
    hf_config_free(&c->config), hf_target_close(&c->target);
    hf_metadata_free(&c->metadata);
    hf_adapters_close(&c->adapters);
    hf_folder_close(&c->folder), hf_place_free(&c->place);
    free(c->path), free(c->unknown_cut), free(c);
}

static const model_container container = {
    .read = container_read,
    .advise = container_advise,
    .is_cold = container_is_cold,
    .fold_content = container_fold_content,
    .own_name = container_own_name,
    .close = container_close,
};

/* ---- opening ---- */

/* llama.cpp's converter counts nothing where matrices of adapters, A and B, do not follow one another. */
static hf_counts count_weights(const hf_build *b) {
    hf_counts n = {0};
    for (size_t i = 0; i < b->n; i++) {
        const model_tensor *t = &b->tensors[i].tensor;
        uint64_t matrices = t->ne[2] * t->ne[3], all = t->ne[0] * t->ne[1] * matrices;
        if (strstr(t->name, ".lora_")) return (hf_counts){0};
        n.weights += all;
        if (!strstr(t->name, "_exps.") || t->n_dims < 3) continue;
        n.expert_weights += all, n.per_expert += all / matrices, n.experts += matrices, n.stacked++;
    }
    return n;
}

static bool open_metadata(hf_container *c, uint64_t n_tokens, gq_error *e) {
    hf_counts counts = count_weights(&c->build);
    if (c->config.layers == 0) return hf_config_fail(&c->config, e, "the number of layers is 0");
    for (size_t i = 0; i < c->build.n; i++) {
        const model_tensor *t = &c->build.tensors[i].tensor;
        if (strcmp(t->name, "token_embd.weight") == 0 && t->ne[1] != n_tokens)
            return hf_config_fail(&c->config, e, "the embedding has %llu rows, but the tokenizer %llu tokens",
                                  LLU(t->ne[1]), LLU(n_tokens));
    }
    return hf_general_metadata(&c->folder, &c->config, &counts, &c->metadata, e) &&
           hf_arch_metadata(&c->config, &c->metadata, e) && hf_tensor_metadata(&c->build, &c->metadata, e);
}

static int compare_file_places(const void *a, const void *b) {
    const model_tensor *x = *(model_tensor *const *)a, *y = *(model_tensor *const *)b;
    if (x->shard != y->shard) return x->shard < y->shard ? -1 : 1;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Returns the number among the model's files of the first one that a list is in. */
static uint32_t list_first_file(const hf_container *c, const hf_list *l) {
    size_t n = c->folder.n_files;
    for (size_t i = 0; i < c->adapters.n; n += c->adapters.items[i++].folder.n_files)
        if (l == &c->adapters.items[i].list) return (uint32_t)n;
    return 0;
}

/* Parts of a folder other than the text model, known by the names of their source tensors: encoders and speech
 * decoders, which the text model leaves out (hf/tensors/rules.c), and MTP layers. Kinds in the order in which a name
 * is asked for them; what is left is vision. */
static const struct {
    const char *name, *const marks[8];
} beside_kinds[] = {
    {"speech", {"talker.", "token2wav.", "code2wav.", NULL}},
    {"audio", {"audio", "sound_", "speech_", "^conformer.", NULL}},
    {"vision", {"", NULL}},
};
enum { KINDS = sizeof beside_kinds / sizeof *beside_kinds };

static void beside_find(model_source *m, const hf_config *c, const hf_list *l) {
    model_beside found[KINDS] = {0};
    for (size_t i = 0; i < l->n; i++) {
        const hf_stored *t = &l->stored[i];
        size_t k = 0;
        if (!arch_names_match(hf_common_left_out, t->name)) continue;
        while (k + 1 < KINDS && !arch_names_match(beside_kinds[k].marks, t->name)) k++;
        found[k] =
            (model_beside){beside_kinds[k].name, found[k].n + 1, add_sat(found[k].bytes, t->bytes), false};
    }
    for (size_t k = KINDS; k > 0; k--)
        if (found[k - 1].n) m->beside[m->n_beside++] = found[k - 1];
    if (c->mtp) m->beside[m->n_beside++] = (model_beside){"prediction", c->mtp, 0, true};
}

/* Lists tensors, files and metadata as the model's. A target's files stand behind those that tensors are in. */
static bool model_gather(model_source *m, hf_container *c, gq_error *e) {
    hf_folder *target = &c->target.folder;
    size_t n_files = c->folder.n_files + target->n_files;
    for (size_t i = 0; i < c->adapters.n; i++) n_files += c->adapters.items[i].folder.n_files;
    m->tensors = calloc(c->build.n + 1, sizeof *m->tensors);
    m->files = calloc(n_files + 1, sizeof *m->files);
    if (!m->tensors || !m->files) return gq_fail_memory(e, c->build.n * sizeof *m->tensors);
    for (size_t i = 0; i < c->folder.n_files; i++) m->files[m->n_files++] = &c->folder.files[i].file;
    for (size_t i = 0; i < c->adapters.n; i++) {
        hf_folder *f = &c->adapters.items[i].folder;
        for (size_t k = 0; k < f->n_files; k++) m->files[m->n_files++] = &f->files[k].file;
        if (!warnings_join(&c->folder.warnings, &f->warnings, e)) return false;
    }
    for (size_t i = 0; i < target->n_files; i++) m->files[m->n_files++] = &target->files[i].file;
    for (size_t i = 0; i < c->build.n; i++) {
        hf_tensor *t = &c->build.tensors[i];
        const hf_source *first = t->pieces[0].source;
        if (first)
            t->tensor.shard = list_first_file(c, first->list) + first->stored->file,
            t->tensor.offset = first->stored->offset;
        m->tensors[m->n_tensors++] = &t->tensor;
    }
    qsort(m->tensors, m->n_tensors, sizeof *m->tensors, compare_file_places);
    m->path = c->path, m->kv = c->metadata.kv, m->n_kv = c->metadata.n;
    m->alignment = GGUF_DEFAULT_ALIGNMENT; /* version 0: no GGUF file */
    m->warnings = c->folder.warnings, c->folder.warnings = (warning_list){0};
    if (!c->place.is_image && !c->is_projector) beside_find(m, &c->config, &c->list);
    if (c->unknown_cut) m->missing_key = "tokenizer.ggml.pre", m->missing_why = c->unknown_cut;
    m->needs_head = !c->place.is_image && !c->is_projector && hf_build_needs_head(&c->build);
    return model_index_names(m, e);
}

bool hf_model_is(const char *path) { return hf_place_is(path); }

char *hf_model_stem(const char *path, gq_error *e) {
    hf_place p;
    gq_error unused;
    char *stem = NULL;
    if (hf_place_find(&p, path, &unused)) stem = p.stem, p.stem = NULL;
    hf_place_free(&p);
    if (!stem && !(stem = strdup(path))) gq_fail_memory(e, strlen(path));
    return stem;
}

/* A draft model's is its target's, for as many tokens as the draft model has. */
static bool open_tokenizer(hf_container *c, hf_folder *own, uint64_t *n_tokens, gq_error *e) {
    hf_target *t = &c->target;
    if (!c->config.target)
        return hf_tokenizer_metadata(own, &c->config, &c->metadata, n_tokens, &c->unknown_cut, e);
    return (hf_tokenizer_metadata(&t->folder, &t->tokens, &c->metadata, n_tokens, &c->unknown_cut, e) ||
            gq_fail_again(e, e, "%s: the target's vocabulary: %s", c->config.file, gq_error_text(e))) &&
           warnings_join(&c->folder.warnings, &t->folder.warnings, e);
}

/* An adapter's vocabulary cannot take the place of a target's, whose tokens a draft model proposes. */
static bool draft_check_tokens(const hf_container *c, const hf_folder *tokens, gq_error *e) {
    return !c->config.target || tokens == &c->folder ||
           gq_fail(e,
                   "%s has its own vocabulary, but %s is a draft model with the vocabulary of its target, "
                   "%s: remove the tokenizer's files from the adapter's folder if the adapter adds no tokens",
                   tokens->path, c->folder.path, c->target.folder.path);
}

static bool attach_adapters(const void *user, hf_build *b, gq_error *e) {
    return hf_adapters_attach(user, b, e);
}

char *hf_model_name(const char *path, gq_error *e) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    char *whole = strndup(path, n), *id = NULL, *stem = NULL, *name = NULL;
    if (!whole) return gq_fail_memory(e, n), NULL;
    if (hf_folder_names(whole, &id, &stem, e))
        if (!(name = strdup(hf_path_last(id)))) gq_fail_memory(e, n);
    free(whole), free(id), free(stem);
    return name;
}

/* A language model: config.json says what its source tensors are. */
static bool open_language(hf_container *c, const char *target, gq_error *e) {
    uint64_t n_tokens = 0;
    hf_folder *tokens = &c->folder;
    bool ok = hf_config_read(&c->config, &c->folder, e) && hf_target_open(&c->target, target, &c->config, e);
    c->metadata.prefix = c->config.arch;
    return ok && hf_list_read(&c->list, &c->folder, e) && hf_list_unwrap(&c->list, e) &&
           hf_modules_add(&c->list, &c->config, e) && hf_mtp_find(&c->config, &c->list, e) &&
           hf_adapters_settle_tokens(&c->adapters, &c->config, &c->list, &tokens, e) &&
           draft_check_tokens(c, tokens, e) && open_tokenizer(c, tokens, &n_tokens, e) &&
           hf_build_changed_tensors(&c->build, &c->config, &c->list, n_tokens, attach_adapters, &c->adapters,
                                    e) &&
           hf_adapters_check_used(&c->adapters, &c->build, e) && open_metadata(c, n_tokens, e) &&
           hf_adapters_metadata(&c->adapters, &c->build, &c->metadata, e);
}

/* Warns of the parts of an image model that are not read with it. */
static bool warn_parts(hf_container *c, gq_error *e) {
    static const char *const models[] = {"transformer_2", "unconditional_transformer"},
                             *const others[] = {"text_encoder",  "text_encoder_2", "text_encoder_3",
                                                "image_encoder", "connectors",     "vae",
                                                "audio_vae",     "vocoder"};
    hf_folder whole = {.path = c->place.pipeline};
    char beside[160] = "";
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (hf_folder_has(&whole, others[i]))
            snprintf(beside + strlen(beside), sizeof beside - strlen(beside), "%s%s", *beside ? ", " : "",
                     others[i]);
    if (*beside &&
        !hf_folder_warn(&c->folder, "", e,
                        "only the diffusion model is read; other parts of the pipeline are left out: %s",
                        beside))
        return false;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (hf_folder_has(&whole, models[i]) &&
            !hf_folder_warn(&c->folder, "", e,
                            "%s is a second model that the pipeline needs as well: convert %s/%s", models[i],
                            c->place.pipeline, models[i]))
            return false;
    return true;
}

/* An image model: its source tensors say what it is. A config.json beside them says how they are coded. */
static bool open_image(hf_container *c, const char *target, gq_error *e) {
    const char *file = c->place.file;
    if (!hf_target_refuse(target, c->path, e) ||
        !(c->config.file = hf_folder_path(&c->folder, file ? file : "config.json", e)) ||
        !(file ? hf_list_read_file(&c->list, &c->folder, file, e)
               : hf_list_read_called(&c->list, &c->folder, c->place.called, e)))
        return false;
    bool ok = strcmp(c->place.called, "model") == 0 ||
              hf_folder_json(&c->folder, "config.json", &c->config.merged, e);
    return ok && hf_image_build(&c->build, &c->config, &c->list, &c->metadata, e) &&
           (!c->place.pipeline || warn_parts(c, e));
}

/* Reports an adapter beside a whole model, as trainers leave it: transformers would load both. */
static bool warn_adapter_beside(hf_container *c, gq_error *e) {
    bool is_there = !c->place.is_image && hf_folder_has(&c->folder, "adapter_config.json") &&
                    (hf_folder_has(&c->folder, "adapter_model.safetensors") ||
                     hf_folder_has(&c->folder, "adapter_model.bin"));
    return !is_there ||
           hf_folder_warn(&c->folder, "adapter_config.json", e,
                          "a LoRA adapter is beside the model, and transformers would load both: "
                          "it is left out; merge it by giving its folder as an adapter, or remove "
                          "it");
}

/* Opens the adapters, which only language models can have. */
static bool open_adapters(hf_container *c, const gq_adapters *given, gq_error *e) {
    if (!given || given->n == 0) return warn_adapter_beside(c, e);
    if (c->place.is_image)
        return gq_fail(e, "%s is an image model: adapters can be merged only into language models", c->path);
    return hf_adapters_open(&c->adapters, given, e);
}

/* The multimodal projector. */
static bool open_projector(hf_container *c, gq_error *e) {
    const arch_projector *row;
    c->is_projector = true;
    if (c->place.is_image) return gq_fail(e, "%s is an image model, which has no projector", c->place.folder);
    if (!hf_config_open(&c->config, &c->folder, e) || !hf_projector_find(&row, &c->config, e)) return false;
    c->metadata.prefix = c->config.arch;
    if (!hf_list_read(&c->list, &c->folder, e) || !hf_list_unwrap(&c->list, e)) return false;
    hf_adapters_find_modules(&c->adapters, &c->list);
    if (!hf_projector_build(&c->build, row, &c->config, &c->list, &c->metadata, attach_adapters, &c->adapters,
                            e) ||
        !hf_adapters_check_used(&c->adapters, &c->build, e))
        return false;
    hf_counts counts = count_weights(&c->build);
    return hf_general_metadata(&c->folder, &c->config, &counts, &c->metadata, e) &&
           hf_metadata_text(&c->metadata, "general.type", "mmproj", e) &&
           hf_adapters_metadata(&c->adapters, &c->build, &c->metadata, e);
}

static bool container_open(model_source *m, const char *path, bool projector, const gq_adapters *adapters,
                           gq_error *e) {
    const char *target = adapters ? adapters->target : NULL;
    *m = (model_source){.path = NULL};
    hf_container *c = m->state = calloc(1, sizeof *c);
    if (!c) return gq_fail_memory(e, sizeof *c);
    m->container = &container;
    bool ok = hf_place_find(&c->place, path, e) && hf_folder_open(&c->folder, c->place.folder, e);
    if (ok)
        c->path = c->place.is_image && c->place.file ? hf_folder_path(&c->folder, c->place.file, e)
                                                     : strdup(c->folder.path);
    ok = ok && (c->path || gq_fail_memory(e, strlen(path))) && open_adapters(c, adapters, e) &&
         (projector           ? open_projector(c, e)
          : c->place.is_image ? open_image(c, target, e)
                              : open_language(c, target, e)) &&
         model_gather(m, c, e);
    if (!ok) model_close(m);
    return ok;
}

bool hf_model_open(model_source *m, const char *path, gq_error *e) {
    return container_open(m, path, false, NULL, e);
}

bool hf_model_open_adapted(model_source *m, const char *path, const gq_adapters *adapters, gq_error *e) {
    return container_open(m, path, false, adapters, e);
}

bool hf_projector_open(model_source *m, const char *path, const gq_adapters *adapters, gq_error *e) {
    return container_open(m, path, true, adapters, e);
}
