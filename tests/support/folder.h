/* A folder for the files of a test program: made before its tests, removed after them. */
#pragma once

#include "tests/support/model.h"

static char *folder;

static inline const char *path(const char *name) { return in_folder(folder, name); }

/* The same, valid until 64 others were requested: as long as a job is used. */
static inline const char *lasting(const char *name) {
    static char kept[64][4096];
    static size_t next;
    char *to = kept[next++ % 64];
    snprintf(to, sizeof kept[0], "%s", path(name));
    return to;
}

static inline int folder_make(void **state) {
    (void)state;
    folder = temporary_folder();
    return 0;
}

/* The same, with a small llama in it: in.gguf. */
static inline int folder_with_model(void **state) {
    folder_make(state);
    model_save(model_llama(1), path("in.gguf"));
    return 0;
}

static inline int folder_remove(void **state) {
    (void)state;
    remove_folder(folder);
    return 0;
}
