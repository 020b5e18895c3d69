#include <stdio.h>

#include "cli/commands.h"

static int run(const request *r) {
    if (r->help) return help_main(r);
    if (r->version) return version_main(r);
    return request_command(r)->run(r);
}

int main(int argc, char **argv) {
    request r;
    gq_error e = {0};
    int status = request_parse(&r, argc, argv, &e) ? run(&r) : failed(&e);
    request_free(&r);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("gquant: cannot write to standard output\n", stderr);
        return status ? status : GQ_FAILED;
    }
    return status;
}
