/* A survey: which file types fit a machine, and with a text what KL divergence they are expected to have. The
 * whole job is planned once per file type, so sizes, fallbacks and missing imatrix data are those of a real
 * run, but the weights are not read through. What a model takes to run is the bytes of its tensors, the keys
 * and values of the context in F16, and buffers. A type fits if that is within the memory given; the best of
 * the advised types that fit is that of recommend.h. Where none fits, survey_smallest estimates whether a
 * target could still make a small enough file. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/relay.h"
#include "base/sized.h"
#include "base/warnings.h"
#include "publish/ladder.h"
#include "publish/recommend.h"
#include "publish/text.h"
#include "quantize/gquant_publish.h"

enum { TYPES = 64 }; /* of tensors */

struct gq_survey {
    progress_relay relay; /* what plans report becomes what is reported of the survey */
    gq_survey_request request;
    gq_options options;      /* of all plans; its output is `unwritten` */
    char *unwritten;         /* a path beside the model, which is never written */
    gq_calibration ids;      /* the calibration again, with the tokens of its text in its place */
    char *ids_text;          /* NULL: no plan has read the text yet */
    char *folder, *measured; /* made for measurements that cannot be kept beside the model; NULL: they can */
    gq_model *model;         /* open while types are planned: one opening serves all plans */
    gq_survey_facts facts;
    char *dequantized;
    gq_choice *choices; /* n of them, and their capacity */
    size_t n, capacity;
    gq_fallbacks *fallbacks; /* one for each file type; columns 0: none */
    size_t usual;            /* number of the usual choice; SIZE_MAX: there is none */
    gq_curve_point *curve;
    size_t n_curve, curve_capacity;
    warning_list warnings;
    bool tried; /* on a text */
};

/* ---- progress ---- */

/* The first plan measures; the others, which make the curve of it, take a part of that. */
static const double SURVEY_MEASURING = .95;

/* Reports a share, of 1 the end, with all else as the last plan had it. */
static void survey_report_share(gq_survey *s, double share) {
    gq_progress now = s->relay.last;
    now.share = share < 1 ? relay_share(&s->relay, share) : 1;
    if (now.share == 1) now.seconds_left = 0, now.tensor = NULL;
    if (now.size) relay_report(&s->relay, &now);
}

static void survey_hear(void *relay, const gq_progress *of_stage) {
    gq_survey *s = relay;
    gq_progress now = *of_stage;
    now.share = relay_share(&s->relay, SURVEY_MEASURING * of_stage->share);
    relay_report(&s->relay, &now);
}

static uint64_t survey_beside(const gq_survey *s) { return s->facts.cache_bytes + s->facts.buffer_bytes; }

/* ---- plans of file types ---- */

/* Plans an output of this type or size. */
static gq_plan *survey_plan(const gq_survey *s, gq_options options, gq_output out, gq_error *e) {
    out.path = s->unwritten, options.outputs = &out, options.n_outputs = 1;
    if (s->measured) options.measure_file = s->measured;
    return gq_plan_new(&options, e);
}

/* Plans a file of one type as if what is there could be replaced and quantized again, since nothing is
 * written. NULL: the options do not allow the type, *e says why. */
static gq_plan *survey_plan_type(const gq_survey *s, size_t type, bool pure, const char *imatrix, bool assume,
                                 gq_error *e) {
    gq_options o = s->options;
    o.assume_importance = assume, o.allow_requantize = true, o.pure = pure, o.imatrix = imatrix;
    return survey_plan(s, o, (gq_output){.filetype = gq_filetype_name(type)}, e);
}

static gq_choice survey_choice_of(const gq_survey *s, size_t type, const gq_plan *plan) {
    const gq_summary *sum = gq_plan_summary(plan, 0);
    gq_choice c = {.name = gq_filetype_name(type),
                   .made_for = gq_filetype_made_for(type),
                   .file_bytes = sum->file_bytes,
                   .memory_bytes = sum->out_bytes + survey_beside(s),
                   .expected = sum->expected};
    c.bits = gq_bits_per_weight(sum->out_bytes, sum->n_weights);
    c.fits = c.memory_bytes <= s->request.ram - s->facts.reserve;
    return c;
}

