/* The page of a published folder: README.md with the front matter that Hugging Face reads, a table, a chart,
 * and how to repeat it. Texts from the model may hold anything: in the front matter they are quoted as JSON,
 * which YAML reads, and elsewhere markup is escaped.
 */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "publish/chart.h"
#include "publish/folder.h"
#include "publish/publish.h"
#include "publish/readme.h"
#include "publish/sums.h"
#include "publish/table.h"

/* ---- what the model says of itself ---- */

typedef struct said { /* a text within the model or the request */
    const char *text; /* NULL: nothing is said */
    size_t n;
} said;

static said said_of(const char *text) { return (said){text, text ? strlen(text) : 0}; }

static said model_says(const gq_model *m, const char *key) {
    enum { MOST = 4096 };
    size_t n, i = gq_model_find_key(m, key);
    gq_value value;
    const gq_metadata *all = gq_model_metadata(m, &n);
    if (i >= n || all[i].list || gq_metadata_values(&all[i], &value, 1) != 1 || value.kind != GQ_TEXT ||
        !value.length)
        return said_of(NULL);
    return (said){value.text, value.length < MOST ? (size_t)value.length : MOST};
}

bool publication_is_repository(const char *text, size_t n) {
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    enum { MOST = 96 };
    const char *slash = memchr(text, '/', n), *parts[] = {text, slash ? slash + 1 : text};
    size_t sizes[] = {slash ? (size_t)(slash - text) : 0, slash ? n - (size_t)(slash - text) - 1 : 0};
    for (int i = 0; i < 2; i++) {
        if (sizes[i] < 1 || sizes[i] > MOST || strchr(".-", parts[i][0])) return false;
        for (size_t k = 0; k < sizes[i]; k++)
            if (!memchr(good, parts[i][k], sizeof good - 1)) return false;
    }
    return true;
}

/* The repository that was quantized: what the request says, or the model's source. */
static said readme_base_model(const gq_publication *p) {
    static const char *const keys[] = {"general.source.repo_url", "general.repo_url",
                                       "general.source.huggingface.repository", "general.source.url"};
    static const char hub[] = "https://huggingface.co/";
    enum { HUB = sizeof hub - 1, PLAIN = 2 }; /* keys[PLAIN] has the name without the hub */
    if (p->request.base_model) return said_of(p->request.base_model);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        said url = model_says(p->model, keys[i]);
        bool is_hub = url.n > HUB && !strncmp(url.text, hub, HUB);
        if (is_hub) url = (said){url.text + HUB, url.n - HUB};
        if ((is_hub || i == PLAIN) && url.text && publication_is_repository(url.text, url.n)) return url;
    }
    return said_of(NULL);
}

/* ---- front matter ---- */

/* Writes a text in JSON's quotes, all in ASCII; a byte that is not UTF-8 becomes U+FFFD. */
static void readme_write_quoted(FILE *to, said s) {
    fputc('"', to);
    for (size_t i = 0, n; i < s.n; i += n) {
        uint32_t code = 0xFFFD;
        n = gq_utf8(s.text + i, s.n - i, &code);
        if (!n) n = 1, code = 0xFFFD;
        if (code == '"' || code == '\\')
            fprintf(to, "\\%c", (int)code);
        else if (code >= ' ' && code <= '~')
            fputc((int)code, to);
        else if (code < 0x10000)
            fprintf(to, "\\u%04" PRIx32, code);
        else
            fprintf(to, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xD800 + ((code - 0x10000) >> 10),
                    0xDC00 + (code & 0x3FF));
    }
    fputc('"', to);
}

static void readme_write_pair(FILE *to, const char *key, said value) {
    if (!value.text) return;
    fprintf(to, "%s: ", key), readme_write_quoted(to, value), fputc('\n', to);
}

static const char README_EMBEDS[] = "feature-extraction";

/* The task that a hub lists the model under: the one that its tags name, or what its metadata say; nothing
 * where neither tells. */
