#include "study/calibrate/calibrate.h"

#include <stdlib.h>

float site_adds(const calibration_settings *s, const forward_model *m, const model_tensor *weight) {
    return calibration_does(s, CALIBRATE_STATE) ? forward_adds(m, weight) : 0;
}

site_sizes site_sizes_of(const calibration_settings *s, const forward_model *m, const site_weight *w,
                         size_t batch_windows) {
    uint64_t width = w->tensor->ne[0];
    bool is_state = site_adds(s, m, w->tensor) != 0;
    return (site_sizes){.shape = {.columns = width,
                                  .width = s->width < width ? s->width : width,
                                  .two_streams = !is_state,
                                  .group_tokens = token_group_size(s->context),
                                  .target_features = is_state ? w->tensor->ne[1] : 0,
                                  .arithmetic = calibration_arithmetic(s)},
                        .matrices = w->matrices,
                        .met = w->routed ? w->met : w->matrices,
                        .tokens = batch_windows * s->context,
                        .held = calibration_held_most(s, w->routed),
                        .repeats = w->late ? w->met : 1,
                        .taped = w->taped * s->context,
                        .routed = w->routed};
}

void site_inputs_free(site_inputs *inputs) {
    hessian_free(inputs->hessian);
    free(inputs->base), free(inputs->rounded);
    *inputs = (site_inputs){.held = 0};
}

void site_free(site *s) {
    for (size_t i = 0; s->inputs && i < s->end - s->first; i++) site_inputs_free(&s->inputs[i]);
    free(s->inputs);
    *s = (site){.n_weights = 0};
}

size_t site_matrices_at_once(size_t left, uint64_t fit, bool routed, size_t ranks) {
    size_t n = min(left, max(fit, 1));
    return routed && left >= ranks ? min(left, max(n, n * ranks)) : n;
}

uint64_t site_turn(const model_tensor *weight, size_t first) {
    model_block b;
    return (model_block_in(weight->name, &b) ? b.number : 0) + first;
}

int site_owner(const site *s, const gq_comm *comm, size_t i) {
    int rank = 0;
    uint64_t turn = site_turn(s->weights[0], s->first);
    while (comm_share_in_turn(comm, s->end - s->first, turn, rank + 1) <= i) rank++;
    return rank;
}

site_inputs site_take(site *s, size_t i) {
    site_inputs taken = s->inputs[i];
    s->inputs[i] = (site_inputs){.held = 0};
    return taken;
}
