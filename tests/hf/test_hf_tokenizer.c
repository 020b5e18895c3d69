/* Vocabularies of folders: which files are read, tokens and their types, merges, what architectures add. All
 * architectures are compared with golden data elsewhere; here is each rule by itself, and what is refused. */
#include "tests/support/hf_tokenizers.h"

#define SETTINGS "tokenizer_config.json"

/* ---- merges of bytes ---- */

TEST_WITH(test_merges_of_bytes, folder_make, made_remove) {
    put_json("config.json", CONFIG("Qwen3MoeForCausalLM") ",'vocab_size':10}");
    put_json("tokenizer.json",
             "{'model':{'vocab':{'a':0,'b':1,'ab':2},'merges':['a b',['a c','b']],'type':'BPE'},"
             "'pre_tokenizer':{'type':'ByteLevel'},'decoder':{'type':'ByteLevel'},'added_tokens':["
             "{'id':3,'content':'<x>','special':true},{'id':4,'content':'<|y|>','special':false},"
             "{'id':5,'content':'p\xe2\x96\x81q','special':false},"
             "{'id':6,'content':'\xc4\xa0r','special':false,'normalized':false},"
             "{'id':7,'content':'s t','special':false,'normalized':false},"
             "{'id':8,'content':'\xc4\xa0v','special':false},"
             "{'id':1,'content':'B','special':false}]}");
    assert_made();
    assert_int_equal(made_tokens, 10);
    assert_text("model", "gpt2");
    assert_text("pre", "gpt-2");
    assert_list("tokens", "a|B|ab|<x>|<|y|>|p q| r|s t|\xc4\xa0v|[PAD9]");
    assert_list("token_type", "1|4|1|3|3|4|4|4|4|5");
    assert_list("merges", "a b|a\xc4\xa0"
                          "c b");
    assert_none("scores");
    assert_none("add_space_prefix");
    put_json("config.json", CONFIG("Qwen3MoeForCausalLM") "}");
    assert_made();
    assert_int_equal(made_tokens, 10); /* the number of texts */
}

TEST_WITH(test_bytes_that_are_no_text_become_marks, folder_make, made_remove) {
    put_json("config.json", CONFIG("Qwen3MoeForCausalLM") "}");
    put_json("tokenizer.json", BYTES ",'added_tokens':[{'id':3,'content':'\xc3\xbf',"
                                     "'special':false,'normalized':false}]}");
    assert_made();
    assert_list("tokens", "a|b|ab|\xef\xbf\xbd"); /* the byte FF */
}

TEST_WITH(test_merges_of_a_text_file, folder_make, made_remove) {
    put_json("config.json", CONFIG("Qwen3MoeForCausalLM") "}");
    put_json("tokenizer.json", "{'model':{'vocab':{'a':0,'b':1}},'pre_tokenizer':{'type':'ByteLevel'}}");
    put("merges.txt", "#version: 0.2\na b\r\n  c   d \nalone\none two three\n# x\n");
    assert_made();
    assert_list("merges", "a b|c d|# x");
    put("merges.txt", "a \xff\n");
    assert_refused("merges.txt: not UTF-8");
    assert_int_equal(remove(path("merges.txt")), 0);
    assert_made();
    assert_none("merges");
}

TEST_WITH(test_what_is_wrong_in_tokenizer_json, folder_make, made_remove) {
    static const char *const cases[][2] = {
        {"{'model':{'vocab':{'a':7}}}", "\"a\" has id 7, expected below 4"},
        {"{'model':{'vocab':{'a':-1}}}", "id -1"},
        {"{'model':{'vocab':{'a':'x'}}}", "a token's id is not an integer"},
        {"{'model':{'vocab':{'a':0}},'added_tokens':[{'id':4,'content':'b'}]}", "\"b\" has id 4"},
        {"{'model':{'vocab':{'a':0}},'added_tokens':[{'id':1}]}", "without content"},
        {"{'model':{'vocab':{}}}", "no tokens"},
        {"{'model':{'type':'WordPiece','vocab':{'a':0}}}", "WordPiece, expected BPE"},
        {"{'model':{'type':'Unigram','vocab':[]}}", "Unigram"},
        {"{'model':{'vocab':{'a':0}},'normalizer':{'type':'Sequence','normalizers':[{'type':'Lowercase'}]}}",
         "Lowercase"},
        {"{'model':{'vocab':{'a':0},'merges':[['a']]},'pre_tokenizer':{'type':'ByteLevel'}}", "no pair"},
        {"{'model':", "tokenizer.json"},
        {"[]", "tokenizer.json"}};
    put_json("config.json", CONFIG("Qwen3MoeForCausalLM") ",'vocab_size':4}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_json("tokenizer.json", cases[i][0]);
        assert_refused(cases[i][1]);
    }
    put_json("tokenizer.json", BYTES "}");
    put_json("config.json", CONFIG("Qwen3MoeForCausalLM") ",'vocab_size':4000000000}");
    assert_refused("4000000000 tokens"); /* nothing is made of a promise */
}