static said readme_task(const gq_model *m) {
    static const char *const tasks[] = {"text-generation",      "feature-extraction",  "sentence-similarity",
                                        "text-ranking",         "text-classification", "fill-mask",
                                        "image-text-to-text",   "audio-text-to-text",  "any-to-any",
                                        "text2text-generation", "translation",         "text-to-image",
                                        "image-to-image",       "text-to-video",       "image-to-video",
                                        "text-to-speech"};
    enum { TAGS = 64 };
    gq_value tags[TAGS];
    size_t n, i = gq_model_find_key(m, "general.tags");
    const gq_metadata *all = gq_model_metadata(m, &n);
    size_t n_tags = i < n && all[i].list ? gq_metadata_values(&all[i], tags, TAGS) : 0;
    for (size_t k = 0; k < n_tags; k++)
        for (size_t t = 0; tags[k].kind == GQ_TEXT && t < sizeof tasks / sizeof *tasks; t++)
            if (tags[k].length == strlen(tasks[t]) && !memcmp(tags[k].text, tasks[t], tags[k].length))
                return said_of(tasks[t]);
    for (i = 0; i < n; i++) {
        static const char pooling[] = ".pooling_type";
        size_t length = strlen(all[i].key);
        if (length >= sizeof pooling && !strcmp(all[i].key + length - (sizeof pooling - 1), pooling))
            return said_of(README_EMBEDS);
    }
    return said_of(gq_model_find_key(m, "tokenizer.ggml.model") < n &&
                           gq_model_find(m, "token_embd.weight") != SIZE_MAX
                       ? "text-generation"
                       : NULL);
}

static void readme_write_front(FILE *to, const void *what) {
    const gq_publication *p = what;
    const gq_publish_request *r = &p->request;
    said base = readme_base_model(p), arch = model_says(p->model, "general.architecture");
    fputs("---\n", to);
    readme_write_pair(to, "base_model", base);
    if (base.text) fputs("base_model_relation: quantized\n", to);
    readme_write_pair(to, "license",
                      r->license ? said_of(r->license) : model_says(p->model, "general.license"));
    readme_write_pair(to, "pipeline_tag", readme_task(p->model));
    fputs("library_name: gguf\ntags:\n- gguf\n- quantized\n- gquant\n", to);
    if (arch.text) fputs("- ", to), readme_write_quoted(to, arch), fputc('\n', to);
    readme_write_pair(to, "quantized_by", said_of(r->quantized_by));
    fputs("---\n", to);
}

/* ---- the page ---- */

typedef struct readme {
    const gq_publication *of;
    const gq_page *page;
} readme;

static const char readme_check[] = "`sha256sum -c SHA256SUMS` checks a download.";

/* Says how to get a file and what to do with it, with the first file's name. */
static void readme_write_run(FILE *to, const gq_publication *p) {
    said task = readme_task(p->model);
    const bool embeds = task.text && !strcmp(task.text, README_EMBEDS);
    const gq_summary *s = gq_plan_summary(p->plan, 0);
    const char *name = page_file_name(s->path), *of = strstr(name, "-00001-of-");
    fputs("\n## Download and run\n\nREPOSITORY is this page's OWNER/NAME; any file of the table will do:\n\n"
          "    hf download REPOSITORY ",
          to);
    if (of)
        fprintf(to, "--include '%.*s-*' --local-dir .\n", (int)(of - name), name);
    else
        fprintf(to, "%s --local-dir .\n", name);
    if (task.text) fprintf(to, "    llama-%s -m %s\n", embeds ? "embedding" : "cli", name);
    fputs("\n`hf` comes with the Python package huggingface_hub; the link in the table does as well.", to);
    if (task.text && !embeds)
        fputs(" `llama-cli` is [llama.cpp](https://github.com/ggml-org/llama.cpp)'s; its `llama-server` "
              "shows a page to chat with, and takes the same words.",
              to);
    else if (task.text)
        fputs(" `llama-embedding` is [llama.cpp](https://github.com/ggml-org/llama.cpp)'s.", to);
    fputc('\n', to);
}

/* Says what the projector is, which all files of the table share. */
static void readme_write_projector(FILE *to, const gq_publication *p) {
    size_t n;
    const gq_plan *plan = p->companions[GQ_PROJECTOR];
    if (!plan) return;
    const gq_beside *b = gq_plan_beside(p->plan, &n);
    const gq_summary *s = gq_plan_summary(plan, 0);
    const char *name = page_file_name(s->path);
    bool sees = false, hears = false;
    for (size_t i = 0; i < n; i++) sees |= !strcmp(b[i].kind, "vision"), hears |= !strcmp(b[i].kind, "audio");
    fprintf(to,
            "\n## Images and sounds\n\n`%s` (%.3g GB, %s) is what the model %s by. It belongs to each file "
            "of the "
            "table, which works without it, too:\n\n"
            "    hf download REPOSITORY %s --local-dir .\n    llama-mtmd-cli -m %s --mmproj %s --%s FILE\n",
            name, (double)s->file_bytes / 1e9, s->filetype,
            sees && hears ? "sees and hears"
            : hears       ? "hears"
                          : "sees",
            name, page_file_name(gq_plan_summary(p->plan, 0)->path), name, sees ? "image" : "audio");
}

