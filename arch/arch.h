/* Architectures, a row each. A row has everything that the other folders know about an architecture by its name. Rows
 * are data: they name sublayers, ops and kinds by members of the enums here, and the folders that read a row have their
 * code (hf/ folders, forward/graph/ layers, mixes/ types, quantize/plan what pruning cuts).
 *
 * An architecture that has no new sublayer is a row in one of the files of families, and golden data
 * (docs/internals/forward.md). A row must be complete: a tensor or key that it leaves out is absent.
 */
#pragma once

#include "arch/folder.h"
#include "arch/graph.h"

struct model_facts; /* gguf/facts.h */

/* Facts that the number of layers decides. */
typedef enum arch_by_number {
    BY_NUMBER_NOTHING,
    BY_NUMBER_SCORES,   /* the scale of queries */
    BY_NUMBER_ROPE,     /* positions are rope's */
    BY_NUMBER_ALIBI,    /* positions are linear biases' */
    BY_NUMBER_QK_NORMS, /* queries and keys have norms */
    BY_NUMBER_QUERIES,  /* queries are made of one matrix */
    BY_NUMBER_WINDOWS,  /* layers have a window */
    BY_NUMBER_SCALES,   /* each number has its own scale of layers */
} arch_by_number;

/* True for models with from `least` to `most` layers; most 0: each number is another one. */
typedef struct arch_numbered {
    arch_by_number what;
    uint64_t least, most;
    const char *unless; /* the key that says it as well, if there is one; else NULL */
} arch_numbered;

/* An architecture's flags for the rules of types (docs/internals/mixes.md). */
typedef struct arch_mix {
    int64_t big_blocks;  /* models with so many blocks have V in no less than 5 bits; 0: none */
    bool big_if_grouped; /* only those where several heads share a key and value head */
    bool is_falcon, is_bailing3;
    bool has_factors; /* llama.cpp multiplies by NAME.scale whatever the matrices of a layer give */
} arch_mix;

/* The change of a source tensor's order and shape. */
typedef enum arch_image_change {
    IMAGE_STAYS,
    IMAGE_HALVES,         /* its two halves change places: diffusers has scales before shifts */
    IMAGE_HALVES_OF_LAST, /* the same in the last block alone */
    IMAGE_FLAT,           /* its dimensions become one */
} arch_image_change;

/* Maps the name of a diffusers tensor to the name that readers of GGUF files use. */
typedef struct arch_image_rename {
    /* The beginning of the name, and its replacement; '#' is a number. "": any other name stays. */
    const char *from, *to;
    /* The source tensor is piece `part` of `parts` of that name, rows one behind the other; 0 of 0: all of
     * it. */
    uint8_t part, parts;
    arch_image_change change;
} arch_image_rename;

/* A release of an image model, known by the names of its source tensors. */
typedef struct arch_image_mark {
    const char *has[4]; /* all of these; none ends a list */
    /* Who uses these names, if readers of GGUF files use others; else NULL. */
    const char *instead;
    /* Renames of its tensors; a name without a row is unknown. Ends with a row whose `from` is NULL. NULL: all names
     * stay. */
    const arch_image_rename *renames;
    /* Layers of a weight and a bias that all its files have, by readers' names; after '?': all or none. NULL: none. */
    const char *const *needs;
} arch_image_mark;

/* A model of images or videos. Lists end with NULL. */
typedef struct arch_image {
    const char *const *keeps;     /* tensors that stay as they are (name_matches); NULL: no such model */
    const arch_image_mark *marks; /* NULL: files are not recognised */
    const char *const *stays;     /* source tensors that are F32: their name has one of these */
    const char *const *left_out;  /* the same: left out */
    bool folds;                   /* source tensors whose rows fit no block are stored as rows of 256 */
    bool last_differs;            /* the last block lacks what the others have */
    /* prefix that readers expect before all names of the model; NULL: nothing */
    const char *begins;
} arch_image;

