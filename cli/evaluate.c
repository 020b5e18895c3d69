#include "cli/commands.h"
#include "cli/say.h"

int evaluate_main(const request *r) {
    gq_error e = {0};
    if (r->speed) return speed_main(r);
    gq_fail_usage(&e, "nothing to evaluate: --speed tells how fast the models are here");
    return failed(&e);
}
