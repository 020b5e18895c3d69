/* Chooses the tensors that a run copies from earlier outputs. A digest in a file is a claim; three things prove it
 * here: the source's weights have the checksum that they had, the copy's bytes have theirs, and in each chunk of
 * about a million weights the first strip, encoded now, gives the copy's bytes. The last one finds another version's
 * encoders, and files with false digests. It costs a sixteenth of encoding. */
#include "quantize/run/run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checksum.h"
#include "base/safe_file.h"
#include "base/sized.h"
#include "quantize/plan/rounding.h"
#include "quantize/quantize.h"

/* ---- reading ---- */

/* Results of reading the sources and the offered files. */
typedef struct reuse_reading {
    const gq_plan *plan;
    const struct reuse_offer **offers; /* per output a list of tensors; NULL: none */
    uint32_t *sources;                 /* per tensor: checksum of its weights, if an offer needs it */
    uint32_t *bytes;                   /* per output and tensor: of the blocks offered */
    bool *unlike;                      /* the same: encoding the weights gives other blocks */
} reuse_reading;

typedef struct reuse_job {
    reuse_reading *reading;
    work_scratches scratches;
} reuse_job;

/* Makes room for a plan's; the caller fills ->offers, and frees *r also after a failure. */
static bool reuse_reading_new(reuse_reading *r, const gq_plan *plan, gq_error *e) {
    const size_t n = plan->n_tensors, all = plan->n_outputs * n + 1;
    *r = (reuse_reading){.plan = plan,
                         .offers = calloc(plan->n_outputs, sizeof *r->offers),
                         .sources = calloc(n + 1, sizeof *r->sources),
                         .bytes = calloc(all, sizeof *r->bytes),
                         .unlike = calloc(all, sizeof *r->unlike)};
    return (r->offers && r->sources && r->bytes && r->unlike) || gq_fail_memory(e, all * sizeof *r->bytes);
}

static void reuse_reading_free(reuse_reading *r) {
    free((void *)r->offers), free(r->sources), free(r->bytes), free(r->unlike);
    *r = (reuse_reading){.plan = NULL};
}

static const reuse_offer *offer_of(const reuse_reading *r, size_t output, size_t tensor) {
    const reuse_offer *offer = r->offers[output] ? &r->offers[output][tensor] : NULL;
    return offer && offer->from ? offer : NULL;
}

static bool reuse_is_offered(const reuse_reading *r, size_t tensor) {
    for (size_t o = 0; o < r->plan->n_outputs; o++)
        if (offer_of(r, o, tensor)) return true;
    return false;
}

static bool reuse_check_chunk(void *arg, work_piece *p, gq_error *e) {
    const reuse_job *j = arg;
    const gq_plan *plan = j->reading->plan;
    size_t tensor = chunk_tensor(&plan->chunks, p->number);
    p->weights = 1;
    if (!reuse_is_offered(j->reading, tensor)) return true;
    work_tensor *t = work_tensor_open(plan, tensor, NULL, e);
    work_scratch scratch = work_scratch_in(&j->scratches, p->scratch);
    bool ok = t && work_check_offers(t, j->reading->offers, p->number, &scratch, e);
    chunk c = chunk_at(&plan->chunks, p->number, plan->sources[tensor].tensor->ne);
    p->bytes = model_bytes(plan->sources[tensor].tensor, c.n), p->weights = c.n;
    work_tensor_close(t);
    return ok;
}

/* Adds a chunk's share of a tensor's checksum; chunks come in any order. */
static uint32_t share_of(uint32_t crc, const model_tensor *t, const tensor_type *type, const chunk *c) {
    return checksum_join(crc, 0, tensor_type_bytes(type, t->ne[0], shape_elements(t->ne) - c->first - c->n));
}

