#include "hf/folder/folder.h"

bool hf_target_refuse(const char *target, const char *path, gq_error *e) {
    return !target ||
           gq_fail_usage(e, "%s is not a draft model with its target's vocabulary: remove the target %s",
                         path, target);
}

/* A pickle may run anything when it is read, and so it is not. */
static bool draft_check_mask(const hf_config *c, gq_error *e) {
    static const char NAME[] = "mask_embedding.pt";
    if (!hf_folder_has(c->folder, NAME)) return true;
    return gq_fail(e,
                   "%s/%s is a pickle with the mask token's embedding, which gquant does not read: convert "
                   "the folder with llama.cpp's converter, and quantize the GGUF",
                   c->folder->path, NAME);
}

/* The vocabulary that is written has as many tokens as the draft model's config says. */
static bool target_set_tokens(hf_target *t, const hf_config *draft, gq_error *e) {
    const json_t *size = hf_config_get(draft, "vocab_size");
    t->tokens = t->config, t->tokens.is_lent = true;
    t->tokens.merged = json_copy(t->config.merged);
    if (!t->tokens.merged || (size && json_object_set(t->tokens.merged, "vocab_size", (json_t *)size) != 0))
        return gq_fail_memory(e, 0);
    return true;
}

bool hf_target_open(hf_target *t, const char *path, hf_config *draft, gq_error *e) {
    arch_target needs = draft->row->folder.target;
    if (!needs) return hf_target_refuse(path, draft->folder->path, e);
    if (!path)
        return gq_fail_remedy(e, GQ_REMEDY_TARGET_MODEL,
                              "%s: a %s is a draft model with its target's vocabulary: expected the target "
                              "model's folder as well",
                              draft->file, draft->class_name);
    if (!draft_check_mask(draft, e) || !hf_folder_open(&t->folder, path, e) ||
        !(needs == TARGET_WHOLE ? hf_config_read(&t->config, &t->folder, e)
                                : hf_config_read_like(&t->config, &t->folder, draft, e)))
        return false;
    if (needs == TARGET_WHOLE && t->config.row->folder.target)
        return hf_config_fail(&t->config, e, "%s is a draft model itself: expected the target model",
                              t->config.class_name);
    draft->target = &t->config;
    return target_set_tokens(t, draft, e);
}

void hf_target_close(hf_target *t) {
    json_decref(t->tokens.merged);
    hf_config_free(&t->config);
    hf_folder_close(&t->folder);
}

uint64_t hf_draft_tokens(const hf_config *c) {
    uint32_t n = 0;
    return hf_config_get(c, "draft_vocab_size") && hf_config_u32(c, "draft_vocab_size", &n, NULL) ? n : 0;
}

uint64_t hf_draft_hidden_states(const hf_config *c) {
    uint32_t width = 0;
    size_t layers = json_array_size(
        hf_config_get(c, "dflash_config.target_layer_ids|target_layer_ids|dspark_target_layer_ids|"
                         "aux_hidden_state_layer_ids"));
    const char *own = "target_hidden_size";
    if (c->row->folder.target == TARGET_WHOLE)
        return hf_config_u32(c, "hidden_size", &width, NULL) ? (uint64_t)layers * width : 0;
    if (hf_config_get(c, own)) return hf_config_u32(c, own, &width, NULL) ? 3ull * width : 0;
    return c->target && hf_config_u32(c->target, "hidden_size", &width, NULL) ? 3ull * width : 0;
}
