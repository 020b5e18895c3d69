/* Special tokens of folders, the templates by which messages become a text, and the names of how texts are
 * cut. */
#include "tests/support/hf_tokenizers.h"

#define SETTINGS "tokenizer_config.json"
#define ADDED \
    "'added_tokens':[{'id':3,'content':'<s>'},{'id':4,'content':'</s>'},{'id':5,'content':'<t>'}," \
    "{'id':6,'content':'<s>'}]"

/* A folder whose tokenizer.json puts this around texts. */
static void put_processor(const char *processor) {
    char text[2000];
    snprintf(text, sizeof text, "%s,%s,'post_processor':%s}", BYTES, ADDED, processor);
    put_json("tokenizer.json", text);
}

static int folder_with_config(void **state) {
    folder_make(state);
    put_json("config.json", CONFIG("Qwen3MoeForCausalLM") "}");
    put_processor("null");
    return 0;
}

/* ---- ids ---- */

TEST_WITH(test_ids_by_texts_come_before_those_of_the_config, folder_with_config, made_remove) {
    put_json("config.json",
             CONFIG("Qwen3MoeForCausalLM") ",'bos_token_id':1,'eos_token_id':[1,2],'pad_token_id':-1,"
                                           "'sep_token_id':true,'unk_token_id':null,'mask_token_id':1.5,"
                                           "'text_config':{'unk_token_id':2,'bos_token_id':2}}");
    put_json(SETTINGS,
             "{'bos_token':'<s>','eos_token':{'content':'</s>'},'sep_token':'a','cls_token':'<t>'}");
    assert_made();
    assert_id("bos_token_id", 3); /* the first of two */
    assert_id("eos_token_id", 4);
    assert_id("unknown_token_id", 2);
    assert_none("padding_token_id");
    assert_none("seperator_token_id"); /* in the vocabulary, but not added */
    assert_none("mask_token_id");
    assert_int_equal(remove(path(SETTINGS)), 0);
    assert_made();
    assert_id("bos_token_id", 1);
    assert_id("eos_token_id", 1); /* the first of a list */
    put_json("config.json", CONFIG("Qwen3MoeForCausalLM") ",'bos_token_id':[1],'pad_token_id':[0]}");
    assert_made();
    assert_none("bos_token_id");
    assert_none("padding_token_id");
    put_json("config.json", CONFIG("Qwen3MoeForCausalLM") ",'bos_token_id':4294967296}");
    assert_refused("bos_token_id is 4294967296");
}

TEST_WITH(test_ids_beyond_pieces_are_left_out, folder_with_config, made_remove) {
    sp_put();
    put_json("config.json", CONFIG("GemmaForCausalLM") ",'bos_token_id':5,'eos_token_id':4}");
    assert_made();
    assert_none("bos_token_id");
    assert_id("eos_token_id", 4);
}

/* ---- flags ---- */

#define TOKEN(name) "{'SpecialToken':{'id':'" name "'}}"
#define SEQUENCE(name) "{'Sequence':{'id':'" name "'}}"
#define TEMPLATE(single, pair) "{'type':'TemplateProcessing','single':[" single "],'pair':[" pair "]}"

