#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "cli/cli.h"
#include "quantize/gquant_common.h"

/* ---- the classes of Hugging Face folders, and the GGUF file that each becomes ---- */

static void classes_print(void) {
    static const char *const files[] = {[GQ_CLASS_MODEL] = "model",
                                        [GQ_CLASS_DRAFT] = "draft model, with --target-model",
                                        [GQ_CLASS_PROJECTOR] = "projector, with --mmproj",
                                        [GQ_CLASS_REFUSED] = "not read"};
    table t;
    gq_folder_class c;
    table_start(&t, "lll",
                (const char *const[]){"CLASS IN config.json", "FILE", "ARCHITECTURE OR PROJECTOR TYPE"});
    for (size_t i = 0; gq_folder_class_at(i, &c); i++) {
        table_text(&t, c.name);
        table_text(&t, files[c.kind]);
        table_cell(&t,
                   text_format("%s%s%s", c.makes ? c.makes : "-", c.also ? ", " : "", c.also ? c.also : ""));
    }
    table_end(&t, stdout);
}

/* "  -t, --threads N            default: one per core" */
static void option_line(FILE *to, const option_row *o) {
    char left[64];
    snprintf(left, sizeof left, "%c%c%s --%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
             o->letter ? "," : " ", o->name, option_gap(o), o->argument ? o->argument : "");
    fprintf(to, "  %-31s %s\n", left, o->help);
}

/* Options of a command, with those rows' bits: the ten that most people use, or all under their headings. */
static void help_print_options(FILE *to, unsigned bits, bool has_headings) {
    for (size_t i = 0; i < n_options; i++)
        if (!options[i].name && has_headings)
            fprintf(to, "%s\n", options[i].help);
        else if (options[i].name && options[i].help && (options[i].commands & bits) == bits)
            option_line(to, &options[i]);
}

/* Usage of all that there is, on a few lines. */
int hint_main(void) {
    const char *gap = "";
    fprintf(stderr, "usage: gquant %s\n", command_of(CMD_QUANTIZE)->arguments);
    fputs("as in: gquant model-F16.gguf Q4_K_M\n   or: gquant COMMAND ... (", stderr);
    for (size_t i = 0; i < n_commands; i++)
        if (commands[i].name && commands[i].summary && commands[i].id != CMD_HELP)
            fprintf(stderr, "%s%s", gap, commands[i].name), gap = ", ";
    fputs(")\n'gquant help' lists the options, 'gquant help COMMAND' those of a command.\n", stderr);
    return GQ_USAGE;
}

/* Whether all options of the main job are asked for: `help all`, `--help all`. */
static bool help_is_all(const request *r) { return r->n_arguments == 1 && !strcmp(r->arguments[0], "all"); }

/* The command that help is asked about; NULL: there is none of that name. */
static const command_row *command_asked(const request *r, gq_error *e) {
    if (r->command != CMD_HELP || r->help) return command_of(r->command);
    if (r->n_arguments == 0 || help_is_all(r)) return command_of(CMD_QUANTIZE);
    const char *name = r->arguments[0], *near = command_nearest(name);
    const command_row *c = command_named(name);
    if (!c && near)
        gq_fail_usage(e, "unknown command '%s', did you mean 'gquant help %s'?", name, near);
    else if (!c)
        gq_fail_usage(e, "unknown command '%s'; 'gquant help' lists the commands", name);
    return c;
}

static void help_print_main(FILE *to, bool all) {
    fprintf(to, "usage: gquant %s\n       gquant COMMAND ...\n\n", command_of(CMD_QUANTIZE)->arguments);
    fputs("Quantizes a model for llama.cpp: a GGUF in F16, BF16 or F32, or a Hugging Face\n"
          "folder. OUT defaults to IN's name with TYPE, such as Q4_K_M, in place of F16.\n\n",
          to);
#ifdef GQ_NO_FORWARD
    if (all) fputs("This build has no forward pass and refuses what runs models.\n", to);
#endif
    if (!all) fputs("Options:\n", to);
    help_print_options(to, CMD_QUANTIZE | (all ? 0 : COMMON), all);
    fputs(all ? "\nCommands:\n"
              : "'gquant help all' lists all options, 'gquant types' the types.\n\nCommands:\n",
          to);
    for (size_t i = 0; i < n_commands; i++)
        if (commands[i].name && commands[i].summary)
            fprintf(to, "  %-12s %s\n", commands[i].name, commands[i].summary);
    fputs("'gquant help COMMAND' lists the options of a command.\n\n"
          "example: gquant model-F16.gguf Q4_K_M\n",
          to);
}

static void help_print(FILE *to, const command_row *c, bool all) {
    if (c->id == CMD_QUANTIZE) {
        help_print_main(to, all);
        return;
    }
    fprintf(to, "usage: gquant %s %s\n\n%s\n\n", c->name, c->arguments, c->summary ? c->summary : "");
    help_print_options(to, c->id, false);
    if (c->example) fprintf(to, "\nexample: %s\n", c->example);
}

int help_main(const request *r) {
    gq_error e = {0};
    char *text = NULL;
    size_t n = 0;
    if (r->command == CMD_HELP && r->n_arguments == 1 && strcmp(r->arguments[0], "classes") == 0)
        return classes_print(), GQ_OK;
    const command_row *c = command_asked(r, &e);
    if (!c) return say_failure(r->said, &e);
    FILE *to = open_memstream(&text, &n);
    if (to) help_print(to, c, help_is_all(r));
    if (!to || fclose(to) != 0) return gq_fail(&e, "not enough memory"), say_failure(r->said, &e);
    print_fitted(stdout, text);
    free(text);
    return GQ_OK;
}

#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

static const char *help_level_name(void) {
    const char *isa = gq_isa();
    if (isa) return isa;
    return getenv("GQUANT_ISA") ? "GQUANT_ISA names a level that cannot run here"
                                : "this processor lacks SSE4.2, without which nothing runs";
}

int version_main(const request *r) {
    print_line(stdout, "gquant %s (%s)", gq_version(), help_level_name());
    if (!r->verbose) return GQ_OK;
    print_line(stdout, "build:    %s, by %s, %s", gq_build(), COMPILER,
               getauxval(AT_BASE) ? "with the system's libraries" : "one file that needs no library");
    char *levels = text_format("levels:  ");
    for (size_t i = 0; gq_isa_level(i); i++) {
        char *longer = text_format("%s %s", levels, gq_isa_level(i));
        free(levels), levels = longer;
    }
    print_wrapped(stdout, levels);
    free(levels);
    print_line(stdout, "features: %s; reports by jansson %s", gq_features(), jansson_version_str());
    return GQ_OK;
}
