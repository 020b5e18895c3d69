/* The place that a path leads to where it is no GGUF file: the files to read, and what the model is called.
 */
#pragma once

#include "hf/folder/folder.h"

typedef struct hf_place {
    char *folder;   /* that the files are in */
    char *pipeline; /* the folder of an image model's parts, of which that is one; NULL: none was named */
    char *file;     /* the only file of weights to read, in that folder; NULL: those that `called` names */
    const char *called; /* what the names of weights begin with: "model", or "diffusion_pytorch_model" */
    bool is_image;      /* an image or video model: weights without the config of a language model */
    char *stem;         /* that names of outputs begin with: a path whose last part is the model's name */
} hf_place;

/* Whether a path is a folder, or a file of one, and so is not for the reader of GGUF files. */
bool hf_place_is(const char *path);
/* On failure, too, hf_place_free has to be called. */
bool hf_place_find(hf_place *p, const char *path, gq_error *e);
void hf_place_free(hf_place *p);

/* Returns what follows the last slash of a path or of an id. */
const char *hf_path_last(const char *path);
/* Takes the model's name from a folder's path: *id with its organization where the hub's cache says it
 * ("Qwen/Qwen3-8B"), *stem as above. Both are malloc'ed. */
bool hf_folder_names(const char *path, char **id, char **stem, gq_error *e);
