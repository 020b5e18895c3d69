/* Whether the files under the outputs' names are what gq_run would write there: the one function that says
 * so. Sizes and headers are compared byte by byte (plan/earlier.c), the zeros behind tensors are looked at,
 * and tensors are proved by reading them and their sources, once for all outputs (run/reuse.c). A tensor that
 * was calibrated or transposed does not tell what weights it was made of, so the input's time of modification
 * decides there. */
#include "quantize/plan/earlier.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/safe_file.h"
#include "base/sized.h"
#include "quantize/input.h"
#include "quantize/plan/digests.h"
#include "quantize/plan/reuse.h"
#include "quantize/run/finalize.h"
#include "quantize/run/journal.h"
#include "quantize/run/reuse.h"
#include "quantize/study/sweep/checkpoint.h"

/* An output's file while it is checked. */
typedef struct earlier_file {
    model_source model; /* of zeros: not open */
    reuse_offer *offers;
} earlier_file;

/* Looks whether the names of an output's files are taken. */
static bool earlier_is_there(const plan_output *out) {
    struct stat st;
    bool any = false;
    for (uint32_t s = 0; s < out->n_shards; s++) any |= lstat(out->shards[s].path, &st) == 0;
    return any;
}

/* Whether the bytes between tensors are zeros. */
static bool earlier_check_padding(const gq_plan *plan, const plan_output *out, const model_source *m,
                                  gq_error *why) {
    uint8_t bytes[256];
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const plan_place *p = &out->places[i];
        for (uint64_t at = p->offset + out->tensors[i].out_bytes; at < p->end;) {
            size_t n = p->end - at < sizeof bytes ? (size_t)(p->end - at) : sizeof bytes;
            if (gq_read_at(m->files[p->shard]->fd, at, bytes, n) != n)
                return gq_fail(why, "it cannot be read behind %s", out->tensors[i].name);
            for (size_t k = 0; k < n; k++)
                if (bytes[k]) return gq_fail(why, "it is damaged behind %s", out->tensors[i].name);
            at += n;
        }
    }
    return true;
}

/* Offers all tensors of a file whose header is the plan's. */
static bool earlier_offer(const gq_plan *plan, const plan_output *out, earlier_file *f, gq_error *e) {
    const uint8_t *digests = digests_find(&f->model);
    const bool is_digested = digests && out->digests_at;
    f->offers = calloc(plan->n_tensors + 1, sizeof *f->offers);
    if (!f->offers) return gq_fail_memory(e, plan->n_tensors * sizeof *f->offers);
    for (size_t i = 0; i < plan->n_tensors; i++) { /* stored in the plan's order, as the header is the same */
        tensor_digest d = {.bytes = 0};
        if (is_digested) memcpy(&d, digests + i * sizeof d, sizeof d);
        f->offers[i] = (reuse_offer){&f->model, f->model.tensors[i], is_digested, d.source, d.bytes};
    }
    return true;
}

/* Opens an output's file and compares all but its tensors. false: *why says what differs. */
static bool earlier_open(const gq_plan *plan, const plan_output *out, earlier_file *f, gq_error *why) {
    gq_error problem = {0};
    if (!input_open(&f->model, out->shards[0].path, &problem)) {
        f->model = (model_source){.path = NULL};
        return gq_fail(why, "it is damaged: %s", problem.text);
    }
    return plan_compare_header(plan, out, &f->model, why) && earlier_check_padding(plan, out, &f->model, why);
}

/* Whether the tensors that were read prove the file. */
static bool earlier_proves(const reuse_reading *r, size_t output, const earlier_file *f, gq_error *why) {
    const gq_plan *plan = r->plan;
    const bool is_newer = plan_input_is_newer(plan, &f->model);
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const gq_tensor *t = &plan->outputs[output].tensors[i];
        if (!reuse_proves(r, output, i, why)) return false;
        if (is_newer && (t->calibrated || plan_transposes(&plan->sources[i])))
            return gq_fail(why,
                           "%s was modified after it was made, and nothing tells whether its %s is of the "
                           "same weights",
                           plan_input(plan), t->name);
    }
    return model_unchanged(&f->model, why) && model_unchanged(&plan->model, why);
}

static bool earlier_check_all(const gq_plan *plan, earlier_file *files, reuse_reading *r, gq_found *found,
                              const gq_callbacks *callbacks, gq_error *e) {
    size_t n = 0;
    for (size_t o = 0; o < plan->n_outputs; o++) {
        const plan_output *out = &plan->outputs[o];
        found[o].is_there = earlier_is_there(out);
        if (!found[o].is_there || !earlier_open(plan, out, &files[o], &found[o].why)) continue;
        if (!earlier_offer(plan, out, &files[o], e)) return false;
        r->offers[o] = files[o].offers, n++;
    }
    if (n && !reuse_read(r, 0, plan->chunks.n, callbacks, e)) return false;
    for (size_t o = 0; o < plan->n_outputs; o++)
        found[o].is_whole = r->offers[o] && earlier_proves(r, o, &files[o], &found[o].why);
    return true;
}

bool gq_check_earlier(const gq_plan *plan, gq_found *found, const gq_callbacks *callbacks, gq_error *e) {
    gq_callbacks called;
    reuse_reading r = {.plan = plan};
    memset(found, 0, plan->n_outputs * sizeof *found);
    if (!SIZED_TAKE(called, callbacks, e)) return false;
    earlier_file *files = calloc(plan->n_outputs, sizeof *files);
    bool ok = (files || gq_fail_memory(e, plan->n_outputs * sizeof *files)) &&
              reuse_reading_new(&r, plan, e) && earlier_check_all(plan, files, &r, found, &called, e);
    for (size_t o = 0; files && o < plan->n_outputs; o++) model_close(&files[o].model), free(files[o].offers);
    free(files);
    reuse_reading_free(&r);
    return ok;
}

void gq_clean_earlier(const gq_plan *plan, size_t output) {
    const plan_output *out = &plan->outputs[output];
    const char *first = out->shards[0].path;
    for (uint32_t s = 0; s < out->n_shards; s++) safe_file_clean(out->shards[s].temporary);
    finalize_clean(first); /* before the journals: it would be taken up without them */
    checkpoint_clean_kind(first, CHECKPOINT_CALIBRATION);
    journal_remove_all(first);
}
