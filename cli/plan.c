/* The command `gquant plan MODEL`: which file types fit a machine. The library plans the whole job once per
 * file type, so sizes, fallbacks and missing importance data are those of a real run, but the weights are not
 * read through. What a model takes to run is the bytes of its tensors, the keys and values of the context in
 * F16, and buffers. A type fits if that is within --ram, and the largest advised type that fits is
 * recommended. Where no type fits, smallest_target estimates whether --target-size could still make a small
 * enough file. The survey is filled first and then printed, as tables or as JSON.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/calibration.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/option_table.h"
#include "cli/plan_curve.h"
#include "cli/report.h"
#include "cli/say.h"
#include "cli/table.h"
#include "cli/text.h"

typedef struct choice {
    const char *name, *made_for; /* made_for: the only kind of models it suits; "": any */
    uint64_t file_bytes, memory_bytes;
    double bits;
    double expected; /* divergence, nats; NaN: not known */
    bool fits, good; /* good: it may be recommended */
    bool is_copy;
} choice;

typedef struct survey {
    const request *request;
    const gq_calibration *text; /* that the model is tried on; NULL: none */
    curve curve;                /* with a text */
    char *folder, *measured; /* made for measurements that cannot be kept beside the model; NULL: they can */
    const gq_model *model;   /* open while types are planned: one opening serves all plans */
    gq_memory memory;
    const char *quantized; /* the type of most of a model that is quantized already; NULL: it is not */
    char *dequantized;     /* the same of a folder whose type GGUF does not have, malloc'ed */
    size_t n;
    choice *choices;           /* smallest first */
    const choice *best;        /* NULL: nothing fits, or there is no limit */
    uint64_t target, smallest; /* bytes: left for the file; of about the smallest file that a target can make,
                                  0: not known */
    char **warnings;           /* about the model and the importance data, each once */
    size_t n_warnings;
} survey;

/* Plans a file of one type as if --force and --allow-requantize were given, since nothing is written. NULL:
 * these options do not allow the type, *e says why. */
static gq_plan *plan_as(const survey *s, size_t type, bool pure, const char *imatrix, gq_error *e) {
    gq_options o = s->request->quantize;
    const char *slash = strrchr(o.input, '/');
    char *path =
        text_format("%.*sgquant-plan", slash ? (int)(slash + 1 - o.input) : 0, o.input); /* never written */
    gq_output out = {.path = path, .filetype = gq_filetype_name(type)};
    o.outputs = &out, o.n_outputs = 1, o.force = o.allow_requantize = true, o.pure = pure;
    o.imatrix = imatrix, o.model = s->model;
    if (s->text) o.calibration = s->text, o.foretell = o.dry_run = true;
    if (s->measured) o.measure_file = s->measured;
    gq_plan *plan = gq_plan_new(&o, e);
    free(path);
    return plan;
}

static choice choice_of(const survey *s, size_t type, const gq_plan *plan) {
    const gq_summary *sum = gq_plan_summary(plan, 0);
    choice c = {.name = gq_filetype_name(type),
                .made_for = gq_filetype_made_for(type),
                .is_copy = gq_filetype_id(type) < 0,
                .file_bytes = sum->file_bytes,
                .good = gq_filetype_advised(type)};
    c.expected = sum->expected;
    c.bits = report_bits(sum->out_bytes, (double)sum->n_weights);
    c.memory_bytes = sum->out_bytes + s->memory.cache_bytes + s->memory.buffer_bytes;
    c.fits = c.memory_bytes <= s->request->ram;
    return c;
}

static void survey_add_warning(survey *s, const char *text) {
    for (size_t i = 0; i < s->n_warnings; i++)
        if (strcmp(s->warnings[i], text) == 0) return;
    s->warnings = need_next(s->warnings, s->n_warnings, sizeof *s->warnings);
    s->warnings[s->n_warnings++] = text_format("%s", text);
}

/* Keeps the warnings that begin with the name of the importance data: they are about the data, not about a
 * type. */
