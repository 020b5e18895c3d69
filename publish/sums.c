/* SHA256SUMS of a published folder, as sha256sum writes and checks it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fail.h"
#include "publish/publish.h"
#include "publish/text.h"

/* Appends a name as sha256sum writes it: ends of lines and backslashes are escaped. */
static void sums_write_name(FILE *to, const char *name) {
    for (; *name; name++)
        if (strchr("\\\n\r", *name))
            fputc('\\', to), fputc(*name == '\n' ? 'n' : *name == '\r' ? 'r' : '\\', to);
        else
            fputc(*name, to);
    fputc('\n', to);
}

/* Whether the model is one file, whose SHA-256 the page names. */
static bool sums_have_source(const gq_publication *p) {
    struct stat st;
    return gq_model_summary(p->model)->shards == 1 && stat(p->options.input, &st) == 0 && S_ISREG(st.st_mode);
}

uint64_t publication_summed_bytes(const gq_publication *p) {
    struct stat st;
    uint64_t bytes = sums_have_source(p) ? gq_model_summary(p->model)->file_bytes : 0;
    if (p->imatrix_name && stat(p->options.imatrix, &st) == 0) bytes += (uint64_t)st.st_size;
    for (size_t i = 0; i < p->n_files; i++)
        if (!p->files[i].n_checked) bytes += p->files[i].file_bytes;
    for (size_t i = 0; !p->n_files && i < p->n; i++) bytes += gq_plan_summary(p->plan, i)->file_bytes;
    for (gq_companion i = 0; i < GQ_COMPANIONS; i++)
        if (p->companions[i]) bytes += gq_plan_summary(p->companions[i], 0)->file_bytes;
    return bytes;
}

void publication_begin_sums(gq_publication *p) {
    p->sums_started = clock_seconds();
    p->sums = (gq_progress){.size = sizeof p->sums, .bytes_total = publication_summed_bytes(p)};
}

static bool sums_hear(void *data, size_t n, gq_error *e) {
    gq_publication *p = data;
    const gq_callbacks *to = &p->phases.relay.own;
    gq_progress *now = &p->sums;
    now->bytes_done += n, now->seconds = clock_seconds() - p->sums_started;
    now->share = now->bytes_total ? fmin(1, (double)now->bytes_done / (double)now->bytes_total) : 1;
    now->seconds_left = now->seconds * (1 - now->share) / now->share;
    if (to->progress) to->progress(to->user, now);
    return !to->cancelled || !to->cancelled(to->user) || gq_fail_as(e, GQ_INTERRUPTED, "stopped on request");
}

/* known: the file's checksum; NULL: it is computed. */
static bool sums_write_file(gq_publication *p, FILE *to, const char *path, const char *known, gq_error *e) {
    char sum[SHA256_TEXT];
    const char *name = page_file_name(path);
    p->sums.tensor = name;
    if (!known && !sha256_file(path, sum, sums_hear, p, e)) return false;
    if (known) memcpy(sum, known, sizeof sum);
    fprintf(to, "%s%s  ", strpbrk(name, "\\\n\r") ? "\\" : "", sum); /* it says that the name is escaped */
    sums_write_name(to, name);
    return true;
}

static bool sums_write_model(gq_publication *p, FILE *to, const publish_file *f, gq_error *e) {
    gq_model *m = gq_model_open(f->path, e);
    bool ok = m;
    for (uint32_t i = 0; ok && i < gq_model_summary(m)->shards; i++)
        ok = sums_write_file(p, to, gq_model_path(m, i),
                             f->n_checked == gq_model_summary(m)->shards ? f->checked_sums[i] : NULL, e);
    gq_model_close(m);
    return ok;
}

bool publication_sum_source(gq_publication *p, char to[SHA256_TEXT], gq_error *e) {
    *to = 0;
    if (!sums_have_source(p)) return true;
    p->sums.tensor = page_file_name(p->options.input);
    return sha256_file(p->options.input, to, sums_hear, p, e);
}

bool publication_write_sums(gq_publication *p, gq_error *e) {
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    bool ok = to || gq_fail_memory(e, n);
    for (size_t i = 0; ok && i < p->n_files; i++) ok = sums_write_model(p, to, &p->files[i], e);
    for (gq_companion i = 0; ok && i < GQ_COMPANIONS; i++)
        if (p->companions[i])
            ok = sums_write_file(p, to, gq_plan_summary(p->companions[i], 0)->path, NULL, e);
    if (ok && p->imatrix_name) {
        char *imatrix = folder_path(p, p->imatrix_name, e);
        ok = imatrix && sums_write_file(p, to, imatrix, NULL, e);
        free(imatrix);
    }
    bool failed = to && ferror(to);
    failed = (to && fclose(to) != 0) || failed;
    ok = ok && (!failed || gq_fail_memory(e, n)) && folder_write_sums(p, text, e);
    free(text);
    return ok;
}
