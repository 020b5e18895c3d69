/* Reads the few fields of a sentencepiece model that a vocabulary consists of and skips all others. A message
 * is a row of fields: a number with the field's name and kind, then a number or a length and bytes. Nothing
 * is copied: texts point into the file's bytes.
 */
#include "hf/tokenizer/tokenizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Kinds of fields. */
enum { PROTO_NUMBER = 0, PROTO_8_BYTES = 1, PROTO_BYTES = 2, PROTO_4_BYTES = 5 };
/* Fields of the model, of a piece, and of the normalizer. */
enum { MODEL_PIECE = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum { NORMALIZER_CHARACTERS = 2, NORMALIZER_ADDS_SPACE = 3, NORMALIZER_TRIMS = 4 };
enum { TRAINER_KIND = 3, TRAINER_UNIGRAM = 1 };

/* The rest of a protobuf message; `file` and `start` are for errors. */
typedef struct proto {
    const char *file;
    const uint8_t *start, *at, *end; /* start: of the file */
    gq_error *e;
} proto;

typedef struct proto_field {
    uint64_t number;
    unsigned kind;
    uint64_t value;       /* of a number, or of four or eight bytes */
    const uint8_t *bytes; /* a text's, or a message's; `size` of them */
    uint64_t size;
} proto_field;

static bool proto_fail(const proto *p, const char *what) {
    return gq_fail(p->e, "%s: %s at byte %zu: the file is damaged, or not a SentencePiece model", p->file,
                   what, (size_t)(p->at - p->start));
}

/* Seven bits a byte, lowest first; the highest bit says that more follow. */
static bool proto_take_number(proto *p, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 70 && p->at < p->end; shift += 7) {
        uint8_t byte = *p->at++;
        if (shift == 63 && (byte & 127) > 1) return proto_fail(p, "a number of more than 64 bits");
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return proto_fail(p, "a number without an end");
}

static bool proto_take_bytes(proto *p, uint64_t n, proto_field *f) {
    if (n > (uint64_t)(p->end - p->at)) return proto_fail(p, "a field that is longer than the rest");
    f->bytes = p->at, f->size = n;
    p->at += n;
    return true;
}

/* Takes the next field; the message has bytes left. */
static bool proto_take_field(proto *p, proto_field *f) {
    uint64_t tag, n;
    *f = (proto_field){.number = 0};
    if (!proto_take_number(p, &tag)) return false;
    f->number = tag >> 3, f->kind = tag & 7;
    if (f->number == 0) return proto_fail(p, "a field without a name");
    switch (f->kind) {
    case PROTO_NUMBER:
        return proto_take_number(p, &f->value);
    case PROTO_BYTES:
        return proto_take_number(p, &n) && proto_take_bytes(p, n, f);
    case PROTO_4_BYTES:
    case PROTO_8_BYTES:
        n = f->kind == PROTO_4_BYTES ? 4 : 8;
        if (!proto_take_bytes(p, n, f)) return false;
        for (uint64_t i = 0; i < n; i++) f->value |= (uint64_t)f->bytes[i] << 8 * i;
        return true;
    default:
        return proto_fail(p, "a field of an unknown kind");
    }
}

/* A message within a message. */
static proto proto_enter(const proto *p, const proto_field *f) {
    proto inner = *p;
    inner.at = f->bytes, inner.end = f->bytes + f->size;
    return inner;
}

static bool token_piece_read(proto p, hf_token_piece *piece) {
    *piece = (hf_token_piece){.text = "", .type = HF_PIECE_NORMAL};
    for (proto_field f; p.at < p.end;) {
        if (!proto_take_field(&p, &f)) return false;
        if (f.number == PIECE_TEXT && f.kind == PROTO_BYTES) {
            if (f.size > UINT32_MAX || !hf_is_utf8((const char *)f.bytes, f.size))
                return proto_fail(&p, "a piece that is not UTF-8");
            piece->text = (const char *)f.bytes, piece->length = (uint32_t)f.size;
        } else if (f.number == PIECE_SCORE && f.kind == PROTO_4_BYTES) {
            uint32_t bits = (uint32_t)f.value;
            memcpy(&piece->score, &bits, sizeof bits);
            if (!isfinite(piece->score)) return proto_fail(&p, "a score that is no finite number");
        } else if (f.number == PIECE_TYPE && f.kind == PROTO_NUMBER) {
            if (f.value < HF_PIECE_NORMAL || f.value > HF_PIECE_BYTE)
                return proto_fail(&p, "a piece of an unknown type");
            piece->type = (hf_piece_type)f.value;
        }
    }
    return true;
}

static bool pieces_read_normalizer(hf_pieces *pieces, proto p) {
    for (proto_field f; p.at < p.end;) {
        if (!proto_take_field(&p, &f)) return false;
        if (f.number == NORMALIZER_ADDS_SPACE && f.kind == PROTO_NUMBER) pieces->adds_space = f.value != 0;
        if (f.number == NORMALIZER_TRIMS && f.kind == PROTO_NUMBER) pieces->trims = f.value != 0;
        if (f.number == NORMALIZER_CHARACTERS && f.kind == PROTO_BYTES && f.size)
            pieces->characters = f.bytes, pieces->n_characters = f.size;
    }
    return true;
}

static bool pieces_read_trainer(hf_pieces *pieces, proto p) {
    for (proto_field f; p.at < p.end;) {
        if (!proto_take_field(&p, &f)) return false;
        if (f.number == TRAINER_KIND && f.kind == PROTO_NUMBER)
            pieces->is_unigram = f.value == TRAINER_UNIGRAM;
    }
    return true;
}

static bool token_piece_add(hf_pieces *pieces, proto p) {
    if (pieces->n == HF_TOKENS_MOST) return gq_fail(p.e, "%s: more than %d pieces", p.file, HF_TOKENS_MOST);
    return memory_grow(&pieces->pieces, &pieces->capacity, pieces->n + 1, sizeof *pieces->pieces, p.e) &&
           token_piece_read(p, &pieces->pieces[pieces->n++]);
}

bool hf_pieces_read(hf_pieces *pieces, const char *name, const void *bytes, size_t n, gq_error *e) {
    proto p = {name, bytes, bytes, (const uint8_t *)bytes + n, e};
    *pieces = (hf_pieces){.adds_space = true, .trims = true, .is_unigram = true};
    bool ok = true;
    for (proto_field f; ok && p.at < p.end;) {
        ok = proto_take_field(&p, &f);
        if (!ok || f.kind != PROTO_BYTES) continue;
        if (f.number == MODEL_PIECE) ok = token_piece_add(pieces, proto_enter(&p, &f));
        if (f.number == MODEL_TRAINER) ok = pieces_read_trainer(pieces, proto_enter(&p, &f));
        if (f.number == MODEL_NORMALIZER) ok = pieces_read_normalizer(pieces, proto_enter(&p, &f));
    }
    if (ok && pieces->n == 0)
        ok = gq_fail(e, "%s: no pieces: it is empty, or not a SentencePiece model", name);
    if (!ok) hf_pieces_free(pieces);
    return ok;
}

void hf_pieces_free(hf_pieces *p) {
    free(p->pieces);
    *p = (hf_pieces){.pieces = NULL};
}
