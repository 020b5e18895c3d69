#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "cli/commands.h"
#include "cli/options/option_table.h"
#include "cli/report/table.h"
#include "cli/say.h"
#include "cli/text.h"

/* "  -t, --threads N            default: one per core" */
static void option_line(FILE *to, const option_row *o) {
    char left[64];
    snprintf(left, sizeof left, "%c%c%s --%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
             o->letter ? "," : " ", o->name, option_gap(o), o->argument ? o->argument : "");
    fprintf(to, "  %-31s %s\n", left, o->help);
}

/* Options that are only named, several to a line. */
static size_t name_option(FILE *to, const option_row *o, size_t used) {
    enum { COLUMNS = 80, INDENT = 6 };
    size_t n = strlen(o->name) + strlen(option_gap(o)) + (o->argument ? strlen(o->argument) : 0) + 2;
    bool fits = used && used + 2 + n <= COLUMNS;
    if (used && !fits) fputc('\n', to);
    if (!fits)
        used = (size_t)fprintf(to, "%*s", INDENT, "");
    else
        used += (size_t)fprintf(to, ", ");
    fprintf(to, "--%s%s%s", o->name, option_gap(o), o->argument ? o->argument : "");
    return used + n;
}

/* Rows under a heading of the main job: those with a line of their own, then those that are only named. */
static void help_print_section(FILE *to, size_t first, size_t end) {
    size_t used = 0;
    for (int brief = 0; brief < 2; brief++)
        for (size_t i = first; i < end; i++) {
            const option_row *o = &options[i];
            if (!o->help || !(o->commands & CMD_QUANTIZE) || brief != !!(o->commands & BRIEF)) continue;
            if (brief)
                used = name_option(to, o, used);
            else
                option_line(to, o);
        }
    if (used) fputc('\n', to);
}

static void help_print_sections(FILE *to) {
    for (size_t i = 0, end; i < n_options; i = end) {
        for (end = i + 1; end < n_options && options[end].name;) end++;
        fprintf(to, "%s\n", options[i].help);
        help_print_section(to, i + 1, end);
    }
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

/* The command that help is asked about; NULL: there is none of that name. */
static const command_row *command_asked(const request *r, gq_error *e) {
    if (r->command != CMD_HELP || r->help) return command_of(r->command);
    if (r->n_arguments == 0) return command_of(CMD_QUANTIZE);
    const char *name = r->arguments[0], *near = command_nearest(name);
    const command_row *c = command_named(name);
    if (!c && near)
        gq_fail_usage(e, "there is no command '%s', did you mean 'gquant help %s'?", name, near);
    else if (!c)
        gq_fail_usage(e, "there is no command '%s'; 'gquant help' lists them", name);
    return c;
}

/* Usage lines of the commands; those that take no model share one. */
static void help_print_commands(FILE *to) {
    enum { WITHOUT_MODEL = CMD_TYPES | CMD_COMPLETION | CMD_HELP };
    const char *gap = "";
    for (size_t i = 0; i < n_commands; i++) {
        const command_row *c = &commands[i];
        if (!c->name || !c->summary) continue;
        bool joins = *gap && c->id & WITHOUT_MODEL && commands[i - 1].id & WITHOUT_MODEL;
        fprintf(to, "%s%s%s%s%s", joins ? ", " : gap, joins ? "" : "       gquant ", c->name,
                *c->arguments ? " " : "", c->arguments);
        gap = "\n";
    }
    fputc('\n', to);
}

static void help_print(FILE *to, const command_row *c) {
    fprintf(to, "usage: gquant %s%s%s\n", c->name ? c->name : "", c->name ? " " : "", c->arguments);
    if (c->id == CMD_QUANTIZE) {
        help_print_commands(to);
        fputs("\nQuantizes a GGUF model: F16, BF16 or F32 in, a file for llama.cpp out, and a\n"
              "report of what was lost. OUT defaults to IN's name with TYPE in place of F16.\n",
              to);
#ifdef GQ_NO_FORWARD
        fputs("This build has no forward pass: commands and options that run models are refused.\n", to);
#endif
    } else {
        fprintf(to, "\n%s\n\n", c->summary ? c->summary : "");
    }
    if (c->id == CMD_QUANTIZE) help_print_sections(to);
    for (size_t i = 0; c->id != CMD_QUANTIZE && i < n_options; i++)
        if (options[i].name && options[i].help && options[i].commands & c->id) option_line(to, &options[i]);
    if (c->example) fprintf(to, "\nexample: %s\n", c->example);
}

int help_main(const request *r) {
    gq_error e = {0};
    char *text = NULL;
    size_t n = 0;
    const command_row *c = command_asked(r, &e);
    if (!c) return say_failure(&e);
    FILE *to = open_memstream(&text, &n);
    if (to) help_print(to, c);
    if (!to || fclose(to) != 0) return gq_fail(&e, "not enough memory"), say_failure(&e);
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
