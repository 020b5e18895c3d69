#include "quantize/filetype.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "codec/codec.h"

bool plan_type_writable(uint32_t type) {
    const kernels *k = kernels_select();
    if (!k) k = kernels_level(kernels_level_name(0)); /* all levels have the same codecs */
    return type < GGUF_TYPE_LIMIT && k && k->codecs[type].encode;
}

bool plan_filetype_writable(const mix_filetype *f) {
    for (uint32_t type = 0; type < GGUF_TYPE_LIMIT; type++)
        if (mix_filetype_uses(f, type) && !plan_type_writable(type)) return false;
    return true;
}

/* The file type nearest in bits per weight that can be written, `but` left out. */
static const mix_filetype *nearest(const mix_filetype *to, const mix_filetype *but) {
    const mix_filetype *best = NULL;
    for (size_t i = 0; i < mix_n_filetypes; i++) {
        const mix_filetype *f = &mix_filetypes[i];
        if (f == but || f->bits == 0 || !mix_filetype_advised(f) || !plan_filetype_writable(f)) continue;
        if (!best || fabs(f->bits - to->bits) < fabs(best->bits - to->bits)) best = f;
    }
    return best;
}

enum { ROOM = 600 };

static void append(char text[ROOM], const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(char text[ROOM], const char *format, ...) {
    va_list args;
    size_t n = strlen(text);
    va_start(args, format);
    vsnprintf(text + n, ROOM - n, format, args);
    va_end(args);
}

bool plan_check_filetypes(const gq_options *options, gq_error *e) {
    char text[ROOM] = "";
    size_t n = 0;
    for (size_t i = 0; i < options->n_outputs; i++) {
        const char *name = options->outputs[i].filetype;
        const mix_filetype *f = name ? mix_filetype_named(name) : NULL;
        if (!f || plan_filetype_writable(f)) continue;
        append(text, "%s%s cannot be written yet", n++ ? "; " : "", f->name);
        const mix_filetype *first = f->bits > 0 ? nearest(f, NULL) : NULL;
        const mix_filetype *second = first ? nearest(f, first) : NULL;
        if (second)
            append(text, ", nearest to its %.2f bits per weight are %s (%.2f) and %s (%.2f)", f->bits,
                   first->name, first->bits, second->name, second->bits);
    }
    if (n == 0) return true;
    if (n < options->n_outputs)
        append(text, "; leave %s out, and the others are written", n > 1 ? "these" : "it");
    return gq_fail_usage(e, "%s", text);
}
