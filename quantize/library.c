/* Facts of the public header about the library, its file types and tensor types; recipes; and the numbers that
 * are made of sums of errors. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <math.h>
#include <pcre2.h>
#include <stdio.h>
#include <zlib.h>

#include "base/threads.h"
#include "codec/codec.h"
#include "hf/hf.h"
#include "mixes/mixes.h"
#include "quantize/gquant_quantize.h"

extern const char gq_build_id[9]; /* cmake/build-id.cmake */

const char *gq_version(void) { return GQ_VERSION; }

const char *gq_isa(void) {
    const kernels *k = kernels_select();
    return k ? kernels_name(k) : NULL;
}

const char *gq_isa_level(size_t i) { return kernels_level_name(i); }
const char *gq_build(void) { return gq_build_id; }

#ifdef GQ_BLAS
#define PRODUCTS "matrix products by BLAS"
#else
#define PRODUCTS "matrix products of its own"
#endif
#define TEXT(x) #x
#define NUMBER(x) TEXT(x)
const char *gq_features(void) {
    static _Thread_local char text[160]; /* the number of processors may change, the rest may not */
    int n = threads_available();
    snprintf(text, sizeof text,
             PRODUCTS ", %d thread%s, zlib " ZLIB_VERSION
                      ", PCRE2 " NUMBER(PCRE2_MAJOR) "." NUMBER(PCRE2_MINOR),
             n, plural_suffix((unsigned)n));
    return text;
}

size_t gq_filetype_count(void) { return mix_n_filetypes; }
const char *gq_filetype_name(size_t i) { return mix_filetypes[i].name; }
const char *gq_filetype_summary(size_t i) { return mix_filetypes[i].summary; }
double gq_filetype_bits(size_t i) { return mix_filetypes[i].bits; }
int gq_filetype_id(size_t i) { return mix_filetypes[i].id; }
double gq_bits_per_weight(uint64_t bytes, double weights) {
    return weights > 0 ? 8 * (double)bytes / weights : 0;
}
const char *gq_filetype_made_for(size_t i) { return mix_filetype_made_for(&mix_filetypes[i]); }
bool gq_filetype_advised(size_t i) { return mix_filetype_advised(&mix_filetypes[i]); }

bool gq_folder_class_at(size_t i, gq_folder_class *to) {
    static const gq_class_kind kinds[] = {[HF_CLASS_MODEL] = GQ_CLASS_MODEL,
                                          [HF_CLASS_DRAFT] = GQ_CLASS_DRAFT,
                                          [HF_CLASS_PROJECTOR] = GQ_CLASS_PROJECTOR,
                                          [HF_CLASS_REFUSED] = GQ_CLASS_REFUSED};
    hf_class c;
    if (!hf_class_at(i, &c)) return false;
    *to = (gq_folder_class){.name = c.name, .makes = c.makes, .also = c.also, .kind = kinds[c.kind]};
    return true;
}

bool gq_type_quantized(uint32_t type) {
    const tensor_type *t = tensor_type_of(type);
    return t && t->quantized;
}
uint32_t gq_type_limit(void) { return GGUF_TYPE_LIMIT; }

int gq_type_find(const char *name) {
    const tensor_type *t = tensor_type_named(name);
    return t ? (int)t->id : -1;
}

uint32_t gq_type_elements(uint32_t type) {
    const tensor_type *t = tensor_type_of(type);
    return t ? t->block_elements : 0;
}

uint32_t gq_type_bytes(uint32_t type) {
    const tensor_type *t = tensor_type_of(type);
    return t ? t->block_bytes : 0;
}

/* NULL: there is no such type. All levels have the same codecs. */
static const codec *codec_of(uint32_t type) {
    const kernels *k = kernels_level(kernels_level_name(0));
    return type < GGUF_TYPE_LIMIT && k ? &k->codecs[type] : NULL;
}

bool gq_type_readable(uint32_t type) { return codec_of(type) && codec_of(type)->decode; }
bool gq_type_writable(uint32_t type) { return codec_of(type) && codec_of(type)->encode; }

int gq_filetype_find(const char *name) {
    const mix_filetype *f = mix_filetype_named(name);
    return f ? (int)(f - mix_filetypes) : -1;
}

const char *gq_filetype_nearest(const char *name) { return mix_filetype_nearest(name); }
const char *gq_type_name(uint32_t type) { return tensor_type_name(type); }

bool gq_recipe_read(gq_recipe *r, const char *name, const char *text, size_t n, gq_error *e) {
    mix_recipe read;
    *r = (gq_recipe){0};
    if (!mix_recipe_read(&read, name, text, n, e)) return false;
    r->n = read.n, r->items = read.items;
    return true;
}

void gq_recipe_free(gq_recipe *r) {
    mix_recipe_free(&(mix_recipe){.n = r->n, .items = r->items});
    *r = (gq_recipe){0};
}

/* ---- numbers that people read, from sums of errors ---- */

double gq_loss_rmse(const gq_loss *l) { return l->n ? sqrt(l->e2 / (double)l->n) : 0; }

double gq_loss_relative(const gq_loss *l) { return l->e2 > 0 ? sqrt(l->e2 / l->x2) : 0; }

double gq_loss_weighted(const gq_loss *l) {
    if (l->wx2 > 0) return sqrt(l->we2 / l->wx2);
    return (double)NAN;
}

double gq_loss_snr_db(const gq_loss *l) { return l->e2 > 0 ? 10 * log10(l->x2 / l->e2) : (double)INFINITY; }

static double output_error(const gq_rounding *r, double squares) {
    return r->power > 0 ? sqrt(squares / r->power) : (double)NAN;
}
double gq_rounding_plain(const gq_rounding *r) { return output_error(r, r->plain_error); }
double gq_rounding_written(const gq_rounding *r) { return output_error(r, r->written); }
