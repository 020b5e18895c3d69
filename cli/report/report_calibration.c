/* Prints what a calibration takes and what it has brought. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

/* ---- before ---- */

void report_room(FILE *to, uint64_t memory, uint64_t disk, bool hidden_states_in_file) {
    char size[UNIT_ROOM];
    print_line(to, "memory: at most %s%s", memory_text(size, (double)memory),
               hidden_states_in_file ? "" : ", with the hidden states of all tokens");
    print_line(to, "disk: %s beside the output until it is done%s", file_text(size, (double)disk),
               hidden_states_in_file ? "; it has the hidden states of all tokens, which are read from there"
                                     : "");
}

void report_existing(FILE *to, const request *r, const char *path) {
    if (access(path, F_OK) != 0) return;
    print_line(to, "%s already exists: the run %s", path_reported(path, r->full_paths),
               r->quantize.force ? "replaces it"
                                 : "checks whether it is complete, and does not write it again");
}

void report_needs(FILE *to, const gq_needs *needs, const char *of) {
    char time[UNIT_ROOM], memory[UNIT_ROOM], disk[UNIT_ROOM], left[UNIT_ROOM];
    bool is_known = needs->disk_free < UINT64_MAX;
    print_line(to, "%stime: about %s; memory: at most %s; disk: %s%s%s", of,
               duration_text(time, needs->seconds), memory_text(memory, (double)needs->memory),
               file_text(disk, (double)needs->disk), is_known ? " of free " : "",
               is_known ? file_text(left, (double)needs->disk_free) : "");
}

void report_calibration_plan(FILE *to, const gq_calibration_facts *f) {
    char memory[UNIT_ROOM], disk[UNIT_ROOM];
    print_line(to,
               "calibrated on %s: %" PRIu64 " tokens in windows of %u, %" PRIu64 " of %" PRIu64
               " window%s held out to check; %.3g tokens per column, or more",
               f->text ? f->text : "tokens drawn at random", f->tokens, f->context, f->held_out, f->windows,
               plural_suffix(f->windows), f->per_column);
    report_room(to, f->memory, f->disk, f->hidden_states_in_file);
    print_line(to, "cached activations: %s in memory and %s on disk, of these",
               memory_text(memory, (double)f->inputs_memory), file_text(disk, (double)f->inputs_disk));
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

/* Tensors that calibrating did not make better, and why. */
static void print_plain(FILE *to, const gq_report_output *o) {
    size_t n = 0;
    for (size_t i = 0; i < o->n; i++) {
        const gq_rounding *r = &o->roundings[i];
        if (r->plain == 0 || n++ >= GQ_WORST) continue;
        char *count = r->matrices > 1
                          ? text_format(", %" PRIu64 " of %" PRIu64 " matrices", r->plain, r->matrices)
                          : text_format("%s", "");
        print_line(to, "  %s%s: %s", o->tensors[i].name, count, r->why);
        free(count);
    }
    if (n > GQ_WORST) print_line(to, "  and %zu more", n - GQ_WORST);
}

/* What was measured of a step. The validation compares predictions of the whole model, the others outputs of matrices. */
static char *step_errors(const gq_step *s) {
    if (!s->compared) return text_format("%s", "");
    if (strcmp(s->name, "validation") == 0)
        return text_format("; mean KLD on held-out windows %.5f as written, %.5f with all layers plain",
                           s->with, s->without);
    return text_format("; relative error%s %.5f with it, %.5f without",
                       s->kept < s->matrices ? " of all" : "", sqrt(s->with / (double)s->compared),
                       sqrt(s->without / (double)s->compared));
}

/* A line per step that was done: on how many matrices, and what it did to their errors. */
static void print_steps(FILE *to, const gq_report_output *o) {
    for (size_t i = 0; i < o->n_steps; i++) {
        const gq_step *s = &o->steps[i];
        if (!s->matrices) continue;
        char *others = s->kept < s->matrices ? text_format("; the others were better without it")
                                             : text_format("%s", "");
        char *errors = step_errors(s);
        print_line(to, "step %s (%s): %" PRIu64 " of %" PRIu64 " matri%s%s%s", s->name, s->what, s->kept,
                   s->matrices, s->matrices == 1 ? "x" : "ces", others, errors);
        free(errors), free(others);
    }
}

void report_calibration(FILE *to, const gq_report_output *o) {
    if (!o->roundings || !o->calibrated) return;
    if (!isnan(o->written))
        print_line(to,
                   "outputs on held-out tokens: relative error %.5f calibrated, %.5f plain; RMS over %" PRIu64
                   " tensor%s",
                   o->written, o->plain_error, o->calibrated, plural_suffix(o->calibrated));
    if (o->codes) print_line(to, "clipped weights: %.2f %%", 100 * (double)o->clipped / (double)o->codes);
    print_steps(to, o);
    if (o->unchecked) print_line(to, "matrices that no held-out token reached: %" PRIu64, o->unchecked);
    if (!o->plain) return;
    print_line(to, "encoded plainly: %" PRIu64 " of %" PRIu64 " matri%s", o->plain, o->matrices,
               o->matrices == 1 ? "x" : "ces");
    print_plain(to, o);
}
