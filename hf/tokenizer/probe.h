/* Recognizes how a folder cuts texts by what its regular expressions make of one text. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    HF_PROBE_STEPS = 16, /* steps of a chain; published ones have at most six */
    HF_PROBE_MOST = 1024 /* bytes of a text that is cut */
};

/* The text by whose ids llama.cpp's converter names pre-tokenizers. */
#define HF_CHECK_TEXT \
    "\n \n\n \n\n\n \t \t\t \t\n  \n   \n    \n     \n🚀 (normal) 😶\342\200\215🌫\357\270\217 (" \
    "multiple emojis concatenated) ✅ 🦙🦙 3 33 333 3333 33333 333333 3333333 33333333 3.3 3..3 " \
    "3...3 កាន់តែពិសេសអាច😁 ?我想在apple工作1314151天～ ------======= нещо на Български ''''''```````" \
    "\"\"\"\"......!!!!!!?\??\??\? I've been 'told he's there, 'RE you sure? 'M not sure I'll" \
    " make it, 'D you like some tea? We'Ve a'lL"
/* That text and more; a NUL follows the n bytes. llama.cpp's groups of pre-tokenizers cut it in ways of their own, but
 * for two, which cut all texts alike. */
extern const char hf_probe_text[];
extern const size_t hf_probe_bytes;

/* The cuts of the text: a bit for every byte that a piece begins at. */
typedef struct hf_probe_cuts {
    uint8_t bits[128];
} hf_probe_cuts;

static inline void hf_probe_mark(hf_probe_cuts *c, size_t at) { c->bits[at / 8] |= (uint8_t)(1 << at % 8); }
static inline bool hf_probe_is_cut(const hf_probe_cuts *c, size_t at) {
    return c->bits[at / 8] >> at % 8 & 1;
}
/* Returns the name of a group that cuts the text so; NULL: none does. */
const char *hf_probe_name(const hf_probe_cuts *c);

/* Cuts any text of at most HF_PROBE_MOST bytes by steps as hf/tokenizer/pretokenizer.c has them: lines that begin with
 * S, D or B. *is_cut false: the steps cannot be run. Expressions of any origin: they get little time and
 * memory. */
bool hf_probe_cut(const char *lines, const char *text, size_t n, hf_probe_cuts *cuts, bool *is_cut,
                  gq_error *e);
/* Cuts the probe's text; *name NULL: no group cuts it so, or the steps cannot be run. */
bool hf_probe_run(const char *lines, const char **name, gq_error *e);