static bool is_copy_type(size_t type) { return gq_filetype_id(type) < 0; }

/* Whether a type is offered. For a model that is quantized already, more bytes make nothing better. */
static bool survey_offers(const gq_survey *s, size_t type, const gq_plan *plan) {
    const gq_summary *sum = gq_plan_summary(plan, 0);
    return !s->facts.quantized || is_copy_type(type) || sum->out_bytes < sum->in_bytes;
}

/* Whether the type can be planned without imatrix data. Then the data are another model's: a type that
 * only lacks some of them cannot be planned without any either. */
static bool data_are_to_blame(const gq_survey *s, size_t type) {
    gq_error unused;
    gq_plan *plan = s->options.imatrix ? survey_plan_type(s, type, false, NULL, false, &unused) : NULL;
    gq_plan_free(plan);
    return plan != NULL;
}

static bool survey_warn_once(gq_survey *s, const char *text, gq_error *e) {
    for (size_t i = 0; i < s->warnings.n; i++)
        if (strcmp(s->warnings.items[i], text) == 0) return true;
    return warnings_copy(&s->warnings, e, text);
}

/* Keeps the warnings that are about the model or the imatrix data, not about a type: those that begin with the
 * name of the data, or with what the model's weights lie on. */
static bool survey_keep_warnings(gq_survey *s, const gq_plan *plan, gq_error *e) {
    const char *const kept[] = {s->options.imatrix, "on a quantization grid of few bits"};
    bool ok = true;
    size_t n;
    const char *const *warnings = gq_plan_warnings(plan, &n);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; ok && k < sizeof kept / sizeof *kept; k++)
            if (kept[k] && strncmp(warnings[i], kept[k], strlen(kept[k])) == 0)
                ok = survey_warn_once(s, warnings[i], e);
    return ok;
}

/* Makes a folder for the measurements of later plans, after a plan that could not save its own: so the model is
 * not tried again by each of them. */
static bool survey_keep_measurements(gq_survey *s, const gq_plan *plan, gq_error *e) {
    const char *folder = s->request.folder && *s->request.folder ? s->request.folder : "/tmp";
    if (!s->options.foretell || s->folder || gq_plan_measure_file(plan)) return true;
    if (asprintf(&s->folder, "%s/gquant-plan-%ld", folder, (long)getpid()) < 0)
        return s->folder = NULL, gq_fail_memory(e, strlen(folder));
    if (mkdir(s->folder, 0700) != 0) return true;
    return asprintf(&s->measured, "%s/measured", s->folder) >= 0 ||
           (rmdir(s->folder), s->measured = NULL, gq_fail_memory(e, strlen(folder)));
}

static void survey_forget_measurements(gq_survey *s) {
    if (s->folder && s->measured) unlink(s->measured), rmdir(s->folder);
    free(s->measured), free(s->folder);
    s->measured = s->folder = NULL;
}

/* Keeps the tokens that the first plan has made of the text, for the plans after it. */
static bool survey_keep_text(gq_survey *s, const gq_plan *plan, gq_error *e) {
    uint64_t n;
    size_t bytes = 0;
    const uint32_t *ids = gq_plan_calibration_ids(plan, &n);
    if (!ids || s->ids_text || s->options.calibration->random) return true;
    FILE *to = open_memstream(&s->ids_text, &bytes);
    if (!to) return s->ids_text = NULL, gq_fail_memory(e, n);
    for (uint64_t i = 0; i < n; i++) fprintf(to, "%" PRIu32 "\n", ids[i]);
    if (fclose(to) != 0) return gq_fail_memory(e, bytes);
    if (!SIZED_TAKE(s->ids, s->options.calibration, e)) return false;
    s->ids.text.bytes = s->ids_text, s->ids.text.n = bytes, s->ids.text.ids = true;
    s->options.calibration = &s->ids;
    return true;
}

