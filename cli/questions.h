/* Questions with several choices, from a file with one JSON object a line. */
#pragma once

#include <jansson.h>

#include "quantize/gquant_study.h"

typedef struct questions {
    gq_question *items; /* their texts belong to `rows` */
    size_t n;
    json_t *rows;
} questions;

/* Reads {"question": "...", "choices": ["...", ...], "answer": 0}: the number of the right choice, its letter, A
 * for the first one, or its text. False: *e names the line. */
bool questions_read(questions *q, const char *path, gq_error *e);
void questions_free(questions *q); /* also one of zeros */
