/* Parses a command line into a request. The command must be known before its options can be read, so
 * first_word_at first walks over everything that looks like an option, which works because an option has the
 * same shape for all commands. getopt_long then reads the line with the options of that command, and
 * option_store turns each argument into a value by the kind in its row. After that shards of one model are
 * joined (path.c), arguments are counted, the main job's bare arguments are interpreted (positional.c), and
 * options that exclude each other are refused (conflicts.c), as are files that would be written over while they
 * are read (paths.c). A misspelt option or command is answered with the nearest known name.
 */
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/cli.h"

/* Returns the commands that take an option, as words of a sentence, malloc'ed; "": none does. */
static char *option_commands(const char *name) {
    char *list = text_format("%s", "");
    for (size_t i = 0; i < n_commands; i++)
        for (size_t o = 0; o < n_options; o++) {
            if (!options[o].name || strcmp(options[o].name, name) != 0 ||
                !(options[o].commands & commands[i].id))
                continue;
            const char *its = commands[i].name ? commands[i].name : "IN TYPE";
            char *longer = text_format("%s%sgquant %s", list, *list ? ", " : "", its);
            free(list), list = longer;
        }
    return list;
}

static bool unknown_option(const char *given, unsigned for_command, gq_error *e) {
    const char *words[n_options];
    size_t n = 0;
    for (size_t i = 0; i < n_options; i++)
        if (options[i].name && options[i].commands & for_command) words[n++] = options[i].name;
    char *name = text_format("%.*s", (int)strcspn(given, "="), given);
    const char *near = text_nearest_word(name + strspn(name, "-"), words, n);
    for (size_t i = 0; i < n && !near; i++) /* an abbreviation that is too short */
        if (strncmp(words[i], name + 2, strlen(name + 2)) == 0) near = words[i];
    char *others = option_commands(name + strspn(name, "-"));
    if (*others)
        gq_fail_usage(e, "unknown option %s here: it is one of %s", name, others);
    else if (near)
        gq_fail_usage(e, "unknown option %s, did you mean --%s?", name, near);
    else
        gq_fail_usage(e, "unknown option %s", name);
    free(name), free(others);
    return false;
}

static bool effort_parse(const char *text, void *effort) {
    for (int i = 0; effort_names[i]; i++)
        if (strcmp(effort_names[i], text) == 0) {
            *(int *)effort = i;
            return true;
        }
    return false;
}

static bool target_bits_parse(const char *text, void *to) {
    char *end;
    double bits = *(double *)to = strtod(text, &end);
    return end > text && *end == 0 && bits > 0 && bits <= 64;
}

/* Parses a number from 0 to 1. In a request 0 means "not given", so a given 0 is stored as -1. */
static bool share_parse(const char *text, void *share) {
    char *end;
    float given = strtof(text, &end);
    *(float *)share = given > 0 ? given : -1;
    return end > text && *end == 0 && given >= 0 && given <= 1;
}

static bool part_parse(const char *text, void *to) {
    const char *slash = strchr(text, '/');
    char left[16];
    uint64_t k, n;
    if (!slash || (size_t)snprintf(left, sizeof left, "%.*s", (int)(slash - text), text) >= sizeof left)
        return false;
    if (!number_parse(slash + 1, 1, UINT32_MAX, &n) || !number_parse(left, 1, n, &k)) return false;
    ((uint32_t *)to)[0] = (uint32_t)k, ((uint32_t *)to)[1] = (uint32_t)n;
    return true;
}

/* Appends an adapter. */
static void adapters_add(gq_adapters *to, const char *path) {
    gq_adapter *items = need_next((void *)to->items, to->n, sizeof *items);
    items[to->n++] = (gq_adapter){.path = path};
    to->items = items;
}

/* Parses the factor of the last adapter. */
static bool factor_parse(const char *text, void *adapters) {
    const gq_adapters *to = adapters;
    char *end;
    double factor = strtod(text, &end);
    if (end == text || *end || !isfinite(factor) || factor == 0 || to->n == 0) return false;
    ((gq_adapter *)to->items)[to->n - 1].scale = factor;
    return true;
}

static bool progress_parse(const char *text, void *plus_one) {
    uint64_t fd = STDERR_FILENO;
    if (strncmp(text, "json", 4) != 0) return false;
    if (text[4] && (text[4] != ':' || !number_parse(text + 5, 1, 65535, &fd))) return false;
    *(int *)plus_one = (int)fd + 1;
    return fcntl((int)fd, F_GETFD) >= 0;
}