/* Lists the types of tensors that do not get their own: "IQ4_NL in 180 tensors, Q5_0 in 30". */
static bool fallbacks_list(gq_fallbacks *f, const size_t n[TYPES], gq_error *e) {
    char *text = NULL;
    size_t bytes = 0, listed = 0;
    FILE *to = open_memstream(&text, &bytes);
    for (uint32_t k = 0; to && k < TYPES; k++)
        if (n[k])
            fprintf(to,
                    listed++    ? ", %s in %zu"
                    : n[k] == 1 ? "%s in %zu tensor"
                                : "%s in %zu tensors",
                    gq_type_name(k), n[k]);
    bool failed = !to || ferror(to);
    failed = (to && fclose(to) != 0) || failed;
    f->instead = text;
    return !failed || gq_fail_memory(e, bytes);
}

static bool survey_keep_fallbacks(gq_survey *s, size_t type, const gq_plan *plan, gq_error *e) {
    gq_fallbacks *f = &s->fallbacks[type];
    const gq_summary *sum = gq_plan_summary(plan, 0);
    size_t n_tensors, n[TYPES] = {0};
    const gq_tensor *t = gq_plan_tensors(plan, 0, &n_tensors);
    for (size_t i = 0; i < n_tensors; i++) {
        if (t[i].wanted == t[i].to || t[i].to >= TYPES) continue;
        if (!f->columns) f->columns = t[i].ne[0], f->wanted = gq_type_name(t[i].wanted);
        n[t[i].to]++;
    }
    f->bits = gq_bits_per_weight(sum->fallback_bytes, sum->n_weights);
    return !f->columns || fallbacks_list(f, n, e);
}

static bool survey_add(gq_survey *s, size_t type, const gq_plan *plan, bool assumed, gq_error *e) {
    if (survey_offers(s, type, plan)) {
        if (!memory_grow(&s->choices, &s->capacity, s->n + 1, sizeof *s->choices, e)) return false;
        s->choices[s->n] = survey_choice_of(s, type, plan);
        s->choices[s->n++].needs_imatrix = assumed;
        if (!survey_keep_fallbacks(s, type, plan, e)) return false;
    }
    return survey_keep_warnings(s, plan, e) && survey_keep_measurements(s, plan, e) &&
           survey_keep_text(s, plan, e);
}

/* Plans all types and keeps those that are offered. It fails where nothing but a copy can be made: the file
 * is no model then, or the options do not fit it. */
static bool survey_try_types(gq_survey *s, gq_error *e) {
    size_t planned = 0;
    s->fallbacks = calloc(gq_filetype_count(), sizeof *s->fallbacks);
    if (!s->fallbacks) return gq_fail_memory(e, gq_filetype_count() * sizeof *s->fallbacks);
    gq_error why = {0}, first = {0}, unused;
    for (size_t i = 0; i < gq_filetype_count(); i++) {
        gq_plan *plan = survey_plan_type(s, i, false, s->options.imatrix, false, &why);
        bool assumed = !plan && why.status != GQ_INTERRUPTED && !s->options.imatrix && !s->options.foretell;
        if (assumed) plan = survey_plan_type(s, i, false, NULL, true, &unused);
        if (!plan && (why.status == GQ_INTERRUPTED || data_are_to_blame(s, i))) return *e = why, false;
        if (!plan && !is_copy_type(i) && !*first.text) first = why;
        if (!plan) continue;
        planned += !is_copy_type(i) && !assumed;
        bool ok = survey_add(s, i, plan, assumed, e);
        gq_plan_free(plan);
        if (!ok) return false;
    }
    return planned || (*e = first, false);
}

