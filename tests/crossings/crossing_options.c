/* Random sets of options for crossings. A set consists of aspects (types, importance data, pruning,
 * splitting, ...), each of which is drawn by itself, so that two sets can differ in a single one; ways use
 * that to leave the unfinished run of other options behind. Chances are such that most sets can be carried
 * out, and the values that are refused come up now and then. Outputs are drawn apart from the aspects: one
 * name and type, several, names made by the command, or targets. Options of jobs that run a model are in
 * crossing_runs_options.c.
 */
#include "tests/crossings/crossing.h"

#include <stdarg.h>

#include "tests/support/numbers.h"

/* ---- words ---- */

void arguments_add(arguments *a, const char *format, ...) {
    va_list values;
    va_start(values, format);
    assert_true(a->n + 1 < sizeof a->items / sizeof *a->items);
    assert_true(vasprintf(&a->items[a->n++], format, values) >= 0);
    va_end(values);
}

void arguments_append(arguments *to, const arguments *from) {
    for (size_t i = 0; i < from->n; i++) arguments_add(to, "%s", from->items[i]);
}

void arguments_free(arguments *a) {
    for (size_t i = 0; i < a->n; i++) free(a->items[i]);
    *a = (arguments){.n = 0};
}

bool arguments_same(const arguments *a, const arguments *b) {
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++) same = !strcmp(a->items[i], b->items[i]);
    return same;
}

/* ---- aspects ---- */

static const char *const tensor_types[] = {"Q4_K", "Q6_K", "Q8_0", "Q2_K",   "Q3_K",   "Q5_K",    "Q4_0",
                                           "Q5_1", "BF16", "F16",  "IQ4_NL", "IQ4_XS", "TQ2_0",   "F32",
                                           "Q4_1", "Q5_0", "q1_0", "MXFP4",  "NVFP4",  "IQ2_XXS", "IQ3_S"};
static const char *const file_types[] = {"Q4_K_M", "Q4_K_S", "Q5_K_M", "Q3_K_L", "Q2_K",    "Q6_K",
                                         "Q8_0",   "Q4_0",   "Q5_1",   "IQ4_NL", "IQ4_XS",  "F16",
                                         "BF16",   "F32",    "COPY",   "TQ1_0",  "Q2_K_S",  "MXFP4_MOE",
                                         "IQ1_S",  "IQ1_M",  "IQ2_XS", "IQ2_M",  "IQ3_XXS", "IQ3_M"};
#define ANY_OF(list) (list)[below(sizeof(list) / sizeof *(list))]

static const crossing_tensor *any_tensor(const crossing_model *m) { return &m->tensors[below(m->n)]; }

/* Draws a pattern that some tensors match: a general one, or a name with a dot for every unusual character.
 */
static void draw_pattern(const crossing_model *m, char pattern[160]) {
    static const char *const general[] = {"attn_.*", "ffn_(up|down)", "weight$", "blk\\.[0-3]\\.", "."};
    if (chance(40)) {
        snprintf(pattern, 160, "%s", ANY_OF(general));
        return;
    }
    size_t n = 0;
    for (const char *c = any_tensor(m)->name; *c && n < 150; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || *c == '_';
        pattern[n++] = plain ? *c : '.';
    }
    pattern[n] = 0;
}

static void draw_types(arguments *a, const crossing_model *m) {
    char pattern[160];
    for (int i = chance(30) ? 1 + (int)below(3) : 0; i > 0; i--) {
        draw_pattern(m, pattern);
        arguments_add(a, "--tensor-type"), arguments_add(a, "%s=%s", pattern, ANY_OF(tensor_types));
    }
    if (chance(8)) arguments_add(a, "--tensor-scales");
    if (chance(12)) draw_pattern(m, pattern), arguments_add(a, "--keep"), arguments_add(a, "%s", pattern);
    if (chance(15)) arguments_add(a, "--pure");
    unsigned other = m->runs ? 3 : 8; /* rows of models that run do not fit most types */
    if (chance(other)) arguments_add(a, "--output-tensor-type"), arguments_add(a, "%s", ANY_OF(tensor_types));
    if (chance(other))
        arguments_add(a, "--token-embedding-type"), arguments_add(a, "%s", ANY_OF(tensor_types));
    if (chance(8)) arguments_add(a, "--leave-output-tensor");
}

static void draw_transpose(arguments *a, const crossing_model *m) {
    char pattern[160];
    if (!chance(20)) return;
    draw_pattern(m, pattern);
    arguments_add(a, "--transpose"), arguments_add(a, "%s", pattern);
}

