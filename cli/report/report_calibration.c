/* Prints what a calibration takes and what it has brought. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* ---- before ---- */

void report_room(FILE *to, uint64_t memory, uint64_t disk, bool states_in_file) {
    char size[UNIT_ROOM];
    print_line(to, "memory: at most %s%s", size_text(size, (double)memory),
               states_in_file ? "" : ", with the hidden states of all tokens");
    print_line(to, "disk: %s beside the output until it is done%s", size_text(size, (double)disk),
               states_in_file ? "; it has the hidden states of all tokens, which are read from there" : "");
}

void report_calibration_plan(FILE *to, const gq_calibration_facts *f) {
    char memory[UNIT_ROOM], disk[UNIT_ROOM];
    print_line(to,
               "calibrated on %s: %" PRIu64 " tokens in windows of %u, %" PRIu64 " of %" PRIu64
               " window%s held out to check; %.3g tokens per column, or more",
               f->text ? f->text : "tokens drawn at random", f->tokens, f->context, f->held_back, f->windows,
               plural_suffix(f->windows), f->per_column);
    report_room(to, f->memory, f->disk, f->states_in_file);
    print_line(to, "inputs of matrices kept: %s in memory and %s on disk, of these",
               size_text(memory, (double)f->inputs_memory), size_text(disk, (double)f->inputs_disk));
    if (f->width < f->columns)
        print_line(to, "columns rounded together: %" PRIu64 " of %" PRIu64, f->width, f->columns);
    if (f->has_trials)
        print_line(to, "types chosen after trials in %" PRIu64 " of %" PRIu64 " layers", f->trial_layers,
                   f->layers);
    if (f->layers_finished)
        print_line(to, "%" PRIu64 " of %" PRIu64 " layer%s done already", f->layers_finished, f->layers,
                   f->layers == 1 ? " is" : "s are");
    if (f->ranks > 1)
        print_line(to, "%" PRIu32 " ranks: each has at most %" PRIu64 " window%s", f->ranks, f->rank_windows,
                   plural_suffix(f->rank_windows));
    print_line(to, "steps: %s", f->steps);
    if (strcmp(f->arithmetic, "float32") != 0) print_line(to, "arithmetic: %s", f->arithmetic);
    if (f->seconds_expected > 0) print_line(to, "time: about %s", duration_text(memory, f->seconds_expected));
    if (f->left_out)
        print_line(to, "chosen by the time given; the same file: --calibrate-tokens %" PRIu64 "%s%s",
                   f->tokens, *f->left_out ? " --calibrate-steps " : "", f->left_out);
}

/* ---- after ---- */

report_roundings report_roundings_of(const report_output *o) {
    report_roundings all = {.searched = 0};
    double checked = 0;
    for (size_t i = 0; o->roundings && i < o->n; i++) {
        const gq_rounding *r = &o->roundings[i];
        if (!r->matrices) continue;
        all.tensors++;
        all.matrices += r->matrices, all.plain += r->plain, all.unchecked += r->unchecked;
        all.codes += r->codes, all.ends += r->ends;
        if (!(r->power > 0)) continue;
        all.searched += r->searched / r->power, all.written += r->written / r->power;
        checked++;
    }
    all.searched = checked > 0 ? sqrt(all.searched / checked) : (double)NAN;
    all.written = checked > 0 ? sqrt(all.written / checked) : (double)NAN;
    return all;
}

/* Tensors that calibrating did not make better, and why. */
static void print_plain(FILE *to, const report_output *o) {
    size_t n = 0;
    for (size_t i = 0; i < o->n; i++) {
        const gq_rounding *r = &o->roundings[i];
        if (r->plain == 0 || n++ >= WORST) continue;
        char *part = r->matrices > 1
                         ? text_format(", %" PRIu64 " of %" PRIu64 " matrices", r->plain, r->matrices)
                         : text_format("%s", "");
        print_line(to, "  %s%s: %s", o->tensors[i].name, part, r->why);
        free(part);
    }
    if (n > WORST) print_line(to, "  and %zu more", n - WORST);
}

