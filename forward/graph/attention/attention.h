/* Sizes of heads, windows, scale and rope: shared by all mixers that compare queries with keys. */
#pragma once

#include "forward/graph/attention/rope.h"
#include "forward/graph/batch.h"
#include "forward/graph/keys.h"
#include "forward/graph/sublayer.h"

/* The choice of blocks of keys for each head of keys (block_choice.c). */
typedef struct block_numbers {
    size_t heads, head; /* of its queries; its keys have one head. 0: there is none */
    size_t keys;        /* of a block */
    size_t top, near;   /* blocks that a token attends to, and the last ones that are always among them */
    bool is_pooled;     /* all heads choose together, by one key of a block; top: keys (block_choice.c) */
    bool is_given;      /* the caller fills the choice of all heads before a layer runs (dflash.c) */
} block_numbers;

/* The numbers of a model that such a mixer uses. The mixer's own struct is this one or begins with it. */
typedef struct attention_numbers {
    size_t head, value;             /* values of a head: of q and k; of v */
    size_t local_head, local_value; /* in layers with a window */
    size_t shared;                  /* the last layers that use keys and values of earlier ones */
    size_t even_head;               /* width / heads of the first layer */
    size_t window;                  /* tokens that local layers see; 0: there are no local layers */
    bool has_chunks;                /* tokens see those of their own chunk of so many, up to themselves */
    block_numbers blocks;
    float score_scale;  /* factor of the products of q and k */
    size_t buckets;     /* of distances, with a number of each head (attention.h); 0: there are none */
    float score_cap;    /* cap of scores, cap tanh(s / cap); 0: none */
    float alibi;        /* the steepest slope of scores over distances is 2^-(this / heads); 0: none */
    float clamp;        /* q, k and v are within this and its negative; 0: any */
    float output_scale; /* a factor on the mixer's output */
    rope_numbers rope;
} attention_numbers;

/* The numbers of a layer that it uses; the mixer's own struct begins with it, too. */
typedef struct attention_layer {
    size_t heads, kv_heads;
    size_t head, value;        /* values of a head */
    float score_scale;         /* in place of the model's; 0: that one */
    size_t kept;               /* row of what the sublayer carries, where k and v are kept for later layers */
    bool lends_kv, borrows_kv; /* kept there; taken from there, in place of its own */
    bool is_local;             /* with a window */
    bool chooses_blocks;       /* of keys that it attends to */
    bool has_rope;
    bool norms_qk;    /* where the row has unweighted norms of q and k */
    bool both_ways;   /* tokens see those behind them, too; in local layers window / 2 of either */
    bool crosses;     /* keys and values are made of what the encoder gives (residual.h) */
    bool is_tempered; /* queries are multiplied by the temperature of their position */
} attention_layer;

/* ---- what it reads of a model's metadata ---- */

/* Claims the layers that have heads for keys and values. */
void attention_choose_layers(const forward_model *m, key_reader *r, bool *is_own);
/* Reads the numbers of heads and the sizes that the keys give them. */
void attention_read_heads(forward_model *m, key_reader *r, model_sublayer *p);
/* Gives all layers their sizes of a head. Called when windows are known. */
void attention_share_sizes(forward_model *m, model_sublayer *p);
/* Refuses heads of fewer than `least` features, or of no values: where no key says their sizes these are a
 * share of the width, which may be nothing. */
void attention_check_heads(key_reader *r, const model_sublayer *p, size_t least);
void attention_read_windows(forward_model *m, key_reader *r, model_sublayer *p);
/* Decides which layers use rope. Called when windows are known. */
void attention_choose_rope(forward_model *m, key_reader *r, model_sublayer *p);
/* Finds the tensors with factors of rope. */
void attention_find_model_tensors(tensor_finder *f, model_sublayer *p);

/* ---- running ---- */

/* Returns a sublayer's struct in batch_own. */
typedef struct attention_scratch {
    rope_tables rope;
    float *scores; /* [threads][scores_each] */
    size_t scores_each;
    size_t reach;
    uint32_t *bucket[2]; /* [both_ways][distance + reach], of distances below reach */
    uint64_t *chosen;    /* by block_choice_make; NULL: windows are short */
} attention_scratch;

/* Takes memory for the tables of rope, and for `scores_each` floats of scores for each thread. */
void attention_take_scratch(forward_batch *b, const model_sublayer *p, scratch *s, size_t scores_each);
bool attention_prepare(forward_batch *b, const model_sublayer *p, gq_error *e);

enum { QUERIES = ELEMENT_SPAN }; /* queries of a head that attention takes at once */

/* The place-th block of QUERIES queries, or of what is left of a window, counted over a batch's windows: the
 * batch's token that their text begins with, the first of them behind that, and how many there are. */
typedef struct query_block {
    size_t begin, first, queries;
} query_block;
query_block query_block_of(const forward_batch *b, size_t place);
/* Computes to[key][QUERIES], their products of one head, whose q is [head][stride] of the whole batch, with n
 * keys from k on, [head][k_stride]. */
