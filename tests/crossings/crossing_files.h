/* What runs leave behind, compared. Texts that are handed out are malloc'ed; NULL: there is no difference. */
#pragma once

#include "tests/support/support.h"

typedef struct file_list {
    size_t n;
    char **names; /* sorted */
} file_list;
/* Names in a folder, hidden ones included, without those that begin with `but` (NULL: all). */
file_list files_in(const char *folder, const char *but);
/* One name for each model: later shards are left out. */
file_list files_first(const char *folder);
void files_free(file_list *files);

/* Same names, same bytes; `but` as in files_in. */
char *files_difference(const char *a, const char *b, const char *but);
/* Whether a file lies under its final name. */
bool exists_output(const char *folder);

/* A JSON report without what changes from run to run. */
char *report_facts(const char *path);
/* Tensors of a comparison have the errors that the run's report says. */
char *reports_difference(const char *run, const char *comparison);
/* The files in the folder are as large as the plan said. */
char *sizes_difference(const char *folder, const char *plan);
/* A shard of more bytes and more than one tensor. */
char *shards_above(const char *folder, uint64_t most);
