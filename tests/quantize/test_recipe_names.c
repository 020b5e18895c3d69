/* Types by other names than a file type's: recipes, the size of a file type, the types of another file. */
#include "tests/support/command.h"
#include "tests/support/folder.h"

#include <sys/stat.h>

static off_t size_of(const char *file) {
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    return st.st_size;
}

/* A name makes what its base type and its items make. */
TEST(recipes_have_names) {
    const gq_named_recipe *r;
    for (size_t i = 0; (r = gq_named_recipe_at(i)); i++) {
        assert_true(gq_filetype_find(r->filetype) >= 0 && gq_filetype_find(r->name) < 0);
        char *text = PRINTED("types", r->name);
        says(text, r->items);
        write_whole(path("items.txt"), text, strlen(text));
        free(text);
        GQUANT(0, "-q", "--force", "--tensor-type-file", path("items.txt"), path("in.gguf"), path("a.gguf"),
               r->filetype);
        GQUANT(0, "-q", "--force", path("in.gguf"), path("b.gguf"), r->name);
        assert_same_file(path("a.gguf"), path("b.gguf"));
    }
    GQUANT_SAYS(2, "unknown file type 'Q4', did you mean Q4_K_M?", "types", "Q4");
    char *about = PRINTED("types", "q4_k_m");
    assert_int_equal(strncmp(about, "Q4_K_M: the usual choice", 24), 0);
    free(about);
    /* Each output has its own; the user's patterns are stronger. */
    GQUANT(0, "-q", "--out-dir", path("dir"), path("in.gguf"), "q4_k_l", "Q4_K_M");
    GQUANT(0, "-q", path("in.gguf"), path("c.gguf"), "Q4_K_L");
    assert_same_file(path("dir/in-Q4_K_L.gguf"), path("c.gguf"));
    GQUANT(0, "-q", path("in.gguf"), path("d.gguf"), "Q4_K_M");
    assert_same_file(path("dir/in-Q4_K_M.gguf"), path("d.gguf"));
    GQUANT(0, "-q", "--tensor-type", "^token_embd=Q5_0", path("in.gguf"), path("e.gguf"), "Q4_K_L");
    model_source m = open_model(path("e.gguf"));
    assert_int_equal(model_tensor_named(&m, "token_embd.weight")->type->id, GGUF_Q5_0);
    assert_int_equal(model_tensor_named(&m, "output.weight")->type->id, GGUF_Q8_0);
    model_close(&m);
}

TEST(a_types_size_is_a_target) {
    GQUANT(0, "-q", path("in.gguf"), path("plain.gguf"), "Q5_K_M");
    GQUANT(0, "-q", "--target-size", "Q5_K_M", path("in.gguf"), path("sized.gguf"));
    off_t wanted = size_of(path("plain.gguf")), got = size_of(path("sized.gguf"));
    assert_true(got <= wanted && got > wanted * 9 / 10);
    char bytes[32];
    snprintf(bytes, sizeof bytes, "%lld", (long long)wanted);
    GQUANT(0, "-q", "--target-size", bytes, path("in.gguf"), path("asked.gguf"));
    assert_same_file(path("sized.gguf"), path("asked.gguf"));
    GQUANT(0, "-q", "--target-size", "Q4_K_L", "--out-dir", path("dir"), path("in.gguf"), "Q8_0");
    assert_true(exists(path("dir/in-Q4_K_L-size.gguf")));
    GQUANT_SAYS(2, "expected a size", "--target-size", "Q4_K_X", path("in.gguf"));
}

TEST(types_of_another_file) {
    GQUANT(0, "-q", "--tensor-type", "attn_v=Q5_1", path("in.gguf"), path("other.gguf"), "Q3_K_M");
    GQUANT(0, "-q", "--like", path("other.gguf"), path("in.gguf"), path("like.gguf"));
    assert_same_file(path("other.gguf"), path("like.gguf"));
    GQUANT(0, "-q", "--force", "--like", path("other.gguf"), path("in.gguf"), path("like.gguf"), "Q3_K_M",
           "2");
    assert_same_file(path("other.gguf"), path("like.gguf"));
    GQUANT_SAYS(1, "none.gguf", "--like", path("none.gguf"), path("in.gguf"));
}

int main(void) { return tests_run(folder_with_model, folder_remove); }
