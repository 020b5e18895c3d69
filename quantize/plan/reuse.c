#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/name_index.h"
#include "quantize/plan/rounding.h"
#include "quantize/quantize.h"

/* Fills the output's offers that have none yet with the tensors of an earlier output. *n: how many fit. */
static bool offer_tensors(const gq_plan *plan, plan_output *out, const model_source *from,
                          const uint8_t *digests, size_t *n, gq_error *e) {
    name_index by_name = {0};
    uint64_t i;
    bool ok = name_index_all(&by_name, out->tensors, sizeof *out->tensors, plan->n_tensors, e);
    for (uint64_t k = 0; ok && k < from->n_tensors; k++) {
        const model_tensor *t = from->tensors[k];
        tensor_digest d;
        memcpy(&d, digests + k * sizeof d, sizeof d);
        if (!d.made_by || !name_index_find(&by_name, out->tensors, sizeof *out->tensors, t->name, &i) ||
            t->type->id != out->tensors[i].to || memcmp(t->ne, out->tensors[i].ne, sizeof t->ne) != 0 ||
            d.made_by != digest_made_by(plan, out, i))
            continue;
        ++*n;
        if (!out->offers[i].from) out->offers[i] = (reuse_offer){from, t, true, d.source, d.bytes};
    }
    name_index_free(&by_name);
    return ok;
}

static bool offer_to_all(gq_plan *plan, const model_source *from, gq_error *e) {
    const uint8_t *digests = digests_find(from);
    size_t n = 0;
    if (!digests)
        return warnings_add(&plan->warnings, e,
                            "%s: nothing is reused, as the file has no digests of its tensors", from->path);
    for (size_t o = 0; o < plan->n_outputs; o++)
        if (!offer_tensors(plan, &plan->outputs[o], from, digests, &n, e)) return false;
    return n || warnings_add(&plan->warnings, e,
                             "%s: nothing is reused, as no tensor has the same type, settings and imatrix",
                             from->path);
}

bool plan_reuse(gq_plan *plan, const gq_options *options, gq_error *e) {
    const gq_list *paths = &options->reuse;
    if (!paths->n) return true;
    plan->reused = calloc(paths->n, sizeof *plan->reused);
    if (!plan->reused) return gq_fail_memory(e, paths->n * sizeof *plan->reused);
    for (size_t o = 0; o < plan->n_outputs; o++) {
        plan->outputs[o].offers = calloc(plan->n_tensors + 1, sizeof *plan->outputs[o].offers);
        if (!plan->outputs[o].offers)
            return gq_fail_memory(e, plan->n_tensors * sizeof *plan->outputs[o].offers);
    }
    for (size_t i = 0; i < paths->n; i++) {
        model_source *m = &plan->reused[i];
        if (!input_open(m, paths->items[i], e)) return false;
        plan->n_reused++;
        if (!offer_to_all(plan, m, e)) return false;
    }
    return true;
}

bool plan_reused_unchanged(const gq_plan *plan, gq_error *e) {
    for (size_t i = 0; i < plan->n_reused; i++)
        if (!model_unchanged(&plan->reused[i], e)) return false;
    return true;
}

uint64_t gq_plan_reusable(const gq_plan *plan, size_t output, uint64_t *bytes) {
    const plan_output *out = &plan->outputs[output];
    uint64_t n = 0;
    *bytes = 0;
    for (size_t i = 0; out->offers && i < plan->n_tensors; i++)
        if (out->offers[i].from) n++, *bytes += out->tensors[i].out_bytes;
    return n;
}

/* ---- a file that is there, and what an output would be ---- */

/* Compares an earlier file's header with the one that an output will have. Every byte counts, but for those
 * of the digests that the run fills in. Where bytes differ, the rest of this file finds out why, in this order:
 * tensors and their types, imatrix, settings of the digests, metadata. */

/* ---- why a header differs ---- */

static bool earlier_compare_tensors(const gq_plan *plan, const plan_output *out, const model_source *earlier,
                                    gq_error *why) {
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const gq_tensor *t = &out->tensors[i];
        const model_tensor *is = model_tensor_named(earlier, t->name);
        if (!is) return gq_fail(why, "it has no tensor %s", t->name);
        if (is->type->id != t->to)
            return gq_fail(why, "its %s is %s, expected %s", t->name, is->type->name,
                           tensor_type_name(t->to));
        if (memcmp(is->ne, t->ne, sizeof t->ne) != 0)
            return gq_fail(why, "its %s has another shape", t->name);
    }
    return earlier->n_tensors == plan->n_tensors ||
           gq_fail(why, "it has %" PRIu64 " tensors, expected %zu", earlier->n_tensors, plan->n_tensors);
}

