/* Reads a line in another tool's words into a few facts (the model, the text, ...), by one table of its options,
 * and writes the facts as lines of gquant. Options that say how to compute (layers on a GPU, batches, caches)
 * mean nothing here: they are accepted, with one note for all. Options that would change the result and have no
 * counterpart are refused by name. Those tools write long names with one dash or two, and options whose argument
 * may be missing, so getopt does not fit. Existing outputs are replaced, as those tools do.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "quantize/gquant_study.h"

typedef enum tool { TOOL_IMATRIX = 1, TOOL_PERPLEXITY = 2, BOTH = 3 } tool;

/* The settings of options; those with an argument come first. */
typedef enum fact {
    FACT_MODEL,
    FACT_TEXT,
    FACT_OUT,
    FACT_CONTEXT,
    FACT_WINDOWS,
    FACT_THREADS,
    FACT_IN, /* may be given several times */
    FACT_LAYOUT,
    FACT_BASE,
    FACT_STRIDE,
    FACT_SKIPPED, /* windows at the beginning */
    FACT_NOTHING, /* means nothing here */
    FACT_MAYBE,   /* nothing, and its argument may be missing */
    FACT_FLAGS,   /* from here on without argument */
    FACT_NO_MEANING,
    FACT_AGAINST_BASE,
    FACT_OUTPUT_MATRIX,
    FACT_STATISTICS,
    FACT_SPECIAL,
    FACT_DRY_RUN,
    FACT_TASKS, /* questions, of which gquant has a format of its own */
    FACT_HELP,
    FACT_VERSION,
    FACTS
} fact;

/* Names without dashes, between spaces. */
static const struct {
    tool tools;
    fact fact;
    const char *names;
} tool_options[] = {
    {BOTH, FACT_MODEL, " m model "},
    {BOTH, FACT_TEXT, " f file "},
    {BOTH, FACT_CONTEXT, " c ctx-size "},
    {BOTH, FACT_WINDOWS, " chunks "},
    {BOTH, FACT_THREADS, " t threads "},
    {BOTH, FACT_HELP, " h help usage "},
    {BOTH, FACT_VERSION, " version "},
    {TOOL_IMATRIX, FACT_OUT, " o output output-file "},
    {TOOL_IMATRIX, FACT_IN, " in-file "},
    {TOOL_IMATRIX, FACT_LAYOUT, " output-format "},
    {TOOL_IMATRIX, FACT_SKIPPED, " chunk from-chunk "},
    {TOOL_IMATRIX, FACT_OUTPUT_MATRIX, " process-output "},
    {TOOL_IMATRIX, FACT_STATISTICS, " show-statistics "},
    {BOTH, FACT_SPECIAL, " parse-special "},
    {BOTH, FACT_DRY_RUN, " n dry-run "},
    {TOOL_PERPLEXITY, FACT_TASKS, " hellaswag winogrande multiple-choice "},
    {TOOL_IMATRIX, FACT_NO_MEANING, " no-ppl ppl "},
    {TOOL_IMATRIX, FACT_NOTHING, " ofreq output-frequency save-frequency "},
    {TOOL_PERPLEXITY, FACT_BASE, " kl-divergence-base save-all-logits "},
    {TOOL_PERPLEXITY, FACT_AGAINST_BASE, " kl-divergence "},
    {TOOL_PERPLEXITY, FACT_STRIDE, " ppl-stride "},
    {TOOL_PERPLEXITY, FACT_NOTHING,
     " ppl-output-type hellaswag-tasks winogrande-tasks multiple-choice-tasks bf binary-file "},
    {BOTH, FACT_NOTHING,
     " ngl n-gpu-layers gpu-layers b batch-size ub ubatch-size tb threads-batch ctk cache-type-k ctv "
     "cache-type-v "
     "sm split-mode ts tensor-split mg main-gpu dev device ot override-tensor ncmoe n-cpu-moe s seed np "
     "parallel "
     "C cpu-mask Cr cpu-range prio poll numa lv verbosity log-verbosity log-file "},
    {BOTH, FACT_MAYBE, " fa flash-attn "},
    {BOTH, FACT_NO_MEANING,
     " no-mmap mmap mlock kvu kv-unified no-kv-unified nkvo no-kv-offload cmoe cpu-moe warmup no-warmup "
     "no-op-offload nr no-repack no-escape no-perf perf check-tensors v verbose log-disable offline "
     "log-timestamps log-prefix log-colors direct-io no-direct-io "},
};

