/* The page of a folder of models. */
#ifndef GQ_PUBLISH_README_H
#define GQ_PUBLISH_README_H

#include "publish/publish.h"

/* Writes README.md, divergence.svg and SHA256SUMS into the folder (readme.c). */
bool publication_write_page(const gq_publication *p, gq_error *e);
/* Whether a README.md is one that publication_write_page has written. */
bool publication_is_page(const char *text);
/* Whether a text is a hub's OWNER/NAME. */
bool publication_is_repository(const char *text, size_t n);

#endif
