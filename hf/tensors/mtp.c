/* MTP layers (multi-token prediction): some models number them on from the main layers, others keep them under "mtp.":
 * those names are brought into the first form. A folder may announce layers that it does not have; then there are none.
 */
#include "hf/tensors/tensors.h"

#include <stdio.h>
#include <string.h>

enum { MTP_MOST = 64 };

/* The key of the config that says how many there are; NULL: none does. */
static const char *mtp_key(const hf_config *c) {
    return c->class_row->mtp_key ? c->class_row->mtp_key : c->row->folder.mtp.key;
}

static bool model_has_mtp(const hf_config *c) {
    if (c->class_row->drops_mtp) return false;
    return mtp_key(c) || c->row->folder.mtp.fixed;
}

/* Returns what follows "mtp.layers.I." and sets I; NULL: the name is no such name. */
static const char *mtp_layer(const char *name, unsigned long long *i) {
    int n = 0;
    const char *rest = name_behind(name, "model.mtp.");
    if (!rest) rest = name_behind(name, "mtp.");
    return rest && sscanf(rest, "layers.%9llu.%n", i, &n) == 1 && n > 0 ? rest + n : NULL;
}

static bool name_write(char *name, size_t size, const char *family, uint64_t layer, const char *rest) {
    char copy[512];
    return snprintf(copy, sizeof copy, "%s.layers.%llu.%s", family, LLU(layer), rest) < (int)sizeof copy &&
           snprintf(name, size, "%s", copy) < (int)size;
}

bool hf_mtp_rename(const hf_config *c, char *name, size_t size) {
    unsigned long long i = 0;
    if (c->class_row->drops_mtp && (name_behind(name, "mtp.") || name_behind(name, "model.mtp.")))
        return false;
    bool is_one = c->row->folder.mtp.is_one, predicts = model_has_mtp(c);
    const char *rest = predicts || is_one ? mtp_layer(name, &i) : NULL;
    if (!rest) {
        if (predicts && name_behind(name, "model.mtp.")) memmove(name, name + 6, strlen(name + 6) + 1);
        return !(c->mtp == 0 && predicts && name_behind(name, "mtp."));
    }
    if (c->mtp == 0) return false;
    if (!is_one) return name_write(name, size, "model", c->layers + i, rest);
    if (i == 1 && name_behind(rest, "norm."))
        return name_write(name, size, "backbone", c->layers, "post_attention_layernorm.weight");
    return name_write(name, size, "backbone", c->layers, rest);
}

/* Whether any source tensor is of a layer from `first` on; *last: the largest number of an "mtp." layer, and one. */
static bool list_has_layer(const hf_list *l, uint64_t first, uint64_t *last) {
    bool has = false;
    *last = 0;
    for (size_t i = 0; i < l->n; i++) {
        unsigned long long n;
        const char *at = strstr(l->stored[i].name, "layers.");
        if (mtp_layer(l->stored[i].name, &n)) {
            has = true;
            if (n + 1 > *last) *last = n + 1;
        } else if (at && sscanf(at, "layers.%9llu.", &n) == 1) {
            has |= n >= first;
        }
    }
    return has;
}

/* The config of such a draft model is its target's: its own layers are those that there are source tensors of. */
static bool stages_count(hf_config *c, const hf_list *l, gq_error *e) {
    unsigned long long n;
    c->layers = 0;
    for (size_t i = 0; i < l->n; i++)
        if (sscanf(l->stored[i].name, "mtp.%9llu.", &n) == 1 && n >= c->layers) c->layers = n + 1;
    return (c->layers > 0 && c->layers <= MTP_MOST) ||
           hf_config_fail(c, e,
                          "%s: expected 1 to %d layers, but the numbers of tensors under 'mtp.' give %llu",
                          c->class_name, MTP_MOST, LLU(c->layers));
}

bool hf_mtp_find(hf_config *c, const hf_list *l, gq_error *e) {
    const arch_mtp *r = &c->row->folder.mtp;
    const char *key = mtp_key(c);
    uint32_t n = r->fixed;
    uint64_t counted;
    c->mtp = 0;
    if (c->class_row->has_stages) return stages_count(c, l, e);
    if (!model_has_mtp(c)) return true;
    if (key && !hf_config_u32_or(c, key, 0, &n, e)) return false;
    bool has = list_has_layer(l, c->layers, &counted);
    if (n == 0 && r->counts && counted <= MTP_MOST) n = (uint32_t)counted;
    if (n > MTP_MOST) return hf_config_fail(c, e, "%s is %u, expected at most %d", key, n, MTP_MOST);
    if (r->most && n > r->most) return hf_config_fail(c, e, "%s is %u, expected at most %u", key, n, r->most);
    c->mtp = has ? n : 0;
    return has || n == 0 || !key ||
           hf_folder_warn(
               l->folder, "", e,
               "%s is %u, but no tensor belongs to an MTP layer: the GGUF is made without MTP layers", key,
               n);
}
