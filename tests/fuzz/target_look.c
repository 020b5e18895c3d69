/* Looking at a model: the first two bytes are the length of one, the rest is another to compare it with. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/gquant.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    fuzz_input in = {bytes, n};
    gq_error e = {0};
    char a[300], b[300];
    size_t length = fuzz_u16(&in);
    if (length > in.n) length = in.n;
    snprintf(a, sizeof a, "%s/a.gguf", fuzz_folder());
    snprintf(b, sizeof b, "%s/b.gguf", fuzz_folder());
    fuzz_write(a, in.bytes, length);
    fuzz_write(b, in.bytes + length, in.n - length);
    gq_verification *v = gq_verify(a, NULL, 0, 2, NULL, &e);
    if (!v) fuzz_check_error(&e);
    gq_verification_free(v);
    e = (gq_error){0};
    gq_comparison *c = gq_compare(&(gq_comparison_request){.size = sizeof(gq_comparison_request),
                                                           .base_model = a,
                                                           .quants = (const char *const[]){b, a},
                                                           .n_quants = 2,
                                                           .threads = 2},
                                  &e);
    if (!c) fuzz_check_error(&e);
    gq_comparison_free(c);
    fuzz_empty_folder();
    return 0;
}

void fuzz_seeds(const char *folder) {
    for (uint32_t id = 0; id < GGUF_TYPE_LIMIT; id++) {
        if (!tensor_type_of(id)) continue;
        size_t n_a, n_b;
        uint8_t *a = fuzz_model(tensor_type_of(id), 256, &n_a),
                *b = fuzz_model(tensor_type_of(GGUF_F16), 256, &n_b);
        uint8_t *both = malloc(2 + n_a);
        memcpy(both, (uint8_t[2]){(uint8_t)n_a, (uint8_t)(n_a >> 8)}, 2);
        memcpy(both + 2, a, n_a);
        fuzz_seed_behind(folder, tensor_type_name(id), both, 2 + n_a, b, n_b);
        free(a), free(b), free(both);
    }
}
