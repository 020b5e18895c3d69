/* What the bare arguments mean.
 *
 *     IN TYPE                   OUT is named after IN
 *     IN TYPE THREADS
 *     IN OUT TYPE [THREADS]
 *     IN OUT=TYPE OUT=TYPE...   several outputs
 *     IN TYPE TYPE...           with --out-dir
 *     IN [OUT] [THREADS]        with one target
 *     IN [TYPE...]              with several, or one and --out-dir: TYPE and OUT=TYPE as above
 *
 * File types also have numbers, and files may be called like a type. So: IN TYPE NUMBER means THREADS, and
 * IN TYPE TYPE means an OUT that is called like a type.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/options.h"
#include "cli/text.h"

static bool is_type(const char *text) { return gq_filetype_find(text) >= 0; }

static bool is_number(const char *text) { return *text && text[strspn(text, "0123456789")] == 0; }

static bool not_a_type(const char *text, gq_error *e) {
    size_t n = strlen(text);
    if (n > 5 && !strcasecmp(text + n - 5, ".gguf"))
        return gq_fail_usage(e, "no file type behind '%s' ('gquant types' lists them)", text);
    const char *near = gq_filetype_nearest(text);
    if (near)
        return gq_fail_usage(e, "unknown file type '%s', did you mean %s? ('gquant types' lists them)", text,
                             near);
    return gq_fail_usage(e, "unknown file type '%s' ('gquant types' lists them)", text);
}

static bool set_threads(request *r, const char *text, gq_error *e) {
    uint64_t n;
    if (r->quantize.threads)
        return gq_fail_usage(e, "threads are given twice, by --threads and as '%s'", text);
    if (!number_parse(text, 0, 65535, &n))
        return gq_fail_usage(e, "'%s' where the number of threads is expected (0 to 65535)", text);
    r->quantize.threads = (int)n;
    return true;
}

bool request_has_target(const request *r) { return r->n_targets > 0; }

/* IN [OUT] [THREADS] */
static bool target_output(request *r, gq_output *out, gq_error *e) {
    const char **a = r->arguments;
    size_t n = r->n_arguments;
    if (n > 3) return gq_fail_usage(e, "too many arguments; with a target they are IN [OUT] [THREADS]");
    bool named = n == 3 || (n == 2 && !is_number(a[1]));
    if (named && is_type(a[1]) && !is_number(a[1]))
        return gq_fail_usage(e,
                             "a target takes the place of the file type %s (a file of that name is ./%s); "
                             "--out-dir makes both",
                             a[1], a[1]);
    if (named) out->path = a[1];
    const char *threads = n == 3 ? a[2] : n == 2 && !named ? a[1] : NULL;
    return !threads || set_threads(r, threads, e);
}

static bool one_output(request *r, gq_output *out, gq_error *e) {
    const char **a = r->arguments;
    size_t n = r->n_arguments;
    bool named = n >= 4 || (n == 3 && !(is_type(a[1]) && is_number(a[2])));
    if (n > 4) return gq_fail_usage(e, "too many arguments; '%s' is one more than IN OUT TYPE THREADS", a[4]);
    if (named) out->path = a[1];
    out->filetype = a[named ? 2 : 1];
    /* IN TYPE X with an X that means nothing is more likely a slip in X than an OUT called like a type; the
     * message about X covers both. */
    if (!is_type(out->filetype)) return not_a_type(out->filetype, e);
    const char *threads = named ? (n == 4 ? a[3] : NULL) : (n == 3 ? a[2] : NULL);
    return !threads || set_threads(r, threads, e);
}

/* OUT=TYPE: the text behind the last '=' is a type. */
static const char *type_behind(const char *argument) {
    const char *equals = strrchr(argument, '=');
    return equals && equals != argument && is_type(equals + 1) ? equals + 1 : NULL;
}

static bool list_output(request *r, const char *argument, gq_output *out, gq_error *e) {
    out->filetype = type_behind(argument);
    if (!out->filetype) {
        if (!is_type(argument)) return not_a_type(argument, e);
        out->filetype = argument;
        return true;
    }
    const char *folder = r->out_dir ? r->out_dir : "";
    out->path = own_text(
        r, format("%s%s%.*s", folder, *folder ? "/" : "", (int)(out->filetype - argument - 1), argument));
    return true;
}

bool request_outputs(request *r, gq_error *e) {
    size_t n = r->n_arguments - 1;
    bool list = r->out_dir || r->n_targets > 1 || (n > 0 && type_behind(r->arguments[1]));
    size_t n_outputs = list ? r->n_targets + n : 1;
    gq_output *out = need(n_outputs, sizeof *out);
    r->quantize.input = r->arguments[0];
    r->quantize.outputs = out;
    r->quantize.n_outputs = n_outputs;
    r->quantize.targets = r->targets;
    r->quantize.out_dir = r->out_dir;
    if (!list) return r->n_targets ? target_output(r, out, e) : one_output(r, out, e);
    for (size_t i = 0; i < n; i++)
        if (!list_output(r, r->arguments[i + 1], &out[r->n_targets + i], e)) return false;
    return true;
}