/* Finds a type of projectors by its name, in any case; without one it is the first. "none": no projector. */
static bool mmproj_parse(const char *text, void *to) {
    const char *const *t = mmproj_types, **type = to;
    while (*t && text && strcasecmp(*t, text) != 0) t++;
    *type = *t ? *t : !strcmp(text, "none") ? "none" : NULL;
    return *type;
}

static bool threads_parse(const char *text, void *to) {
    uint64_t number = 0;
    bool ok = number_parse(text, 0, 65535, &number);
    *(int *)to = (int)number;
    return ok;
}

static bool count_parse(const char *text, void *to) { return number_parse(text, 1, UINT32_MAX, to); }
static bool bytes_parse(const char *text, void *to) { return size_parse(text, to); }
static bool seconds_parse(const char *text, void *to) { return duration_parse(text, to); }

/* The kinds whose arguments are parsed into a member, and what each expects. */
static const struct {
    bool (*parse)(const char *text, void *to);
    const char *expected;
} kinds[] = {
    [OPTION_NUMBER] = {threads_parse, "a number from 0 (one per core) to 65535"},
    [OPTION_COUNT] = {count_parse, "a whole number from 1 on"},
    [OPTION_SIZE] = {bytes_parse, "a size such as 40G, 7.5GiB or 500M"},
    [OPTION_SIZE_OR_0] = {bytes_parse, "a size such as 40G, 7.5GiB or 500M"},
    [OPTION_TARGET_SIZE] = {bytes_parse, "a size such as 40G, 7.5GiB or 500M"},
    [OPTION_TARGET_BITS] = {target_bits_parse, "a number up to 64, such as 4.6"},
    [OPTION_SHARE] = {share_parse, "a number from 0 to 1"},
    [OPTION_DURATION] = {seconds_parse, "a time such as 2h, 45m, 90s or 1h30m"},
    [OPTION_EFFORT] = {effort_parse, "fast, default or best"},
    [OPTION_PART] = {part_parse, "K/N with K from 1 to N"},
    [OPTION_PROGRESS] = {progress_parse, "json, or json:FD with the number of an open descriptor"},
    [OPTION_FACTOR] = {factor_parse, "a number other than 0, after the --lora that it scales"},
    [OPTION_MMPROJ] = {mmproj_parse, "F16, BF16, F32, Q8_0 or none"},
};

static bool option_store(request *r, const option_row *o, const char *text, gq_error *e) {
    void *to = (char *)r + o->member;
    const char *read = path_of_given(&(struct given){o, text});
    if (read && (option_is_read(o) || o->kind == OPTION_PAIRS) && o->is != ARGUMENT_OLD_FILE)
        list_add(&r->files, read);
    switch (o->kind) {
    case OPTION_FLAG:
        return *(bool *)to = true;
    case OPTION_TEXT:
        if (*(const char **)to && strchr(o->argument, ',')) /* the first list would be lost */
            return gq_fail_usage(e, "--%s %s: it is given twice; name all in one list", o->name, text);
        *(const char **)to = text;
        return true;
    case OPTION_KEPT:
        *(const char **)to = strcmp(text, "none") != 0 ? text : "";
        return true;
    case OPTION_PAIRS:
    case OPTION_LIST:
        return list_add(to, text), true;
    case OPTION_ADAPTER:
        return adapters_add(to, text), true;
    case OPTION_ITEMS:
        if (!*text) return gq_fail_usage(e, "--%s: expected PATTERN=TYPE, found nothing", o->name);
        return recipe_add(r, to, NULL, text, strlen(text), e);
    case OPTION_RECIPE:
        return recipe_add_file(r, to, text, e);
    case OPTION_SIZE_OR_0:
        if (!strcmp(text, "0")) return true; /* as it is */
        break;
    case OPTION_TARGET_SIZE:
        if (filetype_known(text)) return r->size_of[r->n_targets++] = text, true;
        to = &r->targets[r->n_targets++].size;
        break;
    case OPTION_TARGET_BITS:
        to = &r->targets[r->n_targets++].bpw;
        break;
    case OPTION_NUMBER:
    case OPTION_COUNT:
    case OPTION_SIZE:
    case OPTION_SHARE:
    case OPTION_DURATION:
    case OPTION_EFFORT:
    case OPTION_PART:
    case OPTION_PROGRESS:
    case OPTION_FACTOR:
    case OPTION_MMPROJ:
        break;
    }
    return kinds[o->kind].parse(text, to) ||
           gq_fail_usage(e, "--%s%s%s: expected %s", o->name, option_is_optional(o) ? "=" : " ", text,
                         kinds[o->kind].expected);
}

