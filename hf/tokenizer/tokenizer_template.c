#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf/tokenizer/tokenizer.h"

enum { TEMPLATES_MOST = 256 }; /* each is a key, which are looked up one by one */
static const char ALONE[] = "tokenizer.chat_template", NAMES[] = "tokenizer.chat_templates";
static const char MORE[] = "additional_chat_templates";

/* ---- files ---- */

/* Reads a template's file; lines end in '\n' whatever the file has. *text NULL: there is no such file. */
static bool template_read_file(const hf_tokenizer *t, const char *name, json_t **text, gq_error *e) {
    char *bytes;
    size_t n, length = 0;
    *text = NULL;
    if (!hf_folder_text(t->folder, name, &bytes, &n, e)) return false;
    if (!bytes) return true;
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != '\r')
            bytes[length++] = bytes[i];
        else if (i + 1 == n || bytes[i + 1] != '\n')
            bytes[length++] = '\n';
    bool ok = hf_is_utf8(bytes, length) || hf_tokenizer_fail(t, name, e, "not UTF-8");
    if (ok) ok = (*text = json_stringn(bytes, length)) || gq_fail_memory(e, length);
    free(bytes);
    return ok;
}

/* Adds the named template of one file to a list. */
static bool template_list_file(const hf_tokenizer *t, const char *name, json_t *list, gq_error *e) {
    size_t n = sizeof MORE + 1 + strlen(name);
    char *path = malloc(n);
    json_t *text = NULL;
    if (!path) return gq_fail_memory(e, n);
    snprintf(path, n, "%s/%s", MORE, name);
    bool ok = template_read_file(t, path, &text, e);
    free(path);
    if (!ok) return false;
    return !text ||
           json_array_append_new(list, json_pack("{s:s%, s:o}", "name", name, strlen(name) - strlen(".jinja"),
                                                 "template", text)) == 0 ||
           gq_fail_memory(e, 0);
}

/* Lists templates: the one that is meant without a name, which is taken over, and those of the folder's
 * folder. */
static json_t *template_list_files(const hf_tokenizer *t, json_t *alone, gq_error *e) {
    char **names = NULL;
    size_t n = 0;
    hf_folder folder = {.path = hf_folder_path(t->folder, MORE, e)};
    json_t *list = json_pack("[{s:s, s:o}]", "name", "default", "template", alone);
    bool ok =
        (list || gq_fail_memory(e, 0)) && folder.path && hf_folder_list(&folder, "", ".jinja", &names, &n, e);
    free(folder.path);
    for (size_t i = 0; ok && i < n; i++) ok = template_list_file(t, names[i], list, e);
    if (names) hf_names_free(names, n);
    if (ok) return list;
    json_decref(list);
    return NULL;
}

/* Returns the template that tokenizer_config.json has without a name; NULL: none. */
static const json_t *template_alone(const json_t *setting) {
    const json_t *element;
    size_t i;
    if (!json_is_array(setting)) return setting;
    json_array_foreach((json_t *)setting, i, element) {
        if (hf_json_is(json_object_get(element, "name"), "default"))
            return json_object_get(element, "template");
    }
    return NULL;
}

/* Compares two texts but for newlines at their ends, which make no difference to a template. */
static bool template_same(const json_t *a, const json_t *b) {
    const char *x = json_string_value(a), *y = json_string_value(b);
    size_t n = json_string_length(a), m = json_string_length(b);
    while (n && x[n - 1] == '\n') n--;
    while (m && y[m - 1] == '\n') m--;
    return json_is_string(a) && json_is_string(b) && n == m && memcmp(x, y, n) == 0;
}

/* Warns where a file's template is another than that of tokenizer_config.json. */
static bool template_compare(const hf_tokenizer *t, const char *file, const json_t *text,
                             const json_t *setting, const char *taken, gq_error *e) {
    return !setting || template_same(text, template_alone(setting)) ||
           hf_folder_warn(
               t->folder, file, e, "the chat template differs from tokenizer_config.json's%s: %s is written",
               json_string_length(setting) || json_array_size(setting) ? "" : ", which is empty", taken);
}

