#include <string.h>

#include "cli/commands.h"
#include "cli/option_table.h"
#include "cli/table.h"
#include "cli/text.h"

/* "  -t, --threads N            default: one per core" */
static void option_line(const option_row *o) {
    char left[64];
    snprintf(left, sizeof left, "%c%c%s --%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
             o->letter ? "," : " ", o->name, o->argument ? " " : "", o->argument ? o->argument : "");
    printf("  %-31s %s\n", left, o->help);
}

int help_main(const request *r) {
    const command_row *c = command_of(r->command);
    printf("usage: gquant %s%s%s\n", c->name ? c->name : "", c->name ? " " : "", c->arguments);
    if (r->command == CMD_QUANTIZE) {
        for (size_t i = 0; i < n_commands; i++)
            if (commands[i].name && commands[i].summary)
                printf("       gquant %s%s%s\n", commands[i].name, *commands[i].arguments ? " " : "",
                       commands[i].arguments);
        puts("\nQuantizes a GGUF model: F16, BF16 or F32 in, a file for llama.cpp out, and a\n"
             "report of what was lost. OUT defaults to IN's name with TYPE in place of F16.");
    } else {
        printf("\n%s\n\n", c->summary ? c->summary : "");
    }
    for (size_t i = 0; i < n_options; i++) {
        const option_row *o = &options[i];
        if (!o->help) continue;
        if (!o->name && r->command == CMD_QUANTIZE) puts(o->help);
        if (o->name && o->commands & r->command) option_line(o);
    }
    return GQ_OK;
}

int version_main(const request *r) {
    (void)r;
    const char *isa = gq_isa();
    printf("gquant %s (%s)\n", gq_version(), isa ? isa : "GQUANT_ISA names a level that cannot run here");
    return GQ_OK;
}

int types_main(const request *r) {
    (void)r;
    table t;
    table_start(&t, "lrrl");
    table_row(&t, (const char *const[]){"TYPE", "number", "bpw", ""});
    for (size_t i = 0; i < gq_filetype_count(); i++) {
        table_text(&t, gq_filetype_name(i));
        table_cell(&t, gq_filetype_id(i) < 0 ? format("-") : format("%d", gq_filetype_id(i)));
        table_cell(&t, gq_filetype_bits(i) > 0 ? format("%.2f", gq_filetype_bits(i)) : format("-"));
        table_text(&t, gq_filetype_summary(i));
    }
    table_print(&t, stdout);
    table_free(&t);
    puts("\nbpw: bits per weight of a whole model, about");
    return GQ_OK;
}
