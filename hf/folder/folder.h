/* The files of a folder, looked up and bounded; config.json and its values by any of their names; metadata under
 * construction. */
#pragma once

#include <jansson.h>

#include "arch/arch.h"
#include "base/checked.h"
#include "base/name_index.h"
#include "gguf/model.h"

/* ---- json.c: JSON from files that nobody vouches for, read by jansson within bounds. ---- */

enum {
    HF_JSON_DEPTH = 64,         /* brackets inside brackets */
    HF_JSON_VALUES = 1 << 24,   /* values in a text: some 100 bytes of memory each */
    HF_JSON_ONE_VALUE = 1 << 0, /* flag: a key that is there twice is an error; else the last value counts */
};

/* Parses n bytes, which must be an object. `name` is the file for messages. NaN, Infinity, -Infinity and
 * integers of more than 64 bits, which Python writes, become empty strings, so that only their use as a number
 * is an error. The caller releases the value with json_decref. NULL: *e says why, with line and column. */
json_t *hf_json_parse(const char *name, const char *text, size_t n, unsigned flags, gq_error *e);
/* Makes one string, "left right", of each pair ["left", "right"] in lists under a key, in the text itself;
 * pairs with an empty half or a space in one stay. Whether the text is JSON at all does not change. */
void hf_json_join_pairs(char *text, size_t n, const char *key);
/* Returns a string's text; NULL: the value is no string, or one with a NUL byte in it. */
const char *hf_json_text(const json_t *v);
/* Whether a value is this text. */
bool hf_json_is(const json_t *v, const char *text);
/* Whether an expression fits the beginning of a module's name. It comes from a file that nobody vouches for: a match
 * has a limit of steps and memory. `pattern` is the expression for messages. */
bool hf_expression_fits(const char *pattern, const char *expression, const char *module, bool *fits,
                        gq_error *e);

/* ---- folder.c: the files of a model's folder but the weights: looked up by name, read whole, bounded. ---- */

enum { HF_WARNINGS_MOST = 20 };
enum {
    HF_TEXT_MOST = 256 << 20
}; /* bytes of the largest file that is read whole; tokenizer.json has up to 40 MB */

/* A file as it was when it was read: for the model's identity. */
typedef struct hf_file {
    char *name;       /* inside the folder */
    gq_file file;     /* open: weights; else only its name, size, times and number are known */
    uint32_t content; /* checksum of a text that was read whole; 0 for weights */
} hf_file;

typedef struct hf_folder {
    char *path; /* as given, without a slash at its end */
    hf_file *files;
    size_t n_files, capacity;
    warning_list warnings;
} hf_folder;

bool hf_folder_open(hf_folder *f, const char *path, gq_error *e);
void hf_folder_close(hf_folder *f);
/* Returns the path of a file of this name, malloc'ed; whether it is there is not looked at. */
char *hf_folder_path(const hf_folder *f, const char *name, gq_error *e);
/* Whether the folder has such an entry. */
bool hf_folder_has(const hf_folder *f, const char *name);
/* Warns of something in a file that the model can do without; the file's path goes in front, or with "" the
 * folder's. After HF_WARNINGS_MOST warnings one more says that there are more, and the rest is left out. */
