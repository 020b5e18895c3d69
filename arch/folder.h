/* An architecture's folders from Hugging Face: their classes, the metadata that their configs become, the tensors
 * that their source tensors become, their tokenizer's files. Read by hf/. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct arch_item;   /* arch/kv.h */
struct arch_rule;   /* arch/rules.h */
struct arch_rename; /* the same */

/* ---- tokenizers ---- */

/* The file that a vocabulary is read from. */
typedef enum arch_file {
    FILE_UNSET,   /* ends a list */
    FILE_MODEL,   /* tokenizer.model */
    FILE_PIECES,  /* tokenizer.json that holds a SentencePiece model */
    FILE_BYTES,   /* tokenizer.json with byte-level BPE merges */
    FILE_GEMMA4,  /* tokenizer.json with merges of characters */
    FILE_LINES,   /* tokenizer.jsonl of PLaMo, one token a line */
    FILE_UNIGRAM, /* sentencepiece.bpe.model of XLM-RoBERTa */
    FILE_SCORES,  /* tokenizer.json with a unigram model */
    FILE_SPIECE,  /* spiece.model or tokenizer.model of T5, a unigram model */
    FILE_WORDS,   /* tokenizer.json with WordPiece */
    FILE_WORLD,   /* rwkv_vocab_v20230424.txt, one token a line */
    FILE_RANKS,   /* qwen.tiktoken, the bytes of one token a line */
    FILE_NONE,    /* the model has no vocabulary */
} arch_file;
enum { ARCH_FILES = 4 }; /* the longest list, and its end */

/* Exceptions. */
enum {
    TOKENS_LLAMA = 1 << 0,        /* add_prefix_space counts; two sizes of a vocabulary that mean something */
    TOKENS_SPACE_IS_SET = 1 << 1, /* add_prefix_space counts with tokenizer.model */
    TOKENS_MODEL_NO_SPACE = 1 << 2,   /* no space in front with tokenizer.model */
    TOKENS_PIECES_NO_SPACE = 1 << 3,  /* the same without it */
    TOKENS_PHI3 = 1 << 4,             /* the tokenizer's class decides between the files */
    TOKENS_INTERNLM2 = 1 << 5,        /* the added tokens' rules; the end of a turn ends the text */
    TOKENS_INTERNLM3 = 1 << 6,        /* the end of a turn ends the text */
    TOKENS_GEMMA = 1 << 7,            /* the end of a turn has a fixed number */
    TOKENS_GEMMA4 = 1 << 8,           /* no space in front, BOS always */
    TOKENS_GLM4 = 1 << 9,             /* special tokens by their texts */
    TOKENS_GLM_MOE = 1 << 10,         /* the same, others */
    TOKENS_HUNYUAN = 1 << 11,         /* ends of texts and turns from the configs */
    TOKENS_NEMOTRON = 1 << 12,        /* fixed numbers */
    TOKENS_MPT = 1 << 13,             /* fixed numbers with tokenizer.model */
    TOKENS_OMNI = 1 << 14,            /* the end of a turn begins and ends texts */
    TOKENS_BOS_ALWAYS = 1 << 15,      /* whatever the files say */
    TOKENS_BOS_NEVER = 1 << 16,       /* the same */
    TOKENS_BOS_IS_CHECKED = 1 << 17,  /* the files must say so */
    TOKENS_MULTIPLE_IS_SET = 1 << 18, /* the config may have another pad_vocab_size_multiple */
    TOKENS_SUPPRESSED = 1 << 19,      /* generation_config.json has tokens that are never generated */
    TOKENS_LAGUNA = 1 << 20,          /* </assistant> is special; the first other end of texts ends turns */
    TOKENS_ARCTIC = 1 << 21,          /* the files say which added tokens are special */
    TOKENS_CHATGLM = 1 << 22,         /* special tokens by their texts */
    TOKENS_SOLAR = 1 << 23,           /* the same */
    TOKENS_MUSE = 1 << 24,            /* the end of a turn by its text */
    TOKENS_NO_TEMPLATE = 1 << 25,     /* the template is left out */
    TOKENS_ENDS_ALWAYS = 1 << 26, /* texts begin and end with special tokens, where no file says otherwise */
    TOKENS_BOS_IF_SET = 1 << 28,  /* nothing in front of texts, where no file says otherwise */
    TOKENS_KINDS = 1 << 27,       /* the number of kinds of tokens is written */
    TOKENS_DOTS = 1 << 29,        /* the end of a turn by its text */
};

