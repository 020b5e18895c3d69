/* The command `gquant text`: writes the texts that come with gquant, so that an imatrix, calibration and
 * evaluation need nothing else. They are compiled in (texts/README.md says what they are made of). */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* A file of texts/ and a zero each, made by the build (CMakeLists.txt). */
extern const unsigned char text_calibration[], text_held_out[];

typedef struct sample_text {
    const char *name, *bytes, *use;
    const char *tokens; /* by the three vocabularies of texts/README.md, rounded down */
    const char *path;   /* to write; NULL: not asked for */
    char sha256[GQ_SHA256_TEXT];
} sample_text;

static void sample_print(const sample_text *t) {
    size_t n = strlen(t->bytes);
    if (!t->path)
        print_line(stdout, "--%-12s %zu bytes, over %s tokens, for %s", t->name, n, t->tokens, t->use);
    else
        print_line(
            stdout,
            "%s: %zu bytes, over %s tokens of prose, code, languages, chats and mathematics; SHA-256 %s",
            t->path, n, t->tokens, t->sha256);
}

static void samples_print_json(const sample_text *texts, size_t n, bool written) {
    json_writer j = json_start(stdout, '[');
    for (size_t i = 0; i < n; i++) {
        const sample_text *t = &texts[i];
        if (written && !t->path) continue;
        json_open(&j, NULL, '{');
        json_put_text(&j, "name", t->name), json_put_text(&j, "license", "MIT"),
            json_put_count(&j, "bytes", strlen(t->bytes));
        if (written) json_put_text(&j, "path", t->path), json_put_text(&j, "sha256", t->sha256);
        json_close(&j);
    }
    json_end(&j);
}

static void samples_print(const request *r, const sample_text *texts, size_t n, bool written) {
    if (r->json) return samples_print_json(texts, n, written);
    if (r->quiet && written) return;
    for (size_t i = 0; i < n; i++)
        if (!written || texts[i].path) sample_print(&texts[i]);
    print_line(stdout,
               written ? "License: MIT." : "License: MIT. The option with a file's name writes a text.");
}

bool text_is_sample(const char *path, bool held_out) {
    const char *sample = (const char *)(held_out ? text_held_out : text_calibration);
    size_t n, most = strlen(sample);
    char *text = path ? gq_read_whole(path, most, &n, &(gq_error){0}) : NULL;
    bool is = text && n == most && !memcmp(text, sample, n);
    free(text);
    return is;
}

int text_main(const request *r) {
    enum { N = 2 };
    gq_error e = {0};
    sample_text texts[N] = {{"calibration", (const char *)text_calibration, "imatrix compute and --calibrate",
                             "50,000", r->calibration_text, ""},
                            {"held-out", (const char *)text_held_out, "evaluate; no document is in both",
                             "10,000", r->held_out_text, ""}};
    bool ok = true, force = r->quantize.force, is_there[N];
    for (size_t i = 0; i < N; i++) is_there[i] = texts[i].path && text_is_sample(texts[i].path, i == 1);
    for (size_t i = 0; ok && i < N; i++)
        ok = !texts[i].path || gq_check_target(texts[i].path, force || is_there[i], &e);
    for (size_t i = 0; ok && i < N; i++) {
        if (is_there[i] && !r->quiet) print_line(stderr, "%s: already exists and is complete", texts[i].path);
        ok = !texts[i].path || ((is_there[i] || gq_write_whole(texts[i].path, force, texts[i].bytes,
                                                               strlen(texts[i].bytes), &e)) &&
                                gq_file_sha256(texts[i].path, texts[i].sha256, &e));
    }
    if (!ok) return say_failure(r->said, &e);
    samples_print(r, texts, N, r->calibration_text || r->held_out_text);
    if (r->calibration_text)
        next_say(r, "imatrix", "compute", "model-F16.gguf", r->calibration_text, "imatrix.gguf",
                 (char *)NULL);
    else if (r->held_out_text)
        next_say(r, "evaluate", "model-F16.gguf", "model-Q4_K_M.gguf", "--text", r->held_out_text,
                 (char *)NULL);
    return GQ_OK;
}