/* Says how much of the draft each file accepts, where that was evaluated. */
static void readme_write_accepted(FILE *to, const gq_publication *p) {
    gq_drafted d;
    if (!p->evaluation || !gq_evaluation_drafted(p->evaluation, 0, &d)) return;
    fprintf(to, "\n| file | first choice accepted | tokens accepted of a draft of %d |\n|---|---:|---:|\n",
            GQ_DRAFTED);
    for (size_t k = 0; k <= p->n_files; k++) {
        const publish_file *f = k ? &p->files[k - 1] : NULL;
        if ((f && !f->evaluated) || !gq_evaluation_drafted(p->evaluation, f ? f->evaluated : 0, &d)) continue;
        const gq_interval *length = &d.length[GQ_DRAFTED - 1];
        const char *name = f ? page_file_name(f->path) : "the original";
        fputs("| ", to), page_write_text(to, name, strlen(name), false);
        fprintf(to, " | %.1f %% (%.1f to %.1f) | %.2f (%.2f to %.2f) |\n", 100 * d.first.value,
                100 * d.first.low, 100 * d.first.high, length->value, length->low, length->high);
    }
    fprintf(to,
            "\nBoth choose the likeliest token; in brackets 95 %% intervals, of %" PRIu64
            " pieces of the text.\n",
            d.texts);
}

/* The words that llama.cpp needs beside a draft's file; drafts of other kinds it knows. */
static const char *readme_draft_words(const char *draft) {
    static const char *const kinds[][2] = {{"eagle3", " --spec-type draft-eagle3"},
                                           {"gemma4-assistant", " --spec-type draft-mtp"}};
    gq_model *m = gq_model_open(draft, NULL);
    said arch = m ? model_says(m, "general.architecture") : said_of(NULL);
    const char *words = "";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (arch.n == strlen(kinds[i][0]) && !memcmp(arch.text, kinds[i][0], arch.n)) words = kinds[i][1];
    gq_model_close(m);
    return words;
}

/* Says what drafts tokens: the blocks' own file, and the draft, which all files of the table share. */
static void readme_write_drafts(FILE *to, const gq_publication *p) {
    static const struct {
        gq_companion which;
        const char *what, *words;
    } drafts[] = {{GQ_MTP_FILE,
                   "has the model's prediction blocks (MTP), which the files of the table are without",
                   " --spec-type draft-mtp"},
                  {GQ_DRAFT_FILE, "is a smaller model that drafts tokens for it", NULL}};
    const char *file = page_file_name(gq_plan_summary(p->plan, 0)->path);
    bool has_any = false;
    for (size_t i = 0; i < sizeof drafts / sizeof *drafts; i++) {
        const gq_plan *plan = p->companions[drafts[i].which];
        if (!plan) continue;
        const gq_summary *s = gq_plan_summary(plan, 0);
        const char *name = page_file_name(s->path);
        if (!has_any) fputs("\n## Faster with a draft\n", to);
        fprintf(to,
                "\n`%s` (%.3g GB, %s) %s. It belongs to each file of the table, which works without it, too, "
                "and says "
                "the same:\n\n    hf download REPOSITORY %s --local-dir .\n    llama-server -m %s -md %s%s\n",
                name, (double)s->file_bytes / 1e9, s->filetype, drafts[i].what, name, file, name,
                drafts[i].words ? drafts[i].words : readme_draft_words(s->path));
        has_any = true;
    }
    readme_write_accepted(to, p);
}

static void readme_write_how(FILE *to, const gq_publication *p) {
    fputs("\n## How these files were made\n\n", to);
    if (p->request.how) {
        fputs("    ", to);
        for (const char *c = p->request.how; *c; c++) fputc(iscntrl((unsigned char)*c) ? '?' : *c, to);
        fprintf(to, "\n\nwith gquant %s (build %s). The same line gives the same bytes on every machine.\n",
                gq_version(), gq_build());
    } else {
        fprintf(to, "gquant %s (build %s) made them.\n", gq_version(), gq_build());
    }
    if (p->n_files > p->n)
        fputs("\nFiles of the table that this line does not name were made by earlier lines.\n", to);
    if (p->options.calibration)
        fputs("\nThe weights were rounded by what flows into them when the model runs on a text "
              "(calibration).\n",
              to);
    else if (p->options.imatrix)
        fputs("\nErrors were weighted by importance data, which say how much flows into each column.\n", to);
    fprintf(to, "%s\n", readme_check);
}

