#include <stdlib.h>

#include "cli/commands.h"
#include "cli/evaluation.h"
#include "cli/input.h"
#include "cli/progress.h"
#include "cli/say.h"

bool evaluation_ask(const request *r, gq_evaluation_request *to, gq_error *e) {
    const char *path = r->text ? r->text : r->ids;
    size_t n = 0;
    char *text = input_read(path, &n, e);
    *to = (gq_evaluation_request){.text = {.name = path,
                                           .bytes = text,
                                           .n = n,
                                           .ids = r->ids,
                                           .parse_special = r->parse_special,
                                           .context = (uint32_t)r->context,
                                           .tokens = r->tokens},
                                  .threads = r->quantize.threads,
                                  .memory = r->memory,
                                  .logits = r->logits,
                                  .replace_logits = r->quantize.force};
    return text;
}

void evaluation_free(gq_evaluation_request *asked) {
    free((void *)asked->text.bytes);
    *asked = (gq_evaluation_request){0};
}

gq_evaluation *evaluation_run(const request *r, gq_evaluation_request *asked, gq_error *e) {
    progress p;
    size_t n;
    progress_start_phase(&p, r, "evaluate");
    gq_callbacks callbacks = progress_callbacks(&p);
    asked->callbacks = &callbacks;
    gq_evaluation *v = gq_evaluate(asked, e);
    asked->callbacks = NULL;
    progress_end(&p, v ? NULL : e);
    const char *const *warnings = v ? gq_evaluation_warnings(v, &n) : NULL;
    if (v && !r->quiet) warn_all(warnings, n);
    return v;
}

static bool check_request(const request *r, gq_error *e) {
    if (!r->text && !r->ids)
        return gq_fail_usage(e, "nothing to run on: name a text with --text, or ids of tokens with --ids; "
                                "--speed alone tells how fast models are here");
    if (r->text && r->ids) return gq_fail_usage(e, "--text and --ids are two texts; one is run on");
    return report_check(r, e) && (!r->logits || report_check_file(r, "logits", r->logits, e));
}

static void print_evaluation(const report *r) {
    if (r->request->json)
        report_json(stdout, r);
    else if (!r->request->quiet)
        report_evaluation(stdout, r);
}

int evaluate_main(const request *r) {
    gq_error e = {0};
    gq_evaluation_request asked;
    if (r->speed) return speed_main(r);
    if (!check_request(r, &e) || !evaluation_ask(r, &asked, &e)) return failed(&e);
    asked.original = r->arguments[0], asked.copies = r->arguments + 1, asked.n_copies = r->n_arguments - 1;
    interrupt_catch();
    gq_evaluation *v = evaluation_run(r, &asked, &e);
    evaluation_free(&asked);
    if (!v) return failed(&e);
    report rep = report_of_evaluation(r, v);
    print_evaluation(&rep);
    bool ok = report_write(&rep, r->report, &e);
    report_free(&rep);
    gq_evaluation_free(v);
    return ok ? GQ_OK : failed(&e);
}
