#include "base/relay.h"

#include <math.h>

#include "base/clock.h"

/* The most that is told before the end. */
static const double MOST_UNFINISHED = .9999;

/* Members of gq_callbacks have one `user`, so the others are passed on here. */
static void relay_tensor_done(void *data, size_t output, size_t tensor, const gq_loss *loss) {
    const progress_relay *r = data;
    r->to.tensor_done(r->to.user, output, tensor, loss);
}

static bool relay_is_cancelled(void *data) {
    const progress_relay *r = data;
    return r->to.cancelled(r->to.user);
}

const gq_callbacks *relay_callbacks(progress_relay *r,
                                    void (*on_progress)(void *relay, const gq_progress *of_part)) {
    r->own = (gq_callbacks){.size = sizeof r->own, .user = r};
    if (r->to.progress) r->own.progress = on_progress;
    if (r->to.tensor_done) r->own.tensor_done = relay_tensor_done;
    if (r->to.cancelled) r->own.cancelled = relay_is_cancelled;
    return &r->own;
}

gq_progress relay_progress(const progress_relay *r, const gq_progress *of_part) {
    gq_progress now = *of_part;
    double before = fmax(0, clock_seconds() - r->started - of_part->seconds);
    now.seconds += before, now.seconds_resumed += before;
    return now;
}

double relay_share(const progress_relay *r, double share) {
    return fmax(r->last.share, fmin(MOST_UNFINISHED, share));
}

void relay_tell(progress_relay *r, const gq_progress *now) {
    r->last = *now;
    r->to.progress(r->to.user, now);
}

void relay_end(progress_relay *r) {
    if (!r->last.size) return;
    gq_progress now = r->last;
    now.bytes_done = now.bytes_total, now.share = 1, now.seconds_left = 0, now.tensor = NULL;
    now.seconds = clock_seconds() - r->started;
    relay_tell(r, &now);
}
