#include "tests/runs.h"

#include <string.h>

static void count_chunk(void *user, const gq_progress *p) {
    stopper *s = user;
    s->chunks++;
    s->resumed = p->bytes_resumed, s->done = p->bytes_done, s->total = p->bytes_total;
    s->last = *p;
}

static bool is_enough(void *user) {
    const stopper *s = user;
    return s->after && s->chunks >= s->after;
}

gq_status run_some(const gq_options *options, stopper *s, gq_error *e) {
    gq_callbacks callbacks = {s, count_chunk, NULL, is_enough};
    gq_plan *plan = gq_plan_new(options, e);
    if (!plan) fail_msg("%s", e->text);
    e->status = GQ_OK;
    gq_status status = gq_run(plan, &callbacks, e) ? GQ_OK : e->status;
    gq_plan_free(plan);
    return status;
}

bool announced(const gq_options *options, const char *says) {
    gq_error e;
    size_t n;
    gq_plan *plan = gq_plan_new(options, &e);
    if (!plan) fail_msg("%s", e.text);
    const char *const *warnings = gq_plan_warnings(plan, &n);
    bool found = false;
    for (size_t i = 0; i < n; i++) found = found || strstr(warnings[i], says);
    gq_plan_free(plan);
    return found;
}
