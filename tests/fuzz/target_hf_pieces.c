/* tokenizer.model: what can be read are pieces inside the file, of known types, with finite scores. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hf/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    uint8_t *file = fuzz_copy(bytes, n);
    hf_pieces pieces = {.n = 0};
    gq_error e = {0};
    if (!hf_pieces_read(&pieces, "fuzz", file, n, &e))
        fuzz_check_error(&e);
    else
        PROMISE(pieces.n > 0 && pieces.n <= n, "%zu pieces in %zu bytes", pieces.n, n);
    for (size_t i = 0; i < pieces.n; i++) {
        const hf_token_piece *p = &pieces.pieces[i];
        const uint8_t *text = (const uint8_t *)p->text;
        PROMISE(p->length == 0 || (text >= file && text + p->length <= file + n), "piece %zu", i);
        PROMISE(isfinite(p->score), "piece %zu", i);
        PROMISE(p->type >= HF_PIECE_NORMAL && p->type <= HF_PIECE_BYTE, "piece %zu: %d", i, (int)p->type);
    }
    hf_pieces_free(&pieces);
    free(file);
    return 0;
}

#define PIECE(size, length, text, more) "\x0a" size "\x0a" length text more

void fuzz_seeds(const char *folder) {
    static const char plain[] = PIECE("\x09", "\x05", "<unk>", "\x18\x02")
        PIECE("\x0a", "\x01", "a", "\x15\x00\x00\x80\xbf\x18\x01") PIECE("\x08", "\x06", "<0x41>", "")
            PIECE("\x0d", "\x03", "\xe2\x96\x81", "\x15\x00\x00\x00\xc0\x18\xff\x01");
    static const char others[] = PIECE("\x03", "\x01", "a", "") "\x12\x02\x18\x02" /* the trainer's */
                                                                "\x1a\x02\x18\x00" /* the normalizer's */
                                                                "\x21"
                                                                "12345678"
                                                                "\x2d"
                                                                "1234"
                                                                "\x30\x80\x80\x01";
    fuzz_seed(folder, "pieces", plain, sizeof plain - 1);
    fuzz_seed(folder, "others", others, sizeof others - 1);
    fuzz_seed(folder, "cut", plain, sizeof plain - 4);
}
