/* forward_variants FOLDER: writes every model of tests/support/forward_models.c, outliers.gguf, of which a few inputs
 * are far larger than the others, and ids.u16 with the text. forward_variants FOLDER NAME...: writes these
 * alone, half as large, as seeds for fuzzing. */
#include "tests/support/evaluation_model.h"
#include "tests/support/forward_models.h"

typedef struct written_variants {
    const char *folder;
    char **names; /* empty: all */
} written_variants;

static bool is_wanted(const written_variants *w, const char *name) {
    for (char **n = w->names; *n; n++)
        if (!strcmp(*n, name)) return true;
    return !*w->names;
}

static void write_outliers(const char *folder) {
    model_save(evaluation_model_but(1, NULL, 100), in_folder(folder, "outliers.gguf"));
}

static void write_variants(void **state) {
    const written_variants *w = *state;
    uint16_t ids[VARIANT_IDS];
    char name[64];
    size_t n = 0, wanted = 0;
    for (size_t i = 0; i < VARIANT_IDS; i++) ids[i] = (uint16_t)variant_id(i);
    if (!*w->names) write_outliers(w->folder), write_whole(in_folder(w->folder, "ids.u16"), ids, sizeof ids);
    while (w->names[wanted]) wanted++;
    for (size_t i = 0; variant_at(i); i++) {
        if (!is_wanted(w, variant_at(i)->name)) continue;
        model *m = variant_model(variant_at(i), wanted ? GGUF_F16 : GGUF_F32, NULL);
        snprintf(name, sizeof name, "%s%s", variant_at(i)->name, wanted ? "" : ".gguf");
        model_save(m, in_folder(w->folder, name));
        n++;
    }
    assert_true(!wanted || n == wanted);
}

int main(int argc, char **argv) {
    if (argc < 2) return fprintf(stderr, "usage: forward_variants FOLDER [NAME...]\n"), 2;
    written_variants w = {argv[1], argv + 2};
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(write_variants, &w)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
