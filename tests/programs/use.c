/* A program of somebody else's, for tests/install and tests/clean-root: a model from an array, quantized and
 * read again. use FOLDER */
#include <gquant.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 8, COLUMNS = 256 };
static float x[ROWS * COLUMNS], read_again[ROWS * COLUMNS], decoded[ROWS * COLUMNS];
static unsigned char blocks[ROWS * 144];
static gq_error e;

static int make(const char *path) {
    const gq_value llama = {.kind = GQ_TEXT, .text = "llama", .length = 5},
                   part = {.kind = GQ_TEXT, .text = "part", .length = 4};
    const uint64_t ne[] = {COLUMNS, ROWS};
    gq_draft *d = gq_draft_new(&e);
    int ok = d && gq_draft_set(d, "general.architecture", "string", false, &llama, 1, &e) &&
             gq_draft_set(d, "general.type", "string", false, &part, 1, &e) &&
             gq_draft_add(d, "blk.0.ffn_up.weight", 2, ne, 0, x, sizeof x, &e) &&
             gq_draft_write(d, path, true, &e);
    gq_draft_free(d);
    return ok;
}

static int quantize(const char *from, const char *to) {
    const gq_output out = {.path = to, .filetype = "Q4_K_S"};
    const gq_options options = {
        .size = sizeof options, .input = from, .outputs = &out, .n_outputs = 1, .force = true};
    gq_plan *plan = gq_plan_new(&options, &e);
    int ok = plan && gq_run(plan, NULL, NULL, &e);
    gq_plan_free(plan);
    return ok;
}

static int compare(const char *path) {
    int type = gq_type_find("Q4_K");
    gq_model *m = gq_model_open(path, &e);
    int ok = m && gq_model_read(m, 0, 0, ROWS * COLUMNS, read_again, &e) &&
             gq_encode((uint32_t)type, ROWS, COLUMNS, x, NULL, blocks, sizeof blocks, NULL, &e) &&
             gq_decode((uint32_t)type, ROWS, COLUMNS, blocks, sizeof blocks, decoded, 1, &e);
    gq_model_close(m);
    return ok && !memcmp(decoded, read_again, sizeof decoded) && decoded[1] != x[1];
}

int main(int argc, char **argv) {
    char from[1000], to[1000];
    if (argc < 2) return 2;
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)(i * 37 % 101) - 50;
    snprintf(from, sizeof from, "%s/from.gguf", argv[1]), snprintf(to, sizeof to, "%s/to.gguf", argv[1]);
    if (quantize("/nowhere", to) || !strstr(e.text, "/nowhere")) return 1; /* a sentence, not an end */
    if (make(from) && quantize(from, to) && compare(to)) return 0;
    fprintf(stderr, "%s\n", e.text);
    return 1;
}
