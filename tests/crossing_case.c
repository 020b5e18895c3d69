/* The case at hand. */
#include "tests/crossing_case.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/crossing_files.h"
#include "tests/model.h"

crossing_case at;

bool has_reference(void) { return at.reference.status == 0; }

void fail_case(const char *format, ...) {
    char text[7000];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    fail_msg("%s", text);
    abort();
}

/* ---- running the command ---- */

outcome run(const char *where, setting s, arguments a) {
    outcome o = run_in(where, &s, &a);
    arguments_free(&a);
    at.runs++;
    if (o.status > 2 && !(s.kill_us && o.status == 128 + SIGKILL))
        fail_case("in %s: status %d: %s", where, o.status, o.text);
    return o;
}

arguments words_of(const crossing_options *o, unsigned threads) {
    arguments a = {.n = 0};
    arguments_add(&a, "-q"), arguments_add(&a, "-t"), arguments_add(&a, "%u", threads);
    for (int i = 0; i < N_ASPECTS; i++) arguments_append(&a, &o->aspects[i]);
    arguments_append(&a, &o->before);
    return a;
}

arguments all_words(const crossing_options *o, unsigned threads) {
    arguments a = words_of(o, threads);
    arguments_add(&a, "../in/%s", crossing_model_input(&at.model));
    arguments_append(&a, &o->outputs);
    return a;
}

arguments reported(arguments a, const char *name) {
    arguments_add(&a, "--report"), arguments_add(&a, "../%s.json", name);
    return a;
}

/* ---- what must be the same ---- */

void same_folder(const char *where) {
    char *difference = files_difference(in_folder(at.folder, "ref"), in_folder(at.folder, where), NULL);
    if (difference) fail_case("ref and %s: %s", where, difference);
}

void same_outputs(const char *where) {
    char *difference = files_difference(in_folder(at.folder, "ref"), in_folder(at.folder, where), ".");
    if (difference) fail_case("ref and %s: %s", where, difference);
}

void same_outcome(const char *where, const outcome *o) {
    if (o->status != at.reference.status || strcmp(o->text, at.reference.text))
        fail_case("ref: status %d: %s\n%s: status %d: %s", at.reference.status, at.reference.text, where,
                  o->status, o->text);
    same_folder(where);
}

void same_report(const char *where) {
    char name[80];
    snprintf(name, sizeof name, "%s.json", where);
    char *a = report_facts(in_folder(at.folder, "ref.json")), *b = report_facts(in_folder(at.folder, name));
    if (strcmp(a, b)) fail_case("the reports ref.json and %s differ", name);
    free(a), free(b);
}
