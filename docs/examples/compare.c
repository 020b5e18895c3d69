/* compare.c: compare BASE QUANT
 * Prints what a quantized model is, and how far its weights are from the base model's. */
#include <gquant.h>
#include <stdio.h>

static int print_failure(const gq_error *e) {
    fprintf(stderr, "compare: %s\n", e->text);
    return 1;
}

/* Prints the text behind a key. Texts of a file have no NUL at the end and may hold anything. */
static void print_text(const gq_model *m, const char *key) {
    size_t n, i = gq_model_find_key(m, key);
    const gq_metadata *pairs = gq_model_metadata(m, &n);
    gq_value value;
    if (i == SIZE_MAX || gq_metadata_values(&pairs[i], &value, 1) != 1 || value.kind != GQ_TEXT) return;
    char text[80], shown[4 * sizeof text];
    snprintf(text, sizeof text, "%.*s", (int)(value.length < sizeof text ? value.length : sizeof text - 1),
             value.text);
    printf("%s: %s\n", key, gq_printable(shown, sizeof shown, text));
}

static bool print_facts(const char *path, gq_error *e) {
    gq_model *m = gq_model_open(path, e);
    if (!m) return false;
    const gq_model_facts *f = gq_model_summary(m); /* belongs to the model */
    printf("%s: %llu tensors, %llu weights, %.2f bits per weight\n", path, (unsigned long long)f->n_tensors,
           (unsigned long long)f->n_weights, 8 * (double)f->tensor_bytes / (double)f->n_weights);
    print_text(m, "general.architecture");
    gq_model_close(m);
    return true;
}

static bool print_errors(const char *base, const char *quant, gq_error *e) {
    gq_comparison_request request = {
        .size = sizeof request, .base_model = base, .quants = &quant, .n_quants = 1};
    gq_comparison *c = gq_compare(&request, e);
    if (!c) return false;
    size_t n;
    const gq_tensor *tensors = gq_comparison_tensors(c, 0, &n);
    const gq_loss *losses = gq_comparison_losses(c, 0);
    for (size_t i = 0; i < n; i++) {
        char name[128];
        printf("%-24s %-5s", gq_printable(name, sizeof name, tensors[i].name), gq_type_name(tensors[i].to));
        if (losses[i].n)
            printf(" rmse %.6f, largest error %.6f\n", gq_loss_rmse(&losses[i]), losses[i].max_error);
        else
            printf(" same bytes\n");
    }
    const char *const *warnings = gq_comparison_warnings(c, &n);
    for (size_t i = 0; i < n; i++) fprintf(stderr, "warning: %s\n", warnings[i]);
    gq_comparison_free(c);
    return true;
}

int main(int argc, char **argv) {
    gq_error e;
    if (argc != 3) return fputs("usage: compare BASE QUANT\n", stderr), 2;
    return print_facts(argv[2], &e) && print_errors(argv[1], argv[2], &e) ? 0 : print_failure(&e);
}
