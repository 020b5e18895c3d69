#include <inttypes.h>
#include <stdlib.h>

#include "cli/cli.h"

static void print_tokens(const request *r, const gq_tokens *tokens) {
    if (r->json) {
        json_writer j = json_start(stdout, '{');
        json_open(&j, "ids", '[');
        for (size_t i = 0; !r->count && i < tokens->n; i++) json_put_count(&j, NULL, tokens->ids[i]);
        json_close(&j);
        json_put_count(&j, "count", tokens->n);
        json_put_count(&j, "bytes_dropped", tokens->bytes_dropped);
        json_end(&j);
        return;
    }
    if (r->count) printf("%zu\n", tokens->n);
    for (size_t i = 0; !r->count && i < tokens->n; i++) printf("%" PRIu32 "\n", tokens->ids[i]);
}

int tokenize_main(const request *r) {
    gq_error e = {0};
    gq_tokenizer *t = gq_tokenizer_open_adapted(r->arguments[0], &r->quantize.adapters, &e);
    gq_text text = {.bytes = NULL};
    gq_tokenize_options how = {.size = sizeof how,
                               .no_ends = r->no_bos,
                               .parse_special = r->parse_special,
                               .tokens = r->tokens,
                               .memory = r->memory};
    gq_tokens tokens = {0};
    bool ok = t && input_text(r->arguments[1], r->memory, &text, &e);
    if (ok && !text.bytes) how.file = text.name;
    ok = ok && gq_tokenize(t, text.bytes, text.n, &how, &tokens, &e);
    if (ok) {
        size_t n_warnings;
        const char *const *warnings = gq_tokenizer_warnings(t, &n_warnings);
        if (!r->quiet) warn_all(r->said, warnings, n_warnings);
        if (tokens.bytes_dropped && !r->quiet) {
            char *warning =
                text_format("%" PRIu64 " bytes of the text have no token in this vocabulary and are left out",
                            tokens.bytes_dropped);
            say_warning(r->said, warning);
            free(warning);
        }
        print_tokens(r, &tokens);
    }
    gq_tokens_free(&tokens);
    input_free(&text);
    gq_tokenizer_close(t);
    return ok ? GQ_OK : say_failure(r->said, &e);
}
