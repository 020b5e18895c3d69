/* Small models that can be run, drawn at random, and tokens to run them on. */
#include <fcntl.h>
#include <math.h>

#include "forward/graph/forward.h"
#include "tests/crossings/crossing.h"
#include "tests/support/forward_models.h"
#include "tests/support/numbers.h"
#include "tests/support/token_model.h"

/* ---- the model ---- */

/* What calibration meets: dense models, experts, latent attention, heads and norms of their own, blocks that
 * are run several times. */
static const char *draw_family(void) {
    static const char *const families[] = {
        "llama",     "llama",          "llama",      "llama-bias", "llama-moe", "gpt-oss",       "gpt-oss",
        "qwen3moe",  "qwen3moe",       "deepseek2",  "deepseek2",  "qwen2",     "qwen2moe",      "qwen3",
        "gemma2",    "deepseek2-lite", "granitemoe", "glm4moe",    "phi3",      "starcoder2",    "olmoe",
        "command-r", "gptneox-serial", "falcon",     "phimoe",     "nanbeige",  "nanbeige-bare", "grovemoe"};
    return families[below(sizeof families / sizeof *families)];
}

/* Tiny: a run of it takes less than starting the program. */
static variant draw_variant(void) {
    static const uint32_t inner[] = {32, 32, 32,  64, 40,
                                     24, 24, 256, 544}; /* more than 256 columns: two strips */
    static char name[24];                               /* which the values are drawn from */
    variant v = *variant_named(draw_family());
    v.arch = variant_arch(&v);
    snprintf(name, sizeof name, "v%u", (unsigned)below(1000000));
    v.name = name;
    v.layers = 2 + (uint32_t)below(2);
    v.ff = inner[below(sizeof inner / sizeof *inner)];
    if (!v.head && chance(5)) v.width = chance(50) ? 64 : 256;
    if (v.experts && !v.extra && chance(30)) v.experts *= 2;
    return v;
}

static uint32_t draw_matrix_type(void) {
    static const uint32_t types[] = {GGUF_F16, GGUF_F16, GGUF_BF16, GGUF_F32};
    return types[below(4)];
}

static void note_tensors(crossing_model *m, const model_source *file) {
    for (uint64_t i = 0; i < file->n_tensors && m->n < CROSSING_TENSORS; i++) {
        const model_tensor *t = file->tensors[i];
        crossing_tensor *to = &m->tensors[m->n++];
        snprintf(to->name, sizeof to->name, "%s", t->name);
        memcpy(to->ne, t->ne, sizeof to->ne);
        to->type = t->type->id, to->matrix = t->ne[1] * t->ne[2] > 1;
    }
}

/* A weight that is no number. */
static void spoil(crossing_model *m, const model_source *file, const char *path) {
    static const uint8_t nan[4] = {0, 0, 0xc0, 0x7f}, nan_of_f16[2] = {0, 0x7e};
    const model_tensor *t = file->tensors[below(file->n_tensors)];
    size_t size = t->type->id == GGUF_F32 ? 4 : 2;
    const uint8_t *bytes = t->type->id == GGUF_F16 ? nan_of_f16 : nan + 4 - size;
    if (t->type->quantized) return;
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    off_t at = (off_t)(t->offset + size * below(t->size / size));
    assert_int_equal(pwrite(fd, bytes, size, at), size);
    close(fd);
    m->spoilt = true;
}

/* ---- tokens ---- */

static void write_ids(const char *path, size_t ids) {
    char text[2000];
    size_t n = 0, step = 1 + below(40);
    bool alike = chance(10); /* which reaches few experts */
    for (size_t i = ids, at = below(96); i > 0; i--) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%zu ", at);
        at = alike ? at : (at + step + below(7)) % VARIANT_VOCABULARY;
    }
    write_whole(path, text, n);
}

static void write_letters(const char *path, size_t n) {
    char text[100];
    for (size_t i = 0; i < n; i++) text[i] = (char)('a' + below(8));
    write_whole(path, text, n);
}

/* Conversations with a weight for each token. */
static void write_chats(const char *path) {
    static const char *const weights[] = {"", "", " =0", " =1", " =0.25"};
    char text[2048] = "#gquant-chats 1\n";
    size_t at = strlen(text);
    for (size_t c = 0, n = 3 + below(4); c < n; c++) {
        for (size_t t = 0, all = 3 + below(18); t < all; t++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s %zu", weights[below(5)],
                                   below(VARIANT_VOCABULARY));
        at += (size_t)snprintf(text + at, sizeof text - at, " =0.5 1\n");
    }
    write_whole(path, text, at);
}

/* Two of each kind, often of the same length. */
static void write_tokens(const char *folder) {
    static const char *const ids[] = {"ids.txt", "ids-2.txt"}, *const texts[] = {"text.txt", "text-2.txt"};
    static const char *const chats[] = {"chats.txt", "chats-2.txt"};
    size_t n = 24 + below(48);
    for (int i = 0; i < 2; i++) {
        write_chats(in_folder(folder, chats[i]));
        write_ids(in_folder(folder, ids[i]), n), write_letters(in_folder(folder, texts[i]), n + 6);
        if (chance(50)) n = 24 + below(48);
    }
}

/* ---- together ---- */

void crossing_model_draw_running(crossing_model *m, const char *folder) {
    const char *path = strcpy((char[4096]){""}, in_folder(folder, "whole.gguf"));
    variant v = draw_variant();
    *m = (crossing_model){.arch = v.arch, .blocks = v.layers, .shards = 1, .runs = true};
    m->letters = chance(50);
    model *made = variant_model(&v, draw_matrix_type(), NULL);
    if (m->letters) token_model_letters(made, chance(50), VARIANT_VOCABULARY);
    model_save(made, path);
    model_source file = open_model(path);
    note_tensors(m, &file);
    m->chats = !forward_is_bidirectional(&file) || forward_fills_masks(&file);
    if (chance(4)) spoil(m, &file, path);
    model_close(&file);
    write_tokens(folder);
}
