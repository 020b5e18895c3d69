/* The outputs of a publication: named by a template, and listed by file types, sizes and a ladder.
 *
 * A ladder has a file for each common size of memory: the target is what is left beside the keys and values of a
 * context and the buffers. Sizes that hold more than Q8_0, or less than the smallest types, are left out.
 */
#include "publish/publish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/memory.h"
#include "publish/ladder.h"
#include "publish/text.h"

/* ---- names ---- */

/* Makes the model's name in file names: that of the library's own outputs without their type. It knows
 * shards, types of 16 or 32 bits in names, folders called "." and a hub's cache. */
bool publication_name_model(gq_publication *p, gq_error *e) {
    static const char type[] = "COPY", end[] = ".gguf";
    gq_output out = {.filetype = type};
    gq_options o = {.size = sizeof o, .input = p->options.input, .model = p->model};
    o.adapters = p->options.adapters;
    o.outputs = &out, o.n_outputs = 1, o.out_dir = ".", o.dry_run = o.force = true;
    gq_plan *plan = gq_plan_new(&o, e);
    if (!plan) return false;
    p->stem = strdup(page_file_name(gq_plan_summary(plan, 0)->path));
    gq_plan_free(plan);
    if (!p->stem) return gq_fail_memory(e, strlen(p->options.input));
    size_t n = strlen(p->stem) - (sizeof end - 1);
    p->stem[n] = 0;
    for (size_t at = n; at-- > 0;) {
        if (strncmp(p->stem + at, type, sizeof type - 1) != 0) continue;
        size_t from = at > 0 ? at - 1 : at, behind = at + sizeof type - 1; /* with what separates it */
        memmove(p->stem + from, p->stem + behind, n - behind + 1);
        break;
    }
    if (*p->stem) return true;
    free(p->stem); /* the name was a type alone */
    p->stem = strdup("model");
    return p->stem || gq_fail_memory(e, sizeof "model");
}

/* Returns the path in the folder by the template with {model} and {type} replaced, malloc'ed; NULL: no
 * memory. */
static char *publication_name(const gq_publication *p, const char *type, gq_error *e) {
    char *path = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&path, &n);
    if (to) fprintf(to, "%s/", p->options.out_dir);
    for (const char *c = p->request.name; to && *c;) {
        const char *word = !strncmp(c, "{model}", 7) ? p->stem : !strncmp(c, "{type}", 6) ? type : NULL;
        if (word)
            fputs(word, to);
        else
            fputc(*c, to);
        c += !word ? 1 : word == type ? 6 : 7;
    }
    bool ok = to && !ferror(to);
    ok = to && fclose(to) == 0 && ok;
    if (!ok) gq_fail_memory(e, n), free(path), path = NULL;
    return path;
}

bool publication_check_template(const gq_publish_request *r, gq_error *e) {
    size_t n = strlen(r->name);
    if (companion_is_named(r->name, ""))
        return gq_fail_usage(e,
                             "the name %s: names of projectors, MTP layers and draft models begin with this "
                             "word; choose another",
                             r->name);
    return (strstr(r->name, "{type}") && !strchr(r->name, '/') && n > 5 &&
            !strcmp(r->name + n - 5, ".gguf")) ||
           gq_fail_usage(
               e, "the name %s: expected a file name with {type}, and maybe {model}, that ends in .gguf",
               r->name);
}

/* ---- outputs ---- */

/* Adds an output under a label, malloc'ed, which is taken over; NULL: there was no memory for it. */
static bool publication_add(gq_publication *p, gq_output out, char *label, gq_error *e) {
    char *path = label ? publication_name(p, label, e) : NULL;
    bool ok = (label || gq_fail_memory(e, 1)) && path &&
              memory_grow(&p->outputs, &p->output_capacity, p->n + 1, sizeof *p->outputs, e) &&
              memory_grow(&p->labels, &p->label_capacity, p->n + 1, sizeof *p->labels, e);
    if (!ok) return free(path), free(label), false;
    out.path = path;
    p->labels[p->n] = label, p->outputs[p->n++] = out;
    return true;
}

/* Returns what names say of an output: "Q4_K_M", "7.5GB"; malloc'ed, NULL: no memory. */
static char *output_label(const gq_output *out) {
    char *label = NULL;
    const gq_target *t = &out->target;
    int n;
    if (out->size_of)
        n = asprintf(&label, "%s-size", out->size_of);
    else if (t->bpw > 0)
        n = asprintf(&label, "%.4gbpw", t->bpw);
    else if (t->size)
        n = t->size < LADDER_GB ? asprintf(&label, "%.4gMB", (double)t->size / 1e6)
                                : asprintf(&label, "%.4gGB", (double)t->size / 1e9);
    else
        n = asprintf(&label, "%s", out->filetype);
    return n < 0 ? NULL : label;
}

