/* A way to look at an array: the elements of a delivered tensor, in order, as positions in a source. Each
 * dimension, outermost first, has a count and a stride in units of the source, as an array of numpy's has.
 * All that rules do to a tensor but arithmetic (split, cut, reorder, transpose) is a view.
 */
#pragma once

#include "hf/arrays/source.h"

enum { VIEW_DIMS = 12 };

typedef struct hf_view {
    uint32_t n_dims;
    uint64_t count[VIEW_DIMS], stride[VIEW_DIMS];
    uint64_t base; /* of the first element */
} hf_view;

/* The whole array, in its own order; that of a GPTQ matrix has its outputs as rows. */
hf_view hf_view_of(const hf_source *s);
hf_view hf_view_squeezed(const hf_source *s); /* without dimensions of 1 */
uint64_t hf_view_units(const hf_view *v);
/* Returns where unit number `at` of a view's dimensions before `dims` lies in the source. */
uint64_t hf_view_offset(const hf_view *v, uint32_t dims, uint64_t at);
/* Make two dimensions of one: `inner` is the count of the second. False: it does not divide the first's. */
bool hf_view_split(hf_view *v, uint32_t dim, uint64_t inner);
void hf_view_swap(hf_view *v, uint32_t a, uint32_t b);
/* Keep `count` entries of a dimension from `first` on, `step` apart. False: there are not so many. */
bool hf_view_cut(hf_view *v, uint32_t dim, uint64_t first, uint64_t count, uint64_t step);
/* Drop dimensions of one entry, and join those that follow one another without a gap. */
void hf_view_simplify(hf_view *v);
