/* The commands, each in a file of its own. They return the exit status. */
#pragma once

#include "cli/options/request.h"

/* The whole command. comm: the ranks that run it; NULL: this process alone. */
int command_line_main(int argc, char **argv, gq_comm *comm); /* command_line.c */

int quantize_main(const request *r);                 /* quantize.c */
int publish_main(const request *r);                  /* publish.c */
int info_main(const request *r);                     /* info.c */
int plan_main(const request *r);                     /* plan.c */
int compare_main(const request *r);                  /* compare.c */
int verify_main(const request *r);                   /* verify.c */
int evaluate_main(const request *r);                 /* evaluate.c */
int speed_main(const request *r);                    /* speed.c, of evaluate --speed */
int imatrix_main(const request *r);                  /* imatrix.c */
bool imatrix_compute(const request *r, gq_error *e); /* importance.c */
int tokenize_main(const request *r);                 /* tokenize.c */
int text_main(const request *r);                     /* sample_text.c */
int types_main(const request *r);                    /* types.c */
int completion_main(const request *r);               /* completion.c */
int help_main(const request *r);                     /* help.c */
void classes_print(void);                            /* classes.c, of help classes */
int hint_main(void);                                 /* short usage, for a command line without words */
int version_main(const request *r);
