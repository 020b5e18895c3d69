/* bench-dot: rows times a vector from stored blocks, compared with reading the same bytes. All threads do
 * both in turn, so that clock rate and load are equal.
 *
 * Each thread has a matrix of its own, of the same type and size. Printed per type and level are the medians
 * of both rates, of the share of reading in the time of the product, and the weights that are multiplied per
 * second. */
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "bench/turns.h"
#include "codec/vector.h"

static const char usage[] = "usage: bench-dot [options]\n"
                            "  --types LIST    only these, as in Q4_K,Q6_K\n"
                            "  --isa LEVEL     kernels of this level only, not of all that run here\n"
                            "  --threads N     default: one per processor\n"
                            "  --size MIB      matrix of each thread (64)\n"
                            "  --repeat N      median of N turns (5)\n"
                            "  --csv           not a table but comma-separated values\n"
                            "  --help          this text\n";

enum { COLS = 4096, ENCODED_ROWS = 16, MOST_THREADS = 256, MOST_REPEATS = 101 };

typedef struct dot_settings {
    const char *types, *isa;
    int threads, repeats;
    size_t bytes;
    bool csv;
} dot_settings;

static codec_vector vector;

/* ---- one thread's turn ---- */
typedef struct dot_turn {
    pthread_t thread;
    pthread_barrier_t *start;
    const kernels *kernels;
    const codec *codec;
    const uint8_t *blocks;
    size_t rows, row_bytes;
    float *out;
    uint64_t sum;
    double read_seconds, dot_seconds; /* of this thread's processor */
} dot_turn;

static void *take_turn(void *arg) {
    dot_turn *t = arg;
    pthread_barrier_wait(t->start);
    double begun = turns_cpu_seconds();
    t->sum += t->kernels->read(t->blocks, t->rows * t->row_bytes);
    t->read_seconds = turns_cpu_seconds() - begun;
    pthread_barrier_wait(t->start);
    begun = turns_cpu_seconds();
    t->codec->dot(t->blocks, t->rows, COLS, &vector, t->out);
    t->dot_seconds = turns_cpu_seconds() - begun;
    return NULL;
}

/* ---- a type at a level ---- */
/* Some encoded rows, over and over. Without an encoder: any bytes that decode to finite numbers. */
static void fill_encoded_rows(const codec *c, uint8_t *blocks, size_t row_bytes, size_t rows) {
    static float weights[ENCODED_ROWS * COLS];
    uint32_t u = 1;
    for (size_t i = 0; i < ENCODED_ROWS * COLS; i++)
        u = u * 1664525 + 1013904223, weights[i] = (float)(int32_t)u * 0x1p-36f;
    memset(blocks, 0x31, row_bytes * rows);
    if (!c->encode) return;
    c->encode(weights, blocks, ENCODED_ROWS, COLS, NULL, &(encode_settings){.effort = EFFORT_FAST});
    for (size_t r = ENCODED_ROWS; r < rows; r++)
        memcpy(blocks + r * row_bytes, blocks + r % ENCODED_ROWS * row_bytes, row_bytes);
}

static void take_turns(const dot_settings *s, dot_turn *turns, double *read_rate, double *dot_rate,
                       double *share) {
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, (unsigned)s->threads);
    for (int repeat = 0; repeat < s->repeats; repeat++) {
        double bytes = 0, reading = 0, products = 0;
        for (int i = 0; i < s->threads; i++) {
            turns[i].start = &start;
            if (pthread_create(&turns[i].thread, NULL, take_turn, &turns[i])) exit(1);
        }
        for (int i = 0; i < s->threads; i++) {
            pthread_join(turns[i].thread, NULL);
            bytes += (double)(turns[i].rows * turns[i].row_bytes);
            reading += turns[i].read_seconds, products += turns[i].dot_seconds;
        }
        read_rate[repeat] = bytes / reading * s->threads, dot_rate[repeat] = bytes / products * s->threads;
        share[repeat] = reading / products;
    }
    pthread_barrier_destroy(&start);
}

