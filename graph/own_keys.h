/* Keys that hardly another architecture has: what a row of architectures.c names as read_own_keys. All other
 * keys are read before, without a fault, and each part knows its numbers and layers. */
#ifndef GQ_FORWARD_OWN_KEYS_H
#define GQ_FORWARD_OWN_KEYS_H

#include "graph/keys.h"
#include "graph/model.h"

void own_keys_apertus(forward_model *m, key_reader *r);
void own_keys_baichuan(forward_model *m, key_reader *r);
void own_keys_bailingmoe3(forward_model *m, key_reader *r);
void own_keys_gemma2(forward_model *m, key_reader *r);
void own_keys_gemma3n(forward_model *m, key_reader *r);
void own_keys_gemma4(forward_model *m, key_reader *r);
void own_keys_gemma3(forward_model *m, key_reader *r);
void own_keys_glm4(forward_model *m, key_reader *r);
void own_keys_gptneox(forward_model *m, key_reader *r);
void own_keys_grok(forward_model *m, key_reader *r);
void own_keys_granite(forward_model *m, key_reader *r);
void own_keys_granitemoe(forward_model *m, key_reader *r);
void own_keys_hunyuan_dense(forward_model *m, key_reader *r);
void own_keys_hunyuan_vl(forward_model *m, key_reader *r);
void own_keys_jais(forward_model *m, key_reader *r);
void own_keys_kimi_k3(forward_model *m, key_reader *r);
void own_keys_llama4(forward_model *m, key_reader *r);
void own_keys_mimo2(forward_model *m, key_reader *r);
void own_keys_minicpm(forward_model *m, key_reader *r);
void own_keys_minicpm3(forward_model *m, key_reader *r);
void own_keys_mistral3(forward_model *m, key_reader *r);
void own_keys_muse_glimmer(forward_model *m, key_reader *r);
void own_keys_nanbeige(forward_model *m, key_reader *r);
void own_keys_olmoe(forward_model *m, key_reader *r);
void own_keys_plamo2(forward_model *m, key_reader *r);
void own_keys_plm(forward_model *m, key_reader *r);
void own_keys_step35(forward_model *m, key_reader *r);

#endif