/* A line per step that was done: on how many matrices, and what it did to their errors. */
static void print_steps(FILE *to, const report_output *o) {
    for (size_t i = 0; i < o->n_steps; i++) {
        const gq_step *s = &o->steps[i];
        if (!s->matrices) continue;
        char *others = s->kept < s->matrices
                           ? text_format(", the others were better without and are written so")
                           : text_format("%s", "");
        char *errors = s->compared ? text_format("; relative error%s %.5f with it, %.5f without",
                                                 s->kept < s->matrices ? " of all" : "",
                                                 sqrt(s->with / (double)s->compared),
                                                 sqrt(s->without / (double)s->compared))
                                   : text_format("%s", "");
        print_line(to, "step %s (%s): %" PRIu64 " of %" PRIu64 " matri%s%s%s", s->name, s->what, s->kept,
                   s->matrices, s->matrices == 1 ? "x" : "ces", others, errors);
        free(errors), free(others);
    }
}

void report_calibration(FILE *to, const report_output *o) {
    report_roundings all = report_roundings_of(o);
    if (!o->roundings || !all.tensors) return;
    if (!isnan(all.written))
        print_line(
            to,
            "outputs on held-out tokens: relative error %.5f, %.5f without calibration; mean over %" PRIu64
            " tensor%s",
            all.written, all.searched, all.tensors, plural_suffix(all.tensors));
    if (all.codes)
        print_line(to, "codes at an end of their range, with weights beyond: %.2f %%",
                   100 * (double)all.ends / (double)all.codes);
    print_steps(to, o);
    if (all.unchecked) print_line(to, "matrices that no held-out token reached: %" PRIu64, all.unchecked);
    if (!all.plain) return;
    print_line(to, "written as without calibration: %" PRIu64 " of %" PRIu64 " matri%s", all.plain,
               all.matrices, all.matrices == 1 ? "x" : "ces");
    print_plain(to, o);
}

/* ---- for programs ---- */

json_t *report_calibration_json(const gq_calibration_facts *f) {
    json_t *o = json_object();
    if (f->text) set_text(o, "text", f->text);
    set_bool(o, "random", !f->text);
    set_count(o, "context", f->context);
    set_count(o, "windows", f->windows);
    set_count(o, "tokens", f->tokens);
    set_count(o, "held_out", f->held_back);
    set_number(o, "tokens_per_column", f->per_column);
    set_count(o, "columns", f->columns);
    set_count(o, "width", f->width);
    set_count(o, "memory_bytes", f->memory);
    set_count(o, "disk_bytes", f->disk);
    set_bool(o, "hidden_states_in_file", f->states_in_file);
    set_count(o, "inputs_memory_bytes", f->inputs_memory), set_count(o, "inputs_disk_bytes", f->inputs_disk);
    set_number(o, "gflop", f->work / 1e9);
    if (f->seconds_expected > 0) set_number(o, "seconds_expected", f->seconds_expected);
    if (f->left_out) set_text(o, "left_out", f->left_out);
    set_count(o, "tokens_advised", f->tokens_advised);
    if (f->has_trials) set_count(o, "trial_layers", f->trial_layers);
    set_text(o, "steps", f->steps);
    set_text(o, "arithmetic", f->arithmetic);
    if (f->ranks > 1) set_count(o, "ranks", f->ranks), set_count(o, "rank_windows", f->rank_windows);
    return o;
}

json_t *report_steps_json(const report_output *o) {
    json_t *steps = json_array();
    for (size_t i = 0; i < o->n_steps; i++) {
        const gq_step *s = &o->steps[i];
        json_t *step = json_object();
        set_text(step, "name", s->name);
        set_text(step, "what", s->what);
        set_bool(step, "on", s->on);
        set_count(step, "matrices", s->matrices);
        set_count(step, "kept", s->kept);
        set_count(step, "compared", s->compared);
        if (s->compared) set_number(step, "error", sqrt(s->with / (double)s->compared));
        if (s->compared) set_number(step, "error_without", sqrt(s->without / (double)s->compared));
        json_array_append_new(steps, step);
    }
    return steps;
}

json_t *report_rounding_json(const report_output *output, const gq_rounding *r) {
    json_t *o = json_object();
    set_count(o, "matrices", r->matrices);
    set_count(o, "plain", r->plain);
    set_count(o, "unchecked", r->unchecked);
    set_text(o, "why", r->why);
    set_count(o, "tokens", r->tokens);
    set_count(o, "width", r->width);
    set_number(o, "damp", (double)r->damp);
    set_count(o, "codes", r->codes);
    set_count(o, "ends", r->ends);
    json_t *steps = set_array(o, "steps");
    for (size_t i = 0; i < output->n_steps; i++)
        if (r->steps >> i & 1) json_array_append_new(steps, json_of_text(output->steps[i].name));
    return o;
}
