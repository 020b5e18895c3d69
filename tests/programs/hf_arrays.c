/* hf_arrays FOLDER TOKENS OUT [TARGET]: what a folder's arrays become, for tests/hf/hf_golden. Prints a line
 * per tensor (name, dimensions, type, whether it stays F32 in every file, bytes) and writes their elements to
 * OUT, one behind the other: MXFP4, I32 and I64 as they are, all others as floats. They are read in pieces of
 * odd sizes, other ones for each tensor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf/folder/folder.h"
#include "hf/metadata/metadata.h"
#include "hf/sources/sources.h"
#include "hf/tensors/tensors.h"

/* Turns n elements of a type into floats, in place from behind. */
static void widen(uint8_t *bytes, const tensor_type *type, uint64_t n) {
    for (uint64_t i = n; type->id != GGUF_F32 && i-- > 0;) {
        uint16_t h;
        memcpy(&h, bytes + 2 * i, 2);
        float x = type->id == GGUF_F16 ? number_from_f16(h) : number_from_bf16(h);
        memcpy(bytes + 4 * i, &x, 4);
    }
}

static bool tensor_write(const hf_tensor *t, uint64_t step, FILE *out, gq_error *e) {
    const model_tensor *m = &t->tensor;
    bool is_plain = m->type->quantized || m->type->id == GGUF_I32 || m->type->id == GGUF_I64;
    uint64_t n = m->ne[0] * m->ne[1] * m->ne[2] * m->ne[3], size = is_plain ? m->size : 4 * n;
    uint8_t *bytes = malloc(size + 4);
    bool ok = bytes != NULL;
    for (uint64_t at = 0, some; ok && at < n; at += some) {
        some = n - at < step ? n - at : step;
        ok = hf_tensor_read(t, at, some, bytes + model_bytes(m, at), e);
    }
    if (ok && !is_plain) widen(bytes, m->type, n);
    if (ok) fwrite(bytes, 1, size, out);
    printf("%s\t%llux%llux%llux%llu\t%s\t%d\t%llu\n", m->name, (unsigned long long)m->ne[0],
           (unsigned long long)m->ne[1], (unsigned long long)m->ne[2], (unsigned long long)m->ne[3],
           m->type->name, m->stays, (unsigned long long)size);
    free(bytes);
    return ok;
}

int main(int argc, char **argv) {
    gq_error e = {.text = ""};
    hf_folder f = {.path = NULL};
    hf_config c = {.file = NULL};
    hf_list l = {.folder = NULL};
    hf_build b = {.config = NULL};
    hf_target t = {.folder = {.path = NULL}};
    FILE *out = argc >= 4 ? fopen(argv[3], "wb") : NULL;
    bool ok = out && hf_folder_open(&f, argv[1], &e) && hf_config_read(&c, &f, &e) &&
              hf_target_open(&t, argv[4], &c, &e) && hf_list_read(&l, &f, &e) && hf_modules_add(&l, &c, &e) &&
              hf_mtp_find(&c, &l, &e) && hf_build_tensors(&b, &c, &l, strtoull(argv[2], NULL, 10), &e);
    for (size_t i = 0; ok && i < b.n; i++) {
        uint64_t block = b.tensors[i].tensor.type->block_elements;
        ok = tensor_write(&b.tensors[i], block * (block > 1 ? 7 + i : 1000 + 37 * i), out, &e);
    }
    if (!ok) fprintf(stderr, "%s\n", e.text);
    if (out) fclose(out);
    hf_build_free(&b), hf_list_free(&l), hf_config_free(&c), hf_target_close(&t), hf_folder_close(&f);
    return ok ? 0 : 1;
}
