/* The patterns by which vocabularies by rank on bytes cut a text into words: facts about models, as data. A row
 * serves the pre values in its `names`; its patterns are applied one after another, each to the pieces that
 * those before it have left (forward/tokens/splitter.c). Rows are put together from the named pieces below,
 * which many of them share. Patterns are for PCRE2_UTF and PCRE2_UCP; possessive quantifiers stand where
 * backtracking could find nothing. A new pre value is a name in a row, or a row. */
#include "arch/pretokenizers.h"

#include <string.h>

/* White space. Not \s: with Unicode properties that has U+180E, too. */
#define W "\\t-\\r\\x{85}\\p{Z}"
#define BEFORE_WORD "[" W "]+(?![^" W "])"
#define TAIL "[" W "]*[\\r\\n]|" BEFORE_WORD "|[" W "]++"
/* Contractions, written out: caseless matching would take U+017F for an s. */
#define CONTRACTION "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
#define OTHER "\\x20?[^" W "\\p{L}\\p{N}]++"
#define WORD "[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++"
#define WORD_MARKS "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+"
#define CASED_WORD "[^\\r\\n\\p{L}\\p{N}]?(?:[^\\P{L}a-z]*[^\\P{L}A-Z]+|[^\\P{L}a-z]+[^\\P{L}A-Z]*)"
#define UP_TO_3 "\\p{N}{1,3}+"
#define GPT2 "'(?:[stmd]|re|ve|ll)|\\x20?\\p{L}++|\\x20?\\p{N}++|" OTHER "|" BEFORE_WORD "|[" W "]++"
#define DEEPSEEK_WORD "[!-/:-@\\[-`{-~][A-Za-z]++|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
#define DEEPSEEK3 DEEPSEEK_WORD "|\\x20?[\\p{P}\\p{S}]++[\\r\\n]*+|" TAIL
#define WIDE \
    "[\\x{800}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}" \
    "\\x{2060}-\\x{2fff}\\x{3001}-\\x{9fa5}\\x{ac00}-\\x{d7ff}]++"
#define CJK "[\\x{3040}-\\x{30ff}\\x{4e00}-\\x{9fa5}]++"
#define HAN \
    "\\x{3400}-\\x{4dbf}\\x{4e00}-\\x{9fff}\\x{f900}-\\x{faff}\\x{20000}-\\x{2a6df}\\x{2a700}-\\x{2ebef}" \
    "\\x{2f800}-\\x{2fa1f}"
/* Cased letters of some scripts. */
#define LETTERS \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}" \
    "\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}" \
    "\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}" \
    "\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}" \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}" \
    "\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{" \
    "1f7d}" \
    "\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{" \
    "1fd3}" \
    "\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}" \
    "\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}" \
    "\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}" \
    "\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}" \
    "\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}" \
    "\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}" \
    "\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{" \
    "118df}" \
    "\\x{1e900}-\\x{1e943}"
#define BLOOM "\\x20?[^()" W "|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c}]++"
#define SPACES(...) "[" W "]{" #__VA_ARGS__ "}(?![^" W "])|"

/* These patterns are known by their addresses; the comments keep compilers from merging them with patterns of
 * the same text. */
