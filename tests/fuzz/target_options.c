/* Command lines, one word per line of the input, and what is asked for planned on a small model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/options/options.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_WORDS = 64 };

static const char *model_path(void) {
    static char path[300];
    if (*path) return path;
    size_t n;
    uint8_t *bytes = fuzz_model(tensor_type_of(GGUF_F16), 32, &n);
    snprintf(path, sizeof path, "%s/model-F16.gguf", fuzz_folder());
    fuzz_write(path, bytes, n);
    free(bytes);
    if (chdir(fuzz_folder()) != 0) abort();
    return path;
}

static void plan(request *r) {
    gq_error e = {0};
    r->quantize.input = model_path();
    gq_plan *p = gq_plan_new(&r->quantize, &e);
    if (!p) {
        fuzz_check_error(&e);
        return;
    }
    for (size_t o = 0; o < gq_plan_outputs(p); o++) {
        size_t n;
        const gq_tensor *t = gq_plan_tensors(p, o, &n);
        for (size_t i = 0; i < n; i++) PROMISE(gq_type_name(t[i].to), "tensor %s has no type", t[i].name);
    }
    gq_plan_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    char *words[MAX_WORDS + 2] = {"gquant"};
    int count = 1;
    model_path(); /* changes into the folder */
    /* No other folder's files: what they hold is no part of the input. */
    if (n > 2048 || memchr(bytes, '/', n)) return -1;
    char *text = (char *)fuzz_copy(bytes, n), *rest = text;
    text = realloc(text, n + 1), rest = text;
    text[n] = 0;
    for (char *word; count <= MAX_WORDS && (word = strsep(&rest, "\n"));) words[count++] = word;
    request r;
    gq_error e = {0};
    if (!request_parse(&r, count, words, &e))
        fuzz_check_error(&e);
    else if (r.command == CMD_QUANTIZE && !r.help && !r.version)
        plan(&r);
    request_free(&r);
    free(text);
    return 0;
}

void fuzz_seeds(const char *folder) {
    static const char *const lines[] = {
        "in.gguf\nQ4_K_M",
        "--pure\nin.gguf\nout.gguf\nq8_0\n2\n--output-tensor-type\nQ6_K\n--token-embedding-type=f16",
        "--tensor-type\nattn_v=Q8_0,ffn.*=q5_k\n--tensor-type\n^blk=Q4_0\nin.gguf\n7\n--transpose\nffn_(up|"
        "gate)\n--keep\nnorm|embd",
        "--override-kv\nllama.block_count=int:-3\n--override-kv=a.b=float:1e3\n--override-kv\nc=str:x\n--"
        "override-kv\n"
        "d=bool:true\nin\nout\nQ2_K",
        "--prune-layers\n0,1\nin.gguf\nQ3_K_S\n--effort\nbest\n--strict",
        "in.gguf\na.gguf=Q4_K_M\nb.gguf=Q8_0\n--include-weights\nattn\n--force\n--verbose",
        "in.gguf\nQ6_K\n--split-max-size\n40K\n--part\n1/3\n-t\n4\n-n\n-r\nreport.json",
        "--keep-split\n--join\nin.gguf\nout\nCOPY\n--leave-output-tensor\n--allow-requantize",
        "types\n-q",
        "completion\nbash",
        "--tensr-type\n--help\n--\n-x",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        fuzz_seed(folder, (char[]){(char)('a' + i), 0}, lines[i], strlen(lines[i]));
}
