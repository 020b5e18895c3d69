/* Completion scripts, made from the table of options so that they cannot lag behind it. */
#include <string.h>

#include "cli/commands.h"

static void words(const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++) printf("%s%s", i ? " " : "", list[i]);
}

static void filetypes(void) {
    for (size_t i = 0; i < gq_filetype_count(); i++) printf("%s%s", i ? " " : "", gq_filetype_name(i));
}

static void command_names(void) {
    const char *gap = "";
    for (size_t i = 0; i < n_commands; i++)
        if (commands[i].name && commands[i].summary) printf("%s%s", gap, commands[i].name), gap = " ";
}

/* Names of the types that tensors can be quantized to; holes in the numbering have no name. */
static void tensor_types(void) {
    for (uint32_t t = 0, first = 1; t < 64; t++) {
        const char *name = gq_type_name(t);
        if (!strcmp(name, "unknown")) continue;
        printf("%s%s", first ? "" : " ", name);
        first = 0;
    }
}

static void levels(void) { words(effort_names, 3); }

static const struct {
    option_hint hint;
    void (*print)(void);
} lists[] = {{HINT_TENSOR_TYPE, tensor_types}, {HINT_EFFORT, levels}};

static void (*list_for(option_hint hint))(void) {
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (lists[i].hint == hint) return lists[i].print;
    return NULL;
}

static bool offered(const option_row *o, unsigned for_command) {
    return o->name && o->help && o->commands & for_command;
}

/* ---- bash ---- */

static void bash_options(unsigned for_command) {
    const char *gap = "";
    for (size_t i = 0; i < n_options; i++)
        if (offered(&options[i], for_command)) printf("%s--%s", gap, options[i].name), gap = " ";
}

static void bash_argument(const option_row *o) {
    printf("        --%s", o->name);
    if (o->letter) printf(" | -%c", o->letter);
    fputs(") COMPREPLY=(", stdout);
    void (*list)(void) = list_for(o->hint);
    if (o->hint == HINT_FILE) fputs("$(compgen -f -- \"$cur\")", stdout);
    if (o->hint == HINT_FOLDER) fputs("$(compgen -d -- \"$cur\")", stdout);
    if (list) fputs("$(compgen -W '", stdout), list(), fputs("' -- \"$cur\")", stdout);
    puts("); return ;;");
}

static void bash(void) {
    puts("# bash completion for gquant\n_gquant() {\n"
         "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} IFS=$' \\t\\n'\n"
         "    COMPREPLY=()\n"
         "    case $prev in");
    for (size_t i = 0; i < n_options; i++)
        if (options[i].argument && options[i].help) bash_argument(&options[i]);
    puts("    esac\n    local options types");
    puts("    case ${COMP_WORDS[1]} in");
    for (size_t i = 0; i < n_commands; i++) {
        printf("        %s) options='", commands[i].name ? commands[i].name : "''");
        bash_options(commands[i].id);
        puts("' ;;");
    }
    fputs("        *) options='", stdout), bash_options(CMD_QUANTIZE);
    fputs("' ;;\n    esac\n    types='", stdout), filetypes();
    puts("'\n    if [[ $cur == -* ]]; then\n"
         "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
         "    else\n"
         "        IFS=$'\\n'\n"
         "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
         "        IFS=$' \\t\\n'");
    fputs("        ((COMP_CWORD == 1)) && COMPREPLY+=($(compgen -W '", stdout);
    command_names();
    puts("' -- \"$cur\"))\n"
         "        ((COMP_CWORD > 1)) && COMPREPLY+=($(compgen -W \"$types\" -- \"${cur^^}\"))\n"
         "    fi\n}\ncomplete -o filenames -F _gquant gquant");
}

/* ---- zsh ---- */

/* Inside '...[...]' of _arguments: brackets, colons and quotes would end the text. */
static void zsh_text(const char *text) {
    for (; *text; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
            continue;
        }
        if (strchr("[]:\\", *text)) putchar('\\');
        putchar(*text);
    }
}

static void zsh_option(const option_row *o) {
    bool again = o->kind == OPTION_LIST || o->kind == OPTION_ITEMS || o->kind == OPTION_RECIPE;
    if (o->letter)
        printf("        '(-%c --%s)'{-%c,--%s}'[", o->letter, o->name, o->letter, o->name);
    else
        printf("        '%s--%s[", again ? "*" : "", o->name);
    zsh_text(o->help);
    putchar(']');
    if (o->argument) {
        putchar(':');
        zsh_text(o->argument);
        putchar(':');
        void (*list)(void) = list_for(o->hint);
        if (o->hint == HINT_FILE) fputs("_files", stdout);
        if (o->hint == HINT_FOLDER) fputs("_files -/", stdout);
        if (list) putchar('('), list(), putchar(')');
    }
    puts("' \\");
}

static void zsh(void) {
    puts("#compdef gquant\n_gquant_first() {\n    local -a commands");
    fputs("    commands=(", stdout), command_names();
    puts(")\n    _alternative 'files:file:_files' 'commands:command:compadd -a commands'\n}\n_gquant_word() "
         "{");
    fputs("    local -a types\n    types=(", stdout), filetypes();
    puts(
        ")\n    _alternative 'files:file:_files' 'types:file type:compadd -M \"m:{a-z}={A-Z}\" -a types'\n}");
    puts("_arguments -s \\");
    for (size_t i = 0; i < n_options; i++)
        if (offered(&options[i], CMD_QUANTIZE)) zsh_option(&options[i]);
    puts("        '1:model or command:_gquant_first' '*:file or type:_gquant_word'");
}

/* ---- fish ---- */

/* " -d 'text'" and the end of the line; in fish's quotes a backslash protects. */
static void fish_description(const char *text) {
    fputs(" -d '", stdout);
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') putchar('\\');
        putchar(*text);
    }
    puts("'");
}

static void fish_option(const option_row *o) {
    printf("complete -c gquant -l %s", o->name);
    if (o->letter) printf(" -s %c", o->letter);
    if (o->argument) fputs(o->hint == HINT_FILE || o->hint == HINT_FOLDER ? " -r" : " -x", stdout);
    if (o->hint == HINT_FOLDER) fputs(" -a '(__fish_complete_directories)'", stdout);
    void (*list)(void) = list_for(o->hint);
    if (list) fputs(" -a '", stdout), list(), putchar('\'');
    fish_description(o->help);
}

static void fish(void) {
    puts("# fish completion for gquant");
    for (size_t i = 0; i < n_options; i++)
        if (offered(&options[i], ~0u)) fish_option(&options[i]);
    for (size_t i = 0; i < n_commands; i++) {
        if (!commands[i].name || !commands[i].summary) continue;
        printf("complete -c gquant -n __fish_is_first_token -a %s", commands[i].name);
        fish_description(commands[i].summary);
    }
    fputs("complete -c gquant -n 'not __fish_is_first_token' -a '", stdout), filetypes();
    puts("'");
}

int completion_main(const request *r) {
    static const struct {
        const char *shell;
        void (*print)(void);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(shells[i].shell, r->arguments[0]) == 0) {
            shells[i].print();
            return GQ_OK;
        }
    gq_error e;
    gq_fail_usage(&e, "completion %s: expected bash, zsh or fish", r->arguments[0]);
    return failed(&e);
}
