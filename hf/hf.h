/* The container of what Hugging Face has: folders of config.json, safetensors and tokenizer files, delivered
 * as the GGUF that llama.cpp's converter would make of them; and safetensors of image models, as ComfyUI-GGUF
 * has them (docs/hugging-face.md).
 */
#pragma once

#include "base/adapters.h"
#include "gguf/model.h"

/* Whether a path is a folder, or a file that is none of GGUF but of a folder or of safetensors: to be opened
 * here. */
bool hf_model_is(const char *path);
/* Opens such a path; everything is checked except the weights. */
bool hf_model_open(model_source *m, const char *path, gq_error *e);
/* The same with adapters, or a draft model's target; NULL: none. */
bool hf_model_open_adapted(model_source *m, const char *path, const gq_adapters *adapters, gq_error *e);
/* The same for the multimodal projector (mmproj) in place of the text model. Only the adapters' changes of
 * the projector are merged into it. */
bool hf_projector_open(model_source *m, const char *path, const gq_adapters *adapters, gq_error *e);
/* Returns the path that names of outputs begin with, whose last part is what the model is called; the path
 * itself where no model is found. malloc'ed; NULL: no memory. */
char *hf_model_stem(const char *path, gq_error *e);
/* Returns what a folder is called, without the folders above it. malloc'ed; NULL: no memory. */
char *hf_model_name(const char *path, gq_error *e);

/* A class that config.json may name under "architectures". */
typedef enum hf_class_kind {
    HF_CLASS_MODEL,
    HF_CLASS_DRAFT,
    HF_CLASS_PROJECTOR,
    HF_CLASS_REFUSED
} hf_class_kind;
typedef struct hf_class {
    const char *name;
    /* The architecture, or the projector type, of the GGUF that is made of it, and a second projector type; of a class
     * that is refused the reason. NULL: the config decides, or there is none. */
    const char *makes, *also;
    hf_class_kind kind;
} hf_class;
/* Gets row i of all classes; false: there are no more. A class that makes several architectures has several rows. */
bool hf_class_at(size_t i, hf_class *to);
