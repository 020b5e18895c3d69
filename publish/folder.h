/* The contents of a published folder before a call: files of the model from earlier calls, a page with its owner's
 * text, checksums of other files. All of it is kept, or stops the work. */
#pragma once

#include "publish/publish.h"

/* Locks the folder against another call that makes files of it, until the publication is freed. */
bool folder_lock(gq_publication *p, gq_error *e);
/* Returns the path of a file in the folder, malloc'ed. NULL: *e says why. */
char *folder_path(const gq_publication *p, const char *name, gq_error *e);
/* Lists the files of the page: the outputs, and what earlier calls have made of the same model. Warns of models
 * in the folder that the page does not name. */
bool folder_list_files(gq_publication *p, gq_error *e);
/* Whether all that is there can be kept: to be asked before the work. */
bool folder_check(const gq_publication *p, gq_error *e);

/* Takes from README.md of an earlier call what this one does not name: the base model, and what p->kept then has. false:
 * no memory. */
bool folder_recall(gq_publication *p, gq_error *e);

/* Writes README.md of its front matter and its text. What stands around the text in the file that is there is
 * kept, and so is a front matter that somebody has changed. */
bool folder_write_page(gq_publication *p, const char *front, const char *text, gq_error *e);
/* Writes the chart, with a mark that shows whether it was changed. */
bool folder_write_chart(const gq_publication *p, const char *chart, gq_error *e);
/* Writes SHA256SUMS of lines; those of other files that already exist follow them. */
bool folder_write_sums(gq_publication *p, const char *lines, gq_error *e);
/* Makes .gitattributes route models through LFS or Xet; its other lines stay. */
bool folder_write_attributes(const gq_publication *p, gq_error *e);