static int survey_compare_sizes(const void *left, const void *right) {
    const gq_choice *a = left, *b = right;
    if (a->file_bytes != b->file_bytes) return a->file_bytes < b->file_bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Returns about the smallest file, in bytes, that a target can make: all tensors in the first of these types
 * that can be planned. The types of fewest bits need imatrix data. 0: none can. */
static uint64_t survey_smallest(const gq_survey *s) {
    static const char *const types[] = {"IQ1_S", "IQ1_M", "Q2_K"};
    gq_error unused;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t type = (size_t)gq_filetype_find(types[i]);
        gq_plan *plan = survey_plan_type(s, type, true, s->options.imatrix, false, &unused);
        uint64_t bytes = plan && survey_offers(s, type, plan) ? gq_plan_summary(plan, 0)->file_bytes : 0;
        gq_plan_free(plan);
        if (bytes) return bytes;
    }
    return 0;
}

/* Returns the number of the choice to take, of those that fit where is_limited; SIZE_MAX: there is none. A
 * model that is quantized already and fits is the best as it is. */
static size_t survey_best(const gq_survey *s, bool is_limited) {
    recommendation r = {.at = SIZE_MAX, .is_limited = is_limited};
    for (size_t i = s->n; i-- > 0;) {
        const gq_choice *c = &s->choices[i];
        bool is_copy = !strcmp(c->name, "COPY");
        if ((s->request.ram && !c->fits) || c->needs_imatrix ||
            !gq_filetype_advised((size_t)gq_filetype_find(c->name)))
            continue;
        if (is_copy && s->facts.quantized) return i;
        gq_level level = isnan(c->expected) ? GQ_LEVELS : gq_level_of(c->expected, (double)NAN);
        recommend_offer(&r, i, (candidate){c->name, c->file_bytes, c->bits, level, is_copy});
    }
    return r.at;
}

static void survey_mark_best(gq_survey *s) {
    size_t best = s->request.ram ? survey_best(s, true) : SIZE_MAX;
    if (best < SIZE_MAX) s->choices[best].best = true;
    if (s->request.ram && best == SIZE_MAX) s->facts.smallest = survey_smallest(s);
    s->usual = survey_best(s, false);
}

/* ---- the model ---- */

/* Returns the quantized type with the most bytes if quantized tensors have more than half of all; else NULL. */
static const char *quantized_as(const gq_model *m) {
    uint64_t of[TYPES] = {0}, all = 0, quantized = 0;
    uint32_t most = 0;
    size_t n;
    const gq_stored *t = gq_model_tensors(m, &n);
    for (size_t i = 0; i < n; i++) {
        all += t[i].bytes;
        if (t[i].type >= TYPES || !gq_type_quantized(t[i].type)) continue;
        quantized += t[i].bytes, of[t[i].type] += t[i].bytes;
        if (of[t[i].type] > of[most]) most = t[i].type;
    }
    return quantized > all / 2 ? gq_type_name(most) : NULL;
}

/* Finds the folder's type that most bytes of weights have, if they are dequantized. */
static bool survey_find_dequantized(gq_survey *s, gq_error *e) {
    uint64_t all = 0, quantized = 0, most = 0;
    const gq_stored *largest = NULL;
    size_t n;
    const gq_stored *t = gq_model_tensors(s->model, &n);
    for (size_t i = 0; i < n; i++) {
        uint64_t bytes = t[i].origin ? t[i].origin->bytes : t[i].bytes;
        all += bytes;
        if (!t[i].origin || !t[i].origin->quantized || gq_type_quantized(t[i].type)) continue;
        quantized += bytes;
        if (bytes > most) most = bytes, largest = &t[i];
    }
    if (quantized <= all / 2) return true;
    const char *type = *largest->origin->type ? largest->origin->type : gq_type_name(largest->type);
    s->facts.dequantized = s->dequantized = strndup(type, strcspn(type, ","));
    return s->dequantized || gq_fail_memory(e, strlen(type));
}

