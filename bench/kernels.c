/* bench-kernels: speed and error of every encoder and decoder on the reference data, one thread.
 *
 * A line is a type at an effort, without and with an imatrix. Speeds are medians of CPU time over turns; next
 * to the error is the lower bound of any encoder (bench/bounds.inc). With llama.cpp's library, its encoder and
 * decoder are measured in the same turns, and the line also has the medians of the turns' ratios. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peer.h"
#include "bench/reference_data.h"
#include "bench/turns.h"
#include "codec/codec.h"

static const char usage[] =
    "usage: bench-kernels [options]\n"
    "  --types LIST    only these, as in Q4_K,Q6_K\n"
    "  --effort NAME   fast, default or best; all three otherwise\n"
    "  --isa LEVEL     kernels of this level, not of the best one (or set GQUANT_ISA)\n"
    "  --peer FOLDER   measure llama.cpp's library in FOLDER, too\n"
    "  --repeat N      median of N measurements (5)\n"
    "  --csv           not a table but comma-separated values\n"
    "  --help          this text\n";

/* Least CPU time of a measurement, in seconds: the clock ticks in nanoseconds, but caches and clock rates
 * need to settle. */
#define SHORTEST_SECONDS 0.01
enum { ROWS = REFERENCE_ROWS, COLS = REFERENCE_COLS, N = ROWS * COLS, MOST_REPEATS = 101 };

/* The smallest error any encoder could reach, and the smallest with the gain kept (bench-bounds), without and
 * with importance. */
static const struct {
    uint32_t type;
    double error[2], gain_kept[2];
} bounds[] = {
#include "bench/bounds.inc"
};

typedef struct kernel_settings {
    const kernels *kernels;
    void *library;
    const char *types;
    int first_effort, last_effort, repeats;
    bool csv;
} kernel_settings;

static float weights[N], importance[COLS], decoded[N];
static uint8_t blocks[4 * N];

/* ---- one job, timed ---- */
typedef struct job {
    const codec *codec; /* NULL: llama.cpp's */
    peer_codec peer;
    codec_effort effort;
    const float *importance;
    bool decode;
} job;

static void run_kernel_job(const job *j) {
    if (!j->codec && j->decode)
        j->peer.decode(blocks, decoded, N);
    else if (!j->codec)
        peer_encode(&j->peer, weights, blocks, ROWS, COLS, j->importance);
    else if (j->decode)
        j->codec->decode(blocks, 0, decoded, N);
    else
        j->codec->encode(weights, blocks, ROWS, COLS, j->importance, &(encode_settings){.effort = j->effort});
}

/* Million weights per second. */
static double rate_of_job(const job *j) {
    int runs = 0;
    double start = turns_cpu_seconds(), end;
    do {
        run_kernel_job(j), runs++, end = turns_cpu_seconds();
    } while (end - start < SHORTEST_SECONDS);
    return 1e-6 * N * runs / (end - start);
}

static double relative_error(const float *w) {
    double e2 = 0, x2 = 0;
    for (size_t i = 0; i < N; i++) {
        double wi = w ? (double)w[i % COLS] : 1, e = (double)weights[i] - (double)decoded[i];
        e2 += wi * e * e, x2 += wi * (double)weights[i] * (double)weights[i];
    }
    return sqrt(e2 / x2);
}

/* ---- one line ---- */
/* Figures of each turn; after summary the first holds the median. */
typedef struct figures {
    double encode[MOST_REPEATS], decode[MOST_REPEATS];             /* rates */
    double encode_ratio[MOST_REPEATS], decode_ratio[MOST_REPEATS]; /* to llama.cpp's in the same turn */
    double error;
} figures;

static void measure_turn(job j, int repeat, figures *f) {
    j.decode = false, f->encode[repeat] = rate_of_job(&j);
    j.decode = true, f->decode[repeat] = rate_of_job(&j);
    if (repeat == 0) f->error = relative_error(j.importance);
}

/* Runs close in time have the same clock rate and load: ratios of turns vary less than ratios of medians.
 */
static void compare_turns(figures *f, const figures *peer, int repeat) {
    f->encode_ratio[repeat] = f->encode[repeat] / peer->encode[repeat];
    f->decode_ratio[repeat] = f->decode[repeat] / peer->decode[repeat];
}

static void summarise_figures(figures *f, int repeats) {
    double *const all[] = {f->encode, f->decode, f->encode_ratio, f->decode_ratio};
    for (int i = 0; i < 4; i++) all[i][0] = turns_median(all[i], repeats);
}

static const char *const efforts[] = {"fast", "default", "best"};

/* Figures of a line, in order; the last six only with llama.cpp. */
static const struct {
    const char *name;
    int width, digits;
} columns[] = {
    {"encode", 8, 1},        {"decode", 9, 1},        {"error", 10, 6},       {"bound", 10, 6},
    {"gain_kept", 10, 6},    {"peer_encode", 12, 1},  {"peer_decode", 12, 1}, {"peer_error", 11, 6},
    {"encode_ratio", 13, 2}, {"decode_ratio", 13, 2}, {"error_ratio", 12, 4},
};
enum { OURS = 5, BOTH = sizeof columns / sizeof *columns };