TEST_WITH(test_template_says_what_is_added, folder_with_config, made_remove) {
    put_json(SETTINGS, "{'bos_token':'<s>','eos_token':'</s>'}");
    put_processor(TEMPLATE(TOKEN("<s>") "," SEQUENCE("A"), ""));
    assert_made();
    assert_flag("add_bos_token", true);
    assert_none("add_eos_token");
    assert_none("add_sep_token");
    put_processor(TEMPLATE(TOKEN("<t>") "," SEQUENCE("A"), ""));
    assert_made();
    assert_flag("add_bos_token", true); /* no cls_token: <t> is it */
    put_json(SETTINGS, "{'bos_token':'<s>','cls_token':'a','eos_token':'</s>'}");
    assert_made();
    assert_flag("add_bos_token", false);
    put_processor("{'type':'Sequence','processors':[{'type':'ByteLevel'}," TEMPLATE(
        SEQUENCE("A") "," TOKEN("</s>"), "") "]}");
    assert_made();
    assert_none("add_bos_token");
    assert_flag("add_eos_token", true);
    assert_id("eos_token_id", 4);
    assert_none("eot_token_id");
    put_json(SETTINGS, "{'eos_token':'</s>','add_eos_token':false,'add_bos_token':true,'add_sep_token':1}");
    assert_made();
    assert_flag("add_eos_token", false);
    assert_flag("add_bos_token", false); /* there is none */
    assert_none("add_sep_token");
    put_processor(TEMPLATE(SEQUENCE("A"), ""));
    assert_int_equal(remove(path(SETTINGS)), 0);
    assert_made();
    assert_none("add_bos_token");
    put_processor(TEMPLATE(TOKEN("<t>") "," SEQUENCE("A"), ""));
    assert_made();
    assert_flag("add_bos_token", false);
    assert_none("bos_token_id");
    put_processor("{'type':'RobertaProcessing'}");
    assert_made();
    assert_flag("add_bos_token", false);
    assert_flag("add_eos_token", false);
    assert_flag("add_sep_token", true);
}

TEST_WITH(test_template_changes_what_ends_texts, folder_with_config, made_remove) {
    put_json(SETTINGS, "{'eos_token':'</s>'}");
    put_processor(TEMPLATE(SEQUENCE("A") "," TOKEN("<t>"), ""));
    assert_made();
    assert_id("eos_token_id", 5);
    assert_id("eot_token_id", 4);
    assert_flag("add_eos_token", true);
    put_json(SETTINGS, "{'cls_token':'a'}");
    put_json("config.json", CONFIG("Qwen3MoeForCausalLM") ",'eot_token_id':2}");
    assert_made();
    assert_id("eos_token_id", 5);
    assert_id("eot_token_id", 2); /* now that it is looked for */
    put_json(SETTINGS, "{'eos_token':'<t>'}");
    assert_made();
    assert_none("eot_token_id");
}

TEST_WITH(test_template_of_two_texts, folder_with_config, made_remove) {
    static const struct {
        const char *processor;
        int is_added; /* -1: nothing is said */
    } cases[] = {
        {TEMPLATE(SEQUENCE("A"), SEQUENCE("A") "," TOKEN("<t>") "," SEQUENCE("B")), 1},
        {TEMPLATE(SEQUENCE("A"), SEQUENCE("A") "," TOKEN("</s>") "," SEQUENCE("B")), 1},
        {TEMPLATE(SEQUENCE("A"), SEQUENCE("A") "," TOKEN("<s>") "," SEQUENCE("B")), 0},
        {TEMPLATE(SEQUENCE("A"), SEQUENCE("A") "," TOKEN("<s>") "," TOKEN("<t>") "," SEQUENCE("B")), 1},
        {TEMPLATE(SEQUENCE("A"),
                  SEQUENCE("A") "," TOKEN("<s>") "," TOKEN("<t>") "," TOKEN("<t>") "," SEQUENCE("B")),
         0},
        {TEMPLATE(SEQUENCE("A"), SEQUENCE("A") "," SEQUENCE("B")), -1},
        {TEMPLATE(SEQUENCE("A"), SEQUENCE("B") "," TOKEN("<t>") "," SEQUENCE("A")), -1},
        {TEMPLATE(TOKEN("<s>") "," SEQUENCE("A"),
                  TOKEN("<s>") "," SEQUENCE("A") "," TOKEN("<s>") "," SEQUENCE("B")),
         0},
        {TEMPLATE(SEQUENCE("A") "," TOKEN("</s>"),
                  SEQUENCE("A") "," TOKEN("</s>") "," SEQUENCE("B") "," TOKEN("</s>")),
         0},
        {TEMPLATE(SEQUENCE("A"), TOKEN("<s>")), -1},
    };
    put_json(SETTINGS, "{'bos_token':'<s>','eos_token':'</s>','sep_token':'<t>'}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_processor(cases[i].processor);
        assert_made();
        if (cases[i].is_added < 0)
            assert_none("add_sep_token");
        else
            assert_flag("add_sep_token", cases[i].is_added);
    }
}

/* ---- chat templates ---- */

#define CHAT "tokenizer.chat_template"

