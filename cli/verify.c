#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/checksums.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/text.h"

static size_t print_problems(const gq_verdict *verdicts, size_t n) {
    size_t problems = 0;
    for (size_t i = 0; i < n; i++) {
        if (!*verdicts[i].problem) continue;
        char *name = shown(verdicts[i].name);
        printf("%s (%s): %s\n", name, gq_type_name(verdicts[i].type), verdicts[i].problem);
        free(name);
        problems++;
    }
    return problems;
}

/* Tell what was found; false: the file is not sound. */
static bool print_verdict(const request *r, const gq_verification *v, bool compared) {
    size_t n, n_missing, undecoded = 0, unexpected = 0;
    const gq_verdict *verdicts = gq_verification_verdicts(v, &n);
    const char *const *missing = gq_verification_missing(v, &n_missing);
    size_t problems = print_problems(verdicts, n);
    for (size_t i = 0; i < n_missing; i++) printf("%s: in the report, but not in the file\n", missing[i]);
    for (size_t i = 0; i < n; i++) {
        undecoded += !verdicts[i].decoded;
        if (!compared || verdicts[i].expected) continue;
        char *name = shown(verdicts[i].name);
        printf("%s: in the file, but not in the report\n", name);
        free(name);
        unexpected++;
    }
    problems += n_missing + unexpected;
    char *path = shown(r->arguments[0]);
    if (problems)
        printf("%s: %zu problem%s in %zu tensors\n", path, problems, problems == 1 ? "" : "s", n);
    else if (!r->quiet)
        printf("%s: sound: %zu tensors%s\n", path, n, compared ? ", bytes as the report says" : "");
    free(path);
    if (undecoded && !r->quiet)
        printf("%zu tensors have types that cannot be decoded; only their bytes were read\n", undecoded);
    return problems == 0;
}

int verify_main(const request *r) {
    gq_error e = {0};
    checksum_list expected = {0};
    progress p;
    progress_start(&p, r, NULL);
    gq_callbacks callbacks = progress_callbacks(&p);
    gq_verification *v = NULL;
    if (!r->report || checksums_read(&expected, r->report, r->arguments[0], &e))
        v = gq_verify(r->arguments[0], expected.items, expected.n, r->quantize.threads, &callbacks, &e);
    progress_end(&p, v ? NULL : &e);
    size_t n = 0;
    const char *const *warnings = v ? gq_verification_warnings(v, &n) : NULL;
    if (!r->quiet) warn_all(warnings, n);
    int status = v ? print_verdict(r, v, r->report) ? GQ_OK : GQ_FAILED : failed(&e);
    gq_verification_free(v);
    checksums_free(&expected);
    return status;
}
