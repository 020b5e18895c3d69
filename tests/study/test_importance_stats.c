/* Numbers per entry and layer, and coverage of a model. */
#include "quantize/quantize.h"

#include <math.h>

#include "tests/support/imatrix_files.h"

static void near(double got, double want) {
    if (!(fabs(got - want) <= 1e-6 * fmax(1, fabs(want)))) fail_msg("%.9g, expected %.9g", got, want);
}

/* Three layers of one role, one entry of experts, one outside of layers. */
static void read_model(imatrix *im) {
    static const float l0[4] = {3, 0, 0, 1}, l1[4] = {4, 0, 0, 0}, l10[4] = {0, 0, 2, 2};
    static const float experts[6] = {10, 20, 7, 7, 30, 60}, x_counts[3] = {10, 0, 10};
    static const float one[1] = {1}, two[1] = {2}, zero[2] = {0, 0};
    const piece pieces[] = {
        {"blk.0.attn_q.weight.in_sum2", {4, 1}, l0, 0},
        {"blk.0.attn_q.weight.counts", {1, 1}, one, 0},
        {"blk.1.attn_q.weight.in_sum2", {4, 1}, l1, 0},
        {"blk.1.attn_q.weight.counts", {1, 1}, two, 0},
        {"blk.10.attn_q.weight.in_sum2", {4, 1}, l10, 0},
        {"blk.10.attn_q.weight.counts", {1, 1}, one, 0},
        {"blk.1.up_exps.weight.in_sum2", {2, 3}, experts, 0},
        {"blk.1.up_exps.weight.counts", {1, 3}, x_counts, 0},
        {"blk.2.up_exps.weight.in_sum2", {2, 3}, experts, 0},
        {"blk.2.up_exps.weight.counts", {1, 3}, x_counts, 0},
        {"blk.3.up_exps.weight.in_sum2", {2, 1}, experts, 0},
        {"blk.3.up_exps.weight.counts", {1, 1}, two, 0},
        {"blk.2.dead.in_sum2", {4, 1}, (float[4]){0}, 0},
        {"blk.2.dead.counts", {1, 1}, one, 0},
        {"blk.2.unseen.in_sum2", {2, 1}, zero, 0},
        {"blk.2.unseen.counts", {1, 1}, zero, 0},
        {"output.weight.in_sum2", {1, 1}, two, 0},
        {"output.weight.counts", {1, 1}, one, 0},
        {"blk.1234567890.x.in_sum2", {1, 1}, two, 0},
        {"blk.1234567890.x.counts", {1, 1}, one, 0},
        {"blk.007.x.in_sum2", {1, 1}, two, 0},
        {"blk.007.x.counts", {1, 1}, one, 0},
        {"blk.x.in_sum2", {1, 1}, two, 0},
        {"blk.x.counts", {1, 1}, one, 0},
        {"blk.3x.in_sum2", {1, 1}, two, 0},
        {"blk.3x.counts", {1, 1}, one, 0},
    };
    read_good(im, container(pieces, sizeof pieces / sizeof *pieces, META_ALL, NULL, 0));
}

static const gq_imatrix_row *of(const gq_imatrix_row *stats, const imatrix *im, const char *name) {
    const imatrix_entry *x = imatrix_find(im, name);
    assert_non_null(x);
    const gq_imatrix_row *s = &stats[x - im->entries];
    assert_ptr_equal(s->name, x->name);
    return s;
}