static void keep_warnings(survey *s, const gq_plan *plan) {
    const char *imatrix = s->request->quantize.imatrix;
    size_t n;
    const char *const *warnings = gq_plan_warnings(plan, &n);
    for (size_t i = 0; imatrix && i < n; i++)
        if (strncmp(warnings[i], imatrix, strlen(imatrix)) == 0) survey_add_warning(s, warnings[i]);
}

/* Whether a type is offered. For a model that is quantized already, more bytes make nothing better. */
static bool is_offered(const survey *s, const choice *c, const gq_plan *plan) {
    const gq_summary *sum = gq_plan_summary(plan, 0);
    return !s->quantized || c->is_copy || sum->out_bytes < sum->in_bytes;
}

/* Whether the type can be planned without importance data. Then the data are another model's: a type that
 * only lacks some of them cannot be planned without any either. */
static bool data_are_to_blame(const survey *s, size_t type) {
    gq_error unused;
    gq_plan *plan = s->request->quantize.imatrix ? plan_as(s, type, false, NULL, &unused) : NULL;
    gq_plan_free(plan);
    return plan != NULL;
}

/* After a plan that could not keep its measurements: the others keep theirs in a folder of their own, so that
 * not each of them tries the model again. */
static void survey_keep_measurements(survey *s, const gq_plan *plan) {
    const char *temporary = getenv("TMPDIR");
    if (!s->text || s->folder || gq_plan_measure_file(plan)) return;
    s->folder =
        text_format("%s/gquant-plan-%ld", temporary && *temporary ? temporary : "/tmp", (long)getpid());
    if (mkdir(s->folder, 0700) == 0) s->measured = text_format("%s/measured", s->folder);
}

static void survey_forget_measurements(survey *s) {
    if (s->measured) unlink(s->measured), rmdir(s->folder);
    free(s->measured), free(s->folder);
}

/* Plans all types and keeps those that are offered. It fails where nothing but a copy can be made: the file
 * is no model then, or these options do not fit it. */
static bool plan_try_types(survey *s, gq_error *e) {
    size_t planned = 0;
    gq_error why = {0}, first = {0};
    for (size_t i = 0; i < gq_filetype_count(); i++) {
        gq_plan *plan = plan_as(s, i, false, s->request->quantize.imatrix, &why);
        bool is_copy = gq_filetype_id(i) < 0;
        if (!plan && data_are_to_blame(s, i)) return *e = why, false;
        if (!plan && !is_copy && !*first.text) first = why;
        if (!plan) continue;
        planned += !is_copy;
        choice *c = &s->choices[s->n];
        *c = choice_of(s, i, plan);
        s->n += is_offered(s, c, plan);
        keep_warnings(s, plan);
        survey_keep_measurements(s, plan);
        gq_plan_free(plan);
    }
    if (planned) return true;
    *e = first;
    return false;
}

static int compare_sizes(const void *left, const void *right) {
    const choice *a = left, *b = right;
    if (a->file_bytes != b->file_bytes) return a->file_bytes < b->file_bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Returns the quantized type with the most bytes if quantized tensors have more than half of all; else NULL.
 */
static const char *quantized_as(const gq_model *m) {
    enum { TYPES = 64 };
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

/* Returns about the smallest file, in bytes, that a target can make: all tensors in the first of these types
 * that can be planned. The types of fewest bits need importance data. 0: none can. */
static uint64_t smallest_target(const survey *s) {
    static const char *const types[] = {"IQ1_S", "IQ1_M", "Q2_K"};
    gq_error unused;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t type = (size_t)gq_filetype_find(types[i]);
        gq_plan *plan = plan_as(s, type, true, s->request->quantize.imatrix, &unused);
        if (!plan) continue;
        choice c = choice_of(s, type, plan);
        bool offered = is_offered(s, &c, plan);
        gq_plan_free(plan);
        if (offered) return c.file_bytes;
    }
    return 0;
}

/* Returns the folder's type that most bytes of weights have, if they are dequantized; malloc'ed. NULL: most
 * are not. */
static char *dequantized_from(const gq_model *m) {
    uint64_t all = 0, quantized = 0, most = 0;
    const gq_stored *largest = NULL;
    size_t n;
    const gq_stored *t = gq_model_tensors(m, &n);
    for (size_t i = 0; i < n; i++) {
        uint64_t bytes = t[i].origin ? t[i].origin->bytes : t[i].bytes;
        all += bytes;
        if (!t[i].origin || !t[i].origin->quantized || gq_type_quantized(t[i].type)) continue;
        quantized += bytes;
        if (bytes > most) most = bytes, largest = &t[i];
    }
    return quantized > all / 2 ? report_origin_type(largest->type, largest->origin) : NULL;
}

static const choice *choice_named(const survey *s, const char *name) {
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->choices[i].name, name)) return &s->choices[i];
    return NULL;
}

