#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/say.h"
#include "cli/text.h"

enum { TEXT_MOST = 1 << 30 }; /* bytes that the library takes at once */

/* All of standard input. */
static char *read_input(size_t *n, gq_error *e) {
    char *text = NULL;
    *n = 0;
    for (size_t room = 0, got = 1; got > 0; *n += got) {
        if (room - *n < BUFSIZ) {
            char *grown = realloc(text, room = 2 * room + 2 * BUFSIZ);
            if (!grown) {
                gq_fail_memory(e, room);
                break;
            }
            text = grown;
        }
        got = fread(text + *n, 1, room - *n, stdin);
        if (got > 0 && *n + got <= TEXT_MOST) continue;
        if (got == 0 && !ferror(stdin)) return text;
        gq_fail(e, got ? "standard input: a text of more than %d bytes" : "standard input cannot be read",
                TEXT_MOST);
        break;
    }
    free(text);
    return NULL;
}

static void print_tokens(const request *r, const gq_tokens *tokens) {
    if (r->count) printf("%zu\n", tokens->n);
    for (size_t i = 0; !r->count && i < tokens->n; i++) printf("%" PRIu32 "\n", tokens->ids[i]);
}

int tokenize_main(const request *r) {
    gq_error e = {0};
    gq_tokenizer *t = gq_tokenizer_open(r->arguments[0], &e);
    size_t n;
    char *text = !t                                  ? NULL
                 : strcmp(r->arguments[1], "-") == 0 ? read_input(&n, &e)
                                                     : gq_read_whole(r->arguments[1], TEXT_MOST, &n, &e);
    gq_tokenize_options how = {.no_ends = r->no_bos, .parse_special = r->parse_special};
    gq_tokens tokens = {0};
    bool ok = text && gq_tokenize(t, text, n, &how, &tokens, &e);
    if (ok) {
        size_t n_warnings;
        const char *const *warnings = gq_tokenizer_warnings(t, &n_warnings);
        if (!r->quiet) warn_all(warnings, n_warnings);
        if (tokens.bytes_dropped && !r->quiet) {
            char *told =
                format("%" PRIu64 " bytes of the text have no token in this vocabulary and are left out",
                       tokens.bytes_dropped);
            warn(told);
            free(told);
        }
        print_tokens(r, &tokens);
    }
    gq_tokens_free(&tokens);
    free(text);
    gq_tokenizer_close(t);
    return ok ? GQ_OK : failed(&e);
}
