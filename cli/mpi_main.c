/* gquant-mpi: the command on several ranks of MPI. All ranks get the same words. Rank 0 alone prints. */
#include <fcntl.h>
#include <unistd.h>

#include "base/comm/mpi.h"
#include "cli/cli.h"

static void discard_output(void) {
    int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere < 0) return;
    dup2(nowhere, STDOUT_FILENO), dup2(nowhere, STDERR_FILENO);
    close(nowhere);
}

int main(int argc, char **argv) {
    static mpi_ranks ranks;
    gq_error e = {0};
    if (!mpi_start(&ranks, &argc, &argv)) return GQ_FAILED;
    if (ranks.transport.rank > 0) discard_output();
    gq_comm *comm = gq_comm_new(&ranks.transport, &e);
    ranks.failed = !comm; /* the others wait for a rank that cannot speak */
    int status = comm ? command_line_main(argc, argv, comm) : say_failure(&(said){.log = -1}, &e);
    gq_comm_free(comm);
    fflush(NULL);
    mpi_stop(&ranks, status);
    return status;
}