void option_clear(request *r, const option_row *o) {
    void *to = (char *)r + o->member;
    if (o->kind == OPTION_FLAG)
        *(bool *)to = false;
    else if (o->kind == OPTION_TEXT)
        *(const char **)to = NULL;
    else /* OPTION_PROGRESS: option_table.c allows no other */
        *(int *)to = 0;
}

/* Fills the tables of getopt_long: a long name has the value 256 + row, a short one its letter. `mode` is '-'
 * to get non-options in order, wherever they stand, and '+' to stop at the first. */
static void getopt_tables(unsigned for_command, char mode, struct option *longs, char *shorts) {
    *shorts++ = mode, *shorts++ = ':'; /* report missing arguments */
    for (size_t i = 0; i < n_options; i++) {
        const option_row *o = &options[i];
        if (!o->name || !(o->commands & for_command)) continue;
        int takes = !o->argument            ? no_argument
                    : option_is_optional(o) ? optional_argument
                                            : required_argument;
        *longs++ = (struct option){o->name, takes, NULL, 256 + (int)i};
        if (o->letter) *shorts++ = o->letter;
        if (o->letter && o->argument) *shorts++ = ':';
    }
    *longs = (struct option){0};
    *shorts = 0;
}

static const option_row *option_of_value(int value) {
    if (value >= 256) return &options[value - 256];
    for (size_t i = 0; i < n_options; i++)
        if (options[i].letter && options[i].letter == value) return &options[i];
    return NULL;
}

/* Whether the word is the option's name or a long enough abbreviation. Where a name has several words, an
 * abbreviation must reach into the second one: getopt would read "--output" as --output-tensor-type, the only
 * name that begins so, but users mean the output file. */
static bool names_option(const char *word, const option_row *o) {
    size_t n = strcspn(word + 2, "="), first = strcspn(o->name, "-");
    return n > first + 1 || n == strlen(o->name) || !o->name[first];
}

/* Whether a word is the full name of an option. */
static bool is_option_name(const char *word) {
    if (strncmp(word, "--", 2) != 0) return false;
    for (size_t i = 0; i < n_options; i++)
        if (options[i].name && !strcmp(options[i].name, word + 2)) return true;
    return false;
}

static bool parse_options(request *r, int argc, char **argv, gq_error *e) {
    struct option longs[n_options + 1];
    char shorts[2 * n_options + 3];
    getopt_tables(r->command, '-', longs, shorts);
    opterr = 0;
    optind = 0; /* GNU: start afresh, also when called again */
    for (int value, at = 1; (value = getopt_long(argc, argv, shorts, longs, NULL)) != -1; at = optind) {
        if (value == 1) {
            r->arguments[r->n_arguments++] = path_typed(optarg);
            continue;
        }
        r->any_option = true;
        int named = value >= 256 ? value : value != 1 && optopt >= 256 ? optopt : 0;
        if (named && !names_option(argv[at], option_of_value(named)))
            return unknown_option(argv[at], r->command, e);
        if (value == ':') {
            const option_row *o = option_of_value(optopt);
            return gq_fail_usage(e, "option --%s needs %s", o->name, o->argument);
        } else if (value == '?' && optopt >= 256) {
            return gq_fail_usage(e, "option --%s takes no argument", option_of_value(optopt)->name);
        } else if (value == '?' && optopt) {
            return gq_fail_usage(e, "unknown option -%c", optopt);
        } else if (value == '?') {
            return unknown_option(argv[optind > 0 ? optind - 1 : 0], r->command, e);
        } else {
            r->given = need_next(r->given, r->n_given, sizeof *r->given);
            const option_row *o = option_of_value(value);
            const char *word = argv[optind - 1];
            if (optarg == word && is_option_name(word))
                return gq_fail_usage(e, "option --%s needs %s, found %s", o->name, o->argument, word);
            char *text = option_is_file(o) ? path_typed(optarg) : optarg;
            r->given[r->n_given++] = (struct given){o, text};
            if (!option_store(r, o, text, e)) return false;
        }
    }
    while (optind < argc) r->arguments[r->n_arguments++] = path_typed(argv[optind++]); /* behind "--" */
    return true;
}

/* True, with an error, if the first word is no file but close to a command's name. */
static bool misspelt_command(const char *word, gq_error *e) {
    const char *near = *word != '-' && access(word, F_OK) != 0 ? command_nearest(word) : NULL;
    return near && !gq_fail_usage(e, "no file or command '%s'; did you mean 'gquant %s'?", word, near);
}

