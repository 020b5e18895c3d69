#include "forward/tokens/tokens.h"

/* First, last, stand-in: the private U+E000 for surrogates; else a character of Unicode 14 of the same class
 * and length, and in the same ranges that patterns name. */
static const uint32_t stand_ins[][3] = {
    {0xcf3, 0xcf3, 0xce2},       {0xece, 0xece, 0xec8},       {0x2ffc, 0x2fff, 0x2ff0},
    {0x31ef, 0x31ef, 0x31e3},    {0xd800, 0xdfff, 0xe000},    {0x10efd, 0x10eff, 0x1d165},
    {0x1123f, 0x11240, 0x10280}, {0x11241, 0x11241, 0x1d165}, {0x11b00, 0x11b09, 0x10100},
    {0x11f00, 0x11f01, 0x1d165}, {0x11f02, 0x11f02, 0x10280}, {0x11f03, 0x11f03, 0x1d165},
    {0x11f04, 0x11f10, 0x10280}, {0x11f12, 0x11f33, 0x10280}, {0x11f34, 0x11f3a, 0x1d165},
    {0x11f3e, 0x11f42, 0x1d165}, {0x11f43, 0x11f4f, 0x10100}, {0x11f50, 0x11f59, 0x10107},
    {0x1342f, 0x1342f, 0x10280}, {0x13439, 0x1343f, 0xe0001}, {0x13440, 0x13440, 0x1d165},
    {0x13441, 0x13446, 0x10280}, {0x13447, 0x13455, 0x1d165}, {0x1b132, 0x1b132, 0x10280},
    {0x1b155, 0x1b155, 0x10280}, {0x1d2c0, 0x1d2d3, 0x10107}, {0x1df25, 0x1df2a, 0x10280},
    {0x1e030, 0x1e06d, 0x10280}, {0x1e08f, 0x1e08f, 0x1d165}, {0x1e4d0, 0x1e4eb, 0x10280},
    {0x1e4ec, 0x1e4ef, 0x1d165}, {0x1e4f0, 0x1e4f9, 0x10107}, {0x1f6dc, 0x1f6dc, 0x1f600},
    {0x1f774, 0x1f776, 0x1f600}, {0x1f77b, 0x1f77f, 0x1f600}, {0x1f7d9, 0x1f7d9, 0x1f600},
    {0x1fa75, 0x1fa77, 0x1f600}, {0x1fa87, 0x1fa88, 0x1f600}, {0x1faad, 0x1faaf, 0x1f600},
    {0x1fabb, 0x1fabd, 0x1f600}, {0x1fabf, 0x1fabf, 0x1f600}, {0x1face, 0x1facf, 0x1f600},
    {0x1fada, 0x1fadb, 0x1f600}, {0x1fae8, 0x1fae8, 0x1f600}, {0x1faf7, 0x1faf8, 0x1f600},
    {0x2b739, 0x2b739, 0x2b738}, {0x2ebf0, 0x2ee5d, 0x10280}, {0x31350, 0x323af, 0x10280}};

static uint32_t stand_in_of(uint32_t code) {
    size_t low = 0, high = sizeof stand_ins / sizeof *stand_ins;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (code > stand_ins[middle][1])
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < sizeof stand_ins / sizeof *stand_ins && code >= stand_ins[low][0];
    return found ? stand_ins[low][2] : code;
}

size_t utf8_put(char *to, uint32_t code) {
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; code >>= 6) to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)(lead[n] | code);
    return n;
}

/* Length and code point at s, whatever form it has; 0: this byte does not belong. */
static size_t utf8_decode_character(const unsigned char *s, size_t n, uint32_t *code) {
    *code = *s;
    if (*s < 0x80) return 1;
    size_t length = *s >= 0xf0 ? 4 : *s >= 0xe0 ? 3 : 2;
    if (*s < 0xc0 || *s > 0xf7 || length > n) return 0;
    *code = *s & 0x7fu >> length;
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        *code = *code << 6 | (s[i] & 0x3f);
    }
    return length;
}

bool utf8_clean(const char *text, size_t n, uint64_t first, char *to, size_t *length, bool *odd,
                gq_error *e) {
    const unsigned char *s = (const unsigned char *)text, *end = s + n;
    char *at = to;
    *odd = false;
    while (s < end) {
        uint32_t code;
        if (*s < 0x80) {
            *at++ = (char)*s++;
            continue;
        }
        size_t got = utf8_decode_character(s, (size_t)(end - s), &code);
        if (got == 0) code = 0xfffd;
        if (code > 0x10ffff)
            return gq_fail(e, "byte %llu of the text: character U+%X, expected at most U+10FFFF",
                           (unsigned long long)first + (size_t)(s - (const unsigned char *)text), code);
        if (code >= 0xce0 && stand_in_of(code) != code) *odd = true;
        at += utf8_put(at, code);
        s += got ? got : 1;
    }
    *length = (size_t)(at - to);
    return true;
}

void utf8_stand_in(const char *text, size_t n, char *to) {
    for (size_t at = 0; at < n;) {
        uint32_t code;
        size_t length = utf8_decode_character((const unsigned char *)text + at, n - at, &code);
        utf8_put(to + at, stand_in_of(code));
        at += length;
    }
}

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
