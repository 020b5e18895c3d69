/* Checks that a line writes to none of its inputs. The rows of its options (ARGUMENT_*) and, for bare arguments,
 * its command say which paths are read and written. Each written path is compared with all others: by name,
 * through links, by the hidden name that the file has until it is whole, and with the files inside of models
 * and folders that are read. The library compares the files that it names itself (outputs of --out-dir, files
 * beside them) with options' files by gq_options.other_inputs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

typedef struct line_path {
    const char *path;
    const option_row *option; /* NULL: a bare argument */
    bool is_read, is_written;
    bool gives_way; /* an output may take its place */
} line_path;

typedef struct line_paths {
    line_path *all;
    size_t n;
} line_paths;

const char *override_file(const option_row *o, const char *text) {
    static const char type[] = "=file:";
    const char *equals = text ? strchr(text, '=') : NULL;
    bool is = o->kind == OPTION_PAIRS && equals && strncmp(equals, type, sizeof type - 1) == 0;
    return is ? equals + sizeof type - 1 : NULL;
}

const char *path_of_given(const struct given *g) {
    const char *text = g->argument;
    if (g->option->kind == OPTION_PAIRS) return override_file(g->option, text);
    bool is_none = g->option->kind == OPTION_KEPT && text && !strcmp(text, "none");
    return option_is_file(g->option) && !is_none ? text : NULL;
}

static void paths_add(line_paths *to, line_path p) {
    if (p.path && (p.is_read || p.is_written)) to->all[to->n++] = p;
}

/* Adds the bare arguments. Of the main job the first is read; its outputs have been found out. */
static void paths_add_arguments(const request *r, line_paths *to) {
    size_t n = r->n_arguments;
    switch (r->command) {
    case CMD_TEXT:
    case CMD_TYPES:
    case CMD_COMPLETION:
    case CMD_HELP:
    case CMD_VERSION:
        return;
    case CMD_QUANTIZE:
    case CMD_PUBLISH:
        if (n) paths_add(to, (line_path){.path = r->arguments[0], .is_read = true});
        for (size_t i = 0; i < r->quantize.n_outputs; i++)
            paths_add(to, (line_path){.path = r->quantize.outputs[i].path, .is_written = true});
        return;
    case CMD_IMATRIX: /* JOB IN... OUT, but for the job that shows */
        for (size_t i = 1; i < n; i++) {
            bool is_out = i + 1 == n && strcmp(r->arguments[0], "show") != 0;
            paths_add(to, (line_path){.path = r->arguments[i], .is_read = !is_out, .is_written = is_out});
        }
        return;
    case CMD_INFO:
    case CMD_PLAN:
    case CMD_COMPARE:
    case CMD_VERIFY:
    case CMD_TOKENIZE:
    case CMD_EVALUATE:
        for (size_t i = 0; i < n; i++) paths_add(to, (line_path){.path = r->arguments[i], .is_read = true});
    }
}

/* Lists all; free ->all. */
static bool paths_list(line_paths *to, const request *r, gq_error *e) {
    size_t most = r->n_given + r->n_arguments + r->quantize.n_outputs + 1;
    *to = (line_paths){.all = calloc(most, sizeof *to->all)};
    if (!to->all) return gq_fail_memory(e, most * sizeof *to->all);
    for (size_t i = 0; i < r->n_given; i++) {
        const option_row *o = r->given[i].option;
        paths_add(to, (line_path){.path = path_of_given(&r->given[i]),
                                  .option = o,
                                  .is_read = option_is_read(o) || o->kind == OPTION_PAIRS,
                                  .is_written = option_is_written(o),
                                  .gives_way = o->is == ARGUMENT_OLD_FILE});
    }
    paths_add_arguments(r, to);
    return true;
}

static bool is_output(const line_path *p) {
    return !p->option || p->option->member == offsetof(request, output);
}

/* Whether both are one word of the line: the argument of --output becomes a bare one. */
static bool is_one_word(const line_path *a, const line_path *b) {
    return a->path == b->path && is_output(a) && is_output(b);
}

/* Fails for a file that is written: an output or an option's. */
static bool fail_over(const line_path *p, gq_error *e) {
    if (p->option && !is_output(p))
        return gq_fail_usage(e, "--%s %s: this run reads or writes the same file; choose another name",
                             p->option->name, p->path);
    return gq_fail_usage(e, "%s is both the output and the file of an option", p->path);
}

