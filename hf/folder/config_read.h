/* config.json of a folder, read and brought into the form that the rules look at. */
#pragma once

#include "hf/folder/config.h"

/* Reads the file, and lays the text model's values over the root's; nothing is decided yet. */
bool hf_config_open(hf_config *c, hf_folder *f, gq_error *e);
bool hf_config_read(hf_config *c, hf_folder *f, gq_error *e);
/* The same for any class of models: its row is another config's. */
bool hf_config_read_like(hf_config *c, hf_folder *f, const hf_config *like, gq_error *e);
void hf_config_free(hf_config *c);
/* Returns rope's full_attention, where that is there, else rope itself. */
const json_t *hf_config_rope_full(const hf_config *c);
