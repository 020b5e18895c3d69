#include "base/platform/win32/wide.h"

char *strndup(const char *text, size_t n) {
    size_t length = strnlen(text, n);
    char *copy = malloc(length + 1);
    if (!copy) return NULL;
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

char *strchrnul(const char *text, int c) {
    while (*text && *text != (char)c) text++;
    return (char *)(uintptr_t)text;
}

char *stpcpy(char *to, const char *text) {
    size_t n = strlen(text);
    return (char *)memcpy(to, text, n + 1) + n;
}

char *strsep(char **rest, const char *delimiters) {
    char *token = *rest;
    if (!token) return NULL;
    char *end = token + strcspn(token, delimiters);
    *rest = *end ? end + 1 : NULL;
    *end = 0;
    return token;
}

void *memmem(const void *text, size_t n, const void *part, size_t part_n) {
    const char *at = text;
    for (size_t i = 0; part_n <= n && i <= n - part_n; i++)
        if (memcmp(at + i, part, part_n) == 0) return (void *)(uintptr_t)(at + i);
    return NULL;
}

/* ---- sorting ---- */

typedef struct sort_order {
    int (*compare)(const void *, const void *, void *);
    void *with;
} sort_order;

static int compare_swapped(void *data, const void *a, const void *b) {
    const sort_order *o = data;
    return o->compare(a, b, o->with);
}

/* Windows' C library has it with the arguments in another order. */
void qsort_r(void *base, size_t n, size_t size, int (*compare)(const void *, const void *, void *),
             void *with) {
    qsort_s(base, n, size, compare_swapped, &(sort_order){compare, with});
}

/* ---- numbers with a point ---- */

struct win32_locale {
    char *name; /* of the thread's locale while another is used; NULL: none is */
    int kind;   /* whether the thread has one of its own */
};

locale_t newlocale(int mask, const char *name, locale_t of) {
    (void)mask, (void)name;
    return of ? of : calloc(1, sizeof(struct win32_locale));
}

locale_t uselocale(locale_t l) {
    if (l->name) {
        setlocale(LC_ALL, l->name), _configthreadlocale(l->kind);
        free(l->name), l->name = NULL;
    } else {
        l->kind = _configthreadlocale(_ENABLE_PER_THREAD_LOCALE);
        l->name = strdup(setlocale(LC_ALL, NULL));
        setlocale(LC_ALL, "C");
    }
    return l;
}

void freelocale(locale_t l) { free(l); }

/* ---- texts as files ---- */

typedef struct memory_file {
    FILE *file;
    char **text;
    size_t *n;
    struct memory_file *next;
} memory_file;

/* The open texts of all threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static memory_file *opened;

FILE *open_memstream(char **text, size_t *n) {
    memory_file *m = malloc(sizeof *m);
    FILE *f = m ? wide_file() : NULL;
    if (!f) {
        free(m);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    *m = (memory_file){f, text, n, opened}, opened = m;
    pthread_mutex_unlock(&lock);
    return f;
}

static memory_file *memory_file_remove(const FILE *f) {
    pthread_mutex_lock(&lock);
    memory_file **at = &opened, *m;
    while ((m = *at) && m->file != f) at = &m->next;
    if (m) *at = m->next;
    pthread_mutex_unlock(&lock);
    return m;
}

static bool memory_file_read_back(const memory_file *m) {
    int64_t size = fflush(m->file) == 0 ? _ftelli64(m->file) : -1;
    *m->text = size >= 0 ? malloc((size_t)size + 1) : NULL;
    if (!*m->text) return false;
    rewind(m->file);
    *m->n = fread(*m->text, 1, (size_t)size, m->file);
    (*m->text)[*m->n] = 0;
    return *m->n == (size_t)size;
}

#undef fclose
int win32_fclose(FILE *f) {
    memory_file *m = memory_file_remove(f);
    bool ok = !m || memory_file_read_back(m);
    free(m);
    return fclose(f) == 0 && ok ? 0 : EOF;
}
