/* The model card: README.md with the front matter that Hugging Face reads. Its words are templates (card/);
 * this file collects the facts that they are filled with, from the model's metadata (card_model.c), the plans
 * and the evaluation. */
#include "publish/publish.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "publish/chart.h"
#include "publish/table.h"
#include "publish/text.h"

/* ---- files ---- */

/* Parts of the file names in the table, and the fact that explains each. */
static void card_add_kinds(fact_list *l, const gq_publication *p) {
    static const struct {
        const char *label, *fact;
    } kinds[] = {
        {"Q[2-8]_K*", "kquants"}, {"IQ*", "iquants"},     {"Q[458]_[01]", "legacy"}, {"*F16", "floats"},
        {"F32", "floats"},        {"*FP4*", "fp4"},       {"for-*GB", "sizes"},      {"*GB", "sizes"},
        {"*MB", "sizes"},         {"*bpw", "sizes"},      {"*-size", "sizes"},       {"Q4_0", "repacked"},
        {"Q4_K*", "repacked"},    {"IQ4_NL", "repacked"}, {"Q[2456]_K_L", "large"},  {"Q3_K_XL", "large"}};
    for (size_t i = 0; i < p->n_files; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (card_matches(kinds[k].label, p->files[i].label) && !*fact_text(l, kinds[k].fact))
                fact_set(l, kinds[k].fact, true);
    uint64_t fallbacks = 0;
    for (size_t i = 0; i < gq_plan_outputs(p->plan); i++)
        if (gq_plan_summary(p->plan, i)->n_fallbacks > fallbacks)
            fallbacks = gq_plan_summary(p->plan, i)->n_fallbacks;
    if (fallbacks) fact_add(l, "fallbacks", "%" PRIu64, fallbacks);
    for (size_t i = 0, first; i < p->n; i++)
        if ((first = publication_first_same(p, i)) != i)
            fact_add(l, "same", "`%s` is the same file as `%s`.", p->labels[i], p->labels[first]);
}

/* Adds the file that the commands name, and how programs fetch it. */
static void card_add_recommended(fact_list *l, const gq_publication *p, const gq_page *page) {
    const char *why, *repo = p->request.repo ? p->request.repo : REPO_UNKNOWN;
    const gq_page_row *row = page_recommended(page, &why);
    const char *name = page_file_name(row->path), *shard = strstr(name, "-00001-of-");
    char *link = NULL, *download = NULL, size[24];
    size_t n;
    fact_add(l, "repo", "%s", repo), fact_set(l, "has_repo", p->request.repo);
    fact_add(l, "recommended", "%s", name), fact_add(l, "recommended_type", "%s", row->type),
        fact_add(l, "recommended_why", "%s", why);
    fact_add(l, "recommended_size", "%s", page_size(size, row->file_bytes));
    fact_set(l, "recommended_sharded", shard);
    FILE *to = open_memstream(&link, &n);
    if (to) page_write_link(to, name);
    if (to && fclose(to) == 0) fact_add(l, "recommended_link", "%s", link);
    free(link);
    to = open_memstream(&download, &n);
    if (to && shard) fprintf(to, "--include "), page_write_quoted(to, name, (size_t)(shard - name), "-*");
    if (to && !shard) page_write_word(to, name);
    if (to && fclose(to) == 0) fact_add(l, "download", "%s", download);
    free(download);
    bool is_type = gq_filetype_find(row->type) >= 0; /* which programs look for in files' names */
    fact_add(l, "hf_name", is_type ? "%s:%s" : "%s --hf-file %s", repo, is_type ? row->type : name);
    fact_add(l, "ollama_name", "%s:%s", repo, is_type ? row->type : name);
    fact_add(l, "lms_name", "%s%s%s", repo, is_type ? "@" : "", is_type ? row->type : "");
    const char *task = *fact_text(l, "has_vocabulary") ? fact_text(l, "pipeline_tag") : "";
    bool embeds = !strcmp(task, CARD_EMBEDS) || !strcmp(task, CARD_RANKS);
    if (*task) fact_add(l, "runs", embeds ? "embedding" : "cli");
    fact_set(l, "runs_chat", *task && !embeds);
    for (size_t i = 0; i < p->n_files && !*fact_text(l, "is_sharded"); i++)
        fact_set(l, "is_sharded", strstr(page_file_name(p->files[i].path), "-00001-of-"));
}

/* The words that llama.cpp needs beside a draft's file; drafts of other kinds it knows. */
static const char *card_draft_words(const char *draft) {
    static const char *const kinds[][2] = {{"eagle3", " --spec-type draft-eagle3"},
                                           {"gemma4-assistant", " --spec-type draft-mtp"}};
    gq_model *m = gq_model_open(draft, NULL);
    size_t n = 0;
    const char *arch = m ? page_model_text(m, "general.architecture", &n) : NULL, *words = "";
    for (size_t i = 0; arch && i < sizeof kinds / sizeof *kinds; i++)
        if (n == strlen(kinds[i][0]) && !memcmp(arch, kinds[i][0], n)) words = kinds[i][1];
    gq_model_close(m);
    return words;
}

/* Adds the files that belong to all files of the table. */
static void card_add_companions(fact_list *l, const gq_publication *p) {
    static const char *const names[GQ_COMPANIONS][3] = {
        [GQ_PROJECTOR] = {"mmproj", "mmproj_size", "mmproj_type"},
        [GQ_MTP_FILE] = {"mtp", "mtp_size", "mtp_type"},
        [GQ_DRAFT_FILE] = {"draft", "draft_size", "draft_type"}};
    bool has_vision = publication_has_sense(p, "vision"), has_audio = publication_has_sense(p, "audio");
    fact_add(l, "senses", has_vision && has_audio ? "Images and audio" : has_audio ? "Audio" : "Images");
    fact_add(l, "sense", has_vision ? "image" : "audio");
    for (gq_companion i = 0; i < GQ_COMPANIONS; i++) {
        char size[24];
        if (!p->companions[i]) continue;
        const gq_summary *s = gq_plan_summary(p->companions[i], 0);
        fact_add(l, names[i][0], "%s", page_file_name(s->path));
        fact_add(l, names[i][1], "%s", page_size(size, s->file_bytes));
        fact_add(l, names[i][2], "%s", s->filetype);
        if (i != GQ_PROJECTOR && !*fact_text(l, "has_draft")) fact_set(l, "has_draft", true);
        if (i == GQ_DRAFT_FILE) fact_add(l, "draft_words", "%s", card_draft_words(s->path));
    }
}

static void card_write_accepted(FILE *to, const void *what) {
    const gq_publication *p = what;
    gq_drafted d;
    for (size_t k = 0; k <= p->n_files; k++) {
        const publish_file *f = k ? &p->files[k - 1] : NULL;
        if ((f && !f->evaluated) || !gq_evaluation_drafted(p->evaluation, f ? f->evaluated : 0, &d)) continue;
        const gq_interval *length = &d.length[GQ_DRAFTED - 1];
        const char *name = f ? page_file_name(f->path) : "base model";
        fputs("| ", to), page_write_text(to, name, strlen(name), false);
        fprintf(to, " | %.1f %% (%.1f to %.1f) | %.2f (%.2f to %.2f) |\n", 100 * d.first.value,
                100 * d.first.low, 100 * d.first.high, length->value, length->low, length->high);
    }
}

/* Adds how many of a draft's tokens each file accepts, where that was evaluated. */
static bool card_add_accepted(fact_list *l, const gq_publication *p, gq_error *e) {
    gq_drafted d;
    size_t n;
    if (!p->evaluation || !gq_evaluation_drafted(p->evaluation, 0, &d)) return true;
    char *rows = page_text(card_write_accepted, p, &n, e);
    bool ok = rows;
    if (ok) fact_add(l, "accepted", "%s", rows);
    free(rows);
    fact_add(l, "drafted", "%d", GQ_DRAFTED), fact_add(l, "accepted_texts", "%" PRIu64, d.texts);
    return ok;
}

/* ---- how the files were made ---- */

/* Adds the name of a text and the digest of its bytes, as far as they are there. */
static void card_add_source(fact_list *l, const char *name_fact, const char *sum_fact, const gq_text *text) {
    char sum[SHA256_TEXT];
    uint8_t digest[SHA256_BYTES];
    if (!text->name) return;
    fact_add(l, name_fact, "%s", page_file_name(text->name));
    if (text->bytes) sha256_sum(text->bytes, text->n, digest), sha256_print(digest, sum);
    if (text->bytes || gq_file_sha256(text->name, sum, NULL)) fact_add(l, sum_fact, "%s", sum);
}

/* Returns the command with the imatrix under its name in the folder, malloc'ed; NULL: no memory. */
static char *card_command(const gq_publication *p) {
    static const char option[] = " --imatrix ";
    const char *how = p->request.how, *at = p->imatrix_name ? strstr(how, option) : NULL;
    char *line = NULL;
    if (!at || strpbrk(p->imatrix_name, " '\"\\$`&;<>|*?#()!")) return strdup(how);
    at += strlen(option);
    const char *end = strstr(at, " --");
    return asprintf(&line, "%.*s%s%s", (int)(at - how), how, p->imatrix_name, end ? end : "") < 0 ? NULL
                                                                                                  : line;
}

/* Adds the command that makes the folder again, broken before options where it is long, as code in Markdown. */
static void card_add_command(fact_list *l, const gq_publication *p) {
    enum { COLUMNS = 76 };
    char *how = p->request.how ? card_command(p) : NULL, *text = NULL;
    size_t n = 0, column = 0;
    FILE *to = how ? open_memstream(&text, &n) : NULL;
    for (const char *c = how, *quote = NULL; to && *c; c++, column++) {
        size_t option = !quote && !strncmp(c, " --", 3) ? 1 + strcspn(c + 1, " ") : 0;
        if (*c == '\'') quote = quote ? NULL : c;
        if (option && c[option] && strncmp(c + option, " --", 3) != 0)
            option += 1 + strcspn(c + option + 1, " ");
        if (option && column + option > COLUMNS) fputs(" \\\n       ", to), column = 8;
        fputc(iscntrl((unsigned char)*c) ? '?' : *c, to);
    }
    if (to && fclose(to) == 0) fact_add_text(l, "how", text, n);
    free(text), free(how);
}

/* Adds the importance matrix: its file in the folder, and the texts that it names. */
static void card_add_imatrix(fact_list *l, const gq_publication *p) {
    char sum[SHA256_TEXT];
    if (!p->imatrix_name) return;
    fact_add(l, "imatrix_name", "%s", p->imatrix_name);
    if (gq_file_sha256(p->options.imatrix, sum, NULL)) fact_add(l, "imatrix_sha256", "%s", sum);
    gq_imatrix *m = gq_imatrix_open(p->options.imatrix, &(gq_error){0});
    const gq_imatrix_facts *f = m ? gq_imatrix_summary(m) : NULL;
    char *text = NULL;
    size_t n = 0;
    FILE *to = f ? open_memstream(&text, &n) : NULL;
    const char *scored = p->evaluation ? p->request.evaluation->text.name : NULL;
    for (size_t i = 0; to && i < f->n_datasets; i++) {
        const char *name = page_file_name(f->datasets[i]);
        fprintf(to, "%s%s", i ? ", " : "", name);
        if (scored && !strcmp(page_file_name(scored), name)) fact_set(l, "is_named_alike", true);
    }
    if (to && fclose(to) == 0) fact_add_text(l, "imatrix_text", text, n);
    free(text);
    gq_imatrix_free(m);
}

/* Adds the commit of a folder that was downloaded from a hub, by the notes of `hf download` or the path in the cache. */
static void card_add_revision(fact_list *l, const gq_publication *p) {
    enum { DIGITS = 40, MOST = 4096 };
    char *notes = NULL, *folder = realpath(p->options.input, NULL), *text = NULL;
    size_t n = 0;
    if (folder && asprintf(&notes, "%s/.cache/huggingface/download/config.json.metadata", folder) < 0)
        notes = NULL;
    if (notes) text = gq_read_whole(notes, MOST, &n, &(gq_error){0});
    const char *commit = text ? text : folder ? page_file_name(folder) : "";
    size_t digits = strspn(commit, "0123456789abcdef");
    if (digits == DIGITS && (commit[digits] == 0 || commit[digits] == '\n'))
        fact_add_text(l, "revision", commit, DIGITS);
    free(notes), free(folder), free(text);
}

/* Adds which of the earlier files say that they were made with an importance matrix, or calibrated. */
static void card_add_earlier(fact_list *l, const gq_publication *p) {
    for (size_t i = p->n; i < p->n_files; i++) {
        const publish_file *f = &p->files[i];
        if (f->has_imatrix) fact_add(l, "earlier_imatrix", "%s", f->label);
        if (f->is_calibrated) fact_add(l, "earlier_calibrated", "%s", f->label);
    }
    fact_set(l, "has_earlier", p->n_files > p->n);
    fact_set(l, "has_imatrix", p->imatrix_name || *fact_text(l, "earlier_imatrix"));
}

static void card_add_making(fact_list *l, const gq_publication *p) {
    const gq_calibration *c = p->options.calibration;
    card_add_command(l, p);
    card_add_revision(l, p);
    fact_add(l, "version", "%s", gq_version()), fact_add(l, "build", "%s", gq_build());
    card_add_earlier(l, p);
    card_add_imatrix(l, p);
    fact_set(l, "is_calibrated", c);
    if (c && c->random) fact_add(l, "calibration_text", "random tokens");
    if (c && !c->random) card_add_source(l, "calibration_text", "calibration_sha256", &c->text);
    if (p->evaluation) card_add_source(l, "text_name", "text_sha256", &p->request.evaluation->text);
    const char *calibrated = fact_text(l, "calibration_sha256");
    if (*calibrated && !strcmp(calibrated, fact_text(l, "text_sha256"))) fact_set(l, "is_seen", true);
}

/* ---- the page ---- */

static bool card_collect(fact_list *l, gq_publication *p, const gq_page *page, gq_error *e) {
    const char *base = p->base_model.id, *title = p->request.title;
    char sum[SHA256_TEXT];
    if (!publication_sum_source(p, sum, e)) return false;
    if (*sum)
        fact_add(l, "source", "%s", page_file_name(p->options.input)),
            fact_add(l, "source_sha256", "%s", sum);
    if (base) fact_add(l, "base_model", "%s", base);
    fact_add(l, "title", "%s",
             title                            ? title
             : base && !p->options.adapters.n ? strchr(base, '/') + 1
                                              : p->stem);
    for (size_t i = 0; i < p->options.adapters.n; i++)
        fact_add(l, "adapter", "%s", page_file_name(p->options.adapters.items[i].path));
    if (p->request.quantized_by) fact_add(l, "quantized_by", "%s", p->request.quantized_by);
    card_add_model(l, p);
    card_add_kinds(l, p);
    card_add_recommended(l, p, page);
    card_add_companions(l, p);
    card_add_making(l, p);
    fact_set(l, "is_evaluated", page->evaluation);
    fact_add(l, "measure", "%s", page_measure(page));
    fact_add(l, "context", "%" PRIu64, p->context);
    char *table = card_add_accepted(l, p, e) ? page_table(page, false, e) : NULL;
    bool ok = table;
    if (ok) fact_add_text(l, "table", table, strlen(table) - 1); /* without its last end of line */
    free(table);
    return ok;
}

/* Fills the rows of the table, which are in the order of the files. */
static bool card_fill_rows(const gq_publication *p, gq_page_row *rows, gq_error *e) {
    for (size_t i = 0; i < p->n_files; i++) {
        const publish_file *f = &p->files[i];
        rows[i] = (gq_page_row){.path = f->path,
                                .type = f->label,
                                .file_bytes = f->file_bytes,
                                .bits = f->bits,
                                .relative_error = NAN};
        if (p->evaluation && f->evaluated &&
            !gq_page_row_evaluated(&rows[i], p->evaluation, f->evaluated, &p->intervals[2 * i], e))
            return false;
    }
    return true;
}

/* Warns of what a reader of the page would miss or doubt. */
static bool card_warn_facts(gq_publication *p, const fact_list *l, gq_error *e) {
    return (*fact_text(l, "license") ||
            warnings_add(&p->warnings, e,
                         "license: the model names none, so README.md has none; set it with --license")) &&
           (!(*fact_text(l, "is_seen") || *fact_text(l, "is_named_alike")) ||
            warnings_add(&p->warnings, e,
                         "quants lose more on other texts than on %s, as %s; evaluate on a held-out text",
                         fact_text(l, "text_name"),
                         *fact_text(l, "is_seen") ? "it also calibrated them"
                                                  : "the imatrix was computed on a text of that name"));
}

/* Warns of figures that an earlier page had. */
static bool card_warn_chart(gq_publication *p, gq_error *e) {
    struct stat st;
    if (p->evaluation) return true;
    char *path = folder_path(p, PUBLISH_CHART, e);
    if (!path) return false;
    bool ok = lstat(path, &st) != 0 ||
              warnings_add(&p->warnings, e,
                           "%s is of an earlier evaluation, whose figures README.md no longer has: the same "
                           "command with an evaluation restores them",
                           path);
    free(path);
    return ok;
}

static bool card_write_files(gq_publication *p, const gq_page *page, gq_error *e) {
    fact_list facts = {.n = 0};
    bool ok = card_collect(&facts, p, page, e);
    char *front = ok ? template_fill(card_front, &facts, e) : NULL,
         *text = front ? template_fill(card_page, &facts, e) : NULL,
         *chart = text && p->evaluation ? gq_page_chart(page, e) : NULL;
    ok = text && (chart || !p->evaluation) && (!chart || folder_write_chart(p, chart, e)) &&
         folder_write_page(p, front, text, e) && card_warn_chart(p, e) && card_warn_facts(p, &facts, e) &&
         publication_write_sums(p, e);
    fact_free(&facts);
    free(front), free(text), free(chart);
    return ok;
}

bool publication_write_page(gq_publication *p, gq_error *e) {
    char *note = NULL;
    size_t n_models;
    const size_t n = p->n_files;
    gq_page_row *rows = calloc(n, sizeof *rows);
    p->intervals = calloc(2 * n, sizeof *p->intervals);
    bool ok = ((rows && p->intervals) || gq_fail_memory(e, n * (sizeof *rows + 2 * sizeof *p->intervals))) &&
              card_fill_rows(p, rows, e);
    ok = ok && (!p->request.speeds || speeds_take(&p->speeds, p->request.speeds, rows, n, &note, e));
    gq_page page = {.size = sizeof page, .rows = rows, .n = n, .memory = p->memory, .recommends = true};
    if (p->evaluation) {
        page.base_model = gq_evaluation_models(p->evaluation, &n_models);
        page.evaluation = gq_evaluation_summary(p->evaluation);
    }
    ok = ok && page_sort(&p->page, &page, e);
    p->page.speed_note = note;
    free(rows);
    return ok && card_write_files(p, &p->page, e);
}
