/* Reading tokenizers when memory runs out: an error each time, and then the same pairs as ever. */
#include "tests/memory/memory.h"
#include "tests/support/hf_tokenizers.h"

/* Makes the pairs with every allocation failing once. */
static void assert_each_allocation_may_fail(void) {
    assert_made();
    size_t n = made.n, bytes = 0, found;
    bool is_known = made_unknown == NULL;
    for (size_t i = 0; i < n; i++) bytes += made.kv[i].size;
    for (long i = 1;; i++) {
        fail_at = i;
        bool ok = make(), failed = fail_at == 0;
        fail_at = 0, found = 0;
        for (size_t pair = 0; pair < made.n; pair++) found += made.kv[pair].size;
        if (ok && (made.n != n || found != bytes || is_known != (made_unknown == NULL)))
            fail_msg("allocation %ld: %zu pairs of %zu bytes, expected %zu of %zu", i, made.n, found, n,
                     bytes);
        if (!ok && (!failed || !strstr(made_error.text, "memory")))
            fail_msg("allocation %ld: '%s'", i, made_error.text);
        if (!failed) {
            assert_true(ok && i > 20);
            return;
        }
    }
}

TEST_WITH(test_merges_of_bytes, folder_make, made_remove) {
    put_json("config.json", CONFIG("LlamaForCausalLM") "}");
    put_json(
        "tokenizer.json",
        "{'model':{'vocab':{'a':0,'b':1,'ab':2},'merges':['a b',['a','b']]},'decoder':{'type':'ByteLevel'},"
        "'pre_tokenizer':{'type':'Sequence','pretokenizers':[{'type':'Digits','individual_digits':true},"
        "{'type':'Split','pattern':{'Regex':'(?:x)'},'behavior':'Isolated'}]},'added_tokens':["
        "{'id':3,'content':'\xc4\xa0v','special':false,'normalized':false},"
        "{'id':4,'content':'\xe2\x96\x81v','special':false}]}");
    put_json(
        "tokenizer_config.json",
        "{'bos_token':'a','chat_template':[{'name':'x','template':'y'},{'name':'default','template':'z'}]}");
    assert_each_allocation_may_fail();
}

TEST_WITH(test_pieces, folder_make, made_remove) {
    put_json("config.json", CONFIG("GemmaForCausalLM") ",'vocab_size':9}");
    sp_put();
    put_json("added_tokens.json", "{'more':5}");
    put_json("tokenizer_config.json", "{'added_tokens_decoder':{'6':{'content':'\xe2\x96\x81x'}}}");
    put("chat_template.jinja", "x");
    assert_int_equal(mkdir(path("additional_chat_templates"), 0700), 0);
    put("additional_chat_templates/rag.jinja", "r");
    assert_each_allocation_may_fail();
}

TEST_WITH(test_pieces_of_tokenizer_json, folder_make, made_remove) {
    put_json("config.json", CONFIG("LlamaForCausalLM") "}");
    put_json("tokenizer.json", PIECES "}");
    put_json("tokenizer_config.json", "{'bos_token':'<s>','additional_special_tokens':['a']}");
    put_json("chat_template.json", "{'chat_template':'x'}");
    assert_each_allocation_may_fail();
}

int main(void) { return tests_run(NULL, NULL); }
