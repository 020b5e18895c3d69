/* The command `gquant plan MODEL`: which file types fit a machine. The library plans the whole job once per
 * file type, and with a text estimates KL divergences (gq_survey_new); this file prints what it found, as
 * tables or as JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

/* ---- what was found ---- */

typedef struct survey {
    const request *request;
    uint64_t ram; /* of --ram, or, for people, this machine's */
    const gq_survey *found;
    const gq_survey_facts *facts;
    const gq_choice *choices; /* n of them, smallest first */
    size_t n;
    const gq_choice *best;  /* NULL: nothing fits, or there is no limit */
    const gq_choice *usual; /* NULL: there is none */
    bool tried;             /* on a text */
    const gq_curve_point *curve;
    size_t n_curve;
} survey;

static survey survey_view(const request *r, uint64_t ram, const gq_survey *of) {
    survey s = {
        .request = r, .ram = ram, .found = of, .facts = gq_survey_summary(of), .tried = r->text || r->ids};
    s.choices = gq_survey_choices(of, &s.n), s.curve = gq_survey_curve(of, &s.n_curve);
    s.usual = gq_survey_usual(of);
    for (size_t i = 0; i < s.n; i++)
        if (s.choices[i].best) s.best = &s.choices[i];
    return s;
}

/* ---- for people: the table and what to take ---- */

/* Formats bytes as the command line takes them, in powers of 1000; rounded down, so that the size still fits. */
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

static bool is_copy(const gq_choice *c) { return !strcmp(c->name, "COPY"); }

/* The model as it is, where it fits; NULL: it does not. */
static const gq_choice *fitting_copy(const survey *s) {
    for (size_t i = 0; i < s->n; i++)
        if (is_copy(&s->choices[i]) && s->choices[i].fits) return &s->choices[i];
    return NULL;
}

/* Returns the note of a row, malloc'ed. A type for special models gets no "fits". */
static char *note_of(const gq_choice *c) {
    if (is_copy(c)) return text_format("%sthe model as it is", c->fits ? "fits, " : "");
    if (*c->made_for) return text_format("for %s", c->made_for);
    if (c->needs_imatrix) return text_format("%sneeds an imatrix", c->fits ? "fits, " : "");
    return text_format("%s", c->best ? "fits, recommended" : c->fits ? "fits" : "");
}

static void plan_add_row(table *t, const survey *s, const gq_choice *c) {
    char size[UNIT_ROOM];
    table_text(t, c->name);
    table_text(t, file_text(size, (double)c->file_bytes));
    table_cell(t, text_format("%.3f", c->bits));
    table_text(t, memory_text(size, (double)c->memory_bytes));
    if (s->tried)
        table_cell(t, isnan(c->expected) ? text_format("-")
                                         : text_format("%.4g, %s", c->expected,
                                                       gq_level_word(gq_level_of(c->expected, NAN))));
    table_cell(t, note_of(c));
}

/* Prints the table, with the types for special models last. */
static void print_table(const survey *s) {
    table t;
    table_start(&t, s->tried ? "lrrrrl" : "lrrrl",
                (const char *const[]){"TYPE", "file", "bpw", "memory", s->tried ? "KL divergence" : "", ""});
    for (size_t i = 0; i < s->n; i++)
        if (!*s->choices[i].made_for) plan_add_row(&t, s, &s->choices[i]);
    for (size_t i = 0; i < s->n; i++)
        if (*s->choices[i].made_for) plan_add_row(&t, s, &s->choices[i]);
    table_end(&t, stdout);
}

static bool any_fits(const survey *s) {
    for (size_t i = 0; i < s->n; i++)
        if (s->choices[i].fits && !*s->choices[i].made_for && !s->choices[i].needs_imatrix) return true;
    return false;
}

/* The largest advised type that fits and needs an imatrix, NULL: there is none. */
static const gq_choice *best_with_importance(const survey *s) {
    const gq_choice *best = NULL;
    for (size_t i = 0; i < s->n; i++)
        if (s->choices[i].fits && s->choices[i].needs_imatrix &&
            gq_filetype_advised((size_t)gq_filetype_find(s->choices[i].name)))
            best = &s->choices[i];
    return best;
}