TEST_WITH(test_chat_template_of_the_settings, folder_with_config, made_remove) {
    put_json(SETTINGS, "{'chat_template':'told'}");
    assert_made();
    assert_text(CHAT, "told");
    static const char *const none[] = {"{'chat_template':null}", "{'chat_template':''}",
                                       "{'chat_template':7}", "{'chat_template':[]}"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        put_json(SETTINGS, none[i]);
        assert_made();
        assert_none(CHAT);
    }
    put_json(SETTINGS, "{'chat_template':[{'name':'rag','template':'r'},{'name':'default','template':'d'},"
                       "{'name':'tool use\xc3\xa4','template':'t'},{'name':'','template':'e'},"
                       "{'name':'n','template':null},{'template':'x'},'y',{'name':'rag','template':'s'}]}");
    assert_made();
    assert_text(CHAT, "d");
    assert_text(CHAT ".rag", "s");
    assert_text(CHAT ".tool_use_", "t");
    assert_list("tokenizer.chat_templates", "rag|tool_use_");
    assert_none(CHAT ".n");
    assert_none(CHAT ".");
}

TEST_WITH(test_chat_template_of_files, folder_with_config, made_remove) {
    put("chat_template.jinja", "a\r\nb\rc\n");
    put_json("chat_template.json", "{'chat_template':'json'}");
    assert_made();
    assert_text(CHAT, "a\nb\nc\n");
    static const char *const settings[] = {"{}",
                                           "{'a':0}",
                                           "{'chat_template':null}",
                                           "{'chat_template':''}",
                                           "{'chat_template':'told'}",
                                           "{'chat_template':[{'name':'default','template':'d'}]}"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        put_json(SETTINGS, settings[i]);
        assert_made();
        assert_text(CHAT, "a\nb\nc\n");
    }
    put_json(SETTINGS, "{'chat_template':'a\\nb\\nc'}"); /* newlines at the end aside it is the same */
    assert_made();
    assert_text(CHAT, "a\nb\nc");
    put_json(SETTINGS, "{}");
    assert_int_equal(mkdir(path("additional_chat_templates"), 0700), 0);
    put("additional_chat_templates/tool-use.jinja", "t");
    put("additional_chat_templates/rag.jinja", "r");
    put("additional_chat_templates/rag.txt", "x");
    assert_made();
    assert_text(CHAT, "a\nb\nc\n");
    assert_text(CHAT ".tool_use", "t");
    assert_text(CHAT ".rag", "r");
    assert_list("tokenizer.chat_templates", "rag|tool_use");
    put("additional_chat_templates/rag.jinja", "\xff");
    assert_refused("additional_chat_templates/rag.jinja: not UTF-8");
    assert_int_equal(remove(path("chat_template.jinja")), 0);
    assert_made();
    assert_text(CHAT, "json");
    assert_none(CHAT ".rag");
    put("chat_template.jinja", "\xc3");
    assert_refused("chat_template.jinja: not UTF-8");
}

/* ---- how texts are cut ---- */

static void put_cut(const char *cut, const char *ignore_merges) {
    char text[3000];
    snprintf(text, sizeof text, "{'model':{'vocab':{'a':0}%s},'pre_tokenizer':%s}", ignore_merges, cut);
    put_json("tokenizer.json", text);
}

#define STEPS(steps) "{'type':'Sequence','pretokenizers':[" steps "]}"
#define SPLIT(regex) "{'type':'Split','pattern':{'Regex':'" regex "'},'behavior':'Isolated','invert':false}"
#define TO_BYTES "{'type':'ByteLevel','add_prefix_space':false,'trim_offsets':true,'use_regex':false}"
#define GPT_2 "{'type':'ByteLevel','add_prefix_space':false,'trim_offsets':true,'use_regex':true}"
#define CONTRACTED \
    "(?i:\\u0027s|\\u0027t|\\u0027re|\\u0027ve|\\u0027m|\\u0027ll|\\u0027d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
#define OTHERS "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define LLAMA_3_REGEX CONTRACTED "\\\\p{L}+|\\\\p{N}{1,3}" OTHERS
#define LLAMA_3 STEPS(SPLIT(LLAMA_3_REGEX) "," TO_BYTES)