/* Compares the names of a path that is written with those of all others. That IN and OUT are one is for the
 * library to say. */
static bool paths_check_names(const line_paths *l, const line_path *written, gq_error *e) {
    for (size_t i = 0; i < l->n; i++) {
        const line_path *p = &l->all[i];
        bool is_itself = p == written || is_one_word(p, written),
             is_replaced = p->gives_way && is_output(written);
        if (is_itself || is_replaced || (!p->option && !written->option)) continue;
        if (path_same(written->path, p->path)) return fail_over(written, e);
    }
    return true;
}

/* Compares a path that is written with the files that are read under other names: a model's shards, what is
 * in its folder, in its adapters' and its target's, what is kept beside it. */
static bool paths_check_inside(const request *r, const line_paths *l, const line_path *written, gq_error *e) {
    gq_error why;
    const gq_adapters *a = &r->quantize.adapters;
    bool ok = true;
    for (size_t i = 0; ok && i < l->n; i++) {
        const line_path *p = &l->all[i];
        if (!p->is_read || is_one_word(p, written) || (p->gives_way && is_output(written))) continue;
        ok = gq_check_inputs(written->path, &p->path, 1, &why) &&
             (p->option || !(a->n || a->base || a->target) ||
              gq_check_inputs_adapted(written->path, p->path, a, &why));
    }
    if (ok) return true;
    if (written->option && !is_output(written))
        gq_fail(e, "--%s %s: %s", written->option->name, written->path, why.text);
    else
        gq_fail(e, "%s", why.text);
    return e->status = is_output(written) ? GQ_FAILED : why.status, false;
}

/* What a file is that no report, recipe or log may take the place of; NULL: it is none of these. */
static const char *kind_of_work(const char *path) {
    char begin[8] = "";
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(begin, 1, sizeof begin, f) : 0;
    if (f) fclose(f);
    if (n < sizeof begin) return NULL;
    if (!memcmp(begin, "GGUF", 4)) return "a GGUF file";
    if (!memcmp(begin, "_logits_", 8)) return "a file of logits";
    bool is_text = (unsigned char)begin[3] >= ' '; /* which may be long */
    gq_imatrix *m = is_text ? NULL : gq_imatrix_open(path, &(gq_error){0});
    gq_imatrix_free(m);
    return m ? "an importance matrix" : NULL;
}

/* A report replaces an older one, and a log is continued; --force is for outputs alone. */
static bool paths_check_kind(const line_path *written, gq_error *e) {
    const char *kind = written->option->is == ARGUMENT_OUT_TEXT ? kind_of_work(written->path) : NULL;
    return !kind || gq_fail(e, "--%s %s: %s is there, which would be lost: choose another name, or remove it",
                            written->option->name, written->path, kind);
}

/* Whether the file of an option can be written. An output's own command looks, which knows --force. */
static bool paths_check_place(const line_path *written, gq_error *e) {
    const char *path = written->path;
    if (!gq_check_target(path, true, e) || !paths_check_kind(written, e)) return false;
    gq_clean_target(path); /* also where this run is then refused */
    char *folder = path_folder(path);
    bool ok = access(folder, W_OK | X_OK) == 0 || gq_fail(e, "--%s %s: cannot write in its folder: %s",
                                                          written->option->name, path, strerror(errno));
    free(folder);
    return ok;
}

/* A file that is kept is replaced only where it is one of ours, whatever else it may be. */
static bool paths_check_one(const request *r, const line_paths *l, const line_path *written, gq_error *e) {
    return paths_check_names(l, written, e) &&
           (written->is_read ||
            (paths_check_inside(r, l, written, e) && (is_output(written) || paths_check_place(written, e))));
}

bool paths_check(const request *r, gq_error *e) {
    line_paths l;
    bool ok = paths_list(&l, r, e);
    for (size_t i = 0; ok && i < l.n; i++) ok = !l.all[i].is_written || paths_check_one(r, &l, &l.all[i], e);
    free(l.all);
    return ok;
}

bool paths_check_written(const request *r, const char *option, const char *path, gq_error *e) {
    line_paths l;
    size_t row = 0;
    while (row + 1 < n_options && !(options[row].name && !strcmp(options[row].name, option))) row++;
    bool ok = paths_list(&l, r, e) &&
              paths_check_one(r, &l, &(line_path){path, &options[row], false, true, false}, e);
    free(l.all);
    return ok;
}
