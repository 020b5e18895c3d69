#include "hf/tensors/stays_f32.h"
#include "hf/arrays/names.h"

#include <string.h>

bool hf_stays_f32(const char *stays, const char *name, uint32_t n_dims) {
    static const char *const ends[] = {
        "_norm.weight",
        "ffn_gate_inp.weight",
        "ffn_gate_inp_shexp.weight",
        "position_embd.weight",
        "token_types.weight",
        "ssm_conv1d.weight",
        "ssm_conv1d_q.weight",
        "ssm_conv1d_k.weight",
        "ssm_conv1d_v.weight",
        "shortconv.conv.weight",
        "altup_correct_coef.weight",
        "altup_predict_coef.weight",
        "indexer.proj.weight",
        "_compressor_ape.weight",
        "time_mix_first.weight",
        "time_mix_w1.weight",
        "time_mix_w2.weight",
        "time_mix_decay_w1.weight",
        "time_mix_decay_w2.weight",
        "time_mix_lerp_fused.weight",
    };
    if (n_dims < 2 || !name_ends(name, ".weight")) return true;
    for (size_t n; stays && *stays; stays += n + (stays[n] == '|')) {
        n = strcspn(stays, "|");
        if (memmem(name, strlen(name), stays, n)) return true;
    }
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (name_ends(name, ends[i])) return true;
    return false;
}