TEST_WITH(test_what_is_wrong_in_tokenizer_jsonl, folder_make, made_remove) {
    put_json("config.json", CONFIG("Plamo2ForCausalLM") "}");
    put_json("tokenizer.jsonl", "\n \n");
    assert_refused("tokenizer.jsonl: has no tokens");
    put_json("tokenizer.jsonl", "['a',0]\n['b']\n");
    assert_refused("line 2: expected an array");
}

/* ---- unigrams ---- */

#define UNIGRAMS(vocab, more) "{'model':{'type':'Unigram','vocab':[" vocab "]" more "}"
#define FOUR "['<s>',0],['<pad>',0],['</s>',0],['<unk>',0]"
#define MAP(digits) ",'normalizer':{'type':'Precompiled','precompiled_charsmap':'" digits "'}"

TEST_WITH(test_what_is_wrong_in_unigrams, folder_make, made_remove) {
    static const char *const cases[][2] = {
        {UNIGRAMS("", "") "}", "model.vocab has 0 tokens, expected 1 to"},
        {UNIGRAMS(FOUR ",['a']", "") "}", "entry 4 has no score, expected a text and a score"},
        {UNIGRAMS(FOUR ",['a','b']", "") "}", "entry 4 has a score that is no number"},
        {UNIGRAMS(FOUR ",['a',null]", "") "}", "entry 4 has a score that is no number"},
        {UNIGRAMS(FOUR ",['a',1e300]", "") "}", "entry 4 has a score beyond all floats"},
        {UNIGRAMS(FOUR ",['a',NaN]", "") "}", "tokenizer.json"},
        {UNIGRAMS(FOUR ",[7,1]", "") "}", "entry 4 has no text"},
        {UNIGRAMS(FOUR ",'a'", "") "}", "entry 4 has no text"},
        {UNIGRAMS(FOUR, ",'unk_id':4") "}", "model.unk_id is 4, expected below 4"},
        {UNIGRAMS(FOUR, ",'unk_id':-1") "}", "tokenizer.json: a token has id -1"},
        {UNIGRAMS(FOUR, ",'unk_id':'3'") "}", "not an integer"},
        {UNIGRAMS(FOUR, "") MAP("AAQA") "}", "3 bytes, expected a table of 0 and texts"},
        {UNIGRAMS(FOUR, "") MAP("CAAAAAAAAAA=") "}", "8 bytes, expected a table of 8 and texts"},
        {UNIGRAMS(FOUR, "") MAP("CAAA") "}", "3 bytes"},
        {UNIGRAMS(FOUR, "") MAP("CAA*") "}", "not base64"},
        {UNIGRAMS(FOUR, "") MAP("CAAAA") "}", "not base64"},
        {UNIGRAMS(FOUR, "") ",'normalizer':{'type':'Precompiled','precompiled_charsmap':5}}",
         "precompiled_charsmap is not a string"},
        {UNIGRAMS(FOUR, "") ",'normalizer':{'type':'NFKC'}}", "found 'NFKC'"}};
    put_json("config.json", CONFIG("CamembertModel") "}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_json("tokenizer.json", cases[i][0]);
        assert_refused(cases[i][1]);
    }
}

