/* The report as a page: the JSON report inside a page that draws it (page.html). */
#include <string.h>

#include "cli/report/page.h"
#include "cli/report/report.h"

void report_html(FILE *to, const report *r) {
    /* The document has no '<' (see emit), so nothing in it can end the script element it is put into. */
    const char *place = strstr(page, "@REPORT@");
    fwrite(page, 1, (size_t)(place - page), to);
    report_json(to, r);
    fputs(place + strlen("@REPORT@"), to);
}
