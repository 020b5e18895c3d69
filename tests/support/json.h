/* JSON for tests: the text as a tree. Malformed text fails the test. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef enum json_kind { KIND_NULL, KIND_BOOL, KIND_NUMBER, KIND_STRING, KIND_ARRAY, KIND_OBJECT } json_kind;

typedef struct json {
    json_kind kind;
    char *key;          /* in an object, else NULL */
    char *text;         /* of a string */
    double number;      /* of a number; 1 and 0 for true and false */
    size_t n;           /* of an array or object */
    struct json *items; /* n of them */
} json;

json *json_parse(const char *text);
json *json_file(const char *path);
void json_free(json *j);

/* Member of an object, NULL when j is NULL or has none of this name. */
const json *json_get(const json *j, const char *key);
/* The same where it must be there. */
const json *json_need(const json *j, const char *key);
/* Member as text or number, or what is given when it is absent. */
const char *json_text(const json *j, const char *key, const char *absent);
double json_number(const json *j, const char *key, double absent);
bool json_yes(const json *j, const char *key);
/* The element of a list whose member is this text; NULL: there is none, or no list. */
const json *json_named(const json *list, const char *key, const char *name);