/* Says what made a tensor otherwise than the plan would. */
static bool earlier_fail_made_by(const gq_plan *plan, const plan_output *out, size_t i, uint32_t made_by,
                                 gq_error *why) {
    const char *name = out->tensors[i].name;
    bool has = out->tensors[i].importance == GQ_IMPORTANCE_FULL;
    encode_settings settings = plan->settings;
    if (!made_by) return gq_fail(why, "its %s was calibrated or transposed", name);
    if (!digest_made_by(plan, out, i)) return gq_fail(why, "its %s was not made so by a calibration", name);
    if (has && made_by == digest_of_settings(plan, out, i, &settings, false))
        return gq_fail(why, "it was made without an imatrix (%s)", name);
    for (int effort = EFFORT_FAST; effort <= EFFORT_BEST; effort++) {
        settings.effort = (codec_effort)effort;
        if (made_by == digest_of_settings(plan, out, i, &settings, has))
            return gq_fail(why, "it was made with another effort (%s)", name);
    }
    return gq_fail(why,
                   has ? "it was made with another imatrix (%s)"
                       : "it was made with other settings, or with an imatrix (%s)",
                   name);
}

static bool earlier_compare_digests(const gq_plan *plan, const plan_output *out, const model_source *earlier,
                                    gq_error *why) {
    const uint8_t *theirs = digests_find(earlier), *ours = digests_planned(out);
    if (!ours) return !theirs || gq_fail(why, "it has digests of its tensors (" GGUF_DIGESTS_KEY ")");
    if (!theirs) return gq_fail(why, "it has no digests of its tensors (" GGUF_DIGESTS_KEY ")");
    for (size_t i = 0; i < plan->n_tensors; i++) {
        tensor_digest a, b;
        memcpy(&a, ours + i * sizeof a, sizeof a), memcpy(&b, theirs + i * sizeof b, sizeof b);
        if (a.made_by != b.made_by && !plan_copies(&plan->sources[i], &out->tensors[i]))
            return earlier_fail_made_by(plan, out, i, b.made_by, why);
        if (!a.made_by && a.source != b.source)
            return gq_fail(why, rounding_runs_ahead(plan)
                                    ? "it was calibrated with another text or other settings, or not at all"
                                : plan->inputs.n_entries ? "it was made with another imatrix"
                                                         : "it was made with other settings");
    }
    return true;
}

static bool earlier_has_kv(const model_kv *a, const model_kv *b) {
    return a && b && a->type == b->type && a->size == b->size && memcmp(a->value, b->value, a->size) == 0;
}

/* Compares what is said of imatrix data: whether there were any, and their file's name. */
static bool earlier_compare_importance(const plan_output *out, const model_source *earlier, gq_error *why) {
    static const char key[] = "quantize.imatrix.file";
    const model_kv *is = model_kv_find(earlier->kv, earlier->n_kv, key),
                   *would = gguf_header_find(out->shards[0].header, key);
    const char *text = "";
    uint64_t n = 0;
    if ((!is && !would) || earlier_has_kv(is, would)) return true;
    if (!is) return gq_fail(why, "it was made without an imatrix");
    model_kv_string(is, &text, &n);
    return gq_fail(why, "it was made with an%s imatrix, %.*s", would ? "other" : "", n < 256 ? (int)n : 256,
                   text);
}

/* Looks for the KV pairs of the output, of a list from which it has them, in the earlier file. */
static bool earlier_find_metadata(const plan_output *out, const model_source *earlier, const model_kv *kv,
                                  uint64_t n, gq_error *why) {
    for (uint64_t i = 0; i < n; i++)
        if (gguf_header_find(out->shards[0].header, kv[i].key) &&
            !model_kv_find(earlier->kv, earlier->n_kv, kv[i].key))
            return gq_fail(why, "its metadata has no %s", kv[i].key);
    return true;
}

