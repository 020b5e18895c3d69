/* Special tokens of folders, the templates by which messages become a text, and the names of how texts are
 * cut. */
#include "tests/hf_tokenizers.h"

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

static void test_ids_by_texts_come_before_those_of_the_config(void **state) {
    (void)state;
    put_json("config.json",
             CONFIG("Qwen3MoeForCausalLM") ",'bos_token_id':1,'eos_token_id':[1,2],'pad_token_id':-1,"
                                           "'sep_token_id':true,'unk_token_id':null,'mask_token_id':1.5,"
                                           "'text_config':{'unk_token_id':2,'bos_token_id':2}}");
    put_json(SETTINGS, "{'bos_token':'<s>','eos_token':{'content':'</s>'},'sep_token':'a','cls_token':'<t>'}");
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
    assert_none("eos_token_id"); /* a list */
    put_json("config.json", CONFIG("Qwen3MoeForCausalLM") ",'bos_token_id':4294967296}");
    assert_refused("bos_token_id is 4294967296");
}

static void test_ids_beyond_pieces_are_left_out(void **state) {
    (void)state;
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

static void test_template_says_what_is_added(void **state) {
    (void)state;
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
    assert_flag("add_bos_token", true);
    assert_none("add_sep_token");
    put_processor(TEMPLATE(SEQUENCE("A"), ""));
    assert_int_equal(remove(path(SETTINGS)), 0);
    assert_made();
    assert_none("add_bos_token");
    put_processor(TEMPLATE(TOKEN("<t>") "," SEQUENCE("A"), ""));
    assert_made();
    assert_flag("add_bos_token", true);
    assert_none("bos_token_id");
    put_processor("{'type':'RobertaProcessing'}");
    assert_made();
    assert_flag("add_bos_token", true);
    assert_flag("add_eos_token", true);
    assert_flag("add_sep_token", true);
}

static void test_template_changes_what_ends_texts(void **state) {
    (void)state;
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

static void test_template_of_two_texts(void **state) {
    (void)state;
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