typedef struct arch_tokenizer {
    arch_file files[ARCH_FILES]; /* in the order of preference; none: FILE_BYTES */
    uint32_t multiple;           /* the number of tokens is rounded up to a multiple of this; 0: 1 */
    uint32_t exceptions;
    const char
        *chat; /* the name that llama.cpp has for the chat template of folders without one; NULL: none */
} arch_tokenizer;

/* ---- classes ---- */

/* Adds tensors that no source tensor has (hf/tensors/computed.c). */
#define ARCH_FINISHES(F) \
    F(FINISH_ROPE, hf_finish_rope)                 /* rope_freqs, where the rotation's type is llama3 */ \
    F(FINISH_ROPE_16, hf_finish_rope_16)           /* the same; without a factor it is 16, not 8 */ \
    F(FINISH_ROPE_EVEN, hf_finish_rope_even)       /* the same, for heads of width / heads */ \
    F(FINISH_ROPE_PARTIAL, hf_finish_rope_partial) /* the same, where layers rotate parts of a head */ \
    F(FINISH_FACTORS, hf_finish_factors) /* rope_factors_long and _short, where the config has them */ \
    F(FINISH_FACTORS_WHOLE, hf_finish_factors_whole)   /* the same, for whole heads */ \
    F(FINISH_FACTORS_LATENT, hf_finish_factors_latent) /* the same, for qk_rope_head_dim */ \
    F(FINISH_PROPORTIONAL, hf_finish_proportional)     /* gemma 4's rope_freqs */ \
    F(FINISH_RESIDUALS, hf_finish_residuals)           /* kimi-k3: products of a norm and a projection */ \
    F(FINISH_KINDS, hf_finish_kinds)                   /* warns of encoders without kinds of tokens */ \
    F(FINISH_JUDGE, hf_finish_judge)                   /* the same, and of the matrix before a classifier */ \
    F(FINISH_TASKS, hf_finish_tasks)                   /* warns of adapters that are left out */ \
    F(FINISH_QUERY_SCALE, hf_finish_query_scale)       /* muse-glimmer: norms of queries and keys */ \
    F(FINISH_SINUSOIDS, hf_finish_sinusoids)           /* positions of sounds: sines and cosines */ \
    F(FINISH_DRAFT_GEMMA4, \
      hf_finish_draft_gemma4) /* the same as for gemma 4, unless all of a head is rotated */

#define ARCH_FINISH_MEMBER(member, function) member,
typedef enum arch_finish { FINISH_NOTHING, ARCH_FINISHES(ARCH_FINISH_MEMBER) ARCH_FINISH_LIMIT } arch_finish;
#undef ARCH_FINISH_MEMBER

/* The condition on a config, in addition to the name of the class. */
typedef enum arch_when {
    WHEN_ALWAYS,
    WHEN_MODEL_TYPE, /* model_type is `text` */
    WHEN_KEY,        /* there is a key `text` */
    WHEN_RECURRENT,  /* a layer of Granite's has no attention */
    WHEN_USED,       /* the key `text` is a number other than 0 */
    WHEN_NO_DRAFT,   /* the folder is no draft model of one layer */
    WHEN_DRAFT,      /* the folder is a draft model of one layer, with a vocabulary of its own */
} arch_when;

/* An entry of a config's "architectures". A class may be in several rows: a row whose condition holds goes before one
 * without a condition, and an earlier one before a later. */
typedef struct arch_class {
    const char *name; /* NULL ends a list */
    arch_when when;
    const char *text;
    const char *like;         /* the architecture whose metadata and rules its folders have; NULL: this one */
    bool is_root;             /* the root's class decides, whatever text_config says of itself */
    bool rotates;             /* RoPE rotates, though there are recurrent layers */
    const char *mtp_key;      /* in place of the row's */
    arch_tokenizer tokenizer; /* in place of the row's; no files: the row's */
    const struct arch_item *metadata; /* the same; NULL: the row's */
    const struct arch_rule *rules;    /* before the row's */
    const char *const *left_out;      /* besides the row's */
    arch_finish finish;               /* in place of the row's */
    bool drops_mtp;                   /* blocks under "mtp." are left out */
    bool is_trunk;                    /* transformers' class without a head */
    const struct arch_shape *shapes;  /* in place of the row's */
    bool has_stages; /* its layers are those under "mtp.", whatever the config says of its target's */
} arch_class;
/* The member `classes` of a folder. */
#define CLASSES(...) \
    .classes = (const arch_class[]) { \
        __VA_ARGS__, { .name = NULL } \
    }
/* An entry: its name, then other members. */
#define CLASS(n, ...) \
    { .name = (n), __VA_ARGS__ }

/* A class that is known and not read: why, and what to do. The last one's name is NULL. */
typedef struct arch_refusal {
    const char *name, *why;
} arch_refusal;
extern const arch_refusal arch_refused[];

