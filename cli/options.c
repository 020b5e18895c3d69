#include "cli/options.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/text.h"

const command_row commands[] = {
    {CMD_QUANTIZE, quantize_main, NULL, "[options] IN [OUT] TYPE [THREADS]", "quantize a GGUF model", 1,
     SIZE_MAX},
    {CMD_INFO, info_main, "info", "FILE", "show metadata, tensors and types of a model", 1, 1},
    {CMD_PLAN, plan_main, "plan", "[--ram SIZE] MODEL", "list sizes, memory to run, and what fits", 1, 1},
    {CMD_COMPARE, compare_main, "compare", "ORIGINAL COPY...", "measure how far copies are from the original",
     2, SIZE_MAX},
    {CMD_VERIFY, verify_main, "verify", "FILE", "check structure, values, codes and checksums", 1, 1},
    {CMD_IMATRIX, imatrix_main, "imatrix", "show FILE [MODEL] | merge IN... OUT | convert IN OUT",
     "look into importance data, merge it, change its layout", 2, SIZE_MAX},
    {CMD_TOKENIZE, tokenize_main, "tokenize", "MODEL TEXT", "show a text's tokens, one id per line", 2, 2},
    {CMD_TYPES, types_main, "types", "", "list the file types", 0, 0},
    {CMD_COMPLETION, completion_main, "completion", "bash|zsh|fish", NULL, 1, 1},
};
const size_t n_commands = sizeof commands / sizeof *commands;

const char *const effort_names[] = {
    [GQ_EFFORT_DEFAULT] = "default", [GQ_EFFORT_FAST] = "fast", [GQ_EFFORT_BEST] = "best", NULL};

enum {
    Q = CMD_QUANTIZE,
    I = CMD_INFO,
    C = CMD_COMPARE,
    V = CMD_VERIFY,
    M = CMD_IMATRIX,
    P = CMD_PLAN,
    T = CMD_TOKENIZE,
    ALL = ~0
};
#define HEADING(text) \
    { .help = (text) }
#define FLAG(name, letter, member, commands, help) \
    { name, letter, NULL, OPTION_FLAG, HINT_NONE, offsetof(request, member), commands, help }
