/* What every room may use: checksums, memory, failures. */
#include "base/checksum.h"
#include "base/fail.h"
#include "base/memory.h"
#include "tests/support/support.h"

TEST(a_checksum_is_that_of_gzip) {
    assert_int_equal(checksum_add(0, "123456789", 9), 0xcbf43926);
    assert_int_equal(checksum_add(checksum_add(0, "1234", 4), "56789", 5), 0xcbf43926);
    assert_int_equal(checksum_add_text(0, "12345678"), checksum_add(0, "12345678\0", 9));
    assert_int_equal(checksum_add(0, NULL, 0), 0);
    assert_int_equal(checksum_add(7, NULL, 0), 7);
}

TEST(checksums_of_parts_are_joined) {
    uint32_t first = checksum_add(0, "1234", 4), second = checksum_add(0, "56789", 5);
    assert_int_equal(checksum_join(first, second, 5), 0xcbf43926);
    assert_int_equal(checksum_join(first, 0, 5) ^ second, 0xcbf43926);
    assert_int_equal(checksum_join(first, 0, 0), first);
}

/* Of 5 GiB of zeros, as a file of many parts has; their number has more than 32 bits. */
TEST(a_long_part_is_joined) {
    enum { MIB = 1 << 20 };
    uint8_t *zeros = calloc(1, MIB);
    uint32_t mib = checksum_add(0, zeros, MIB), all = 0, first = checksum_add(0, "1234", 4), whole = first;
    for (size_t i = 0; i < 5 * 1024; i++) all = checksum_join(all, mib, MIB);
    for (size_t i = 0; i < 5 * 1024; i++) whole = checksum_join(whole, mib, MIB);
    assert_int_equal(checksum_join(first, all, (uint64_t)5 << 30), whole);
    assert_int_equal(checksum_join(first, checksum_add(0, zeros, 100), 100), checksum_add(first, zeros, 100));
    free(zeros);
}

TEST(memory_begins_at_lines_and_pages) {
    static const uint64_t counts[] = {0, 1, 16, 17, 1000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        float *lines = memory_lines(counts[i], sizeof *lines, NULL);
        uint8_t *pages = memory_pages(counts[i], 1, NULL);
        assert_true(lines && (uintptr_t)lines % 64 == 0 && pages && (uintptr_t)pages % 4096 == 0);
        memset(lines, 1, counts[i] ? (4 * counts[i] + 63) / 64 * 64 : 64);
        free(lines), free(pages);
    }
}

TEST(memory_that_cannot_be_counted_is_none) {
    static const uint64_t sizes[][2] = {
        {UINT64_MAX / 2, 4}, {UINT64_MAX, 1}, {UINT64_MAX - 30, 1}, {INT64_MAX - 30, 1}, {1, UINT64_MAX}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        gq_error e = {.status = GQ_OK};
        assert_null(memory_lines(sizes[i][0], sizes[i][1], &e));
        assert_int_equal(e.status, GQ_FAILED);
        assert_non_null(strstr(e.text, "out of memory: "));
        assert_null(memory_pages(sizes[i][0], sizes[i][1], NULL));
    }
}

TEST(an_array_grows) {
    uint32_t *items = NULL;
    size_t capacity = 0, times = 0;
    for (size_t n = 0; n < 10000; n++) {
        size_t before = capacity;
        assert_true(memory_grow(&items, &capacity, n + 1, sizeof *items, NULL));
        times += capacity != before;
        items[n] = (uint32_t)n;
    }
    assert_true(times < 12);
    for (size_t n = 0; n < 10000; n++) assert_int_equal(items[n], n);
    assert_true(memory_grow(&items, &capacity, 100001, sizeof *items, NULL) && capacity >= 100001);
    gq_error e = {.status = GQ_OK};
    size_t before = capacity;
    uint32_t *kept = items;
    assert_false(memory_grow(&items, &capacity, UINT64_MAX, sizeof *items, &e));
    assert_false(memory_grow(&items, &capacity, UINT64_MAX / 4 - 1, sizeof *items,
                             &e)); /* fits 64 bits, and no object */
    assert_true(e.status == GQ_FAILED && capacity == before && items == kept && items[9999] == 9999);
    free(items);
}

TEST(what_is_added_to_a_failure_keeps_its_kind) {
    gq_error e, why;
    gq_fail_remedy(&why, GQ_REMEDY_REPLACE, "%s is there", "a");
    assert_false(gq_fail_again(&e, &why, "b: %s", why.text));
    assert_true(e.status == GQ_FAILED && e.remedy == GQ_REMEDY_REPLACE);
    assert_string_equal(e.text, "b: a is there");
    gq_fail_as(&e, GQ_INTERRUPTED, "stopped");
    assert_false(gq_fail_again(&e, &e, "%s (in %s)", gq_error_text(&e), "c"));
    assert_true(e.status == GQ_INTERRUPTED && e.remedy == GQ_REMEDY_NONE);
    assert_string_equal(e.text, "stopped (in c)");
    assert_false(gq_fail_again(NULL, NULL, "%s", gq_error_text(NULL)));
}

int main(void) { return tests_run(NULL, NULL); }
