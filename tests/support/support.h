/* Shared by all tests: cmocka with its includes and common C headers, paths of test material, temporary folders,
 * running the command. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Tests that skip are counted: a program in which all do ends with 77, which ctest shows as skipped, and one
 * in which some do says how many, which tests/run adds up. Those alone are run whose names match
 * GQUANT_TEST_ONLY, a regular expression, and those are not that the file GQUANT_TEST_SKIP lists, one a line:
 * the program's name and the test's. */
extern size_t tests_skipped;
#undef skip
#define skip() (tests_skipped++, _skip(__FILE__, __LINE__))
int run_counting_skips(const char *name, const struct CMUnitTest *tests, size_t n, CMFixtureFunction set_up,
                       CMFixtureFunction tear_down);
#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, set_up, tear_down) \
    run_counting_skips(#tests, tests, sizeof(tests) / sizeof *(tests), set_up, tear_down)

/* TEST(name) { ... } is a test, and TEST_WITH one with a set-up and a tear-down (NULL: none). The tests of a file
 * register themselves in their order, and its main() runs them with tests_run. FIXTURE(name) { ... } is a set-up or
 * tear-down; it returns 0 on success. */
#define TEST(name) TEST_WITH(name, NULL, NULL)
#define TEST_WITH(name, set_up, tear_down) \
    static void name(void **state); \
    __attribute__((constructor)) static void name##_notes_itself(void) { \
        test_list_add(&file_tests, #name, name, set_up, tear_down); \
    } \
    static void name(__attribute__((unused)) void **state)
#define FIXTURE(name) static int name(__attribute__((unused)) void **state)
typedef struct test_list {
    struct CMUnitTest items[64];
    size_t n;
} test_list;
static test_list file_tests __attribute__((unused));
void test_list_add(test_list *list, const char *name, CMUnitTestFunction run, CMFixtureFunction set_up,
                   CMFixtureFunction tear_down);
#define tests_run(set_up, tear_down) \
    run_counting_skips("tests", file_tests.items, file_tests.n, set_up, tear_down)

/* Path below the shared test material, or skip() the test with a message when it is not there. Static buffer.
 */
const char *shared_path(const char *relative);
bool have_shared(void);
/* Path of a file in tests/. Static buffer (one of four). */
const char *test_path(const char *relative);

/* A new temporary folder, and its removal with all that is in it. */
char *temporary_folder(void);   /* malloc'ed */
void remove_folder(char *path); /* frees path */

/* Whole file into memory (malloc'ed, NUL-terminated); fails the test when it cannot be read. */
uint8_t *read_whole(const char *path, size_t *size);
void write_whole(const char *path, const void *bytes, size_t size);
bool exists(const char *path);
void assert_near(double found, double expected, double most); /* most: of the expected one */

/* The command under test: the one that was built, or $GQUANT_TEST_COMMAND (tests/win32). */
char *command_path(void);
bool command_stands_in(void);
/* Run argv (NULL-terminated; argv[0] NULL means the gquant command) without a shell. Returns the exit status,
 * or 128 + signal. Output is captured, NUL-terminated, malloc'ed; either may be NULL. */
int run_command(const char *const *argv, char **out, char **err);

/* Whether a sanitizer is at work: it owns malloc, and its shadow memory alone is larger than any bound. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED \
    (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer))
#else
#define SANITIZED 0
#endif