static void draw_importance(arguments *a, const crossing_model *m) {
    (void)m;
    if (!chance(55)) return;
    arguments_add(a, "--imatrix");
    arguments_add(a, "../in/importance%s.%s", chance(50) ? "" : "-2", chance(50) ? "dat" : "gguf");
    if (chance(20)) arguments_add(a, "--imatrix-path");
    if (chance(15)) arguments_add(a, "--missing-importance"), arguments_add(a, "%s", ANY_OF(tensor_types));
}

static void draw_weights(arguments *a, const crossing_model *m) {
    if (!chance(15)) return;
    arguments_add(a, chance(50) ? "--include-weights" : "--exclude-weights");
    arguments_add(a, "%s", chance(60) ? "attn" : any_tensor(m)->name);
}

static void draw_prune(arguments *a, const crossing_model *m) {
    char list[64] = "";
    if (!chance(35)) return;
    bool one = chance(50) && m->blocks > 1;
    if (one) sprintf(list, "%u", (unsigned)below(m->blocks));
    for (uint32_t b = 0; !one && b < m->blocks + 1; b++)
        if (chance(30)) sprintf(list + strlen(list), "%s%u", *list ? "," : "", b);
    if (*list) arguments_add(a, "--prune-layers"), arguments_add(a, "%s", list);
}

static void draw_split(arguments *a, const crossing_model *m) {
    if (chance(m->shards > 1 ? 40 : 5)) {
        arguments_add(a, "--keep-split");
    } else if (chance(20)) {
        arguments_add(a, "--split-max-size"), arguments_add(a, "%u", 3000 + (unsigned)below(60000));
    }
}

static void draw_effort(arguments *a, const crossing_model *m) {
    static const char *const efforts[] = {"fast", "default", "best"};
    (void)m;
    if (chance(40)) arguments_add(a, "--effort"), arguments_add(a, "%s", ANY_OF(efforts));
}

static void draw_requantize(arguments *a, const crossing_model *m) {
    if (m->any_quantized ? chance(85) : chance(5)) arguments_add(a, "--allow-requantize");
}

static void draw_metadata(arguments *a, const crossing_model *m) {
    static const char *const items[] = {"general.name=str:other",    "some.count=int:7",
                                        "some.flag=bool:true",       "general.file_type=int:3",
                                        "general.size_label=str:9B", "llama.attention.head_count=int:4",
                                        "llama.block_count=int:3",   "a.scale=float:0.25"};
    static const char *const removed[] = {"size_label$", "^(some|a)\\.", "general\\.(name|tags)",
                                          "nothing|quantize\\.imatrix"};
    (void)m;
    if (chance(8)) arguments_add(a, "--remove-kv"), arguments_add(a, "%s", ANY_OF(removed));
    for (int i = chance(20) ? 1 + (int)below(2) : 0; i > 0; i--)
        arguments_add(a, "--override-kv"), arguments_add(a, "%s", ANY_OF(items));
    if (chance(2))
        arguments_add(a, "--override-kv"), arguments_add(a, "general.alignment=int:%u", 8u << below(10));
    if (chance(15)) arguments_add(a, "--no-digests");
}

static void draw_strict(arguments *a, const crossing_model *m) {
    if (chance(m->runs ? 1 : 4)) arguments_add(a, "--strict");
}

static void (*const draws[N_PLAIN_ASPECTS])(arguments *, const crossing_model *) = {
    [ASPECT_TYPES] = draw_types,           [ASPECT_TRANSPOSE] = draw_transpose,
    [ASPECT_IMPORTANCE] = draw_importance, [ASPECT_WEIGHTS] = draw_weights,
    [ASPECT_PRUNE] = draw_prune,           [ASPECT_SPLIT] = draw_split,
    [ASPECT_EFFORT] = draw_effort,         [ASPECT_REQUANTIZE] = draw_requantize,
    [ASPECT_METADATA] = draw_metadata,     [ASPECT_STRICT] = draw_strict};

void crossing_aspect_draw(crossing_options *o, enum crossing_aspect aspect, const crossing_model *m) {
    if (aspect >= N_PLAIN_ASPECTS) {
        crossing_run_aspect_draw(o, aspect, m);
        return;
    }
    arguments_free(&o->aspects[aspect]);
    draws[aspect](&o->aspects[aspect], m);
}

