/* The command `gquant verify FILE...`: checks structure, values and codes of models, the checksums that a file
 * of gquant's has of its tensors, and those of a report (-r). The library reads a file and gives a verdict per
 * tensor; this file counts the problems, prints them as text or JSON, and makes an exit status of them. With a
 * report a tensor that only one side knows is a problem, too. Files are checked one after another, whatever is
 * wrong with earlier ones, and the exit status is the worst. checksums.c reads the report.
 */
#include <stdlib.h>

#include "cli/cli.h"

typedef struct counts {
    size_t tensors, problems, undecoded, digests;
} counts;

static counts count_verdicts(const gq_verification *v, bool compared) {
    counts c = {0};
    size_t n_missing;
    const gq_verdict *verdicts = gq_verification_verdicts(v, &c.tensors);
    gq_verification_missing(v, &n_missing);
    c.problems = n_missing;
    for (size_t i = 0; i < c.tensors; i++) {
        c.undecoded += !verdicts[i].decoded;
        c.digests += verdicts[i].has_digest;
        c.problems += *verdicts[i].problem || (compared && !verdicts[i].expected);
    }
    return c;
}

/* ---- for people ---- */

static void print_problems(const gq_verification *v, bool compared) {
    size_t n, n_missing;
    const gq_verdict *verdicts = gq_verification_verdicts(v, &n);
    const char *const *missing = gq_verification_missing(v, &n_missing);
    for (size_t i = 0; i < n; i++) {
        const char *problem = *verdicts[i].problem                ? verdicts[i].problem
                              : compared && !verdicts[i].expected ? "in the file, but not in the report"
                                                                  : NULL;
        if (problem)
            print_line(stdout, "%s (%s): %s", verdicts[i].name, gq_type_name(verdicts[i].type), problem);
    }
    for (size_t i = 0; i < n_missing; i++)
        print_line(stdout, "%s: listed in the report, but missing in the file", missing[i]);
}

static void verify_print_types(const gq_verification *v) {
    size_t n;
    const gq_verified_type *types = gq_verification_types(v, &n);
    table t;
    table_start(&t, "lrrr", (const char *const[]){"type", "tensors", "compared", "products"});
    for (size_t i = 0; i < n; i++) {
        char text[UNIT_ROOM];
        const bool compared = types[i].compared > 0;
        table_text(&t, gq_type_name(types[i].type));
        table_cell(&t, text_format("%zu", types[i].tensors));
        table_text(&t, compared ? count_text(text, (double)types[i].compared) : "-");
        table_cell(&t, compared ? text_format("%.2f", types[i].worst) : text_format("-"));
    }
    table_end(&t, stdout);
}

/* Prints what is known of a file without problems, and what is not. */
static void print_sound(const char *path, const counts *c, bool compared) {
    const char *by = compared                                 ? "the report says"
                     : c->digests && c->digests == c->tensors ? "the file's own digests say"
                                                              : NULL;
    if (!c->tensors) {
        print_line(stdout, "%s: no tensors: a vocabulary only", path);
        return;
    }
    if (by)
        print_line(stdout, "%s: sound: %zu tensor%s, bytes as %s", path, c->tensors,
                   plural_suffix(c->tensors), by);
    else if (c->digests)
        print_line(stdout, "%s: structurally sound: %zu tensor%s, bytes of %zu as the file's own digests say",
                   path, c->tensors, plural_suffix(c->tensors), c->digests);
    else
        print_line(stdout,
                   "%s: structurally sound: %zu tensor%s; whether the bytes are right is not verified: the "
                   "file has no digests, and no report (-r) was given",
                   path, c->tensors, plural_suffix(c->tensors));
    print_line(stdout, "not checked: values of the metadata%s",
               c->digests || compared ? "; whether the model it was made of is still the same" : "");
}

static void print_verdict(const request *r, const char *model, const counts *c, bool compared) {
    if (c->problems)
        print_line(stdout, "%s: %zu problem%s in %zu tensor%s", model, c->problems,
                   plural_suffix(c->problems), c->tensors, plural_suffix(c->tensors));
    else if (!r->quiet)
        print_sound(model, c, compared);
    if (c->undecoded && !r->quiet)
        print_line(stdout, "%zu of them of types that cannot be decoded: %s", c->undecoded,
                   compared || c->digests ? "only their checksums were compared"
                                          : "only their position in the file was checked");
}

/* ---- for programs ---- */

/* Prints the entry of a file that could not be checked, for the list of several files. */
static void print_error_json(const char *model, const gq_error *e) {
    json_writer j = json_start(stdout, '{');
    json_put_text(&j, "path", model);
    json_put_bool(&j, "sound", false);
    json_put_text(&j, "error", e->text);
    json_end(&j);
}

/* Prints what was found. False: the file is not sound. */
static bool verify_print_results(const request *r, const char *model, const gq_verification *v) {
    bool compared = r->report != NULL;
    counts c = count_verdicts(v, compared);
    if (r->json) {
        print_json_text(gq_verification_text(v, model, compared, r->report, GQ_REPORT_JSON, NULL));
    } else {
        if (!r->quiet) verify_print_types(v);
        print_problems(v, compared);
        print_verdict(r, model, &c, compared);
    }
    return c.problems == 0;
}

static int verify_file(const request *r, size_t i) {
    const char *model = r->arguments[i];
    request one = *r;
    one.arguments += i; /* so that progress names this file */
    gq_error e = {0};
    checksum_list expected = {0};
    progress p;
    progress_start(&p, &one, NULL);
    gq_callbacks callbacks = progress_callbacks(&p);
    gq_verification *v = NULL;
    if (!r->report || checksums_read(&expected, r->report, model, r->n_arguments > 1, &e))
        v = gq_verify(model, expected.items, expected.n, r->quantize.threads, &callbacks, &e);
    progress_end(&p, v ? NULL : &e);
    size_t n = 0;
    const char *const *warnings = v ? gq_verification_warnings(v, &n) : NULL;
    if (!r->quiet) warn_all(r->said, warnings, n);
    if (!v && r->json && r->n_arguments > 1) print_error_json(model, &e);
    int status = v ? verify_print_results(r, model, v) ? GQ_OK : GQ_FAILED : say_failure(r->said, &e);
    gq_verification_free(v);
    checksums_free(&expected);
    return status;
}

/* Checks the files one after another, whatever is wrong with some. The exit status is the worst. */
int verify_main(const request *r) {
    int status = GQ_OK;
    bool several = r->n_arguments > 1, stopped = false;
    for (size_t i = 0; i < r->n_arguments && !stopped; i++) {
        if (r->json && several) putchar(i ? ',' : '[');
        if (i > 0 && !r->json && !r->quiet) putchar('\n');
        int one = verify_file(r, i);
        fflush(stdout); /* so that errors, on another stream, follow in order */
        if (one > status) status = one;
        stopped = one > GQ_USAGE;
    }
    if (r->json && several) puts("]");
    return status;
}
