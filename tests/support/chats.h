/* For tests of conversations: small models, and files as gquant-chat writes them. */
#pragma once

#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"
#include "tests/support/forward_models.h"

enum { VOCABULARY = 512, CHATS = 9, WHOLE = 64 };
static const char MAGIC[] = "#gquant-chats 1\n";

FIXTURE(make_models) {
    folder = temporary_folder();
    write_run_models(path("model.gguf"), 2, path("experts.gguf"));
    quantize(path("model.gguf"), path("q2.gguf"), "Q2_K", 1);
    quantize(path("experts.gguf"), path("experts-q2.gguf"), "Q2_K", 1);
    return 0;
}

static inline unsigned id_of(size_t chat, size_t token) {
    return (unsigned)((chat + 3) * (token + 1) * (token + 5) * 7 % VOCABULARY);
}

static inline size_t length_of(size_t chat) { return 17 + 11 * chat % 48; }

/* Conversations whose first tokens have their own weight. more: after each, tokens of weight 0. */
static inline const char *write_chats(const char *name, const char *first, const char *weight, bool more) {
    FILE *f = fopen(path(name), "w");
    assert_non_null(f);
    fputs(MAGIC, f);
    for (size_t c = 0; c < CHATS; c++) {
        fprintf(f, "=%s", first);
        for (size_t t = 0; t < length_of(c); t++) fprintf(f, "%s %u", t == 6 ? weight : "", id_of(c, t));
        fputs(more ? " =0 5 6 7 8\n" : "\n", f);
    }
    fclose(f);
    return path(name);
}

static inline gq_text chats_text(const char *name, uint32_t context) {
    return (gq_text){.name = name, .ids = true, .context = context};
}

static inline gq_evaluation_request request_of(gq_text text, const char *const *copies, size_t n) {
    return (gq_evaluation_request){sizeof(gq_evaluation_request),
                                   .base_model = path("model.gguf"),
                                   .quants = copies,
                                   .n_quants = n,
                                   .text = text,
                                   .threads = 1};
}
