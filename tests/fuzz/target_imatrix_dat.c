/* Importance data as they come: the legacy layout unless they say otherwise. */
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/importance.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    fuzz_try_importance(fuzz_copy(bytes, n), n);
    return 0;
}

void fuzz_seeds(const char *folder) {
    size_t n, packed;
    uint8_t *bytes = fuzz_importance(256, true, &n), *gzip = fuzz_gzip(bytes, n, &packed);
    fuzz_seed(folder, "dat", bytes, n);
    fuzz_seed(folder, "dat.gz", gzip, packed);
    free(bytes), free(gzip);
    bytes = fuzz_importance(3, true, &n);
    fuzz_seed(folder, "narrow", bytes, n);
    free(bytes);
}
