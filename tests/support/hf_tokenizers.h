/* Small folders with tokenizers, and their conversion. Every test has its own folder. */
#pragma once

#include <sys/stat.h>

#include "hf/folder/folder.h"
#include "hf/tokenizer/tokenizer.h"
#include "tests/support/folder.h"

/* Two byte merges, and GPT-2's pre-tokenizer; the caller adds the closing brace. */
#define BYTES \
    "{'model':{'type':'BPE','vocab':{'a':0,'b':1,'ab':2},'merges':['a b']}," \
    "'pre_tokenizer':{'type':'ByteLevel','add_prefix_space':false},'decoder':{'type':'ByteLevel'}"
/* A sentencepiece model in tokenizer.json. */
#define PIECES \
    "{'model':{'type':'BPE','byte_fallback':true,'vocab':{'<s>':0,'<0x41>':1,'a':2,'b':3,'ab':4,'ba':5}," \
    "'merges':['b a',['a','b']]},'decoder':{'type':'Sequence','decoders':[]}"
#define CONFIG(name) "{'architectures':['" name "'],'num_hidden_layers':1"

static hf_metadata made;
static uint64_t made_tokens;
static char *made_unknown;
static gq_error made_error;

static inline void made_free(void) {
    hf_metadata_free(&made);
    free(made_unknown), made_unknown = NULL;
    made_error = (gq_error){.text = ""};
}

static inline int made_remove(void **state) {
    made_free();
    return folder_remove(state);
}

static inline void put(const char *name, const char *text) { write_whole(path(name), text, strlen(text)); }

/* The same for JSON that is written with single quotes. */
static inline void put_json(const char *name, const char *text) {
    char *copy = strdup(text);
    assert_non_null(copy);
    for (char *at = copy; *at; at++)
        if (*at == '\'') *at = '"';
    put(name, copy);
    free(copy);
}

/* A tokenizer.model that grows. */
static uint8_t sp_bytes[4096];
static size_t sp_n;

static inline void sp_piece(const char *text, size_t n, float score, uint8_t type) {
    uint8_t *to = sp_bytes + sp_n;
    *to++ = 0x0a, *to++ = (uint8_t)(2 + n + 5 + 2); /* field 1, a message */
    *to++ = 0x0a, *to++ = (uint8_t)n;
    memcpy(to, text, n), to += n;
    *to++ = 0x15, memcpy(to, &score, 4), to += 4; /* field 2, four bytes */
    *to++ = 0x18, *to++ = type;                   /* field 3, a number */
    sp_n = (size_t)(to - sp_bytes);
}

/* <unk> <s> a <0x41>, a user-defined piece */
static inline void sp_put(void) {
    sp_n = 0;
    sp_piece("<unk>", 5, 0, 2), sp_piece("<s>", 3, 0, 3), sp_piece("a", 1, -1.5f, 1);
    sp_piece("<0x41>", 6, -2, 6), sp_piece("u", 1, -3, 4);
    write_whole(path("tokenizer.model"), sp_bytes, sp_n);
}

static inline bool make(void) {
    hf_folder f;
    hf_config c;
    made_free();
    if (!hf_folder_open(&f, folder, &made_error)) return false;
    bool ok = hf_config_read(&c, &f, &made_error);
    if (ok) {
        ok = hf_tokenizer_metadata(&f, &c, &made, &made_tokens, &made_unknown, &made_error);
        hf_config_free(&c);
    }
    hf_folder_close(&f);
    return ok;
}

static inline void assert_made(void) {
    if (!make()) fail_msg("%s", made_error.text);
}

static inline void assert_refused(const char *with) {
    if (make()) fail_msg("was read, expected '%s'", with);
    if (!strstr(made_error.text, with)) fail_msg("'%s' does not say '%s'", made_error.text, with);
}

static inline const model_kv *pair(const char *key) {
    char whole[200];
    bool is_whole = strncmp(key, "tokenizer.", 10) == 0;
    snprintf(whole, sizeof whole, "%s%s", is_whole ? "" : "tokenizer.ggml.", key);
    return hf_metadata_find(&made, whole);
}

static inline void assert_none(const char *key) {
    if (pair(key)) fail_msg("%s is there", key);
}

static inline const uint8_t *value_of(const char *key, uint32_t type) {
    const model_kv *kv = pair(key);
    if (!kv) fail_msg("no %s", key);
    assert_int_equal(kv->type, type);
    return (const uint8_t *)kv->value;
}

static inline void assert_text(const char *key, const char *text) {
    const uint8_t *value = value_of(key, GGUF_STRING);
    uint64_t n;
    memcpy(&n, value, 8);
    if (n != strlen(text) || memcmp(value + 8, text, n) != 0)
        fail_msg("%s is '%.*s', expected '%s'", key, (int)n, (const char *)value + 8, text);
}

static inline void assert_id(const char *key, uint32_t id) {
    uint32_t is;
    memcpy(&is, value_of(key, GGUF_U32), 4);
    if (is != id) fail_msg("%s is %u, expected %u", key, is, id);
}

static inline void assert_flag(const char *key, bool flag) {
    if (*value_of(key, GGUF_BOOL) != flag) fail_msg("%s is not %d", key, flag);
}

/* Elements of an array as one text: strings, integers, or floats, with '|' between them. */
static inline void assert_list(const char *key, const char *expected) {
    const uint8_t *value = value_of(key, GGUF_ARRAY), *at = value + 12;
    char text[2000] = "";
    uint32_t type;
    uint64_t n, length;
    memcpy(&type, value, 4), memcpy(&n, value + 4, 8);
    for (uint64_t i = 0; i < n; i++) {
        size_t end = strlen(text);
        int32_t number;
        float real;
        if (i) text[end++] = '|', text[end] = 0;
        if (type == GGUF_STRING) {
            memcpy(&length, at, 8);
            snprintf(text + end, sizeof text - end, "%.*s", (int)length, (const char *)at + 8);
            at += 8 + length;
            continue;
        }
        memcpy(&number, at, 4), memcpy(&real, at, 4), at += 4;
        if (type == GGUF_FLOAT32) snprintf(text + end, sizeof text - end, "%g", (double)real);
        if (type == GGUF_INT32) snprintf(text + end, sizeof text - end, "%d", number);
    }
    assert_string_equal(text, expected);
}
