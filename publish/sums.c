/* SHA256SUMS of a published folder, as sha256sum writes and checks it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/fail.h"
#include "publish/folder.h"
#include "publish/sums.h"
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

/* The progress of the checksums of all files. */
typedef struct sums_progress {
    const gq_callbacks *to;
    double started;
    gq_progress now;
} sums_progress;

static bool sums_hear(void *data, size_t n, gq_error *e) {
    sums_progress *s = data;
    gq_progress *now = &s->now;
    now->bytes_done += n, now->seconds = clock_seconds() - s->started;
    now->share = now->bytes_total ? fmin(1, (double)now->bytes_done / (double)now->bytes_total) : 1;
    now->seconds_left = now->seconds * (1 - now->share) / now->share;
    if (s->to->progress) s->to->progress(s->to->user, now);
    return !s->to->cancelled || !s->to->cancelled(s->to->user) ||
           gq_fail_as(e, GQ_INTERRUPTED, "stopped on request");
}

static bool sums_write_file(FILE *to, const char *path, sums_progress *s, gq_error *e) {
    char sum[SHA256_TEXT];
    const char *name = page_file_name(path);
    s->now.tensor = name;
    if (!sha256_file(path, sum, sums_hear, s, e)) return false;
    fprintf(to, "%s%s  ", strpbrk(name, "\\\n\r") ? "\\" : "", sum); /* it says that the name is escaped */
    sums_write_name(to, name);
    return true;
}

static bool sums_write_model(FILE *to, const char *path, sums_progress *s, gq_error *e) {
    gq_model *m = gq_model_open(path, e);
    bool ok = m;
    for (uint32_t i = 0; ok && i < gq_model_summary(m)->shards; i++)
        ok = sums_write_file(to, gq_model_path(m, i), s, e);
    gq_model_close(m);
    return ok;
}

bool publication_sum_source(gq_publication *p, char to[SHA256_TEXT], gq_error *e) {
    const gq_model_facts *f = gq_model_summary(p->model);
    sums_progress s = {.to = &p->parts.relay.own, .started = clock_seconds(), .now.size = sizeof s.now};
    struct stat st;
    *to = 0;
    if (f->shards != 1 || stat(p->options.input, &st) != 0 || !S_ISREG(st.st_mode)) return true;
    s.now.bytes_total = f->file_bytes, s.now.tensor = page_file_name(p->options.input);
    return sha256_file(p->options.input, to, sums_hear, &s, e);
}

bool publication_write_sums(gq_publication *p, gq_error *e) {
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    sums_progress s = {.to = &p->parts.relay.own, .started = clock_seconds(), .now.size = sizeof s.now};
    for (size_t i = 0; i < p->n_files; i++) s.now.bytes_total += p->files[i].file_bytes;
    for (gq_companion i = 0; i < GQ_COMPANIONS; i++)
        if (p->companions[i]) s.now.bytes_total += gq_plan_summary(p->companions[i], 0)->file_bytes;
    bool ok = to || gq_fail_memory(e, n);
    for (size_t i = 0; ok && i < p->n_files; i++) ok = sums_write_model(to, p->files[i].path, &s, e);
    for (gq_companion i = 0; ok && i < GQ_COMPANIONS; i++)
        if (p->companions[i]) ok = sums_write_file(to, gq_plan_summary(p->companions[i], 0)->path, &s, e);
    char *imatrix = NULL;
    if (ok && p->imatrix_name)
        ok = (asprintf(&imatrix, "%s/%s", p->options.out_dir, p->imatrix_name) >= 0 ||
              (imatrix = NULL, gq_fail_memory(e, strlen(p->imatrix_name)))) &&
             sums_write_file(to, imatrix, &s, e);
    free(imatrix);
    bool failed = to && ferror(to);
    failed = (to && fclose(to) != 0) || failed;
    ok = ok && (!failed || gq_fail_memory(e, n)) && folder_write_sums(p, text, e);
    free(text);
    return ok;
}