typedef struct tool_request {
    tool tool;
    const char *facts[FACTS]; /* arguments; of flags and what was given without: "" */
    const char **in;          /* of FACT_IN */
    size_t n_in;
    char *ignored; /* "-ngl, -b" */
} tool_request;

/* ---- reading ---- */

static bool names_have(const char *names, const char *name) {
    char *word = text_format(" %s ", name);
    bool has = *name && !strchr(name, ' ') && strstr(names, word);
    free(word);
    return has;
}

static const char *tool_name(tool t) { return t == TOOL_IMATRIX ? "imatrix" : "perplexity"; }

/* Returns which fact a word names, FACTS: none. */
static fact fact_named(tool t, const char *word) {
    const char *name = word + strspn(word, "-");
    for (size_t i = 0; word[0] == '-' && i < sizeof tool_options / sizeof *tool_options; i++)
        if (tool_options[i].tools & t && names_have(tool_options[i].names, name)) return tool_options[i].fact;
    return FACTS;
}

static void tool_note_ignored(tool_request *r, const char *word) {
    char *longer = r->ignored ? text_format("%s, %s", r->ignored, word) : text_format("%s", word);
    free(r->ignored);
    r->ignored = longer;
}

static bool tool_read(tool_request *r, char **words, gq_error *e) {
    for (; *words; words++) {
        const char *word = *words, *argument = "";
        fact f = fact_named(r->tool, word);
        if (word[0] == '-' &&
            names_have(" hf hfr hf-repo hff hf-file mu model-url ", word + strspn(word, "-")))
            return gq_fail_usage(e,
                                 "gquant %s: %s: gquant downloads nothing; hf download OWNER/NAME FILE "
                                 "does, and -m FILE reads it",
                                 tool_name(r->tool), word);
        if (f == FACTS)
            return gq_fail_usage(e, "gquant %s: unknown option %s; 'gquant %s --help' lists the options",
                                 tool_name(r->tool), word, tool_name(r->tool));
        if (f < FACT_MAYBE ||
            (f == FACT_MAYBE && words[1] && names_have(" on off auto 0 1 true false ", words[1])))
            argument = *++words;
        if (!argument) return gq_fail_usage(e, "gquant %s: %s needs an argument", tool_name(r->tool), word);
        if (f == FACT_NOTHING || f == FACT_MAYBE || f == FACT_NO_MEANING) tool_note_ignored(r, word);
        if (f == FACT_IN) {
            r->in = need_next(r->in, r->n_in, sizeof *r->in);
            r->in[r->n_in++] = argument;
        }
        r->facts[f] = argument;
    }
    return true;
}

/* ---- writing ---- */

static void line_append(struct tool_line *l, const char *word) {
    l->argv = need_more(l->argv, (size_t)l->argc + 2, sizeof *l->argv);
    l->argv[l->argc++] = text_format("%s", word);
    l->argv[l->argc] = NULL;
}

static void line_append_option(struct tool_line *l, const char *option, const char *argument) {
    if (!argument) return;
    line_append(l, option);
    if (*argument) line_append(l, argument);
}

static struct tool_line *line_begin(tool_lines *to, const char *verb, const char *job) {
    struct tool_line *l = &to->lines[to->n++];
    line_append(l, "gquant");
    line_append(l, verb);
    if (job) line_append(l, job);
    return l;
}

/* Reads a fact that is a number from 1 on; *to stays where the option was not given. */
static bool tool_number(const tool_request *r, fact f, const char *option, uint64_t *to, gq_error *e) {
    const char *argument = r->facts[f];
    return !argument || number_parse(argument, 1, UINT32_MAX, to) ||
           gq_fail_usage(e, "gquant %s: %s %s: expected a whole number from 1 on", tool_name(r->tool), option,
                         argument);
}

static void line_append_number(struct tool_line *l, const char *option, uint64_t n) {
    char *text = text_format("%llu", (unsigned long long)n);
    line_append_option(l, option, text);
    free(text);
}

static bool has_stride(const tool_request *r) {
    const char *stride = r->facts[FACT_STRIDE];
    return stride && strcmp(stride, "0") != 0;
}

/* Names the windows: their length, how far apart they begin, and the tokens that so many have. There a
 * stride makes windows longer by half of it. */
