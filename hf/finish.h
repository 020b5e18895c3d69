/* What some architectures' folders need when all tensors are known. */
#ifndef GQ_HF_FINISH_H
#define GQ_HF_FINISH_H

#include "hf/rules_arch.h"

bool hf_finish_rope(hf_build *b, gq_error *e); /* rope_freqs, where the rotation's type is llama3 */
bool hf_finish_factors(hf_build *b,
                       gq_error *e); /* rope_factors_long and _short, where the config has them */
bool hf_finish_proportional(hf_build *b, gq_error *e); /* gemma 4's rope_freqs */
bool hf_finish_residuals(hf_build *b, gq_error *e);    /* kimi-k3: products of a norm and a projection */

#endif
