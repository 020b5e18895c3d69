/* Interprets the bare arguments of the main job:
 *
 *     IN TYPE                   OUT is named after IN
 *     IN TYPE THREADS
 *     IN OUT TYPE [THREADS]
 *     IN OUT=TYPE OUT=TYPE...   several outputs
 *     IN TYPE TYPE...           with --out-dir
 *     IN [OUT] [THREADS]        with one target
 *     IN [TYPE...]              with several, or one and --out-dir: TYPE and OUT=TYPE as above
 *     IN                        with --mmproj: the projector alone
 *
 * File types also have numbers, so in IN TYPE NUMBER the number means THREADS. An OUT that reads as a file
 * type is refused, since it is more likely a slip; so is a TYPE in IN's place. A file of such a name is
 * written ./NAME. Each error shows the line that was likely meant, with options as "...".
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/cli.h"

static bool positional_is_number(const char *text) { return *text && text[strspn(text, "0123456789")] == 0; }

static bool is_type(const char *text) { return gq_filetype_find(text) >= 0 || gq_named_recipe_find(text); }

bool filetype_known(const char *text) { return is_type(text) && !positional_is_number(text); }

static bool is_model_name(const char *text) {
    size_t n = strlen(text);
    return n > 5 && !strcasecmp(text + n - 5, ".gguf");
}

/* ---- lines to type ---- */

/* "gquant", or "gquant ..." where options were given, which still belong there. */
static char *line_start(const request *r) { return text_format("gquant%s", r->any_option ? " ..." : ""); }

/* The arguments with the one at `type` behind the names, before a number of threads. */
static char *line_with_type_at(const request *r, size_t type) {
    char *line = line_start(r);
    const char *threads = NULL;
    for (size_t i = 0; i < r->n_arguments; i++)
        if (i + 1 == r->n_arguments && i > type && positional_is_number(r->arguments[i]))
            threads = r->arguments[i];
        else if (i != type)
            line = text_add_word(line, r->arguments[i]);
    line = text_add_word(line, r->arguments[type]);
    return threads ? text_add_word(line, threads) : line;
}

/* ---- errors ---- */

bool filetype_fail_unknown(const char *text, gq_error *e) {
    if (is_model_name(text))
        return gq_fail_usage(e, "no file type after '%s' ('gquant types' lists them)", text);
    char *usual = text_format("%s_K_M", text); /* of so many bits: Q4, Q5 */
    const char *near = filetype_known(usual) ? usual : gq_filetype_nearest(text);
    if (near)
        gq_fail_usage(e, "unknown file type '%s', did you mean %s? ('gquant types' lists them)", text, near);
    free(usual);
    if (near) return false;
    return gq_fail_usage(e, "unknown file type '%s' ('gquant types' lists them)", text);
}

/* Whether a file has that name, or a folder that has a model. */
static bool is_model_here(const char *name) {
    char *config = text_format("%s/config.json", name);
    bool is = path_is_folder(name) ? access(config, F_OK) == 0 : access(name, F_OK) == 0;
    free(config);
    return is;
}

bool positional_fail_verb(const char *verb, char *const *words, size_t n, bool any_option, gq_error *e) {
    static const struct {
        const char *verb, *type;
    } verbs[] = {{"quantize", "Q4_K_M"}, {"quant", "Q4_K_M"}, {"llama-quantize", "Q4_K_M"},
                 {"compress", "Q4_K_M"}, {"run", "Q4_K_M"},   {"convert", "F16"}};
    size_t v = 0;
    while (v < sizeof verbs / sizeof *verbs && strcmp(verbs[v].verb, verb) != 0) v++;
    if (v == sizeof verbs / sizeof *verbs || is_model_here(verb)) return false;
    char *line = text_format("gquant%s", any_option ? " ..." : "");
    bool more = false, typed = false; /* more: options, whose arguments are not known here */
    for (size_t i = 0; i < n; i++) more |= *words[i] == '-', typed |= filetype_known(words[i]);
    for (size_t i = 0; !more && i < n; i++) line = text_add_word(line, words[i]);
    if (more || !n) line = text_add_word(line, n && *words[0] != '-' ? words[0] : "MODEL");
    if (more || !typed) line = text_add_word(line, verbs[v].type);
    gq_fail_usage(e, "unknown command '%s'; to quantize, leave it out: %s%s", verb, line,
                  typed ? "" : " ('gquant types' lists the types; COPY keeps the model's own)");
    free(line);
    return true;
}

