/* quantize.c: quantize IN OUT TYPE
 * Quantizes a GGUF model. Shows progress, warnings and errors; Ctrl-C stops it cleanly. */
#include <gquant.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_bool is_stopped;

static void on_interrupt(int number) {
    (void)number;
    is_stopped = true;
}

/* The library asks this from any of its threads. */
static bool is_cancelled(void *user) {
    (void)user;
    return is_stopped;
}

/* Called by one thread at a time. `user` is the percentage that was printed last. */
static void print_progress(void *user, const gq_progress *p) {
    int *printed = user;
    int percent = (int)(100 * p->share);
    if (percent != *printed) fprintf(stderr, "\r%3d %%", *printed = percent);
}

static void print_warnings(const char *const *warnings, size_t n) {
    for (size_t i = 0; i < n; i++) fprintf(stderr, "\rwarning: %s\n", warnings[i]);
}

/* The message names file, tensor and place. The remedy is for the program to put in its own words. */
static int print_failure(const gq_error *e) {
    fprintf(stderr, "\rquantize: %s", e->text);
    if (e->remedy == GQ_REMEDY_REPLACE) fputs("; remove it first", stderr);
    if (e->remedy == GQ_REMEDY_REQUANTIZE) fputs("; take the unquantized model", stderr);
    fputs("\n", stderr);
    return e->status == GQ_USAGE ? 2 : 1;
}

/* Prints each tensor with its error, then the error of all tensors together. */
static void print_losses(const gq_plan *plan, const gq_results *results) {
    size_t n;
    const gq_tensor *tensors = gq_plan_tensors(plan, 0, &n);
    const gq_loss *losses = gq_results_losses(results, 0, &n);
    gq_loss all = {.n = 0};
    for (size_t i = 0; i < n; i++) {
        char name[128];
        printf("%-24s %-5s -> %-5s", gq_printable(name, sizeof name, tensors[i].name),
               gq_type_name(tensors[i].from), gq_type_name(tensors[i].to));
        if (losses[i].n)
            printf(" %5.2f %%\n", 100 * gq_loss_relative(&losses[i]));
        else
            printf(" same bytes\n");
        all.n += losses[i].n, all.x2 += losses[i].x2, all.e2 += losses[i].e2;
    }
    const gq_summary *s = gq_plan_summary(plan, 0);
    printf("%s: %llu bytes, relative error %.2f %%\n", s->path, (unsigned long long)s->file_bytes,
           100 * gq_loss_relative(&all));
}

int main(int argc, char **argv) {
    if (argc != 4) return fputs("usage: quantize IN OUT TYPE\n", stderr), 2;
    gq_output output = {.path = argv[2], .filetype = argv[3]};
    gq_options options = {.size = sizeof options, .input = argv[1], .outputs = &output, .n_outputs = 1};
    int printed = -1;
    gq_callbacks callbacks = {
        .size = sizeof callbacks, .user = &printed, .progress = print_progress, .cancelled = is_cancelled};
    gq_error e;
    signal(SIGINT, on_interrupt);

    gq_plan *plan = gq_plan_new(&options, &e); /* reads the headers, no weights */
    if (!plan) return print_failure(&e);
    size_t n;
    const char *const *warnings = gq_plan_warnings(plan, &n);
    print_warnings(warnings, n);

    gq_results *results = NULL;
    int status = 0;
    if (gq_run(plan, &callbacks, &results, &e)) {
        warnings = gq_results_warnings(results, &n);
        print_warnings(warnings, n);
        fputs("\r", stderr);
        print_losses(plan, results);
    } else {
        status = print_failure(&e);
    }
    gq_results_free(results); /* also after a failure; NULL is fine */
    gq_plan_free(plan);
    return status;
}