/* Bytes of `ram` that are the system's. A desktop takes 2 to 3 GiB of 16, a server less; a large machine has
 * no larger system. */
static uint64_t survey_reserve(const gq_survey *s) {
    enum { SHARE = 8 };
    const uint64_t most = UINT64_C(8) << 30, ram = s->request.ram, asked = s->request.reserve;
    if (asked == UINT64_MAX) return 0;
    uint64_t reserve = asked ? asked : ram / SHARE < most ? ram / SHARE : most;
    return reserve < ram ? reserve : ram;
}

static bool survey_ask_model(gq_survey *s, gq_error *e) {
    gq_memory memory = {.size = sizeof memory};
    bool ok = true;
    size_t n;
    const char *const *warnings = gq_model_warnings(s->model, &n);
    for (size_t i = 0; ok && i < n; i++) ok = survey_warn_once(s, warnings[i], e);
    gq_model_memory(s->model, s->request.context, &memory);
    s->facts.context = memory.context, s->facts.context_trained = memory.context_trained;
    s->facts.cache_bytes = memory.cache_bytes, s->facts.buffer_bytes = memory.buffer_bytes;
    s->facts.quantized = quantized_as(s->model);
    s->facts.reserve = survey_reserve(s);
    uint64_t free_bytes = s->request.ram - s->facts.reserve;
    if (free_bytes > survey_beside(s)) s->facts.target = free_bytes - survey_beside(s);
    return ok && survey_find_dequantized(s, e);
}

/* ---- the curve ---- */

static bool survey_add_point(gq_survey *s, uint64_t memory, uint64_t bytes, gq_error *e) {
    if (!memory_grow(&s->curve, &s->curve_capacity, s->n_curve + 1, sizeof *s->curve, e)) return false;
    gq_plan *plan = survey_plan(s, s->options, (gq_output){.target.size = bytes}, e);
    if (!plan) return false;
    s->curve[s->n_curve++] = (gq_curve_point){
        .file_bytes = bytes, .memory = memory, .expected = gq_plan_summary(plan, 0)->expected};
    gq_plan_free(plan);
    return true;
}

static int survey_compare_points(const void *left, const void *right) {
    const gq_curve_point *a = left, *b = right;
    return a->file_bytes < b->file_bytes ? -1 : a->file_bytes > b->file_bytes;
}

static uint64_t survey_bytes_of(const gq_survey *s, const char *name) {
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->choices[i].name, name)) return s->choices[i].file_bytes;
    return 0;
}

/* Plans the best mixes of sizes between those of the smallest and the largest types that people use. */
static bool survey_draw_curve(gq_survey *s, gq_error *e) {
    enum { STEPS = 8 };
    uint64_t least = survey_bytes_of(s, "Q2_K"), most = survey_bytes_of(s, "Q8_0");
    bool ok = true;
    if (!least || !most) return true;
    for (int i = 0; ok && i <= STEPS; i++) {
        double size = (double)least * pow((double)most / (double)least, (double)i / STEPS);
        ok = survey_add_point(s, 0, (uint64_t)size, e);
        survey_report_share(s, SURVEY_MEASURING + (1 - SURVEY_MEASURING) * (i + 1) / (STEPS + 2));
    }
    for (size_t i = 0; ok && i < LADDER_SIZES; i++) {
        uint64_t memory = ladder_gigabytes[i] * LADDER_GB;
        if (memory > survey_beside(s) + least && memory < survey_beside(s) + most)
            ok = survey_add_point(s, memory, memory - survey_beside(s), e);
    }
    qsort(s->curve, s->n_curve, sizeof *s->curve, survey_compare_points);
    return ok;
}

/* ---- the survey ---- */