static void bench_level(const dot_settings *s, const kernels *k, const tensor_type *type, uint8_t *memory,
                        float *out) {
    static dot_turn turns[MOST_THREADS];
    double read_rate[MOST_REPEATS], dot_rate[MOST_REPEATS], share[MOST_REPEATS];
    const size_t row_bytes = gguf_row_bytes(type, COLS), rows = s->bytes / row_bytes;
    for (int i = 0; i < s->threads; i++) {
        uint8_t *blocks = memory + (size_t)i * s->bytes;
        turns[i] = (dot_turn){.kernels = k, .codec = &k->codecs[type->id], .blocks = blocks};
        turns[i].rows = rows, turns[i].row_bytes = row_bytes, turns[i].out = out + (size_t)i * rows;
        if (i == 0)
            fill_encoded_rows(turns[i].codec, blocks, row_bytes, rows);
        else
            memcpy(blocks, memory, rows * row_bytes);
    }
    take_turns(s, turns, read_rate, dot_rate, share);
    const double read_gb = 1e-9 * turns_median(read_rate, s->repeats),
                 gb = 1e-9 * turns_median(dot_rate, s->repeats);
    printf(s->csv ? "%s,%s,%d,%.2f,%.2f,%.3f,%.0f\n" : "%-7s %-10s %7d %9.2f %9.2f %7.3f %9.0f\n", type->name,
           kernels_name(k), s->threads, read_gb, gb, turns_median(share, s->repeats),
           1e3 * gb / type->block_bytes * type->block_elements);
    fflush(stdout);
}

/* ---- all ---- */
static bool dot_read_options(dot_settings *s, int argc, char **argv) {
    static const struct option options[] = {
        {"types", 1, NULL, 't'},  {"isa", 1, NULL, 'i'}, {"threads", 1, NULL, 'n'}, {"size", 1, NULL, 's'},
        {"repeat", 1, NULL, 'r'}, {"csv", 0, NULL, 'c'}, {"help", 0, NULL, 'h'},    {0}};
    int mib = 64;
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) >= 0;) {
        if (o == 't') s->types = optarg;
        if (o == 'i') s->isa = optarg;
        if (o == 'n') s->threads = atoi(optarg);
        if (o == 's') mib = atoi(optarg);
        if (o == 'r') s->repeats = atoi(optarg);
        if (o == 'c') s->csv = true;
        if (o == 'h') exit(fputs(usage, stdout) < 0);
        if (o == '?') return false;
    }
    s->bytes = (size_t)mib << 20;
    return optind == argc && s->threads >= 1 && s->threads <= MOST_THREADS && s->repeats >= 1 &&
           s->repeats <= MOST_REPEATS && mib >= 1 && mib <= 4096;
}

static void bench_all(const dot_settings *s, float *x, float *room, uint8_t *memory, float *out) {
    for (size_t k = 0; k < COLS; k++) x[k] = (float)(k % 31) / 16 - 1;
    vector = codec_vector_make(x, COLS, room);
    puts(s->csv ? "type,level,threads,read,dot,share,weights"
                : "type    level      threads read_GB/s  dot_GB/s   share Mweights/s");
    for (uint32_t id = 0; id < GGUF_TYPE_LIMIT; id++)
        for (size_t i = 0; kernels_level_name(i); i++) {
            const kernels *k = kernels_level(kernels_level_name(i));
            if (!k || (s->isa && strcmp(s->isa, kernels_name(k)) != 0)) continue;
            if (k->codecs[id].dot && turns_is_listed(s->types, tensor_type_name(id)))
                bench_level(s, k, tensor_type_of(id), memory, out);
        }
}

int main(int argc, char **argv) {
    dot_settings s = {.repeats = 5, .threads = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    if (!dot_read_options(&s, argc, argv)) return fputs(usage, stderr), 2;
    uint8_t *memory = memory_pages((uint64_t)s.threads, s.bytes, NULL);
    float *out = malloc((size_t)s.threads * s.bytes / 4); /* a row is longer than that in any type */
    float *x = malloc(COLS * sizeof *x), *room = malloc(codec_vector_floats(COLS) * sizeof *room);
    const bool ok = memory && out && x && room;
    if (ok)
        bench_all(&s, x, room, memory, out);
    else
        fputs("bench-dot: not enough memory\n", stderr);
    free(memory), free(out), free(x), free(room);
    return !ok;
}
