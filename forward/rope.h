/* Rotary positions: what a model says of them, and tables of sines and cosines. */
#ifndef GQ_FORWARD_ROPE_H
#define GQ_FORWARD_ROPE_H

#include "forward/keys.h"
#include "forward/scratch.h"
#include "forward/tensors.h"

/* How positions become angles. */
typedef struct rope_angles {
    size_t turned; /* values of a head that are turned */
    double base;
    double scale; /* of positions: 1 / factor */
    double magnitude;
    bool yarn;
} rope_angles;

typedef struct rope_numbers {
    bool neox;          /* pairs are (i, i + turned / 2); else (2i, 2i + 1) */
    rope_sections kind; /* which of the pairs stand still, in text */
    size_t sections[4];
    bool longrope;         /* long and short factors, even where the row may have one list */
    rope_angles angles[2]; /* [local]: in layers with a window */
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

/* head, local_head: values of one, also in layers with a window. is_latent: some of them are not turned, and
 * the model says from how many tokens on there is a temperature. */
void rope_read_keys(rope_numbers *n, const forward_model *m, key_reader *r, size_t head, size_t local_head,
                    bool is_latent);
/* Reads the sections of positions. */
void rope_read_sections(rope_numbers *n, key_reader *r, rope_sections kind);
void rope_find_tensors(rope_numbers *n, tensor_finder *f);

typedef struct rope_tables {
    float *cosine[2], *sine[2]; /* [local][pair][context]: with the magnitude; row length turn_stride */
    size_t turn_stride;
    float *temperature; /* [context]; NULL: none */
} rope_tables;
void rope_lay_out(const rope_numbers *n, rope_tables *t, size_t context, scratch *s);
bool rope_fill_tables(const rope_numbers *n, rope_tables *t, const forward_model *m, size_t context,
                      gq_error *e);

#endif