void query_block_multiply(const forward_batch *b, const query_block *of, int thread, const float *q,
                          const float *k, size_t k_stride, size_t head, size_t n, float *to);
/* y = the mix of n keys' values, of `rows` rows each, by weights[key][QUERIES]. */
void query_block_mix(const forward_batch *b, const query_block *of, int thread, const float *values,
                     size_t rows, size_t n, const float *weights, float *y, size_t y_stride);

/* Attention proper: from q, k and v to what the heads give, side by side. Head h's rows begin at h * step. */
typedef struct attention_heads {
    const float *q, *k, *v, *k_tail; /* k_tail: rows behind k's that all heads share; or NULL */
    float *o;
    size_t heads, kv_heads, head, tail, value; /* head: rows of q; tail: of these, of k_tail */
    size_t q_head_stride, k_head_stride, v_head_stride;
    const float *sinks; /* one per head, or NULL */
    /* Per window, block of QUERIES queries and key: a bit for each query that attends to it. NULL: all do. */
    const uint64_t *chosen;
    size_t chosen_stride; /* from the choice for a head of keys to that for the next; 0: they share it */
    size_t rotated_from;  /* the first value of a head that rope may rotate */
    qk_norm norm;         /* of q and k; QK_NONE also where it has no weights */
    size_t norm_stride;   /* weights from a head to the next */
} attention_heads;        /* q_head_stride 0: head */
void batch_attend(forward_batch *b, const sublayer_spec *p, const attention_heads *h);

/* Reports the scores to the observer, where it asks for them. False: as batch_report_inputs. */
bool batch_scores(forward_batch *b, const sublayer_spec *p, const attention_heads *h);
struct forward_scores {
    forward_batch *batch;
    const sublayer_spec *sublayer;
    const attention_heads *heads;
};

/* Makes queries q by attn_q_a, whose rows are normed in `low`, and attn_q_b. False: as batch_report_inputs. */
bool attention_make_low_queries(forward_batch *b, size_t rank, const float *x, size_t stride, float *low,
                                float *q);

/* o, what heads give, times a function of gates, of which each head has `each` rows, the same number of rows
 * apart: one, or one for each of its rows in o. */
typedef struct attention_gates {
    forward_batch *b;
    float *o, *gates;
    size_t heads, value, each, stride; /* value: rows of a head in o */
    void (*open)(float *x, size_t n);
} attention_gates;
void attention_gate(const attention_gates *g);

/* The scores of a block of queries of one head in one window, in the thread's own memory: those of all keys
 * that any of its queries sees, [key][QUERIES]. */
typedef struct attention_block {
    float *scores;
    size_t window, head;
    query_block of;   /* the queries */
    size_t key, keys; /* the first key of their text, and how many */
    size_t limit;     /* keys up to itself that a query sees, at most; 0: all */
    size_t ahead;     /* keys behind itself */
} attention_block;
/* Computes the products of queries and keys. first: a multiple of QUERIES, counted from the window's begin. */
attention_block attention_score(forward_batch *b, const sublayer_spec *p, const attention_heads *h,
                                size_t window, size_t head, size_t first, int thread);
/* Makes weights of them: 0 for keys that a query does not see. */
void attention_weigh(forward_batch *b, const sublayer_spec *p, const attention_heads *h,
                     const attention_block *s);

/* Sparse attention by blocks of keys: for each head of keys a token attends to the blocks of the largest
 * scores. */

/* Reads the numbers of the choice, and which layers make one. Called when heads and rope are known. */
void block_choice_read_keys(forward_model *m, key_reader *r, model_sublayer *p);
void block_choice_find_tensors(tensor_finder *f, const sublayer_spec *p);
/* Rows of `work` that a layer needs for it; floats for each query beside the scores of a window; and memory
 * for the choice. */
uint64_t block_choice_rows(const sublayer_spec *p);
size_t block_choice_scores(const forward_batch *b, const model_sublayer *p);
void block_choice_lay_out(forward_batch *b, const model_sublayer *p, scratch *s);
/* Makes the choice of the layer's input, x: see attention_heads. NULL: all keys are chosen. */
const uint64_t *block_choice_make(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride,
                                  float *work);
/* The choice of a head of keys takes so many words. */
size_t block_choice_stride(const forward_batch *b, const sublayer_spec *p);

/* Scores that get a number by the distance of query and key and by the head (t5): near distances have one
 * each, farther ones share it, and all from 128 on have the last. */

void relative_read_keys(forward_model *m, key_reader *r, model_sublayer *p);
/* A layer without numbers of its own has those of the first one of its kind. */
void relative_find_tensors(tensor_finder *f, const sublayer_spec *p);
/* Memory for which number each distance has; then it is filled. */
void relative_lay_out(forward_batch *b, const model_sublayer *p, scratch *s);
void relative_prepare(forward_batch *b, const model_sublayer *p);
/* Adds a block's numbers to its scores, where the layer has some. */
void relative_add(forward_batch *b, const sublayer_spec *p, const attention_heads *h,
                  const attention_block *s);
