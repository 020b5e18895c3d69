/* Messages, tensor types, and files that are only read. */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/file.h"
#include "gguf/type.h"
#include "tests/support/support.h"

static void assert_shown(const char *text, const char *expected) {
    char shown[256];
    assert_ptr_equal(gq_printable(shown, sizeof shown, text), shown);
    assert_string_equal(shown, expected);
}

TEST(control_characters_are_shown_as_hex) {
    assert_shown("blk.0.\x1b[31m\nattn\x07.weight\x7f", "blk.0.\\x1b[31m\\x0aattn\\x07.weight\\x7f");
    assert_shown("schl\xc3\xbcssel \xe2\x82\xac \xf0\x9f\x98\x80",
                 "schl\xc3\xbcssel \xe2\x82\xac \xf0\x9f\x98\x80");
    assert_shown("\xc2\x9b[2J", "\\xc2\\x9b[2J");             /* U+009B, a control sequence introducer */
    assert_shown("\xc2\xa0|\xc2\x80", "\xc2\xa0|\\xc2\\x80"); /* the first after the C1 controls */
    assert_shown("\xff\x80\xc0\xaf", "\\xff\\x80\\xc0\\xaf"); /* no UTF-8, overlong */
    assert_shown("\xe0\x9f\xbf\xe0\xa0\x80", "\\xe0\\x9f\\xbf\xe0\xa0\x80");
    assert_shown("\xed\x9f\xbf\xed\xa0\x80", "\xed\x9f\xbf\\xed\\xa0\\x80"); /* surrogates */
    assert_shown("\xf0\x8f\xbf\xbf\xf4\x90\x80\x80\xf5\x80\x80\x80",
                 "\\xf0\\x8f\\xbf\\xbf\\xf4\\x90\\x80\\x80\\xf5\\x80\\x80\\x80");
    assert_shown("\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf");
    assert_shown("\xe2\x82", "\\xe2\\x82"); /* ends early */
    assert_shown("\xe2\x80\xae"
                 "6Q \xe2\x80\xa8\xe2\x81\xa6",
                 "\\xe2\\x80\\xae"
                 "6Q \\xe2\\x80\\xa8\\xe2\\x81\\xa6"); /* turn the direction of writing, end the line */
    assert_shown("\xe2\x80\x93\xe2\x80\xaf", "\xe2\x80\x93\xe2\x80\xaf");
    assert_shown("", "");
}

TEST(a_short_buffer_is_never_overrun) {
    char to[9];
    for (size_t size = 1; size < sizeof to; size++) {
        memset(to, '#', sizeof to);
        gq_printable(to, size, "a\n\xe2\x82\xac");
        assert_true(strlen(to) < size);
        assert_int_equal(to[size], '#');
    }
    assert_string_equal(gq_printable(to, 5, "a\nb"), "a");
    assert_string_equal(gq_printable(to, 6, "a\nb"), "a\\x0a");
}

TEST(failures_carry_kind_and_text) {
    gq_error e;
    assert_false(gq_fail(&e, "%s: %d", "a\nb", 7));
    assert_int_equal(e.status, GQ_FAILED);
    assert_string_equal(e.text, "a\\x0ab: 7");
    assert_false(gq_fail_usage(&e, "%s, again", e.text));
    assert_int_equal(e.status, GQ_USAGE);
    assert_string_equal(e.text, "a\\x0ab: 7, again");
    assert_false(gq_fail_memory(&e, 1ull << 40));
    assert_non_null(strstr(e.text, "1099511627776"));
    assert_false(gq_fail(NULL, "nobody listens"));
    assert_false(gq_fail_usage(NULL, "nobody listens"));
}

TEST(a_long_text_loses_its_middle) {
    gq_error e;
    char path[3001];
    for (int shift = 0; shift < 4; shift++) { /* the cuts fall on every byte of a two-byte sequence */
        for (size_t i = 0; i < 3000; i++) path[i] = i & 1 ? '\xbc' : '\xc3';
        path[3000] = 0;
        gq_fail(&e, "%.*s%s: the reason", shift, "abc", path);
        size_t n = strlen(e.text);
        assert_in_range(n, sizeof e.text - 8, sizeof e.text - 1);
        assert_non_null(strstr(e.text, " ... \xc3\xbc"));
        assert_non_null(strstr(e.text, "\xc3\xbc ... "));
        assert_string_equal(e.text + n - 12, ": the reason");
    }
    gq_fail(&e, "%0*d", (int)sizeof e.text - 1, 7);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    assert_null(strstr(e.text, " ... "));
    gq_fail(&e, "%0*d", (int)sizeof e.text, 7);
    assert_true(strlen(e.text) < sizeof e.text);
    assert_non_null(strstr(e.text, "0 ... 0"));
}

/* The table of the format description. */
static const struct {
    uint32_t id;
    const char *name;
    uint32_t elements, bytes;
} known[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
    {40, "NVFP4", 64, 36},    {41, "Q1_0", 128, 18},    {42, "Q2_0", 64, 18},
};