/* Returns the index of the first word that is neither an option nor an option's argument. argc: there is
 * none, an option before it cannot be read, or "--" stands before it. This works before the command is known,
 * since an option has the same shape for all commands. */
static int first_word_at(int argc, char **argv) {
    struct option longs[n_options + 1];
    char shorts[2 * n_options + 3];
    getopt_tables(~0u, '+', longs, shorts);
    opterr = 0;
    optind = 0;
    for (int value, before = 1; (value = getopt_long(argc, argv, shorts, longs, NULL)) != '?' && value != ':';
         before = optind)
        if (value == -1) return optind == before ? optind : argc; /* "--" moves optind, a word does not */
    return argc;
}

static bool check_argument_count(const request *r, gq_error *e) {
    const command_row *c = command_of(r->command);
    bool missing = r->n_arguments < c->min;
    if (!missing && r->n_arguments <= c->max) return true;
    return gq_fail_usage(e, "%s; usage: gquant %s%s%s",
                         missing ? "arguments are missing" : "too many arguments", c->name ? c->name : "",
                         c->name ? " " : "", c->arguments);
}

/* Commands whose arguments, or the first of them, are models. */
enum { MODELS = CMD_QUANTIZE | CMD_INFO | CMD_PLAN | CMD_COMPARE | CMD_VERIFY | CMD_EVALUATE };

/* Puts what options name in place of arguments where those stand: OUT behind IN, or last, and TYPE last. */
static void place_named_arguments(request *r) {
    size_t at = r->command == CMD_QUANTIZE && r->n_arguments ? 1 : r->n_arguments;
    if (r->output) {
        memmove(r->arguments + at + 1, r->arguments + at, (r->n_arguments - at) * sizeof *r->arguments);
        r->arguments[at] = r->output;
        r->n_arguments++;
    }
    if (r->type) r->arguments[r->n_arguments++] = r->type;
}

/* Refuses by name what runs models, in a build that does not. */
static bool check_forward(const request *r, gq_error *e) {
#ifdef GQ_NO_FORWARD
#define NO_FORWARD "this build has no forward pass: build it with -DGQUANT_FORWARD=ON"
    bool computes = r->command == CMD_IMATRIX && r->n_arguments && !strcmp(r->arguments[0], "compute"),
         is_run = r->command & (CMD_TOKENIZE | CMD_PUBLISH) || (r->command == CMD_EVALUATE && !r->speed);
    if (computes || is_run)
        return gq_fail_usage(e, "gquant %s%s runs models, and " NO_FORWARD, command_of(r->command)->name,
                             computes ? " compute" : "");
    for (size_t i = 0; i < r->n_given; i++)
        if (r->given[i].option->commands & FORWARD)
            return gq_fail_usage(e, "--%s runs the model, and " NO_FORWARD, r->given[i].option->name);
#endif
    (void)r, (void)e;
    return true;
}

bool request_parse(request *r, int argc, char **argv, gq_error *e) {
    *r = (request){.command = CMD_QUANTIZE, .quantize.size = sizeof r->quantize};
    r->arguments = need_memory((size_t)argc + 1, sizeof *r->arguments);
    r->targets = need_memory((size_t)argc + 1, sizeof *r->targets);
    r->size_of = need_memory((size_t)argc + 1, sizeof *r->size_of);
    int first = first_word_at(argc, argv);
    const command_row *c = first < argc ? command_named(argv[first]) : NULL;
    char **words = need_memory((size_t)argc + 1, sizeof *words); /* without the command's name */
    memcpy(words, argv, (size_t)argc * sizeof *words);
    if (c) {
        r->command = c->id;
        memmove(words + first, words + first + 1, (size_t)(argc - first) * sizeof *words);
        argc--;
    }
    bool ok =
        (c || first >= argc ||
         (!positional_fail_verb(argv[first], argv + first + 1, (size_t)(argc - first - 1), first > 1, e) &&
          !misspelt_command(argv[first], e))) &&
        parse_options(r, argc, words, e);
    free(words);
    if (!ok || r->help || r->version) return ok;
    if (!check_forward(r, e)) return false;
    if (r->like && !request_take_like(r, e)) return false;
    if (r->command & MODELS) path_join_shards(r->arguments, &r->n_arguments);
    place_named_arguments(r);
    return check_argument_count(r, e) && (r->command != CMD_QUANTIZE || request_outputs(r, e)) &&
           request_check_conflicts(r, e) && paths_check(r, e);
}
