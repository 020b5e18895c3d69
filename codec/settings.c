#include <zlib.h>

#include "codec/codec.h"

_Static_assert(sizeof(encode_settings) == 8, "the digest is of every member");

uint32_t encode_settings_digest(uint32_t sum, const encode_settings *settings) {
    uint32_t effort = settings->effort, importance = settings->importance;
    sum = (uint32_t)crc32_z(sum, (const Bytef *)&effort, sizeof effort);
    if (importance) sum = (uint32_t)crc32_z(sum, (const Bytef *)&importance, sizeof importance);
    return sum;
}
