/* The command `gquant evaluate --speed MODEL...`: tokens per second that the types of each file allow on this
 * machine. For each type the library times the products of a vector with all matrices that a token needs, and
 * reading the same bytes. This file turns the seconds into figures and prints them as tables, JSON or CSV.
 * One token takes the sum of all types, so tokens per second are its inverse. "of reading" compares a type
 * with plain reading: near 100 % memory is the limit, and far below it decoding is.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

typedef struct speeds {
    const request *request;
    const gq_speed *of;
} speeds;

/* ---- figures ---- */

static double per_second(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }
static double gib_per_second(uint64_t bytes, double seconds) {
    return per_second((double)bytes / (1 << 30), seconds);
}
static gq_speed_type all_types(const gq_speed_file *f) {
    return (gq_speed_type){.matrices = f->matrices,
                           .weights = f->weights,
                           .bytes = f->bytes,
                           .seconds = f->seconds,
                           .read_seconds = f->read_seconds};
}

/* ---- for people ---- */

static void add_line(table *t, const char *name, const gq_speed_type *s, double whole) {
    char text[UNIT_ROOM];
    table_text(t, name);
    table_cell(t, text_format("%" PRIu64, s->matrices));
    table_text(t, file_text(text, (double)s->bytes));
    table_cell(t, text_format("%.2f", 1e-9 * per_second((double)s->bytes, s->seconds)));
    table_cell(t, text_format("%.0f %%", 100 * per_second(s->read_seconds, s->seconds)));
    table_cell(t, text_format("%.2f", 1e-9 * per_second((double)s->weights, s->seconds)));
    table_cell(t, text_format("%.1f %%", 100 * per_second(s->seconds, whole)));
}

static void print_file(FILE *to, const request *r, const gq_speed_file *f) {
    static const char *const headings[] = {"type",       "matrices",    "size", "GB/s",
                                           "of reading", "B weights/s", "time"};
    const gq_speed_type all = all_types(f);
    table t;
    print_line(to, "%s: %.2f tokens/s", path_reported(f->path, r->full_paths), per_second(1, f->seconds));
    table_start(&t, "lrrrrr2r1", headings);
    for (size_t i = 0; i < f->n_types; i++)
        add_line(&t, gq_type_name(f->types[i].type), &f->types[i], f->seconds);
    add_line(&t, "all", &all, f->seconds);
    table_end(&t, to);
}

static void print_overview(FILE *to, const request *r, const gq_speed_file *files, size_t n) {
    static const char *const headings[] = {"file", "size", "a token's", "tokens/s", "GB/s", "of reading"};
    char text[UNIT_ROOM];
    table t;
    table_start(&t, "lr2r1rrr", headings);
    for (size_t i = 0; i < n; i++) {
        const gq_speed_type all = all_types(&files[i]);
        table_name(&t, path_reported(files[i].path, r->full_paths));
        table_text(&t, file_text(text, (double)files[i].file_bytes));
        table_text(&t, file_text(text, (double)all.bytes));
        table_cell(&t, text_format("%.2f", per_second(1, all.seconds)));
        table_cell(&t, text_format("%.2f", 1e-9 * per_second((double)all.bytes, all.seconds)));
        table_cell(&t, text_format("%.0f %%", 100 * per_second(all.read_seconds, all.seconds)));
    }
    table_end(&t, to);
}

static void print_speeds(FILE *to, const speeds *s) {
    size_t n;
    const gq_speed_file *files = gq_speed_files(s->of, &n);
    for (size_t i = 0; i < n; i++) print_file(to, s->request, &files[i]), fputc('\n', to);
    if (n > 1) print_overview(to, s->request, files, n), fputc('\n', to);
    const int threads = gq_speed_threads(s->of);
    print_line(to, "%d thread%s, %s. Timed: the products of a vector with all matrices that a token needs.",
               threads, threads == 1 ? "" : "s", gq_isa());
    print_line(to, "\"of reading\": the share of the speed at which the same bytes are read.");
}

/* ---- for programs ---- */

static void put_speed(json_writer *j, const gq_speed_type *s) {
    json_put_count(j, "matrices", s->matrices);
    json_put_count(j, "weights", s->weights);
    json_put_count(j, "bytes", s->bytes);
    json_put_number(j, "seconds", s->seconds);
    json_put_number(j, "read_seconds", s->read_seconds);
    json_put_number(j, "gib_per_second", gib_per_second(s->bytes, s->seconds));
    json_put_number(j, "read_gib_per_second", gib_per_second(s->bytes, s->read_seconds));
    json_put_number(j, "share_of_reading", per_second(s->read_seconds, s->seconds));
}

