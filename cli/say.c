#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/report/table.h"

static bool stderr_has_colours(void) {
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(STDERR_FILENO) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

static void print_message(const char *colour, const char *word, const char *text) {
    char *safe = text_shown(text);
    if (stderr_has_colours())
        fprintf(stderr, "gquant: \033[%sm%s:\033[0m", colour, word);
    else
        fprintf(stderr, "gquant: %s:", word);
    print_wrapped_behind(stderr, strlen("gquant: :") + strlen(word), safe);
    free(safe);
}

void say_warning(const said *s, const char *text) {
    print_message("33", "warning", text);
    if (s->log < 0) return;
    event v;
    event_begin(&v, "warning", NULL);
    event_text(&v, "message", text);
    event_send(&v, -1, s->log);
}

/* Whether a text was warned of before: a model that is opened twice says the same again. It is noted. */
static bool was_said(said *s, const char *text) {
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->warnings[i], text) == 0) return true;
    s->warnings = need_next(s->warnings, s->n, sizeof *s->warnings);
    s->warnings[s->n++] = text_format("%s", text);
    return false;
}

void warn_all(said *s, const char *const *texts, size_t n) {
    enum { MOST = 12 }; /* lines of one kind; more would hide everything else */
    size_t shown = 0, left = 0;
    for (size_t i = 0; i < n; i++) {
        bool fits = shown + 1 < MOST || (shown < MOST && i + 1 == n && left == 0);
        if (!fits)
            left++;
        else if (!was_said(s, texts[i]))
            say_warning(s, texts[i]), shown++;
    }
    if (left) print_line(stderr, "gquant: and %zu more such warnings", left);
}

void warn_of_disk(const said *s, const gq_needs *needs) {
    char needed[UNIT_ROOM], available[UNIT_ROOM];
    if (needs->disk <= needs->disk_free) return;
    char *text =
        text_format("the disk is too small: %s are needed, %s are free",
                    file_text(needed, (double)needs->disk), file_text(available, (double)needs->disk_free));
    say_warning(s, text);
    free(text);
}

int say_failure(said *s, const gq_error *e) {
    static const char less_memory[] =
        "; fewer --threads need less, and so does a smaller --memory SIZE where a model is run";
    static const char *const remedies[] = {
        [GQ_REMEDY_NONE] = "",
        [GQ_REMEDY_REPLACE] = "; --force replaces it",
        [GQ_REMEDY_REQUANTIZE] = "; --allow-requantize converts it all the same",
        [GQ_REMEDY_OTHER_TYPE] = "; --missing-importance TYPE gives such tensors another type",
        [GQ_REMEDY_SET_METADATA] = "; --override-kv KEY=TYPE:VALUE sets it when a GGUF is made",
        [GQ_REMEDY_MEMORY] = less_memory,
        [GQ_REMEDY_ALLOW_MISSING] = ", or go on without it by --allow-missing REGEX",
        [GQ_REMEDY_TARGET_MODEL] = "; --target-model FOLDER names it",
        [GQ_REMEDY_OTHER_PROGRAM] = "",
        [GQ_REMEDY_PART] = "; --override-kv general.type=str:part says that it is a part of a model",
        [GQ_REMEDY_IMPORTANCE] =
            "; gquant imatrix compute MODEL TEXT FILE makes one, --imatrix FILE reads it",
        [GQ_REMEDY_MORE_MEMORY] = ""};
    const char *last = strrchr(e->text, ' ');
    bool names_memory = e->remedy == GQ_REMEDY_MORE_MEMORY && last;
    char *text = names_memory ? text_format("%.*s --memory%s", (int)(last - e->text), e->text, last)
                              : text_format("%s%s", e->text, remedies[e->remedy]);
    print_message("31", e->status == GQ_INTERRUPTED ? "interrupted" : "error", text);
    free(text);
    s->failure = *e;
    if (e->status == GQ_INTERRUPTED && interrupt_signal()) return 128 + interrupt_signal();
    return e->status == GQ_USAGE ? GQ_USAGE : GQ_FAILED;
}

/* ---- what is usually done next, as a line to paste ---- */

static bool next_is_wanted(const request *r) {
    return !r->quiet && !r->json && !r->progress && isatty(STDOUT_FILENO) && isatty(STDERR_FILENO);
}

/* The line is not wrapped, because a broken one cannot be pasted; names with control characters are left out
 * for the same reason. */
static void next_print(char *line) {
    char *shown = text_shown(line);
    if (!strcmp(shown, line)) fprintf(stderr, "next: %s\n", line);
    free(shown), free(line);
}

void next_say(const request *r, ...) {
    va_list words;
    char *line = text_format("gquant");
    va_start(words, r);
    for (const char *word; (word = va_arg(words, const char *));) line = text_add_word(line, word);
    va_end(words);
    if (next_is_wanted(r))
        next_print(line);
    else
        free(line);
}

void next_say_evaluate(const request *r, const char *base_model, const char *const *quants, size_t n) {
    static const char held_out[] = "held-out.txt";
    if (!next_is_wanted(r) || r->quantize.adapters.n > 0) return; /* merged: the base model is another */
    bool is_there = access(held_out, R_OK) == 0;
    char *line = text_format("%sgquant evaluate", is_there ? "" : "gquant text --held-out held-out.txt && ");
    line = text_add_word(line, base_model);
    for (size_t i = 0; i < n; i++) line = text_add_word(line, quants[i]);
    next_print(text_add_word(text_add_word(line, "--text"), held_out));
}
