/* --progress json and --log-file: what happens, for programs, as one JSON object per line. docs/reports.md lists the
 * members.
 *
 * A line is made in a buffer and written with one call, so that lines never mix and nothing is allocated:
 * some are written from callbacks. A reader that has gone is not missed. */
#pragma once

#include "quantize/gquant_common.h"

enum { EVENT_ROOM = 4096 };
typedef struct event {
    char text[EVENT_ROOM];
    size_t n;
} event;

/* phase NULL: of no phase. */
void event_begin(event *v, const char *name, const char *phase);
/* Members. Bytes that are not UTF-8 are written as in reports; a text that is too long is cut. */
void event_text(event *v, const char *key, const char *text);
void event_count(event *v, const char *key, uint64_t n);
void event_number(event *v, const char *key, double value); /* NaN and infinity: null */
/* Ends the line and writes it to the descriptor (-1: none) and to the log. */
void event_send(event *v, int fd);

/* Opens the log, which all events go to from then on, behind what the file has. path NULL: there is none. */
bool event_log_open(const char *path, gq_error *e);
bool event_log_is_open(void);
