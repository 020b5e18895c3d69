/* Importance data in the GGUF layout. An odd first byte packs the rest with gzip, whose checksum a fuzzer
 * does not guess. */
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/importance.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    fuzz_input in = {bytes, n};
    bool packed = fuzz_byte(&in) & 1;
    size_t size = in.n;
    uint8_t *data = packed ? fuzz_gzip(in.bytes, in.n, &size) : fuzz_copy(in.bytes, in.n);
    fuzz_try_importance(data, size);
    return 0;
}

void fuzz_seeds(const char *folder) {
    size_t n, packed;
    uint8_t *bytes = fuzz_importance(256, false, &n), *gzip = fuzz_gzip(bytes, n, &packed);
    fuzz_seed_behind(folder, "plain", "\0", 1, bytes, n);
    fuzz_seed_behind(folder, "packed", "\1", 1, bytes, n);
    fuzz_seed_behind(folder, "gzip", "\0", 1, gzip, packed);
    free(bytes), free(gzip);
    bytes = fuzz_importance(3, false, &n);
    fuzz_seed_behind(folder, "narrow", "\0", 1, bytes, n);
    free(bytes);
}
