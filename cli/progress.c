#include "cli/progress.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/table.h"
#include "cli/text.h"

static volatile sig_atomic_t noted;

static void note(int signal) { noted = signal; }

void interrupt_catch(void) {
    struct sigaction action = {.sa_handler = note, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int interrupt_signal(void) { return noted; }

void progress_start(progress *p, const request *r, const gq_plan *plan) {
    *p = (progress){
        .plan = r->verbose ? plan : NULL, .terminal = !r->quiet && isatty(STDERR_FILENO), .last = -1};
}

/* Behind the numbers, where there is room for something to be recognised by. */
static void put_tensor(char *to, size_t room, const char *tensor) {
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

char *progress_text(char to[PROGRESS_ROOM], const gq_progress *now, int columns) {
    double done = (double)now->bytes_done, total = (double)now->bytes_total;
    /* What an earlier run had finished says nothing about this one's speed. */
    double seconds = now->seconds - now->seconds_resumed;
    double rate = seconds > 0 ? (double)(now->bytes_done - now->bytes_resumed) / seconds : 0;
    double weight_rate = seconds > 0 ? (double)(now->weights_done - now->weights_resumed) / seconds : 0;
    char of[UNIT_ROOM], bytes[UNIT_ROOM], weights[UNIT_ROOM], left[UNIT_ROOM];
    size_t room = columns > 0 && columns < PROGRESS_ROOM ? (size_t)columns : PROGRESS_ROOM;
    snprintf(to, room, "%3.0f %%  of %s  %s/s  %s weights/s  %s left", total > 0 ? 100 * done / total : 100,
             size_text(of, total), size_text(bytes, rate), count_text(weights, weight_rate),
             rate > 0 ? time_text(left, (total - done) / rate) : "?");
    put_tensor(to, room, now->tensor);
    return to;
}

void progress_clear(progress *p) {
    if (p->shown) fputs("\r\033[K", stderr);
    p->shown = false;
}

static void on_progress(void *user, const gq_progress *now) {
    progress *p = user;
    if (!p->terminal || (p->last >= 0 && now->seconds - p->last < 0.1)) return;
    char text[PROGRESS_ROOM];
    fprintf(stderr, "\r%s\033[K", progress_text(text, now, terminal_columns(stderr)));
    p->shown = true;
    p->last = now->seconds;
}

static void on_tensor(void *user, size_t output, size_t tensor, const gq_loss *loss) {
    progress *p = user;
    progress_clear(p);
    report_line(stderr, gq_plan_summary(p->plan, output),
                gq_plan_tensors(p->plan, output, &(size_t){0}) + tensor, loss);
}

static bool is_cancelled(void *user) {
    (void)user;
    return noted != 0;
}

gq_callbacks progress_callbacks(progress *p) {
    return (gq_callbacks){.user = p,
                          .progress = p->terminal ? on_progress : NULL,
                          .tensor_done = p->plan ? on_tensor : NULL,
                          .cancelled = is_cancelled};
}
