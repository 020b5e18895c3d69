/* Small files: read whole, written under their name only when they are whole. */
#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/safe_file.h"
#include "quantize/gquant.h"
#include "tests/support/model.h"
#include "tests/support/support.h"

static char *folder;

FIXTURE(set_up) {
    folder = temporary_folder();
    return chdir(folder);
}

FIXTURE(tear_down) {
    assert_int_equal(chdir("/"), 0);
    remove_folder(folder);
    return 0;
}

static bool put_text(const char *path, bool replace, const char *text, gq_error *e) {
    return gq_write_whole(path, replace, text, strlen(text), e);
}

static void assert_holds(const char *path, const char *text) {
    gq_error e;
    size_t n;
    char *found = gq_read_whole(path, 100, &n, &e);
    if (!found) fail_msg("%s", e.text);
    assert_string_equal(found, text);
    assert_int_equal(n, strlen(text));
    free(found);
}

TEST(test_kept_beside_a_model) {
    gq_error e;
    char *kept = gq_kept_path("a/model.gguf", GQ_MEASURE_SUFFIX, &e);
    assert_string_equal(kept, "a/model.gguf.gquant-measure");
    gq_free(kept);
    assert_int_equal(mkdir("Folder", 0700), 0);
    assert_true(put_text("Folder/config.json", false, "{}", &e));
    kept = gq_kept_path("Folder/", GQ_SCORES_SUFFIX, NULL);
    assert_non_null(strstr(kept, "Folder" GQ_SCORES_SUFFIX));
    gq_free(kept);
    assert_int_equal(unlink("Folder/config.json"), 0);
    assert_int_equal(rmdir("Folder"), 0);
}

TEST(test_written_whole) {
    gq_error e;
    struct stat st;
    char longest[256];
    memset(longest, 'x', 255);
    longest[255] = 0;
    const char *const names[] = {"plain", "-leading", "two\nlines", " ", longest};
    mode_t old = umask(027);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_true(put_text(names[i], false, "new", &e));
        assert_holds(names[i], "new");
        assert_int_equal(stat(names[i], &st), 0);
        assert_int_equal(st.st_mode & 07777, 0640);
        assert_false(put_text(names[i], false, "newer", &e));
        assert_non_null(strstr(e.text, "already exists"));
        assert_holds(names[i], "new");
        assert_true(put_text(names[i], true, "newer", &e));
        assert_holds(names[i], "newer");
        assert_int_equal(unlink(names[i]), 0);
    }
    umask(old);
    assert_int_equal(count_files(folder), 0);
}

/* Somebody else is faster. */
static bool late;
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
    if (late) write_whole("target", "theirs", 6);
    return __real_fsync(fd);
}

TEST(test_a_name_taken_meanwhile) {
    gq_error e;
    late = true;
    assert_false(put_text("target", false, "ours", &e));
    assert_non_null(strstr(e.text, strerror(EEXIST)));
    assert_holds("target", "theirs");
    assert_int_equal(count_files(folder), 1);
    assert_true(put_text("target", true, "ours", &e));
    late = false;
    assert_holds("target", "ours");
    assert_int_equal(unlink("target"), 0);
}

TEST(test_links_are_not_followed) {
    gq_error e;
    struct stat st;
    write_whole("precious", "old", 3);
    static const char *const to[] = {"precious", "nowhere", "link"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(symlink(to[i], "link"), 0);
        assert_false(put_text("link", false, "new", &e));
        assert_true(put_text("link", true, "new", &e));
        assert_int_equal(lstat("link", &st), 0);
        assert_true(S_ISREG(st.st_mode));
        assert_int_equal(unlink("link"), 0);
    }
    assert_holds("precious", "old");
    assert_int_equal(unlink("precious"), 0);
    assert_int_equal(count_files(folder), 0);
}

TEST(test_other_kinds_stay) {
    gq_error e;
    size_t n;
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(mkfifo("fifo", 0666), 0);
    assert_int_equal(mkdir("folder", 0777), 0);
    static const char *const kinds[][2] = {
        {"fifo", "a FIFO"}, {"folder", "a directory"}, {"socket", "a socket"}, {"/dev/null", "a device"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct stat before, after;
        assert_int_equal(stat(kinds[i][0], &before), 0);
        assert_false(put_text(kinds[i][0], true, "new", &e));
        assert_non_null(strstr(e.text, kinds[i][1]));
        assert_null(gq_read_whole(kinds[i][0], 100, &n, &e));
        assert_non_null(strstr(e.text, kinds[i][1]));
        assert_int_equal(stat(kinds[i][0], &after), 0);
        assert_int_equal(before.st_ino, after.st_ino);
    }
    close(fd);
    assert_int_equal(unlink("socket") | unlink("fifo") | rmdir("folder"), 0);
    assert_int_equal(count_files(folder), 0);
}

TEST(test_a_failure_leaves_nothing) {
    gq_error e;
    assert_false(put_text("absent/file", true, "", &e));
    assert_non_null(strstr(e.text, "absent"));
    assert_false(put_text("", true, "", &e));
    struct rlimit limit, little = {1000, RLIM_INFINITY};
    getrlimit(RLIMIT_FSIZE, &limit);
    little.rlim_max = limit.rlim_max;
    write_whole("file", "old", 3);
    setrlimit(RLIMIT_FSIZE, &little);
    static const char much[1 << 16];
    bool done = gq_write_whole("file", true, much, sizeof much, &e);
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_false(done);
    assert_non_null(strstr(e.text, strerror(EFBIG)));
    assert_holds("file", "old");
    assert_int_equal(unlink("file"), 0);
    assert_int_equal(count_files(folder), 0);
}

TEST(test_read) {
    gq_error e;
    size_t n = 1;
    write_whole("file", "a\0b", 3);
    char *text = gq_read_whole("file", 3, &n, &e);
    assert_int_equal(n, 3);
    assert_memory_equal(text, "a\0b", 4);
    free(text);
    assert_null(gq_read_whole("file", 2, &n, &e));
    assert_non_null(strstr(e.text, "3 bytes"));
    assert_null(gq_read_whole("absent", 2, &n, &e));
    write_whole("file", "", 0);
    assert_holds("file", "");
    assert_int_equal(unlink("file"), 0);
}

/* Two open files are two processes to the system. */
TEST(test_locks) {
    int a = safe_file_create("locked"), b = safe_file_open("locked");
    assert_true(a >= 0 && b >= 0);
    assert_true(safe_file_lock(a, SAFE_FILE_SHARED) && safe_file_lock(b, SAFE_FILE_SHARED));
    assert_false(safe_file_lock_alone(a)); /* which costs it the lock it had */
    assert_true(safe_file_lock(a, SAFE_FILE_SHARED));
    close(b);
    assert_true(safe_file_lock_alone(a));
    b = safe_file_open("locked");
    assert_false(safe_file_lock(b, SAFE_FILE_SHARED));
    close(a);
    assert_true(safe_file_lock(b, SAFE_FILE_ALONE));
    close(b);
}

int main(void) { return tests_run(set_up, tear_down); }
