#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"

enum { LONGEST = 1024 };

__attribute__((format(printf, 2, 3))) static void event_append(event *v, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(v->text + v->n, sizeof v->text - v->n, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < sizeof v->text - v->n) v->n += (size_t)n;
    v->text[v->n] = 0;
}

static void put_quoted(event *v, const char *text) {
    size_t end = v->n + LONGEST;
    if (end > sizeof v->text - LONGEST) end = sizeof v->text - LONGEST;
    event_append(v, "\"");
    while (*text && v->n + JSON_ESCAPED <= end) {
        char escaped[JSON_ESCAPED];
        text += json_escape(escaped, text, 4); /* a NUL ends a sequence, too */
        event_append(v, "%s", escaped);
    }
    event_append(v, "\"");
}

static void event_append_key(event *v, const char *key) {
    event_append(v, "%s\"%s\":", v->n > 1 ? "," : "", key);
}

void event_begin(event *v, const char *name, const char *phase) {
    v->n = 0;
    event_append(v, "{");
    event_text(v, "event", name);
    if (phase) event_text(v, "phase", phase);
    char text[24] = "";
    time_t now = time(NULL);
    const struct tm *utc = gmtime(&now);
    if (utc) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", utc);
    event_text(v, "time", text);
}

void event_text(event *v, const char *key, const char *text) {
    event_append_key(v, key);
    put_quoted(v, text);
}

void event_count(event *v, const char *key, uint64_t n) {
    event_append_key(v, key);
    event_append(v, "%" PRIu64, n);
}

void event_number(event *v, const char *key, double value) {
    event_append_key(v, key);
    if (isfinite(value))
        event_append(v, "%.9g", value);
    else
        event_append(v, "null");
}

bool event_log_open(int *log, const char *path, gq_error *e) {
    if (!path) return true;
    *log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    return *log >= 0 || gq_fail(e, "--log-file %s: %s", path, strerror(errno));
}

static bool event_write(const event *v, int fd) {
    for (size_t at = 0; fd >= 0 && at < v->n;) {
        ssize_t n = write(fd, v->text + at, v->n - at);
        if (n <= 0) return false;
        at += (size_t)n;
    }
    return true;
}

bool event_send(event *v, int fd, int log) {
    event_append(v, "}\n");
    event_write(v, fd);
    return event_write(v, log);
}