TEST_WITH(test_cuts_have_names, folder_with_config, made_remove) {
    static const char *const cases[][3] = {
        {GPT_2, "", "gpt-2"},
        {STEPS(GPT_2), ",'ignore_merges':true", "gpt-2"},
        {"{'type':'ByteLevel','add_prefix_space':false}", "", "gpt-2"},
        {STEPS("{'type':'Digits','individual_digits':true}," GPT_2), "", "starcoder"},
        {LLAMA_3, ",'ignore_merges':true", "llama-bpe"},
        {LLAMA_3, ",'ignore_merges':false", "dbrx"},
        {LLAMA_3, "", "dbrx"},
        {STEPS(LLAMA_3), "", "dbrx"},
        {STEPS(SPLIT(CONTRACTED "\\\\p{L}+|\\\\p{N}" OTHERS) "," TO_BYTES), "", "qwen2"},
        {STEPS("{'type':'Punctuation','behavior':'Contiguous'}," GPT_2
               ",{'type':'Digits','individual_digits':false}," SPLIT("[0-9][0-9][0-9]")),
         "", "falcon"},
        /* by what it does */
        {STEPS(SPLIT("(?:" CONTRACTED "\\\\p{L}+|\\\\p{N}{1,3}" OTHERS ")") "," TO_BYTES),
         ",'ignore_merges':true", "llama-bpe"},
        {STEPS(SPLIT("(?:" CONTRACTED "\\\\p{L}+|\\\\p{N}{1,3}" OTHERS ")") "," TO_BYTES), "", "dbrx"},
        /* made from tiktoken's */
        {STEPS("{'type':'Split','pattern':{'Regex':'" LLAMA_3_REGEX
               "'},'behavior':'Removed','invert':true}," TO_BYTES),
         "", "dbrx"},
        /* line breaks as such */
        {STEPS(SPLIT("[\\r\\n]") "," SPLIT("\\\\s?\\\\p{L}+") "," SPLIT("\\\\s?\\\\p{P}+") "," SPLIT(
             "[一-龥ࠀ-一가-퟿]+") ",{'type':'Digits','individual_digits':true}," TO_BYTES),
         "", "deepseek-coder"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_cut(cases[i][0], cases[i][1]);
        assert_made();
        assert_text("pre", cases[i][2]);
        assert_null(made_unknown);
    }
    put_json("config.json", CONFIG("GlmMoeDsaForCausalLM") "}");
    put_json("tokenizer.json",
             "{'model':{'vocab':{'a':0}},'added_tokens':[{'id':1,'content':'[gMASK]'},{'id':2,"
             "'content':'<|user|>'},{'id':3,'content':'<|endoftext|>'},"
             "{'id':4,'content':'<|observation|>'}],'pre_tokenizer':" LLAMA_3 "}");
    assert_made();
    assert_text("pre", "glm4");
}

TEST_WITH(test_unknown_cuts_are_shown, folder_with_config, made_remove) {
    static const char *const cases[][2] = {
        {"null", "?"},
        {"{'type':'ByteLevel','add_prefix_space':true}", "?ByteLevel"},
        {STEPS(SPLIT("x{7}y") "," TO_BYTES), "Sx{7}y\nB0"},
        {"{'type':'Split','pattern':{'Regex':'x'},'behavior':'Removed'}", "?Split"},
        {"{'type':'Split','pattern':{'Regex':'x'},'behavior':'Isolated','invert':true}", "?Split"},
        {"{'type':'Split','pattern':{'String':'x'},'behavior':'Isolated'}", "?Split"},
        {"{'type':'Punctuation','behavior':'Isolated'}", "?Punctuation"},
        {"{'type':'Metaspace','replacement':'_'}", "take the tokenizer.json of the base model"},
        {"{'type':'Whitespace'}", "?Whitespace"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_cut(cases[i][0], "");
        assert_made();
        assert_none("pre");
        assert_non_null(made_unknown);
        if (!strstr(made_unknown, cases[i][1])) fail_msg("'%s' does not say '%s'", made_unknown, cases[i][1]);
    }
}

int main(void) { return tests_run(NULL, NULL); }
