/* What a verification has found, as JSON (docs/reports.md). */
#include <stdio.h>

#include "publish/report.h"
#include "publish/text.h"

typedef struct verified {
    const gq_verification *of;
    const char *path, *report;
    bool compared, exact;
} verified;

static void put_verdict(json_writer *j, const gq_verdict *v, bool compared) {
    char crc[16];
    snprintf(crc, sizeof crc, "%08x", (unsigned)v->crc32);
    json_open(j, NULL, '{');
    json_put_text(j, "name", v->name);
    json_put_text(j, "type", gq_type_name(v->type));
    json_put_text(j, "crc32", crc);
    json_put_bool(j, "decoded", v->decoded);
    json_put_bool(j, "has_digest", v->has_digest);
    if (compared) json_put_bool(j, "in_report", v->expected);
    json_put_text(j, "problem", *v->problem ? v->problem : NULL);
    json_close(j);
}

static void put_verified_type(json_writer *j, const gq_verified_type *type) {
    json_open(j, NULL, '{');
    json_put_text(j, "type", gq_type_name(type->type));
    json_put_count(j, "tensors", type->tensors);
    json_put_count(j, "problems", type->problems);
    json_put_count(j, "compared", type->compared);
    json_put_number(j, "worst_product", type->worst);
    json_close(j);
}

static void write_verification(FILE *to, const void *what) {
    const verified *v = what;
    size_t n, n_types, problems;
    const gq_verdict *verdicts = gq_verification_verdicts(v->of, &n);
    const gq_verified_type *types = gq_verification_types(v->of, &n_types);
    const char *const *missing = gq_verification_missing(v->of, &problems);
    size_t n_missing = problems;
    for (size_t i = 0; i < n; i++) problems += *verdicts[i].problem || (v->report && !verdicts[i].expected);
    json_writer j = json_start(to, '{');
    j.exact = v->exact;
    json_put_text(&j, "path", v->path);
    if (v->report) json_put_text(&j, "report", v->report);
    json_put_bool(&j, "sound", problems == 0);
    json_put_count(&j, "problems", problems);
    json_open_lines(&j, "tensors", '[');
    for (size_t i = 0; i < n; i++) put_verdict(&j, &verdicts[i], v->compared);
    json_close(&j);
    json_open_lines(&j, "types", '[');
    for (size_t i = 0; i < n_types; i++) put_verified_type(&j, &types[i]);
    json_close(&j);
    json_open_lines(&j, "missing", '[');
    for (size_t i = 0; i < n_missing; i++) json_put_text(&j, NULL, missing[i]);
    json_close(&j);
    json_end(&j);
}

char *gq_verification_text(const gq_verification *v, const char *path, bool compared, const char *report,
                           gq_report_format format, gq_error *e) {
    size_t n;
    const verified of = {v, path, report, compared, format == GQ_REPORT_EXACT};
    return page_text(write_verification, &of, &n, e);
}
