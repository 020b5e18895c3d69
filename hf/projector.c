/* Makes projector files of folders. A class of models has a row (arch/projector.h), found by config.json, whose
 * lists say which source tensors belong to the projector, what they become, and where its numbers are. All source
 * tensors of the text model are dropped before anything else is looked at, so that it does not matter how they are
 * coded. Types follow from names and shapes, as in llama.cpp's converter: some tensors stay F32 or F16 whatever is
 * asked for. */
#include "hf/projector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf/metadata/metadata.h"

enum { NAME_BYTES = 512 };

/* ---- the row ---- */

static const char *class_of(const json_t *object) {
    return json_string_value(json_array_get(json_object_get(object, "architectures"), 0));
}

/* Finds a value by its keys, with a dot between two. */
static json_t *json_at(const json_t *root, const char *keys) {
    char first[64];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(keys, "."), keys);
    const char *dot = strchr(keys, '.');
    json_t *v = json_object_get(root, first);
    return dot ? json_at(v, dot + 1) : v;
}

/* Fails for a folder that may be right, but is of no kind that is known here. */
#define projector_fail_other(e, ...) gq_fail_remedy(e, GQ_REMEDY_OTHER_PROGRAM, __VA_ARGS__)

static bool config_has_encoder(json_t *config) {
    static const char *const words[] = {"vision", "visual", "image", "audio", "speech", "sound", "mm_"};
    const char *key;
    json_t *value;
    json_object_foreach(config, key, value) for (size_t i = 0; i < sizeof words / sizeof *words;
                                                 i++) if (strstr(key, words[i])) return true;
    return false;
}

static bool fail_class(const hf_config *c, gq_error *e) {
    if (!config_has_encoder(c->stored))
        return projector_fail_other(e,
                                    "%s: %s has no vision or audio encoder, and so no multimodal projector",
                                    c->file, c->class_name);
    const char *names[512];
    size_t n = 0;
    const arch_projector *row;
    for (size_t i = 0; (row = arch_projector_at(i)); i++)
        for (const char *const *k = row->classes; *k && !row->refused && n < 512; k++) names[n++] = *k;
    const char *near = gq_nearest(c->class_name, names, n, 5);
    return projector_fail_other(e,
                                "%s: the multimodal projector of %s is not supported%s%s%s; llama.cpp's "
                                "converter may support it: convert_hf_to_gguf.py --mmproj",
                                c->file, c->class_name, near ? " (the nearest is " : "", near ? near : "",
                                near ? ")" : "");
}

static bool projector_find_row(const arch_projector **found, hf_config *c, gq_error *e) {
    const char *part = class_of(json_object_get(c->stored, "vision_config")),
               *type = json_string_value(json_object_get(c->stored, "model_type"));
    c->class_name = part ? part : class_of(c->stored);
    if (!c->class_name)
        return projector_fail_other(e, "%s: no model class: expected \"architectures\": [\"...\"]", c->file);
    for (size_t i = 0; (*found = arch_projector_at(i)); i++)
        if (name_is_one(c->class_name, (*found)->classes) &&
            (!(*found)->model_type || (type && strcmp((*found)->model_type, type) == 0)))
            break;
    if (!*found) {
        fail_class(c, e);
        return false;
    }
    return !(*found)->refused ||
           projector_fail_other(e, "%s: %s: %s", c->file, c->class_name, (*found)->refused);
}

/* ---- its numbers ---- */

/* Lays the values of a file over those of `to`, and over these those of an object in it. */
static bool preprocessor_add(hf_folder *f, json_t *to, const char *name, const char *within, gq_error *e) {
    json_t *file = NULL;
    if (!hf_folder_json(f, name, &file, e)) return false;
    json_t *part = json_object_get(file, within);
    bool ok = (!json_is_object(file) || json_object_update(to, file) == 0) &&
              (!json_is_object(part) || json_object_update(to, part) == 0);
    json_decref(file);
    return ok || gq_fail_memory(e, 0);
}

/* Returns an object with the values that it lacks; another kind of value as it is. NULL: no memory. */
static json_t *json_complete(json_t *v, const char *missing) {
    json_t *all = json_is_object(v) ? json_copy(v) : json_incref(v);
    json_t *other = missing && json_is_object(v) ? json_loads(missing, 0, NULL) : NULL;
    if (!all || !missing || !json_is_object(v)) return all;
    if (!other || json_object_update_missing(all, other) != 0) json_decref(all), all = NULL;
    json_decref(other);
    return all;
}