/* Plans mixes of sizes between those of the smallest and the largest types that people use. */
static bool survey_draw_curve(survey *s, gq_error *e) {
    const choice *least = choice_named(s, "Q2_K"), *most = choice_named(s, "Q8_0");
    if (!least || !most) return true;
    char *path = text_format("%s.gquant-plan", s->request->quantize.input); /* never written */
    gq_output out = {.path = path};
    gq_options o = s->request->quantize;
    o.outputs = &out, o.n_outputs = 1, o.force = o.dry_run = o.foretell = true;
    o.model = s->model, o.calibration = s->text;
    if (s->measured) o.measure_file = s->measured;
    bool ok = curve_fill(&s->curve, &o, s->memory.cache_bytes + s->memory.buffer_bytes, least->file_bytes,
                         most->file_bytes, e);
    free(path);
    return ok;
}

/* Fills what the open model tells and its plans do. */
static bool survey_ask_model(survey *s, const gq_model *m, gq_error *e) {
    size_t n_warnings;
    const char *const *warnings = gq_model_warnings(m, &n_warnings);
    const request *r = s->request;
    for (size_t i = 0; i < n_warnings; i++) survey_add_warning(s, warnings[i]);
    s->model = m, s->memory.size = sizeof s->memory;
    gq_model_memory(m, r->context, &s->memory);
    s->quantized = quantized_as(m);
    s->dequantized = dequantized_from(m);
    if (!plan_try_types(s, e)) return false;
    qsort(s->choices, s->n, sizeof *s->choices, compare_sizes);
    for (size_t i = 0; r->ram && i < s->n; i++)
        if (s->choices[i].fits && s->choices[i].good) s->best = &s->choices[i];
    uint64_t besides = s->memory.cache_bytes + s->memory.buffer_bytes;
    s->target = r->ram > besides ? r->ram - besides : 0;
    if (r->ram && !s->best) s->smallest = smallest_target(s);
    return !s->text || survey_draw_curve(s, e);
}

static bool survey_fill(survey *s, const request *r, gq_error *e) {
    *s = (survey){
        .request = r, .text = s->text, .choices = need_memory(gq_filetype_count(), sizeof *s->choices)};
    gq_model *m = gq_model_open(r->quantize.input, e);
    bool ok = m && survey_ask_model(s, m, e);
    gq_model_close(m);
    s->model = NULL;
    return ok;
}

/* ---- for people ---- */

/* Formats bytes as the command line takes them, in powers of 1000; rounded down, so that the size still fits.
 */
static char *size_option(uint64_t bytes) {
    static const struct {
        uint64_t unit;
        char letter;
    } units[] = {{1000000000, 'G'}, {1000000, 'M'}, {1000, 'K'}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        uint64_t hundredths = bytes / (units[i].unit / 100);
        if (hundredths >= 100)
            return text_format("%" PRIu64 ".%02" PRIu64 "%c", hundredths / 100, hundredths % 100,
                               units[i].letter);
    }
    return text_format("%" PRIu64, bytes);
}

/* Returns the note of a row, malloc'ed. A type for special models gets no "fits". */
static char *note_of(const survey *s, const choice *c) {
    if (*c->made_for) return text_format("for %s", c->made_for);
    return text_format("%s", c == s->best ? "fits, recommended" : s->request->ram && c->fits ? "fits" : "");
}

