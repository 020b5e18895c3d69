/* draft_variants FOLDER: writes the models of tests/draft_models.c, EAGLE-3 drafts with their target, and ids.u16 with the text. */
#include <stdio.h>

#include "tests/draft_models.h"

static void write_model(const char *folder, const char *name, model *m) {
    model_write(m, in_folder(folder, name));
    model_free(m);
}

static void write_models(void **state) {
    const char *folder = *state;
    uint16_t ids[VARIANT_IDS];
    char name[64];
    for (size_t i = 0; i < VARIANT_IDS; i++) ids[i] = (uint16_t)variant_id(i);
    write_whole(in_folder(folder, "ids.u16"), ids, sizeof ids);
    for (size_t i = 0; draft_model_at(i); i++) {
        snprintf(name, sizeof name, "%s.gguf", draft_model_at(i)->name);
        write_model(folder, name, draft_model_new(draft_model_at(i), GGUF_F32));
    }
}

static void write_eagles(void **state) {
    write_model(*state, "eagle-target.gguf", eagle_target_new());
    write_model(*state, "eagle-own.gguf", eagle_draft_new(true));
    write_model(*state, "eagle-shared.gguf", eagle_draft_new(false));
}

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: draft_variants FOLDER\n"), 2;
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(write_models, argv[1]),
                                       cmocka_unit_test_prestate(write_eagles, argv[1])};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
