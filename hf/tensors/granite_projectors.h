/* Granite's projectors: which layers of what sees they read, and which of the text model they go to. */
#pragma once

#include <jansson.h>

#include "hf/folder/config.h"

enum { GRANITE_MOST = 256 };

/* One of two kinds: of a layer each, or of places in the image. They are counted in the order of the text model's
 * layers that they go to. */
typedef struct granite_projector {
    json_int_t sees, text;
    bool is_spatial;
    uint32_t number; /* among those of its kind */
} granite_projector;

/* Reads deepstack_layer_map and spatial_target_layers; *n: how many there are. */
bool granite_projectors(const hf_config *c, granite_projector list[GRANITE_MOST], size_t *n, gq_error *e);
