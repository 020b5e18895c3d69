/* The page of a published folder: README.md with the front matter that Hugging Face reads, a table, a chart,
 * how to repeat it; and SHA256SUMS. Texts from the model may hold anything: in the front matter they are
 * quoted as JSON, which YAML reads, and elsewhere markup is escaped.
 */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/option_table.h"
#include "cli/page_rows.h"
#include "cli/path.h"
#include "cli/publish.h"
#include "cli/render.h"
#include "cli/text.h"

/* ---- what the model says of itself ---- */

/* Returns a text of the metadata, malloc'ed; NULL: there is none. */
static char *model_text(const gq_model *m, const char *key) {
    size_t n, i = gq_model_find_key(m, key);
    gq_value value;
    const gq_metadata *all = gq_model_metadata(m, &n);
    if (i >= n || all[i].list || gq_metadata_values(&all[i], &value, 1) != 1 || value.kind != GQ_TEXT ||
        !value.length)
        return NULL;
    return text_format("%.*s", (int)(value.length < 4096 ? value.length : 4096), value.text);
}

/* The repository that was quantized: the option, or what the model's source says. NULL: not known. */
static char *base_model(const publication *p) {
    static const char *const keys[] = {"general.source.repo_url", "general.repo_url",
                                       "general.source.huggingface.repository", "general.source.url"};
    static const char hub[] = "https://huggingface.co/";
    if (p->request->base_model) return text_format("%s", p->request->base_model);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char *url = model_text(p->model, keys[i]);
        size_t n = url && !strncmp(url, hub, sizeof hub - 1) ? sizeof hub - 1 : 0;
        if (url && (n || i == 2)) {
            char *name = text_format("%s", url + n);
            return free(url), name;
        }
        free(url);
    }
    return NULL;
}

/* ---- front matter ---- */

static void write_quoted(FILE *to, const char *text) {
    json_t *value = json_of_text(text);
    char *quoted = json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    fputs(quoted ? quoted : "\"\"", to);
    free(quoted);
    json_decref(value);
}

static void write_pair(FILE *to, const char *key, const char *text) {
    if (!text) return;
    fprintf(to, "%s: ", key), write_quoted(to, text), fputc('\n', to);
}

static void write_front(FILE *to, const publication *p) {
    char *base = base_model(p), *license = model_text(p->model, "general.license"),
         *arch = model_text(p->model, "general.architecture");
    fputs("---\n", to);
    write_pair(to, "base_model", base);
    if (base) fputs("base_model_relation: quantized\n", to);
    write_pair(to, "license", p->request->license ? p->request->license : license);
    fputs("library_name: gguf\ntags:\n- gguf\n- quantized\n- gquant\n", to);
    if (arch) fputs("- ", to), write_quoted(to, arch), fputc('\n', to);
    write_pair(to, "quantized_by", p->request->quantized_by);
    fputs("---\n\n", to);
    free(base), free(license), free(arch);
}

/* ---- the command again ---- */

/* Writes a word of a command line, quoted where a shell needs it; a code block shows it as it is. */
static void write_word(FILE *to, const char *word) {
    bool plain =
        *word && strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=.,:/@%") ==
                     strlen(word);
    fputc(' ', to);
    if (!plain) fputc('\'', to);
    for (const char *c = word; *c; c++)
        if (*c == '\'')
            fputs("'\\''", to);
        else
            fputc(iscntrl((unsigned char)*c) ? '?' : *c, to);
    if (!plain) fputc('\'', to);
}

/* Writes the line that makes the folder again: without folders' names, and without what changes no file. */
static void write_command(FILE *to, const request *r) {
    static const char *const silent[] = {"quiet", "progress", "force", "threads", "dry-run"};
    fputs("    gquant publish", to);
    write_word(to, path_reported(r->arguments[0], false));
    for (size_t i = 1; i < r->n_arguments; i++) write_word(to, r->arguments[i]);
    for (size_t i = 0; i < r->n_given; i++) {
        const struct given *g = &r->given[i];
        bool says = true, path = g->option->hint == HINT_FILE || g->option->hint == HINT_FOLDER;
        for (size_t k = 0; k < sizeof silent / sizeof *silent; k++)
            says &= strcmp(g->option->name, silent[k]) != 0;
        if (!says) continue;
        char *name = text_format("--%s", g->option->name);
        write_word(to, name);
        free(name);
        if (g->argument) write_word(to, path ? path_reported(g->argument, false) : g->argument);
    }
    fputs("\n", to);
}

/* ---- the page ---- */

typedef struct page {
    const publication *of;
    page_rows rows;
} page;

