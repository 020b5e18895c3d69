#include "base/checksum.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/file.h"

uint32_t checksum_add(uint32_t sum, const void *bytes, size_t n) {
    return n ? (uint32_t)crc32_z(sum, bytes, n) : sum; /* zlib takes NULL as the wish to begin anew */
}

uint32_t checksum_add_text(uint32_t sum, const char *text) {
    return checksum_add(sum, text, strlen(text) + 1);
}

uint32_t checksum_join(uint32_t first, uint32_t second, uint64_t second_bytes) {
    enum { STEP = 1 << 30 }; /* zlib's type of a length has 32 bits on some systems */
    for (; second_bytes > STEP; second_bytes -= STEP) first = (uint32_t)crc32_combine(first, 0, STEP);
    return (uint32_t)crc32_combine(first, second, (z_off_t)second_bytes);
}

/* ---- SHA-256 ---- */

enum { BLOCK_BYTES = 64, ROUNDS = 64, WORDS = 8 };

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t round_constants[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

typedef struct sha256 {
    uint32_t state[WORDS];
    uint8_t block[BLOCK_BYTES]; /* bytes that do not fill a block yet */
    uint64_t bytes;             /* all so far */
} sha256;

static uint32_t rotate_right(uint32_t x, unsigned n) { return x >> n | x << (32 - n); }

static void sha256_add_block(uint32_t state[WORDS], const uint8_t *block) {
    uint32_t w[ROUNDS], s[WORDS];
    for (unsigned i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (unsigned i = 16; i < ROUNDS; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate_right(a, 7) ^ rotate_right(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate_right(b, 17) ^ rotate_right(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        uint32_t t1 = s[7] + (rotate_right(s[4], 6) ^ rotate_right(s[4], 11) ^ rotate_right(s[4], 25)) +
                      choice + round_constants[i] + w[i];
        uint32_t t2 = (rotate_right(s[0], 2) ^ rotate_right(s[0], 13) ^ rotate_right(s[0], 22)) + majority;
        memmove(s + 1, s, (WORDS - 1) * sizeof *s);
        s[4] += t1, s[0] = t1 + t2;
    }
    for (unsigned i = 0; i < WORDS; i++) state[i] += s[i];
}

static void sha256_start(sha256 *s) {
    *s = (sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                            0x1f83d9ab, 0x5be0cd19}};
}

static void sha256_add(sha256 *s, const void *bytes, size_t n) {
    const uint8_t *at = bytes;
    for (size_t take; n > 0; at += take, n -= take) {
        size_t held = s->bytes % BLOCK_BYTES;
        take = n < BLOCK_BYTES - held ? n : BLOCK_BYTES - held;
        memcpy(s->block + held, at, take);
        s->bytes += take;
        if (held + take == BLOCK_BYTES) sha256_add_block(s->state, s->block);
    }
}

static void sha256_end(sha256 *s, uint8_t digest[SHA256_BYTES]) {
    /* A bit that is 1, zeros, and the length in bits, up to the end of a block. */
    uint8_t last[2 * BLOCK_BYTES] = {0x80};
    const uint64_t bits = s->bytes * 8, left = s->bytes % BLOCK_BYTES;
    size_t n = (left + 9 <= BLOCK_BYTES ? BLOCK_BYTES : 2 * BLOCK_BYTES) - left;
    for (unsigned i = 0; i < 8; i++) last[n - 1 - i] = (uint8_t)(bits >> 8 * i);
    sha256_add(s, last, n);
    for (unsigned i = 0; i < SHA256_BYTES; i++) digest[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_sum(const void *bytes, size_t n, uint8_t digest[SHA256_BYTES]) {
    sha256 s;
    sha256_start(&s);
    sha256_add(&s, bytes, n);
    sha256_end(&s, digest);
}

void sha256_print(const uint8_t digest[SHA256_BYTES], char text[SHA256_TEXT]) {
    for (unsigned i = 0; i < SHA256_BYTES; i++) {
        text[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        text[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    text[2 * SHA256_BYTES] = 0;
}

bool sha256_file(const char *path, char text[SHA256_TEXT], bool (*each)(void *data, size_t n, gq_error *e),
                 void *data, gq_error *e) {
    enum { PIECE = 1 << 20 };
    uint8_t digest[SHA256_BYTES];
    gq_file f;
    sha256 sum;
    if (!gq_file_open(&f, path, e)) return false;
    uint8_t *piece = malloc(PIECE);
    bool ok = piece || gq_fail_memory(e, PIECE);
    sha256_start(&sum);
    for (uint64_t at = 0; ok && at < f.size; at += PIECE) {
        size_t n = f.size - at < PIECE ? (size_t)(f.size - at) : PIECE;
        ok = gq_file_read(&f, at, piece, n, e);
        if (ok) sha256_add(&sum, piece, n);
        ok = ok && (!each || each(data, n, e));
    }
    sha256_end(&sum, digest);
    sha256_print(digest, text);
    free(piece);
    gq_file_close(&f);
    return ok;
}
