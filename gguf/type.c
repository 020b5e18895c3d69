#include "gguf/type.h"

#include <stddef.h>
#include <strings.h>

/* Indexed by id; retired numbers have no name. */
#define ROW(type, elements, bytes, header, quantized) \
    [GGUF_##type] = {GGUF_##type, #type, elements, bytes, header, quantized},
static const tensor_type types[GGUF_TYPE_LIMIT] = {GGUF_TYPES(ROW)};
#undef ROW

const tensor_type *tensor_type_of(uint32_t id) {
    return id < GGUF_TYPE_LIMIT && types[id].name ? &types[id] : NULL;
}

const tensor_type *tensor_type_named(const char *name) {
    for (uint32_t id = 0; id < GGUF_TYPE_LIMIT; id++)
        if (types[id].name && strcasecmp(types[id].name, name) == 0) return &types[id];
    return NULL;
}

const char *tensor_type_name(uint32_t id) {
    const tensor_type *type = tensor_type_of(id);
    return type ? type->name : "unknown";
}
