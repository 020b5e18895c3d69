/* Names of pre-tokenizers by the ids of one text: GPT-2's published vocabulary, with a cut that no table has.
 */
#include <jansson.h>

#include "gguf/gguf.h"
#include "gguf/model.h"
#include "tests/support/hf_tokenizers.h"

/* The cut of GPT-2 after one more, at a word that only the probe's text has: it cuts as none of llama.cpp's
 * groups. */
#define VOCABULARY "golden/tokens/gpt-2.gguf"
#define OTHER_CUT \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"helloWorld\"}," \
    "\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false}]}"

static model_source vocabulary;

/* The texts of an array: an object of their numbers, or an array. */
static json_t *strings_of(const char *key, bool numbered) {
    const model_kv *kv = model_kv_find(vocabulary.kv, vocabulary.n_kv, key);
    json_t *made_json = numbered ? json_object() : json_array();
    uint32_t type;
    uint64_t n = 0, length;
    const uint8_t *at = NULL;
    assert_true(kv && model_kv_array(kv, &type, &n, &at));
    for (uint64_t i = 0; i < n; i++, at += 8 + length) {
        memcpy(&length, at, 8);
        if (numbered)
            json_object_setn_new(made_json, (const char *)at + 8, length, json_integer((json_int_t)i));
        else
            json_array_append_new(made_json, json_stringn((const char *)at + 8, length));
    }
    return made_json;
}

/* Where the vocabulary is not there the tests skip; a fixture cannot. */
static int folder_with_gpt2(void **state) {
    gq_error e;
    if (have_shared() && !gguf_model_open(&vocabulary, shared_path(VOCABULARY), &e)) fail_msg("%s", e.text);
    int status = folder_make(state);
    put_json("config.json", CONFIG("GPT2LMHeadModel") "}");
    return status;
}

static int gpt2_remove(void **state) {
    model_close(&vocabulary);
    return made_remove(state);
}

/* Takes the merges and the added tokens. */
static void put_tokenizer(json_t *merges, json_t *added) {
    json_t *inner = json_object(), *whole = json_object();
    json_object_set_new(inner, "type", json_string("BPE"));
    json_object_set_new(inner, "vocab", strings_of("tokenizer.ggml.tokens", true));
    json_object_set_new(inner, "merges", merges);
    json_object_set_new(whole, "model", inner);
    json_object_set_new(whole, "added_tokens", added);
    json_object_set_new(whole, "pre_tokenizer", json_loads(OTHER_CUT, 0, NULL));
    assert_int_equal(json_dump_file(whole, path("tokenizer.json"), 0), 0);
    json_decref(whole);
}

static json_t *added_token(const char *text, int id) {
    return json_pack("{s:s,s:i,s:b}", "content", text, "id", id, "special", 1);
}

TEST_WITH(test_known_ids_give_the_name, folder_with_gpt2, gpt2_remove) {
    shared_path(VOCABULARY);
    put_tokenizer(strings_of("tokenizer.ggml.merges", false), json_array());
    assert_made();
    assert_null(made_unknown);
    assert_text("pre", "gpt-2");
}

/* The second known digest of this vocabulary would have BOS in front, if there were one. */
TEST_WITH(test_begin_is_tried_first_then_left_out, folder_with_gpt2, gpt2_remove) {
    shared_path(VOCABULARY);
    put_tokenizer(strings_of("tokenizer.ggml.merges", false),
                  json_pack("[o]", added_token("<|endoftext|>", 50256)));
    put_json("tokenizer_config.json", "{'bos_token':'<|endoftext|>'}");
    assert_made();
    assert_text("pre", "gpt-2");
}

TEST_WITH(test_other_ids_have_no_name, folder_with_gpt2, gpt2_remove) {
    shared_path(VOCABULARY);
    json_t *merges = strings_of("tokenizer.ggml.merges", false);
    json_array_remove(merges, 0); /* a space and a t */
    put_tokenizer(merges, json_array());
    assert_made();
    assert_none("pre");
    if (!strstr(made_unknown, "nearest to llama-bpe, but at byte 1 has 'helloWorld', expected '(?i:'s|'t|"))
        fail_msg("%s", made_unknown);
    /* a token that is cut out before all else */
    put_tokenizer(strings_of("tokenizer.ggml.merges", false), json_pack("[o]", added_token(" apple", 50256)));
    assert_made();
    assert_text("pre", "gpt-2"); /* not in the text */
    put_tokenizer(strings_of("tokenizer.ggml.merges", false), json_pack("[o]", added_token("apple", 50256)));
    assert_made();
    assert_none("pre");
}

TEST_WITH(test_merges_as_pairs, folder_with_gpt2, gpt2_remove) {
    shared_path(VOCABULARY);
    json_t *merges = strings_of("tokenizer.ggml.merges", false), *pairs = json_array(), *merge;
    size_t i;
    json_array_foreach(merges, i, merge) {
        const char *text = json_string_value(merge), *space = strchr(text + 1, ' ');
        json_array_append_new(pairs, json_pack("[s#, s]", text, (int)(space - text), space + 1));
    }
    json_decref(merges);
    put_tokenizer(pairs, json_array());
    assert_made();
    assert_text("pre", "gpt-2");
}

TEST_WITH(test_what_cannot_be_carried_out, folder_make, made_remove) {
    put_json("config.json", CONFIG("GPT2LMHeadModel") "}");
    put("tokenizer.json", "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[7,\"\",\" "
                          "\",[\"a\"],[1,2],[\"\",\"\"]]},\"added_tokens\":[],"
                          "\"pre_tokenizer\":" OTHER_CUT "}");
    made_free();
    assert_refused("no pair of texts");
    put("tokenizer.json",
        "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a a\"]},\"pre_tokenizer\":" OTHER_CUT "}");
    assert_made();
    assert_none("pre"); /* most symbols of the text are no tokens */
}

int main(void) { return tests_run(NULL, NULL); }
