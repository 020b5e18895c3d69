/* For tests that share one synthetic model: its folder and files, set-up and tear-down. */
#pragma once

#include "tests/support/command.h"

static char *folder;
static const char *source, *matrix;

static int set_up(void **state) {
    (void)state;
    folder = model_folder();
    source = strdup(in_folder(folder, "model-F16.gguf"));
    matrix = strdup(in_folder(folder, "imatrix.dat"));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    free((void *)source), free((void *)matrix);
    remove_folder(folder);
    return 0;
}
