#include <string.h>

#include "cli/report/render.h"
#include "cli/report/report.h"
#include "cli/report/report_file.h"
#include "cli/report/report_page.h"
#include "cli/text.h"

static const struct {
    const char *extension;
    void (*write)(FILE *to, const report *r);
} formats[] = {{".json", report_json},
               {".csv", report_csv},
               {".html", report_html},
               {".md", report_markdown},
               {".svg", report_svg}};

static int format_of(const char *path) {
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof formats / sizeof *formats; i++)
        if (strcasecmp(dot, formats[i].extension) == 0) return (int)i;
    return -1;
}

bool report_check(const request *r, gq_error *e) {
    return !r->report || format_of(r->report) >= 0 ||
           gq_fail_usage(e, "--report %s: expected a name that ends in .json, .csv, .html, .md or .svg",
                         r->report);
}

typedef struct report_job {
    const report *report;
    void (*write)(FILE *to, const report *r);
} report_job;

static void write_format(FILE *to, const void *what) {
    const report_job *j = what;
    j->write(to, j->report);
}

bool report_write(const report *r, const char *path, gq_error *e) {
    return !path || render_file(path, write_format, &(report_job){r, formats[format_of(path)].write}, e);
}
