/* Opens a model by its path, whatever container it is in. */
#ifndef GQ_INPUT_H
#define GQ_INPUT_H

#include "model/model.h"

/* Opens a GGUF file, any shard of a split one, or a Hugging Face folder. Everything is checked except the
 * weights. The caller closes *m with model_close, which it may also do after a failure. */
bool input_open(model_source *m, const char *path, gq_error *e);

#endif
