/* A way to go wrong: what a command reads, named as what it writes. */
#ifndef GQ_TEST_CROSSING_INPUTS_H
#define GQ_TEST_CROSSING_INPUTS_H

void inputs_as_outputs(void);

#endif
