/* Ranks of MPI. Only gquant-mpi has this; the library never links MPI. */
#pragma once

#include "base/comm/comm.h"

typedef struct mpi_ranks {
    gq_transport transport;
    bool crowded; /* ranks outnumber the processors that they may use */
    bool failed;  /* a call of MPI did, so that nothing can be said to the other ranks any more */
} mpi_ranks;

/* Starts MPI. *r must not move in memory after that. False: MPI has said why. */
bool mpi_start(mpi_ranks *r, int *argc, char ***argv);
/* Ends MPI, on all ranks; where a call failed it ends them all with this status. */
void mpi_stop(const mpi_ranks *r, int status);
