/* Products of bf16 parts: every level, and the tiles of AMX in a model of theirs, have the bits of the tile
 * instruction in plain C; whole products do not depend on threads; what the system refuses is done without.
 */
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#ifdef GQ_HAVE_amx
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include "forward/products/matmul.h"
#include "tests/support/codecs.h"
#include "tests/support/tile_model.h"

enum { KINDS = 6 };
static const char *const kinds[KINDS] = {"as activations", "near 2^-56",          "huge",
                                         "cancelling",     "zeros of both signs", "near halves of a part"};

static float power_between(int from, int to) {
    return ldexpf(random_uniform(), from + (int)(next_random() >> 33) % (to - from + 1));
}

static float number_of(int kind) {
    uint32_t bits = (uint32_t)(next_random() >> 32);
    float x = random_normal();
    switch (kind) {
    case 1:
        return power_between(-60, -40);
    case 2:
        return power_between(50, 60);
    case 3:
        return bits % 2 ? 1.0078125f : -1.0078125f;
    case 4:
        return bits % 4 ? (bits & 4 ? 0.f : -0.f) : x;
    case 5:
        memcpy(&bits, &x, sizeof bits);
        bits = (bits & 0xffff0000) | (0x8000 + (uint32_t)(next_random() >> 62) - 1);
        return memcpy(&x, &bits, sizeof x), x;
    default:
        return x;
    }
}

typedef struct operands {
    size_t rows, columns, tokens;
    float *w, *x, *y; /* x[column][token]; y as it should be */
} operands;

static void operands_free(operands *o) { free(o->w), free(o->x), free(o->y); }

static operands operands_make(size_t rows, size_t columns, size_t tokens, int kind) {
    enum { GROUP = MATMUL_BF16_GROUP };
    operands o = {rows,
                  columns,
                  tokens,
                  malloc(4 * rows * columns),
                  malloc(4 * columns * tokens),
                  malloc(4 * rows * tokens)};
    for (size_t i = 0; i < rows * columns; i++) o.w[i] = number_of(kind);
    for (size_t i = 0; i < columns * tokens; i++) o.x[i] = number_of(kind);
    for (size_t r = 0; r < rows; r++)
        for (size_t t = 0; t < tokens; t++) {
            float sum = 0;
            for (size_t c = 0; c < columns; c += GROUP) {
                uint16_t a[GROUP] = {0}, b[GROUP] = {0};
                for (size_t i = 0; i < GROUP && c + i < columns; i++)
                    a[i] = tile_model_part(o.w[r * columns + c + i]),
                    b[i] = tile_model_part(o.x[(c + i) * tokens + t]);
                sum = tile_model_output(a, b, 2, GROUP / 2, sum);
            }
            o.y[r * tokens + t] = sum;
        }
    return o;
}

static void same_bits(const float *a, const float *b, size_t n, const char *level, const char *what) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            fail_msg("%s, %s: output %zu is %a, not %a", level, what, i, (double)a[i], (double)b[i]);
}

/* Multiplies in two calls, the second of which adds, panel by panel. In the first half panels are packed, in
 * the second token by token. */
