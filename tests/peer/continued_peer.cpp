// continued_peer TARGET DRAFT IDS WINDOW: what llama.cpp's library drafts by a file that continues a target's states, behind each window of a text of
// 16-bit ids. Per window a line "piece", the draft's first choices from the window's half on, of which the last is the draft's first token, and the tokens
// that follow it. The draft gets its states as llama.cpp's own programs give them. Built by tests/peer/make_draft_golden.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
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
static void run(llama_context *c, llama_process_type type, const int32_t *ids, const float *states, int width, int first, int n, bool output = true) {
    llama_batch_ext *b = llama_batch_ext_init(c);
    for (int i = 0; i < n; i++) {
        llama_embd state = {const_cast<float *>(states ? states + (size_t)i * width : nullptr), 1, (size_t)width};
        int at = ids ? llama_batch_ext_add_token(b, 0, ids[i]) : llama_batch_ext_add_embd(b, 0, state);
        llama_pos pos[4] = {first + i, first + i, first + i, 0};
        if (at < 0) fail("it takes no entry");
        llama_batch_ext_set_pos(b, at, pos);
        if (ids && states && !llama_batch_ext_set_embd_token(b, at, state)) fail("it takes no state");
        llama_batch_ext_set_output_logits(b, at, output);
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

static std::string meta(const llama_model *m, const char *key, const char *absent) {
    char text[64];
    return llama_model_meta_val_str(m, key, text, sizeof text) < 0 ? absent : text;
}

typedef struct peer {
    llama_model *target, *draft;
    llama_context *t, *d;
    int words, width, own, window;
} peer;

// The states before the draft's layers of the target, of all tokens of a window that was run: [token][layer][width].
static std::vector<float> states_of(const peer &p) {
    const int32_t *layers = llama_model_target_layer_ids(p.draft);
    int n = (int)llama_model_target_layer_ids_n(p.draft);
    std::vector<float> states((size_t)p.window * n * p.width);
    for (int k = 0; k < n; k++) {
        const float *x = llama_get_embeddings_layer_inp(p.t, (uint32_t)layers[k]);
        if (!x) fail("it gives no states");
        for (int i = 0; i < p.window; i++)
            memcpy(&states[((size_t)i * n + k) * p.width], x + (size_t)i * p.width, p.width * sizeof *x);
    }
    return states;
}

static void eagle(const peer &p, const std::vector<int32_t> &text) {
    std::vector<float> states = states_of(p), g((size_t)p.window * p.own);
    int n = (int)(states.size() / p.window);
    run(p.d, LLAMA_PROCESS_TYPE_ENCODE, nullptr, states.data(), n, 0, p.window);
    memcpy(g.data(), llama_get_embeddings_nextn(p.d), g.size() * sizeof(float));
    // Position p: the state of p, and the token of p + 1.
    run(p.d, LLAMA_PROCESS_TYPE_DECODE, text.data() + 1, g.data(), p.own, 0, p.window - 1);
    int32_t token = 0;
    for (int i = p.window / 2 - 2; i < p.window - 1; i++) printf(" %d", token = best(p.d, i, p.words));
    const float *left = llama_get_embeddings_nextn_ith(p.d, p.window - 2);
    std::vector<float> state(left, left + p.own);
    for (int k = 1; k < DRAFTED; k++) {
        run(p.d, LLAMA_PROCESS_TYPE_DECODE, &token, state.data(), p.own, p.window - 2 + k, 1);
        printf(" %d", token = best(p.d, 0, p.words));
        state.assign(llama_get_embeddings_nextn_ith(p.d, 0), llama_get_embeddings_nextn_ith(p.d, 0) + p.own);
    }
}

static void dflash(const peer &p, const std::vector<int32_t> &text) {
    bool is_dspark = meta(p.draft, "dflash.has_markov", "false") == "true", at_once = is_dspark && meta(p.draft, "dflash.sample_from_anchor", "true") == "true";
    int block = atoi(meta(p.draft, "dflash.block_size", "16").c_str()), mask = atoi(meta(p.draft, "tokenizer.ggml.mask_token_id", "0").c_str());
    int drafted = DRAFTED < block - !at_once ? DRAFTED : block - !at_once, tokens = drafted + !at_once;
    int top = llama_model_dflash_selector_top_k(p.draft);
    std::vector<float> states = states_of(p);
    int n = (int)(states.size() / p.window), held = 0;
    for (int next = p.window / 2; next <= p.window; next++) { // the token that is predicted; its block begins at the one before
        run(p.d, LLAMA_PROCESS_TYPE_DECODE, nullptr, states.data() + (size_t)held * n, n, held, next - 1 - held, false);
        held = next - 1;
        std::vector<int32_t> ids(tokens, mask);
        ids[0] = text[next - 1];
        run(p.d, LLAMA_PROCESS_TYPE_DECODE, ids.data(), nullptr, 0, held, tokens, !top);
        const float *lattice = top ? llama_get_embeddings_nextn(p.d) : nullptr;
        for (int i = 0, before = 0; i < (next < p.window ? 1 : drafted); i++) {
            if (!top) {
                printf(" %d", best(p.d, i + !at_once, p.words));
                continue;
            }
            const float *row = lattice + (size_t)(i + 1) * p.own, *scores = row + top + (size_t)before * top;
            before = 0;
            for (int k = 1; k < top; k++)
                if (scores[k] > scores[before]) before = k;
            printf(" %d", (int)row[before]);
        }
        llama_memory_seq_rm(llama_get_memory(p.d), 0, held, -1);
    }
}

// The target is run up to what is drafted behind, as the draft sees its keys.
static void assistant(const peer &p, const std::vector<int32_t> &text) {
    int held = 0;
    for (int next = p.window / 2; next <= p.window; next++) {
        run(p.t, LLAMA_PROCESS_TYPE_DECODE, text.data() + held, nullptr, 0, held, next - 1 - held);
        const float *h = llama_get_embeddings_nextn_ith(p.t, next - 2 - held);
        if (!h) fail("it gives no states");
        std::vector<float> state(h, h + p.width);
        held = next - 1;
        int32_t token = text[next - 1];
        for (int k = 0; k < (next < p.window ? 1 : DRAFTED); k++) {
            run(p.d, LLAMA_PROCESS_TYPE_DECODE, &token, state.data(), p.width, next - 1, 1);
            printf(" %d", token = best(p.d, 0, p.words));
            const float *left = llama_get_embeddings_nextn_ith(p.d, 0);
            state.assign(left, left + p.width);
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 5) return fprintf(stderr, "usage: continued_peer TARGET DRAFT IDS WINDOW\n"), 2;
    std::vector<uint16_t> ids(1 << 20);
    FILE *f = fopen(argv[3], "rb");
    ids.resize(f ? fread(ids.data(), 2, ids.size(), f) : 0);
    peer p = {};
    p.window = atoi(argv[4]);
    llama_log_set([](ggml_log_level level, const char *text, void *) { if (level >= GGML_LOG_LEVEL_ERROR) fputs(text, stderr); }, nullptr);
    llama_backend_init();
    p.target = llama_model_load_from_file(argv[1], llama_model_default_params());
    p.draft = llama_model_load_from_file(argv[2], llama_model_default_params());
    if (!p.target || !p.draft) fail("it does not load the models");
    p.t = context_of(p.target, p.window, nullptr), p.d = context_of(p.draft, p.window + DRAFTED, p.t);
    p.words = llama_vocab_n_tokens(llama_model_get_vocab(p.target)), p.width = llama_model_n_embd(p.target), p.own = llama_model_n_embd(p.draft);
    std::string arch = meta(p.draft, "general.architecture", "");
    bool is_assistant = arch == "gemma4-assistant", is_dflash = arch == "dflash";
    if (is_assistant) llama_set_embeddings_nextn(p.t, true, false);
    for (uint32_t k = 0; !is_assistant && k < llama_model_target_layer_ids_n(p.draft); k++)
        llama_set_embeddings_layer_inp(p.t, (uint32_t)llama_model_target_layer_ids(p.draft)[k], true);
    llama_set_embeddings_nextn(p.d, true, !is_dflash || !llama_model_dflash_selector_top_k(p.draft));
    if (is_dflash) llama_set_causal_attn(p.d, meta(p.draft, "dflash.attention.causal", "false") == "true");
    for (size_t first = 0; first + p.window <= ids.size(); first += p.window) {
        std::vector<int32_t> text(ids.begin() + first, ids.begin() + first + p.window);
        llama_memory_clear(llama_get_memory(p.t), true);
        if (!is_assistant) llama_memory_clear(llama_get_memory(p.d), true);
        if (!is_assistant) run(p.t, LLAMA_PROCESS_TYPE_DECODE, text.data(), nullptr, 0, 0, p.window);
        printf("piece");
        (is_assistant ? assistant : is_dflash ? dflash : eagle)(p, text);
        printf("\n");
    }
    return 0;
}