static bool reuse_fold_chunk(void *arg, const work_piece *p, gq_error *e) {
    const reuse_job *j = arg;
    reuse_reading *r = j->reading;
    const gq_plan *plan = r->plan;
    size_t tensor = chunk_tensor(&plan->chunks, p->number);
    const model_tensor *t = plan->sources[tensor].tensor;
    chunk c = chunk_at(&plan->chunks, p->number, t->ne);
    (void)e;
    if (!reuse_is_offered(r, tensor)) return true;
    const work_scratch scratch = work_scratch_in(&j->scratches, p->scratch);
    r->sources[tensor] ^= share_of(scratch.sums->source, t, t->type, &c);
    for (size_t o = 0; o < plan->n_outputs; o++) {
        const tensor_type *type = tensor_type_of(plan->outputs[o].tensors[tensor].to);
        r->bytes[o * plan->n_tensors + tensor] ^= share_of(scratch.sums[o].crc, t, type, &c);
        r->unlike[o * plan->n_tensors + tensor] |= scratch.errors[o].n == WORK_UNLIKE;
    }
    return true;
}

/* Reads what is offered to the tensors of chunks begin to end (excluded), and their sources. */
static bool reuse_read(reuse_reading *r, uint64_t begin, uint64_t end, const gq_callbacks *callbacks,
                       gq_error *e) {
    const gq_plan *plan = r->plan;
    reuse_job j = {.reading = r};
    gq_callbacks called = callbacks ? *callbacks : (gq_callbacks){0};
    schedule s = {0};
    called.tensor_done = NULL; /* none is, yet */
    if (begin >= end) return true;
    size_t first = chunk_tensor(&plan->chunks, begin), last = chunk_tensor(&plan->chunks, end - 1);
    work_scratches_measure(&j.scratches, plan);
    bool ok = schedule_start(&s, plan->threads, j.scratches.bytes, &called, e);
    for (size_t i = first; i <= last; i++)
        if (reuse_is_offered(r, i)) s.progress.bytes_total += plan->sources[i].tensor->size;
    ok = ok && schedule_run(&s,
                            &(schedule_job){plan->chunks.first[first], plan->chunks.first[last + 1],
                                            reuse_check_chunk, reuse_fold_chunk, &j},
                            e);
    schedule_end(&s);
    return ok;
}

/* ---- proofs ---- */

/* Whether a tensor that is offered is what the plan would make. false: *why says in a clause why not. */
static bool reuse_proves(const reuse_reading *r, size_t output, size_t tensor, gq_error *why) {
    const gq_plan *plan = r->plan;
    const plan_source *source = &plan->sources[tensor];
    const gq_tensor *t = &plan->outputs[output].tensors[tensor];
    const reuse_offer *offer = offer_of(r, output, tensor);
    const size_t at = output * plan->n_tensors + tensor;
    if (!offer) return gq_fail(why, "it has no %s of that type and shape", t->name);
    if (offer->is_digested && offer->bytes != r->bytes[at])
        return gq_fail(why, "it is damaged: the bytes of %s are not those that were written", t->name);
    if (plan_copies(source, t))
        return r->bytes[at] == r->sources[tensor] ||
               gq_fail(why, "the bytes of %s are not those of %s", t->name, plan_input(plan));
    if (t->calibrated || plan_transposes(source))
        return offer->is_digested ||
               gq_fail(why, "it stores no digests, so nothing shows whether %s is what would be written",
                       t->name);
    if (offer->is_digested && offer->source != r->sources[tensor])
        return gq_fail(why, "it was made of other weights: %s of %s differs", source->stored->name,
                       plan_input(plan));
    return !r->unlike[at] ||
           gq_fail(why,
                   offer->is_digested
                       ? "encoding %s gives other bytes: another version of gquant made it"
                       : "encoding %s gives other bytes: it is damaged, or other weights or settings made it",
                   t->name);
}

static void reuse_decide_tensors(const reuse_reading *r, size_t first, size_t last, bool *reused,
                                 gq_results *results) {
    const gq_plan *plan = r->plan;
    for (size_t o = 0; o < plan->n_outputs; o++)
        for (size_t i = first; i <= last; i++) {
            bool *is = &reused[o * plan->n_tensors + i];
            *is = reuse_proves(r, o, i, NULL);
            results->reused[2 * o] += *is;
            results->reused[2 * o + 1] += *is ? plan->outputs[o].tensors[i].out_bytes : 0;
        }
}

