#include "publish/text.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

const char *page_file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int page_decimals(double least) {
    if (!(least > 0 && isfinite(least))) return 0;
    double decimals = 2 - floor(log10(least));
    return decimals < 0 ? 0 : decimals > 8 ? 8 : (int)decimals;
}

const char *page_size(char to[24], uint64_t bytes) {
    double size = (double)bytes / (bytes < 1000000000 ? 1e6 : 1e9);
    snprintf(to, 24, "%.*f\u00a0%s", page_decimals(size), size, bytes < 1000000000 ? "MB" : "GB");
    return to;
}

char *page_text(void (*write)(FILE *to, const void *what), const void *what, size_t *n, gq_error *e) {
    char *text = NULL;
    /* The calling program may have another locale, and then 1.5 would be printed as "1,5". */
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), callers = (locale_t)0;
    *n = 0;
    FILE *to = plain ? open_memstream(&text, n) : NULL;
    if (to) callers = uselocale(plain), write(to, what), uselocale(callers);
    bool ok = to && !ferror(to);
    ok = to && fclose(to) == 0 && ok;
    if (plain) freelocale(plain);
    if (!ok) gq_fail_memory(e, *n), free(text), text = NULL;
    return text;
}

void page_write_text(FILE *to, const char *text, size_t n, bool html) {
    for (const char *c = text; c < text + n; c++)
        if (iscntrl((unsigned char)*c))
            fputc(' ', to);
        else if (html && strchr("<>&\"'", *c))
            fprintf(to, "&#%d;", *c);
        else
            fprintf(to, !html && strchr("\\`*_{}[]<>#|&", *c) ? "\\%c" : "%c", *c);
}

void page_write_link(FILE *to, const char *name) {
    for (const char *c = name; *c; c++)
        fprintf(to, isalnum((unsigned char)*c) || strchr("-._~", *c) ? "%c" : "%%%02X", (unsigned char)*c);
}

bool page_model_value(const gq_model *m, const char *key, gq_value *v) {
    size_t n, i = gq_model_find_key(m, key);
    const gq_metadata *all = gq_model_metadata(m, &n);
    return i < n && !all[i].list && gq_metadata_values(&all[i], v, 1) == 1;
}

const char *page_model_text(const gq_model *m, const char *key, size_t *n) {
    gq_value v;
    bool is = page_model_value(m, key, &v) && v.kind == GQ_TEXT;
    return *n = is ? v.length : 0, is ? v.text : NULL;
}

void page_write_quoted(FILE *to, const char *text, size_t n, const char *end) {
    fputc('\'', to);
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\'')
            fputs("'\\''", to);
        else
            fputc(iscntrl((unsigned char)text[i]) ? ' ' : text[i], to);
    fprintf(to, "%s'", end);
}

void page_write_word(FILE *to, const char *text) {
    static const char special[] = " \t\n\r\\\"'`$&|;<>()[]{}*?!#~";
    if (*text && !strpbrk(text, special))
        fputs(text, to);
    else
        page_write_quoted(to, text, strlen(text), "");
}