static void check_kernels(const product_kernels *k, const operands *o, const char *level, const char *what) {
    enum { GROUP = MATMUL_BF16_GROUP };
    size_t half = o->columns / 2 / GROUP * GROUP, padded = (o->columns + GROUP - 1) / GROUP * GROUP;
    size_t panels = (o->tokens + k->panel - 1) / k->panel, x_panel_stride = padded * k->panel;
    char *w = malloc(o->rows * padded * k->bytes), *packed = malloc(panels * x_panel_stride * k->bytes);
    float *y = malloc(4 * o->rows * o->tokens), *column = malloc(4 * padded);
    memset(w, 0x7f, o->rows * padded * k->bytes), memset(packed, 0, panels * x_panel_stride * k->bytes);
    for (size_t r = 0; r < o->rows; r++) {
        size_t first = o->columns / 3;
        k->round(o->w + r * o->columns, first, 0, w + r * padded * k->bytes);
        k->round(o->w + r * o->columns + first, o->columns - first, first, w + r * padded * k->bytes);
    }
    for (size_t t = 0; t < o->tokens; t += k->panel) {
        size_t n = o->tokens - t < k->panel ? o->tokens - t : k->panel;
        char *panel = packed + t / k->panel * x_panel_stride * k->bytes;
        k->pack(o->x + t, o->tokens, half, n, panel);
        for (size_t i = 0; i < n; i++) {
            for (size_t c = half; c < o->columns; c++) column[c] = o->x[c * o->tokens + t + i];
            k->place(column + half, o->columns - half, half, panel, i);
        }
    }
    for (int part = half == 0; part < 2; part++) {
        size_t from = part ? half : 0;
        k->multiply(&(product_tile){.w = {w + from * k->bytes, padded, 1},
                                    .x = packed + from * k->panel * k->bytes,
                                    .x_panel_stride = x_panel_stride,
                                    .panel = k->panel,
                                    .y = y,
                                    .y_stride = o->tokens,
                                    .y_panel_stride = k->panel,
                                    .rows = o->rows,
                                    .columns = part ? o->columns - half : half,
                                    .tokens = o->tokens,
                                    .width = k->panel,
                                    .add = part && half});
    }
    same_bits(y, o->y, o->rows * o->tokens, level, what);
    free(w), free(packed), free(y), free(column);
}

static void every_level_has_the_bits_of_tiles(void **state) {
    (void)state;
    static const size_t shapes[][3] = {{32, 64, 32}, {1, 1, 1}, {47, 200, 70}, {16, 33, 16}, {71, 31, 33}};
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            operands o = operands_make(shapes[i][0], shapes[i][1], shapes[i][2], kind);
            for (size_t l = 0; kernels_level_name(l); l++) {
                const kernels *k = kernels_level(kernels_level_name(l));
                if (k)
                    check_kernels(kernels_products(k, MATMUL_BF16), &o, kernels_level_name(l), kinds[kind]);
            }
            check_kernels(&products_bf16_model, &o, "tiles", kinds[kind]);
            assert_false(tile_model_configured()); /* a thread does not keep them */
            operands_free(&o);
        }
}

/* Infinities and NaN are what they are in floats, at every level. */
static void numbers_that_are_none(void **state) {
    (void)state;
    static const float odd[] = {INFINITY, -INFINITY, NAN, 0x1.fffffep127f, -0x1.ffp127f, 0x1p-56f};
    operands o = operands_make(1, 32, 6, 0);
    for (size_t t = 0; t < 6; t++) o.x[t] = odd[t];
    operands again = {1, 32, 6, o.w, o.x, malloc(4 * 6)};
    for (size_t t = 0; t < 6; t++) {
        uint16_t a[32], b[32];
        for (size_t c = 0; c < 32; c++)
            a[c] = tile_model_part(o.w[c]), b[c] = tile_model_part(o.x[c * 6 + t]);
        again.y[t] = tile_model_output(a, b, 2, 16, 0);
    }
    for (size_t l = 0; kernels_level_name(l); l++) {
        const kernels *k = kernels_level(kernels_level_name(l));
        if (k) check_kernels(kernels_products(k, MATMUL_BF16), &again, kernels_level_name(l), "no numbers");
    }
    check_kernels(&products_bf16_model, &again, "tiles", "no numbers");
    free(again.y), operands_free(&o);
}