#define VALUE(name, letter, argument, kind, hint, member, commands, help) \
    { name, letter, argument, OPTION_##kind, HINT_##hint, offsetof(request, member), commands, help }

const option_row options[] = {
    HEADING("Types:"),
    VALUE("imatrix", 0, "FILE", TEXT, FILE, quantize.imatrix, Q | C | P,
          "importance data (.dat or GGUF, plain or gzip)"),
    VALUE("include-weights", 0, "TEXT", LIST, NONE, quantize.include_weights, Q | P,
          "use importance only for names with TEXT"),
    VALUE("exclude-weights", 0, "TEXT", LIST, NONE, quantize.exclude_weights, Q | P,
          "do not use it for names with TEXT"),
    VALUE("missing-importance", 0, "TYPE", TEXT, TENSOR_TYPE, quantize.missing_importance, Q | P,
          "where a type demands data that it lacks"),
    VALUE("target-size", 0, "SIZE", TARGET_SIZE, NONE, targets, Q,
          "in place of TYPE: the best mix in SIZE (7.5G)"),
    VALUE("target-bpw", 0, "BITS", TARGET_BITS, NONE, targets, Q, "the same by bits per weight (4.6)"),
    VALUE("measure-file", 0, "FILE", TEXT, FILE, quantize.measure_file, Q,
          "keep a target's measurements here, or 'none'"),
    FLAG("pure", 0, quantize.pure, Q, "the base type for every tensor, no mix"),
    VALUE("tensor-type", 0, "REGEX=TYPE", ITEMS, NONE, quantize.tensor_types, Q | P,
          "TYPE for names that match; first match wins"),
    VALUE("custom-q", 0, "REGEX=TYPE", ITEMS, NONE, quantize.tensor_types, Q | P, NULL),
    VALUE("tensor-type-file", 0, "FILE", RECIPE, FILE, quantize.tensor_types, Q | P, "a file of such items"),
    VALUE("output-tensor-type", 0, "TYPE", TEXT, TENSOR_TYPE, quantize.output_tensor_type, Q | P,
          "type of output.weight"),
    VALUE("token-embedding-type", 0, "TYPE", TEXT, TENSOR_TYPE, quantize.token_embedding_type, Q | P,
          "type of the token embedding"),
    FLAG("leave-output-tensor", 0, quantize.leave_output_tensor, Q | P, "keep output.weight as it is"),
    VALUE("keep", 0, "REGEX", LIST, NONE, quantize.keep, Q | P, "keep tensors that match as they are"),
    FLAG("allow-requantize", 0, quantize.allow_requantize, Q, "accept tensors that are quantized already"),
    VALUE("effort", 0, "LEVEL", EFFORT, EFFORT, quantize.effort, Q, "fast, default or best"),
    FLAG("strict", 0, quantize.strict, Q, "a fallback to another type is an error"),
    HEADING("Model:"),
    VALUE("prune-layers", 0, "N,N,...", TEXT, NONE, quantize.prune_layers, Q | P, "leave these layers out"),
    VALUE("override-kv", 0, "KEY=T:VALUE", LIST, NONE, quantize.override_kv, Q | P,
          "set metadata; T: int, float, bool, str"),
    FLAG("imatrix-path", 0, quantize.imatrix_path, Q, "store the path of --imatrix, not its name"),
    HEADING("Output:"),
    VALUE("out-dir", 0, "DIR", TEXT, FOLDER, out_dir, Q, "several TYPEs (or NAME=TYPE) in one read"),
    FLAG("force", 0, quantize.force, Q | M, "replace an existing OUT"),
    FLAG("keep-split", 0, quantize.keep_split, Q, "as many shards as IN has"),
    VALUE("split-max-size", 0, "SIZE", SIZE, NONE, quantize.split_max_size, Q,
          "shards of at most SIZE (40G, 500M)"),
    VALUE("part", 0, "K/N", PART, NONE, quantize.part, Q, "do the K-th of N shares of the work"),
    FLAG("join", 0, quantize.join, Q, "finish a file whose shares are done"),
    HEADING("Run:"),
    VALUE("threads", 't', "N", NUMBER, NONE, quantize.threads, Q | C | V, "default: one per core"),
    FLAG("dry-run", 'n', dry_run, Q, "show the plan, read no weight, write nothing"),
    VALUE("report", 'r', "FILE", TEXT, FILE, report, Q | C | V,
          "report as .html, .json, .csv; verify reads it"),
    VALUE("recipe-out", 0, "FILE", TEXT, FILE, recipe_out, Q, "write the types for --tensor-type-file"),
    FLAG("quiet", 'q', quiet, ALL, "errors only"),
    FLAG("verbose", 'v', verbose, Q, "a line per tensor as it is done"),
    VALUE("progress", 0, "json[:FD]", PROGRESS, NONE, progress, Q | C | V,
          "progress as JSON lines on standard error or FD"),
    FLAG("json", 0, json, I | M | P | C | V, "print JSON"),
    FLAG("full-paths", 0, full_paths, Q | C, "paths in reports, not only names of files"),
    VALUE("ram", 0, "SIZE", SIZE, NONE, ram, P, "memory there is (16G, 16Gi)"),
    VALUE("context", 0, "TOKENS", COUNT, NONE, context, P,
          "tokens to run with; default: 8192, or the model's own"),
    FLAG("count", 0, count, T, "only how many tokens there are"),
    FLAG("no-bos", 0, no_bos, T, "leave out the tokens that begin and end a text"),
    FLAG("parse-special", 0, parse_special, T, "find control tokens such as <|im_end|> in the text"),
    FLAG("help", 'h', help, ALL, "this text; 'gquant types' lists the file types"),
    FLAG("version", 'V', version, ALL, "version and instruction set"),
};
const size_t n_options = sizeof options / sizeof *options;

void list_add(gq_list *list, const char *text) {
    const char **items = need_next((void *)list->items, list->n, sizeof *items);
    items[list->n++] = text;
    list->items = items;
}

char *own_text(request *r, char *text) {
    r->owned = need_next(r->owned, r->n_owned, sizeof *r->owned);
    return r->owned[r->n_owned++] = text;
}

static bool unknown_option(const char *given, unsigned for_command, gq_error *e) {
    const char *words[n_options];
    size_t n = 0;
    for (size_t i = 0; i < n_options; i++)
        if (options[i].name && options[i].commands & for_command) words[n++] = options[i].name;
    char *name = format("%.*s", (int)strcspn(given, "="), given);
    const char *near = nearest(name + strspn(name, "-"), words, n);
    if (near)
        gq_fail_usage(e, "unknown option %s, did you mean --%s?", name, near);
    else
        gq_fail_usage(e, "unknown option %s", name);
    free(name);
    return false;
}

static bool effort_parse(const char *text, int *effort) {
    for (int i = 0; effort_names[i]; i++)
        if (strcmp(effort_names[i], text) == 0) {
            *effort = i;
            return true;
        }
    return false;
}

static bool bits_parse(const char *text, double *bits) {
    char *end;
    *bits = strtod(text, &end);
    return end > text && *end == 0 && *bits > 0 && *bits <= 64;
}

static bool part_parse(const char *text, uint32_t part[2]) {
    const char *slash = strchr(text, '/');
    char left[16];
    uint64_t k, n;
    if (!slash || (size_t)snprintf(left, sizeof left, "%.*s", (int)(slash - text), text) >= sizeof left)
        return false;
    if (!number_parse(slash + 1, 1, UINT32_MAX, &n) || !number_parse(left, 1, n, &k)) return false;
    part[0] = (uint32_t)k, part[1] = (uint32_t)n;
    return true;
}

static bool progress_parse(const char *text, int *plus_one) {
    uint64_t fd = STDERR_FILENO;
    if (strncmp(text, "json", 4) != 0) return false;
    if (text[4] && (text[4] != ':' || !number_parse(text + 5, 1, 65535, &fd))) return false;
    *plus_one = (int)fd + 1;
    return fcntl((int)fd, F_GETFD) >= 0;
}

/* A file that the command makes. */
static bool is_result(const option_row *o) {
    return o->member == offsetof(request, report) || o->member == offsetof(request, recipe_out);
}

static bool store(request *r, const option_row *o, const char *text, gq_error *e) {
    void *to = (char *)r + o->member;
    uint64_t number;
    if (o->hint == HINT_FILE && !is_result(o)) list_add(&r->files, text);
    switch (o->kind) {
    case OPTION_FLAG:
        *(bool *)to = true;
        return true;
    case OPTION_TEXT:
        *(const char **)to = text;
        return true;
    case OPTION_LIST:
        list_add(to, text);
        return true;
    case OPTION_NUMBER:
        if (!number_parse(text, 0, 65535, &number))
            return gq_fail_usage(e, "--%s %s: expected a number from 0 (one per core) to 65535", o->name,
                                 text);
        *(int *)to = (int)number;
        return true;
    case OPTION_COUNT:
        return number_parse(text, 1, UINT32_MAX, to) ||
               gq_fail_usage(e, "--%s %s: expected a number from 1", o->name, text);
    case OPTION_SIZE:
    case OPTION_TARGET_SIZE:
        if (o->kind == OPTION_TARGET_SIZE) to = &r->targets[r->n_targets++].size;
        if (!size_parse(text, to))
            return gq_fail_usage(e, "--%s %s: expected a size such as 40G, 7.5GiB or 500M", o->name, text);
        return true;
    case OPTION_TARGET_BITS:
        return bits_parse(text, &r->targets[r->n_targets++].bpw) ||
               gq_fail_usage(e, "--%s %s: expected a number up to 64, such as 4.6", o->name, text);
    case OPTION_EFFORT:
        return effort_parse(text, to) ||
               gq_fail_usage(e, "--%s %s: expected fast, default or best", o->name, text);
    case OPTION_PART:
        return part_parse(text, to) ||
               gq_fail_usage(e, "--%s %s: expected K/N with K from 1 to N", o->name, text);
    case OPTION_PROGRESS:
        return progress_parse(text, to) ||
               gq_fail_usage(e, "--%s %s: expected json, or json:FD with the number of an open descriptor",
                             o->name, text);
    case OPTION_ITEMS:
        if (!*text) return gq_fail_usage(e, "--%s: expected PATTERN=TYPE, found nothing", o->name);
        return recipe_add(r, to, NULL, text, strlen(text), e);
    case OPTION_RECIPE:
        return recipe_add_file(r, to, text, e);
    }
    return false;
}

/* The table as getopt_long wants it: value 256 + row for a long name, the letter for a short one. `mode` is
 * '-' for non-options in order, wherever they stand, and '+' to stop at the first. */
static void getopt_tables(unsigned for_command, char mode, struct option *longs, char *shorts) {
    *shorts++ = mode, *shorts++ = ':'; /* report missing arguments */
    for (size_t i = 0; i < n_options; i++) {
        const option_row *o = &options[i];
        if (!o->name || !(o->commands & for_command)) continue;
        *longs++ =
            (struct option){o->name, o->argument ? required_argument : no_argument, NULL, 256 + (int)i};
        if (o->letter) *shorts++ = o->letter;
        if (o->letter && o->argument) *shorts++ = ':';
    }
    *longs = (struct option){0};
    *shorts = 0;
}

static const option_row *row_of(int value) {
    if (value >= 256) return &options[value - 256];
    for (size_t i = 0; i < n_options; i++)
        if (options[i].letter && options[i].letter == value) return &options[i];
    return NULL;
}

static bool parse_options(request *r, int argc, char **argv, gq_error *e) {
    struct option longs[n_options + 1];
    char shorts[2 * n_options + 3];
    getopt_tables(r->command, '-', longs, shorts);
    opterr = 0;
    optind = 0; /* GNU: start afresh, also when called again */
    for (int value; (value = getopt_long(argc, argv, shorts, longs, NULL)) != -1;) {
        if (value == 1) {
            r->arguments[r->n_arguments++] = optarg;
            continue;
        }
        r->any_option = true;
        if (value == ':') {
            const option_row *o = row_of(optopt);
            return gq_fail_usage(e, "option --%s needs %s", o->name, o->argument);
        } else if (value == '?' && optopt >= 256) {
            return gq_fail_usage(e, "option --%s takes no argument", row_of(optopt)->name);
        } else if (value == '?' && optopt) {
            return gq_fail_usage(e, "unknown option -%c", optopt);
        } else if (value == '?') {
            return unknown_option(argv[optind > 0 ? optind - 1 : 0], r->command, e);
        } else {
            r->given = need_next(r->given, r->n_given, sizeof *r->given);
            r->given[r->n_given++] = (struct given){row_of(value), optarg};
            if (!store(r, row_of(value), optarg, e)) return false;
        }
    }
    while (optind < argc) r->arguments[r->n_arguments++] = argv[optind++]; /* behind "--" */
    return true;
}

const command_row *request_command(const request *r) {
    for (size_t i = 0; i < n_commands; i++)
        if (commands[i].id == r->command) return &commands[i];
    return NULL;
}

/* A first word that is no file but looks like a command's name. */
static bool misspelt_command(const char *word, gq_error *e) {
    const char *words[n_commands];
    size_t n = 0;
    for (size_t i = 0; i < n_commands; i++)
        if (commands[i].name && commands[i].summary) words[n++] = commands[i].name;
    const char *near = *word != '-' && access(word, F_OK) != 0 ? nearest(word, words, n) : NULL;
    return near &&
           !gq_fail_usage(e, "there is no file or command '%s', did you mean 'gquant %s'?", word, near);
}

/* Index of the first word that is neither an option nor an option's argument; argc: there is none, or an
 * option before it cannot be read, or "--" is. An option's shape is the same for all commands, so this can be
 * told before the command is known. */
static int first_word(int argc, char **argv) {
    struct option longs[n_options + 1];
    char shorts[2 * n_options + 3];
    getopt_tables(ALL, '+', longs, shorts);
    opterr = 0;
    optind = 0;
    for (int value, before = 1; (value = getopt_long(argc, argv, shorts, longs, NULL)) != '?' && value != ':';
         before = optind)
        if (value == -1) return optind == before ? optind : argc; /* "--" moves optind, a word does not */
    return argc;
}

static const command_row *command_named(const char *name) {
    for (size_t i = 0; i < n_commands; i++)
        if (commands[i].name && strcmp(name, commands[i].name) == 0) return &commands[i];
    return NULL;
}

static bool check_count(const request *r, gq_error *e) {
    const command_row *c = request_command(r);
    bool missing = r->n_arguments < c->min;
    if (!missing && r->n_arguments <= c->max) return true;
    return gq_fail_usage(e, "%s; usage: gquant %s%s%s",
                         missing ? "something is missing" : "too many arguments", c->name ? c->name : "",
                         c->name ? " " : "", c->arguments);
}

bool request_parse(request *r, int argc, char **argv, gq_error *e) {
    *r = (request){.command = CMD_QUANTIZE};
    r->arguments = need((size_t)argc + 1, sizeof *r->arguments);
    r->targets = need((size_t)argc + 1, sizeof *r->targets);
    int first = first_word(argc, argv);
    const command_row *c = first < argc ? command_named(argv[first]) : NULL;
    char **words = need((size_t)argc + 1, sizeof *words); /* without the command's name */
    memcpy(words, argv, (size_t)argc * sizeof *words);
    if (c) {
        r->command = c->id;
        memmove(words + first, words + first + 1, (size_t)(argc - first) * sizeof *words);
        argc--;
    }
    bool ok = (c || first >= argc || !misspelt_command(argv[first], e)) && parse_options(r, argc, words, e);
    free(words);
    if (!ok || r->help || r->version) return ok;
    return check_count(r, e) && (r->command != CMD_QUANTIZE || request_outputs(r, e));
}

void request_free(request *r) {
    gq_options *q = &r->quantize;
    gq_list *lists[] = {&q->tensor_types,    &q->keep,        &q->include_weights,
                        &q->exclude_weights, &q->override_kv, &r->files};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) free((void *)lists[i]->items);
    for (size_t i = 0; i < r->n_owned; i++) free(r->owned[i]);
    free(r->owned), free(r->given);
    free((void *)q->outputs);
    free(r->targets);
    free(r->arguments);
    *r = (request){0};
}