/* Puts the objects that items look in side by side. */
static bool projector_lay_out(const arch_projector *row, hf_config *c, gq_error *e) {
    json_t *config_vision = row->vision ? json_at(c->stored, row->vision) : NULL,
           *config_audio = row->audio ? json_at(c->stored, row->audio) : NULL, *pre = json_object(),
           *all = json_object(), *coding = json_object_get(c->stored, "quantization_config"),
           *vision = json_complete(config_vision, row->vision_missing),
           *audio = json_complete(config_audio, row->audio_missing);
    json_t *other = row->pre_missing ? json_loads(row->pre_missing, 0, NULL) : json_object();
    json_t *beside = NULL;
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s/config.json", row->beside ? row->beside : "");
    bool ok = !row->beside || hf_folder_json(c->folder, name, &beside, e);
    if (ok && row->beside && !json_is_object(beside))
        ok = projector_fail_other(e, "%s: no %s: the model has no audio encoder", c->file, name);
    if (beside) audio = beside;
    ok = ok && ((pre && all && other && (!config_vision || vision) && (!config_audio || audio)) ||
                gq_fail_memory(e, 0));
    ok = ok && preprocessor_add(c->folder, pre, "preprocessor_config.json", "media_proc_cfg", e) &&
         preprocessor_add(c->folder, pre, "processor_config.json", "image_processor", e) &&
         (json_object_update_missing(pre, other) == 0 || gq_fail_memory(e, 0));
    if (ok && row->vision && !json_is_object(vision))
        ok = projector_fail_other(e, "%s: no %s: the model has no vision encoder", c->file, row->vision);
    if (ok && row->audio && !row->may_lack_audio && !json_is_object(audio))
        ok = projector_fail_other(e, "%s: no %s: the model has no audio encoder", c->file, row->audio);
    if (ok)
        ok = ((!vision || json_object_set(all, "vision", vision) == 0) &&
              (!json_is_object(audio) || json_object_set(all, "audio", audio) == 0) &&
              (!coding || json_object_set(all, "quantization_config", coding) == 0) &&
              json_object_set(all, "text", c->merged) == 0 && json_object_set(all, "root", c->stored) == 0 &&
              json_object_set(all, "pre", pre) == 0) ||
             gq_fail_memory(e, 0);
    json_decref(pre), json_decref(vision), json_decref(audio), json_decref(other);
    json_decref(ok ? c->merged : all);
    if (ok) c->merged = all;
    return ok;
}

bool hf_projector_find(const arch_projector **row, hf_config *c, gq_error *e) {
    static const arch_class none;
    if (!projector_find_row(row, c, e)) return false;
    c->arch = "clip", c->row = arch_named(c->arch), c->class_row = &none, c->like = &(*row)->folder;
    return projector_lay_out(*row, c, e);
}

/* ---- tensors ---- */

static bool projector_add(hf_build *b, const hf_source *s, gq_error *e) {
    hf_match f = {.source = s};
    switch (hf_names_find_projector_rule(b->projector, s->name, &f)) {
    case HF_NAME_TOO_LONG:
        return hf_list_fail(s->list, s->stored, e, "its name is too long");
    case HF_NAME_FOUND:
        return hf_build_op(b, &f, e);
    default:
        break;
    }
    return projector_fail_other(e,
                                "%s: tensor '%s': unknown tensor for the multimodal projector of %s; "
                                "llama.cpp's converter may know it: convert_hf_to_gguf.py --mmproj",
                                hf_list_path(s->list, s->stored->file), s->stored->name,
                                b->config->class_name);
}

/* Sets the type that a tensor is delivered in, and whether it has one of its own whatever is asked for. */
static bool projector_set_type(const hf_build *b, const void *user, hf_tensor *h, gq_error *e) {
    static const char *const follow_f16[] = {".patch_embd.weight", ".patch_merger.weight", NULL};
    static const char *const positions[] = {"v.position_embd.weight", "a.position_embd.weight"};
    model_tensor *t = &h->tensor;
    const arch_projector *row = user;
    const tensor_type *type = hf_tensor_moved_type(h);
    bool is_f32 = t->n_dims <= 1 || name_ends(t->name, "_norm.weight");
    (void)b, (void)e;
    t->kept_type = tensor_type_of(GGUF_F32);
    if (is_f32 || arch_names_match(row->is_f32, t->name)) {
        t->stays = true;
    } else if (arch_names_match(row->is_f16, t->name)) {
        t->stays = true, t->kept_type = tensor_type_of(GGUF_F16);
    } else if (arch_names_match(follow_f16, t->name) || arch_names_match(row->follows_f16, t->name)) {
        t->stays = t->stays_16 = true;
    } else {
        t->stays = !name_ends(t->name, ".weight");
        for (size_t i = 0; i < sizeof positions / sizeof *positions; i++)
            t->stays |= strcmp(t->name, positions[i]) == 0;
    }
    if (type && !t->stays && !type->quantized) t->type = type;
    return true;
}

