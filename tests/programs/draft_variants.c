/* draft_variants FOLDER: writes the models of tests/support/draft_models.c, drafts of
 * tests/support/target_drafts.c with their targets, and ids.u16 with the text. */
#include "tests/support/draft_models.h"

static void write_model(const char *folder, const char *name, model *m) {
    model_save(m, in_folder(folder, name));
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

/* "drafts.txt": a line for each, "NAME TARGET". */
static void write_target_drafts(void **state) {
    char name[64], lines[1024];
    size_t n = 0;
    write_model(*state, "continued-target.gguf", target_new("target"));
    write_model(*state, "continued-gemma4-target.gguf", target_new("gemma4-target"));
    for (size_t i = 0; target_draft_at(i); i++) {
        const char *draft = target_draft_at(i);
        snprintf(name, sizeof name, "continued-%s.gguf", draft);
        write_model(*state, name, target_draft_new(draft));
        n += (size_t)snprintf(lines + n, sizeof lines - n, "%s %s\n", draft, target_of_draft(draft));
    }
    write_whole(in_folder(*state, "drafts.txt"), lines, n);
}

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: draft_variants FOLDER\n"), 2;
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(write_models, argv[1]),
                                       cmocka_unit_test_prestate(write_target_drafts, argv[1])};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
