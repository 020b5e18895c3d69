/* A report: what a job has found, gathered once for all formats. */
#pragma once

#include "base/json.h"
#include "publish/text.h"
#include "quantize/gquant_publish.h"

struct gq_report {
    gq_report_request asked;
    const char *kind;
    double seconds, plan_seconds;
    gq_report_output *outputs; /* n of them */
    size_t n;
    gq_page page; /* of tables and charts; its rows, and the intervals that they point to: */
    gq_page_row *rows;
    gq_interval *intervals;
};

/* The path as this report shows it; points into it. */
static inline const char *report_path_shown(const gq_report *r, const char *path) {
    return r->asked.full_paths ? path : page_file_name(path);
}
/* The document (report_json.c). */
void report_write_json(FILE *to, const void *report);
void report_write_exact(FILE *to, const void *report);