bool hf_folder_warn(hf_folder *f, const char *name, gq_error *e, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Warns by what has failed, an error whose text names the file. */
bool hf_folder_warn_failed(hf_folder *f, const gq_error *why, gq_error *e);
/* Reads a whole file into *text, which the caller frees; a NUL byte follows the n bytes. *text NULL: there is no
 * such file. Symbolic links are followed; what is no regular file is an error, and so is a Git LFS pointer. */
bool hf_folder_text(hf_folder *f, const char *name, char **text, size_t *n, gq_error *e);
/* The same, parsed: *json NULL if there is no such file. */
bool hf_folder_json(hf_folder *f, const char *name, json_t **json, gq_error *e);
/* Adds the names of the files that were read, and checksums of the texts among them, to a checksum. */
void hf_folder_fold(const hf_folder *f, uint32_t *content);
/* Opens a file of weights, which stays open; *number is its number in the list. */
bool hf_folder_weights(hf_folder *f, const char *name, uint32_t *number, gq_error *e);
/* Sorted names of the folder's entries that begin and end so; *names and its strings are freed by
 * hf_names_free. */
bool hf_folder_list(const hf_folder *f, const char *begin, const char *end, char ***names, size_t *n,
                    gq_error *e);
void hf_names_free(char **names, size_t n);
void hf_names_sort(char **names, size_t n); /* by bytes */

/* ---- config.c: config.json: which architecture, and its numbers by any of the names that models give them. ---- */

typedef struct hf_config {
    hf_folder *folder;
    char *file;      /* path of config.json, for messages */
    json_t *stored;  /* the object as the file has it */
    json_t *modules; /* an encoder's modules.json, an array; NULL: there is none (hf/metadata/modules.c) */
    json_t *merged;  /* text_config's values over the root's */
    json_t *rope; /* the rotation's parameters as the models' several spellings mean them: rope_parameters, or
                   * rope_scaling, completed from the root */
    const char *class_name;      /* architectures[0] that decides; owned by the objects */
    const char *arch;            /* general.architecture */
    const architecture *row;     /* of arch */
    const arch_class *class_row; /* of class_name, in this row */
    /* the row whose metadata and rules the folder has: its own, or another one's */
    const arch_folder *like;
    uint64_t layers;                /* main blocks */
    uint64_t mtp;                   /* MTP layers (multi-token prediction) behind them */
    const struct hf_config *target; /* of a draft model: the model that it drafts for; else NULL */
    bool is_lent;                   /* a target's, for the tokenizer of a draft model */
} hf_config;

static inline uint64_t hf_config_blocks(const hf_config *c) { return c->layers + c->mtp; }

/* Values of `merged`. `names`: one name, or several with '|' between them, of which the first that is a key
 * counts, even if its value is null. NULL: no such key, or null. A name may go into objects:
 * "attn_config.kv_n_heads". */
const json_t *hf_config_find(const hf_config *c, const char *names); /* the same, but null is a value */
const json_t *hf_config_get(const hf_config *c, const char *names);
enum { HF_CONFIG_NAME = 128 };
/* Returns the first of the names that the config has, for messages; all of them where it has none. */
const char *hf_config_name(const hf_config *c, const char *names, char room[HF_CONFIG_NAME]);
bool hf_config_has(const hf_config *c, const char *names); /* the key is there; null counts, too */
/* Each reads a value of its kind. False: it is not there, or of another kind, and *e names key, file and what
 * was found. An integer is a JSON integer from 0 to 2^32 - 1; a float any number that a 32-bit float can
 * hold. */
bool hf_config_u32(const hf_config *c, const char *names, uint32_t *value, gq_error *e);
bool hf_config_float(const hf_config *c, const char *names, double *value, gq_error *e);
bool hf_config_bool(const hf_config *c, const char *names, bool *value, gq_error *e);
/* The same where the value may be missing, or null: then it is the default. */
bool hf_config_u32_or(const hf_config *c, const char *names, uint32_t missing, uint32_t *value, gq_error *e);
bool hf_config_float_or(const hf_config *c, const char *names, double missing, double *value, gq_error *e);
bool hf_config_bool_or(const hf_config *c, const char *names, bool missing, bool *value, gq_error *e);
/* Returns the text of a key; NULL: it is not there, or no text. */
const char *hf_config_text(const hf_config *c, const char *names);
/* Reads a value that is no member of `merged` itself; `what` names it in the message. */
bool hf_value_u32(const hf_config *c, const json_t *v, const char *what, uint32_t *value, gq_error *e);
bool hf_value_float(const hf_config *c, const json_t *v, const char *what, double *value, gq_error *e);
/* Fails with a sentence about config.json: its path goes in front. */
#define hf_config_fail(c, e, format, ...) gq_fail(e, "%s: " format, (c)->file, ##__VA_ARGS__)

/* ---- sizes that several rules need ---- */

typedef struct hf_sizes {
    uint32_t width; /* hidden_size */
    uint32_t heads, kv_heads;
    uint32_t head_width; /* head_dim, or width / heads */
} hf_sizes;
/* Sizes that a model has no use for may be missing: 0. */
bool hf_config_sizes(const hf_config *c, hf_sizes *s, gq_error *e);

/* ---- architectures.c: from a folder's class name to an architecture. ---- */

/* Sets c->class_name, which must be a known one. */
bool hf_architecture_find_class(hf_config *c, gq_error *e);
/* Sets c->arch, by the class and the config's values; the layers are counted before. */
bool hf_architecture_decide(hf_config *c, gq_error *e);

/* Whether a layer of Granite's hybrid models has attention; others are recurrent. */
bool hf_granite_has_attention(const hf_config *c, uint64_t layer);

/* bailingmoe3: whether a layer has full attention, not a linear one; MTP layers have. */
bool hf_bailing3_is_full(const hf_config *c, uint64_t layer);

/* Returns how many heads of keys a layer of DeciLM's has, of a model with `heads` and, where no layer has its own
 * number, `kv_heads`; 0: it has no attention, or the config has no such number. */
uint64_t hf_deci_kv_heads(const hf_config *c, uint64_t heads, uint64_t kv_heads, uint64_t layer);

/* Returns what a classifier's outputs are called, an object by their numbers; NULL: the config does not say, or only
 * what transformers makes up for two. */
const json_t *hf_classifier_labels(const hf_config *c);

enum { GRANITE_MOST = 256 };

/* One of two kinds: of a layer each, or of places in the image. They are counted in the order of the text model's
 * layers that they go to. */
typedef struct granite_projector {
    json_int_t vision_layer, text_layer;
    bool is_spatial;
    uint32_t number; /* among those of its kind */
} granite_projector;

/* Granite's projectors: which layers of the vision encoder they read, and which of the text model they go to. Reads
 * deepstack_layer_map and spatial_target_layers; *n: how many there are. */
bool granite_projectors(const hf_config *c, granite_projector list[GRANITE_MOST], size_t *n, gq_error *e);

/* ---- config_read.c: config.json of a folder, read and brought into the form that the rules look at. ---- */

/* Reads the file, and lays the text model's values over the root's; nothing is decided yet. */
bool hf_config_open(hf_config *c, hf_folder *f, gq_error *e);
bool hf_config_read(hf_config *c, hf_folder *f, gq_error *e);
/* The same for any class of models: its row is another config's. */
bool hf_config_read_like(hf_config *c, hf_folder *f, const hf_config *like, gq_error *e);
void hf_config_free(hf_config *c);
/* Returns rope's full_attention, where that is there, else rope itself. */
const json_t *hf_config_rope_full(const hf_config *c);

/* ---- config_saved.c ----
 * Configs as transformers 5 saves them: other names and words than those of the models as they were published. */

/* Completes c->merged with the keys and words that were in use before, which the rules look for. Values that are there
 * under both names stay. */
bool hf_config_restore(hf_config *c, gq_error *e);

/* ---- draft.c: draft models, and the folder of the model that a draft model drafts for: its target. ---- */

typedef struct hf_target {
    hf_folder folder;
    hf_config config;
    hf_config tokens; /* the same, for the tokenizer: its vocab_size is the draft model's */
} hf_target;

/* Opens the target of a draft model, `path`, and sets draft->target; NULL: none is named. A model that needs
 * none must have none. hf_target_close has to be called on failure, too. */
bool hf_target_open(hf_target *t, const char *path, hf_config *draft, gq_error *e);
void hf_target_close(hf_target *t);
/* Fails where a target is named for what is no draft model's folder. */
bool hf_target_refuse(const char *target, const char *path, gq_error *e);

/* Returns how many tokens a draft model can choose from, where it says so; else 0. */
uint64_t hf_draft_tokens(const hf_config *c);
/* Returns how many numbers of the target's hidden states a draft model takes in at each token; 0: it is not known. */
uint64_t hf_draft_hidden_states(const hf_config *c);

/* ---- kv.c: metadata under construction, in the order in which keys were first set. ---- */

typedef struct hf_metadata {
    const char *prefix; /* for keys that begin with '.': the architecture */
    model_kv *kv;       /* key and value are malloc'ed */
    size_t n, capacity;
    uint8_t *open; /* the array that is being made */
    size_t open_bytes, open_capacity;
    uint64_t open_count;
} hf_metadata;

/* Each sets a key; a key that already exists gets the new value. A key that begins with '.' gets the prefix in
 * front. */
bool hf_metadata_u32(hf_metadata *p, const char *key, uint32_t value, gq_error *e);
bool hf_metadata_i32(hf_metadata *p, const char *key, int32_t value, gq_error *e);
bool hf_metadata_f32(hf_metadata *p, const char *key, float value, gq_error *e);
bool hf_metadata_bool(hf_metadata *p, const char *key, bool value, gq_error *e);
bool hf_metadata_string(hf_metadata *p, const char *key, const char *text, size_t n, gq_error *e);
bool hf_metadata_text(hf_metadata *p, const char *key, const char *text, gq_error *e); /* NUL-terminated */
/* An array: its elements are added one by one, raw (numbers, little-endian; a bool is a byte) or as strings;
 * then the key is set. An array without elements sets nothing. */
bool hf_metadata_add(hf_metadata *p, const void *element, size_t size, gq_error *e);
bool hf_metadata_add_i32(hf_metadata *p, int32_t value, gq_error *e);
bool hf_metadata_add_f32(hf_metadata *p, float value, gq_error *e);
bool hf_metadata_add_bool(hf_metadata *p, bool value, gq_error *e);
bool hf_metadata_add_string(hf_metadata *p, const char *text, size_t n, gq_error *e);
bool hf_metadata_array(hf_metadata *p, const char *key, uint32_t element_type, gq_error *e);
/* NULL: no such pair. */
const model_kv *hf_metadata_find(const hf_metadata *p, const char *key);
/* 0: it is no u32, or there is no such pair; or key is NULL. */
uint32_t hf_metadata_number(const hf_metadata *p, const char *key);
void hf_metadata_remove(hf_metadata *p, const char *key);
void hf_metadata_free(hf_metadata *p);
