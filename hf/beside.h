/* What a folder holds besides the text model. */
#ifndef GQ_HF_BESIDE_H
#define GQ_HF_BESIDE_H

#include "hf/arrays/safetensors.h"
#include "hf/folder/config.h"
#include "model/model.h"

/* Sets m->beside. */
void hf_beside_find(model_source *m, const hf_config *c, const hf_list *l);

#endif
