/* For tests of targets: a folder with one small model, and options with one output that has a target. */
#pragma once

#include "tests/support/folder.h"
#include "tests/support/target_model.h"

static char *in, *out;

static int set_up(void **state) {
    (void)state;
    folder = temporary_folder();
    in = strdup(path("in.gguf")), out = strdup(path("out.gguf"));
    target_model(folder);
    return 0;
}

static int tear_down(void **state) {
    free(in), free(out);
    return folder_remove(state);
}

static gq_output output;
static gq_options options_for(const char *to) {
    output = (gq_output){.path = to};
    return (gq_options){.size = sizeof(gq_options),
                        .input = in,
                        .outputs = &output,
                        .n_outputs = 1,
                        .threads = 2,
                        .force = true,
                        .effort = GQ_EFFORT_DEFAULT};
}
