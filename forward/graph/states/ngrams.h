/* What a table has for the last tokens: rows that are found by a hash of them, which streams of a token take in (gated.c).
 */
#pragma once

#include "forward/graph/layer_part.h"

enum { NGRAM_MOST = 8, NGRAM_MOST_HEADS = 64 };

typedef struct ngram_numbers {
    size_t heads, head; /* rows that a token has in the table, and their values; 0 heads: there is no table */
    size_t size, per_size; /* tokens of the longest n-gram; rows for n-grams of each size from 2 on */
    size_t taps;           /* of the convolution */
    size_t layer;          /* before which streams take it in */
    uint64_t end;          /* an id at which n-grams begin anew */
    uint64_t factor[NGRAM_MOST], first[NGRAM_MOST_HEADS], rows[NGRAM_MOST_HEADS];
    const model_tensor *table;
} ngram_numbers;

typedef struct ngram_scratch {
    void *raw;     /* a row of the table, as stored */
    float *values; /* decoded */
} ngram_scratch;

void ngrams_read_keys(ngram_numbers *n, const forward_model *m, key_reader *r);
void ngrams_find_table(tensor_finder *f, ngram_numbers *n);
void ngrams_find_tensors(tensor_finder *f, uint64_t streams);
/* Whether streams take it in before this layer. */
bool ngrams_are_read(const ngram_numbers *n, size_t layer);
uint64_t ngrams_count_rows(const ngram_numbers *n, const forward_model *m, size_t streams);
void ngrams_lay_out(const ngram_numbers *n, ngram_scratch *own, scratch *s);
/* Adds it to the streams, rows of the state, behind which the tokens' ids stand. False: b->e, or the site's answer. */
bool ngrams_add(forward_batch *b, const ngram_numbers *n, const ngram_scratch *own, size_t streams,
                float *state);
