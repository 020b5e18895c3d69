/* The functions of the public headers that run models, of a build without a forward pass: the interface is
 * that of every build, and a call of one fails with the remedy. What is made by running models is never
 * made here, so functions that take such a thing have nothing to look at. */
#include "base/fail.h"
#include "quantize/gquant_publish.h"
#include "quantize/quantize.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define REFUSED(type, name, parameters) \
    type name parameters { return gq_fail_usage(e, #name ": " RUNNERS_MISSING), (type)0; }
#define NEVER(type, name, parameters) \
    type name parameters { return (type)0; }
#define NOTHING(name, parameters) \
    void name parameters {}

/* clang-format off */
/* NOLINTBEGIN(misc-unused-parameters) */
REFUSED(gq_tokenizer *, gq_tokenizer_open, (const char *path, gq_error *e))
REFUSED(gq_tokenizer *, gq_tokenizer_open_adapted, (const char *path, const gq_adapters *adapters, gq_error *e))
NOTHING(gq_tokenizer_close, (gq_tokenizer *t))
NEVER(const char *const *, gq_tokenizer_warnings, (const gq_tokenizer *t, size_t *n))
REFUSED(bool, gq_tokenize, (const gq_tokenizer *t, const char *text, size_t n, const gq_tokenize_options *options,
                            gq_tokens *to, gq_error *e))
NOTHING(gq_tokens_free, (gq_tokens *tokens))

REFUSED(gq_importance_plan *, gq_importance_plan_new, (const gq_importance_request *r, gq_error *e))
NOTHING(gq_importance_plan_free, (gq_importance_plan *p))
NEVER(const gq_importance_facts *, gq_importance_summary, (const gq_importance_plan *p))
NEVER(const char *const *, gq_importance_warnings, (const gq_importance_plan *p, size_t *n))
REFUSED(gq_imatrix *, gq_importance_compute, (gq_importance_plan *p, const gq_callbacks *callbacks, gq_error *e))

REFUSED(gq_evaluation *, gq_evaluate, (const gq_evaluation_request *r, gq_error *e))
REFUSED(gq_evaluation *, gq_evaluation_plan, (const gq_evaluation_request *r, gq_error *e))
REFUSED(bool, gq_evaluation_check, (const gq_plan *plan, gq_error *e))
REFUSED(bool, gq_check_draft, (const char *draft, const char *model, const gq_adapters *adapters, gq_error *e))
NOTHING(gq_evaluation_free, (gq_evaluation *v))
NEVER(const gq_evaluated *, gq_evaluation_models, (const gq_evaluation *v, size_t *n))
NOTHING(gq_evaluation_difference, (const gq_evaluation *v, size_t a, size_t b, gq_estimate *to))
REFUSED(bool, gq_evaluation_interval, (const gq_evaluation *v, gq_statistic of, size_t a, size_t b, gq_interval *to,
                                       gq_error *e))
NEVER(size_t, gq_evaluation_depths, (const gq_evaluation *v, size_t model, gq_depth to[GQ_DEPTHS]))
REFUSED(bool, gq_evaluation_level, (const gq_evaluation *v, size_t model, gq_level *to, gq_error *e))
NEVER(gq_level, gq_level_of, (double kld, double changed_top1))
NOTHING(gq_level_limits, (gq_level level, double *kld, double *changed_top1))
NEVER(const char *, gq_level_text, (gq_level level))
NEVER(const char *, gq_level_word, (gq_level level))
NEVER(bool, gq_evaluation_continued, (const gq_evaluation *v, size_t model, gq_continued *to))
NEVER(bool, gq_evaluation_chosen, (const gq_evaluation *v, size_t model, gq_chosen *to))
NEVER(bool, gq_evaluation_drafted, (const gq_evaluation *v, size_t model, gq_drafted *to))
NEVER(const gq_evaluation_facts *, gq_evaluation_summary, (const gq_evaluation *v))
NEVER(const char *const *, gq_evaluation_warnings, (const gq_evaluation *v, size_t *n))

REFUSED(gq_publication *, gq_publish, (const gq_publish_request *r, gq_error *e))
NOTHING(gq_publication_free, (gq_publication *p))
NEVER(const gq_plan *, gq_publication_plan, (const gq_publication *p))
NEVER(const gq_plan *, gq_publication_projector, (const gq_publication *p))
NEVER(const gq_plan *, gq_publication_companion, (const gq_publication *p, gq_companion which))
NEVER(const char *, gq_publication_base_model, (const gq_publication *p, const char **source))
NEVER(size_t, gq_publication_made, (const gq_publication *p))
NEVER(const gq_evaluation *, gq_publication_evaluation, (const gq_publication *p))
NOTHING(gq_publication_needs, (const gq_publication *p, gq_needs *to))
NEVER(const gq_page_row *, gq_publication_rows, (const gq_publication *p, size_t *n))
NEVER(const gq_page_row *, gq_publication_recommended, (const gq_publication *p, const char **why))
NEVER(const gq_publish_request *, gq_publication_kept, (const gq_publication *p))
NEVER(const char *const *, gq_publication_warnings, (const gq_publication *p, size_t *n))
/* NOLINTEND(misc-unused-parameters) */
