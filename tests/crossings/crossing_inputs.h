/* A way to go wrong: what a command reads, named as what it writes. */
#pragma once

void inputs_as_outputs(void);