/* Fails for a single argument: the model or the type is missing. */
static bool fail_too_few(const request *r, gq_error *e) {
    const char *given = r->arguments[0];
    bool type = filetype_known(given) && access(given, F_OK) != 0;
    char *line = text_add_word(line_start(r), type ? "MODEL.gguf" : given);
    line = text_add_word(line, type ? given : "Q4_K_M");
    gq_fail_usage(e, "%s is missing; usage: gquant [options] IN [OUT] TYPE [THREADS], as in: %s%s",
                  type ? "the model" : "the file type", line,
                  type ? "" : " ('gquant types' lists the types, 'gquant plan MODEL' what they make of it)");
    free(line);
    return false;
}

/* Returns true, with an error, if a type stands where a name is expected and a name where the type is. */
static bool fail_wrong_order(const request *r, gq_error *e) {
    const char *const *a = r->arguments;
    size_t n = r->n_arguments, names = n - (n > 2 && positional_is_number(a[n - 1]));
    size_t type = filetype_known(a[0]) && access(a[0], F_OK) != 0 ? 0 : 1;
    if (names > 3 || type >= names - 1 || !filetype_known(a[type])) return false;
    for (size_t i = 0; i < names; i++)
        if (i != type &&
            (is_type(a[i]) || (i == names - 1 && !is_model_name(a[i]) && access(a[i], F_OK) != 0)))
            return false;
    char *line = line_with_type_at(r, type);
    gq_fail_usage(e, "wrong order of arguments, expected: %s", line);
    free(line);
    return true;
}

/* Returns true, with an error, for IN TYPE TYPE... without --out-dir. */
static bool fail_several_types(const request *r, gq_error *e) {
    const char *const *a = r->arguments;
    size_t n = r->n_arguments;
    if (n < 3 || !is_type(a[1]) || !is_type(a[2]) || (n == 3 && positional_is_number(a[2]))) return false;
    char *line = text_add_word(text_add_word(line_start(r), "--out-dir"), "DIR");
    for (size_t i = 0; i < n; i++)
        if (i < 3 || filetype_known(a[i])) line = text_add_word(line, a[i]);
    gq_fail_usage(e,
                  "'%s' is a file type, expected an output's name; for several outputs: %s (for a file of "
                  "that name write ./%s)",
                  a[1], line, a[1]);
    free(line);
    return true;
}

/* Refuses "-", because models are read and written at any offset of their file, and a folder as an output. */
static bool positional_check_names(const request *r, gq_error *e) {
    if (!strcmp(r->arguments[0], "-"))
        return gq_fail_usage(
            e, "'-': a model cannot be read from standard input; name its file (./- for a file called -)");
    for (size_t i = 0; i < r->quantize.n_outputs; i++) {
        const gq_output *out = &r->quantize.outputs[i];
        if (!out->path) continue;
        if (!strcmp(out->path, "-"))
            return gq_fail_usage(
                e,
                "'-': a model cannot be written to standard output; name a file (./- for a file called -)");
        if (path_is_folder(out->path) && out->filetype)
            return gq_fail(e, "'%s' is a directory; to write into it, use --out-dir %s instead of a name",
                           out->path, out->path);
    }
    return true;
}

/* ---- outputs ---- */

static bool set_threads(request *r, const char *text, gq_error *e) {
    uint64_t n;
    if (r->quantize.threads)
        return gq_fail_usage(
            e, "the number of threads is given twice, by --threads and as '%s'; leave out one", text);
    if (!number_parse(text, 0, 65535, &n))
        return gq_fail_usage(e, "'%s' where the number of threads is expected (0 to 65535)", text);
    r->quantize.threads = (int)n;
    return true;
}

static bool fail_target_and_type(const request *r, gq_error *e) {
    size_t type = 1;
    while (type < r->n_arguments && !filetype_known(r->arguments[type])) type++;
    if (type >= r->n_arguments) return false;
    char *line = line_start(r);
    for (size_t i = 0; i < r->n_arguments; i++)
        if (i != type) line = text_add_word(line, r->arguments[i]);
    gq_fail_usage(e,
                  "a target takes the place of the file type %s: %s (a file of that name is ./%s); --out-dir "
                  "makes both",
                  r->arguments[type], line, r->arguments[type]);
    free(line);
    return true;
}

/* IN [OUT] [THREADS] */
static bool target_output(request *r, gq_output *out, gq_error *e) {
    const char **a = r->arguments;
    size_t n = r->n_arguments;
    if (n <= 4 && fail_target_and_type(r, e)) return false;
    if (n > 3) return gq_fail_usage(e, "too many arguments; with a target, expected IN [OUT] [THREADS]");
    bool named = n == 3 || (n == 2 && !positional_is_number(a[1]));
    if (named) out->path = a[1];
    const char *threads = n == 3 ? a[2] : n == 2 && !named ? a[1] : NULL;
    return !threads || set_threads(r, threads, e);
}

