/* Folders as they were at a moment, and damage to files. */
#pragma once

#include "tests/support/support.h"

/* Names and bytes of the files in a folder, hidden ones included. */
typedef struct snapshot {
    size_t n;
    struct snapshot_file {
        char *name;
        uint8_t *bytes;
        size_t size;
    } * files;
} snapshot;
snapshot snapshot_take(const char *folder);
void snapshot_free(snapshot *s);
/* What differs there now, malloc'ed; NULL: nothing. Measurements that targets keep do not count. */
char *snapshot_difference(const snapshot *s, const char *folder);
/* Remove what has been made there since, but for hidden files. */
void snapshot_remove_new(const snapshot *s, const char *folder);
/* A file that is not there any more, or NULL. */
const char *snapshot_lost(const snapshot *s, const char *folder);
/* The files as they were then, in a folder that has none of them. */
void snapshot_write(const snapshot *s, const char *folder);

/* Change a file at random: a bit, a stretch of bytes, its length. Says how, in a static text. */
const char *damage_file(const char *path);
