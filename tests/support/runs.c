#include "tests/support/runs.h"

#include <errno.h>
#include <sys/wait.h>

static void count_chunk(void *user, const gq_progress *p) {
    stopper *s = user;
    s->chunks++;
    s->resumed = p->bytes_resumed, s->done = p->bytes_done, s->total = p->bytes_total;
    s->last = *p;
}

static bool is_enough(void *user) {
    const stopper *s = user;
    return s->after && s->chunks >= s->after;
}

gq_callbacks stopper_callbacks(stopper *s) {
    return (gq_callbacks){sizeof(gq_callbacks), s, count_chunk, NULL, is_enough};
}

gq_status run_some(const gq_options *options, stopper *s, gq_error *e) {
    gq_callbacks callbacks = stopper_callbacks(s);
    gq_plan *plan = gq_plan_new(options, e);
    if (!plan) fail_msg("%s", e->text);
    e->status = GQ_OK;
    gq_status status = gq_run(plan, &callbacks, NULL, e) ? GQ_OK : e->status;
    gq_plan_free(plan);
    return status;
}

bool announced(const gq_options *options, const char *says) {
    gq_error e;
    gq_plan *plan = gq_plan_new(options, &e);
    if (!plan) fail_msg("%s", e.text);
    bool found = warned(plan, says);
    gq_plan_free(plan);
    return found;
}

pid_t start_run(const gq_options *o) {
    char part[32];
    snprintf(part, sizeof part, "%u/%u", o->part, o->parts);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execl("/proc/self/exe", program_invocation_name, o->input, o->outputs[0].path, part, (char *)NULL);
        _exit(127);
    }
    return pid;
}

int run_as_asked(char **arguments) {
    gq_output out = {.path = arguments[2], .filetype = "Q4_K_S"};
    gq_options o = {.size = sizeof o,
                    .sync_ms = 1,
                    .input = arguments[1],
                    .outputs = &out,
                    .n_outputs = 1,
                    .threads = 2,
                    .effort = GQ_EFFORT_DEFAULT};
    if (sscanf(arguments[3], "%u/%u", &o.part, &o.parts) != 2) return 2;
    gq_plan *plan = gq_plan_new(&o, NULL);
    bool done = plan && gq_run(plan, NULL, NULL, NULL);
    gq_plan_free(plan);
    return !done;
}

bool run_finished(pid_t child) {
    int status;
    assert_true(waitpid(child, &status, 0) == child);
    assert_true((WIFEXITED(status) && WEXITSTATUS(status) == 0) || WIFSIGNALED(status));
    return WIFEXITED(status);
}
