/* Decoders: a byte for the type, then blocks. At every ISA level the values are those of the reference. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    fuzz_input in = {bytes, n};
    const tensor_type *type = tensor_type_of(fuzz_byte(&in) % GGUF_TYPE_LIMIT);
    if (!type) return -1;
    size_t blocks = in.n / type->block_bytes, count = blocks * type->block_elements;
    uint8_t *data = fuzz_copy(in.bytes, blocks * type->block_bytes);
    if (type->id == GGUF_NVFP4) /* the sign bit of a scale is ignored, or not: nobody writes it */
        for (size_t i = 0; i < blocks * type->block_bytes; i++)
            if (i % type->block_bytes < 4) data[i] &= 0x7f;
    float *expected = malloc(count * sizeof *expected + 1), *x = malloc(count * sizeof *x + 1);
    bool known = reference_decode(type->id, data, expected, count);
    for (size_t level = 0; kernels_level_name(level); level++) {
        const kernels *k = kernels_level(kernels_level_name(level));
        if (!k) continue;
        PROMISE((k->codecs[type->id].decode != NULL) == known, "%s at %s", type->name, kernels_name(k));
        if (!known) continue;
        k->codecs[type->id].decode(data, 0, x, count);
        for (size_t i = 0; i < count; i++)
            PROMISE(!memcmp(&x[i], &expected[i], sizeof *x) || (isnan(x[i]) && isnan(expected[i])),
                    "%s at %s: element %zu is %a, expected %a", type->name, kernels_name(k), i, (double)x[i],
                    (double)expected[i]);
    }
    free(data), free(expected), free(x);
    return 0;
}

void fuzz_seeds(const char *folder) {
    for (uint32_t id = 0; id < GGUF_TYPE_LIMIT; id++) {
        const tensor_type *type = tensor_type_of(id);
        if (!type) continue;
        uint8_t bytes[1 + 5 * 292] = {(uint8_t)id};
        for (size_t i = 1; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * i * 31 + i / 3);
        fuzz_seed(folder, type->name, bytes, 1 + 5 * (size_t)type->block_bytes);
    }
}
