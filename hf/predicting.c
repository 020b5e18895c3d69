/* Some models number their predicting blocks on from the main ones, others keep them under "mtp.": those
 * names are brought into the first form. A folder may announce blocks that it does not have; then there are
 * none.
 */
#include "hf/predicting.h"

#include <stdio.h>
#include <string.h>

#include "hf/names.h"

enum { PREDICTING_MOST = 64 };

typedef struct predicting_row {
    const char *arch, *class_name; /* class NULL: any */
    const char *key;               /* of the config: how many */
    uint32_t fixed;                /* without a key */
    bool counts;                   /* where the key is 0 or missing, the arrays say how many */
} predicting_row;

static const predicting_row rows[] = {
    {"qwen35", NULL, "mtp_num_hidden_layers", 0, true},
    {"qwen35moe", NULL, "mtp_num_hidden_layers", 0, true},
    {"qwen3next", NULL, "mtp_num_hidden_layers", 0, true},
    {"glm4moe", NULL, "num_nextn_predict_layers", 0, false},
    {"glm-dsa", NULL, "num_nextn_predict_layers", 0, false},
    {"deepseek32", NULL, "num_nextn_predict_layers", 0, false},
    {"deepseek2", "Glm4MoeLiteForCausalLM", "num_nextn_predict_layers", 0, false},
    {"bailingmoe2", NULL, "num_nextn_predict_layers", 0, false},
    {"exaone-moe", NULL, "num_nextn_predict_layers", 0, false},
    {"step35", NULL, "num_nextn_predict_layers", 0, false},
    {"nemotron_h_moe", NULL, "num_nextn_predict_layers", 0, false},
    {"mimo2", NULL, NULL, 3, false},
};

static const predicting_row *predicting_row_of(const hf_config *c) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].arch, c->arch) == 0 &&
            (!rows[i].class_name || strcmp(rows[i].class_name, c->class_name) == 0))
            return &rows[i];
    return NULL;
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
    return snprintf(copy, sizeof copy, "%s.layers.%llu.%s", family, (unsigned long long)layer, rest) <
               (int)sizeof copy &&
           snprintf(name, size, "%s", copy) < (int)size;
}

bool hf_predicting_rename(const hf_config *c, char *name, size_t size) {
    unsigned long long i = 0;
    bool nemotron = strncmp(c->arch, "nemotron_h", 10) == 0;
    const char *rest = predicting_row_of(c) || nemotron ? mtp_layer(name, &i) : NULL;
    if (!rest) {
        if (predicting_row_of(c) && name_behind(name, "model.mtp."))
            memmove(name, name + 6, strlen(name + 6) + 1);
        return !(c->predicting == 0 && predicting_row_of(c) && name_behind(name, "mtp."));
    }
    if (c->predicting == 0) return false;
    if (!nemotron) return name_write(name, size, "model", c->layers + i, rest);
    if (i == 1 && name_behind(rest, "norm."))
        return name_write(name, size, "backbone", c->layers, "post_attention_layernorm.weight");
    return name_write(name, size, "backbone", c->layers, rest);
}

/* Whether any array is of a layer from `first` on; *last: the largest number of an "mtp." layer, and one. */
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

bool hf_predicting_find(hf_config *c, const hf_list *l, gq_error *e) {
    const predicting_row *r = predicting_row_of(c);
    uint32_t n = r ? r->fixed : 0;
    uint64_t counted;
    c->predicting = 0;
    if (!r || (r->key && !hf_config_u32_or(c, r->key, 0, &n, e))) return !r;
    bool has = list_has_layer(l, c->layers, &counted);
    if (n == 0 && r->counts && counted <= PREDICTING_MOST) n = (uint32_t)counted;
    if (n > PREDICTING_MOST)
        return hf_config_fail(c, e, "%s is %u, expected at most %d", r->key, n, PREDICTING_MOST);
    if (n > 1 && strcmp(c->arch, "nemotron_h_moe") == 0)
        return hf_config_fail(c, e, "%s is %u, expected at most 1", r->key, n);
    c->predicting = has ? n : 0;
    return has || n == 0 || !r->key ||
           hf_folder_warn(l->folder, "", e,
                          "%s is %u, but no array belongs to such a block: the model is made without it",
                          r->key, n);
}
