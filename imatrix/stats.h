/* Statistics of importance data: numbers per entry and layer, and how much of a model they cover. */
#ifndef GQ_IMATRIX_STATS_H
#define GQ_IMATRIX_STATS_H

#include "imatrix/imatrix.h"

/* Statistics of the normalised values a of an entry: all its matrices together, except those that no token
 * reached. Shares are 0 to 1. Numbers that are not defined (no data, sum or deviation zero) are NaN. */
typedef struct imatrix_stats {
    const imatrix_entry *entry;
    int64_t layer;    /* N of "blk.N.role"; -1: none */
    const char *role; /* the name behind "blk.N."; without a layer the whole name */
    uint64_t n;       /* values with data */
    double sum, min, max, mean;
    double deviation; /* of the population */
    double active;    /* share with a > 0.00001 */
    double entropy;   /* bits, of a / sum */
    double evenness;  /* entropy / log2 n: 1 when all columns weigh the same */
    double outliers;  /* share more than one deviation above the mean */
    double cosine;    /* similarity with the same role one layer earlier, over columns with data in both */
} imatrix_stats;

/* stats[im->n_entries], in the order of the entries. For data that passed imatrix_check. Fails only for
 * lack of memory. */
bool imatrix_statistics(const imatrix *im, imatrix_stats *stats, gq_error *e);

/* ---- coverage ---- */

/* A weight that somebody wants to quantize. */
typedef struct imatrix_weight {
    const char *name;
    uint64_t columns, matrices;
} imatrix_weight;

typedef struct imatrix_coverage {
    const imatrix_entry *entry; /* NULL: none, and all below is zero */
    bool fits;                  /* the entry's size is the weight's */
    uint64_t experts;           /* matrices counted by themselves; 1: one count for all */
    uint64_t experts_seen;      /* of these, reached by a token */
    float smallest_count;       /* over these; tokens, in legacy data calls */
} imatrix_coverage;

/* coverage[n] for weights[n]; used[im->n_entries]: whether an entry belongs to any of them. */
void imatrix_cover(const imatrix *im, const imatrix_weight *weights, size_t n, imatrix_coverage *coverage,
                   bool *used);

#endif
