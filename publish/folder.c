/* The contents of a published folder before a call.
 *
 * README.md is a front matter, and between two marks the text that gquant makes anew each time. The first mark
 * has checksums of both. Words above and below the marks are their owner's and stay. A text between them that
 * is not the one that was written was edited, and stops the work; so does a page without marks. SHA256SUMS
 * keeps the lines of all files that are not of this page, and divergence.svg has a checksum of its own. */

#include "publish/publish.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/memory.h"
#include "base/name_index.h"
#include "base/safe_file.h"
#include "publish/chart.h"
#include "publish/text.h"

bool folder_lock(gq_publication *p, gq_error *e) {
    p->folder_fd = open(p->options.out_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return p->folder_fd < 0 || safe_file_lock(p->folder_fd, SAFE_FILE_ALONE) ||
           gq_fail(e, "%s: another gquant is publishing into this folder: wait until it is done",
                   p->options.out_dir);
}

char *folder_path(const gq_publication *p, const char *name, gq_error *e) {
    char *path;
    if (asprintf(&path, "%s/%s", p->options.out_dir, name) >= 0) return path;
    return gq_fail_memory(e, strlen(name)), NULL;
}

/* Returns a file of the folder as text, malloc'ed; NULL: there is none, or it cannot be one of ours.
 * *is_there: which of both. */
static char *folder_read(const gq_publication *p, const char *name, bool *is_there, gq_error *e) {
    enum { MOST = 1 << 20 }; /* ours are a few thousand bytes */
    size_t n;
    struct stat st;
    char *path = folder_path(p, name, e), *text = NULL;
    *is_there = false;
    if (!path) return NULL;
    *is_there = lstat(path, &st) == 0;
    if (*is_there) text = gq_read_whole(path, MOST, &n, &(gq_error){0});
    if (text && memchr(text, 0, n)) free(text), text = NULL; /* what is behind it would be lost */
    free(path);
    char *to = text; /* git on Windows ends lines in CR LF */
    for (const char *at = text; at && (*to = *at); at++)
        if (at[0] != '\r' || at[1] != '\n') to++;
    return text;
}

static bool folder_write(const gq_publication *p, const char *name, const char *text, gq_error *e) {
    char *path = folder_path(p, name, e);
    bool ok = path && gq_write_whole(path, true, text, strlen(text), e);
    free(path);
    return ok;
}

static const char NO_TEXT[] =
    "cannot be read as a text of up to 1 MiB, so nothing that is in it would be kept";

/* Warns where what is about to be replaced could not be read. */
static bool folder_warn_lost(gq_publication *p, const char *name, const char *text, bool is_there,
                             gq_error *e) {
    return text || !is_there ||
           warnings_add(&p->warnings, e,
                        "%s/%s could not be read as a text of up to 1 MiB: nothing that was in it is kept",
                        p->options.out_dir, name);
}

/* ---- the page ---- */

static const char BEGINS[] = "<!-- gquant publish begins ", ENDS[] = "<!-- gquant publish ends -->\n";

/* Finds the parts of a page. false: it has no marks, or more than one pair. */
static bool page_find(page_there *to) {
    const char *page = to->text, *front = !strncmp(page, "---\n", 4) ? strstr(page + 3, "\n---\n") : NULL;
    const char *first = strstr(page, BEGINS), *behind = first ? strchr(first, '\n') : NULL;
    const char *last = behind ? strstr(behind, ENDS) : NULL;
    unsigned of_front, of_text;
    while (last && last[-1] != '\n') last = strstr(last + 1, ENDS);
    if (!last || strstr(last, BEGINS) || (first != page && first[-1] != '\n') ||
        sscanf(first + sizeof BEGINS - 1, "%8x %8x", &of_front, &of_text) != 2)
        return false;
    to->front = front && front < first ? (size_t)(front + 5 - page) : 0;
    to->before = (size_t)(first - page);
    to->begins = (size_t)(behind + 1 - page), to->end = (size_t)(last - page);
    to->front_is_ours = checksum_add(0, page, to->front) == of_front;
    to->text_is_ours = checksum_add(0, page + to->begins, to->end - to->begins) == of_text;
    return true;
}

/* Whether a link of the page leads to a file with the model's name in its own. */
static bool page_is_of(const char *page, const char *model) {
    for (const char *at = page; (at = strstr(at, "]("));) {
        at += 2;
        if (memmem(at, strcspn(at, ")\n"), model, strlen(model))) return true;
    }
    return false;
}

static page_there page_read(const gq_publication *p, gq_error *e) {
    page_there to = {.text = NULL};
    to.text = folder_read(p, PUBLISH_PAGE, &to.is_there, e);
    to.is_marked = to.text && page_find(&to);
    to.is_models = to.is_marked && page_is_of(to.text + to.begins, p->stem);
    return to;
}

/* Whether a page is one that an earlier gquant has written. */
static bool page_is_unmarked(const char *page) {
    return strstr(page, "\n- gquant\n") && strstr(page, "`sha256sum -c SHA256SUMS` checks a download.");
}

static bool folder_check_page(const gq_publication *p, const page_there *page, gq_error *e) {
    const char *why = NULL;
    const char *mark = page->text ? strstr(page->text, BEGINS) : NULL;
    if (page->is_there && !page->text)
        why = NO_TEXT;
    else if (page->is_there && !page->is_marked)
        why = mark && strstr(mark + 1, BEGINS)
                  ? "has the marks of gquant publish more than once: remove the outdated sections"
              : mark ? "has no line '<!-- gquant publish ends -->' after the generated text: restore it"
              : page_is_unmarked(page->text)
                  ? "was written by an earlier gquant, without the marks that show whether it was edited"
                  : "exists and was not written by gquant publish";
    else if (page->is_there && !page->text_is_ours)
        why = "was edited between the marks of gquant publish, where the text is generated: move your words "
              "above or below them";
    return !why || gq_fail_remedy(e, GQ_REMEDY_REPLACE, "%s/%s %s", p->options.out_dir, PUBLISH_PAGE, why);
}

/* Returns the text of a key of the front matter, malloc'ed; NULL: it has none. */
static char *front_value(const char *front, const char *key) {
    char begins[32];
    int n = snprintf(begins, sizeof begins, "\n%s: \"", key);
    const char *at = strstr(front, begins);
    json_t *value = at ? json_loads(at + n - 1, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    char *text = json_is_string(value) ? strdup(json_string_value(value)) : NULL;
    json_decref(value);
    return text;
}

/* Returns the page's title, malloc'ed, where somebody has given it: it is neither the base model's name nor that of the
 * files. */
static char *page_given_title(const gq_publication *p, const char *text, const char *base) {
    static const char begins[] = "# ", ends[] = " GGUF\n";
    const char *end = strstr(text, ends), *name = base ? strchr(base, '/') : NULL;
    if (!end || strncmp(text, begins, strlen(begins)) != 0 || end + strlen(ends) - 1 != strchr(text, '\n'))
        return NULL;
    char *title = strndup(text + strlen(begins), (size_t)(end - text) - strlen(begins)), *to = title;
    for (const char *at = title; at && *at; *to++ = *at++) /* page_write_text marks signs */
        if (*at == '\\' && at[1]) at++;
    if (title) *to = 0;
    if (title && (!strcmp(title, p->stem) || (name && !strcmp(title, name + 1)))) free(title), title = NULL;
    return title;
}

/* Returns the repository that the page's commands name, malloc'ed; NULL: none. */
static char *page_repo(const char *text) {
    static const char begins[] = "\n    hf download ";
    const char *at = strstr(text, begins);
    size_t n = at ? strcspn(at += strlen(begins), " \n") : 0;
    bool is = n && name_is_hub_id(at, n) && strncmp(at, REPO_UNKNOWN " ", n + 1) != 0;
    return is ? strndup(at, n) : NULL;
}

/* Takes what the call did not name. */
static void folder_keep(gq_publication *p, const char *front, const char *text, const char *base) {
    gq_publish_request *r = &p->request, *kept = &p->kept;
    size_t n;
    const char *license = page_model_text(p->model, "general.license", &n);
    if (!r->repo) r->repo = kept->repo = page_repo(text);
    if (!r->title) r->title = kept->title = page_given_title(p, text, base);
    if (!r->quantized_by) r->quantized_by = kept->quantized_by = front_value(front, "quantized_by");
    char *old = r->license ? NULL : front_value(front, "license");
    if (old && license && strlen(old) == n && !memcmp(old, license, n))
        free(old), old = NULL; /* the model's */
    if (!r->license) r->license = kept->license = old;
}

bool folder_recall(gq_publication *p, gq_error *e) {
    page_there *page = &p->old_page;
    bool ok = true;
    *page = page_read(p, e);
    if (!page->is_models) return true;
    page->text[page->front ? page->front - 1 : 0] = page->text[page->end] = 0;
    char *base = front_value(page->text, "base_model");
    folder_keep(p, page->text, page->text + page->begins, base);
    if (base && !p->request.base_model && name_is_hub_id(base, strlen(base)))
        ok = base_model_take(&p->base_model, base, strlen(base), PUBLISH_PAGE, e);
    free(base);
    return ok;
}

/* Whether the new page has all kinds of figures that the old one has. */
static bool folder_check_figures(const gq_publication *p, gq_error *e) {
    static const char begins[] = "\nEvaluated on `";
    const char *text = p->old_page.is_models ? p->old_page.text + p->old_page.begins : NULL;
    bool ok = true;
    const char *name = text ? strstr(text, begins) : NULL;
    if (name) name += strlen(begins);
    if (text && !p->request.evaluation && strstr(text, "](" PUBLISH_CHART ")"))
        ok = gq_fail(e,
                     "%s/%s has figures of an evaluation%s%.*s, which this command would drop: name the text "
                     "again (--evaluate, --chats; cached scores are reused), or remove %s and %s",
                     p->options.out_dir, PUBLISH_PAGE, name ? " on " : "",
                     name ? (int)strcspn(name, "`\n") : 0, name ? name : "", PUBLISH_PAGE, PUBLISH_CHART);
    else if (text && !p->request.speeds && strstr(text, " tokens/s |"))
        ok = gq_fail(e,
                     "%s/%s has speeds of llama-bench, which this command would drop: name its output again "
                     "(--speeds), or remove %s",
                     p->options.out_dir, PUBLISH_PAGE, PUBLISH_PAGE);
    return ok;
}

bool folder_write_page(gq_publication *p, const char *front, const char *text, gq_error *e) {
    page_there old = page_read(p, e); /* again: it may have changed meanwhile */
    char *page = NULL;
    bool ok = (p->options.force || folder_check_page(p, &old, e)) &&
              folder_warn_lost(p, PUBLISH_PAGE, old.text, old.is_there, e);
    if (!ok) return free(old.text), false;
    bool keeps_front = old.is_marked && !old.front_is_ours;
    if (keeps_front)
        ok = warnings_add(
            &p->warnings, e,
            "%s/%s: its front matter was edited and is kept; the entries of this run are not written there",
            p->options.out_dir, PUBLISH_PAGE);
    int n = asprintf(
        &page,
        "%.*s%s%.*s%s%08x %08x: what is between is made anew, your words go above or below -->\n%s%s%s",
        keeps_front ? (int)old.front : 0, old.text ? old.text : "", keeps_front ? "" : front,
        old.is_marked ? (int)(old.before - old.front) : 1, old.is_marked ? old.text + old.front : "\n",
        BEGINS, (unsigned)checksum_add(0, front, strlen(front)),
        (unsigned)checksum_add(0, text, strlen(text)), text, ENDS,
        old.is_marked ? old.text + old.end + strlen(ENDS) : "");
    if (n < 0) page = NULL, ok = gq_fail_memory(e, strlen(text));
    ok = ok && folder_write(p, PUBLISH_PAGE, page, e);
    free(old.text), free(page);
    return ok;
}

/* ---- the chart ---- */

static const char CHART_MARK[] = "<!-- gquant ";

static bool chart_is_ours(const char *chart) {
    const char *mark = page_is_chart(chart) ? strstr(chart, CHART_MARK) : NULL;
    unsigned sum;
    return mark && sscanf(mark + sizeof CHART_MARK - 1, "%8x", &sum) == 1 &&
           checksum_add(0, chart, (size_t)(mark - chart)) == sum && !strcmp(strchr(mark, '\n'), "\n");
}

static bool folder_check_chart(const gq_publication *p, gq_error *e) {
    bool is_there;
    char *chart = folder_read(p, PUBLISH_CHART, &is_there, e);
    bool is_chart = chart && page_is_chart(chart), ok = !is_there || (chart && chart_is_ours(chart));
    free(chart);
    return ok || gq_fail_remedy(e, GQ_REMEDY_REPLACE, "%s/%s %s", p->options.out_dir, PUBLISH_CHART,
                                is_chart ? "was edited, or written by an earlier gquant"
                                         : "exists and was not written by gquant publish");
}

bool folder_write_chart(const gq_publication *p, const char *chart, gq_error *e) {
    char *marked = NULL;
    if (asprintf(&marked, "%s%s%08x -->\n", chart, CHART_MARK,
                 (unsigned)checksum_add(0, chart, strlen(chart))) < 0)
        return gq_fail_memory(e, strlen(chart));
    bool ok = (p->options.force || folder_check_chart(p, e)) && folder_write(p, PUBLISH_CHART, marked, e);
    free(marked);
    return ok;
}

/* ---- checksums ---- */

enum { SUM_DIGITS = 64, BEFORE_NAME = SUM_DIGITS + 2 };

/* Returns where the name of a line of n bytes begins; NULL: it is no line of sha256sum. */
static const char *sums_name(const char *line, size_t n) {
    size_t escape = *line == '\\';
    bool is = n > BEFORE_NAME + escape && strspn(line + escape, "0123456789abcdefABCDEF") == SUM_DIGITS &&
              line[escape + SUM_DIGITS] == ' ' && strchr(" *", line[escape + SUM_DIGITS + 1]);
    return is ? line + escape + BEFORE_NAME : NULL;
}

static bool folder_check_sums(const gq_publication *p, const char *sums, bool is_there, gq_error *e) {
    bool ok = true;
    for (const char *line = sums; ok && line && *line;) {
        size_t n = strcspn(line, "\n");
        ok = n == 0 || sums_name(line, n);
        line += n + (line[n] == '\n');
    }
    if (is_there && !sums)
        return gq_fail_remedy(e, GQ_REMEDY_REPLACE, "%s/%s %s", p->options.out_dir, PUBLISH_SUMS, NO_TEXT);
    return ok ||
           gq_fail_remedy(e, GQ_REMEDY_REPLACE, "%s/%s exists and was not written by gquant publish: %s",
                          p->options.out_dir, PUBLISH_SUMS, "it has lines that are none of sha256sum's");
}

/* Returns the line of a file; NULL: none of the lines is. */
static const char *sums_find(const char *lines, const char *name, size_t n) {
    for (const char *line = lines; line && *line;) {
        size_t length = strcspn(line, "\n");
        const char *its = sums_name(line, length);
        if (its && (size_t)(line + length - its) == n && !memcmp(its, name, n)) return line;
        line += length + (line[length] == '\n');
    }
    return NULL;
}

/* Warns of a file that a kept line names and that is not there: sha256sum -c would fail. */
static bool sums_check_kept(gq_publication *p, const char *line, const char *name, size_t n, gq_error *e) {
    struct stat st;
    char *path = NULL;
    if (*line == '\\') return true; /* a name with escapes */
    if (asprintf(&path, "%s/%.*s", p->options.out_dir, (int)n, name) < 0) return gq_fail_memory(e, n);
    bool ok = lstat(path, &st) == 0 || warnings_add(&p->warnings, e, "%s/%s names %.*s, which does not exist",
                                                    p->options.out_dir, PUBLISH_SUMS, (int)n, name);
    free(path);
    return ok;
}

bool folder_write_sums(gq_publication *p, const char *lines, gq_error *e) {
    bool is_there;
    char *old = folder_read(p, PUBLISH_SUMS, &is_there, e), *text = NULL;
    bool ok = (p->options.force || folder_check_sums(p, old, is_there, e)) &&
              folder_warn_lost(p, PUBLISH_SUMS, old, is_there, e);
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    if (to) fputs(lines, to);
    for (const char *line = old; to && ok && line && *line;) {
        size_t n = strcspn(line, "\n");
        const char *name = sums_name(line, n);
        if (name && !sums_find(lines, name, (size_t)(line + n - name))) {
            ok = sums_check_kept(p, line, name, (size_t)(line + n - name), e);
            fprintf(to, "%.*s\n", (int)n, line);
        }
        line += n + (line[n] == '\n');
    }
    bool failed = !to || ferror(to);
    failed = (to && fclose(to) != 0) || failed;
    ok = ok && (!failed || gq_fail_memory(e, size)) && folder_write(p, PUBLISH_SUMS, text, e);
    free(text), free(old);
    return ok;
}

/* ---- .gitattributes ---- */

/* Reads the lines that are there, malloc'ed; *lines NULL: there are none. */
static bool folder_read_attributes(const gq_publication *p, char **lines, gq_error *e) {
    bool is_there;
    *lines = folder_read(p, PUBLISH_ATTRIBUTES, &is_there, e);
    return !is_there || *lines ||
           gq_fail(e, "%s/%s cannot be read as a text of up to 1 MiB: remove or correct it",
                   p->options.out_dir, PUBLISH_ATTRIBUTES);
}

bool folder_write_attributes(const gq_publication *p, gq_error *e) {
    static const char lines[] = "*.gguf filter=lfs diff=lfs merge=lfs -text\n"
                                "*.dat filter=lfs diff=lfs merge=lfs -text\n"
                                "*.gz filter=lfs diff=lfs merge=lfs -text\n";
    char *old, *text = NULL;
    if (!folder_read_attributes(p, &old, e)) return false;
    const char *line = old ? strstr(old, "*.gguf filter=lfs") : NULL;
    if (line && (line == old || line[-1] == '\n')) return free(old), true;
    size_t n = old ? strlen(old) : 0;
    bool ok = asprintf(&text, "%s%s%s", old ? old : "", n && old[n - 1] != '\n' ? "\n" : "", lines) >= 0 ||
              (text = NULL, gq_fail_memory(e, n));
    ok = ok && folder_write(p, PUBLISH_ATTRIBUTES, text, e);
    free(text), free(old);
    return ok;
}

bool folder_check(const gq_publication *p, gq_error *e) {
    char *text = NULL;
    bool ok = folder_read_attributes(p, &text, e), is_there;
    free(text);
    if (!ok || p->options.force || p->options.dry_run) return ok;
    text = folder_read(p, PUBLISH_SUMS, &is_there, e);
    ok = folder_check_page(p, &p->old_page, e) && folder_check_figures(p, e) &&
         folder_check_sums(p, text, is_there, e) && (!p->request.evaluation || folder_check_chart(p, e));
    free(text);
    return ok;
}

/* ---- files of the page ---- */

static bool folder_add_file(gq_publication *p, const char *path, const char *label, uint64_t bytes,
                            double bits, gq_error *e) {
    if (!memory_grow(&p->files, &p->file_capacity, p->n_files + 1, sizeof *p->files, e)) return false;
    publish_file f = {.path = strdup(path), .label = strdup(label), .file_bytes = bytes, .bits = bits};
    p->files[p->n_files++] = f;
    return (f.path && f.label) || gq_fail_memory(e, strlen(path));
}

/* Whether two models have the same text, or both none, under a key. */
static bool folder_same_text(const gq_model *a, const gq_model *b, const char *key) {
    size_t n, m;
    const char *of_a = page_model_text(a, key, &n), *of_b = page_model_text(b, key, &m);
    return !of_a == !of_b && n == m && (!of_a || !memcmp(of_a, of_b, n));
}

/* The page's name for an earlier file: the file name's end after the model's name, or its file type. */
static const char *folder_label(const gq_publication *p, const gq_model *m, const char *name, char to[64]) {
    size_t n = strlen(p->stem), length = strlen(name);
    const char *shard = strstr(name, "-00001-of-");
    size_t end = shard ? (size_t)(shard - name) : length - strlen(".gguf");
    if (!strncmp(name, p->stem, n) && name[n] == '-' && end > n + 1 && end - n - 1 < 64)
        return snprintf(to, 64, "%.*s", (int)(end - n - 1), name + n + 1), to;
    return gq_model_filetype(m) ? gq_model_filetype(m) : "?";
}

/* A tensor's digest in a file of gquant (gguf/model.h): what made it, checksums of its weights and of its bytes. */
typedef struct tensor_digest {
    gq_value made_by, source, bytes;
} tensor_digest;

/* Returns the digests of a file's tensors, malloc'ed; NULL: it has none, or there is no memory. */
static tensor_digest *folder_digests(const gq_model *m) {
    size_t n, n_tensors, i = gq_model_find_key(m, "gquant.digests");
    const gq_metadata *all = gq_model_metadata(m, &n);
    gq_model_tensors(m, &n_tensors);
    if (i >= n || !all[i].list || all[i].count != 3 * (uint64_t)n_tensors) return NULL;
    tensor_digest *to = calloc(n_tensors + 1, sizeof *to);
    if (to) gq_metadata_values(&all[i], &to->made_by, 3 * n_tensors);
    return to;
}

/* Whether a file was made of the same weights as one of this call, by what both say of tensors that are in both;
 * *tensor: one whose weights differ. A file that says nothing may be. */
static bool folder_same_weights(const gq_model *old, const gq_model *made, const char **tensor) {
    tensor_digest *of_old = folder_digests(old), *of_made = folder_digests(made);
    size_t n, n_made;
    const gq_stored *tensors = gq_model_tensors(old, &n), *others = gq_model_tensors(made, &n_made);
    *tensor = NULL;
    for (size_t i = 0; of_old && of_made && !*tensor && i < n; i++) {
        size_t k = gq_model_find(made, tensors[i].name);
        const tensor_digest *a = &of_old[i], *b = &of_made[k < n_made ? k : 0];
        if (k >= n_made) continue;
        bool copies = !a->made_by.as_signed && !b->made_by.as_signed && tensors[i].type == others[k].type &&
                      !gq_type_quantized(tensors[i].type);
        if ((a->made_by.as_signed && b->made_by.as_signed && a->source.as_signed != b->source.as_signed) ||
            (copies && a->bytes.as_signed != b->bytes.as_signed))
            *tensor = tensors[i].name;
    }
    free(of_old), free(of_made);
    return !*tensor;
}

/* Whether a key says what a model is, and not how its file was made, or how it is called. */
static bool key_is_models(const char *key) {
    static const char *const others[] = {"general.", "quantize.", "gquant.", "split."};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strncmp(key, others[i], strlen(others[i]))) return false;
    return true;
}

/* Finds whether two keys have the same value. */
static bool folder_same_value(const gq_metadata *a, const gq_metadata *b, bool *same, gq_error *e) {
    *same = a->list == b->list && a->count == b->count;
    if (!*same) return true;
    size_t n = (size_t)a->count;
    gq_value *of_a = calloc(2 * n + 1, sizeof *of_a);
    if (!of_a) return gq_fail_memory(e, (2 * n + 1) * sizeof *of_a);
    gq_value *of_b = of_a + n;
    gq_metadata_values(a, of_a, n), gq_metadata_values(b, of_b, n);
    for (size_t i = 0; *same && i < n; i++)
        *same = of_a[i].kind == of_b[i].kind &&
                (of_a[i].kind == GQ_TEXT
                     ? of_a[i].length == of_b[i].length && !memcmp(of_a[i].text, of_b[i].text, of_a[i].length)
                     : of_a[i].as_unsigned == of_b[i].as_unsigned);
    free(of_a);
    return true;
}

/* Finds *other, a key of `a` that `b` lacks, or, if `values`, has with another value, where it is NULL; it stays so where
 * there is none. *mtp: whether one of these is the number of MTP layers, with which others go: one of both files has
 * them, and the other a file of their own. */
static bool folder_find_other(const gq_model *a, const gq_model *b, bool values, const char **other,
                              bool *mtp, gq_error *e) {
    static const char layers[] = ".nextn_predict_layers";
    size_t n, m;
    const gq_metadata *of_a = gq_model_metadata(a, &n), *of_b = gq_model_metadata(b, &m);
    for (size_t i = 0; i < n; i++) {
        if (!key_is_models(of_a[i].key)) continue;
        size_t k = gq_model_find_key(b, of_a[i].key);
        bool same = k < m;
        if (same && values && !folder_same_value(&of_a[i], &of_b[k], &same, e)) return false;
        if (same) continue;
        if (strstr(of_a[i].key, layers)) *mtp = true;
        if (!*other) *other = of_a[i].key;
    }
    return true;
}

/* Finds a key of which a file says something else of the model than one of this call; *key NULL: there is none. */
static bool folder_find_other_key(const gq_model *old, const gq_model *made, const char **key, gq_error *e) {
    bool mtp = false;
    *key = NULL;
    if (!folder_find_other(made, old, true, key, &mtp, e) ||
        !folder_find_other(old, made, false, key, &mtp, e))
        return false;
    if (mtp) *key = NULL;
    return true;
}

static bool folder_go_on(void *data, size_t n, gq_error *e) {
    const gq_callbacks *to = &((gq_publication *)data)->phases.relay.own;
    (void)n;
    return !to->cancelled || !to->cancelled(to->user) || gq_fail_as(e, GQ_INTERRUPTED, "stopped on request");
}

/* Compares a model's files with their lines of SHA256SUMS; *damaged: one that differs from its line, NULL: none.
 * A new line for it would bless what a bad disk has made of it. *found: the checksums of all of them, malloc'ed;
 * NULL: some have no line. */
static bool folder_find_damage(gq_publication *p, const gq_model *m, const char *sums, const char **damaged,
                               char (**found)[SHA256_TEXT], gq_error *e) {
    const uint32_t n = gq_model_summary(m)->shards;
    uint32_t compared = 0;
    *damaged = NULL;
    if (!(*found = calloc(n, sizeof **found))) return gq_fail_memory(e, n * sizeof **found);
    for (uint32_t i = 0; !*damaged && i < n; i++) {
        const char *path = gq_model_path(m, i), *name = page_file_name(path);
        const char *line = sums_find(sums, name, strlen(name));
        if (!line || *line == '\\') continue; /* a name with escapes */
        if (!sha256_file(path, (*found)[i], folder_go_on, p, e)) return false;
        if (strncasecmp(line, (*found)[i], SUM_DIGITS) != 0) *damaged = path;
        compared++;
    }
    if (compared < n) free(*found), *found = NULL;
    return true;
}

/* Checks a model of which a file has no line in SHA256SUMS by its own digests. *damaged: a problem with one of its
 * tensors, malloc'ed; NULL: none. */
static bool folder_verify(gq_publication *p, const gq_model *m, const char *sums, char **damaged,
                          gq_error *e) {
    size_t n;
    bool has_lines = true;
    const char *path = gq_model_path(m, 0);
    gq_callbacks callbacks = {.size = sizeof callbacks};
    callbacks.user = p->phases.relay.own.user, callbacks.cancelled = p->phases.relay.own.cancelled;
    for (uint32_t i = 0; has_lines && i < gq_model_summary(m)->shards; i++) {
        const char *name = page_file_name(gq_model_path(m, i));
        has_lines = strpbrk(name, "\\\n\r") || sums_find(sums, name, strlen(name)); /* one with escapes */
    }
    if (has_lines) return true;
    gq_model_metadata(m, &n);
    if (gq_model_find_key(m, "gquant.digests") >= n)
        return warnings_add(
            &p->warnings, e,
            "%s has no line in %s, and no digests of its own: it is listed, and nothing shows "
            "whether it is whole",
            path, PUBLISH_SUMS);
    gq_verification *v = gq_verify(path, NULL, 0, p->options.threads, &callbacks, e);
    const gq_verdict *verdicts = v ? gq_verification_verdicts(v, &n) : NULL;
    bool ok = v;
    for (size_t i = 0; ok && !*damaged && i < n; i++)
        if (*verdicts[i].problem && asprintf(damaged, "%s: %s", verdicts[i].name, verdicts[i].problem) < 0)
            *damaged = NULL, ok = gq_fail_memory(e, strlen(verdicts[i].problem));
    gq_verification_free(v);
    return ok;
}

/* The file of the page that has the same name but for its shards; NULL: none. */
static const char *folder_find_same_split(const gq_publication *p, const char *name) {
    const char *shard = strstr(name, "-00001-of-");
    size_t n = shard ? (size_t)(shard - name) : strlen(name) - strlen(".gguf");
    for (size_t i = 0; i < p->n_files; i++) {
        const char *other = page_file_name(p->files[i].path), *its = strstr(other, "-00001-of-");
        size_t m = its ? (size_t)(its - other) : strlen(other) - strlen(".gguf");
        if (n == m && !memcmp(name, other, n)) return other;
    }
    return NULL;
}

/* Adds a file that an earlier call has made of the same model; warns of any other. made: a file of this call;
 * sums: the lines of SHA256SUMS. */
static bool folder_look_at(gq_publication *p, const char *name, const gq_model *made, const char *sums,
                           gq_error *e) {
    char *path = folder_path(p, name, e), room[64];
    if (!path) return false;
    gq_model *m = companion_is_named(name, p->stem) ? NULL : gq_model_open(path, &(gq_error){0});
    bool ok, is_same = m && folder_same_text(m, p->model, "general.architecture") &&
                       folder_same_text(m, p->model, "general.name");
    char *problem = NULL, (*found)[SHA256_TEXT] = NULL;
    const char *tensor, *key = NULL, *damaged = NULL, *split = folder_find_same_split(p, name);
    if (is_same && split) {
        ok = warnings_add(&p->warnings, e,
                          "%s is in the folder, and the page does not name it: it is %s in another split; "
                          "remove one of them",
                          path, split);
    } else if (is_same && !folder_find_damage(p, m, sums, &damaged, &found, e)) {
        ok = false;
    } else if (damaged) {
        ok =
            warnings_add(&p->warnings, e,
                         "%s is in the folder, and the page does not name it: its SHA-256 is not that of its "
                         "line in %s, which stays; it was damaged or changed: make it again, or remove the "
                         "line if the file is right",
                         damaged, PUBLISH_SUMS);
    } else if (is_same && made && !folder_same_weights(m, made, &tensor)) {
        ok = warnings_add(
            &p->warnings, e,
            "%s is in the folder, and the page does not name it: it was made of other weights, those of %s "
            "differ; make it again, or keep it in another folder",
            path, tensor);
    } else if (is_same && made && !folder_find_other_key(m, made, &key, e)) {
        ok = false;
    } else if (key) {
        ok = warnings_add(&p->warnings, e,
                          "%s is in the folder, and the page does not name it: its metadata are not those of "
                          "the model now, %s differs; make it again, or keep it in another folder",
                          path, key);
    } else if (is_same && !folder_verify(p, m, sums, &problem, e)) {
        ok = false;
    } else if (problem) {
        ok = warnings_add(
            &p->warnings, e,
            "%s is in the folder, and the page does not name it: it has no line in %s, and its own "
            "digests show damage in %s; make it again",
            path, PUBLISH_SUMS, problem);
    } else if (is_same) {
        const gq_model_facts *f = gq_model_summary(m);
        ok = folder_add_file(p, path, folder_label(p, m, name, room), f->file_bytes,
                             gq_bits_per_weight(f->tensor_bytes, f->n_weights), e);
        if (ok) {
            publish_file *file = &p->files[p->n_files - 1];
            file->has_imatrix = gq_model_find_key(m, "quantize.imatrix.file") != SIZE_MAX;
            file->is_calibrated = gq_model_find_key(m, "gquant.source") != SIZE_MAX;
            file->n_checked = found ? f->shards : 0;
            file->checked_sums = found, found = NULL;
        }
    } else {
        ok = warnings_add(&p->warnings, e, "%s is in the folder, but README.md does not list it: %s", path,
                          companion_is_named(name, p->stem) ? "an earlier command made it"
                          : m                               ? "it is of another model"
                                                            : "it cannot be read as a model");
    }
    gq_model_close(m);
    free(path), free(problem), free(found);
    return ok;
}

/* Whether a name is that of a model's first file, and of none that this call makes. */
static bool folder_is_earlier(const gq_publication *p, const char *name) {
    size_t n = strlen(name);
    const char *shard = strstr(name, "-of-");
    if (*name == '.' || n <= 5 || strcmp(name + n - 5, ".gguf") != 0) return false;
    if (shard && shard - name > 6 && shard[-6] == '-' && strspn(shard - 5, "0123456789") == 5 &&
        strncmp(shard - 5, "00001", 5) != 0)
        return false;
    for (size_t i = 0; i < p->n; i++)
        if (!strcmp(name, page_file_name(gq_plan_summary(p->plan, i)->path))) return false;
    if (p->imatrix_name && !strcmp(name, p->imatrix_name)) return false;
    for (gq_companion i = 0; i < GQ_COMPANIONS; i++)
        if (p->companions[i] && !strcmp(name, page_file_name(gq_plan_summary(p->companions[i], 0)->path)))
            return false;
    return true;
}

bool folder_list_files(gq_publication *p, gq_error *e) {
    char **names = NULL;
    size_t n = 0, capacity = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < p->n; i++) {
        const gq_summary *s = gq_plan_summary(p->plan, i);
        ok = folder_add_file(p, s->path, p->labels[i], s->file_bytes,
                             gq_bits_per_weight(s->out_bytes, s->n_weights), e);
    }
    DIR *d = ok ? opendir(p->options.out_dir) : NULL;
    for (struct dirent *entry; d && ok && (entry = readdir(d));) {
        if (!folder_is_earlier(p, entry->d_name)) continue;
        ok = memory_grow(&names, &capacity, n + 1, sizeof *names, e) &&
             ((names[n] = strdup(entry->d_name)) || gq_fail_memory(e, strlen(entry->d_name)));
        n += ok;
    }
    if (d) closedir(d);
    if (n) qsort(names, n, sizeof *names, name_compare);
    bool is_there;
    char *sums = n ? folder_read(p, PUBLISH_SUMS, &is_there, e) : NULL;
    gq_model *made = ok && n && p->n ? gq_model_open(gq_plan_summary(p->plan, 0)->path, e) : NULL;
    ok = ok && (made || !n || !p->n);
    for (size_t i = 0; ok && i < n; i++) ok = folder_look_at(p, names[i], made, sums, e);
    gq_model_close(made);
    free(sums);
    for (size_t i = 0; i < n; i++) free(names[i]);
    free(names);
    return ok;
}
