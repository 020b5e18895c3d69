/* Opening a model by its path, whatever kind of container it is in. */
#ifndef GQ_INPUT_H
#define GQ_INPUT_H

#include "model/model.h"

/* A GGUF file or any shard of a split one. Everything is checked except the weights. On failure *m is fit for
 * model_close. */
bool input_open(model_source *m, const char *path, gq_error *e);

#endif
