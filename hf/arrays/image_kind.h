/* Which image or video model a list of arrays is, whatever stands before their names, and what else the list
 * holds or lacks. */
#pragma once

#include "arch/arch.h"
#include "hf/arrays/safetensors.h"

typedef struct hf_image_kind {
    const char *prefix; /* before the names of the model's arrays; "": none */
    const architecture *arch;
    const arch_image_mark *mark; /* by which it is told */
    size_t n_left_out;           /* arrays that are not the model's */
    const char *left_out;        /* the first of them */
} hf_image_kind;

/* Whether a file of weights holds an image model by itself; one whose header cannot be read does not. */
bool hf_image_is(const char *folder, const char *file);
/* Returns the known architectures, for messages: "flux, sd3, ..." */
enum { HF_IMAGE_NAMES = 256 };
const char *hf_image_names(char *text, size_t size);
/* Finds the first mark that fits, with any prefix, for a model that is to be read: fails for what is none, and for codes that only other programs know. */
bool hf_image_recognise(hf_image_kind *k, const hf_list *l, gq_error *e);
/* Returns an array's name without the prefix, and what readers want in front of it. NULL: it is not the model's. */
const char *hf_image_own_name(const hf_image_kind *k, const char *name, const char **begins);
/* Whether no later block has the array that a block has. */
bool hf_image_is_last_block(const hf_list *l, const char *name);
/* Warns of arrays that were left out, and of blocks that lack an array of their neighbours. */
bool hf_image_warn(const hf_image_kind *k, const hf_list *l, gq_error *e);