static bool survey_fill(gq_survey *s, gq_error *e) {
    s->model = gq_model_open_adapted(s->options.input, &s->options.adapters, e);
    s->options.model = s->model;
    bool ok = s->model && survey_ask_model(s, e) && survey_try_types(s, e);
    if (ok) {
        qsort(s->choices, s->n, sizeof *s->choices, survey_compare_sizes);
        survey_mark_best(s);
    }
    ok = ok && (!s->options.foretell || survey_draw_curve(s, e));
    gq_model_close(s->model);
    s->model = NULL;
    survey_forget_measurements(s);
    return ok;
}

gq_survey *gq_survey_new(const gq_survey_request *r, gq_error *error) {
    gq_error e = {0};
    gq_survey *s = calloc(1, sizeof *s);
    if (!s) return gq_fail_memory(error, sizeof *s), NULL;
    bool ok = SIZED_TAKE(s->request, r, &e) && SIZED_TAKE(s->options, s->request.options, &e) &&
              SIZED_TAKE(s->relay.to, s->options.callbacks, &e) &&
              (s->options.input || gq_fail_usage(&e, "no input: name a model"));
    if (ok) {
        const char *slash = strrchr(s->options.input, '/');
        int folder = slash ? (int)(slash + 1 - s->options.input) : 0;
        ok = asprintf(&s->unwritten, "%.*sgquant-plan", folder, s->options.input) >= 0 ||
             (s->unwritten = NULL, gq_fail_memory(&e, strlen(s->options.input)));
    }
    s->facts.size = sizeof s->facts;
    s->options.callbacks = relay_callbacks(&s->relay, survey_hear);
    s->options.force = s->options.dry_run = true, s->options.foretell = s->tried = s->options.calibration;
    ok = ok && survey_fill(s, &e);
    if (ok) survey_report_share(s, 1);
    s->request.options = NULL, s->options = (gq_options){0}; /* which belong to the caller */
    if (ok) return s;
    if (error) *error = e;
    gq_survey_free(s);
    return NULL;
}

void gq_survey_free(gq_survey *s) {
    if (!s) return;
    warnings_free(&s->warnings);
    for (size_t i = 0; s->fallbacks && i < gq_filetype_count(); i++) free((char *)s->fallbacks[i].instead);
    free(s->fallbacks), free(s->unwritten), free(s->dequantized), free(s->choices), free(s->curve),
        free(s->ids_text);
    free(s);
}

const gq_survey_facts *gq_survey_summary(const gq_survey *s) { return &s->facts; }

const gq_choice *gq_survey_choices(const gq_survey *s, size_t *n) {
    *n = s->n;
    return s->choices;
}

const gq_fallbacks *gq_survey_fallbacks(const gq_survey *s, const char *filetype) {
    int i = gq_filetype_find(filetype);
    return i >= 0 && s->fallbacks[i].columns ? &s->fallbacks[i] : NULL;
}

const gq_choice *gq_survey_usual(const gq_survey *s) {
    return s->usual < s->n ? &s->choices[s->usual] : NULL;
}

const gq_curve_point *gq_survey_curve(const gq_survey *s, size_t *n) {
    *n = s->n_curve;
    return s->curve;
}

const char *const *gq_survey_warnings(const gq_survey *s, size_t *n) {
    return warnings_texts(&s->warnings, n);
}

/* ---- for programs ---- */

typedef struct survey_text {
    const gq_survey *of;
    const char *path;
    bool exact;
} survey_text;

static void put_survey_facts(json_writer *j, const gq_survey *s, const char *path) {
    const gq_choice *best = NULL;
    for (size_t i = 0; i < s->n; i++)
        if (s->choices[i].best) best = &s->choices[i];
    json_put_text(j, "path", path);
    if (s->facts.quantized) json_put_text(j, "quantized", s->facts.quantized);
    if (s->facts.dequantized) json_put_text(j, "dequantized", s->facts.dequantized);
    json_put_count(j, "context", s->facts.context);
    json_put_count(j, "cache_bytes", s->facts.cache_bytes);
    json_put_count(j, "buffer_bytes", s->facts.buffer_bytes);
    if (!s->request.ram) return;
    json_put_count(j, "ram", s->request.ram);
    json_put_count(j, "reserve", s->facts.reserve);
    if (best && !strcmp(best->name, "COPY"))
        json_put_bool(j, "keep_model", true);
    else if (best)
        json_put_text(j, "recommended", best->name);
    json_put_count(j, "target_size", s->facts.target);
}

