/* Memory that runs out at any allocation of what looks into files, compares, verifies, merges, and of parts:
 * a clear error each time, and nothing left behind. (Leaks are found where the tests are built with
 * AddressSanitizer.) */
#include "tests/memory/memory.h"
#include "tests/support/folder.h"
#include "tests/support/imatrix_files.h"
#include "tests/support/model.h"

static size_t files;

FIXTURE(set_up) {
    folder = temporary_folder();
    model *m = model_llama(2);
    model_write(m, path("a.gguf"));
    model_add(m, "only.weight", GGUF_F32, (uint64_t[4]){32, 2}, NULL);
    model_save(m, path("in.gguf"));
    m = model_new("llama", 2);
    model_add(m, "blk.0.ffn_down.weight", GGUF_F16, (uint64_t[4]){256, 32}, NULL);
    model_add(m, "blk.1.attn_q.weight", GGUF_F16, (uint64_t[4]){256, 32}, NULL);
    model_save(m, path("small.gguf"));
    quantize(path("in.gguf"), path("b.gguf"), "Q4_0", 1);
    float *x = random_values(256, 1);
    for (int i = 0; i < 256; i++) x[i] *= x[i];
    blob b = {0};
    put32(&b, 2), put_entry(&b, "blk.1.attn_q.weight", 1, x, 256), put_entry(&b, "nobodys", 1, x, 256);
    put_trailer(&b, 1, "set");
    write_whole(path("matrix.dat"), b.bytes, b.n);
    free(b.bytes), free(x);
    files = count_files(folder);
    return 0;
}

static bool look(gq_error *e) {
    gq_model *m = gq_model_open(path("in.gguf"), e);
    gq_model_close(m);
    return m;
}

static gq_comparison *two(const char *a, const char *b, const char *matrix, gq_error *e) {
    const gq_comparison_request asked = {.size = sizeof asked,
                                         .base_model = a,
                                         .quants = (const char *const[]){b, a},
                                         .n_quants = 2,
                                         .imatrix = matrix,
                                         .threads = 1};
    return gq_compare(&asked, e);
}

static bool compare(gq_error *e) {
    gq_comparison *c = two(path("in.gguf"), path("b.gguf"), path("matrix.dat"), e);
    gq_comparison_free(c);
    return c;
}

/* With tensors that the others lack, each way, which are warned about. */
static bool compare_others(gq_error *e) {
    gq_comparison *c = two(path("a.gguf"), path("in.gguf"), NULL, e);
    gq_comparison_free(c);
    c = c ? two(path("in.gguf"), path("a.gguf"), NULL, e) : NULL;
    gq_comparison_free(c);
    return c;
}

static bool verify(gq_error *e) {
    static const gq_checksum expected[] = {{"absent", 0}, {"only.weight", 0}, {"also absent", 0}};
    gq_verification *v = gq_verify(path("b.gguf"), expected, 3, 1, NULL, e);
    gq_verification_free(v);
    return v;
}

static bool merge(gq_error *e) {
    gq_imatrix *a = gq_imatrix_open(path("matrix.dat"), e), *b = NULL;
    gq_imatrix_coverage *c = NULL;
    bool ok = a && (b = gq_imatrix_open(path("matrix.dat"), e)) &&
              (c = gq_imatrix_cover_model(a, path("in.gguf"), e)) && gq_imatrix_merge(a, b, e) &&
              gq_imatrix_write(a, path("out"), true, false, e);
    gq_imatrix_coverage_free(c);
    gq_imatrix_free(a), gq_imatrix_free(b);
    if (ok) unlink(path("out"));
    return ok;
}

static bool read_recipe(gq_error *e) {
    gq_recipe r;
    size_t n;
    static const char text[] = "a=Q8_0,b=Q4_0 c=F16 # no more";
    char *whole = gq_read_whole(path("matrix.dat"), 1 << 20, &n, e);
    bool ok = whole && gq_recipe_read(&r, "recipe", text, sizeof text - 1, e);
    if (ok) gq_recipe_free(&r);
    free(whole);
    return ok;
}

static bool run_for(const gq_output *out, const char *in, gq_options *o, gq_error *e) {
    o->input = in, o->outputs = out, o->n_outputs = 1, o->threads = 1, o->effort = GQ_EFFORT_DEFAULT;
    gq_plan *plan = gq_plan_new(o, e);
    bool done = plan && gq_run(plan, NULL, NULL, e);
    gq_plan_free(plan);
    return done;
}

static bool run(const char *in, gq_options *o, gq_error *e) {
    return run_for(&(gq_output){.path = path("out.gguf"), .filetype = "Q8_0"}, in, o, e);
}

/* Measurements that cannot be kept are no failure. */
static bool aim(gq_error *e) {
    unlink(path("small.gguf.gquant-measure"));
    const gq_output out = {.path = path("out.gguf"), .target.size = 12000};
    bool ok = run_for(&out, path("small.gguf"),
                      &(gq_options){.size = sizeof(gq_options), .imatrix = path("matrix.dat")}, e);
    unlink(path("out.gguf")), unlink(path("small.gguf.gquant-measure"));
    return ok;
}

/* What one part has done stays when another fails, and is used in the end. */
static bool make_parts(gq_error *e) {
    const char *in = path("in.gguf");
    return run(in, &(gq_options){.size = sizeof(gq_options), .part = 1, .parts = 2}, e) &&
           run(in, &(gq_options){.size = sizeof(gq_options), .part = 2, .parts = 2}, e) &&
           run(in, &(gq_options){.size = sizeof(gq_options), .join = true}, e) &&
           unlink(path("out.gguf")) == 0;
}

TEST(memory_runs_out) {
    static const struct {
        const char *name;
        bool (*work)(gq_error *e);
        bool resumes; /* what has been done before a failure is kept */
    } works[] = {
        {"look", look, false},     {"compare", compare, false}, {"compare others", compare_others, false},
        {"verify", verify, false}, {"merge", merge, false},     {"recipe", read_recipe, false},
        {"aim", aim, true},        {"parts", make_parts, true}};
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        bool reached = true;
        long failures = 0;
        for (long n = 1; reached; n++) {
            gq_error e = {.text = ""};
            fail_at = n;
            bool ok = works[i].work(&e);
            reached = fail_at == 0;
            fail_at = 0;
            if (!ok && !(reached && strstr(e.text, "memory")))
                fail_msg("%s, allocation %ld: '%s'", works[i].name, n, e.text);
            if ((ok || !works[i].resumes) && count_files(folder) != files)
                fail_msg("%s, allocation %ld: files are left: '%s'", works[i].name, n, e.text);
            failures += !ok;
        }
        if (failures < 5) fail_msg("%s: %ld failures", works[i].name, failures);
    }
}

int main(void) { return tests_run(set_up, folder_remove); }
