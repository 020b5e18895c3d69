/* The model card of a folder of models. */
#pragma once

#include "publish/publish.h"

/* Writes README.md, divergence.svg and SHA256SUMS into the folder. */
bool publication_write_page(gq_publication *p, gq_error *e);