static bool projector_finish(const hf_build *b, const arch_projector *row, gq_error *e) {
    if (!hf_build_complete(b, projector_set_type, row, e)) return false;
    return b->n > 0 ||
           projector_fail_other(
               e,
               "%s: no tensor belongs to the multimodal projector of %s: the folder has only the text model",
               b->config->file, b->config->class_name);
}

/* Drops the source tensors that do not belong to the projector from the list. */
static bool projector_keep(hf_list *l, const arch_projector *row, const hf_config *c, gq_error *e) {
    static const char *const buffers[] = {"position_ids", ".inv_freq", NULL};
    char last[128] = "";
    const char *const last_layer[] = {row->last_layer ? last : NULL, NULL};
    uint32_t layers = 0;
    size_t n = 0;
    if (row->last_layer && !hf_config_u32(c, "vision.num_hidden_layers", &layers, e)) return false;
    if (row->last_layer && layers < 2)
        return hf_config_fail(
            c, e, "%u layers of the vision encoder, expected at least 2, as the last is left out", layers);
    if (row->last_layer) snprintf(last, sizeof last, "%s%u.", row->last_layer, layers - 1);
    for (size_t i = 0; i < l->n; i++) {
        hf_stored *t = &l->stored[i];
        if (arch_names_match(row->takes, t->name) && !arch_names_match(row->folder.left_out, t->name) &&
            !arch_names_match(buffers, t->name) && !arch_names_match(last_layer, t->name))
            l->stored[n++] = *t;
        else
            free((char *)t->name);
    }
    l->n = n;
    return hf_list_index(l, e);
}

/* ---- the whole ---- */

static bool projector_sizes(hf_build *b, const hf_config *c, gq_error *e) {
    hf_sizes *s = &b->sizes;
    uint32_t channels, codes;
    *s = (hf_sizes){0};
    if (!hf_config_u32_or(c, "root.audio_config.audio_channels", 0, &channels, e) ||
        !hf_config_u32_or(c, "root.talker_config.num_code_groups", 0, &codes, e) ||
        !hf_config_u32_or(c, "vision.vt_num_attention_heads|vision.num_attention_heads|vision.num_heads", 0,
                          &s->heads, e) ||
        !hf_config_u32_or(c, "vision.vt_hidden_size|vision.hidden_size|vision.width", 0, &s->width, e))
        return false;
    b->n_experts = codes > 0 ? codes - 1 : channels; /* one of the groups is the text model's own */
    s->kv_heads = s->heads, s->head_width = s->heads ? s->width / s->heads : 0;
    return true;
}

/* Adds the tensors of the folder that the row names. */
static bool projector_add_beside(hf_list *l, const arch_projector *row, gq_error *e) {
    char file[NAME_BYTES], to[NAME_BYTES];
    if (!row->beside) return true;
    snprintf(file, sizeof file, "%s/model.safetensors", row->beside);
    snprintf(to, sizeof to, "%s.", row->beside);
    return hf_list_add_file(l, file, "", to, e);
}

static bool projector_make_tensors(hf_build *b, const arch_projector *row, gq_error *e) {
    for (size_t i = 0; i < b->n_sources; i++)
        if (!projector_add(b, &b->sources[i], e)) return false;
    return hf_build_finish(b, e) && projector_finish(b, row, e);
}

bool hf_projector_build(hf_build *b, const arch_projector *row, const hf_config *c, hf_list *l,
                        hf_metadata *metadata, hf_build_change *change, const void *user, gq_error *e) {
    *b = (hf_build){.config = c,
                    .list = l,
                    .n_tokens = UINT64_MAX,
                    .arch = c->like,
                    .projector = row,
                    .keeps_ones = true};
    if (l->is_mlx)
        return projector_fail_other(
            e,
            "%s: saved by MLX, which reorders the vision encoder's tensors: use the model's original folder",
            l->folder->path);
    return projector_add_beside(l, row, e) && projector_keep(l, row, c, e) && projector_sizes(b, c, e) &&
           hf_sources_find(c, l, &b->sources, &b->n_sources, e) && (!change || change(user, b, e)) &&
           projector_make_tensors(b, row, e) && hf_items_set(row->folder.metadata, c, metadata, e) &&
           hf_projector_check(b, row, metadata, e);
}