/* A text that is there twice, one of a million bytes, and a map. */
TEST_WITH(test_odd_unigrams_are_kept, folder_make, made_remove) {
    static const char begin[] = UNIGRAMS(FOUR ",['a',-1],['a',-2],['", ""), *end = "',-3]]}}";
    size_t n = 1000000, head = strlen(begin) - strlen("]}");
    char *text = malloc(head + n + 16);
    assert_non_null(text);
    memcpy(text, begin, head), memset(text + head, 'x', n), strcpy(text + head + n, end);
    put_json("config.json", CONFIG("CamembertModel") "}");
    put_json("tokenizer.json", text);
    assert_made();
    assert_int_equal(made_tokens, 7);
    assert_list("scores", "0|0|0|0|-1|-2|-3");
    assert_list("token_type", "1|1|1|2|1|1|1");
    free(text);
    put_json("tokenizer.json", UNIGRAMS(FOUR, ",'unk_id':null") MAP("BAAAAAAAAABhAA==") "}");
    assert_made();
    assert_memory_equal(value_of("precompiled_charsmap", GGUF_ARRAY) + 4,
                        "\12\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0a", 18);
}

/* ---- ranks ---- */

/* Three bytes, "ab" and "abc". */
#define RANKS "YQ== 0\nYg== 1\nYw== 2\nYWI= 3\nYWJj 4\n"

TEST_WITH(test_ranks_become_merges, folder_make, made_remove) {
    put_json("config.json", CONFIG("QWenLMHeadModel") ",'vocab_size':222,'visual':{}}");
    put("qwen.tiktoken", RANKS);
    assert_made();
    assert_int_equal(made_tokens, 222);
    assert_list("merges", "a b|ab c");
    assert_text("pre", "qwen2");
    assert_id("bos_token_id", 5);
    assert_id("unknown_token_id", 5);
}

TEST_WITH(test_what_is_wrong_in_ranks, folder_make, made_remove) {
    static const char *const cases[][2] = {
        {"", "has no tokens"},
        {"YQ==\n", "line 1: expected 1 to 256 bytes in base64, a space and the rank 0"},
        {"Y* 0\n", "line 1"},
        {" 0\n", "line 1"},
        {"YQ== 1\n", "the rank 0"},
        {"YQ== 0x\n", "the rank 0"},
        {"YQ== 0\nYQ== 1\n", "lines 1 and 2 have the same bytes"},
        {"YQ== 0\nYWI= 1\n", "line 2: its bytes are not a merge"},
        {"YQ== 0\nYg== 1\nYWJi 2\n", "line 3: its bytes are not a merge"}};
    put_json("config.json", CONFIG("QWenLMHeadModel") ",'vocab_size':300}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put("qwen.tiktoken", cases[i][0]);
        assert_refused(cases[i][1]);
    }
    put("qwen.tiktoken", RANKS);
    put_json("config.json", CONFIG("QWenLMHeadModel") ",'vocab_size':4}");
    assert_refused("more tokens than vocab_size, which is 4");
    put_json("config.json", CONFIG("QWenLMHeadModel") ",'vocab_size':7}");
    assert_refused("vocab_size is 7, but <|im_end|> has number 7");
    assert_int_equal(remove(path("qwen.tiktoken")), 0);
    assert_refused("has no qwen.tiktoken");
}

/* ---- pieces ---- */

TEST_WITH(test_pieces_with_added_tokens, folder_make, made_remove) {
    put_json("config.json", CONFIG("GemmaForCausalLM") ",'vocab_size':11}");
    sp_put();
    put_json("added_tokens.json", "{'more':5,'beyond':11}");
    put_json(SETTINGS, "{'added_tokens_decoder':{'6':{'content':'s','special':true},"
                       "'7':{'content':'<unused7>','special':false},"
                       "'8':{'content':'\xe2\x96\x81x','special':false},'400':{'content':'y'}}}");
    assert_made();
    assert_text("model", "llama");
    assert_text("pre", "default");
    assert_list("tokens", "<unk>|<s>|a|<0x41>|u|more|s|<unused7>| x|[PAD9]|[PAD10]");
    assert_list("token_type", "2|3|1|6|1|4|3|3|4|5|5");
    assert_list("scores", "0|0|-1.5|-2|-3|-1000|-1000|-1000|-1000|-10000|-10000");
    assert_flag("add_space_prefix", false);
    assert_id("eot_token_id", 107);
    assert_none("merges");
    put_json("config.json", CONFIG("GemmaForCausalLM") ",'vocab_size':3}");
    assert_made();
    assert_list("tokens", "<unk>|<s>|a");
    put_json(SETTINGS, "{'added_tokens_decoder':{'x':{'content':'s'}}}");
    assert_refused("\"x\" is not an integer");
    put_json(SETTINGS, "{'added_tokens_decoder':{'2':{}}}");
    assert_refused("no content");
    write_whole(path("tokenizer.model"), "\x0a\xff", 2);
    assert_refused("tokenizer.model");
}