TEST(entries) {
    imatrix im;
    gq_error e;
    read_model(&im);
    gq_imatrix_row stats[16];
    assert_true(im.n_entries <= 16);
    assert_true(importance_statistics(&im, stats, &e));

    const gq_imatrix_row *s = of(stats, &im, "blk.0.attn_q.weight"); /* 3 0 0 1 */
    assert_int_equal(s->layer, 0);
    assert_string_equal(s->role, "attn_q.weight");
    near(s->sum, 4), near(s->min, 0), near(s->max, 3), near(s->mean, 1);
    near(s->deviation, sqrt(6 / 4.)); /* 4 + 1 + 1 + 0 over 4 */
    near(s->active, 0.5);
    near(s->entropy, 0.75 * log2(4 / 3.) + 0.25 * 2);
    near(s->evenness, s->entropy / 2);
    near(s->outliers, 0.25);
    assert_true(isnan(s->cosine));

    s = of(stats, &im, "blk.1.attn_q.weight"); /* 2 0 0 0, against 3 0 0 1 */
    near(s->sum, 2), near(s->max, 2);
    near(s->entropy, 0);
    near(s->cosine, 3 / sqrt(10));
    assert_true(isnan(of(stats, &im, "blk.10.attn_q.weight")->cosine)); /* no layer 9 */

    s = of(stats, &im, "blk.1.up_exps.weight"); /* 1 2 - - 3 6: the expert nobody asked is left out */
    near(s->sum, 12), near(s->min, 1), near(s->mean, 3);
    assert_true(isnan(s->cosine));
    near(of(stats, &im, "blk.2.up_exps.weight")->cosine, 1);
    assert_true(isnan(of(stats, &im, "blk.3.up_exps.weight")->cosine)); /* another size */

    s = of(stats, &im, "blk.2.dead");
    near(s->sum, 0), near(s->active, 0), near(s->outliers, 0), near(s->deviation, 0);
    assert_true(isnan(s->entropy) && isnan(s->evenness));
    s = of(stats, &im, "blk.2.unseen");
    assert_true(isnan(s->sum) && isnan(s->min) && isnan(s->max) && isnan(s->mean) && isnan(s->deviation));

    s = of(stats, &im, "output.weight");
    assert_int_equal(s->layer, -1);
    assert_string_equal(s->role, "output.weight");
    near(s->entropy, 0);
    assert_true(isnan(s->evenness)); /* of one value */
    static const char *const odd[] = {"blk.1234567890.x", "blk.007.x", "blk.x", "blk.3x"};
    for (int i = 0; i < 4; i++) {
        s = of(stats, &im, odd[i]);
        assert_int_equal(s->layer, -1);
        assert_string_equal(s->role, odd[i]);
    }
    imatrix_free(&im);
}

TEST(coverage) {
    imatrix im;
    read_model(&im);
    gq_imatrix_cover c[] = {
        {.name = "blk.0.attn_q.weight", .columns = 4, .matrices = 1},
        {.name = "blk.1.attn_q.weight", .columns = 8, .matrices = 1},
        {.name = "blk.9.attn_q.weight", .columns = 4, .matrices = 1},
        {.name = "blk.1.up_exps.weight", .columns = 2, .matrices = 3},
        {.name = "blk.2.unseen", .columns = 2, .matrices = 1},
        {.name = "blk.10.attn_q.weight", .columns = 2, .matrices = 2},
    };
    bool used[16];
    importance_cover(&im, c, 6, used);
    assert_true(c[0].has_entry && c[0].fits && c[0].experts == 1 && c[0].experts_seen == 1 &&
                c[0].smallest_count == 1);
    assert_true(c[1].has_entry && !c[1].fits);
    assert_true(!c[2].has_entry && !c[2].fits && c[2].experts == 0);
    assert_true(c[3].fits && c[3].experts == 3 && c[3].experts_seen == 2 && c[3].smallest_count == 0);
    assert_true(c[4].fits && c[4].experts == 1 && c[4].experts_seen == 0);
    assert_true(c[5].fits && c[5].experts == 1);
    size_t n = 0;
    for (uint64_t i = 0; i < im.n_entries; i++) n += used[i];
    assert_int_equal(n, 5);
    assert_true(used[imatrix_find(&im, "blk.2.unseen") - im.entries]);
    assert_false(used[imatrix_find(&im, "output.weight") - im.entries]);
    imatrix_free(&im);
}

int main(void) { return tests_run(NULL, NULL); }
