/* Texts within pages. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "quantize/gquant_inspect.h"

/* Writes a text from a file within Markdown, on one line and without markup, or within HTML. */
void page_write_text(FILE *to, const char *text, size_t n, bool html);
/* Writes the name of a file beside the page as a link has it. */
void page_write_link(FILE *to, const char *name);
/* Writes n bytes and an end as one word of a shell, in quotes. */
void page_write_quoted(FILE *to, const char *text, size_t n, const char *end);
/* Writes a word of a shell, in quotes where it needs them. */
void page_write_word(FILE *to, const char *text);
/* Decimals with which a number above 0 keeps three digits, at most 8. */
int page_decimals(double number);
/* Formats bytes with three digits: "105 MB", "4.92 GB", with a blank that no line breaks at. */
const char *page_size(char to[24], uint64_t bytes);
/* The path's last part; points into it. */
const char *page_file_name(const char *path);

/* Returns what `write` prints, of *n bytes, malloc'ed. */
char *page_text(void (*write)(FILE *to, const void *what), const void *what, size_t *n, gq_error *e);
/* Gets the value of a key that is no list. */
bool page_model_value(const gq_model *m, const char *key, gq_value *v);
/* Returns a model's text of *n bytes under a key; points into the model. NULL: it has none. */
const char *page_model_text(const gq_model *m, const char *key, size_t *n);