TEST_WITH(test_phi3_takes_added_tokens_as_told, folder_make, made_remove) {
    put_json("config.json", CONFIG("Phi3ForCausalLM") ",'vocab_size':9}");
    put_json("tokenizer.json", BYTES ",'added_tokens':[{'id':7,'content':'<|j|>','special':true}]}");
    sp_put();
    put_json(SETTINGS, "{'tokenizer_class':'LlamaTokenizer','added_tokens_decoder':{"
                       "'5':{'content':'<|x|>','special':false},'6':{'content':'\xe2\x96\x81y'}}}");
    assert_made();
    assert_list("tokens", "<unk>|<s>|a|<0x41>|u|<|x|>|\xe2\x96\x81y|<|j|>|[PAD8]");
    assert_list("token_type", "2|3|1|6|1|4|4|3|5");
    put_json(SETTINGS, "{'tokenizer_class':'GPT2Tokenizer'}");
    assert_made();
    assert_text("model", "gpt2");
    put_json(SETTINGS, "{'tokenizer_class':'LlamaTokenizer','added_tokens_decoder':{'9':{'content':'z'}}}");
    assert_refused("\"z\" has id 9, expected below 9");
    put_json(SETTINGS, "{'a':0}");
    assert_refused("tokenizer_class");
}

TEST_WITH(test_internlm2_appends, folder_make, made_remove) {
    put_json("config.json", CONFIG("InternLM2ForCausalLM") ",'vocab_size':4,'eos_token_id':2}");
    sp_n = 0;
    sp_piece("<unk>", 5, 0, 2), sp_piece("", 1, -1, 1), sp_piece("[UNUSED_TOKEN_1]", 16, -2, 1);
    sp_piece("a", 1, -3, 1);
    write_whole(path("tokenizer.model"), sp_bytes, sp_n);
    put_json("added_tokens.json", "{'<|im_end|>':77}");
    put_json(SETTINGS, "{'added_tokens_decoder':{'4':{'content':'<|im_end|>','special':true}}}");
    assert_made();
    assert_list("tokens", "<unk>|\xf0\x9f\x90\x89|[UNUSED_TOKEN_1]|a|<|im_end|>");
    assert_list("token_type", "2|1|5|1|3");
    assert_flag("add_space_prefix", true);
    assert_id("eos_token_id", 4);
    put_json(SETTINGS, "{'a':0}");
    assert_made();
    assert_id("eos_token_id", 2);
    put_json("config.json", CONFIG("InternLM2ForCausalLM") ",'vocab_size':4}");
    assert_refused("eos_token_id");
    put_json("config.json", CONFIG("InternLM2ForCausalLM") ",'vocab_size':5}");
    assert_refused("4 pieces");
}

TEST_WITH(test_pieces_of_tokenizer_json, folder_make, made_remove) {
    put_json("config.json", CONFIG("LlamaForCausalLM") ",'vocab_size':99}");
    put_json("tokenizer.json", PIECES ",'added_tokens':[{'id':0,'content':'<s>'},{'id':6,'content':'<e>'},"
                                      "{'id':7,'content':'more'},{'id':8,'content':'extra'}]}");
    put_json(SETTINGS, "{'bos_token':'<s>','eos_token':{'content':'<e>'},"
                       "'additional_special_tokens':['extra'],'add_prefix_space':true}");
    assert_made();
    assert_int_equal(made_tokens, 9);
    assert_text("model", "llama");
    assert_text("pre", "default");
    assert_list("tokens", "<s>|<0x41>|a|b|ab|ba|<e>|more|extra");
    assert_list("token_type", "3|6|1|1|1|1|3|4|3");
    assert_list("scores", "-1002|-1002|-1002|-1002|-1|-0|-1002|-1002|-1002");
    assert_flag("add_space_prefix", true);
    assert_id("bos_token_id", 0);
    assert_id("eos_token_id", 6);
    put_json("config.json", CONFIG("JambaForCausalLM") "}");
    assert_made();
    assert_flag("add_space_prefix", false);
    put_json("tokenizer.json", PIECES ",'added_tokens':[{'id':7,'content':'more'}]}");
    assert_refused("no token has id 6");
}

