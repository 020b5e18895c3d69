#include "bench/peer.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void *peer_open(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/libggml-base.so", folder);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

bool peer_codec_of(void *library, const char *type_name, peer_codec *codec) {
    char encode[64], decode[64], name[32];
    size_t n = 0;
    /* In its symbols names are in lower case, but for the K of "Q4_K". */
    for (; type_name[n] && n + 1 < sizeof name; n++)
        name[n] = (char)(type_name[n] == 'K' ? 'K' : tolower((unsigned char)type_name[n]));
    name[n] = 0;
    snprintf(encode, sizeof encode, "quantize_%s", name);
    snprintf(decode, sizeof decode, "dequantize_row_%s", name);
    void *symbols[2] = {dlsym(library, encode), dlsym(library, decode)};
    /* ISO C has no conversion from object to function pointers; POSIX has the same bits. */
    memcpy(&codec->encode, &symbols[0], sizeof symbols[0]);
    memcpy(&codec->decode, &symbols[1], sizeof symbols[1]);
    return symbols[0] && symbols[1];
}