static void plan_add_row(table *t, const survey *s, const choice *c) {
    char size[UNIT_ROOM];
    table_text(t, c->name);
    table_text(t, size_text(size, (double)c->file_bytes));
    table_cell(t, text_format("%.3f", c->bits));
    table_text(t, size_text(size, (double)c->memory_bytes));
    if (s->text) table_cell(t, isnan(c->expected) ? text_format("-") : text_format("%.4g", c->expected));
    table_cell(t, note_of(s, c));
}

/* Prints the table, with the types for special models last. */
static void print_table(const survey *s) {
    table t;
    table_start(&t, s->text ? "lrrrrl" : "lrrrl");
    table_row(&t, (const char *const[]){"TYPE", "file", "bpw", "memory", s->text ? "divergence" : "", ""});
    for (size_t i = 0; i < s->n; i++)
        if (!*s->choices[i].made_for) plan_add_row(&t, s, &s->choices[i]);
    for (size_t i = 0; i < s->n; i++)
        if (*s->choices[i].made_for) plan_add_row(&t, s, &s->choices[i]);
    table_print(&t, stdout);
    table_free(&t);
}

static bool any_fits(const survey *s) {
    for (size_t i = 0; i < s->n; i++)
        if (s->choices[i].fits && !*s->choices[i].made_for) return true;
    return false;
}

static void print_advice(const survey *s) {
    char ram[UNIT_ROOM], more[UNIT_ROOM], *target = size_option(s->target);
    size_text(ram, (double)s->request->ram);
    if (s->best && !strcmp(s->best->name, "COPY"))
        printf("The model fits %s as it is.\n", ram);
    else if (s->best)
        printf("For %s: %s. To use all of it: --target-size %s\n", ram, s->best->name, target);
    else if (any_fits(s))
        printf("Some types fit %s, but others are better in the same bytes, so none is recommended.\n", ram);
    else if (s->smallest > 0 && s->smallest <= s->target)
        printf("No type fits %s, but --target-size %s does.\n", ram, target);
    else if (s->smallest > 0)
        printf("Nothing fits %s: the smallest file that --target-size can make has about %s, and %s is left "
               "for it.\n",
               ram, size_text(more, (double)s->smallest), s->target ? target : "nothing");
    else
        printf("Nothing fits %s.\n", ram);
    free(target);
}

static void print_requantizing(const survey *s) {
    char *line = text_format("The model is quantized already, most of it as %s. Making a smaller type of it "
                             "takes --allow-requantize and adds to what was lost; quantizing the original "
                             "gives a better file. Types that "
                             "would not be smaller are left out.",
                             s->quantized);
    print_wrapped(stdout, line);
    free(line);
}

static void print_dequantizing(const survey *s) {
    char *line = text_format("Most of the folder is %s, which is dequantized before it gets another type. "
                             "Quantizing the original in 16 bits gives a better file.",
                             s->dequantized);
    print_wrapped(stdout, line);
    free(line);
}

static void print_survey(const survey *s) {
    char cache[UNIT_ROOM], buffers[UNIT_ROOM];
    const gq_memory *m = &s->memory;
    print_table(s);
    char *line =
        text_format("memory: weights, %s for a context of %" PRIu64 " tokens in F16%s, %s for buffers",
                    size_text(cache, (double)m->cache_bytes), m->context,
                    m->cache_bytes ? "" : " (not known)", size_text(buffers, (double)m->buffer_bytes));
    putchar('\n'), print_wrapped(stdout, line);
    free(line);
    if (m->context_trained && m->context > m->context_trained)
        printf("The model was made for a context of %" PRIu64 " tokens.\n", m->context_trained);
    if (s->quantized) print_requantizing(s);
    if (s->dequantized) print_dequantizing(s);
    if (s->text) {
        print_wrapped(stdout,
                      "divergence: what is to be expected of plain encoding, in nats, by trials on the text; "
                      "--calibrate makes it less");
        if (s->curve.n) putchar('\n'), curve_print(&s->curve);
    }
    if (s->request->ram) print_advice(s);
}

