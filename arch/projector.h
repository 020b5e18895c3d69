/* Multimodal projectors (mmproj files) that are made of folders from Hugging Face, one row for each
 * kind. A row has the same lists as an architecture's folder. The names of its items begin with the place of a value:
 * "vision." and "audio." are the objects of config.json that the row names, "text." the text model's numbers as they
 * are for the architectures, "root." config.json itself, and "pre." preprocessor_config.json with
 * processor_config.json over it. Read by hf/. */
#pragma once

#include "arch/folder.h"

/* The size of a tensor: a word for each of its dimensions, as GGUF has them, inputs first; further ones are 1. A word
 * is a number; a letter, which stands for one width in all tensors of a projector; a sum of letters with factors
 * ("Q+2K"); "*D", a multiple of D; "^D", D times a square; "@", a square, or one more where there is a class
 * embedding; "?", anything; "~", whatever follows. Letters without a sign between them are multiplied. A "+" behind
 * them: it has a bias. "|" stands between two sizes, either of which is right. */
typedef struct arch_tensor_size {
    const char *tensor; /* its name, '#' for a number; without .weight; NULL ends a list */
    const char *dims;
} arch_tensor_size;
/* Common to all projectors. */
extern const arch_tensor_size arch_projector_shapes[];

/* The config's value for a letter: the value of one of these items, divided. */
typedef struct arch_letter {
    const char *names; /* NULL ends a list */
    char letter;
    unsigned divisor;
} arch_letter;

/* Members that a row does not name are absent or empty. Lists end with NULL. */
typedef struct arch_projector {
    const char *const
        *classes; /* entries of "architectures", the vision part's before the root's; NULL ends rows */
    const char *model_type;     /* a model_type that the root must have, too; NULL: any */
    const char *vision, *audio; /* the objects: a key, or "key.key"; NULL: there is none */
    /* JSON objects: values of these that configs may leave out, as the classes of transformers have them; NULL: none */
    const char *vision_missing, *audio_missing;
    const char *pre_missing; /* the same of preprocessors */
    /* A folder in the model's: its config.json is what "audio." stands for, and its source tensors have its name
     * in front. */
    const char *beside;
    bool may_lack_audio; /* a config without that object makes a projector with a vision encoder alone */
    /* Parts of source tensors' names that belong to the projector; "^" in front: the name begins so. */
    const char *const *takes;
    const char *last_layer; /* prefix of layers' names before the number, if the last layer is left out */
    /* Tensors that have a type of their own whatever is asked for, by their names as above: F32, F16, or F16 in a file
     * of F16 and else F32. What a converter decides by the shape and the end of a name is in hf/projector.c. */
    const char *const *is_f32, *const *is_f16, *const *follows_f16;
    const char *const
        *may_lack; /* tensors that some have and others lack, by names as above, with '#' for a number */
    /* Blocks that must all be there: "v.blk.", "a.blk.", or both with a space between; NULL: those that the metadata
     * count; "": none are checked. */
    const char *counted;
    /* Tensors that not all blocks have; and those whose sizes differ from block to block. All others are in every
     * block, in one size. */
    const char *const *in_some, *const *grow;
    const arch_tensor_size *shapes; /* sizes, before those of all projectors */
    const arch_letter *letters;     /* letters of sizes that the config gives a value; NULL: none */
    const char
        /* another key that the config may have for the width of layers' feed-forward sublayer; NULL: none */
        *feeds;
    /* Not NULL: folders of this kind are refused with this sentence, which says why and what to do. */
    const char *refused;
    arch_folder folder;
} arch_projector;

#define SHAPES(...) \
    (const arch_tensor_size[]) { \
        __VA_ARGS__, { NULL, NULL } \
    }

#define LETTERS(...) \
    (const arch_letter[]) { \
        __VA_ARGS__, { NULL, 0, 0 } \
    }

/* Row i; NULL behind the last. Rows are static. */
const arch_projector *arch_projector_at(size_t i);
/* Whether a tensor's name is what a rule makes: `to` up to a '|', with numbers for its signs, and any last word. */
bool arch_rule_makes(const struct arch_rule *r, const char *name);
/* Whether a rule's tensor is of the audio encoder. */
bool arch_rule_is_heard(const struct arch_rule *r);
