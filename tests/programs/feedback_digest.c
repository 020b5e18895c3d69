/* feedback-digest: one line per type and arithmetic with a digest of rows that are rounded with error
 * feedback, target and descent, by a level that fuses, to compare kinds of CPUs by. Exits with 77 where the
 * CPU's best level does not fuse. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "codec/feedback.h"
#include "tests/support/numbers.h"

enum { COLUMNS = 512, STRIPS = 2, ROWS = 21, TILE = STRIP_COLUMNS * STRIP_COLUMNS };
static float w[ROWS * COLUMNS], root[3 * TILE], diagonal[STRIPS * TILE], difference[STRIPS * STRIPS * TILE];
static uint8_t blocks[ROWS * COLUMNS * 4];

/* What digests need is that all of it is used, not that it is anyone's Hessians: the diagonal's tiles are not
 * even those of the root. */
static void make_moments(void) {
    fill_normal(w, ROWS * COLUMNS, 0.05f), fill_normal(root, 3 * TILE, 0.05f);
    fill_normal(diagonal, STRIPS * TILE, 0.01f), fill_normal(difference, STRIPS * STRIPS * TILE, 0.01f);
    for (size_t i = 0; i < COLUMNS; i++) {
        size_t strip = i / STRIP_COLUMNS, in_strip = i % STRIP_COLUMNS;
        float *row = root + feedback_triangle(strip) + i * STRIP_COLUMNS;
        for (size_t j = 0; j < in_strip; j++) row[j] = 0;
        row[in_strip] = 1 + 0.3f * random_uniform();
        diagonal[strip * TILE + in_strip * STRIP_COLUMNS + in_strip] = 1;
    }
}

static bool print_digests(const kernels *k, const feedback_hessian *m) {
    for (uint32_t id = 0; id < GGUF_TYPE_LIMIT; id++) {
        const tensor_type *type = tensor_type_of(id);
        if (!type || !k->codecs[id].columnwise) continue;
        feedback_task t = {k, id, EFFORT_FAST, 1, m, 1, COLUMNS, NULL, 0, 0, NULL, NULL, 2, NULL, NULL, NULL};
        feedback_sums sums = {0};
        uint64_t digest = 0xcbf29ce484222325;
        t.scratch = memory_lines(1, feedback_bytes(k, id, COLUMNS, m->arithmetic), NULL);
        if (!t.scratch) return false;
        codec_feedback(&t, w, ROWS, blocks, &sums);
        free(t.scratch);
        for (size_t i = 0; i < ROWS * gguf_row_bytes(type, COLUMNS); i++)
            digest = (digest ^ blocks[i]) * 0x100000001b3;
        printf("%s%s: %016llx, %llu of %llu at the ends\n", type->name,
               m->arithmetic == MATMUL_BF16 ? " in bf16" : "", (unsigned long long)digest,
               (unsigned long long)sums.clipped, (unsigned long long)sums.codes);
    }
    return true;
}

int main(void) {
    const kernels *k = kernels_select();
    if (!k || !strcmp(kernels_name(k), "x86-64-v2") || !strcmp(kernels_name(k), "generic")) return 77;
    feedback_hessian m = {COLUMNS, root, diagonal, difference, 0.5f, NULL, MATMUL_FLOAT32};
    make_moments();
    if (!print_digests(k, &m)) return 1;
    for (size_t i = 0; i < STRIPS; i++) feedback_round_strip(&m, i);
    m.arithmetic = MATMUL_BF16;
    return !print_digests(k, &m);
}