static bool append_windows(struct tool_line *l, const tool_request *r, gq_error *e) {
    uint64_t windows, context = 512, stride = 0;
    const char *n = r->facts[FACT_WINDOWS];
    bool all = !n || strcmp(n, "-1") == 0;
    if (!tool_number(r, FACT_CONTEXT, "-c", &context, e) ||
        (has_stride(r) && !tool_number(r, FACT_STRIDE, "--ppl-stride", &stride, e)))
        return false;
    if (!all && !number_parse(n, 1, UINT32_MAX, &windows))
        return gq_fail_usage(e, "gquant %s: --chunks %s: expected a number of windows, or -1 for all",
                             tool_name(r->tool), n);
    context += stride / 2;
    if (r->facts[FACT_CONTEXT] || stride) line_append_number(l, "--context", context);
    if (stride) line_append_number(l, "--stride", stride);
    if (!all) line_append_number(l, "--tokens", stride ? context + windows * stride : windows * context);
    return true;
}

static void append_common(struct tool_line *l, const tool_request *r) {
    line_append_option(l, "--threads", r->facts[FACT_THREADS]);
    line_append_option(l, "--parse-special", r->facts[FACT_SPECIAL]);
    line_append_option(l, "--dry-run", r->facts[FACT_DRY_RUN]);
}

static bool tool_needs(const tool_request *r, fact f, const char *option, gq_error *e) {
    return r->facts[f] || gq_fail_usage(e, "gquant %s: %s is missing; 'gquant %s --help' shows a whole line",
                                        tool_name(r->tool), option, tool_name(r->tool));
}

/* gquant takes the layout of imatrix data from the output's name. */
static bool check_layout(const tool_request *r, const char *out, gq_error *e) {
    const char *layout = r->facts[FACT_LAYOUT], *dot = strrchr(out, '.');
    if (!layout) return true;
    if (strcmp(layout, "gguf") != 0 && strcmp(layout, "dat") != 0)
        return gq_fail_usage(e, "gquant imatrix: --output-format %s: expected gguf or dat", layout);
    bool names_dat = dot && strcmp(dot, ".dat") == 0;
    return names_dat == (strcmp(layout, "dat") == 0) ||
           gq_fail_usage(e,
                         "gquant imatrix: --output-format %s does not fit -o %s: the name decides, .dat for "
                         "the older layout and any other for GGUF",
                         layout, out);
}

static bool imatrix_merge_line(tool_lines *to, const tool_request *r, const char *more, const char *out) {
    struct tool_line *l = line_begin(to, "imatrix", "merge");
    for (size_t i = 0; i < r->n_in; i++) line_append(l, r->in[i]);
    if (more) line_append(l, more);
    line_append(l, out);
    line_append(l, "--force");
    return true;
}

/* Adds the inputs up, as the merge behind the model's run will, and looks whether they are of this model. */
static bool check_inputs_fit(const tool_request *r, const char *model, gq_error *e) {
    gq_imatrix *sum = gq_imatrix_open(r->in[0], e);
    bool ok = sum != NULL;
    for (size_t i = 1; ok && i < r->n_in; i++) {
        gq_imatrix *m = gq_imatrix_open(r->in[i], e);
        ok = m && gq_imatrix_merge(sum, m, e);
        gq_imatrix_free(m);
    }
    gq_imatrix_coverage *c = ok ? gq_imatrix_cover_model(sum, model, e) : NULL;
    ok = c != NULL;
    for (size_t i = 0; ok && i < c->n; i++)
        if (c->weights[i].has_entry && !c->weights[i].fits)
            ok = gq_fail(e, "%s: has an entry of another size for %s of %s", r->in[0], c->weights[i].name,
                         model);
    gq_imatrix_coverage_free(c);
    gq_imatrix_free(sum);
    return ok;
}

/* Errors that would show after the model's run are found before it. */
static bool check_merge(const tool_request *r, const char *out, const char *temporary, gq_error *e) {
    if (!check_inputs_fit(r, r->facts[FACT_MODEL], e)) return false;
    if (!gq_check_inputs(out, r->in, r->n_in, e)) return gq_fail(e, "%s", e->text);
    if (!gq_check_target(out, true, e)) return false;
    return access(temporary, F_OK) != 0 || gq_fail(e,
                                                   "%s exists, and this command writes a temporary file of "
                                                   "that name: rename it, or choose another -o",
                                                   temporary);
}

