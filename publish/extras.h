/* Files of a published folder besides models, page, chart and checksums: the importance matrix, .gitattributes. */
#pragma once

#include "publish/publish.h"

/* Names the importance matrix's file in the folder: p->imatrix_name. */
bool publication_name_imatrix(gq_publication *p, gq_error *e);
/* Whether the importance matrix is in the folder, or can be copied there. */
bool publication_check_extras(const gq_publication *p, gq_error *e);
/* Copies the importance matrix into the folder, and has .gitattributes send large files through LFS or Xet. */
bool publication_write_extras(gq_publication *p, gq_error *e);
