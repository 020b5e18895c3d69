#include "cli/commands.h"
#include "cli/progress.h"

int compare_main(const request *r) {
    gq_error e = {0};
    if (!report_check(r, &e)) return failed(&e);
    progress p;
    progress_start(&p, r, NULL);
    gq_callbacks callbacks = progress_callbacks(&p);
    gq_comparison *c = gq_compare(r->arguments[0], r->arguments[1], r->quantize.imatrix, r->quantize.threads,
                                  &callbacks, &e);
    progress_end(&p, c ? NULL : &e);
    if (!c) return failed(&e);
    report rep = report_of_comparison(r, c);
    if (!r->quiet) warn_all(rep.warnings, rep.n_warnings);
    if (!r->quiet) report_losses(stdout, rep.outputs, rep.seconds);
    bool ok = report_write(&rep, r->report, &e);
    report_free(&rep);
    gq_comparison_free(c);
    return ok ? GQ_OK : failed(&e);
}