static void products_do_not_depend_on_threads(void **state) {
    (void)state;
    static const size_t shapes[][3] = {{300, 1100, 90}, {5, 545, 530}, {49, 32, 7}};
    gq_error e;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        operands o = operands_make(shapes[i][0], shapes[i][1], shapes[i][2], 0);
        matmul_weights w = {o.w, GGUF_F32, o.rows, o.columns};
        float *y = malloc(4 * o.rows * o.tokens);
        for (size_t l = 0; kernels_level_name(l); l++)
            for (int threads = 1; threads <= 3; threads += 2) {
                const kernels *k = kernels_level(kernels_level_name(l));
                if (!k) continue;
                threads_pool *pool = threads_pool_new(threads);
                matmul *m = matmul_new(k, pool, &e);
                matmul_set_arithmetic(m, MATMUL_BF16);
                matmul_run(m, &w, o.x, o.tokens, y, o.tokens, o.tokens);
                same_bits(y, o.y, o.rows * o.tokens, kernels_level_name(l), "whole product");
                matmul_free(m), threads_pool_free(pool);
            }
        free(y), operands_free(&o);
    }
}

/* Where tiles may not be used, by the processor, the system or a thread's signal stack, the products are
 * x86-64-v4's, and nothing else happens. */
static void refused_tiles_are_done_without(void **state) {
    (void)state;
#if defined GQ_HAVE_amx
    extern const kernels kernels_amx, kernels_v4;
    pid_t child = fork();
    if (child == 0) { /* permission is the process' own */
        static char small[2048];
        stack_t stack = {.ss_sp = small, .ss_size = sizeof small};
        bool taken = sigaltstack(&stack, NULL) == 0;
        const product_kernels *k = kernels_products(&kernels_amx, MATMUL_BF16);
        _exit(taken && k != kernels_v4.products[MATMUL_BF16] ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    if (!kernels_level("amx"))
        assert_ptr_equal(kernels_products(&kernels_amx, MATMUL_BF16), kernels_v4.products[MATMUL_BF16]);
#else
    skip();
#endif
}

/* The system is asked for permission by the first product in bf16, not by those in float32; and where it
 * refuses even to be asked, as in sandboxes, the bytes are the same. */
#ifdef GQ_HAVE_amx
enum { ARCH_GET_XCOMP_PERM = 0x1022, ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
static bool may_use_tiles(void) {
    uint64_t permitted = 0;
    return syscall(SYS_arch_prctl, ARCH_GET_XCOMP_PERM, &permitted) == 0 && permitted >> TILE_DATA & 1;
}
static void forbid_asking(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH_REQ_XCOMP_PERM, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}
static void product_in(const kernels *k, matmul_arithmetic arithmetic, const operands *o, float *y) {
    gq_error e;
    threads_pool *pool = threads_pool_new(2);
    matmul *m = matmul_new(k, pool, &e);
    matmul_set_arithmetic(m, arithmetic);
    matmul_run(m, &(matmul_weights){o->w, GGUF_F32, o->rows, o->columns}, o->x, o->tokens, y, o->tokens,
               o->tokens);
    matmul_free(m), threads_pool_free(pool);
}
#endif

static void permission_is_asked_when_it_is_needed(void **state) {
    (void)state;
#ifdef GQ_HAVE_amx
    const kernels *k = kernels_level("amx");
    if (!k || may_use_tiles()) skip(); /* inherited, for one */
    operands o = operands_make(33, 96, 40, 0);
    for (int forbidden = 0; forbidden < 2; forbidden++) {
        pid_t child = fork();
        if (child == 0) {
            float *y = malloc(4 * o.rows * o.tokens);
            if (forbidden) forbid_asking();
            product_in(k, MATMUL_FLOAT32, &o, y);
            assert_false(may_use_tiles());
            product_in(k, MATMUL_BF16, &o, y);
            assert_int_equal(may_use_tiles(), !forbidden);
            same_bits(y, o.y, o.rows * o.tokens, "amx", forbidden ? "forbidden" : "permitted");
            free(y);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    operands_free(&o);
#else
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_tiles_are_done_without), /* first: permission cannot be handed back */
        cmocka_unit_test(permission_is_asked_when_it_is_needed),
        cmocka_unit_test(every_level_has_the_bits_of_tiles),
        cmocka_unit_test(numbers_that_are_none),
        cmocka_unit_test(products_do_not_depend_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
