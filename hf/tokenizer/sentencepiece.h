/* tokenizer.model: the vocabulary of a sentencepiece model, a message of Protocol Buffers. */
#pragma once

#include "base/error.h"

/* The numbers of ModelProto.SentencePiece.Type: the order counts. */
typedef enum hf_piece_type {
    HF_PIECE_NORMAL = 1,
    HF_PIECE_UNKNOWN,
    HF_PIECE_CONTROL,
    HF_PIECE_USER,
    HF_PIECE_UNUSED,
    HF_PIECE_BYTE
} hf_piece_type;

typedef struct hf_token_piece {
    const char *text; /* UTF-8 within the file's bytes, not NUL-terminated */
    uint32_t length;
    float score; /* finite */
    hf_piece_type type;
} hf_token_piece;

typedef struct hf_pieces {
    hf_token_piece *pieces; /* by their numbers; at least one */
    size_t n, capacity;
    bool adds_space; /* a space goes in front of a text before it is encoded */
    bool trims;      /* spaces at its ends, and all but one between words, are left out */
    bool is_unigram; /* a text is cut into the pieces of the largest sum of scores; else pieces are merged */
    const uint8_t
        *characters; /* what becomes of characters before, n_characters bytes; NULL: nothing is told */
    size_t n_characters;
} hf_pieces;

/* Reads n bytes, which must stay as long as the pieces. `name` is the file, for messages. */
bool hf_pieces_read(hf_pieces *p, const char *name, const void *bytes, size_t n, gq_error *e);
void hf_pieces_free(hf_pieces *p);
