/* Completion scripts for bash, zsh and fish, printed to standard output. All three are made from the tables
 * of options.h when the command runs, so they cannot lag behind the options; only the first words of
 * `imatrix` and `completion` are listed here. The shells want different things: bash one function that finds
 * the command in the line and then offers that command's words, zsh a call of _arguments per command, fish
 * one `complete` line per option with the commands for which it holds. Types and effort levels are printed as
 * lists; names of files and folders are left to the shell.
 */
#include <string.h>

#include "cli/cli.h"

static void print_words(const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++) printf("%s%s", i ? " " : "", list[i]);
}

static void print_filetypes(void) {
    const char *gap = "";
    for (size_t i = 0; i < gq_filetype_count(); i++) printf("%s%s", gap, gq_filetype_name(i)), gap = " ";
}

static void print_command_names(void) {
    const char *gap = "";
    for (size_t i = 0; i < n_commands; i++)
        if (commands[i].name && commands[i].summary) printf("%s%s", gap, commands[i].name), gap = " ";
}

/* Names of the types that tensors can be quantized to. */
static void print_tensor_types(void) {
    const char *gap = "";
    for (uint32_t t = 0; t < 64; t++)
        if (gq_type_writable(t)) printf("%s%s", gap, gq_type_name(t)), gap = " ";
}

static void print_efforts(void) { print_words(effort_names, 3); }
static void print_mmproj_types(void) { print_words(mmproj_types, 4); }

static const struct {
    option_argument is;
    void (*print)(void);
} lists[] = {{ARGUMENT_TENSOR_TYPE, print_tensor_types},
             {ARGUMENT_EFFORT, print_efforts},
             {ARGUMENT_MMPROJ, print_mmproj_types}};

static void (*words_for(option_argument is))(void) {
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (lists[i].is == is) return lists[i].print;
    return NULL;
}

static bool option_is_offered(const option_row *o, unsigned for_command) {
    return o->name && o->help && o->commands & for_command;
}

/* Returns the words that a command's first argument may be, besides files. */
static const char *first_words_of(const command_row *c) {
    static char names[256];
    if (c->id == CMD_IMATRIX) return "compute show merge convert";
    if (c->id == CMD_COMPLETION) return "bash zsh fish";
    if (c->id != CMD_HELP) return NULL;
    for (size_t i = 0, n = (size_t)snprintf(names, sizeof names, "all"); i < n_commands; i++)
        if (commands[i].name && commands[i].id != CMD_HELP && n < sizeof names)
            n += (size_t)snprintf(names + n, sizeof names - n, " %s", commands[i].name);
    return names;
}

static bool takes_files(const command_row *c) {
    return c->max > 0 && c->id != CMD_COMPLETION && c->id != CMD_HELP;
}

/* ---- bash ---- */

static void bash_options(unsigned for_command) {
    const char *gap = "";
    for (size_t i = 0; i < n_options; i++)
        if (option_is_offered(&options[i], for_command)) printf("%s--%s", gap, options[i].name), gap = " ";
}

static void bash_argument(const option_row *o) {
    printf("        --%s", o->name);
    if (o->letter) printf(" | -%c", o->letter);
    fputs(option_is_optional(o) ? ") [[ $given ]] && COMPREPLY=(" : ") COMPREPLY=(", stdout);
    void (*list)(void) = words_for(o->is);
    if (option_is_file(o)) printf("$(compgen -%c -- \"$cur\")", option_is_folder(o) ? 'd' : 'f');
    const char *typed = o->is == ARGUMENT_TENSOR_TYPE || o->is == ARGUMENT_MMPROJ
                            ? "${cur^^}"
                            : "$cur"; /* types in any case */
    if (list) fputs("$(compgen -W '", stdout), list(), printf("' -- \"%s\")", typed);
    puts(option_is_optional(o) ? ") && return ;;" : "); return ;;");
}

static void bash_command(const command_row *c) {
    printf("        %s)\n            options='", c->name ? c->name : "*");
    bash_options(c->id);
    puts("'");
    if (!c->name) fputs("            types='", stdout), print_filetypes(), puts("'");
    if (first_words_of(c))
        printf("            ((COMP_CWORD == at + 1)) && words='%s' files=\n", first_words_of(c));
    puts(takes_files(c) ? "            ;;" : "            files= ;;");
}