/* ---- draft models ---- */

/* The files that a draft model's folder needs from the folder of its target model. */
typedef enum arch_target {
    TARGET_NONE,
    TARGET_FILES, /* its tokenizer's files, which the draft model's row reads */
    TARGET_WHOLE, /* its tokenizer, as the target's own class has it */
} arch_target;

/* When a tensor has to be there. */
typedef enum arch_presence {
    SHAPE_NEEDED,
    SHAPE_WARNED,      /* a warning without it */
    SHAPE_ALL_OR_NONE, /* in all layers or in none */
} arch_presence;

/* Sizes that one key of the config gives. */
#define ARCH_DIMS_OF_KEYS(M) \
    M(DIM_TARGET_WIDTH, "backbone_hidden_size") /* of the target's hidden states */ \
    M(DIM_QUERY_RANK, "q_lora_rank")            /* low rank of queries */ \
    M(DIM_FEED_FORWARD, "intermediate_size") \
    M(DIM_EXPERTS, "n_routed_experts") \
    M(DIM_EXPERT_WIDTH, "moe_intermediate_size") \
    M(DIM_STREAMS, "hc_mult")                            /* hyper-connections: residual streams */ \
    M(DIM_MARKOV_RANK, "markov_rank")                    /* DSpark's head */ \
    M(DIM_SELECTOR_RANK, "dflash_config.selector_rank")  /* DFlash's selector */ \
    M(DIM_CONV_LENGTH, "dflash_config.conv_kernel_size") /* DFlash's convolutions: kernel length */ \
    M(DIM_POSNET_WIDTH, "posnet.n_embd")                 /* an audio decoder's hidden states */ \
    M(DIM_CONVNEXT_INNER, "n_ff")
#define ARCH_DIM_MEMBER(member, key) member,

/* The size of one dimension of a tensor, which the config gives (hf/tensors/checks.c). A size that a config does not
 * give is not checked. */
typedef enum arch_dim {
    DIM_NONE, /* the tensor has no such dimension: 1 */
    DIM_ANY,
    DIM_1,
    DIM_2,
    DIM_3,
    DIM_WIDTH, /* of hidden states */
    DIM_TWO_WIDTHS,
    DIM_TWO_TARGET_WIDTHS,
    DIM_TARGET_HIDDEN_STATES, /* all of the target's hidden states that a draft model reads for one token */
    DIM_TOKENS,
    DIM_DRAFT_TOKENS, /* of a draft model with a smaller vocabulary */
    DIM_HEADS,
    DIM_HEAD_WIDTH,
    DIM_QUERIES,     /* all query heads */
    DIM_KEYS,        /* all key heads */
    DIM_GROUP_WIDTH, /* columns of the output matrix that each group of heads has */
    DIM_GROUPS_RANK, /* rows of all groups' matrices */
    DIM_SHARED_EXPERT_WIDTH,
    DIM_ALL_STREAMS, /* their widths together */
    DIM_STREAM_MIX,  /* weights that mix them */
    DIM_CONV_ROWS,   /* rows of the projection that makes their kernels */
    DIM_OUTPUTS,     /* output_size, else the elements of the output's bias */
    ARCH_DIMS_OF_KEYS(ARCH_DIM_MEMBER)
} arch_dim;
#undef ARCH_DIM_MEMBER
/* The member `shape`: a size for each dimension, the row length first. */
#define DIMS(...) \
    { __VA_ARGS__ }
enum { ARCH_DIMS = 4 }; /* GGUF_MAX_DIMS */

/* A tensor that such folders have. Shapes are checked for models that cannot be run; those that can are checked by
 * their graph. Each condition that is set must hold for the row to count. */
typedef struct arch_shape {
    const char *tensor; /* '#': of every layer; NULL ends a list */
    arch_dim shape[ARCH_DIMS];
    arch_presence when;
    const char *with;     /* this tensor is there */
    const char *if_true;  /* this key of the config is true */
    const char *if_fewer; /* this key of the config is less than vocab_size */
} arch_shape;

/* ---- what is particular ---- */

/* Metadata that tensors decide (hf/metadata/metadata.c). */
typedef enum arch_tensor_metadata {
    TENSOR_METADATA_NONE,
    TENSOR_METADATA_XIELU,        /* four numbers of each layer's activation */
    TENSOR_METADATA_SHARED_WIDTH, /* how wide the shared experts are */
    TENSOR_METADATA_ALIBI,        /* jais: the largest bias, from the first slope */
    TENSOR_METADATA_LOGIT_SCALE,  /* talkie: the head's gain */
    TENSOR_METADATA_CONFIDENCE,   /* DSpark: whether there is a confidence head */
    TENSOR_METADATA_NGRAMS,       /* qwen4exp: numbers by which n-grams are looked up */
    TENSOR_METADATA_UNTRAINED, /* minimax-01: special tokens whose embedding is zeros are never generated */
} arch_tensor_metadata;

