/* Outputs of streams after the last layer: the output matrix's input, and logits of all windows, of several
 * models side by side. */
#pragma once

#include "forward/stream/stream.h"

/* Reports the inputs of the output matrix for all windows in order. The hidden states stay. */
bool forward_stream_final(forward_stream *s, const forward_observer *observer, gq_error *e);

/* Reports the inputs of the output matrix for one batch. The hidden states stay. */
bool forward_stream_probe_final(forward_stream *s, size_t batch, const forward_observer *observer,
                                gq_error *e);

/* The embeddings of a few windows: of stream i at vectors[i], [window][forward_sizes.embedded]. */
typedef struct forward_pooled {
    bool (*windows)(void *data, size_t first_window, size_t windows, const double *const *vectors,
                    gq_error *e);
    void *data;
} forward_pooled;
/* Computes the embeddings of all windows in order, for all streams, whose models give some of one size. The
 * hidden states stay. */
bool forward_run_embeddings(forward_run *r, forward_stream *const *streams, size_t n,
                            const forward_pooled *to, gq_error *e);
/* 1 less the cosine of the angle between two vectors; NaN where one of them is 0. */
double forward_distance(const double *a, const double *b, size_t n);

/* A few windows at a time, tile by tile of the vocabulary; NULL: not called. */
typedef struct forward_head {
    size_t from, n; /* places of each window that are wanted */
    bool (*start)(void *data, size_t first_window, size_t windows, gq_error *e);
    /* Called with the logits of tokens first ... first + rows - 1 of the vocabulary: stream i's token r at
     * place p of the k-th window is at logits[i][(r - first) * stride + k * n + p]. */
    bool (*tile)(void *data, size_t first, size_t rows, const float *const *logits, size_t stride,
                 gq_error *e);
    bool (*end)(void *data, gq_error *e);
    /* Called for an MTP layer before stream i runs it, and again afterwards (is_done), also if that fails. */
    bool (*block)(void *data, size_t i, forward_layer *l, bool is_done, gq_error *e);
    void *data;
} forward_head;
/* Computes the logits of all windows in order, for all streams, whose vocabularies have the same size. The
 * hidden states stay. Where what is next is an MTP layer a stream may be there several times. */
bool forward_run_head(forward_run *r, forward_stream *const *streams, size_t n, const forward_head *head,
                      gq_error *e);
/* Bytes that this takes for these models, beside the hidden states. */
uint64_t forward_head_bytes(const forward_job *j, const forward_model *const *models, size_t n, size_t batch);