/* Adds what the request names; file types get their names in capitals. */
static bool publication_add_output(gq_publication *p, gq_output out, gq_error *e) {
    bool has_target = out.size_of || out.target.size || out.target.bpw > 0;
    if (out.path)
        return gq_fail_usage(e,
                             "an output of a folder cannot have a name of its own, found %s: the name "
                             "template names all files",
                             out.path);
    if (!out.filetype && !has_target)
        return gq_fail_usage(e, "an output has neither a file type nor a size: set one of them");
    if (out.filetype) {
        const gq_named_recipe *named = gq_named_recipe_find(out.filetype);
        int type = gq_filetype_find(out.filetype);
        if (!named && type < 0)
            return gq_fail_usage(e, "unknown file type '%s'; 'gquant types' lists them", out.filetype);
        out.filetype = named ? named->name : gq_filetype_name((size_t)type);
    }
    return publication_add(p, out, output_label(&out), e);
}

/* Returns the file's bytes of a type, 0: it cannot be planned. */
static uint64_t publication_bytes_of(const gq_publication *p, const char *type) {
    gq_options o = p->options;
    gq_error unused;
    gq_output out = {.path = publication_name(p, type, &unused), .filetype = type};
    o.outputs = &out, o.n_outputs = 1, o.out_dir = NULL, o.dry_run = o.force = true, o.model = p->model;
    gq_plan *plan = out.path ? gq_plan_new(&o, &unused) : NULL;
    uint64_t bytes = plan ? gq_plan_summary(plan, 0)->file_bytes : 0;
    gq_plan_free(plan);
    free((void *)out.path);
    return bytes;
}

static bool publication_add_ladder(gq_publication *p, gq_error *e) {
    uint64_t most = publication_bytes_of(p, "Q8_0"), least = publication_bytes_of(p, "Q2_K");
    size_t before = p->n;
    for (size_t i = 0; i < LADDER_SIZES; i++) {
        uint64_t memory = ladder_gigabytes[i] * LADDER_GB;
        char *label = NULL;
        if (memory < p->memory + least || (most && memory > p->memory + most)) continue;
        if (asprintf(&label, "for-%uGB", (unsigned)ladder_gigabytes[i]) < 0) label = NULL;
        if (!publication_add(p, (gq_output){.target.size = memory - p->memory}, label, e)) return false;
    }
    return p->n > before ||
           gq_fail_usage(e,
                         "a ladder has nothing to make: no common size of memory from %u GB on lies between "
                         "the model's Q2_K and its Q8_0, which take %.3g and %.3g GB; name types or sizes",
                         (unsigned)ladder_gigabytes[0], (double)(least + p->memory) / 1e9,
                         (double)(most + p->memory) / 1e9);
}

bool publication_list(gq_publication *p, const gq_options *asked, gq_error *e) {
    bool ok = true;
    for (size_t i = 0; ok && i < asked->n_outputs; i++) ok = publication_add_output(p, asked->outputs[i], e);
    ok = ok && (!p->request.ladder || publication_add_ladder(p, e));
    return ok && (p->n || gq_fail_usage(e, "nothing to make: name file types or sizes, or ask for a ladder"));
}

/* ---- types that give the same file ---- */

/* Returns the general.file_type of an output; -1: none that types have in common. */
static int output_filetype_id(const gq_summary *s) {
    const gq_named_recipe *named = gq_named_recipe_find(s->filetype);
    int type = gq_filetype_find(named ? named->filetype : s->filetype);
    return type < 0 ? -1 : gq_filetype_id((size_t)type);
}

static bool outputs_are_same(const gq_plan *plan, size_t a, size_t b) {
    const gq_summary *of_a = gq_plan_summary(plan, a), *of_b = gq_plan_summary(plan, b);
    size_t n_a, n_b;
    const gq_tensor *in_a = gq_plan_tensors(plan, a, &n_a), *in_b = gq_plan_tensors(plan, b, &n_b);
    int id = output_filetype_id(of_a);
    bool same =
        id >= 0 && id == output_filetype_id(of_b) && of_a->file_bytes == of_b->file_bytes && n_a == n_b;
    for (size_t i = 0; same && i < n_a; i++) same = in_a[i].to == in_b[i].to;
    return same;
}

size_t publication_first_same(const gq_publication *p, size_t output) {
    for (size_t i = 0; i < output; i++)
        if (outputs_are_same(p->plan, i, output)) return i;
    return output;
}

bool publication_warn_same(gq_publication *p, gq_error *e) {
    bool ok = true;
    for (size_t i = 0, first; ok && i < p->n; i++)
        if ((first = publication_first_same(p, i)) != i)
            ok = warnings_add(&p->warnings, e,
                              "%s is the same file as %s: all tensors of this model have the same types in "
                              "both; leave out one of them",
                              p->labels[i], p->labels[first]);
    return ok;
}