/* The reason for the type to take. */
static void print_recommended(const survey *s, const char *ram, const char *target) {
    const gq_choice *c = s->best, *copy = fitting_copy(s);
    gq_level level = isnan(c->expected) ? GQ_LEVELS : gq_level_of(c->expected, NAN);
    if (is_copy(c))
        print_line(stdout, "Recommended: keep the model as it is. It fits %s%s.", ram,
                   s->facts->quantized ? ", and quantizing it again would add to what was lost" : "");
    else if (level <= GQ_CLOSE)
        print_line(
            stdout,
            "Recommended: %s, the smallest of the usual types that is expected to be close to the base model "
            "(KL divergence %.2g nats).",
            c->name, c->expected);
    else if (level < GQ_LEVELS)
        print_line(stdout,
                   "Recommended: %s. %s is expected of it (KL divergence %.2g nats), and no less of other "
                   "types that "
                   "fit %s; a calibrated file loses less.",
                   c->name, gq_level_word(level), c->expected, ram);
    else if (copy)
        print_line(stdout,
                   "Recommended: %s. It has the lowest quality loss of the usual types, and takes %.0f %% of "
                   "the bytes. The model fits %s as it is, too: then there is nothing to do.",
                   c->name, 100 * (double)c->file_bytes / (double)copy->file_bytes, ram);
    else
        print_line(stdout,
                   "Recommended: %s, the largest of the usual types that fits %s, as larger types lose less "
                   "quality. To "
                   "use all of the memory: --target-size %s",
                   c->name, ram, target);
    if (s->usual && !is_copy(c) && s->usual->file_bytes < c->file_bytes)
        print_line(
            stdout,
            "A smaller file generates tokens faster, in proportion to its size: %s, the usual choice, %.1f "
            "times as fast.",
            s->usual->name, (double)c->file_bytes / (double)s->usual->file_bytes);
}

/* Says what takes memory beside a file, where less of it makes room. */
static void print_ways_out(const survey *s) {
    char cache[UNIT_ROOM], reserve[UNIT_ROOM];
    memory_text(cache, (double)s->facts->cache_bytes), memory_text(reserve, (double)s->facts->reserve);
    if (s->facts->cache_bytes)
        print_line(stdout, "A smaller --context leaves more for it: %" PRIu64 " tokens take %s.",
                   s->facts->context, cache);
    if (s->facts->reserve)
        print_line(stdout, "A smaller --reserve leaves more for it: %s are set aside for the system.",
                   reserve);
}

static void print_advice(const survey *s) {
    char ram[UNIT_ROOM], more[UNIT_ROOM], left[UNIT_ROOM], *target = size_option(s->facts->target);
    const gq_choice *with_data = s->best ? NULL : best_with_importance(s);
    memory_text(ram, (double)s->ram);
    if (s->best)
        print_recommended(s, ram, target);
    else if (any_fits(s))
        print_line(stdout,
                   "The types that fit %s are worse than others of the same size, so none is recommended.",
                   ram);
    else if (s->facts->smallest > 0 && s->facts->smallest <= s->facts->target)
        print_line(stdout, "No type fits %s, but --target-size %s does.", ram, target);
    else if (s->facts->smallest > 0)
        print_line(
            stdout,
            "Nothing fits %s%s: the smallest file that --target-size can make has about %s, and %s is left "
            "for it.",
            ram, with_data ? " without an imatrix" : "", file_text(more, (double)s->facts->smallest),
            s->facts->target ? file_text(left, (double)s->facts->target) : "nothing");
    else
        print_line(stdout, "Nothing fits %s%s.", ram, with_data ? " without an imatrix" : "");
    if (!s->best && !any_fits(s)) print_ways_out(s);
    if (with_data)
        print_line(stdout,
                   "With an imatrix %s fits: take a published file (--imatrix FILE), or make one by 'gquant "
                   "imatrix compute'.",
                   with_data->name);
    free(target);
}

/* ---- why a file type takes more bytes of a model than its name says ---- */

static void fallbacks_print_end(table *t, const gq_fallbacks *first) {
    print_wrapped(stdout, "");
    print_line(stdout,
               "Rows of %" PRIu64
               " weights are no multiple of the blocks of %s and its like, so these tensors get "
               "other types, and files are larger than their type's name says:",
               first->columns, first->wanted);
    table_end(t, stdout);
}

/* Prints, for the types that fallbacks make more than a hundredth larger, which types take the place of which, in
 * how many tensors, and what they add. Prints nothing where there is none. */
static void fallbacks_print(const survey *s) {
    const double least = .01; /* of a file, below which nobody asks why */
    const gq_fallbacks *first = NULL;
    table t;
    table_start(&t, "lrl", (const char *const[]){"TYPE", "adds bpw", "in place of its own types"});
    for (size_t i = 0; i < s->n; i++) {
        const gq_choice *c = &s->choices[i];
        const gq_fallbacks *f = gq_survey_fallbacks(s->found, c->name);
        if (!f || f->bits <= least * c->bits || *c->made_for) continue;
        if (!first) first = f;
        table_text(&t, c->name);
        table_cell(&t, text_format("%.3f", f->bits));
        table_text(&t, f->instead);
    }
    if (first)
        fallbacks_print_end(&t, first);
    else
        table_free(&t);
}

/* ---- for people: all of it ---- */

