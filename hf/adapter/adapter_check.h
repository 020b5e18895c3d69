/* Whether an adapter has all that its config names. */
#pragma once

#include "hf/adapter/adapter_target.h"

/* Compares an attached adapter with its config: fails where arrays are missing that the config names, and where it names
 * others than there are. Where the model may lack what a name stands for, it warns. */
bool hf_adapter_check_complete(const hf_targets *t, gq_error *e);
