/* --progress json: what happens, for programs, as one JSON object per line. docs/reports.md lists the
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

void event_begin(event *v, const char *name, const char *phase);
/* Members. Bytes that are not UTF-8 are written as in reports; a text that is too long is cut. */
void event_text(event *v, const char *key, const char *text);
void event_count(event *v, const char *key, uint64_t n);
void event_number(event *v, const char *key, double value); /* NaN and infinity: null */
void event_send(event *v, int fd);
