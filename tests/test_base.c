/* What every room may use: checksums. */
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "tests/support.h"

static void a_checksum_is_that_of_gzip(void **state) {
    (void)state;
    assert_int_equal(checksum_add(0, "123456789", 9), 0xcbf43926);
    assert_int_equal(checksum_add(checksum_add(0, "1234", 4), "56789", 5), 0xcbf43926);
    assert_int_equal(checksum_add_text(0, "12345678"), checksum_add(0, "12345678\0", 9));
    assert_int_equal(checksum_add(0, NULL, 0), 0);
    assert_int_equal(checksum_add(7, NULL, 0), 7);
}

static void checksums_of_parts_are_joined(void **state) {
    (void)state;
    uint32_t first = checksum_add(0, "1234", 4), second = checksum_add(0, "56789", 5);
    assert_int_equal(checksum_join(first, second, 5), 0xcbf43926);
    assert_int_equal(checksum_join(first, 0, 5) ^ second, 0xcbf43926);
    assert_int_equal(checksum_join(first, 0, 0), first);
}

/* Of 5 GiB of zeros, as a file of many parts has; their number has more than 32 bits. */
static void a_long_part_is_joined(void **state) {
    (void)state;
    enum { MIB = 1 << 20 };
    uint8_t *zeros = calloc(1, MIB);
    uint32_t mib = checksum_add(0, zeros, MIB), all = 0, first = checksum_add(0, "1234", 4), whole = first;
    for (size_t i = 0; i < 5 * 1024; i++) all = checksum_join(all, mib, MIB);
    for (size_t i = 0; i < 5 * 1024; i++) whole = checksum_join(whole, mib, MIB);
    assert_int_equal(checksum_join(first, all, (uint64_t)5 << 30), whole);
    assert_int_equal(checksum_join(first, checksum_add(0, zeros, 100), 100), checksum_add(first, zeros, 100));
    free(zeros);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checksum_is_that_of_gzip),
        cmocka_unit_test(checksums_of_parts_are_joined),
        cmocka_unit_test(a_long_part_is_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