/* Changes that MLX makes to the folders that it saves (hf/tensors/mlx.c). */
enum {
    MLX_NO_NAMES = 1 << 0,             /* its names are not looked up: experts are fused and not transposed */
    MLX_TRANSPOSES_QKV = 1 << 1,       /* c_attn is transposed already */
    MLX_TRANSPOSES_EXPERTS = 1 << 2,   /* experts are transposed already */
    MLX_NORMS_BY_CONVOLUTION = 1 << 3, /* a convolution of its shape shows that norms have 1 added */
    MLX_NORMS_BY_NAMES = 1 << 4,       /* its names show it */
    MLX_MULTIPLIES = 1 << 5,           /* MLX multiplies weights by some of the config's multipliers */
};

/* MTP layers (multi-token prediction). */
typedef struct arch_mtp {
    const char *key; /* of the config: how many */
    uint32_t fixed;  /* without a key; both absent: there are none */
    uint32_t most;   /* 0: 64 */
    bool counts;     /* if the key is 0 or missing, the source tensors are counted */
    bool is_one;     /* all source tensors under "mtp." are of one block, under "backbone." */
    bool for_each;   /* each block repeats the tensors that all MTP layers share */
} arch_mtp;

/* Members that a row does not name are absent, empty or false. */
typedef struct arch_folder {
    const arch_class *classes;        /* NULL: folders cannot be read */
    const struct arch_item *metadata; /* the list ends with MAKE_END */
    const struct arch_rule *rules;    /* before the common ones */
    const struct arch_rule *more;     /* between both: a family's */
    const struct arch_rename *renames;
    const char *const
        *left_out; /* source tensors whose name contains one of these; "^" in front: begins with it */
    const char *const *
        kept; /* the same: source tensors that a text model has, though their names are like a vision encoder's */
    const char *expert_count; /* the config's key, in place of the usual ones */
    arch_tokenizer tokenizer;
    arch_mtp mtp;
    arch_finish finish;
    arch_tensor_metadata tensor_metadata;
    uint32_t mlx;             /* MLX_* */
    const char *stays;        /* tensors whose name has this, or one of several with '|' between, stay F32 */
    bool adds_one;            /* 1 is added to what ends in norm.weight */
    const char *follows;      /* tensors whose name has this get the type that is asked for */
    bool drops_extra_layers;  /* layers beyond the last one are left out, not refused */
    const char *stack;        /* the config's key of the layers of each of two stacks; NULL: there is one */
    bool first_heads;         /* A_log has more heads than the model */
    bool has_layer_configs;   /* per_layer_config is checked */
    arch_target target;       /* of a draft model */
    const arch_shape *shapes; /* NULL: none is checked */

    /* the head */
    bool drops_tied_head;  /* lm_head is left out where it is tied */
    bool has_no_head;      /* in GGUF: the embedding always serves as one */
    bool needs_no_head;    /* the same, whatever the config says */
    bool is_tied_by_class; /* embedding and head are one where the config does not say */
    bool has_own_head;     /* of most published models: a warning without it */

    bool pools; /* all releases of llama.cpp read how texts are pooled */

    /* facts that readers of the file derive from the architecture: a config that says otherwise is doubted */
    bool is_silu;            /* the activation */
    bool layers_by_number;   /* graph.period_default says which layers have a window */
    const char *assumed_key; /* a key of the config */
    int64_t assumed;         /* its value, true is 1 */
    const char *rope_type;   /* of rope, that needs nothing in the file */
    bool may_judge;          /* some models are a text's judge, with another head */
} arch_folder;

/* ---- lists of names ---- */

/* Whether a name begins with what is before a '*', or with all, and has somewhere behind that what follows. */
static inline bool arch_name_begins(const char *name, const char *part) {
    size_t n = strcspn(part, "*");
    return strncmp(name, part, n) == 0 && (part[n] == 0 || strstr(name + n, part + n + 1));
}

/* Whether a list, which ends with NULL, has a text that a name contains; with "^" in front: begins with, and has
 * what is behind a '*' somewhere after that. */
static inline bool arch_names_match(const char *const *list, const char *name) {
    for (; list && *list; list++)
        if (**list == '^' ? arch_name_begins(name, *list + 1) : strstr(name, *list) != NULL) return true;
    return false;
}
