/* The progress that a user sees while the library works: a line on the terminal that is rewritten at most ten times a
 * second, JSON lines with --progress json, and a line per tensor with --verbose. While work continues all of it is
 * made in two callbacks, on_progress and on_tensor. They run while outputs are open, so nothing in them allocates
 * memory, which could end the program; texts are built in buffers of fixed size. Ctrl-C only sets a flag, which the
 * library reads through `cancelled`; a second Ctrl-C ends the program. A calibrated run has two phases, "calibrate"
 * and "quantize", and leave_calibration marks the step from one to the other. */
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static volatile sig_atomic_t noted;

static void interrupt_note(int signal) { noted = signal; }

void interrupt_catch(void) {
    struct sigaction action = {.sa_handler = interrupt_note, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
#ifdef SIGHUP /* a terminal that is gone; nohup has it ignored, which stays */
    struct sigaction before;
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
#endif
}

int interrupt_signal(void) { return noted; }

static void send_start(const progress *p) {
    event v;
    event_begin(&v, "start", p->phase);
    event_text(&v, "input", p->input);
    event_send(&v, p->events, p->log);
    for (size_t o = 0; p->plan && o < gq_plan_outputs(p->plan); o++) {
        const gq_summary *s = gq_plan_summary(p->plan, o);
        event_begin(&v, "output", p->phase);
        event_count(&v, "output", o);
        event_text(&v, "path", s->path);
        event_text(&v, "file_type", s->filetype);
        event_count(&v, "tensors", s->n_tensors);
        event_count(&v, "file_bytes", s->file_bytes);
        event_send(&v, p->events, p->log);
    }
}

/* The model that the command works on: its first argument that is not the word "compute". */
static const char *progress_model(const request *r) {
    size_t at = r->command == CMD_IMATRIX;
    return at < r->n_arguments ? r->arguments[at] : "";
}

static void progress_begin(progress *p, const request *r, const gq_plan *plan, const char *phase) {
    *p = (progress){.plan = plan,
                    .phase = phase,
                    .input = progress_model(r),
                    .events = r->progress - 1,
                    .log = r->said->log,
                    .is_followed = r->progress || r->said->log >= 0,
                    .verbose = r->verbose && !r->progress,
                    .terminal = !r->quiet && !r->progress && isatty(STDERR_FILENO),
                    .lines = !r->quiet && !r->progress && !isatty(STDERR_FILENO),
                    .last = -1};
    if (p->is_followed) send_start(p);
}

void progress_start(progress *p, const request *r, const gq_plan *plan) {
    progress_begin(p, r, plan,
                   r->command == CMD_COMPARE    ? "compare"
                   : r->command == CMD_VERIFY   ? "verify"
                   : r->command == CMD_EVALUATE ? "evaluate"
                   : !plan                      ? "plan"
                   : gq_plan_calibration(plan)  ? "calibrate"
                                                : "quantize");
}

void progress_start_phase(progress *p, const request *r, const char *phase) {
    progress_begin(p, r, NULL, phase);
}

void progress_start_measuring(progress *p, const request *r, const char *measures) {
    progress_begin(p, r, NULL, "plan");
    if (!r->quiet && !r->progress) p->at_start = measures;
}

void progress_start_stage(progress *p, const request *r, const gq_plan *plan, const char *phase) {
    const progress before = *p;
    progress_begin(p, r, plan, plan && gq_plan_calibration(plan) ? "calibrate" : phase);
    p->is_stage = true, p->tenths = before.tenths;
    if (before.is_stage && strcmp(before.phase, p->phase) == 0)
        p->last = before.last; /* a new phase is shown at once */
    p->is_time_shown = before.is_time_shown && strcmp(before.phase, "plan") != 0; /* that was of planning */
}

/* Ends the phase "calibrate", if the run is in it, and begins "quantize". While calibrating a model runs over
 * tokens; the first progress without tokens shows that this is over. */
static void leave_calibration(progress *p) {
    event v;
    if (strcmp(p->phase, "calibrate") != 0) return;
    if (p->is_followed) event_begin(&v, "done", p->phase), event_send(&v, p->events, p->log);
    p->phase = "quantize";
    if (p->is_followed) send_start(p);
}

static void progress_clear(progress *p) {
    if (p->shown) fputs("\r\033[K", stderr);
    p->shown = false;
}

void progress_end(progress *p, const gq_error *e) {
    progress_clear(p);
    if (!p->is_followed) return;
    if (!e) leave_calibration(p);
    event v;
    event_begin(&v, e ? e->status == GQ_INTERRUPTED ? "interrupted" : "failed" : "done", p->phase);
    if (e) event_text(&v, "message", e->text);
    event_send(&v, p->events, p->log);
}

/* Appends the tensor's name after the numbers if at least LEAST columns are left; less could not be
 * recognised. */
static void append_tensor_name(char *to, size_t room, const char *tensor) {
    enum { LEAST = 12, GAP = 2 };
    static const char suffix[] = ".weight";
    size_t used = strlen(to), n = tensor ? strlen(tensor) : 0, m = sizeof suffix - 1;
    char name[128], safe[512];
    if (n == 0 || n >= sizeof name || used + GAP + LEAST >= room) return;
    if (n > m && !strcmp(tensor + n - m, suffix)) n -= m;
    snprintf(name, sizeof name, "%.*s", (int)n, tensor);
    gq_printable(safe, sizeof safe, name);
    memcpy(to + used, "  ", GAP);
    name_fit(to + used + GAP, room - used - GAP, safe, room - used - GAP - 1);
}

typedef struct rates {
    double bytes, weights, tokens; /* per second */
    double left;                   /* seconds; NaN: unknown */
} rates;

/* Computes the rates of this run alone: the work and the seconds of the run that it continues are taken off. */
static rates rates_so_far(const gq_progress *now) {
    double seconds = now->seconds - now->seconds_resumed;
    rates r = {.left = now->seconds_left};
    if (!(seconds > 0)) return r;
    r.bytes = (double)(now->bytes_done - now->bytes_resumed) / seconds;
    r.weights = (double)(now->weights_done - now->weights_resumed) / seconds;
    if (now->bytes_total > 0) r.tokens = r.bytes * (double)now->tokens / (double)now->bytes_total;
    return r;
}

double progress_weights(const gq_progress *now) { return rates_so_far(now).weights; }

char *progress_text(char to[PROGRESS_LINE_BYTES], const gq_progress *now, const char *subject, int columns) {
    int percent = (int)(100 * now->share); /* 100 is said at the end alone */
    rates r = rates_so_far(now);
    char of[UNIT_ROOM], bytes[UNIT_ROOM], weights[UNIT_ROOM], left[UNIT_ROOM];
    size_t room = columns > 0 && columns < PROGRESS_LINE_BYTES ? (size_t)columns : PROGRESS_LINE_BYTES;
    char whole[32] = "of ";
    if (subject) snprintf(whole, sizeof whole, "%s: ", subject);
    if (!now->bytes_total)
        snprintf(to, room, "measuring"); /* there is nothing to count yet */
    else if (now->tokens)
        snprintf(to, room, "%3d %%  %s%s tokens  %s tokens/s  %s left", percent, whole,
                 count_text(of, (double)now->tokens), count_text(weights, r.tokens),
                 isnan(r.left) ? "?" : time_text(left, r.left));
    else
        snprintf(to, room, "%3d %%  %s%s  %s/s%s%s%s  %s left", percent, whole,
                 file_text(of, (double)now->bytes_total), file_text(bytes, r.bytes),
                 r.weights > 0 ? "  " : "", r.weights > 0 ? count_text(weights, r.weights) : "",
                 r.weights > 0 ? " weights/s" : "", isnan(r.left) ? "?" : time_text(left, r.left));
    append_tensor_name(to, room, now->tensor);
    return to;
}

static void send_progress(const progress *p, const gq_progress *now) {
    rates r = rates_so_far(now);
    event v;
    event_begin(&v, "progress", p->phase);
    event_count(&v, "bytes_done", now->bytes_done);
    event_count(&v, "bytes_total", now->bytes_total);
    event_count(&v, "weights_done", now->weights_done);
    event_number(&v, "seconds", now->seconds);
    event_number(&v, "bytes_per_second", r.bytes);
    event_number(&v, "weights_per_second", r.weights);
    if (now->tokens) {
        event_count(&v, "tokens", now->tokens);
        event_number(&v, "tokens_per_second", r.tokens);
    }
    event_number(&v, "share", now->share);
    event_number(&v, "seconds_left", r.left);
    if (now->seconds_expected > 0) event_number(&v, "seconds_expected", now->seconds_expected);
    if (now->sent_layer) event_count(&v, "sent_layer_bytes", now->sent_layer);
    if (now->tensor) event_text(&v, "tensor", now->tensor);
    event_send(&v, p->events, p->log);
}

/* Seconds of work; of less nobody needs to know before. */
static const double WORTH_TELLING = 2;

/* Says how long it will take, before the work. What calibrates says so with its plan, but not as a subject. */
static void show_time(progress *p, const gq_progress *now) {
    char left[UNIT_ROOM];
    if (p->is_time_shown || !(now->seconds_expected > 0)) return;
    p->is_time_shown = true;
    if ((p->terminal || p->lines) && now->seconds_expected >= WORTH_TELLING &&
        (p->is_stage || strcmp(p->phase, "calibrate") != 0))
        print_line(stderr, "time: about %s", duration_text(left, now->seconds_expected));
}

/* Says what the first layer had this rank send. */
static void show_sent(progress *p, const gq_progress *now) {
    char sent[UNIT_ROOM];
    if (p->is_sent_shown || !now->sent_layer) return;
    p->is_sent_shown = true;
    if (p->terminal || p->lines)
        print_line(stderr, "this rank sent %s for the first layer", file_text(sent, (double)now->sent_layer));
}

/* Writes a line for each tenth of the work, so that a log shows that a long run continues. */
static void print_tenth(progress *p, const gq_progress *now) {
    char text[PROGRESS_LINE_BYTES];
    int tenths = (int)(10 * now->share);
    if (!now->bytes_total || tenths <= p->tenths || now->seconds < PROGRESS_LINES_FROM) return;
    p->tenths = tenths;
    fprintf(stderr, "%s\n", progress_text(text, now, p->is_stage ? p->phase : NULL, 0));
}

static void on_progress(void *user, const gq_progress *now) {
    progress *p = user;
    p->now = *now, p->now.tensor = NULL;
    if (p->at_start) print_wrapped(stderr, p->at_start), p->at_start = NULL;
    if (!now->tokens) leave_calibration(p);
    show_time(p, now), show_sent(p, now);
    if (p->lines) print_tenth(p, now);
    if (p->last >= 0 && now->seconds - p->last < 0.1 && now->share < 1) return;
    if (p->is_followed) send_progress(p, now);
    p->last = now->seconds;
    if (!p->terminal) return;
    char text[PROGRESS_LINE_BYTES];
    fprintf(stderr, "\r%s\033[K",
            progress_text(text, now, p->is_stage ? p->phase : NULL, terminal_columns(stderr)));
    p->shown = true;
}

static void send_tensor(const progress *p, size_t output, size_t tensor, const gq_loss *loss) {
    const gq_tensor *t = gq_plan_tensors(p->plan, output, &(size_t){0}) + tensor;
    event v;
    event_begin(&v, "tensor_done", p->phase);
    event_count(&v, "output", output);
    event_text(&v, "tensor", t->name);
    event_text(&v, "from", gq_type_name(t->from));
    event_text(&v, "to", gq_type_name(t->to));
    event_count(&v, "out_bytes", t->out_bytes);
    if (loss->n) {
        event_number(&v, "rmse", gq_loss_rmse(loss));
        event_number(&v, "relative_error", gq_loss_relative(loss));
        event_number(&v, "weighted_error", gq_loss_weighted(loss));
        event_number(&v, "snr_db", gq_loss_snr_db(loss));
        event_number(&v, "max_error", loss->max_error);
    }
    event_send(&v, p->events, p->log);
}

static void on_tensor(void *user, size_t output, size_t tensor, const gq_loss *loss) {
    progress *p = user;
    leave_calibration(p);
    if (p->is_followed) send_tensor(p, output, tensor, loss);
    if (!p->verbose) return;
    progress_clear(p);
    report_line(stderr, gq_plan_summary(p->plan, output),
                gq_plan_tensors(p->plan, output, &(size_t){0}) + tensor, loss);
}

static bool progress_is_cancelled(void *user) {
    (void)user;
    return noted != 0;
}

gq_callbacks progress_callbacks(progress *p) {
    return (gq_callbacks){.size = sizeof(gq_callbacks),
                          .user = p,
                          .progress = on_progress,
                          .tensor_done = p->plan && (p->verbose || p->is_followed) ? on_tensor : NULL,
                          .cancelled = progress_is_cancelled};
}