TEST_WITH(test_space_in_front_is_what_tokenizer_json_does, folder_make, made_remove) {
    static const struct {
        const char *steps;
        bool adds;
    } cases[] = {
        {"'normalizer':{'type':'Sequence','normalizers':[{'type':'Prepend','prepend':'_'},{'type':'Replace'}]"
         "}",
         true},
        {"'normalizer':{'type':'Replace'},'pre_tokenizer':{'type':'Split'}", false},
        {"'normalizer':null,'pre_tokenizer':{'type':'Metaspace','prepend_scheme':'first'}", true},
        {"'pre_tokenizer':{'type':'Sequence','pretokenizers':[{'type':'Metaspace'}]}", true},
        {"'pre_tokenizer':{'type':'Metaspace','prepend_scheme':'never'}", false},
        {"'pre_tokenizer':{'type':'Metaspace','add_prefix_space':false}", false},
    };
    put_json("config.json", CONFIG("LlamaForCausalLM") "}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1000];
        snprintf(text, sizeof text, PIECES ",%s}", cases[i].steps);
        put_json("tokenizer.json", text);
        assert_made();
        if (cases[i].adds)
            assert_none("add_space_prefix"); /* what readers do */
        else
            assert_flag("add_space_prefix", false);
    }
    put_json(SETTINGS, "{'add_prefix_space':true}");
    assert_made();
    assert_flag("add_space_prefix", true);
}

TEST_WITH(test_gemma4_runs_by_merges, folder_make, made_remove) {
    put_json("config.json", CONFIG("Gemma4ForCausalLM") "}");
    put_json("tokenizer.json", PIECES ",'added_tokens':[{'id':6,'content':'<|channel>','special':true}]}");
    put_json(SETTINGS, "{'bos_token':'<|channel>','add_bos_token':false}");
    assert_made();
    assert_text("model", "gemma4");
    assert_list("token_type", "1|6|1|1|1|1|4");
    assert_list("scores", "-1000|-1000|-1000|-1000|-1000|-1000|-1000");
    assert_list("merges", "b a|a b");
    assert_id("bos_token_id", 6);
    assert_flag("add_bos_token", true);
    assert_flag("add_space_prefix", false);
    assert_none("pre");
    assert_none("unknown");
}

/* ---- which files ---- */

