#include "arch/arch.h"

#include <string.h>

#include "arch/rows.h"
#include "gguf/facts.h"

static const architecture *const files[] = {
    arch_rows_llama,   arch_rows_qwen,     arch_rows_gemma,     arch_rows_latent,    arch_rows_kda,
    arch_rows_granite, arch_rows_makers,   arch_rows_recurrent, arch_rows_experts,   arch_rows_plain,
    arch_rows_images,  arch_rows_encoders, arch_rows_others,    arch_rows_diffusion, arch_rows_drafts};

enum { FILES = sizeof files / sizeof *files };

const architecture *arch_at(size_t i) {
    for (size_t f = 0; f < FILES; f++)
        for (const architecture *a = files[f]; a->name; a++)
            if (i-- == 0) return a;
    return NULL;
}

const architecture *arch_named(const char *name) {
    for (size_t f = 0; f < FILES; f++)
        for (const architecture *a = files[f]; a->name; a++)
            if (strcmp(a->name, name) == 0) return a;
    return NULL;
}

static bool facts_are_of_embeddings(const model_facts *f) {
    int64_t causal;
    return model_fact(f, "pooling_type") || model_fact(f, "embedding_length_out") ||
           (model_fact_at(model_fact(f, "attention.causal"), 0, &causal) && !causal);
}

const architecture *arch_of_facts(const model_facts *facts) {
    const architecture *row = arch_named(facts->arch), *a;
    for (size_t i = 0; row && (a = arch_at(i)); i++)
        if (a->of_embeddings && strcmp(a->name, row->name) == 0 && facts_are_of_embeddings(facts)) return a;
    return row;
}

bool arch_has_part(const architecture *a, arch_part part) {
    for (int i = 0; i < ARCH_GRAPH_PARTS; i++)
        if (a->graph.mixers[i] == part || a->graph.ffns[i] == part) return true;
    return a->graph.beside == part || a->graph.tail == part || a->graph.bank == part;
}

bool arch_is_by_number(const architecture *a, arch_by_number what, uint64_t layers) {
    for (size_t i = 0; i < sizeof a->by_number / sizeof *a->by_number; i++) {
        const arch_numbered *n = &a->by_number[i];
        if (n->what == what && layers >= n->least && layers <= n->most) return true;
    }
    return false;
}
