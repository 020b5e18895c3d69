#include "tests/support/quant_kld.h"

#include "quantize/gquant.h"
#include "tests/support/support.h"

double quant_kld(const char *original, const char *copy, const char *ids, uint32_t context) {
    gq_error e;
    size_t n;
    gq_evaluation *v = gq_evaluate(
        &(gq_evaluation_request){.size = sizeof(gq_evaluation_request),
                                 .base_model = original,
                                 .quants = &copy,
                                 .n_quants = 1,
                                 .text = {.bytes = ids, .n = strlen(ids), .ids = true, .context = context},
                                 .threads = 1},
        &e);
    if (!v) fail_msg("%s", e.text);
    double kl = gq_evaluation_models(v, &n)[1].kld.value;
    gq_evaluation_free(v);
    return kl;
}