/* Reads the template of chat_template.json, where that file is there. */
static bool template_read_json(const hf_tokenizer *t, json_t **text, gq_error *e) {
    json_t *file;
    if (!hf_folder_json(t->folder, "chat_template.json", &file, e)) return false;
    *text = json_incref(json_object_get(file, "chat_template"));
    json_decref(file);
    return true;
}

/* Finds the template, or a list of several, which the caller releases; *found NULL: there is none. As
 * transformers has it, chat_template.jinja goes before tokenizer_config.json, and this before
 * chat_template.json. */
static bool template_find(const hf_tokenizer *t, json_t **found, gq_error *e) {
    json_t *setting = json_object_get(t->settings, "chat_template"), *file = NULL;
    if (json_is_null(setting)) setting = NULL;
    if (!template_read_file(t, "chat_template.jinja", found, e)) return false;
    if (*found && !template_compare(t, "chat_template.jinja", *found, setting, "that of the file", e))
        return json_decref(*found), *found = NULL, false;
    if (*found && !(setting && template_same(*found, template_alone(setting))))
        return !hf_folder_has(t->folder, MORE) || (*found = template_list_files(t, *found, e)) != NULL;
    json_decref(*found), *found = NULL;
    if (!template_read_json(t, &file, e)) return false;
    bool ok = !file || template_compare(t, "chat_template.json", file, setting, "the latter", e);
    if (ok) *found = json_incref(setting ? setting : file);
    json_decref(file);
    return ok;
}

/* ---- writing ---- */

/* Writes an unnamed template; an empty one is none. */
static bool template_write(hf_tokenizer *t, const char *key, const json_t *text, gq_error *e) {
    size_t n = json_string_length(text);
    return n == 0 || hf_metadata_string(t->metadata, key, json_string_value(text), n, e);
}

/* Copies a name with '_' for each character that a key cannot have. */
static void template_copy_name(char *to, const char *name, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if ((name[i] & 0xc0) == 0x80) continue; /* of a character that has its '_' */
        *to++ = (char)((uint8_t)name[i] < 128 && isalnum((uint8_t)name[i]) ? name[i] : '_');
    }
    *to = 0;
}

/* Writes an element of a list, and adds its name to `names`. */
static bool template_write_named(hf_tokenizer *t, const json_t *element, json_t *names, gq_error *e) {
    const json_t *name = json_object_get(element, "name"), *text = json_object_get(element, "template");
    size_t n = json_string_length(name);
    char *key = malloc(sizeof ALONE + 1 + n), *part;
    if (!key) return gq_fail_memory(e, n);
    bool ok = true;
    part = key + sizeof ALONE;
    memcpy(key, ALONE, sizeof ALONE), part[-1] = '.';
    template_copy_name(part, json_string_value(name), n);
    if (n == 0 || !json_is_string(text))
        ok = hf_folder_warn(t->folder, "tokenizer_config.json", e,
                            "a chat template has no name or no text; it is left out");
    else if (strcmp(part, "default") == 0)
        ok = template_write(t, ALONE, text, e);
    else
        ok = template_write(t, key, text, e) &&
             (json_object_set_new(names, part, json_true()) == 0 || gq_fail_memory(e, n));
    free(key);
    return ok;
}

static bool template_write_list(hf_tokenizer *t, const json_t *list, gq_error *e) {
    json_t *names = json_object();
    const json_t *element;
    const char *name;
    json_t *is_there;
    size_t i;
    bool ok = names || gq_fail_memory(e, 0);
    if (json_array_size(list) > TEMPLATES_MOST)
        ok = hf_tokenizer_fail(t, "tokenizer_config.json", e, "%zu chat templates, expected at most %d",
                               json_array_size(list), TEMPLATES_MOST);
    json_array_foreach(list, i, element) { ok = ok && template_write_named(t, element, names, e); }
    json_object_foreach(names, name, is_there) {
        ok = ok && hf_metadata_add_string(t->metadata, name, strlen(name), e);
    }
    json_decref(names);
    return ok && hf_metadata_array(t->metadata, NAMES, GGUF_STRING, e);
}

bool hf_templates_write(hf_tokenizer *t, gq_error *e) {
    json_t *found;
    if (!template_find(t, &found, e)) return false;
    bool ok = json_is_array(found) ? template_write_list(t, found, e) : template_write(t, ALONE, found, e);
    json_decref(found);
    return ok;
}
