// eagle_peer TARGET DRAFT IDS WINDOW: what llama.cpp's library drafts by an EAGLE-3 file behind each window of a text of 16-bit ids. Per window a line
// "piece", the draft's first choices from the window's half on, of which the last is the draft's first token, and the 3 tokens that follow it. The draft
// gets its states as llama.cpp's own programs give them. Built by tests/make_draft_golden.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "ggml-backend.h"
#include "llama.h"
#include "llama-ext.h"

enum { DRAFTED = 4 };

static void fail(const char *what) {
    printf("cannot: %s\n", what);
    exit(0);
}

static llama_context *context_of(llama_model *m, uint32_t window, llama_context *other) {
    llama_context_params p = llama_context_default_params();
    p.n_ctx = p.n_batch = p.n_ubatch = window > 64 ? window : 64;
    p.n_threads = p.n_threads_batch = 1;
    p.type_k = p.type_v = GGML_TYPE_F32;
    p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    p.ctx_other = other;
    llama_context *c = llama_init_from_model(m, p);
    if (!c) fail("it makes no context");
    return c;
}

// Runs n entries from position `first` on: tokens (NULL: none), and states of `width` floats each (NULL: none).
static void run(llama_context *c, llama_process_type type, const int32_t *ids, const float *states, int width, int first, int n) {
    llama_batch_ext *b = llama_batch_ext_init(c);
    for (int i = 0; i < n; i++) {
        llama_embd state = {const_cast<float *>(states ? states + (size_t)i * width : nullptr), 1, (size_t)width};
        int at = ids ? llama_batch_ext_add_token(b, 0, ids[i]) : llama_batch_ext_add_embd(b, 0, state);
        llama_pos pos[4] = {first + i, first + i, first + i, 0};
        if (at < 0) fail("it takes no entry");
        llama_batch_ext_set_pos(b, at, pos);
        if (ids && states && !llama_batch_ext_set_embd_token(b, at, state)) fail("it takes no state");
        llama_batch_ext_set_output_logits(b, at, true);
    }
    if (llama_process(c, type, b) != 0) fail("it does not run");
    llama_batch_ext_free(b);
}

static int32_t best(llama_context *c, int i, int words) {
    const float *z = llama_get_logits_ith(c, i);
    int32_t most = 0;
    for (int v = 1; v < words; v++)
        if (z[v] > z[most]) most = v;
    return most;
}

int main(int argc, char **argv) {
    if (argc != 5) return fprintf(stderr, "usage: eagle_peer TARGET DRAFT IDS WINDOW\n"), 2;
    std::vector<uint16_t> ids(1 << 20);
    FILE *f = fopen(argv[3], "rb");
    ids.resize(f ? fread(ids.data(), 2, ids.size(), f) : 0);
    int window = atoi(argv[4]);
    llama_log_set([](ggml_log_level level, const char *text, void *) { if (level >= GGML_LOG_LEVEL_ERROR) fputs(text, stderr); }, nullptr);
    llama_backend_init();
    llama_model *target = llama_model_load_from_file(argv[1], llama_model_default_params()),
                *draft = llama_model_load_from_file(argv[2], llama_model_default_params());
    if (!target || !draft) fail("it does not load the models");
    llama_context *t = context_of(target, window, nullptr), *d = context_of(draft, window + DRAFTED, t);
    int words = llama_vocab_n_tokens(llama_model_get_vocab(target)), width = llama_model_n_embd(target), own = llama_model_n_embd(draft);
    const int32_t *layers = llama_model_target_layer_ids(draft);
    int n_layers = (int)llama_model_target_layer_ids_n(draft);
    for (int k = 0; k < n_layers; k++) llama_set_embeddings_layer_inp(t, (uint32_t)layers[k], true);
    llama_set_embeddings_nextn(d, true, true);
    for (size_t first = 0; first + window <= ids.size(); first += window) {
        std::vector<int32_t> text(ids.begin() + first, ids.begin() + first + window);
        llama_memory_clear(llama_get_memory(t), true);
        llama_memory_clear(llama_get_memory(d), true);
        run(t, LLAMA_PROCESS_TYPE_DECODE, text.data(), nullptr, 0, 0, window);
        std::vector<float> states((size_t)window * n_layers * width), g((size_t)window * own);
        for (int k = 0; k < n_layers; k++) {
            const float *x = llama_get_embeddings_layer_inp(t, (uint32_t)layers[k]);
            if (!x) fail("it gives no states");
            for (int i = 0; i < window; i++)
                memcpy(&states[((size_t)i * n_layers + k) * width], x + (size_t)i * width, width * sizeof *x);
        }
        run(d, LLAMA_PROCESS_TYPE_ENCODE, nullptr, states.data(), n_layers * width, 0, window);
        memcpy(g.data(), llama_get_embeddings_nextn(d), g.size() * sizeof(float));
        // Position p: the state of p, and the token of p + 1.
        run(d, LLAMA_PROCESS_TYPE_DECODE, text.data() + 1, g.data(), own, 0, window - 1);
        printf("piece");
        int32_t token = 0;
        for (int i = window / 2 - 2; i < window - 1; i++) printf(" %d", token = best(d, i, words));
        std::vector<float> state(llama_get_embeddings_nextn_ith(d, window - 2), llama_get_embeddings_nextn_ith(d, window - 2) + own);
        for (int k = 1; k < DRAFTED; k++) {
            run(d, LLAMA_PROCESS_TYPE_DECODE, &token, state.data(), own, window - 2 + k, 1);
            printf(" %d", token = best(d, 0, words));
            state.assign(llama_get_embeddings_nextn_ith(d, 0), llama_get_embeddings_nextn_ith(d, 0) + own);
        }
        printf("\n");
    }
    return 0;
}
