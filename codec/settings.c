#include "base/checksum.h"
#include "codec/codec.h"

_Static_assert(sizeof(encode_settings) == 8, "the digest is of every member");

uint32_t encode_settings_digest(uint32_t sum, const encode_settings *settings) {
    uint32_t effort = settings->effort, importance = settings->importance;
    sum = checksum_add(sum, &effort, sizeof effort);
    if (importance) sum = checksum_add(sum, &importance, sizeof importance);
    return sum;
}