static void write_json(FILE *to, const void *what) {
    const speeds *s = what;
    size_t n;
    json_writer j = json_start(to, '{');
    const gq_speed_file *files = gq_speed_files(s->of, &n);
    json_put_text(&j, "kind", "speed");
    json_put_text(&j, "gquant", gq_version());
    json_put_text(&j, "isa", gq_isa());
    json_put_count(&j, "threads", (uint64_t)gq_speed_threads(s->of));
    json_open_lines(&j, "files", '[');
    for (size_t i = 0; i < n; i++) {
        const gq_speed_type all = all_types(&files[i]);
        json_open(&j, NULL, '{');
        put_speed(&j, &all);
        json_open(&j, "types", '[');
        for (size_t k = 0; k < files[i].n_types; k++) {
            json_open(&j, NULL, '{');
            put_speed(&j, &files[i].types[k]);
            json_put_text(&j, "type", gq_type_name(files[i].types[k].type));
            json_close(&j);
        }
        json_close(&j);
        json_put_text(&j, "path", path_reported(files[i].path, s->request->full_paths));
        json_put_count(&j, "file_bytes", files[i].file_bytes);
        json_put_number(&j, "tokens_per_second", per_second(1, files[i].seconds));
        json_close(&j);
    }
    json_end(&j);
}

/* A spreadsheet would take a name that begins with one of these for a formula. */
static void put_quoted(FILE *to, const char *value) {
    fputs(strchr("=+-@\t\r", *value) && *value ? "\"'" : "\"", to);
    for (; *value; value++) {
        if (*value == '"') fputc('"', to);
        fputc(*value, to);
    }
    fputc('"', to);
}

static void write_line(FILE *to, const char *path, const char *type, const gq_speed_type *s,
                       const char *tokens) {
    put_quoted(to, path);
    fprintf(to, ",%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.9g,%.9g,%.6g,%.6g,%.4f,%s\r\n", type, s->matrices,
            s->weights, s->bytes, s->seconds, s->read_seconds, gib_per_second(s->bytes, s->seconds),
            gib_per_second(s->bytes, s->read_seconds), per_second(s->read_seconds, s->seconds), tokens);
}

static void write_csv(FILE *to, const void *what) {
    const speeds *s = what;
    size_t n;
    const gq_speed_file *files = gq_speed_files(s->of, &n);
    fputs("file,type,matrices,weights,bytes,seconds,read_seconds,gib_per_second,read_gib_per_second,"
          "share_of_reading,tokens_per_second\r\n",
          to);
    for (size_t i = 0; i < n; i++) {
        const gq_speed_type all = all_types(&files[i]);
        const char *path = path_reported(files[i].path, s->request->full_paths);
        char *tokens = text_format("%.6g", per_second(1, all.seconds));
        for (size_t k = 0; k < files[i].n_types; k++)
            write_line(to, path, gq_type_name(files[i].types[k].type), &files[i].types[k], "");
        write_line(to, path, "all", &all, tokens);
        free(tokens);
    }
}

/* Writes what `write` prints to a file, in place of one that is there. */
static bool render_file(const char *path, void (*write)(FILE *to, const void *what), const void *what,
                        gq_error *e) {
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    if (to) write(to, what);
    bool ok = to && !ferror(to);
    ok = to && fclose(to) == 0 && ok;
    ok = ok ? gq_write_whole(path, true, text, n, e) : gq_fail_memory(e, n);
    free(text);
    return ok;
}

static bool ends_with(const char *path, const char *extension) {
    const size_t n = strlen(path), end = strlen(extension);
    return n > end && strcasecmp(path + n - end, extension) == 0;
}

/* ---- the command ---- */

static bool speed_check_request(const request *r, gq_error *e) {
    if (r->report && ends_with(r->report, ".html"))
        return gq_fail_usage(e, "--report %s: --speed writes reports as .json and .csv only", r->report);
    return report_check(r, e);
}

int speed_main(const request *r) {
    gq_error e = {0};
    progress p;
    size_t n;
    if (!speed_check_request(r, &e)) return say_failure(r->said, &e);
    progress_start(&p, r, NULL);
    gq_callbacks callbacks = progress_callbacks(&p);
    const gq_speed_request what = {.size = sizeof what,
                                   .models = r->arguments,
                                   .n_models = r->n_arguments,
                                   .threads = r->quantize.threads,
                                   .callbacks = &callbacks};
    gq_speed *of = gq_speed_measure(&what, &e);
    progress_end(&p, of ? NULL : &e);
    if (!of) return say_failure(r->said, &e);
    const speeds s = {r, of};
    const char *const *warnings = gq_speed_warnings(of, &n);
    if (!r->quiet) warn_all(r->said, warnings, n);
    if (r->json)
        write_json(stdout, &s);
    else if (!r->quiet)
        print_speeds(stdout, &s);
    const bool ok =
        !r->report || render_file(r->report, ends_with(r->report, ".csv") ? write_csv : write_json, &s, &e);
    gq_speed_free(of);
    return ok ? GQ_OK : say_failure(r->said, &e);
}
