// draft_peer MODEL IDS WINDOW: what llama.cpp's library makes of a model's prediction blocks, each by itself, for windows of a text of 16-bit ids.
// Prints "block I", then the logits of each token in a line, then per weight of the block "fed NAME ROWS SQUARES". Built by tests/peer/make_draft_golden.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "ggml.h"
#include "llama.h"
#include "llama-ext.h"

struct fed_sums {
    double rows = 0, squares = 0;
};
struct watched {
    std::string prefix; // of the block's weights
    std::map<std::string, fed_sums> sums;
};

static bool on_tensor(struct ggml_tensor *t, bool ask, void *data) {
    auto *w = static_cast<watched *>(data);
    bool is_product = t->op == GGML_OP_MUL_MAT || t->op == GGML_OP_MUL_MAT_ID;
    if (!is_product || strncmp(t->src[0]->name, w->prefix.c_str(), w->prefix.size()) != 0) return false;
    if (ask) return true;
    const struct ggml_tensor *x = t->src[1];
    fed_sums &to = w->sums[t->src[0]->name];
    auto at = [&](int64_t c, int64_t i, int64_t j, int64_t k) {
        const char *p = static_cast<const char *>(x->data) + c * x->nb[0] + i * x->nb[1] + j * x->nb[2] + k * x->nb[3];
        return static_cast<double>(*reinterpret_cast<const float *>(p));
    };
    int64_t used = t->op == GGML_OP_MUL_MAT_ID ? t->src[2]->ne[0] : x->ne[1];
    for (int64_t k = 0; k < x->ne[3]; k++)
        for (int64_t j = 0; j < x->ne[2]; j++)
            for (int64_t i = 0; i < used; i++, to.rows++)
                for (int64_t c = 0; c < x->ne[0]; c++) to.squares += at(c, i % x->ne[1], j, k) * at(c, i % x->ne[1], j, k);
    return true;
}

static void fail(const char *what) {
    printf("cannot: %s\n", what);
    exit(0);
}

static llama_context *context_of(llama_model *m, bool is_block, uint32_t window, watched *w) {
    llama_context_params p = llama_context_default_params();
    p.n_ctx = p.n_batch = p.n_ubatch = window > 64 ? window : 64;
    p.n_threads = p.n_threads_batch = 1;
    p.type_k = p.type_v = GGML_TYPE_F32;
    p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    if (is_block) p.ctx_type = LLAMA_CONTEXT_TYPE_MTP, p.cb_eval = on_tensor, p.cb_eval_user_data = w;
    llama_context *c = llama_init_from_model(m, p);
    if (!c) fail("it makes no context");
    return c;
}

// Runs a window. states: per token the state that goes with it; NULL: none.
static void run_window(llama_context *c, const uint16_t *ids, int n, const std::vector<float> *states, int width) {
    llama_memory_clear(llama_get_memory(c), true);
    llama_batch_ext *b = llama_batch_ext_init(c);
    for (int i = 0; i < n; i++) {
        llama_pos pos[4] = {i, i, i, 0};
        int at = llama_batch_ext_add_token(b, 0, ids[i]);
        if (at < 0) fail("it takes no token");
        llama_batch_ext_set_pos(b, at, pos);
        if (states && !llama_batch_ext_set_embd_token(b, at, {states->data() + (size_t)i * width, 1, (size_t)width}))
            fail("it takes no state");
        llama_batch_ext_set_output_logits(b, at, true);
    }
    if (llama_process(c, LLAMA_PROCESS_TYPE_DECODE, b) != 0) fail("it does not run the window");
    llama_batch_ext_free(b);
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "usage: draft_peer MODEL IDS WINDOW\n"), 2;
    std::vector<uint16_t> ids(1 << 20);
    FILE *f = fopen(argv[2], "rb");
    ids.resize(f ? fread(ids.data(), 2, ids.size(), f) : 0);
    int window = atoi(argv[3]);
    llama_log_set([](ggml_log_level level, const char *text, void *) { if (level >= GGML_LOG_LEVEL_ERROR) fputs(text, stderr); }, nullptr);
    llama_backend_init();
    llama_model_params mp = llama_model_default_params();
    mp.load_mtp = true;
    llama_model *m = llama_model_load_from_file(argv[1], mp);
    if (!m) fail("it does not load the model");
    int width = llama_model_n_embd_out(m), words = llama_vocab_n_tokens(llama_model_get_vocab(m));
    int blocks = llama_model_n_layer_nextn(m), layers = llama_model_n_layer(m);
    for (int k = 0; k < blocks; k++) {
        watched w;
        w.prefix = "blk." + std::to_string(layers + k) + ".";
        llama_context *whole = context_of(m, false, window, nullptr), *block = context_of(m, true, window, &w);
        llama_set_embeddings_nextn(whole, true, false);
        llama_set_embeddings_nextn(block, true, true);
        llama_set_nextn_layer_offset(block, k);
        printf("block %d\n", layers + k);
        for (size_t first = 0; first + window <= ids.size(); first += window) {
            std::vector<float> states((size_t)window * width, 0);
            run_window(whole, &ids[first], window, nullptr, width);
            const float *h = llama_get_embeddings_nextn(whole);
            if (!h) fail("it gives no states");
            memcpy(states.data() + width, h, (size_t)(window - 1) * width * sizeof *h);
            run_window(block, &ids[first], window, &states, width);
            for (int i = 0; i < window; i++) {
                const float *z = llama_get_logits_ith(block, i);
                for (int v = 0; v < words; v++) printf("%.9g%c", (double)z[v], v + 1 < words ? ' ' : '\n');
            }
        }
        for (auto &of : w.sums) printf("fed %s %.0f %.9g\n", of.first.c_str(), of.second.rows, of.second.squares);
        llama_free(whole), llama_free(block);
    }
    return 0;
}
