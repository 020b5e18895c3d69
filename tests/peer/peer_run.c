/* peer-run: loads a GGUF with llama.cpp's release library and continues a few tokens greedily.
 *
 *     peer-run LIBRARY-FOLDER MODEL.gguf [TOKENS [FIRST-TOKEN...]]
 *
 * Prints the continuation; fails when the library refuses the model. The library's parameter blocks are
 * passed through unread, so their layout does not matter as long as they fit `block`.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct block {
    _Alignas(16) char bytes[512];
} block;

static void *library;

static void *need(void *found, const char *what) {
    if (!found) fprintf(stderr, "peer-run: %s: %s\n", what, dlerror()), exit(1);
    return found;
}

static void *function(const char *name) { return need(dlsym(library, name), name); }

static void open_library(const char *folder) {
    static const char *const names[] = {"libggml-base.so", "libggml.v0.5.0.so", "libllama.v0.5.0.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        void *opened = need(dlopen(path, RTLD_NOW | RTLD_GLOBAL), path);
        if (i == 1)
            ((void (*)(const char *))need(dlsym(opened, "ggml_backend_load_all_from_path"), path))(folder);
        library = opened;
    }
}

/* Info and debug messages are many; warnings (3) and errors (4) are kept. */
static void log_serious(int level, const char *text, void *user) {
    (void)user;
    if (level == 3 || level == 4) fputs(text, stderr);
}

static int32_t likeliest(const float *logits, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return fputs("usage: peer-run LIBRARY-FOLDER MODEL.gguf [TOKENS [FIRST-TOKEN...]]\n", stderr), 2;
    open_library(argv[1]);
    ((void (*)(void (*)(int, const char *, void *), void *))function("llama_log_set"))(log_serious, NULL);
    ((void (*)(void))function("llama_backend_init"))();
    block (*model_defaults)(void) = (block(*)(void))function("llama_model_default_params");
    void *(*load)(const char *, block) =
        (void *(*)(const char *, block))function("llama_model_load_from_file");
    block (*context_defaults)(void) = (block(*)(void))function("llama_context_default_params");
    void *(*start)(void *, block) = (void *(*)(void *, block))function("llama_init_from_model");
    block (*batch)(int32_t *, int32_t) = (block(*)(int32_t *, int32_t))function("llama_batch_get_one");
    int32_t (*decode)(void *, block) = (int32_t(*)(void *, block))function("llama_decode");
    float *(*logits)(void *, int32_t) = (float *(*)(void *, int32_t))function("llama_get_logits_ith");
    const void *(*vocabulary)(const void *) =
        (const void *(*)(const void *))function("llama_model_get_vocab");
    int32_t (*vocabulary_size)(const void *) = (int32_t(*)(const void *))function("llama_vocab_n_tokens");
    int32_t (*piece)(const void *, int32_t, char *, int32_t, int32_t, bool) =
        (int32_t(*)(const void *, int32_t, char *, int32_t, int32_t, bool))function("llama_token_to_piece");

    void *model = load(argv[2], model_defaults());
    if (!model) return fprintf(stderr, "peer-run: %s: refused\n", argv[2]), 1;
    void *context = start(model, context_defaults());
    if (!context) return fprintf(stderr, "peer-run: %s: no context\n", argv[2]), 1;
    ((void (*)(void *, int32_t, int32_t))function("llama_set_n_threads"))(context, 1,
                                                                          1); /* its threads spin */
    const void *words = vocabulary(model);
    int32_t n_words = vocabulary_size(words), tokens[64] = {1}, n = 1;
    for (int i = 4; i < argc && n < 64; i++) tokens[n++] = atoi(argv[i]);
    for (int left = argc > 3 ? atoi(argv[3]) : 16; left > 0; left--) {
        if (decode(context, batch(tokens, n)) != 0) return fputs("peer-run: decoding failed\n", stderr), 1;
        tokens[0] = likeliest(logits(context, -1), n_words), n = 1;
        char text[128];
        int32_t length = piece(words, tokens[0], text, sizeof text, 0, true);
        printf("%.*s", length > 0 ? (int)length : 0, text);
    }
    putchar('\n');
    fflush(stdout);
    _Exit(0); /* the library's own clean-up is not what is tested */
}
