/* The container reader; and what it accepts is written again, and read again as the same. */
#include <stdlib.h>
#include <string.h>

#include "gguf/gguf.h"
#include "gguf/model.h"
#include "tests/fuzz/fuzz.h"

static void look_at_values(const gguf_shard *s) {
    for (uint64_t i = 0; i < s->n_kv; i++) {
        const model_kv *kv = &s->kv[i];
        int64_t integer;
        double number;
        const char *text;
        uint64_t length, count;
        uint32_t type;
        const uint8_t *elements;
        PROMISE(model_kv_find(s->kv, s->n_kv, kv->key) == kv, "key %s is not found", kv->key);
        model_kv_int(kv, &integer), model_kv_float(kv, &number);
        if (model_kv_string(kv, &text, &length))
            PROMISE(!length || memchr(text, text[length - 1], length), "lost");
        if (model_kv_array(kv, &type, &count, &elements) && gguf_value_size(type))
            PROMISE(count <= kv->size / gguf_value_size(type), "%llu elements", (unsigned long long)count);
    }
}

static void write_again(const model_source *m) {
    gq_error e = {0};
    const gguf_shard *s = &gguf_container_of(m)->shards[0];
    gguf_header *h = gguf_header_new(&e);
    bool ok = h != NULL;
    for (uint64_t i = 0; ok && i < s->n_kv; i++) ok = gguf_header_copy(h, &s->kv[i], &e);
    for (uint64_t i = 0; ok && i < m->n_tensors; i++)
        ok = gguf_header_add_tensor(h, m->tensors[i]->name, m->tensors[i]->ne, m->tensors[i]->type, &e);
    const uint8_t *head;
    uint64_t header_size, data_size;
    PROMISE(ok && gguf_header_finish(h, &head, &header_size, &data_size, &e), "%s", e.text);
    /* Many tensors with an alignment of a mebibyte: the data may be larger than what was read. */
    if (data_size < 1 << 24) {
        uint8_t *bytes = calloc(1, header_size + data_size);
        memcpy(bytes, head, header_size);
        model_source again;
        PROMISE(gguf_model_memory(&again, "again", bytes, header_size + data_size, &e), "%s", e.text);
        PROMISE(again.n_tensors == m->n_tensors && gguf_container_of(&again)->shards[0].n_kv == s->n_kv,
                "something is lost");
        for (uint64_t i = 0; i < m->n_tensors; i++) {
            const model_tensor *a = m->tensors[i], *b = model_tensor_named(&again, a->name);
            PROMISE(b && !memcmp(a->ne, b->ne, sizeof a->ne) && a->type == b->type, "tensor %s", a->name);
        }
        model_close(&again);
        free(bytes);
    }
    gguf_header_free(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    model_source m;
    gq_error e = {0};
    if (!gguf_model_memory(&m, "input", bytes, n, &e)) {
        fuzz_check_error(&e);
        return 0;
    }
    for (uint64_t i = 0; i < m.n_tensors; i++) {
        const model_tensor *t = m.tensors[i];
        PROMISE(t->offset <= n && t->size <= n - t->offset, "tensor %s lies outside of the file", t->name);
        PROMISE(model_tensor_named(&m, t->name) == t, "tensor %s is not found", t->name);
    }
    look_at_values(&gguf_container_of(&m)->shards[0]);
    write_again(&m);
    model_close(&m);
    return 0;
}

void fuzz_seeds(const char *folder) {
    for (uint32_t id = 0; id < GGUF_TYPE_LIMIT; id++) {
        if (!tensor_type_of(id)) continue;
        size_t n;
        uint8_t *bytes = fuzz_model(tensor_type_of(id), 256, &n);
        fuzz_seed(folder, tensor_type_name(id), bytes, n);
        free(bytes);
    }
    static const uint8_t empty[24] = {'G', 'G', 'U', 'F', 2};
    fuzz_seed(folder, "empty-v2", empty, sizeof empty);
}