enum crossing_aspect crossing_aspect_any(const crossing_options *o) {
    /* Aspects that decide the bytes of a calibrated file most often. */
    static const enum crossing_aspect calibrated[] = {
        ASPECT_TOKENS, ASPECT_TOKENS, ASPECT_TOKENS, ASPECT_TOKENS, ASPECT_TOKENS,
        ASPECT_TYPES,  ASPECT_TYPES,  ASPECT_TYPES,  ASPECT_PRUNE,  ASPECT_PRUNE,
        ASPECT_EFFORT, ASPECT_EFFORT, ASPECT_MEMORY, ASPECT_MEMORY};
    if (o->job > JOB_CALIBRATE) return chance(80) ? ASPECT_TOKENS : ASPECT_MEMORY;
    if (o->job == JOB_CALIBRATE && chance(75)) return ANY_OF(calibrated);
    return (enum crossing_aspect)below(o->aspects[ASPECT_EVALUATE].n ? N_ASPECTS : N_PLAIN_ASPECTS);
}

/* ---- outputs ---- */

static void draw_name(char name[256], size_t number) {
    static const char *const names[] = {"out", "o u t", "\xc3\xb6", "out-00001-of-00002", "out.F16"};
    char filler[256];
    memset(filler, 'l', sizeof filler);
    if (chance(8))
        snprintf(name, 256, "%zu%.*s.gguf", number, (int)(180 + below(chance(80) ? 54 : 70)), filler);
    else
        snprintf(name, 256, "%s%zu.gguf", chance(70) ? "out" : ANY_OF(names), number);
}

static bool has_pure(const arguments *a) {
    bool found = false;
    for (size_t i = 0; i < a->n; i++) found = found || !strcmp(a->items[i], "--pure");
    return found;
}

static void draw_target(crossing_options *o, const crossing_model *m) {
    unsigned least = m->runs ? 35 : 0; /* in tiny models much is not quantized */
    o->target = true;
    if (chance(70)) {
        arguments_add(&o->before, "--target-bpw");
        arguments_add(&o->before, "%.2f", 4 + 0.1 * (double)(least + below(80)));
    } else {
        arguments_add(&o->before, "--target-size");
        arguments_add(&o->before, "%u", (m->runs ? 110000 : 10000) + (unsigned)below(300000));
    }
}

static void draw_targets(crossing_options *o, const crossing_model *m) {
    char name[256];
    draw_target(o, m);
    if (chance(m->runs ? 10 : 30))
        arguments_add(&o->before, "--measure-file"), arguments_add(&o->before, "none");
    else if (m->runs && chance(30))
        arguments_add(&o->before, "--measure-file"), arguments_add(&o->before, "../measures");
    if (chance(70)) {
        draw_name(name, 0), arguments_add(&o->outputs, "%s", name);
        return;
    }
    o->list = true;
    if (chance(50)) draw_target(o, m);
    arguments_add(&o->before, "--out-dir"), arguments_add(&o->before, ".");
    if (chance(30)) arguments_add(&o->outputs, "%s", ANY_OF(file_types));
}

static void draw_outputs(crossing_options *o, const crossing_model *m, bool pure) {
    char name[256];
    if (chance(pure ? 2 : m->runs ? 35 : 14)) {
        draw_targets(o, m);
    } else if (chance(12)) {
        o->list = true;
        arguments_add(&o->before, "--out-dir"), arguments_add(&o->before, ".");
        for (size_t i = 1 + below(3), first = below(10); i > 0; i--)
            arguments_add(&o->outputs, "%s", file_types[first + i]);
    } else if (chance(30)) {
        o->list = true;
        for (size_t i = 1 + below(4); i > 0; i--)
            draw_name(name, i), arguments_add(&o->outputs, "%s=%s", name, ANY_OF(file_types));
    } else {
        draw_name(name, 0), arguments_add(&o->outputs, "%s", name);
        arguments_add(&o->outputs, "%s", ANY_OF(file_types));
    }
}

void crossing_options_draw(crossing_options *o, const crossing_model *m) {
    *o = (crossing_options){.target = false};
    for (int i = 0; i < N_PLAIN_ASPECTS; i++) crossing_aspect_draw(o, (enum crossing_aspect)i, m);
    draw_outputs(o, m, has_pure(&o->aspects[ASPECT_TYPES]));
}

void crossing_options_copy(crossing_options *to, const crossing_options *from) {
    *to = *from;
    for (int i = 0; i < N_ASPECTS; i++) {
        to->aspects[i] = (arguments){.n = 0};
        arguments_append(&to->aspects[i], &from->aspects[i]);
    }
    to->before = to->command = to->texts = to->outputs = (arguments){.n = 0};
    arguments_append(&to->before, &from->before), arguments_append(&to->command, &from->command);
    arguments_append(&to->texts, &from->texts), arguments_append(&to->outputs, &from->outputs);
}

void crossing_options_free(crossing_options *o) {
    for (int i = 0; i < N_ASPECTS; i++) arguments_free(&o->aspects[i]);
    arguments_free(&o->before), arguments_free(&o->command);
    arguments_free(&o->texts), arguments_free(&o->outputs);
}
