/* The page of a folder of models. */
#pragma once

#include "publish/publish.h"

/* Writes README.md, divergence.svg and SHA256SUMS into the folder (readme.c). */
bool publication_write_page(gq_publication *p, gq_error *e);
/* Whether a text is a hub's OWNER/NAME. */
bool publication_is_repository(const char *text, size_t n);