typedef struct architecture {
    const char *name; /* general.architecture */
    /* The second row of a name: of models whose metadata say that they give embeddings (arch_of_facts). */
    bool of_embeddings;
    /* If the model cannot be run because it predicts no next token: its kind; else NULL. */
    const char *kind;
    bool
        is_projector; /* the multimodal projector for a model; llama.cpp does not read how many blocks it has */
    /* Layers behind the blocks that have no tensors, and that block_count leaves out: configs of folders count them,
     * and so do llama.cpp's rules of types. */
    uint32_t bare_layers;
    arch_folder folder;
    arch_graph graph; /* no mixer: it cannot be run */
    arch_mix mix;
    arch_image image;
    arch_numbered by_number[2];
} architecture;

/* The row of this name; NULL: there is none. Rows are static. */
const architecture *arch_named(const char *name);
const architecture *arch_at(size_t i); /* row i; NULL behind the last */

/* The type in which llama.cpp reads a key. */
typedef enum arch_key_type {
    ARCH_KEY_UNKNOWN,
    ARCH_KEY_INTEGER,
    ARCH_KEY_FLOAT,
    ARCH_KEY_BOOL,
    ARCH_KEY_TEXT,
    ARCH_KEY_NUMBER, /* of any size, with or without a fraction */
    ARCH_KEY_LIST,   /* of anything */
    ARCH_KEY_INTEGERS,
    ARCH_KEY_FLOATS,
    ARCH_KEY_TEXTS
} arch_key_type;

/* Which lists a key may have for its one value. */
typedef enum arch_key_list { LIST_ANY, LIST_OF_LAYERS, LIST_NONE } arch_key_list;

/* How llama.cpp reads a key, and its bounds. */
typedef struct arch_key {
    const char *name; /* behind "ARCH."; NULL ends the table */
    arch_key_type type;
    arch_key_list list;
    double least, most; /* both 0: any */
} arch_key;

/* Keys that several architectures have, or that no list of theirs makes by itself. */
extern const arch_key arch_keys[];
/* By arch_keys, and by the lists that make the metadata of the architecture that the key begins with. */
arch_key arch_key_of(const char *key);
/* Whether the lists that make the metadata of an architecture have a key, which configs may lack. */
bool arch_makes_key(const architecture *a, const char *name);
/* Published files of gemma3n have its number of layers that share keys as a float; readers take a fixed one. */
bool arch_key_is_ignored(const architecture *a, const char *name);
const char *arch_key_type_name(arch_key_type type); /* for messages; "" for a type that is not known */
/* Whether it is the type of one value, which keys of an architecture may have for each layer. */
static inline bool arch_key_is_single(arch_key_type type) {
    return type != ARCH_KEY_UNKNOWN && type < ARCH_KEY_LIST;
}
/* Whether a key's value, one or a list of `stored`, is read. */
bool arch_key_type_is(arch_key_type type, bool is_list, uint32_t stored);
/* The row of a model: of two of its name that of embeddings, where a key says how states are pooled, how long an
 * embedding is, or that tokens see those behind them. */
const architecture *arch_of_facts(const struct model_facts *facts);

static inline bool arch_can_run(const architecture *a) {
    return a && a->graph.mixers[0] != SUBLAYER_NONE && !a->kind;
}
/* Whether layers of an architecture may have a sublayer. */
bool arch_has_sublayer(const architecture *a, arch_sublayer sublayer);
/* Whether the layers that choose are known by their number, with INDEXER_BY_TYPE and no list; then whether one does:
 * models for a million tokens choose in few layers. */
static inline bool arch_chooses_by_number(const architecture *a, uint64_t context_length) {
    return a->graph.indexer == INDEXER_BY_TYPE && context_length >= 1 << 20;
}
static inline bool arch_layer_chooses(uint64_t layer) { return layer < 3 || layer % 4 == 2; }
/* Whether a number of layers decides it so. */
bool arch_is_by_number(const architecture *a, arch_by_number what, uint64_t layers);
