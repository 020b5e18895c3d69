#include "tests/support/plans.h"

void write_llama(const char *to, uint32_t blocks) { model_save(model_llama(blocks), to); }

gq_options options_for(const char *in, const gq_output *out) {
    return (gq_options){
        .size = sizeof(gq_options), .input = in, .outputs = out, .n_outputs = 1, .effort = GQ_EFFORT_DEFAULT};
}

void must_refuse(const gq_options *options, gq_status status, const char *says) {
    gq_error e;
    gq_plan *plan = gq_plan_new(options, &e);
    if (plan) fail_msg("planned, without '%s'", says);
    assert_int_equal(e.status, status);
    if (!strstr(e.text, says)) fail_msg("'%s' lacks '%s'", e.text, says);
}

void write_bytes(FILE *f, const void *bytes, size_t n) { assert_int_equal(fwrite(bytes, 1, n, f), n); }
void write_int(FILE *f, int32_t n) { write_bytes(f, &n, 4); }

void write_entry(FILE *f, const char *name, int32_t calls, int32_t n, float scale) {
    float *x = random_values((uint64_t)n, (uint64_t)name[4] + 1);
    for (int32_t i = 0; i < n; i++) x[i] = x[i] * x[i] * scale * (float)calls;
    write_int(f, (int32_t)strlen(name));
    write_bytes(f, name, strlen(name));
    write_int(f, calls), write_int(f, n);
    write_bytes(f, x, 4 * (size_t)n);
    free(x);
}

void write_importance(const char *to, uint32_t blocks) {
    char name[64];
    FILE *f = fopen(to, "wb");
    write_int(f, (int32_t)(2 * blocks));
    for (uint32_t b = 0; b < blocks; b++) {
        snprintf(name, sizeof name, "blk.%u.attn_q.weight", b);
        write_entry(f, name, 3, 256, 1);
        snprintf(name, sizeof name, "blk.%u.ffn_down.weight", b);
        write_entry(f, name, 3, 512, 1);
    }
    write_int(f, 40), write_int(f, 9), write_bytes(f, "calib.txt", 9);
    fclose(f);
}