static bool imatrix_lines(tool_lines *to, const tool_request *r, gq_error *e) {
    const char *model = r->facts[FACT_MODEL], *out = r->facts[FACT_OUT] ? r->facts[FACT_OUT] : "imatrix.gguf";
    if (r->facts[FACT_STATISTICS]) {
        if (!r->in) return tool_needs(r, FACT_IN, "--in-file FILE", e);
        struct tool_line *l = line_begin(to, "imatrix", "show");
        line_append(l, r->in[0]);
        if (model) line_append(l, model);
        return true;
    }
    if (!check_layout(r, out, e)) return false;
    if (r->n_in && !r->facts[FACT_TEXT])
        return r->facts[FACT_DRY_RUN]
                   ? gq_fail_usage(e, "gquant imatrix: --dry-run: nothing is computed; merging takes seconds")
                   : imatrix_merge_line(to, r, NULL, out);
    if (!tool_needs(r, FACT_MODEL, "-m MODEL", e) || !tool_needs(r, FACT_TEXT, "-f TEXT", e)) return false;
    if (r->n_in) to->temporary = text_format("%s.gquant-text.gguf", out);
    if (r->n_in && !check_merge(r, out, to->temporary, e)) return false;
    struct tool_line *l = line_begin(to, "imatrix", "compute");
    line_append(l, model), line_append(l, r->facts[FACT_TEXT]);
    line_append(l, to->temporary ? to->temporary : out);
    append_common(l, r);
    line_append_option(l, "--process-output", r->facts[FACT_OUTPUT_MATRIX]);
    line_append(l, "--force");
    return append_windows(l, r, e) &&
           (!r->n_in || r->facts[FACT_DRY_RUN] || imatrix_merge_line(to, r, to->temporary, out));
}

static bool perplexity_lines(tool_lines *to, const tool_request *r, gq_error *e) {
    const char *base = r->facts[FACT_BASE];
    if (!tool_needs(r, FACT_MODEL, "-m MODEL", e)) return false;
    struct tool_line *l = line_begin(to, "evaluate", NULL);
    line_append(l, r->facts[FACT_MODEL]);
    if (r->facts[FACT_AGAINST_BASE]) {
        if (!tool_needs(r, FACT_BASE, "--kl-divergence-base FILE", e)) return false;
        line_append_option(l, "--base", base);
        line_append_option(l, "--threads", r->facts[FACT_THREADS]);
        line_append_option(l, "--dry-run", r->facts[FACT_DRY_RUN]);
        return true;
    }
    if (!tool_needs(r, FACT_TEXT, "-f TEXT", e)) return false;
    line_append_option(l, "--text", r->facts[FACT_TEXT]);
    append_common(l, r);
    if (base) line_append_option(l, "--base-out", base), line_append(l, "--force");
    return append_windows(l, r, e);
}

/* Refuses tasks, whose files gquant does not read, with the line that asks questions. */
static bool tool_fail_tasks(const tool_request *r, gq_error *e) {
    const char *model = r->facts[FACT_MODEL];
    char *line = text_add_word(text_format("gquant evaluate"), model ? model : "MODEL");
    gq_fail_usage(
        e,
        "gquant perplexity: questions are read as JSON lines, {\"question\": \"...\", \"choices\": "
        "[\"...\", \"...\"], \"answer\": 0}; of hellaswag_val.jsonl: jq -c '{question: .ctx, choices: "
        ".endings, answer: .label}' hellaswag_val.jsonl > questions.jsonl && gquant text --held-out "
        "held-out.txt && %s --text held-out.txt --choices questions.jsonl",
        line);
    free(line);
    return false;
}

/* Refuses what would change the result, and cannot be had. */
static bool tool_check(const tool_request *r, gq_error *e) {
    const char *skipped = r->facts[FACT_SKIPPED];
    if (r->facts[FACT_TASKS]) return tool_fail_tasks(r, e);
    if (has_stride(r) && r->facts[FACT_BASE])
        return gq_fail_usage(e,
                             "gquant perplexity: --ppl-stride and --kl-divergence-base cannot be combined: "
                             "windows of a base file do not overlap");
    return !skipped || strcmp(skipped, "0") == 0 ||
           gq_fail_usage(
               e,
               "gquant imatrix: --chunk %s: windows at the beginning cannot be skipped; cut the text instead",
               skipped);
}

/* ---- help ---- */

