/* hf_metadata FOLDER OUT [TARGET]: writes a GGUF file of the pairs that a folder's tokenizer becomes, for
 * tests/hf/hf_golden. */
#include <stdio.h>
#include <stdlib.h>

#include "gguf/gguf.h"
#include "hf/folder/folder.h"
#include "hf/tokenizer/tokenizer.h"

static bool metadata_write(const hf_metadata *metadata, const char *path, gq_error *e) {
    gguf_header *h = gguf_header_new(e);
    const uint8_t *bytes;
    uint64_t n, data;
    bool ok = h != NULL;
    for (size_t i = 0; ok && i < metadata->n; i++) ok = gguf_header_copy(h, &metadata->kv[i], e);
    ok = ok && gguf_header_finish(h, &bytes, &n, &data, e);
    FILE *f = ok ? fopen(path, "wb") : NULL;
    ok = f && fwrite(bytes, 1, n, f) == n;
    if (f) ok = fclose(f) == 0 && ok;
    gguf_header_free(h);
    return ok;
}

int main(int argc, char **argv) {
    hf_folder f = {.path = NULL};
    hf_config c = {.file = NULL};
    hf_metadata metadata = {.prefix = NULL};
    gq_error e = {.text = "cannot write"};
    char *unknown = NULL;
    uint64_t n;
    hf_target t = {.folder = {.path = NULL}};
    if (argc < 3) return 2;
    bool ok = hf_folder_open(&f, argv[1], &e) && hf_config_read(&c, &f, &e) &&
              hf_target_open(&t, argv[3], &c, &e) &&
              hf_tokenizer_metadata(c.target ? &t.folder : &f, c.target ? &t.tokens : &c, &metadata, &n,
                                    &unknown, &e) &&
              metadata_write(&metadata, argv[2], &e);
    if (!ok) fprintf(stderr, "%s\n", e.text);
    if (unknown) fprintf(stderr, "%s\n", unknown);
    free(unknown);
    hf_metadata_free(&metadata), hf_config_free(&c), hf_target_close(&t), hf_folder_close(&f);
    return !ok;
}
