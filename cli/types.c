/* The command `gquant types`: the file types, what each is for, and a typical KL divergence: that of model A
 * in bench/results/small-models.md from its base model, with an imatrix; 0 where none was measured. It orders
 * types; other models have other values. */
#include <string.h>
#include <strings.h>

#include "cli/cli.h"

static const struct {
    const char *type;
    double kld; /* nats per token */
    const char *purpose;
} purposes[] = {
    {"Q8_0", 0, "nearly lossless, in half the bytes"},
    {"Q6_K", .00021, "where there is room for it"},
    {"Q5_K_M", 0, "between Q4_K_M and Q6_K"},
    {"Q5_K_S", .00052, "nearly that, a little smaller"},
    {"Q4_K_M", .0014, "the usual choice"},
    {"Q4_K_S", .0016, "a little smaller than the usual choice"},
    {"IQ4_XS", .0019, "the smallest of 4 bits"},
    {"Q3_K_M", .0054, "a larger model in the memory of a smaller one"},
    {"IQ3_M", .0047, "as Q3_K_M, in fewer bytes"},
    {"IQ3_XXS", .012, "where 3 bits just fit"},
    {"IQ2_M", .015, "large models in little memory"},
    {"Q2_K", .020, "without a grid; IQ2_M has a lower KLD"},
    {"IQ2_XXS", .041, "where nothing else fits"},
    {"IQ1_M", .064, "the smallest there are"},
    {"IQ1_S", .075, "the smallest there are"},
    {"Q4_0", 0, "programs that know nothing newer"},
    {"Q5_0", 0, "programs that know nothing newer"},
};

static size_t types_purpose(const char *type) {
    size_t i = 0;
    while (i < sizeof purposes / sizeof *purposes && strcmp(purposes[i].type, type) != 0) i++;
    return i;
}

static const char *types_purpose_text(const char *type) {
    size_t i = types_purpose(type);
    return i < sizeof purposes / sizeof *purposes ? purposes[i].purpose : "";
}

static double types_kld(const char *type) {
    size_t i = types_purpose(type);
    return i < sizeof purposes / sizeof *purposes ? purposes[i].kld : 0;
}

static void types_print_json(void) {
    json_writer j = json_start(stdout, '[');
    for (size_t i = 0; i < gq_filetype_count(); i++) {
        const char *name = gq_filetype_name(i);
        json_open(&j, NULL, '{');
        json_put_text(&j, "name", name);
        if (gq_filetype_id(i) >= 0) json_put_count(&j, "number", (uint64_t)gq_filetype_id(i));
        if (gq_filetype_bits(i) > 0) json_put_number(&j, "bits_per_weight", gq_filetype_bits(i));
        if (types_kld(name) > 0) json_put_number(&j, "typical_kld", types_kld(name));
        json_put_bool(&j, "advised", gq_filetype_advised(i));
        json_put_text(&j, "summary", gq_filetype_summary(i));
        json_put_text(&j, "purpose", types_purpose_text(name));
        json_close(&j);
    }
    json_end(&j);
}

/* Prints what a type is for, or a recipe as a file that --tensor-type-file reads. */
static int types_print_one(const request *r, const char *name) {
    const gq_named_recipe *found = gq_named_recipe_find(name);
    gq_error e = {0};
    for (size_t i = 0; !found && i < gq_filetype_count(); i++)
        if (!strcasecmp(gq_filetype_name(i), name)) {
            const char *purpose = types_purpose_text(gq_filetype_name(i));
            print_line(stdout, "%s: %s%s%s", gq_filetype_name(i), purpose, *purpose ? "; " : "",
                       gq_filetype_summary(i));
            return GQ_OK;
        }
    if (!found) return filetype_fail_unknown(name, &e), say_failure(r->said, &e);
    printf("# %s: %s\n# gquant --tensor-type-file FILE IN OUT %s\n%s", found->name, found->summary,
           found->filetype, found->items);
    return GQ_OK;
}

int types_main(const request *r) {
    table t;
    if (r->n_arguments) return types_print_one(r, r->arguments[0]);
    if (r->json) return types_print_json(), GQ_OK;
    table_start(&t, "lr2r1rl", (const char *const[]){"TYPE", "number", "bpw", "KLD", ""});
    for (size_t i = 0; i < gq_filetype_count(); i++) {
        const char *name = gq_filetype_name(i), *about = gq_filetype_summary(i),
                   *purpose = types_purpose_text(name);
        double kld = types_kld(name);
        table_text(&t, name);
        table_cell(&t, gq_filetype_id(i) < 0 ? text_format("-") : text_format("%d", gq_filetype_id(i)));
        table_cell(&t, gq_filetype_bits(i) > 0 ? text_format("%.2f", gq_filetype_bits(i)) : text_format("-"));
        table_cell(&t, kld > 0 ? text_format("%.2gx", kld / types_kld("Q4_K_M")) : text_format("-"));
        /* The purpose also says whether a type requires an imatrix. */
        if (*purpose && strstr(about, "needs"))
            table_cell(&t, text_format("%s; %s", purpose, about));
        else
            table_text(&t, *purpose ? purpose : about);
    }
    const gq_named_recipe *named;
    for (size_t i = 0; (named = gq_named_recipe_at(i)); i++)
        table_row(&t, (const char *const[]){named->name, "-", "-", "-", named->summary});
    table_end(&t, stdout);
    print_wrapped(
        stdout,
        "Which one: 'gquant plan MODEL' recommends the largest that fits a machine; Q4_K_M, the usual "
        "choice, generates tokens faster; 'gquant evaluate' measures whether it is close to the base "
        "model");
    print_wrapped(stdout, "bpw: bits per weight of a whole model, about. KLD: KL divergence as a multiple of "
                          "Q4_K_M's, of a small "
                          "model with an imatrix (bench/results/small-models.md); it orders types");
    return GQ_OK;
}
