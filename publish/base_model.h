/* The repository of the model that was quantized, as a hub has it: OWNER/NAME. */
#pragma once

#include "quantize/gquant_publish.h"

typedef struct base_model {
    char *id;           /* malloc'ed; NULL: nothing names it */
    const char *source; /* place where the name was found; NULL: it was given */
} base_model;

/* Finds it for a model of the folder or file `path`, whose name in file names is `stem`. asked: it was given; NULL: it
 * was not. adapter: the folder of an adapter that is merged into the model; may be NULL. false: no memory. */
bool base_model_find(base_model *to, const char *asked, const char *path, const char *adapter,
                     const gq_model *m, const char *stem, gq_error *e);
/* Takes an id of n bytes; false: no memory. */
bool base_model_take(base_model *to, const char *id, size_t n, const char *source, gq_error *e);
/* Returns OWNER/NAME at the end of an address of huggingface.co, or the text itself if it is one; NULL: neither. */
const char *base_model_of_url(const char *url);