static void tool_print_help(tool t) {
    if (t == TOOL_IMATRIX)
        print_fitted(stdout,
                     "usage: gquant imatrix -m MODEL -f TEXT [-o OUT] [options]      as llama-imatrix\n"
                     "       gquant imatrix --in-file FILE... -o OUT                 adds files up\n"
                     "       gquant imatrix --show-statistics --in-file FILE [-m MODEL]\n\n"
                     "  -c N, --chunks N           tokens of a window (512), windows to use\n"
                     "  --in-file FILE             data to add to the text's\n"
                     "  --output-format dat|gguf   as OUT's name says\n"
                     "  --process-output, --parse-special, -t N\n\n"
                     "The same in gquant's words: gquant imatrix compute MODEL TEXT OUT.");
    else
        print_fitted(stdout,
                     "usage: gquant perplexity -m MODEL -f TEXT [options]            as llama-perplexity\n"
                     "       gquant perplexity -m QUANT --kl-divergence --kl-divergence-base FILE\n\n"
                     "  -c N, --chunks N           tokens of a window (512), windows to use\n"
                     "  --kl-divergence-base FILE  write MODEL's log-probabilities; with\n"
                     "  --kl-divergence            compare a quantized model with them, without a text\n"
                     "  --ppl-stride N             a window of C + N/2 tokens every N tokens; its last N\n"
                     "                             are scored\n"
                     "  --parse-special, -t N\n\n"
                     "The same in gquant's words: gquant evaluate MODEL QUANT... --text TEXT.");
    print_fitted(stdout, "Options for GPUs, batches and caches are accepted and have no effect.");
}

/* ---- which tool is meant ---- */

/* Whether the program runs under a link's name: gquant-NAME, also with .exe. */
static bool program_is(const char *program, const char *name) {
    char *link = text_format("gquant-%s", name), *windows = text_format("gquant-%s.exe", name);
    bool is = strcmp(program, link) == 0 || strcmp(program, windows) == 0;
    free(link), free(windows);
    return is;
}

/* Returns the tool whose line this is and moves *words to its first option, else 0. A line of gquant imatrix
 * begins with a job's name, one of the other tool with an option of its. */
static tool tool_of(int argc, char **argv, char ***words) {
    static const tool tools[] = {TOOL_IMATRIX, TOOL_PERPLEXITY};
    const char *program = path_reported(path_typed(argv[0]), false);
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        bool by_link = program_is(program, tool_name(tools[i]));
        if (!by_link && (argc < 2 || strcmp(argv[1], tool_name(tools[i])) != 0)) continue;
        *words = argv + (by_link ? 1 : 2);
        if (tools[i] == TOOL_PERPLEXITY) return tools[i];
        for (char **w = *words; **words && (*words)[0][0] == '-' && *w; w++) {
            fact f = fact_named(tools[i], *w);
            if (f == FACT_MODEL || f == FACT_TEXT || f == FACT_IN || f == FACT_STATISTICS ||
                (by_link && f == FACT_HELP))
                return tools[i];
        }
        return by_link && !**words ? tools[i] : 0;
    }
    return 0;
}

bool other_tool_lines(tool_lines *to, int argc, char **argv, gq_error *e) {
    char **words;
    *to = (tool_lines){.n = 0};
    if (argc == 3 && !strcmp(argv[1], "help") && !strcmp(argv[2], "perplexity"))
        return tool_print_help(TOOL_PERPLEXITY), true;
    tool_request r = {.tool = argc > 0 ? tool_of(argc, argv, &words) : 0};
    if (!r.tool) return false;
    bool ok = tool_read(&r, words, e);
    if (ok && r.facts[FACT_HELP]) {
        tool_print_help(r.tool);
    } else if (ok && r.facts[FACT_VERSION]) {
        line_append_option(line_begin(to, "--version", NULL), "--version", NULL);
    } else if (ok) {
        ok = tool_check(&r, e) &&
             (r.tool == TOOL_IMATRIX ? imatrix_lines(to, &r, e) : perplexity_lines(to, &r, e));
        char *note = r.ignored ? text_format("ignored: %s (no effect in gquant)", r.ignored) : NULL;
        if (ok && note) say_warning(&(said){.log = -1}, note);
        free(note);
    }
    if (!ok) tool_lines_free(to);
    free(r.in), free(r.ignored);
    return true;
}

void tool_lines_free(tool_lines *l) {
    for (size_t i = 0; i < l->n; i++) {
        for (int k = 0; k < l->lines[i].argc; k++) free(l->lines[i].argv[k]);
        free(l->lines[i].argv);
    }
    free(l->temporary);
    *l = (tool_lines){.n = 0};
}
