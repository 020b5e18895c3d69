/* The name of a pre-tokenizer by the ids that the folder's own tokenizer gives one text. */
#pragma once

#include "hf/tokenizer/tokenizer_vocabulary.h"

/* Encodes the text as tokenizer.json says, which cuts by `lines` (hf/tokenizer/pretokenizer.c), and looks the ids up,
 * with BOS in front and without. *name NULL: no such ids are known, or the steps are not of a kind that can
 * be carried out here. */
bool hf_check_name(const hf_tokenizer *t, const char *lines, const char **name, gq_error *e);

/* Writes the visible character that stands for a byte in vocabularies of bytes; returns its bytes, 1 or 2. */
size_t hf_byte_character(uint8_t byte, char *to);