/* ---- for programs ---- */

static json_t *survey_facts(const survey *s) {
    json_t *o = json_object();
    set_text(o, "path", s->request->quantize.input);
    if (s->quantized) set_text(o, "quantized", s->quantized);
    if (s->dequantized) set_text(o, "dequantized", s->dequantized);
    set_count(o, "context", s->memory.context);
    set_count(o, "cache_bytes", s->memory.cache_bytes);
    set_count(o, "buffer_bytes", s->memory.buffer_bytes);
    if (s->request->ram) {
        set_count(o, "ram", s->request->ram);
        if (s->best) set_text(o, "recommended", s->best->name);
        set_count(o, "target_size", s->target);
    }
    return o;
}

static json_t *choice_json(const choice *c, bool limit) {
    json_t *o = json_object();
    set_text(o, "file_type", c->name);
    if (*c->made_for) set_text(o, "made_for", c->made_for);
    set_count(o, "file_bytes", c->file_bytes);
    set_number(o, "bits_per_weight", c->bits);
    set_count(o, "memory_bytes", c->memory_bytes);
    if (!isnan(c->expected)) set_number(o, "expected_divergence", c->expected);
    if (limit) set_bool(o, "fits", c->fits);
    return o;
}

static void plan_print_json(const survey *s) {
    emitter j;
    emit_start(&j, stdout);
    emit_open(&j, NULL, '{');
    emit_members(&j, survey_facts(s));
    emit_open(&j, "types", '[');
    for (size_t i = 0; i < s->n; i++) json_emit(&j, NULL, choice_json(&s->choices[i], s->request->ram > 0));
    emit_close(&j);
    if (s->text) emit_open(&j, "curve", '[');
    for (size_t i = 0; i < s->curve.n; i++) {
        json_t *o = json_object();
        set_count(o, "target_size", s->curve.points[i].file_bytes);
        if (s->curve.points[i].memory) set_count(o, "ram", s->curve.points[i].memory);
        set_number(o, "expected_divergence", s->curve.points[i].expected);
        json_emit(&j, NULL, o);
    }
    if (s->text) emit_close(&j);
    emit_close(&j);
    emit_end(&j);
}

/* Refuses a --ram without a unit that is below a megabyte: no model fits, so gigabytes were meant. */
static bool check_ram(const request *r, gq_error *e) {
    enum { LEAST = 1000000 };
    for (size_t i = 0; i < r->n_given; i++) {
        const char *text = r->given[i].argument;
        if (strcmp(r->given[i].option->name, "ram") != 0 || text[strspn(text, "0123456789.")]) continue;
        if (r->ram < LEAST)
            return gq_fail_usage(e, "--ram %s: these are %" PRIu64 " bytes; for gigabytes write %sG or %sGi",
                                 text, r->ram, text, text);
    }
    return true;
}

int plan_main(const request *r) {
    gq_error e = {0};
    survey s = {.n = 0};
    request asked = *r;
    gq_calibration room;
    asked.quantize.input = r->arguments[0];
    asked.calibrate = r->text, asked.calibrate_ids = r->ids,
    asked.context = 0; /* of a window; the plan's own is that of memory */
    bool ok = check_ram(r, &e) && calibration_ask(&asked, &room, &s.text, &e);
    asked.context = r->context;
    ok = ok && survey_fill(&s, &asked, &e);
    calibration_free(&room);
    if (ok && !r->quiet) warn_all((const char *const *)s.warnings, s.n_warnings);
    if (ok && r->json)
        plan_print_json(&s);
    else if (ok)
        print_survey(&s);
    for (size_t i = 0; i < s.n_warnings; i++) free(s.warnings[i]);
    survey_forget_measurements(&s);
    free(s.curve.points);
    free(s.choices), free(s.warnings), free(s.dequantized);
    return ok ? GQ_OK : say_failure(&e);
}
