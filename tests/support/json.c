#include "tests/support/json.h"

#include <jansson.h>

#include "tests/support/support.h"

static char *copy(const char *text) {
    char *made = strdup(text);
    assert_non_null(made);
    return made;
}

static json *items(json *j, size_t n) {
    j->n = n;
    j->items = calloc(n + 1, sizeof *j->items);
    assert_non_null(j->items);
    return j->items;
}

static void build(json *j, const json_t *v) {
    const char *key;
    json_t *member;
    size_t i;
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        j->kind = KIND_OBJECT;
        for (json *to = items(j, json_object_size(v)); to; to = NULL)
            json_object_foreach((json_t *)(uintptr_t)v, key, member) {
                to->key = copy(key);
                build(to++, member);
            }
        break;
    case JSON_ARRAY:
        j->kind = KIND_ARRAY;
        items(j, json_array_size(v));
        json_array_foreach(v, i, member) build(&j->items[i], member);
        break;
    case JSON_STRING:
        j->kind = KIND_STRING, j->text = copy(json_string_value(v));
        break;
    case JSON_INTEGER:
    case JSON_REAL:
        j->kind = KIND_NUMBER, j->number = json_number_value(v);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        j->kind = KIND_BOOL, j->number = json_is_true(v);
        break;
    case JSON_NULL:
        break;
    }
}

json *json_parse(const char *text) {
    json_error_t error;
    json_t *v = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    if (!v) fail_msg("JSON: line %d, column %d: %s", error.line, error.column, error.text);
    json *j = calloc(1, sizeof *j);
    assert_non_null(j);
    build(j, v);
    json_decref(v);
    return j;
}

json *json_file(const char *path) {
    char *text = (char *)read_whole(path, NULL);
    json *j = json_parse(text);
    free(text);
    return j;
}

static void release(json *j) {
    for (size_t i = 0; i < j->n; i++) release(&j->items[i]);
    free(j->items), free(j->key), free(j->text);
}

void json_free(json *j) {
    if (j) release(j);
    free(j);
}

const json *json_get(const json *j, const char *key) {
    for (size_t i = 0; j && i < j->n; i++)
        if (j->items[i].key && strcmp(j->items[i].key, key) == 0) return &j->items[i];
    return NULL;
}

const json *json_need(const json *j, const char *key) {
    const json *found = json_get(j, key);
    if (!found) fail_msg("JSON: no member '%s'", key);
    return found;
}

const char *json_text(const json *j, const char *key, const char *absent) {
    const json *found = json_get(j, key);
    return found && found->kind == KIND_STRING ? found->text : absent;
}

double json_number(const json *j, const char *key, double absent) {
    const json *found = json_get(j, key);
    return found && found->kind == KIND_NUMBER ? found->number : absent;
}

bool json_yes(const json *j, const char *key) {
    const json *found = json_get(j, key);
    return found && found->kind == KIND_BOOL && found->number != 0;
}

const json *json_named(const json *list, const char *key, const char *name) {
    for (size_t i = 0; list && i < list->n; i++)
        if (!strcmp(json_text(&list->items[i], key, ""), name)) return &list->items[i];
    return NULL;
}
