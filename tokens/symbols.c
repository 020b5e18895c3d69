#include "tokens/symbols.h"

size_t symbol_of_byte(uint8_t byte, char to[2]) {
    bool shown = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    /* The 68 others in order: 00-20 are 33, 7f-a0 the next 34, ad the last. */
    unsigned code = shown ? byte : 0x100u + (byte <= 0x20 ? byte : byte <= 0xa0 ? byte - 0x7fu + 33 : 67);
    if (code < 0x80) return to[0] = (char)code, 1;
    to[0] = (char)(0xc0 | code >> 6), to[1] = (char)(0x80 | (code & 0x3f));
    return 2;
}

size_t symbol_length(vocabulary_kind kind, const char *at, size_t left) {
    static const uint8_t by_nibble[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
    if (kind == VOCABULARY_BPE) return 1;
    size_t n = by_nibble[(uint8_t)*at >> 4];
    return n < left ? n : left;
}
