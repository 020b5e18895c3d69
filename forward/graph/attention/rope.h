/* Rotary positions: what a model says of them, and tables of sines and cosines. */
#pragma once

#include "forward/graph/batch.h"
#include "forward/graph/keys.h"
#include "forward/graph/tensors.h"

/* The angles of positions. */
typedef struct rope_angles {
    size_t rotated; /* values of a head that are rotated */
    double base;
    double scale; /* of positions: 1 / factor */
    double magnitude;
    bool yarn;
} rope_angles;

typedef struct rope_numbers {
    bool neox;          /* pairs are (i, i + rotated / 2); else (2i, 2i + 1) */
    rope_sections kind; /* says which pairs stand still in text */
    size_t sections[4];
    bool longrope;         /* long and short factors, even where the row may have one list */
    rope_angles angles[2]; /* [local]: in layers with a window */
    size_t counted;        /* rope.dimension_count: factors have an element for each pair of these */
    double log_factor, log_multiplier;
    double beta_fast, beta_slow, original_context;
    double yarn_share; /* of yarn's own angles in the mix */
    /* Queries at position p are multiplied by
     *     1 + temperature * log(floor((p + temperature_first) / temperature_length) + 1).
     * temperature 0: they are not. */
    double temperature, temperature_length, temperature_first;
    bool freqs_global;                            /* factors count in layers without a window alone */
    const model_tensor *freqs, *longer, *shorter; /* factors that angles are divided by, or NULL */
} rope_numbers;

/* head, local_head: values of one, also in layers with a window. is_latent: some of them are not rotated, and
 * the model says from how many tokens on there is a temperature. */
void rope_read_keys(rope_numbers *n, const forward_model *m, key_reader *r, size_t head, size_t local_head,
                    bool is_latent);
/* Reads the sections of positions of heads with so many values. */
void rope_read_sections(rope_numbers *n, key_reader *r, rope_sections kind, size_t head);
void rope_find_tensors(rope_numbers *n, tensor_finder *f);

typedef struct rope_tables {
    float *cosine[2], *sine[2]; /* [local][pair][context]: with the magnitude; row length rotation_stride */
    size_t rotation_stride;
    size_t short_tokens; /* texts of up to so many tokens in a longer window have rows of their own behind
                            the others; 0: none have */
    float *temperature;  /* [context]; NULL: none */
} rope_tables;
/* The first element of the tables that a text of so many pairs is rotated by. */
static inline size_t rope_rows_of(const rope_tables *t, const batch_span *text, size_t pairs) {
    return text->length <= t->short_tokens ? pairs * t->rotation_stride : 0;
}
void rope_lay_out(const rope_numbers *n, rope_tables *t, size_t context, scratch *s);
bool rope_fill_tables(const rope_numbers *n, rope_tables *t, const forward_model *m, size_t context,
                      gq_error *e);

/* Rotate the values of each head: rows first, first + head_stride, ... begin a head's. */
void batch_rope(forward_batch *b, const sublayer_spec *p, float *x, size_t heads, size_t head_stride);
/* The same with pairs of the given kind. */
void batch_rope_pairs(forward_batch *b, const sublayer_spec *p, float *x, size_t heads, size_t head_stride,
                      bool neox);
/* Rotates columns of each text, the first `columns` of each as far as it has them, by positions that are `head_stride`
 * apart: rows x of heads that are `head` rows apart. back: the other way. */
typedef struct rope_columns {
    float *x;
    size_t heads, head, step, columns;
    bool back;
} rope_columns;
void batch_rope_columns(forward_batch *b, const sublayer_spec *p, const rope_columns *c);
/* Rows times the temperature of each position, where the model has one. */
void batch_temper(forward_batch *b, const sublayer_spec *p, float *x, size_t rows);
