/* The malformed corpus at the level of the reader. What only the meaning of keys and weights makes wrong is
 * not the reader's business: such files have to open. */
#include "gguf/gguf.h"
#include "tests/support/json.h"
#include "tests/support/support.h"

static char *folder;
static json *manifest;

FIXTURE(set_up) {
    if (!have_shared()) return 0;
    folder = temporary_folder();
    const char *argv[] = {"python3", GQ_SHARED "/malformed/make.py", folder, NULL};
    char path[4096];
    if (run_command(argv, NULL, NULL) != 0) return 0;
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    if (exists(path)) manifest = json_file(path);
    return 0;
}

FIXTURE(tear_down) {
    json_free(manifest);
    if (folder) remove_folder(folder);
    return 0;
}

static const json *cases(void) {
    if (!manifest) {
        print_message("skipped: needs python3 and %s/malformed/make.py\n", GQ_SHARED);
        skip();
    }
    return json_need(manifest, "cases");
}

/* Rejected because of what a key or a weight means. */
static bool beyond_the_reader(const char *id) {
    return strncmp(id, "data-", 5) == 0 || strncmp(id, "arch-", 5) == 0 || strcmp(id, "type-q4-input") == 0 ||
           strcmp(id, "split-second-nan") == 0;
}

/* NULL, or what is wrong with the reader's answer. */
static const char *judge(const json *c, bool opened, const char *path, const char *text) {
    const char *id = json_text(c, "id", ""), *expect = json_text(c, "expect", "");
    bool accept = strcmp(expect, "accept") == 0 || beyond_the_reader(id);
    if (opened) return accept || strcmp(expect, "either") == 0 ? NULL : "was accepted";
    if (accept) return "was refused";
    size_t length = (size_t)(strrchr(path, '/') - path); /* a message may name another shard */
    if (strncmp(text, path, length) != 0) return "does not name the file";
    const json *mention = json_get(c, "must_mention");
    for (size_t i = 0; mention && i < mention->n; i++)
        if (!strstr(text, mention->items[i].text)) return "does not mention what it should";
    return NULL;
}

TEST(models_are_accepted_and_refused_as_listed) {
    const json *list = cases();
    size_t wrong = 0, tried = 0;
    for (size_t i = 0; i < list->n; i++) {
        const json *c = &list->items[i];
        char path[4096];
        model_source m;
        gq_error e = {.text = ""};
        if (json_get(c, "imatrix") && json_get(c, "imatrix")->kind == KIND_STRING) continue;
        tried++;
        snprintf(path, sizeof path, "%s/%s", folder, json_text(c, "model", ""));
        bool opened = gguf_model_open(&m, path, &e);
        const char *fault = judge(c, opened, path, e.text);
        if (fault) print_message("%s: %s: %s\n", json_text(c, "id", ""), fault, e.text), wrong++;
        model_close(&m);
    }
    assert_true(tried > 200);
    assert_int_equal(wrong, 0);
}

TEST(importance_containers_open_when_they_are_whole) {
    const json *list = cases();
    for (size_t i = 0; i < list->n; i++) {
        const json *c = &list->items[i];
        char path[4096];
        gq_file file;
        gguf_shard s;
        gq_error e;
        if (strcmp(json_text(c, "kind", ""), "imatrix-gguf") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, json_text(c, "imatrix", ""));
        assert_true(gq_file_open(&file, path, &e));
        bool ok = gguf_shard_read(&s, &file, &e), accept = strcmp(json_text(c, "expect", ""), "accept") == 0;
        if (accept && !ok) fail_msg("%s: %s", json_text(c, "id", ""), e.text);
        gguf_shard_free(&s);
    }
}

int main(void) { return tests_run(set_up, tear_down); }
