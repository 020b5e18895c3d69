/* Values of a template's language (Jinja), and the memory that all of one rendering are in. Memory that is not
 * there, or beyond MOST_BYTES, is noted in is_full; texts and lists are then shorter than they should be. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct jinja_memory {
    struct jinja_block *last;
    size_t total; /* bytes of all blocks */
    bool is_full;
} jinja_memory;

typedef enum jinja_kind {
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_NUMBER,
    JINJA_TEXT,
    JINJA_LIST,
    JINJA_DICT,
    JINJA_MACRO,
    JINJA_FUNCTION
} jinja_kind;

/* UTF-8, without a NUL at its end. */
typedef struct jinja_text {
    const char *at;
    size_t n;
} jinja_text;

typedef struct jinja_value {
    jinja_kind kind;
    union {
        int64_t
            number; /* of a bool 0 or 1; of a macro the number of its first token; of a function its number */
        jinja_text text;
        struct jinja_list *list; /* of a dict: keys and values in turn */
    };
} jinja_value;

typedef struct jinja_list {
    jinja_value *items;
    size_t n, capacity;
} jinja_list;

/* Returns n zeroed bytes; NULL: there are none. */
void *jinja_take(jinja_memory *m, size_t n);
void jinja_memory_free(jinja_memory *m);

jinja_value jinja_number(int64_t n);
jinja_value jinja_bool(bool is);
jinja_value jinja_text_of(const char *text); /* not copied */
jinja_value jinja_text_value(const char *at, size_t n);
jinja_value jinja_join(jinja_memory *m, jinja_text a, jinja_text b);
/* Returns an empty list or dict. */
jinja_value jinja_collection(jinja_memory *m, jinja_kind kind);
void jinja_add(jinja_memory *m, jinja_value list, jinja_value item);
/* Returns where a dict has the value of a key; NULL: nowhere. */
jinja_value *jinja_find(jinja_value dict, jinja_text key);
void jinja_set(jinja_memory *m, jinja_value dict, jinja_text key, jinja_value value);

bool jinja_text_is(jinja_text a, const char *b);
bool jinja_text_has(jinja_text text, jinja_text piece);
bool jinja_is_true(jinja_value v);
bool jinja_equal(jinja_value a, jinja_value b, int depth);
/* Returns what {{ }} prints of a value; false: of lists and the like, which templates do not print. */
bool jinja_print(jinja_memory *m, jinja_value v, jinja_text *to);
/* Returns JSON as Python's json.dumps writes it. */
jinja_text jinja_json(jinja_memory *m, jinja_value v, int depth);