static void put_choice(json_writer *j, const gq_choice *c, bool is_limited) {
    json_open(j, NULL, '{');
    json_put_text(j, "file_type", c->name);
    if (*c->made_for) json_put_text(j, "made_for", c->made_for);
    json_put_count(j, "file_bytes", c->file_bytes);
    json_put_number(j, "bits_per_weight", c->bits);
    json_put_count(j, "memory_bytes", c->memory_bytes);
    if (!isnan(c->expected)) json_put_number(j, "expected_kld", c->expected);
    if (is_limited) json_put_bool(j, "fits", c->fits);
    if (c->needs_imatrix) json_put_bool(j, "needs_imatrix", true);
    json_close(j);
}

static void survey_write(FILE *to, const void *what) {
    const survey_text *t = what;
    const gq_survey *s = t->of;
    json_writer j = json_start(to, '{');
    j.exact = t->exact;
    put_survey_facts(&j, s, t->path);
    json_open_lines(&j, "types", '[');
    for (size_t i = 0; i < s->n; i++) put_choice(&j, &s->choices[i], s->request.ram > 0);
    json_close(&j);
    if (s->tried) json_open_lines(&j, "curve", '[');
    for (size_t i = 0; i < s->n_curve; i++) {
        json_open(&j, NULL, '{');
        json_put_count(&j, "target_size", s->curve[i].file_bytes);
        if (s->curve[i].memory) json_put_count(&j, "ram", s->curve[i].memory);
        json_put_number(&j, "expected_kld", s->curve[i].expected);
        json_close(&j);
    }
    json_end(&j);
}

/* The types that people use, and the best mixes between them without a name. */
static char *survey_chart(const gq_survey *s, gq_error *e) {
    static const char usual[] = " Q2_K Q3_K_M Q4_K_M Q5_K_M Q6_K Q8_0 ";
    const gq_evaluated model = {.path = ""};
    const gq_evaluation_facts facts = {.size = sizeof facts};
    gq_page page = {.size = sizeof page, .base_model = &model, .evaluation = &facts};
    gq_page_row *rows = calloc(s->n + s->n_curve + 1, sizeof *rows);
    gq_evaluated *values = calloc(s->n + s->n_curve + 1, sizeof *values);
    for (size_t i = 0; rows && values && i < s->n + s->n_curve; i++) {
        const gq_choice *c = i < s->n ? &s->choices[i] : NULL;
        const gq_curve_point *p = c ? NULL : &s->curve[i - s->n];
        char name[32] = "  ";
        if (c) snprintf(name, sizeof name, " %s ", c->name);
        double value = c ? c->expected : p->expected;
        if (!(value > 0) || (c && !strstr(usual, name))) continue;
        values[page.n].kld = (gq_estimate){value, (double)NAN};
        rows[page.n] = (gq_page_row){.path = "", .type = c ? c->name : "", .relative_error = (double)NAN};
        rows[page.n].file_bytes = c ? c->file_bytes : p->file_bytes;
        rows[page.n].evaluated = &values[page.n], page.n++;
    }
    page.rows = rows;
    char *text = rows && values ? gq_page_chart(&page, e) : (gq_fail_memory(e, s->n * sizeof *rows), NULL);
    free(rows), free(values);
    return text;
}

char *gq_survey_text(const gq_survey *s, const char *path, gq_report_format format, gq_error *e) {
    size_t n;
    const survey_text t = {s, path, format == GQ_REPORT_EXACT};
    return format == GQ_REPORT_SVG ? survey_chart(s, e) : page_text(survey_write, &t, &n, e);
}
