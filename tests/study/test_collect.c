/* Importance data in the making: sums over tokens have the order of forward/stream/stream.h. */
#include "study/inputs/inputs.h"
#include "tests/support/support.h"

enum { TOKENS = 1024 };

/* The sum of squares of one feature, told in batches of so many tokens. */
static float sum_of(const float *x, size_t context, size_t batch, bool routed) {
    gq_error e;
    imatrix im;
    char name[] = "blk.0.ffn_up_exps.weight";
    model_tensor t = {.name = name};
    uint32_t token[TOKENS];
    collection *c = collection_new(NULL, collection_share_of(NULL, TOKENS / context, context), &e);
    assert_non_null(c);
    forward_observer observer = collection_observer(c);
    for (size_t first = 0; first < TOKENS; first += batch) {
        forward_inputs in = {.weights = {&t},
                             .n_weights = 1,
                             .matrices = 1,
                             .routed = routed,
                             .x = x + first,
                             .features = 1,
                             .tokens = batch,
                             .stride = batch,
                             .first = first};
        float some[TOKENS];
        size_t n = 0;
        for (size_t i = 0; routed && i < batch; i++) /* an expert is told of its tokens alone */
            if (x[first + i] != 0) token[n] = (uint32_t)i, some[n++] = x[first + i];
        if (routed) in.x = some, in.tokens = n, in.token = token;
        assert_int_equal(observer.on_inputs(observer.data, &in, &e), FORWARD_ON);
    }
    assert_true(collection_take(c, &im, &e));
    float sum = im.entries[0].sums[0];
    imatrix_free(&im), collection_free(c);
    return sum;
}

/* 2^54 + 2^30 lies in the middle between two floats; what is added to it one by one is lost, as doubles are 4
 * apart there, and what is added as a group of its own is not. */
TEST(sums_have_the_order_of_groups) {
    float x[TOKENS] = {0x1p27f, 0x1p15f};
    static const size_t batches[] = {TOKENS, 512, 256};
    for (size_t i = 512; i < TOKENS; i++) x[i] = 1;
    for (int routed = 0; routed < 2; routed++)
        for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
            assert_true(sum_of(x, 256, batches[i], routed) == 0x1p54f + 0x1p31f);
            assert_true(sum_of(x, 64, batches[i], routed) == 0x1p54f + 0x1p31f);
        }
    assert_true(sum_of(x, TOKENS, TOKENS, false) == 0x1p54f); /* one window, one chain */
}

int main(void) { return tests_run(NULL, NULL); }