static void print_requantizing(const survey *s) {
    print_line(stdout,
               "The model is quantized already, most of it as %s. Making a smaller type of it "
               "takes --allow-requantize and adds to the quality loss; quantizing the base model "
               "gives a better file. Types that "
               "would not be smaller are left out.",
               s->facts->quantized);
}

static void print_curve(const survey *s) {
    table t;
    char size[UNIT_ROOM];
    table_start(&t, "rrl", (const char *const[]){"--target-size", "KL divergence", ""});
    for (size_t i = 0; i < s->n_curve; i++) {
        const gq_curve_point *p = &s->curve[i];
        table_cell(&t, text_format("%" PRIu64 "K", p->file_bytes / 1000));
        table_cell(&t, isnan(p->expected) ? text_format("-") : text_format("%.4g", p->expected));
        table_cell(&t, p->memory
                           ? text_format("with the context it takes %s", memory_text(size, (double)p->memory))
                           : text_format("%s", ""));
    }
    table_end(&t, stdout);
}

static void print_reserve(const survey *s) {
    char ram[UNIT_ROOM], reserve[UNIT_ROOM];
    if (!s->ram) return;
    print_line(stdout, "%s: %s, of which %s are set aside for the system and other programs (--reserve)",
               s->request->ram ? "the machine" : "this machine", memory_text(ram, (double)s->ram),
               memory_text(reserve, (double)s->facts->reserve));
}

static void print_survey(const survey *s) {
    char cache[UNIT_ROOM], buffers[UNIT_ROOM];
    const gq_survey_facts *m = s->facts;
    print_table(s);
    putchar('\n');
    print_line(stdout, "memory: weights, %s for a context of %" PRIu64 " tokens in F16%s, %s for buffers",
               memory_text(cache, (double)m->cache_bytes), m->context, m->cache_bytes ? "" : " (not known)",
               memory_text(buffers, (double)m->buffer_bytes));
    print_reserve(s);
    if (m->context_trained && m->context > m->context_trained)
        print_line(stdout, "The model was made for a context of %" PRIu64 " tokens.", m->context_trained);
    fallbacks_print(s);
    if (s->facts->quantized) print_requantizing(s);
    if (s->facts->dequantized)
        print_line(stdout,
                   "Most of the folder is %s, which is dequantized first. Quantizing the base model in 16 "
                   "bits gives a better file.",
                   s->facts->dequantized);
    if (s->tried) {
        print_wrapped(stdout, "KL divergence: expected of plain encoding, in nats, by trials on the text; "
                              "--calibrate makes it less");
        if (s->n_curve) putchar('\n'), print_curve(s);
    }
    if (s->ram) print_advice(s);
    if (s->best && !is_copy(s->best))
        next_say(s->request, s->request->arguments[0], s->best->name, (char *)NULL);
}

/* ---- the command ---- */

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

/* Bytes of memory to plan for: for people this machine's where no other is named. */
static uint64_t plan_ram(const request *r) {
    if (r->ram || r->json) return r->ram;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

/* Memory that is set aside, as in gq_survey_request: 0 by option means none. */
static uint64_t plan_reserve(const request *r) {
    for (size_t i = 0; i < r->n_given; i++)
        if (!strcmp(r->given[i].option->name, "reserve")) return r->reserve ? r->reserve : UINT64_MAX;
    return 0;
}

int plan_main(const request *r) {
    gq_error e = {0};
    request asked = *r;
    gq_calibration room;
    size_t n;
    gq_options o = r->quantize;
    gq_survey_request wanted = {.size = sizeof wanted,
                                .options = &o,
                                .context = r->context,
                                .ram = plan_ram(r),
                                .reserve = plan_reserve(r)};
    asked.calibrate = r->text, asked.calibrate_ids = r->ids;
    asked.context = 0; /* of a window; the survey's own is that of memory */
    o.input = r->arguments[0], wanted.folder = getenv("TMPDIR");
    progress p; /* of trials on the text */
    progress_start(&p, r, NULL);
    gq_callbacks callbacks = progress_callbacks(&p);
    o.callbacks = &callbacks, o.forecast = !r->quiet;
    bool ok = check_ram(r, &e) && input_calibration(&asked, &room, &o.calibration, &e);
    gq_survey *found = ok ? gq_survey_new(&wanted, &e) : NULL;
    progress_end(&p, found ? NULL : &e);
    if (ok) input_free(&room.text);
    if (!found) return say_failure(r->said, &e);
    const char *const *warnings = gq_survey_warnings(found, &n);
    if (!r->quiet) warn_all(r->said, warnings, n);
    survey s = survey_view(r, wanted.ram, found);
    if (r->json)
        print_json_text(gq_survey_text(found, r->arguments[0], GQ_REPORT_JSON, NULL));
    else
        print_survey(&s);
    gq_survey_free(found);
    return GQ_OK;
}