static void print_head(const kernel_settings *s) {
    if (!s->csv)
        printf("%s, one thread, %d x %d weights, medians of %d, M weights per CPU second\n\n",
               kernels_name(s->kernels), ROWS, COLS, s->repeats);
    fputs(s->csv ? "type,importance,effort" : "type    importance effort ", stdout);
    for (int i = 0; i < (s->library ? BOTH : OURS); i++)
        printf(s->csv ? ",%.*s" : "%*s", s->csv ? 99 : columns[i].width, columns[i].name);
    puts("");
}

static void print_line(const kernel_settings *s, const tensor_type *type, int on, int effort,
                       const figures *ours, const figures *peer) {
    double v[BOTH] = {ours->encode[0], ours->decode[0], ours->error};
    for (int i = 3; i < BOTH; i++) v[i] = NAN;
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (bounds[i].type == type->id) v[3] = bounds[i].error[on], v[4] = bounds[i].gain_kept[on];
    if (peer) {
        v[5] = peer->encode[0], v[6] = peer->decode[0], v[7] = peer->error;
        v[8] = ours->encode_ratio[0], v[9] = ours->decode_ratio[0], v[10] = v[2] / v[7];
    }
    printf(s->csv ? "%s,%s,%s" : "%-7s %-10s %-7s", type->name, on ? "on" : "off", efforts[effort]);
    for (int i = 0; i < (s->library ? BOTH : OURS); i++) {
        char text[32] = "";
        /* Not known, or (a gain) not kept: an empty field, or a dash. */
        if (v[i] > 0)
            snprintf(text, sizeof text, "%.*f", columns[i].digits, v[i]);
        else if (!s->csv)
            strcpy(text, "-");
        printf(s->csv ? ",%.*s" : "%*s", s->csv ? 99 : columns[i].width, text);
    }
    puts("");
    fflush(stdout);
}

static void bench_type(const kernel_settings *s, const tensor_type *type) {
    static figures ours[3], theirs;
    job j = {.codec = &s->kernels->codecs[type->id]}, peer = {.codec = NULL};
    bool has_peer = s->library && peer_codec_of(s->library, type, &peer.peer);
    for (int on = 0; on < 2; on++) {
        j.importance = peer.importance = on ? importance : NULL;
        for (int repeat = 0; repeat < s->repeats; repeat++) {
            for (int effort = s->first_effort; effort <= s->last_effort; effort++) {
                j.effort = (codec_effort)effort;
                measure_turn(j, repeat, &ours[effort]);
            }
            if (!has_peer) continue;
            measure_turn(peer, repeat, &theirs);
            for (int effort = s->first_effort; effort <= s->last_effort; effort++)
                compare_turns(&ours[effort], &theirs, repeat);
        }
        if (has_peer) summarise_figures(&theirs, s->repeats);
        for (int effort = s->first_effort; effort <= s->last_effort; effort++) {
            summarise_figures(&ours[effort], s->repeats);
            print_line(s, type, on, effort, &ours[effort], has_peer ? &theirs : NULL);
        }
    }
}

static bool kernels_read_options(kernel_settings *s, int argc, char **argv) {
    static const struct option options[] = {
        {"types", 1, NULL, 't'},  {"effort", 1, NULL, 'e'}, {"isa", 1, NULL, 'i'},  {"peer", 1, NULL, 'p'},
        {"repeat", 1, NULL, 'r'}, {"csv", 0, NULL, 'c'},    {"help", 0, NULL, 'h'}, {0}};
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) >= 0;) {
        if (o == 't') s->types = optarg;
        if (o == 'c') s->csv = true;
        if (o == 'h') exit(fputs(usage, stdout) < 0);
        if (o == 'r') s->repeats = atoi(optarg);
        if (o == 'i') s->kernels = kernels_level(optarg);
        if (o == 'p' && !(s->library = peer_open(optarg)))
            return fprintf(stderr, "bench-kernels: no library in %s\n", optarg), false;
        if (o == 'e')
            for (s->first_effort = 3; s->first_effort-- > 0;)
                if (!strcmp(optarg, efforts[s->last_effort = s->first_effort])) break;
        if (o == '?') return false;
    }
    return optind == argc && s->kernels && s->first_effort >= 0 && s->repeats >= 1 &&
           s->repeats <= MOST_REPEATS;
}

int main(int argc, char **argv) {
    kernel_settings s = {.kernels = kernels_select(), .last_effort = 2, .repeats = 5};
    if (!kernels_read_options(&s, argc, argv)) return fputs(usage, stderr), 2;
    reference_data(weights, importance);
    print_head(&s);
    int lines = 0;
    for (uint32_t id = 0; id < GGUF_TYPE_LIMIT; id++)
        if (s.kernels->codecs[id].encode && turns_is_listed(s.types, tensor_type_name(id)))
            bench_type(&s, tensor_type_of(id)), lines++;
    if (!lines) fprintf(stderr, "bench-kernels: no encoder for %s\n", s.types);
    return !lines;
}
