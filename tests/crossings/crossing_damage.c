#include "tests/crossings/crossing_damage.h"

#include "tests/crossings/crossing.h"
#include "tests/crossings/crossing_files.h"
#include "tests/support/model.h"
#include "tests/support/numbers.h"

/* ---- folders ---- */

snapshot snapshot_take(const char *folder) {
    const char *kept = strcpy((char[4096]){""}, folder);
    file_list files = files_in(kept, NULL);
    snapshot s = {.n = files.n, .files = calloc(files.n + 1, sizeof *s.files)};
    for (size_t i = 0; i < files.n; i++) {
        s.files[i].name = strdup(files.names[i]);
        s.files[i].bytes = read_whole(in_folder(kept, files.names[i]), &s.files[i].size);
    }
    files_free(&files);
    return s;
}

void snapshot_free(snapshot *s) {
    for (size_t i = 0; i < s->n; i++) free(s->files[i].name), free(s->files[i].bytes);
    free(s->files);
    *s = (snapshot){.n = 0};
}

static bool ends_in(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

/* What a run was killed over while it kept them has a name of its own, and is written over the next time. */
static bool is_measures(const char *name) {
    return ends_in(name, ".gquant-measure") || ends_in(name, ".gquant-measure.gquant-new");
}

static char *first_difference(const snapshot *a, const snapshot *b) {
    char *text = NULL;
    for (size_t i = 0, k = 0; i < a->n || k < b->n;) {
        int order = i == a->n ? 1 : k == b->n ? -1 : strcmp(a->files[i].name, b->files[k].name);
        const char *name = order > 0 ? b->files[k].name : a->files[i].name, *what = NULL;
        if (order)
            what = order < 0 ? "is gone" : "is new";
        else if (a->files[i].size != b->files[k].size ||
                 memcmp(a->files[i].bytes, b->files[k].bytes, a->files[i].size) != 0)
            what = "has changed";
        if (what && !is_measures(name)) {
            assert_true(asprintf(&text, "%s %s", name, what) > 0);
            return text;
        }
        i += order <= 0, k += order >= 0;
    }
    return NULL;
}

char *snapshot_difference(const snapshot *s, const char *folder) {
    snapshot now = snapshot_take(folder);
    char *text = first_difference(s, &now);
    snapshot_free(&now);
    return text;
}

void snapshot_remove_new(const snapshot *s, const char *folder) {
    const char *kept = strcpy((char[4096]){""}, folder);
    file_list files = files_in(kept, ".");
    for (size_t i = 0; i < files.n; i++) {
        bool old = false;
        for (size_t k = 0; k < s->n; k++) old = old || !strcmp(s->files[k].name, files.names[i]);
        if (!old) assert_int_equal(unlink(in_folder(kept, files.names[i])), 0);
    }
    files_free(&files);
}

const char *snapshot_lost(const snapshot *s, const char *folder) {
    const char *kept = strcpy((char[4096]){""}, folder);
    for (size_t i = 0; i < s->n; i++)
        if (!exists(in_folder(kept, s->files[i].name))) return s->files[i].name;
    return NULL;
}

void snapshot_write(const snapshot *s, const char *folder) {
    const char *kept = strcpy((char[4096]){""}, folder);
    for (size_t i = 0; i < s->n; i++)
        write_whole(in_folder(kept, s->files[i].name), s->files[i].bytes, s->files[i].size);
}

/* ---- damage ---- */

/* A byte that is not 0, if some are found: most of a file that was set aside has not been written. */
static size_t any_place(const uint8_t *bytes, size_t n) {
    size_t at = below(n);
    for (int tries = 0; tries < 30 && !bytes[at]; tries++) at = below(n);
    return at;
}

const char *damage_file(const char *path) {
    static char how[100];
    size_t n, at;
    uint8_t *bytes = read_whole(path, &n);
    unsigned kind = (unsigned)below(100);
    bytes = realloc(bytes, n + 64);
    if (n == 0) kind = 99;
    at = n ? any_place(bytes, n) : 0;
    if (kind < 45) {
        bytes[at] ^= (uint8_t)(1u << below(8)), snprintf(how, sizeof how, "a bit of byte %zu", at);
    } else if (kind < 58) {
        n = chance(30) ? 0 : at, snprintf(how, sizeof how, "cut to %zu bytes", n);
    } else if (kind < 92) {
        size_t end = at + 1 + below(chance(50) ? 200 : 20000);
        if (end > n) end = n;
        for (size_t i = at; i < end; i++) bytes[i] = (uint8_t)next_random();
        snprintf(how, sizeof how, "garbage from %zu to %zu", at, end);
    } else {
        for (size_t i = 1 + below(60); i > 0; i--) bytes[n++] = (uint8_t)next_random();
        snprintf(how, sizeof how, "garbage behind, %zu bytes now", n);
    }
    write_whole(path, bytes, n);
    free(bytes);
    return how;
}
