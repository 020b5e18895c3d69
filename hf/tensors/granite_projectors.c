#include "hf/tensors/granite_projectors.h"

/* Adds one behind those that go to no later layer. */
static bool granite_add(const hf_config *c, granite_projector *list, size_t *n, granite_projector p,
                        gq_error *e) {
    size_t i = (*n)++;
    if (i == GRANITE_MOST) return hf_config_fail(c, e, "expected at most %d projectors", GRANITE_MOST);
    for (; i > 0 && list[i - 1].text > p.text; i--) list[i] = list[i - 1];
    list[i] = p;
    return true;
}

/* Reads a number of a layer; those below 0 count from the end. Without one it is the last. */
static bool granite_layer(const hf_config *c, const json_t *v, uint32_t layers, json_int_t *layer,
                          gq_error *e) {
    *layer = v ? json_integer_value(v) : -1;
    if (*layer < 0) *layer += layers;
    return ((!v || json_is_integer(v)) && *layer >= 0 && *layer < layers) ||
           hf_config_fail(c, e, "deepstack_layer_map or spatial_target_layers: no number of one of %u layers",
                          layers);
}

/* How many pairs of a list come before pair i, as numbers stand there. */
static uint32_t granite_rank(const json_t *map, size_t i) {
    uint32_t before = 0;
    for (size_t k = 0; k < json_array_size(map); k++) {
        const json_t *x = json_array_get(map, k), *y = json_array_get(map, i);
        json_int_t d = json_integer_value(json_array_get(x, 0)) - json_integer_value(json_array_get(y, 0));
        if (d == 0) d = json_integer_value(json_array_get(x, 1)) - json_integer_value(json_array_get(y, 1));
        before += d < 0 || (d == 0 && k < i);
    }
    return before;
}

bool granite_projectors(const hf_config *c, granite_projector list[GRANITE_MOST], size_t *n, gq_error *e) {
    const json_t *map = hf_config_get(c, "root.deepstack_layer_map"),
                 *targets = hf_config_get(c, "root.spatial_target_layers"),
                 *spatial = hf_config_get(c, "root.spatial_vision_layer");
    uint32_t text = 0, sees = 0;
    bool ok = (json_array_size(map) <= GRANITE_MOST ||
               hf_config_fail(c, e, "expected at most %d projectors", GRANITE_MOST)) &&
              hf_config_u32(c, "text.num_hidden_layers", &text, e) &&
              hf_config_u32(c, "vision.num_hidden_layers", &sees, e);
    *n = 0;
    for (size_t rank = 0; ok && rank < json_array_size(map); rank++)
        for (size_t i = 0; ok && i < json_array_size(map); i++) {
            const json_t *v = json_array_get(map, i);
            granite_projector p = {.number = (uint32_t)rank};
            if (granite_rank(map, i) != rank) continue;
            ok = granite_layer(c, json_array_get(v, 0), sees, &p.sees, e) &&
                 granite_layer(c, json_array_get(v, 1), text, &p.text, e) && granite_add(c, list, n, p, e);
        }
    for (size_t i = 0; ok && i < json_array_size(targets); i++) {
        granite_projector p = {.is_spatial = true, .number = (uint32_t)i};
        ok = granite_layer(c, spatial, sees, &p.sees, e) &&
             granite_layer(c, json_array_get(targets, i), text, &p.text, e) && granite_add(c, list, n, p, e);
    }
    return ok && (*n > 0 || hf_config_fail(c, e,
                                           "neither deepstack_layer_map nor spatial_target_layers has "
                                           "an entry: expected the layers that projectors go to"));
}
