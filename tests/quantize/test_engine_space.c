/* Peak memory is that of the threads: it does not grow with the model, nor with one tensor. The bounds leave
 * out what a tensor or a row would take, 80 MiB and 2 GiB. */
#include "gguf/gguf.h"
#include "tests/support/folder.h"
#include "tests/support/model.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { THREADS = 2 };

/* A file of F16 zeros that takes no room on the disk. */
static void write_sparse(const char *to, uint32_t tensors, const uint64_t ne[4]) {
    char name[64];
    const uint8_t *head;
    uint64_t header_size, data_size;
    gguf_header *h = gguf_header_new(NULL);
    assert_true(gguf_header_set_string(h, "general.architecture", "llama", NULL));
    assert_true(gguf_header_set_string(h, "general.type", "part", NULL));
    assert_true(gguf_header_set_u32(h, "llama.block_count", tensors, NULL));
    for (uint32_t i = 0; i < tensors; i++) {
        snprintf(name, sizeof name, "blk.%u.ffn_up.weight", i);
        assert_true(gguf_header_add_tensor(h, name, ne, tensor_type_of(GGUF_F16), NULL));
    }
    assert_true(gguf_header_finish(h, &head, &header_size, &data_size, NULL));
    write_whole(to, head, header_size);
    assert_int_equal(truncate(to, (off_t)(header_size + data_size)), 0);
    gguf_header_free(h);
}

/* Peak resident KiB of the command on a share of the work. */
static long peak(const char *in, const char *part) {
    int status;
    struct rusage use;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char threads[8], out[PATH_MAX];
        snprintf(threads, sizeof threads, "%d", THREADS);
        snprintf(out, sizeof out, "%s-out", in);
        execl(command_path(), "gquant", "-q", "--force", "--part", part, in, out, "Q4_K_S", threads,
              (char *)NULL);
        _exit(127);
    }
    assert_int_equal(wait4(pid, &status, 0, &use), pid);
    assert_int_equal(status, 0);
    return use.ru_maxrss;
}

TEST(memory_is_constant) {
    if (SANITIZED) skip();
    write_sparse(path("small.gguf"), 50, (uint64_t[4]){1024, 1024, 1, 1});  /* 100 MiB */
    write_sparse(path("large.gguf"), 50, (uint64_t[4]){4096, 10240, 1, 1}); /* 4 GiB */
    write_sparse(path("long.gguf"), 1, (uint64_t[4]){1u << 30, 2, 1, 1});   /* one tensor, two rows */
    long small = peak(path("small.gguf"), "1/1"), large = peak(path("large.gguf"), "2/20");
    long row = peak(path("long.gguf"), "3/20");
    print_message("KiB: %ld, %ld, %ld\n", small, large, row);
    /* On a busy machine one worker may do all of a small model, and the other never touch its memory. */
    long most = small + THREADS * 1536 + 1024;
    assert_true(large <= most && row <= most);
    assert_true(small <= (64 + 8 * THREADS) * 1024);
}

int main(void) { return tests_run(folder_make, folder_remove); }