TEST_WITH(test_files_by_architecture, folder_make, made_remove) {
    enum { HAS_MODEL = 1, HAS_PIECES = 2, HAS_BYTES = 4 };
    static const struct {
        const char *config;
        int files;
        const char *model; /* or what the message says */
    } cases[] = {
        {CONFIG("LlamaForCausalLM"), HAS_MODEL | HAS_PIECES, "llama"},
        {CONFIG("LlamaForCausalLM"), HAS_PIECES, "llama"},
        {CONFIG("LlamaForCausalLM"), HAS_BYTES, "gpt2"},
        {CONFIG("LlamaForCausalLM"), 0, "no tokenizer.json and no tokenizer.model"},
        {CONFIG("Qwen2ForCausalLM"), HAS_MODEL | HAS_BYTES, "llama"},
        {CONFIG("Qwen2ForCausalLM"), HAS_BYTES, "gpt2"},
        {CONFIG("Qwen2MoeForCausalLM"), HAS_MODEL | HAS_BYTES, "gpt2"},
        {CONFIG("Qwen2MoeForCausalLM"), HAS_MODEL, "no tokenizer.json, which a qwen2moe"},
        {CONFIG("InternLM3ForCausalLM"), HAS_MODEL | HAS_BYTES, "llama"},
        {CONFIG("InternLM3ForCausalLM"), HAS_BYTES, "no tokenizer.model"},
        {CONFIG("GemmaForCausalLM"), HAS_BYTES, "no tokenizer.model, which a gemma"},
        {CONFIG("Gemma3ForCausalLM"), HAS_MODEL | HAS_BYTES, "llama"},
        {CONFIG("Gemma3ForCausalLM"), HAS_BYTES, "gpt2"},
        {CONFIG("Gemma4ForCausalLM"), HAS_MODEL, "no tokenizer.json"},
        {CONFIG("JambaForCausalLM"), HAS_PIECES, "llama"},
        {CONFIG("JambaForCausalLM"), HAS_BYTES, "byte_fallback"},
        {CONFIG("MambaForCausalLM"), HAS_MODEL | HAS_BYTES, "gpt2"},
        {CONFIG("MambaForCausalLM"), HAS_MODEL, "llama"},
        {CONFIG("Mamba2ForCausalLM"), HAS_MODEL | HAS_BYTES, "llama"},
        {CONFIG("Llama4ForCausalLM"), HAS_MODEL | HAS_BYTES, "gpt2"},
        /* without recurrent layers this is the architecture granite, which would take the pieces */
        {CONFIG("GraniteMoeHybridForCausalLM") ",'layer_types':['attention']", HAS_PIECES, "gpt2"},
        {CONFIG("GraniteMoeHybridForCausalLM") ",'layer_types':['attention']", HAS_BYTES, "gpt2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char config[300];
        remove(path("tokenizer.model")), remove(path("tokenizer.json"));
        snprintf(config, sizeof config, "%s}", cases[i].config);
        put_json("config.json", config);
        if (cases[i].files & HAS_MODEL) sp_put();
        if (cases[i].files & (HAS_PIECES | HAS_BYTES))
            put_json("tokenizer.json", cases[i].files & HAS_PIECES ? PIECES "}" : BYTES "}");
        if (strlen(cases[i].model) > 5) {
            assert_refused(cases[i].model);
        } else {
            assert_made();
            assert_text("model", cases[i].model);
        }
    }
}

TEST_WITH(test_files_that_cannot_be_read, folder_make, made_remove) {
    put_json("config.json", CONFIG("LlamaForCausalLM") "}");
    put("vocab.json", "{}");
    assert_refused("vocab.json by transformers");
    put("tekken.json", "{}");
    assert_refused("tekken.json cannot be read");
}

/* ---- what architectures add ---- */

TEST_WITH(test_sizes_are_rounded_up, folder_make, made_remove) {
    static const struct {
        const char *config;
        uint64_t tokens;
    } cases[] = {{CONFIG("MambaForCausalLM") ",'vocab_size':11}", 16},
                 {CONFIG("MambaForCausalLM") ",'vocab_size':11,'pad_vocab_size_multiple':1}", 11},
                 {CONFIG("Mamba2ForCausalLM") ",'vocab_size':11}", 16},
                 {CONFIG("Mamba2ForCausalLM") ",'vocab_size':17}", 32},
                 {CONFIG("NemotronHForCausalLM") ",'vocab_size':17,'pad_vocab_size_multiple':1}", 24},
                 {CONFIG("GraniteMoeHybridForCausalLM") ",'vocab_size':17,'layer_types':['mamba']}", 24},
                 {CONFIG("GraniteMoeHybridForCausalLM") ",'vocab_size':17,'layer_types':['attention']}", 17}};
    put_json("tokenizer.json", BYTES "}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_json("config.json", cases[i].config);
        assert_made();
        assert_int_equal(made_tokens, cases[i].tokens);
    }
    put_json("config.json", CONFIG("MambaForCausalLM") ",'pad_vocab_size_multiple':0}");
    assert_refused("pad_vocab_size_multiple is 0");
}

TEST_WITH(test_exceptions_of_pieces, folder_make, made_remove) {
    sp_put();
    put_json("config.json", CONFIG("LlamaForCausalLM") ",'vocab_size':32016}");
    put_json(SETTINGS, "{'add_prefix_space':false}");
    assert_made();
    assert_id("eot_token_id", 32010);
    assert_flag("add_space_prefix", false);
    put_json(SETTINGS, "{'add_prefix_space':null}");
    assert_made();
    assert_none("add_space_prefix");
    put_json("config.json", CONFIG("NemotronForCausalLM") ",'pad_token_id':3}");
    assert_made();
    assert_id("padding_token_id", 0);
    assert_id("unknown_token_id", 1);
    put_json("config.json", CONFIG("JambaForCausalLM") "}");
    assert_made();
    assert_none("add_space_prefix"); /* tokenizer.model has its own */
    put_json("config.json", CONFIG("MPTForCausalLM") "}");
    assert_made();
    assert_id("padding_token_id", 3);
    assert_id("eos_token_id", 1);
    assert_id("unknown_token_id", 0);
    assert_flag("add_bos_token", false);
    put_json(SETTINGS, "{'add_prefix_space':true,'added_tokens_decoder':{'4':"
                       "{'content':'<|im_end|>','special':true}}}");
    put_json("config.json", CONFIG("InternLM3ForCausalLM") ",'eos_token_id':2}");
    assert_made();
    assert_id("eos_token_id", 4);
    assert_flag("add_space_prefix", true);
    put_json("config.json", CONFIG("InternLM3ForCausalLM") "}");
    assert_made();
    assert_none("eos_token_id");
}

TEST_WITH(test_exceptions_of_bytes, folder_make, made_remove) {
    put_json("tokenizer.json", BYTES "}");
    put_json("config.json", CONFIG("PhiForCausalLM") "}");
    put_json(SETTINGS, "{'add_bos_token':true}");
    assert_made();
    assert_flag("add_bos_token", false);
    put_json("config.json", CONFIG("LlamaForCausalLM") ",'vocab_size':49152}");
    assert_made();
    assert_flag("add_bos_token", false);
    put_json("config.json", CONFIG("DeepseekV32ForCausalLM") "}");
    assert_made();
    put_json(SETTINGS, "{'add_bos_token':false}");
    assert_refused("\"add_bos_token\": true");
    put_json("config.json", CONFIG("NemotronHForCausalLM") "}");
    assert_made();
    assert_flag("add_bos_token", true);
    put_json("config.json", CONFIG("NemotronHForCausalLM") ",'num_experts_per_tok':2}");
    assert_made();
    assert_flag("add_bos_token", false);
    put_json("config.json", CONFIG("Qwen3OmniMoeForConditionalGeneration") ",'bos_token_id':2}");
    put_json(SETTINGS, "{'added_tokens_decoder':{'1':{'content':'<|im_end|>'}}}");
    assert_made();
    assert_id("bos_token_id", 1);
    assert_id("eos_token_id", 1);
}

TEST_WITH(test_glm_finds_tokens_by_their_texts, folder_make, made_remove) {
    static const char *const moes[] = {CONFIG("Glm4MoeForCausalLM") "}", CONFIG("Glm4MoeLiteForCausalLM") "}",
                                       CONFIG("GlmMoeDsaForCausalLM") "}"};
    put_json("tokenizer.json", BYTES ",'added_tokens':[{'id':3,'content':'<|endoftext|>'},"
                                     "{'id':4,'content':'[gMASK]'},{'id':5,'content':'<|user|>'},"
                                     "{'id':6,'content':'<|observation|>'}]}");
    put_json("config.json", CONFIG("Glm4ForCausalLM") ",'eos_token_id':5}");
    assert_made();
    assert_id("eos_token_id", 5);
    assert_id("bos_token_id", 3);
    assert_id("unknown_token_id", 3);
    assert_id("eot_token_id", 5);
    assert_none("eom_token_id");
    for (size_t i = 0; i < sizeof moes / sizeof *moes; i++) {
        put_json("config.json", moes[i]);
        assert_made();
        assert_none("eos_token_id");
        assert_id("bos_token_id", 4);
        assert_id("unknown_token_id", 3);
        assert_id("eot_token_id", 5);
        assert_id("eom_token_id", 6);
    }
    put_json("tokenizer.json", BYTES ",'added_tokens':[{'id':3,'content':'<|endoftext|>'}]}");
    assert_refused("\"[gMASK]\"");
}

TEST_WITH(test_hunyuan_has_ends_of_its_own, folder_make, made_remove) {
    put_json("tokenizer.json", BYTES ",'added_tokens':[{'id':3,'content':'x'}]}");
    put_json("config.json",
             CONFIG("HunYuanDenseV1ForCausalLM") ",'eos_token_id':0,'eod_token_id':2,'pad_token_id':-1}");
    put_json("generation_config.json", "{'eos_token_id':[1,2]}");
    put_json(SETTINGS, "{'pad_token':'x'}");
    assert_made();
    assert_id("eos_token_id", 2);
    assert_id("eot_token_id", 1);
    assert_none("padding_token_id");
    put_json("config.json", CONFIG("HunYuanDenseV1ForCausalLM") ",'eos_token_id':0}");
    put_json("generation_config.json", "{'eos_token_id':[1]}");
    assert_made();
    assert_id("eos_token_id", 0);
    assert_none("eot_token_id");
    assert_id("padding_token_id", 3);
}

int main(void) { return tests_run(NULL, NULL); }