/* Writes the text behind the front matter. */
static void readme_write(FILE *to, const void *what) {
    const readme *all = what;
    const gq_publication *p = all->of;
    said name = model_says(p->model, "general.name"), base = readme_base_model(p);
    if (!name.text) name = said_of(p->stem);
    fputs("# ", to), page_write_text(to, name.text, name.n, false), fputs(" in GGUF\n\n", to);
    fputs("Files for llama.cpp and programs that are built on it", to);
    if (base.text) fputs(", quantized from ", to), page_write_text(to, base.text, base.n, false);
    fprintf(to,
            ". Take the largest whose memory you have: that is the file, and what a context of %" PRIu64
            " tokens takes besides.\n\n",
            p->context);
    page_write_table(to, all->page, false);
    if (all->page->evaluation) fputs("\n![divergence against size](divergence.svg)\n", to);
    readme_write_run(to, p);
    readme_write_projector(to, p);
    readme_write_drafts(to, p);
    readme_write_how(to, p);
}

static void readme_write_chart(FILE *to, const void *what) {
    page_write_chart(to, ((const readme *)what)->page);
}

/* Fills the rows of the table, which are in the order of the files. */
static bool readme_fill_rows(const gq_publication *p, gq_page_row *rows, gq_interval *intervals,
                             gq_error *e) {
    for (size_t i = 0; i < p->n_files; i++) {
        const publish_file *f = &p->files[i];
        rows[i] = (gq_page_row){.path = f->path,
                                .type = f->label,
                                .file_bytes = f->file_bytes,
                                .bits = f->bits,
                                .relative_error = NAN};
        if (p->evaluation && f->evaluated &&
            !gq_page_row_evaluated(&rows[i], p->evaluation, f->evaluated, &intervals[2 * i], e))
            return false;
    }
    return true;
}

/* Warns of figures that an earlier page had. */
static bool readme_warn_chart(gq_publication *p, gq_error *e) {
    struct stat st;
    char *path = NULL;
    if (p->evaluation) return true;
    if (asprintf(&path, "%s/%s", p->options.out_dir, PUBLISH_CHART) < 0) return gq_fail_memory(e, 64);
    bool ok =
        lstat(path, &st) != 0 ||
        warnings_add(&p->warnings, e,
                     "%s is of an earlier evaluation, whose figures the page has no more: the same line with "
                     "--evaluate puts them there again",
                     path);
    free(path);
    return ok;
}

static bool readme_write_files(gq_publication *p, const readme *all, gq_error *e) {
    size_t n;
    char *front = page_text(readme_write_front, p, &n, e),
         *text = front ? page_text(readme_write, all, &n, e) : NULL,
         *chart = text && p->evaluation ? page_text(readme_write_chart, all, &n, e) : NULL;
    bool ok = text && (chart || !p->evaluation) && (!chart || folder_write_chart(p, chart, e)) &&
              folder_write_page(p, front, text, e) && readme_warn_chart(p, e) && publication_write_sums(p, e);
    free(front), free(text), free(chart);
    return ok;
}

bool publication_write_page(gq_publication *p, gq_error *e) {
    char *note = NULL;
    page_sorted sorted = {.rows = NULL};
    size_t n_models;
    const size_t n = p->n_files;
    gq_page_row *rows = calloc(n, sizeof *rows);
    gq_interval *intervals = calloc(2 * n, sizeof *intervals);
    bool ok = ((rows && intervals) || gq_fail_memory(e, n * (sizeof *rows + 2 * sizeof *intervals))) &&
              readme_fill_rows(p, rows, intervals, e);
    ok = ok && (!p->request.speeds || speeds_take(&p->speeds, p->request.speeds, rows, n, &note, e));
    gq_page page = {.size = sizeof page, .rows = rows, .n = n, .memory = p->memory, .speed_note = note};
    if (p->evaluation) {
        page.original = gq_evaluation_models(p->evaluation, &n_models);
        page.evaluation = gq_evaluation_summary(p->evaluation);
    }
    ok = ok && page_sort(&sorted, &page, e);
    readme all = {p, &sorted.page};
    ok = ok && readme_write_files(p, &all, e);
    free(rows), free(intervals), free(sorted.rows), free(note);
    return ok;
}
