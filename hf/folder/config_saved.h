/* Configs as transformers 5 saves them: other names and words than those of the models as they were published. */
#pragma once

#include "hf/folder/config.h"

/* Completes c->merged with the keys and words that were in use before, which the rules look for. Values that are there
 * under both names stay. */
bool hf_config_restore(hf_config *c, gq_error *e);
