#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/report/report_copies.h"
#include "cli/report/report_file.h"
#include "cli/say.h"

static void print_comparison(const report *r) {
    if (r->request->json)
        report_json(stdout, r);
    else if (r->request->quiet)
        return;
    else if (r->n_outputs > 1)
        report_copies(stdout, r);
    else
        report_losses(stdout, r, r->outputs);
}

int compare_main(const request *r) {
    gq_error e = {0};
    if (!report_check(r, &e)) return say_failure(&e);
    progress p;
    progress_start(&p, r, NULL);
    gq_callbacks callbacks = progress_callbacks(&p);
    gq_comparison *c = gq_compare(&(gq_comparison_request){.size = sizeof(gq_comparison_request),
                                                           .original = r->arguments[0],
                                                           .copies = r->arguments + 1,
                                                           .n_copies = r->n_arguments - 1,
                                                           .imatrix = r->quantize.imatrix,
                                                           .threads = r->quantize.threads,
                                                           .callbacks = &callbacks,
                                                           .adapters = r->quantize.adapters},
                                  &e);
    progress_end(&p, c ? NULL : &e);
    if (!c) return say_failure(&e);
    report rep = report_of_comparison(r, c);
    if (rep.n_outputs > 1) report_rank_copies(&rep);
    if (!r->quiet) warn_all(rep.warnings, rep.n_warnings);
    print_comparison(&rep);
    bool ok = report_write(&rep, r->report, &e);
    report_free(&rep);
    gq_comparison_free(c);
    return ok ? GQ_OK : say_failure(&e);
}