static bool earlier_compare_metadata(const gq_plan *plan, const plan_output *out, const model_source *earlier,
                                     gq_error *why) {
    if (!earlier_find_metadata(out, earlier, plan->model.kv, plan->model.n_kv, why) ||
        !earlier_find_metadata(out, earlier, plan->overrides.items, plan->overrides.n, why))
        return false;
    for (uint64_t i = 0; i < earlier->n_kv; i++) {
        const model_kv *is = &earlier->kv[i], *would = gguf_header_find(out->shards[0].header, is->key);
        if (would &&
            (!strcmp(is->key, GGUF_DIGESTS_KEY) || (out->source_at && !strcmp(is->key, GGUF_SOURCE_KEY))))
            continue;
        if (!would) return gq_fail(why, "its metadata have %s, which the output would not have", is->key);
        if (!earlier_has_kv(is, would)) return gq_fail(why, "its %s differs", is->key);
    }
    return true;
}

/* ---- bytes ---- */

/* Makes the checksums that only a run finds alike in two headers of a first shard. */
static void earlier_skip_digests(const gq_plan *plan, const plan_output *out, uint8_t *bytes) {
    for (size_t i = 0; out->digests_at && i < plan->n_tensors; i++) {
        uint8_t *at = bytes + out->digests_at + GGUF_ARRAY_HEADER + i * sizeof(tensor_digest);
        tensor_digest d;
        memcpy(&d, digests_planned(out) + i * sizeof d, sizeof d);
        if (d.made_by) memset(at + offsetof(tensor_digest, source), 0, sizeof d.source);
        memset(at + offsetof(tensor_digest, bytes), 0, sizeof d.bytes);
    }
    if (out->source_at) memset(bytes + out->source_at, 0, sizeof(uint32_t));
}

/* Compares a shard's header. *at: the first byte that differs. */
static bool earlier_compare_bytes(const gq_plan *plan, const plan_output *out, uint32_t shard,
                                  const gq_file *file, uint64_t *at, gq_error *why) {
    const plan_shard *s = &out->shards[shard];
    uint8_t *is = malloc(s->header_size + 1), *would = malloc(s->header_size + 1);
    bool ok = (is && would) || gq_fail_memory(why, s->header_size);
    ok = ok && (gq_read_at(file->fd, 0, is, s->header_size) == s->header_size ||
                gq_fail(why, "%s cannot be read", file->path));
    *at = 0;
    if (ok) {
        memcpy(would, s->header_data, s->header_size);
        if (shard == 0) earlier_skip_digests(plan, out, is), earlier_skip_digests(plan, out, would);
        while (*at < s->header_size && is[*at] == would[*at]) ++*at;
    }
    free(is), free(would);
    return ok;
}

bool plan_compare_header(const gq_plan *plan, const plan_output *out, const model_source *earlier,
                         gq_error *why) {
    uint64_t at;
    if (!earlier_compare_tensors(plan, out, earlier, why) || !earlier_compare_importance(out, earlier, why) ||
        !earlier_compare_digests(plan, out, earlier, why) ||
        !earlier_compare_metadata(plan, out, earlier, why))
        return false;
    if (earlier->n_files != out->n_shards)
        return gq_fail(why, "it has %u shards, expected %u", earlier->n_files, out->n_shards);
    for (uint32_t s = 0; s < out->n_shards; s++) {
        const gq_file *file = earlier->files[s];
        if (file->size != out->shards[s].size)
            return gq_fail(why, "%s has %" PRIu64 " bytes, expected %" PRIu64, file->path, file->size,
                           out->shards[s].size);
        if (!earlier_compare_bytes(plan, out, s, file, &at, why)) return false;
        if (at < out->shards[s].header_size)
            return gq_fail(why, "the header of %s differs from byte %" PRIu64 " on", file->path, at);
    }
    return true;
}

bool plan_input_is_newer(const gq_plan *plan, const model_source *earlier) {
    for (uint32_t i = 0; i < plan->model.n_files; i++)
        for (uint32_t k = 0; k < earlier->n_files; k++) {
            if (model_file_is_text(plan->model.files[i])) continue; /* the header says what it says */
            const struct timespec *in = &plan->model.files[i]->modified, *out = &earlier->files[k]->modified;
            if (in->tv_sec > out->tv_sec || (in->tv_sec == out->tv_sec && in->tv_nsec > out->tv_nsec))
                return true;
        }
    return false;
}

gq_earlier gq_plan_compare_earlier(const gq_plan *plan, size_t output, const gq_model *earlier) {
    if (!plan_compare_header(plan, &plan->outputs[output], &earlier->file, NULL)) return GQ_EARLIER_OTHER;
    return plan_input_is_newer(plan, &earlier->file) ? GQ_EARLIER_IN_DOUBT : GQ_EARLIER_SAME;
}
