/* Opens a model by its path, whatever container it is in. */
#ifndef GQ_INPUT_H
#define GQ_INPUT_H

#include "model/model.h"

/* Opens a GGUF file, any shard of a split one, a Hugging Face folder, or an image model's safetensors.
 * Everything is checked except the
 * weights. The caller closes *m with model_close, which it may also do after a failure. */
bool input_open(model_source *m, const char *path, gq_error *e);
/* Returns the path that names of outputs begin with: that of the input, unless the model is called otherwise.
 * malloc'ed; NULL: no memory. */
char *input_stem(const char *path, gq_error *e);

#endif
