/* Takes a model's id apart: "Qwen/Qwen2.5-0.5B-Instruct" has an organization, a name, and in the name a
 * basename, a size and what it was tuned for. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { HF_ID_MOST = 256 }; /* bytes of an id with its NUL; longer ones say nothing */

/* "": the id does not say it. */
typedef struct hf_model_id {
    char name[HF_ID_MOST], organization[HF_ID_MOST]; /* as in the id */
    char basename[HF_ID_MOST], finetune[HF_ID_MOST], version[HF_ID_MOST], size[HF_ID_MOST];
} hf_model_id;

/* weights: the model's own number of them, which a size in the name has to be near to. False: the id is
 * empty or too long. */
bool hf_model_id_parse(hf_model_id *m, const char *id, uint64_t weights);
/* Writes a name for people: "qwen2.5-0.5B" becomes "Qwen2.5 0.5B". The text has less than HF_ID_MOST bytes.
 */
void hf_model_title(char title[HF_ID_MOST], const char *name);
