/* Encoding by second moments when memory runs out: an error each time, and then the same bytes as ever. */
#include "quantize/gquant.h"
#include "tests/memory/memory.h"
#include "tests/support/codecs.h"

enum { ROWS = 66, COLS = 288, BYTES = ROWS * COLS / 32 * 18 };

/* (Of the one that only other threads would need nothing is seen.) */
TEST(each_allocation_may_fail) {
    static float x[ROWS * COLS], h[COLS * COLS];
    static uint8_t wanted[BYTES], to[BYTES];
    gq_error e = {.text = ""};
    seed_random(4), fill_normal(x, ROWS * COLS, 1);
    for (size_t i = 0; i < COLS; i++)
        for (size_t j = 0; j < COLS; j++) h[i * COLS + j] = i == j ? 1 : 0.5f;
    const gq_array_options o = {.size = sizeof o, .hessian = h, .threads = 1};
    assert_true(gq_encode(GGUF_Q4_0, ROWS, COLS, x, &o, wanted, BYTES, NULL, &e));
    for (long i = 1;; i++) {
        e.text[0] = 0, fail_at = i;
        bool ok = gq_encode(GGUF_Q4_0, ROWS, COLS, x, &o, to, BYTES, NULL, &e), failed = fail_at == 0;
        fail_at = 0;
        if (ok)
            assert_memory_equal(to, wanted, BYTES);
        else
            assert_true(failed && strstr(e.text, "memory"));
        if (!failed) {
            assert_true(i > 10);
            return;
        }
    }
}

int main(void) { return tests_run(NULL, NULL); }