const char SPLIT_TRIPLES[] = "(?#triples)[0-9]++";
const char SPLIT_TRIPLES_OF_TEXT[] = "(?#triples of text)\\p{N}++";

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct group {
    const char *names; /* separated by spaces */
    const char *const *patterns;
    bool ignore_merges, add_bos;
} groups[] = {
    {.names =
         "gpt-2 phi-2 mpt olmo jais exaone4 trillion granite-docling jina-es jina-de jina-v2-es jina-v2-de "
         "jina-v1-en jina-v2-code roberta-bpe gigachat a.x-4.0 mellum modern-bert",
     .patterns = LIST(GPT2)},
    {.names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     .patterns = LIST(CONTRACTION "|" WORD "|" UP_TO_3 "|" OTHER "[\\r\\n]*+|" TAIL),
     .ignore_merges = true,
     .add_bos = true},
    {.names = "dbrx smaug-bpe glm4 chatglm-bpe",
     .patterns = LIST(CONTRACTION "|" WORD "|" UP_TO_3 "|" OTHER "[\\r\\n]*+|" TAIL)},
    {.names = "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2 openpangu "
              "bailingmoe "
              "bailingmoe2 llada-moe",
     .patterns = LIST(CONTRACTION "|" WORD "|\\p{N}|" OTHER "[\\r\\n]*+|" TAIL)},
    {.names = "qwen35",
     .patterns =
         LIST(CONTRACTION "|" WORD_MARKS "|\\p{N}|\\x20?[^" W "\\p{L}\\p{M}\\p{N}]++[\\r\\n]*+|" TAIL)},
    /* One pattern with the result of two: digits one by one, then as gpt-2. */
    {.names = "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2 cohere2_moe",
     .patterns =
         LIST("\\p{N}|'(?:[stmd]|re|ve|ll)|\\x20?\\p{L}++|" OTHER "|[" W "]+(?![^" W "\\p{N}])|[" W "]++")},
    {.names = "tekken",
     .patterns = LIST(CASED_WORD "|\\p{N}|" OTHER "[\\r\\n/]*+|" TAIL),
     .ignore_merges = true,
     .add_bos = true},
    {.names = "gpt-4o llama4 kanana2 talkie minimax-m2",
     .patterns = LIST(CASED_WORD "(?:" CONTRACTION ")?+|" UP_TO_3 "|" OTHER "[\\r\\n/]*+|" TAIL)},
    {.names = "granite-embed-multi-97m",
     .patterns = LIST(
         "[^\\r\\n\\p{L}\\p{N}]?(?:[^\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}a-z]*[^\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}A-Z]"
         "+|"
         "[^\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}a-z]+[^\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}A-Z]*)(?:" CONTRACTION
         ")?+|" UP_TO_3 "|" OTHER "[\\r\\n/]*+|" TAIL),
     .ignore_merges = true},
    {.names = "tiny_aya cohere2moe",
     .patterns = LIST(SPLIT_TRIPLES_OF_TEXT,
                      WORD_MARKS "(?:" CONTRACTION ")?|" UP_TO_3 "|" OTHER "[\\r\\n/]*+|" TAIL)},
    {.names = "youtu",
     .patterns = LIST(
         "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]++|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}\\x{2019}"
         "\\x{2014}\\x{ff1a}\\x{ff1b}\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]++|"
         "[\\x{3105}-\\x{312f}]++|" CJK,
         WORD_MARKS "(?:" CONTRACTION ")?|\\p{N}|" OTHER "[\\r\\n/]*+|" TAIL),
     .ignore_merges = true},
    {.names = "deepseek-llm",
     .patterns =
         LIST("[\\r\\n]", "[" W "]?[" LETTERS "]++",
              "[" W "]?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3001}\\x{3002}]++",
              "[" W "]++\\z", WIDE, "\\p{N}++")},
    {.names = "deepseek-coder",
     .patterns = LIST("[\\r\\n]", "[" W "]?\\p{L}++", "[" W "]?\\p{P}++", WIDE, "\\p{N}")},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm hy_v4", .patterns = LIST(UP_TO_3, CJK, DEEPSEEK3)},
    {.names = "spark2_5",
     .patterns = LIST(UP_TO_3, CJK,
                      DEEPSEEK_WORD "|\\x20?[\\p{P}\\p{S}]++|[\\r\\n]|" BEFORE_WORD "|[" W "]++", "\\p{N}")},
    {.names = "falcon", .patterns = LIST("[\\p{P}$+<=>^~|`]++", GPT2, "[0-9]{3}")},
    {.names = "default", .patterns = LIST("[\\p{P}$+<=>^~|]++", GPT2, "\\p{N}++", "[0-9]{3}")},
    {.names = "kimi-k2",
     .patterns = LIST("[" HAN "]++|[^\\r\\n\\p{L}\\p{N}]?+[^\\P{L}" HAN "]++(?:" CONTRACTION ")?+|" UP_TO_3
                      "|" OTHER "[\\r\\n]*+|" TAIL)},
    {.names = "seed-coder", .patterns = LIST(CONTRACTION "|" WORD "|\\p{N}|" OTHER "|" TAIL)},
    {.names = "exaone-moe",
     .patterns =
         LIST(CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}\\p{M}*+(?:\\x20?\\p{L}\\p{M}*+)*+|\\p{N}|" OTHER
                          "[\\r\\n/]?+|" TAIL)},
    {.names = "minicpm5",
     .patterns = LIST(UP_TO_3, CONTRACTION "|" WORD "|\\p{N}++|" OTHER "[\\r\\n]*+|" TAIL),
     .ignore_merges = true},
    {.names = "laguna",
     .patterns = LIST("[^\\n]++|\\n++", CONTRACTION "|" WORD "|\\p{N}|" OTHER "[\\r\\n]*+|" TAIL)},
    {.names = "ufakzeka", .patterns = LIST(WORD "|\\p{N}|" OTHER "[\\r\\n]*+|" TAIL)},
    {.names = "jais-2",
     .patterns = LIST(CONTRACTION "|" WORD "|" UP_TO_3 "|" OTHER "[\\r\\n]*+|[" W "]*[\\r\\n]|" SPACES(512)
                          SPACES(256) SPACES(128) SPACES(64) SPACES(32) SPACES(16) SPACES(8)
                              SPACES(4) "[" W "]{1,2}(?![^" W "])|"
                                        "[" W "]")},
    {.names = "bloom poro-chat gpt3-finnish", .patterns = LIST(BLOOM)},
    {.names = "viking", .patterns = LIST(BLOOM, "\\p{N}")},
    {.names = "superbpe", .patterns = LIST("\\p{N}++", SPLIT_TRIPLES)},
    {.names = "afmoe",
     .patterns = LIST(
         SPLIT_TRIPLES_OF_TEXT,
         "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{8c48}-\\x{faff}\\x{3040}-\\x{30ff}\\x{ff65}-\\x{ff9f}"
         "\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}\\x{aa60}-\\x{aa7f}"
         "\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]++",
         DEEPSEEK3)},
    {.names = "chameleon",
     .patterns = LIST("<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|\\x20{4}|\\x20{2}", "\\p{N}",
                      "[\\p{P}!-/:-@\\[-`{-~]", GPT2),
     .add_bos = true},
};

/* Vocabularies of characters, without patterns. */
static const char RAW[] = "gemma4 sarvam-moe granite-embed-multi-311m";
static const char ALWAYS_BOS[] = "gemma4 granite-embed-multi-311m", NO_BOS[] = "glm4 chatglm-bpe";

static bool is_one_of(const char *names, const char *name, size_t length) {
    for (size_t n; *names; names += n + (names[n] == ' ')) {
        n = strcspn(names, " ");
        if (n == length && !memcmp(names, name, n)) return true;
    }
    return false;
}

bool pretokenizers_find(const char *pre, size_t length, split_rule *rule) {
    *rule = (split_rule){.raw = is_one_of(RAW, pre, length)};
    rule->always_bos = is_one_of(ALWAYS_BOS, pre, length);
    rule->no_bos = is_one_of(NO_BOS, pre, length);
    for (size_t i = 0; !rule->raw && i < sizeof groups / sizeof *groups; i++) {
        if (!is_one_of(groups[i].names, pre, length)) continue;
        rule->patterns = groups[i].patterns;
        rule->ignore_merges = groups[i].ignore_merges, rule->add_bos = groups[i].add_bos;
    }
    return rule->raw || rule->patterns;
}
