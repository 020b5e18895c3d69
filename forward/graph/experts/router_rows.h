/* The rows by which routers choose experts, for callers that compare experts' inputs. */
#pragma once

#include "forward/graph/forward.h"

/* Whether t is the router of a layer, and the experts that layer i's router chooses from; 0: it has none. */
bool forward_is_router(const forward_model *m, const model_tensor *t);
size_t forward_router_rows(const forward_model *m, size_t i);

/* rows[forward_router_rows][width] of layer i: what a state gives, but for its length, by which the router
 * chooses experts. The norm's weights before the router are in it, and only differences of experts. */
bool forward_router_read(const forward_model *m, size_t i, float *rows, gq_error *e);