/* Prints the case for options whose argument is the next word, or the one behind an equals sign. */
static void bash_skip(void) {
    const char *gap = "            ";
    for (size_t i = 0; i < n_options; i++) {
        if (!options[i].name || !options[i].argument || option_is_optional(&options[i])) continue;
        printf("%s--%s", gap, options[i].name), gap = "|";
        if (options[i].letter) printf("|-%c", options[i].letter);
    }
    puts(") [[ ${COMP_WORDS[at+1]} == = ]] && ((at++)); ((at++)) ;;");
    for (size_t i = 0; i < n_options; i++)
        if (options[i].name && option_is_optional(&options[i]))
            printf("            --%s) [[ ${COMP_WORDS[at+1]} == = ]] && ((at += 2)) ;;\n", options[i].name);
}

static void bash_script(void) {
    puts("# bash completion for gquant\n_gquant() {\n"
         "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} IFS=$' \\t\\n'\n"
         "    COMPREPLY=()\n"
         "    # --option=value comes as three words\n"
         "    local given=\n"
         "    if [[ $cur == = ]]; then cur= given=1\n"
         "    elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]} given=1\n"
         "    fi\n"
         "    case $prev in");
    for (size_t i = 0; i < n_options; i++)
        if (options[i].argument && options[i].help) bash_argument(&options[i]);
    puts("    esac\n    local options= types= words= files=1 at=1\n"
         "    # the command is the first word that is neither an option nor an option's argument\n"
         "    for ((; at < COMP_CWORD; at++)); do\n"
         "        case ${COMP_WORDS[at]} in");
    bash_skip();
    puts("            -*) ;;\n            *) break ;;\n        esac\n    done\n"
         "    case ${COMP_WORDS[at]} in");
    for (size_t i = 0; i < n_commands; i++)
        if (commands[i].name) bash_command(&commands[i]);
    bash_command(&commands[0]); /* "*": the main job */
    fputs("    esac\n    ((COMP_CWORD == at)) && types= words='", stdout);
    print_command_names();
    puts(
        "'\n    if [[ $cur == -* ]]; then\n"
        "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
        "    else\n"
        "        IFS=$'\\n'\n"
        "        [[ $files ]] && COMPREPLY=($(compgen -f -- \"$cur\"))\n"
        "        IFS=$' \\t\\n'\n"
        "        COMPREPLY+=($(compgen -W \"$words\" -- \"$cur\") $(compgen -W \"$types\" -- \"${cur^^}\"))\n"
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
    bool again = o->kind == OPTION_LIST || o->kind == OPTION_PAIRS || o->kind == OPTION_ITEMS ||
                 o->kind == OPTION_RECIPE;
    /* The argument follows an equals sign or is the next word; an optional argument only follows the sign. */
    const char *value = option_is_optional(o) ? "=-" : o->argument ? "=" : "";
    if (o->letter)
        printf("        '(-%c --%s)'{-%c,--%s%s}'[", o->letter, o->name, o->letter, o->name, value);
    else
        printf("        '%s--%s%s[", again ? "*" : "", o->name, value);
    zsh_text(o->help);
    putchar(']');
    if (o->argument) {
        fputs(option_is_optional(o) ? "::" : ":", stdout);
        zsh_text(option_is_optional(o) ? "TYPE" : o->argument);
        putchar(':');
        static const char *const actions[] = {[ARGUMENT_TENSOR_TYPE] = "_gquant_tensor_type",
                                              [ARGUMENT_EFFORT] = "(fast default best)",
                                              [ARGUMENT_MMPROJ] = "(F16 BF16 F32 Q8_0)"};
        if (option_is_file(o))
            fputs(option_is_folder(o) ? "_files -/" : "_files", stdout);
        else if (actions[o->is])
            fputs(actions[o->is], stdout);
    }
    puts("' \\");
}

static void zsh_options(unsigned for_command) {
    puts("_arguments -s \\");
    for (size_t i = 0; i < n_options; i++)
        if (option_is_offered(&options[i], for_command)) zsh_option(&options[i]);
}

static void zsh_command(const command_row *c) {
    printf("    (%s)\n    shift words; ((CURRENT--))\n    ", c->name);
    zsh_options(c->id);
    if (first_words_of(c)) printf("        '1:%s:(%s)' \\\n", c->name, first_words_of(c));
    puts(takes_files(c) ? "        '*:file:_files'" : "        && return");
    puts("    return ;;");
}

/* A function that offers words in any case. */
static void zsh_words(const char *name, void (*list)(void)) {
    printf("%s() {\n    local -a types\n    types=(", name), list();
    puts(")\n    compadd -M \"m:{a-z}={A-Z}\" -a types\n}");
}

static void zsh_script(void) {
    puts("#compdef gquant");
    zsh_words("_gquant_tensor_type", print_tensor_types);
    zsh_words("_gquant_file_type", print_filetypes);
    puts("_gquant_first() {\n    local -a commands");
    fputs("    commands=(", stdout), print_command_names();
    puts(")\n    _alternative 'files:file:_files' 'commands:command:compadd -a commands'\n}\n_gquant_word() "
         "{\n    _alternative 'files:file:_files' 'types:file type:_gquant_file_type'\n}");
    puts("if ((CURRENT > 2)); then\n    case $words[2] in");
    for (size_t i = 0; i < n_commands; i++)
        if (commands[i].name) zsh_command(&commands[i]);
    puts("    esac\nfi");
    zsh_options(CMD_QUANTIZE);
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

/* Prints " SUBCOMMANDS": those that know the option (`know`), or those that do not. */
static void fish_commands(unsigned mask, bool know) {
    for (size_t i = 0; i < n_commands; i++)
        if (commands[i].name && !(commands[i].id & mask) == !know) printf(" %s", commands[i].name);
}

/* Prints the condition for offering an option: behind its commands, or anywhere but behind those that lack
 * it. */
static void fish_condition(unsigned mask) {
    if (mask == ~0u) return;
    fputs(mask & CMD_QUANTIZE ? " -n 'not __fish_seen_subcommand_from" : " -n '__fish_seen_subcommand_from",
          stdout);
    fish_commands(mask, !(mask & CMD_QUANTIZE));
    putchar('\'');
}

static void fish_option(const option_row *o) {
    printf("complete -c gquant -l %s", o->name);
    if (o->letter) printf(" -s %c", o->letter);
    fish_condition(o->commands);
    if (o->argument && !option_is_optional(o)) fputs(option_is_file(o) ? " -r" : " -x", stdout);
    if (option_is_folder(o)) fputs(" -a '(__fish_complete_directories)'", stdout);
    void (*list)(void) = words_for(o->is);
    if (list) fputs(" -a '", stdout), list(), putchar('\'');
    fish_description(o->help);
}

static void fish_command(const command_row *c) {
    if (c->summary) {
        printf("complete -c gquant -n __fish_is_first_token -a %s", c->name);
        fish_description(c->summary);
    }
    if (first_words_of(c))
        printf("complete -c gquant -n '__fish_seen_subcommand_from %s; and not __fish_seen_subcommand_from "
               "%s' -f -a '%s'\n",
               c->name, first_words_of(c), first_words_of(c));
    if (!takes_files(c)) printf("complete -c gquant -n '__fish_seen_subcommand_from %s' -f\n", c->name);
}

static void fish_script(void) {
    puts("# fish completion for gquant");
    for (size_t i = 0; i < n_options; i++)
        if (option_is_offered(&options[i], ~0u)) fish_option(&options[i]);
    for (size_t i = 0; i < n_commands; i++)
        if (commands[i].name) fish_command(&commands[i]);
    fputs("complete -c gquant -n 'not __fish_is_first_token; and not __fish_seen_subcommand_from", stdout);
    fish_commands(0, false);
    fputs("' -a '", stdout), print_filetypes();
    puts("'");
}

int completion_main(const request *r) {
    static const struct {
        const char *shell;
        void (*print)(void);
    } shells[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(shells[i].shell, r->arguments[0]) == 0) {
            shells[i].print();
            return GQ_OK;
        }
    gq_error e;
    gq_fail_usage(&e, "completion %s: expected bash, zsh or fish", r->arguments[0]);
    return say_failure(r->said, &e);
}