bool *reuse_check(const gq_plan *plan, uint64_t begin, uint64_t end, const gq_callbacks *callbacks,
                  gq_results *results, gq_error *e) {
    reuse_reading r;
    bool *reused = calloc(plan->n_outputs * plan->n_tensors + 1, sizeof *reused);
    bool ok =
        reuse_reading_new(&r, plan, e) && (reused || gq_fail_memory(e, plan->n_outputs * plan->n_tensors));
    for (size_t o = 0; ok && o < plan->n_outputs; o++) r.offers[o] = plan->outputs[o].offers;
    ok = ok && reuse_read(&r, begin, end, callbacks, e);
    if (ok && begin < end)
        reuse_decide_tensors(&r, chunk_tensor(&plan->chunks, begin), chunk_tensor(&plan->chunks, end - 1),
                             reused, results);
    reuse_reading_free(&r);
    if (ok) return reused;
    free(reused);
    return NULL;
}

gq_results *gq_reuse_check(const gq_plan *plan, const gq_callbacks *callbacks, gq_error *e) {
    gq_callbacks called;
    if (!SIZED_TAKE(called, callbacks, e)) return NULL;
    gq_results *results = results_new(plan, e);
    bool *reused = results && plan->n_reused
                       ? reuse_check(plan, 0, plan->chunks.first[plan->n_tensors], &called, results, e)
                       : NULL;
    bool ok = results && (reused || !plan->n_reused);
    free(reused);
    if (ok) return results;
    gq_results_free(results);
    return NULL;
}

/* ---- files under the outputs' names ---- */

/* Whether the files under the outputs' names are what gq_run would write there: the one function that says
 * so. Sizes and headers are compared byte by byte (plan/reuse.c), the zeros behind tensors are looked at, and
 * tensors are proved by reading them and their sources, once for all outputs (run/reuse.c). A tensor that was
 * calibrated was made of all the model's weights, whose checksum the file has. One that was transposed does
 * not say what weights it was made of, so the input's time of modification decides there. */

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
                return gq_fail(why, "the padding after %s cannot be read", out->tensors[i].name);
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
    if (!input_open(&f->model, out->shards[0].path, &problem))
        return gq_fail(why, "it is damaged: %s", problem.text);
    return plan_compare_header(plan, out, &f->model, why) && earlier_check_padding(plan, out, &f->model, why);
}

/* Whether calibrated tensors were made of these weights. *known: the file says what it was made of. */
static bool earlier_check_source(const reuse_reading *r, size_t output, const earlier_file *f, bool *known,
                                 gq_error *why) {
    const gq_plan *plan = r->plan;
    const model_kv *kv = model_kv_find(f->model.kv, f->model.n_kv, GGUF_SOURCE_KEY);
    uint32_t sum;
    *known = plan->outputs[output].source_at && kv && kv->type == GGUF_U32;
    if (!*known) return true;
    memcpy(&sum, kv->value, sizeof sum);
    return sum == digest_of_sources(plan, r->sources) ||
           gq_fail(why, "it was calibrated on other weights than those of %s", plan_input(plan));
}

/* Whether the tensors that were read prove the file. */
static bool earlier_proves(const reuse_reading *r, size_t output, const earlier_file *f, gq_error *why) {
    const gq_plan *plan = r->plan;
    const bool is_newer = plan_input_is_newer(plan, &f->model);
    bool knows_source;
    if (!earlier_check_source(r, output, f, &knows_source, why)) return false;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const gq_tensor *t = &plan->outputs[output].tensors[i];
        if (!reuse_proves(r, output, i, why)) return false;
        if (is_newer && ((t->calibrated && !knows_source) || plan_transposes(&plan->sources[i])))
            return gq_fail(
                why,
                "%s was modified after it was made, and nothing shows whether its %s is of the same weights",
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
    rounding_clean_up(plan, output);
    journal_remove_all(first);
}
