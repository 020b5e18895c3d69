/* Items PATTERN=TYPE: which tensors they name, and which of them did nothing. */
#pragma once

#include "base/warnings.h"
#include "mixes/mixes.h"

/* Parse "PATTERN=TYPE" items (TYPE absent for --keep: pass types = false) into one list, in order; PCRE2
 * search, the pattern text is lower-cased first for --tensor-type as recipes expect. NULL and e on a
 * malformed item. */
mix_pattern *mix_patterns_new(const char *const *items, size_t n, bool types, gq_error *e);
void mix_patterns_free(mix_pattern *p);
/* Is this a well-formed PATTERN=TYPE? */
bool mix_pattern_check(const char *item, gq_error *e);
/* The changing state of matching patterns, one for each thread: the patterns themselves stay constant. It
 * counts the steps that are left. NULL: no memory. */
typedef struct mix_matcher mix_matcher;
mix_matcher *mix_matcher_new(gq_error *e);
void mix_matcher_free(mix_matcher *m);
/* First pattern found in the name: its number and type, or MIX_NO_PATTERN. Fails when the matcher has no step
 * left, or when a pattern takes too long by itself. */
bool mix_patterns_find(const mix_pattern *p, mix_matcher *m, const char *name, size_t *number, uint32_t *type,
                       gq_error *e);
/* Patterns that did nothing in the n choices (of one mix_assign or of several): how many, and the first of
 * them as given. */
typedef struct mix_idle_patterns {
    size_t unmatched, powerless; /* the first to match no tensor; or only tensors that they cannot change */
    const char *first_unmatched, *first_powerless;
} mix_idle_patterns;
/* Warns of n such patterns, 0 of which are none: what they are for, why they do nothing, and the first. */
bool mix_patterns_warn(warning_list *to, size_t n, const char *first, const char *why, gq_error *e);
bool mix_patterns_idle(const mix_pattern *p, const mix_choice *choices, size_t n, mix_idle_patterns *idle,
                       gq_error *e);
