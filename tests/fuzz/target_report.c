/* Reports that verify reads: what is accepted has names and checksums, and any name survives being written.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "cli/report/report.h"
#include "tests/fuzz/fuzz.h"

static void write_and_read(const uint8_t *bytes, size_t n) {
    char *text = NULL;
    size_t written;
    gq_error e;
    FILE *to = open_memstream(&text, &written);
    json_writer j = json_start(to, '[');
    n = strnlen((const char *)bytes, n); /* a name has no NUL, and readers of JSON refuse it */
    json_put_bytes(&j, NULL, (const char *)bytes, n);
    json_end(&j), fclose(to);
    json_t *list = json_read(text, written, "what was written", &e);
    PROMISE(list, "%s", e.text);
    char *back = json_bytes_of(json_array_get(list, 0));
    PROMISE(memcmp(back, bytes, n) == 0 && back[n] == 0, "a name of %zu bytes comes back as another", n);
    free(back), free(text);
    json_decref(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    checksum_list list;
    gq_error e = {0};
    if (checksums_parse(&list, (const char *)bytes, n, "r.json", "model.gguf", n % 2, &e)) {
        for (size_t i = 0; i < list.n; i++) PROMISE(list.items[i].name, "checksum %zu has no name", i);
    } else {
        fuzz_check_error(&e);
    }
    checksums_free(&list);
    write_and_read(bytes, n);
    return 0;
}

void fuzz_seeds(const char *folder) {
    static const char *const texts[] = {
        "{\"outputs\":[{\"path\":\"a/"
        "model.gguf\",\"tensors\":[{\"name\":\"x\\ueFfF\\n\",\"crc32\":\"00ff00ff\"}]}]}",
        "{\"a\":[1,-2.5e3,true,null,{\"b\":[]}],\"outputs\":[{\"path\":\"p\"},{\"path\":\"model.gguf\","
        "\"tensors\":["
        "{\"name\":\"\\ud83e\\udd99\",\"crc32\":\"12345678\"}]}]}",
        "[[[[[[[[{}]]]]]]]]",
        "a\xee\xbe\x80\xff\xed\xa0\x80\xf0\x9f\xa6\x99",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        fuzz_seed(folder, (char[]){(char)('a' + i), 0}, texts[i], strlen(texts[i]));
}
