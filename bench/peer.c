#include "bench/peer.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *peer_open(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/libggml-base.so", folder);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* ISO C has no conversion from object to function pointers; POSIX has the same bits. */
static bool find_symbol(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol;
}

bool peer_codec_of(void *library, const tensor_type *type, peer_codec *codec) {
    char encode[64], decode[64], name[32];
    size_t n = 0;
    void (*make_tables)(int);
    bool (*demands)(int);
    /* Its symbols have type names in lower case, except for the K of "Q4_K". */
    for (; type->name[n] && n + 1 < sizeof name; n++)
        name[n] = (char)(type->name[n] == 'K' ? 'K' : tolower((unsigned char)type->name[n]));
    name[n] = 0;
    snprintf(encode, sizeof encode, "quantize_%s", name);
    snprintf(decode, sizeof decode, "dequantize_row_%s", name);
    if (!find_symbol(library, encode, &codec->rows) || !find_symbol(library, decode, &codec->decode) ||
        !find_symbol(library, "ggml_quantize_init", &make_tables) ||
        !find_symbol(library, "ggml_quantize_requires_imatrix", &demands))
        return false;
    make_tables((int)type->id);
    codec->demands_importance = demands((int)type->id);
    return true;
}

void peer_encode(const peer_codec *codec, const float *x, void *blocks, size_t rows, size_t cols,
                 const float *importance) {
    float *alike = NULL;
    if (!importance && codec->demands_importance) {
        alike = malloc(cols * sizeof *alike);
        for (size_t i = 0; alike && i < cols; i++) alike[i] = 1;
    }
    codec->rows(x, blocks, (int64_t)rows, (int64_t)cols, importance ? importance : alike);
    free(alike);
}
