#include "tests/fuzz/importance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "imatrix/imatrix.h"
#include "quantize/quantize.h"
#include "tests/fuzz/fuzz.h"

/* Written in either layout it is read again, with as many entries. Names may be too long for the GGUF layout,
 * and numbers too large for a float when calls become tokens. */
static void write_again(const imatrix *im) {
    bool (*const writers[])(const imatrix *, uint8_t **, uint64_t *, gq_error *) = {imatrix_write_dat,
                                                                                    imatrix_write_gguf};
    for (int i = 0; i < 2; i++) {
        gq_error e = {0};
        uint8_t *bytes;
        uint64_t size;
        gq_file file;
        imatrix again;
        if (!writers[i](im, &bytes, &size, &e)) {
            fuzz_check_error(&e);
            continue;
        }
        PROMISE(gq_file_memory(&file, "again", bytes, size, bytes, &e), "%s", e.text);
        PROMISE(imatrix_read(&again, &file, &e), "layout %d: %s", i, e.text);
        /* the legacy layout leaves out what no token reached */
        PROMISE(i == 0 ? again.n_entries <= im->n_entries : again.n_entries == im->n_entries,
                "layout %d: %llu of %llu entries", i, (unsigned long long)again.n_entries,
                (unsigned long long)im->n_entries);
        imatrix_free(&again);
    }
}

static void normalise(const imatrix *im) {
    for (uint64_t i = 0; i < im->n_entries; i++) {
        const imatrix_entry *x = &im->entries[i];
        uint64_t columns = x->n_values / x->n_counts;
        float *out = malloc(columns * sizeof *out);
        for (uint64_t k = 0; k < x->n_counts; k++) {
            imatrix_column(x, k, columns, out);
            for (uint64_t c = 0; c < columns; c++)
                PROMISE(isfinite(out[c]) && out[c] >= 0, "entry %s, value %llu: %g", x->name,
                        (unsigned long long)(k * columns + c), (double)out[c]);
        }
        free(out);
    }
}

static void statistics(const imatrix *im) {
    gq_error e;
    gq_imatrix_row *stats = calloc(im->n_entries + 1, sizeof *stats);
    bool *used = calloc(im->n_entries + 1, sizeof *used);
    PROMISE(importance_statistics(im, stats, &e), "%s", e.text);
    gq_imatrix_cover weights[2] = {{.name = "blk.0.attn_v.weight", .columns = 256, .matrices = 1},
                                   {.name = "none", .columns = 1, .matrices = 1}};
    importance_cover(im, weights, 2, used);
    free(stats), free(used);
}

/* With itself, which fails only where sums grow beyond a float. Takes over the matrix. */
static void merge(imatrix *im, const uint8_t *bytes, size_t n) {
    gq_error e = {0};
    gq_file file;
    imatrix other;
    uint8_t *copy = fuzz_copy(bytes, n);
    PROMISE(gq_file_memory(&file, "other", copy, n, copy, &e) && imatrix_read(&other, &file, &e), "%s",
            e.text);
    if (imatrix_merge(im, &other, "other", &e))
        write_again(im);
    else
        fuzz_check_error(&e);
    imatrix_free(&other);
}

void fuzz_try_importance(unsigned char *bytes, unsigned long n) {
    gq_error e = {0};
    gq_file file;
    imatrix im;
    uint8_t *copy = fuzz_copy(bytes, n);
    PROMISE(gq_file_memory(&file, "input", copy, n, copy, &e), "%s", e.text);
    if (!imatrix_read(&im, &file, &e)) {
        fuzz_check_error(&e);
    } else {
        if (!imatrix_check(&im, "input", &e)) {
            fuzz_check_error(&e);
        } else {
            normalise(&im);
            statistics(&im);
            write_again(&im);
            merge(&im, bytes, n);
        }
        imatrix_free(&im);
    }
    free(bytes);
}
