/* Beginnings and ends of names. */
#pragma once

#include <stdbool.h>
#include <string.h>

static inline bool name_ends(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* Whether a name is one of a list, or ends with one; the list ends with NULL. */
static inline bool name_is_one(const char *name, const char *const *list) {
    while (*list && strcmp(*list, name) != 0) list++;
    return *list;
}
static inline bool name_ends_with_one(const char *name, const char *const *list) {
    while (*list && !name_ends(name, *list)) list++;
    return *list;
}

/* Returns what follows a beginning; NULL: the name begins otherwise. */
static inline const char *name_behind(const char *name, const char *begin) {
    size_t n = strlen(begin);
    return strncmp(name, begin, n) == 0 ? name + n : NULL;
}

/* Whether a name begins with what is before a '*', or with all, and has somewhere behind that what follows. */
static inline bool name_begins(const char *name, const char *part) {
    size_t n = strcspn(part, "*");
    return strncmp(name, part, n) == 0 && (part[n] == 0 || strstr(name + n, part + n + 1));
}

/* Whether a list, which ends with NULL, has a text that a name contains; with "^" in front: begins with, and has
 * what is behind a '*' somewhere after that. */
static inline bool hf_names_match(const char *const *list, const char *name) {
    for (; list && *list; list++)
        if (**list == '^' ? name_begins(name, *list + 1) : strstr(name, *list) != NULL) return true;
    return false;
}