TEST(every_type_has_its_row) {
    size_t found = 0, n = sizeof known / sizeof *known;
    for (uint32_t id = 0; id < 100; id++) found += tensor_type_of(id) != NULL;
    assert_int_equal(found, n);
    for (size_t i = 0; i < n; i++) {
        const tensor_type *t = tensor_type_of(known[i].id);
        assert_non_null(t);
        assert_int_equal(t->id, known[i].id);
        assert_string_equal(t->name, known[i].name);
        assert_int_equal(t->block_elements, known[i].elements);
        assert_int_equal(t->block_bytes, known[i].bytes);
        assert_int_equal(t->quantized, known[i].elements > 1);
        assert_ptr_equal(tensor_type_named(known[i].name), t);
        assert_string_equal(tensor_type_name(known[i].id), known[i].name);
    }
    assert_ptr_equal(tensor_type_named("q4_k"), tensor_type_of(GGUF_Q4_K));
    assert_null(tensor_type_named("Q4_2"));
    assert_null(tensor_type_named(""));
    assert_null(tensor_type_of(UINT32_MAX));
    assert_string_equal(tensor_type_name(4), "unknown");
    assert_string_equal(tensor_type_name(GGUF_TYPE_LIMIT), "unknown");
}

static void assert_not_opened(const char *path, const char *reason) {
    gq_file f;
    gq_error e;
    assert_false(gq_file_open(&f, path, &e));
    if (!strstr(e.text, path) || !strstr(e.text, reason))
        fail_msg("no '%s' or '%s' in: %s", path, reason, e.text);
    gq_file_close(&f);
}

TEST(only_regular_files_are_opened) {
    char *folder = temporary_folder(), path[4096];
    assert_not_opened(folder, "directory");
    snprintf(path, sizeof path, "%s/fifo", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_not_opened(path, "FIFO");
    snprintf(path, sizeof path, "%s/missing", folder);
    assert_not_opened(path, "No such file");
    snprintf(path, sizeof path, "%s/loop", folder);
    assert_int_equal(symlink("loop", path), 0);
    assert_not_opened(path, "symbolic links");
    assert_not_opened("/dev/null", "device");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s", folder);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(s, (struct sockaddr *)&address, sizeof address), 0);
    assert_not_opened(address.sun_path, "socket");
    close(s);
    remove_folder(folder);
}

TEST(a_full_descriptor_table_is_named) {
    char *folder = temporary_folder(), path[4096];
    struct rlimit old, low;
    snprintf(path, sizeof path, "%s/file", folder);
    write_whole(path, "x", 1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = (struct rlimit){.rlim_cur = 1, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    gq_file f;
    gq_error e;
    bool opened = gq_file_open(&f, path, &e);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_false(opened);
    assert_non_null(strstr(e.text, "ulimit -n"));
    remove_folder(folder);
}

static void assert_reads(const gq_file *f) {
    gq_error e;
    char to[8] = {0};
    assert_true(gq_file_read(f, 2, to, 4, &e));
    assert_string_equal(to, "cdef");
    assert_true(gq_file_read(f, 6, to, 0, &e));
    assert_false(gq_file_read(f, 3, to, 4, &e));
    assert_non_null(strstr(e.text, "4 bytes at offset 3"));
    assert_non_null(strstr(e.text, "6 bytes"));
    assert_false(gq_file_read(f, 7, to, 0, &e));
    assert_false(gq_file_read(f, UINT64_MAX, to, 2, &e));
    assert_false(gq_file_read(f, 1, to, SIZE_MAX, &e));
}

TEST(files_and_memory_read_alike) {
    char *folder = temporary_folder(), path[4096];
    gq_file f;
    gq_error e;
    snprintf(path, sizeof path, "%s/a file", folder);
    write_whole(path, "abcdef", 6);
    assert_true(gq_file_open(&f, path, &e));
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(f.size, 6);
    assert_true(f.device == st.st_dev && f.inode == st.st_ino);
    assert_string_equal(f.path, path);
    assert_reads(&f);
    assert_int_equal(truncate(path, 3), 0);
    char to[6];
    assert_false(gq_file_read(&f, 1, to, 5, &e));
    assert_non_null(strstr(e.text, "ends at byte 3"));
    gq_file_close(&f);
    gq_file_close(&f);

    assert_true(gq_file_memory(&f, "borrowed", "abcdef", 6, NULL, &e));
    assert_reads(&f);
    gq_file_close(&f);
    char *owned = strdup("abcdef");
    assert_true(gq_file_memory(&f, "owned", owned, 6, owned, &e));
    assert_reads(&f);
    gq_file_close(&f);
    assert_true(gq_file_memory(&f, "none", NULL, 0, NULL, &e));
    assert_true(gq_file_read(&f, 0, to, 0, &e));
    gq_file_close(&f);
    remove_folder(folder);
}

TEST(closing_a_zeroed_file_leaves_descriptor_0_alone) {
    gq_file f = {0};
    int before = fcntl(0, F_GETFD);
    gq_file_close(&f);
    assert_int_equal(fcntl(0, F_GETFD), before);
}

int main(void) { return tests_run(NULL, NULL); }