static bool one_output(request *r, gq_output *out, gq_error *e) {
    const char **a = r->arguments;
    size_t n = r->n_arguments;
    if (fail_wrong_order(r, e) || fail_several_types(r, e)) return false;
    bool named = n >= 4 || (n == 3 && !(is_type(a[1]) && positional_is_number(a[2])));
    if (n > 4)
        return gq_fail_usage(e, "too many arguments, from '%s' on; expected IN OUT TYPE THREADS", a[4]);
    if (named) out->path = a[1];
    out->filetype = a[named ? 2 : 1];
    if (!is_type(out->filetype)) return filetype_fail_unknown(out->filetype, e);
    const char *threads = named ? (n == 4 ? a[3] : NULL) : (n == 3 ? a[2] : NULL);
    return !threads || set_threads(r, threads, e);
}

/* Returns the TYPE of OUT=TYPE; NULL: what follows the last '=' is no type. */
static const char *type_behind(const char *argument) {
    const char *equals = strrchr(argument, '=');
    return equals && equals != argument && is_type(equals + 1) ? equals + 1 : NULL;
}

static bool list_output(request *r, const char *argument, gq_output *out, gq_error *e) {
    out->filetype = type_behind(argument);
    if (!out->filetype) {
        if (!is_type(argument)) return filetype_fail_unknown(argument, e);
        out->filetype = argument;
        return true;
    }
    const char *folder = r->out_dir ? r->out_dir : "";
    out->path = own_text(r, text_format("%s%s%.*s", folder, *folder ? "/" : "",
                                        (int)(out->filetype - argument - 1), argument));
    return true;
}

static bool outputs_of(request *r, gq_output *out, bool list, gq_error *e) {
    if (!list) return r->n_targets ? target_output(r, out, e) : one_output(r, out, e);
    for (size_t i = 0; i + 1 < r->n_arguments; i++)
        if (!list_output(r, r->arguments[i + 1], &out[r->n_targets + i], e)) return false;
    return true;
}

/* Returns the name of a file type for a model: what it says of itself, or the type of most bytes. */
static const char *like_filetype(const gq_model *m) {
    size_t n;
    if (gq_model_filetype(m)) return gq_model_filetype(m);
    const gq_stored *t = gq_model_tensors(m, &n), *most = t;
    for (size_t i = 0; i < n; i++)
        if (t[i].bytes > most->bytes) most = &t[i];
    int found = n ? gq_filetype_find(gq_type_name(most->type)) : -1;
    return gq_filetype_name(found >= 0 ? (size_t)found : (size_t)gq_filetype_find("Q8_0"));
}

bool request_take_like(request *r, gq_error *e) {
    gq_model *m = gq_model_open(r->like, e);
    char *text = m ? gq_model_recipe(m, e) : NULL;
    bool ok = text && recipe_add(r, &r->quantize.tensor_types, r->like, text, strlen(text), e),
         given = r->type;
    for (size_t i = 1; i < r->n_arguments; i++)
        given |= filetype_known(r->arguments[i]) || type_behind(r->arguments[i]);
    if (ok && !given && !r->n_targets) {
        size_t at = r->n_arguments;
        if (at > 2 && positional_is_number(r->arguments[at - 1])) at--; /* THREADS */
        memmove(r->arguments + at + 1, r->arguments + at, (r->n_arguments - at) * sizeof *r->arguments);
        r->arguments[at] = like_filetype(m);
        r->n_arguments++;
    }
    free(text);
    gq_model_close(m);
    return ok;
}

/* IN, with --mmproj: the projector alone. */
static bool projector_output(request *r, gq_error *e) {
    for (size_t i = 0; i < r->n_given; i++)
        if (!(r->given[i].option->commands & PROJECTOR))
            return gq_fail_usage(
                e, "--%s is for the text model, whose file type is missing: gquant ... %s Q4_K_M",
                r->given[i].option->name, r->arguments[0]);
    r->quantize.input = r->arguments[0], r->quantize.out_dir = r->out_dir;
    return positional_check_names(r, e);
}

bool request_outputs(request *r, gq_error *e) {
    if (r->n_arguments == 1 && r->mmproj && strcmp(r->mmproj, "none") != 0 && !r->n_targets)
        return projector_output(r, e);
    if (r->n_arguments < 2 && !r->n_targets) return fail_too_few(r, e);
    size_t n = r->n_arguments - 1;
    bool list = r->out_dir || r->n_targets > 1 || (n > 0 && type_behind(r->arguments[1]));
    size_t n_outputs = list ? r->n_targets + n : 1;
    gq_output *out = need_memory(n_outputs, sizeof *out);
    for (size_t i = 0; i < r->n_targets; i++)
        out[i] = (gq_output){.target = r->targets[i], .size_of = r->size_of[i]};
    r->quantize.input = r->arguments[0];
    r->quantize.outputs = out;
    r->quantize.n_outputs = n_outputs;
    r->quantize.out_dir = r->out_dir;
    return outputs_of(r, out, list, e) && positional_check_names(r, e);
}