static void write_how(FILE *to, const publication *p) {
    const request *r = p->request;
    fputs("\n## How these files were made\n\n", to);
    write_command(to, r);
    fprintf(to, "\nwith gquant %s (build %s). The same line gives the same bytes on every machine.\n",
            gq_version(), gq_build());
    if (r->calibrate || r->calibrate_ids)
        fputs("\nThe weights were rounded by what flows into them when the model runs on a text "
              "(calibration).\n",
              to);
    else if (r->quantize.imatrix)
        fputs("\nErrors were weighted by importance data, which say how much flows into each column.\n", to);
    fputs("`sha256sum -c SHA256SUMS` checks a download.\n", to);
}

static void write_page(FILE *to, const void *what) {
    const page *all = what;
    const publication *p = all->of;
    char *name = model_text(p->model, "general.name"), *base = base_model(p);
    write_front(to, p);
    fputs("# ", to), page_write_text(to, name ? name : p->stem), fputs(" in GGUF\n\n", to);
    fputs("Files for llama.cpp and programs that are built on it", to);
    if (base) fputs(", quantized from ", to), page_write_text(to, base);
    fprintf(to,
            ". Take the largest whose memory you have: that is the file, and what a context of %" PRIu64
            " tokens takes besides.\n\n",
            p->context);
    page_write_table(to, &all->rows, p->memory);
    if (all->rows.evaluation) fputs("\n![divergence against size](divergence.svg)\n", to);
    write_how(to, p);
    free(name), free(base);
}

static void write_chart(FILE *to, const void *what) { page_write_chart(to, &((const page *)what)->rows); }

/* ---- checksums ---- */

typedef struct publish_sums {
    size_t n;
    char **lines;
} publish_sums;

/* Returns a name as sha256sum writes it, malloc'ed: where it has an end of a line or a backslash, these are
 * escaped and the line begins with a backslash. */
static char *sums_name(const char *name) {
    char *text = need_memory(2 * strlen(name) + 1, 1), *to = text;
    for (; *name; name++) {
        bool escaped = strchr("\\\n\r", *name);
        if (escaped) *to++ = '\\';
        *to++ = !escaped || *name == '\\' ? *name : *name == '\n' ? 'n' : 'r';
    }
    *to = 0;
    return text;
}

static bool sums_add(publish_sums *s, const char *path, gq_error *e) {
    char sum[GQ_SHA256_TEXT];
    const char *name = path_reported(path, false);
    if (!gq_file_sha256(path, sum, e)) return false;
    char *escaped = sums_name(name);
    s->lines = need_next(s->lines, s->n, sizeof *s->lines);
    s->lines[s->n++] = text_format("%s%s  %s\n", strcmp(name, escaped) ? "\\" : "", sum, escaped);
    free(escaped);
    return true;
}

/* Adds all files of a model. */
static bool sums_add_model(publish_sums *s, const char *path, gq_error *e) {
    gq_model *m = gq_model_open(path, e);
    bool ok = m;
    for (uint32_t i = 0; ok && i < gq_model_summary(m)->shards; i++) ok = sums_add(s, gq_model_path(m, i), e);
    gq_model_close(m);
    return ok;
}

static void write_sums(FILE *to, const void *what) {
    const publish_sums *s = what;
    for (size_t i = 0; i < s->n; i++) fputs(s->lines[i], to);
}

static bool render_in(const publication *p, const char *name, void (*write)(FILE *, const void *),
                      const void *what, gq_error *e) {
    char *path = text_format("%s/%s", p->request->out_dir, name);
    bool ok = render_file(path, write, what, e);
    free(path);
    return ok;
}

bool publication_write_page(const publication *p, gq_error *e) {
    page all = {.of = p, .rows = {.n = p->n, .rows = need_memory(p->n, sizeof(page_row))}};
    publish_sums s = {0};
    bool ok = true;
    for (size_t i = 0; i < p->n; i++) {
        const gq_summary *o = gq_plan_summary(p->plan, i);
        all.rows.rows[i] = (page_row){
            o->path, p->labels[i], o->file_bytes, report_bits(o->out_bytes, (double)o->n_weights), NULL, NAN};
        ok = ok && sums_add_model(&s, o->path, e);
    }
    page_rows_take(&all.rows, p->evaluation);
    ok = ok && render_in(p, "SHA256SUMS", write_sums, &s, e) &&
         (!p->evaluation || render_in(p, "divergence.svg", write_chart, &all, e)) &&
         render_in(p, "README.md", write_page, &all, e);
    for (size_t i = 0; i < s.n; i++) free(s.lines[i]);
    free(s.lines), free(all.rows.rows);
    return ok;
}
