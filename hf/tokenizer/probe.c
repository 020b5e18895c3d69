/* Folders spell the same cut in many ways. So expressions that are in no table are run on a text that all
 * groups of llama.cpp cut differently, and the digest of the cuts is looked up. The digests are those of the
 * cuts that arch/pretokenizers.c makes; a test compares them. The expressions come from a file that nobody
 * vouches for: each match has a limit of steps and memory, and what exceeds it has no name.
 */
#include "hf/tokenizer/tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "base/checksum.h"

enum {
    MATCH_LIMIT = 20000, /* of a match at one place; the text has some 1000 */
    MATCH_KIB = 1024,
    PATTERN_BYTES = 16384 /* the longest published one has some 400 */
};
#define GPT_2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

const char hf_probe_text[] = HF_CHECK_TEXT
    "\nHello World HELLO helloWorld's IT'S we'LL x'D 1234567 ab12cd a1b  \n"
    "\n  x\t\ty //path/ a.b_c !!\n/ (x) [y] {z} 12,345.678 café naïve ÉtÉ क\340\245\215ष\340\244\277"
    " 你好世界 こんにちは カタ 한국어 ไทย 1²½ ٣٤٥٦ <|x|> $+<=>^~|` a\314\201b “q” …。， 😀x <sentinel:12> "
    "IMGIM"
    "GABZ it'sx a  12 'Rex 'llama  end   ";
const size_t hf_probe_bytes = sizeof hf_probe_text - 1;

/* A name of each group, and the first bytes of the SHA-256 of its cuts. bailingmoe cuts as qwen2 does. */
static const struct {
    const char *name;
    uint64_t digest;
} groups[] = {
    {"gpt-2", 0x3b75e43eaa30eef7},          {"llama-bpe", 0x40c813bd42673038},
    {"qwen2", 0xd8de8e9df537cb53},          {"qwen35", 0x78ef6f60a550e1d5},
    {"starcoder", 0xf267ff093065b4fd},      {"tekken", 0x0f45f32a25f3bcf2},
    {"gpt-4o", 0xfa62154b4a61f102},         {"tiny_aya", 0x5e948f255b965445},
    {"youtu", 0xa22e9b734fb711eb},          {"deepseek-llm", 0x607d8c3f4aca8b34},
    {"deepseek-coder", 0x171ea2ace9447782}, {"deepseek-v3", 0xe6d26b153cbda538},
    {"spark2_5", 0xc567b94020572d33},       {"falcon", 0x7c618132108acf12},
    {"default", 0xae2cc8aa26644b45},        {"kimi-k2", 0xe3c5adabdde2f0e5},
    {"seed-coder", 0x2080bfdc5b3ef37d},     {"exaone-moe", 0x494728241ea6fe11},
    {"minicpm5", 0xe4b1c59e62a42613},       {"laguna", 0xf2492844caeb08fc},
    {"ufakzeka", 0xfd739666d0dd6c5f},       {"jais-2", 0xf5e9368af704ab33},
    {"bloom", 0xe77ae4aec3b11cc1},          {"viking", 0x2138b120314e14f7},
    {"superbpe", 0x5f50cb5e7bd144a3},       {"afmoe", 0x216974270a3edd2e},
    {"chameleon", 0xa75c9b9c3dcf6950},      {"granite-embed-multi-97m", 0x51ae70cdd8fcac08},
};

const char *hf_probe_name(const hf_probe_cuts *c) {
    uint8_t sum[SHA256_BYTES];
    uint64_t digest = 0;
    sha256_sum(c->bits, sizeof c->bits, sum);
    for (size_t i = 0; i < 8; i++) digest = digest << 8 | sum[i];
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (groups[i].digest == digest) return groups[i].name;
    return NULL;
}

/* ---- cutting ---- */

typedef struct probe {
    const char *text;
    size_t text_n;
    pcre2_compile_context *compiling;
    pcre2_match_context *matching;
    pcre2_match_data *match;
    hf_probe_cuts cuts;
    bool lacks_memory;
} probe;

/* Marks the ends of all matches in a piece. False: the expression exceeds a limit, or matches nothing. */
static bool probe_cut_piece(probe *p, const pcre2_code *code, size_t begin, size_t end) {
    PCRE2_SPTR piece = (PCRE2_SPTR)p->text + begin;
    size_t n = end - begin;
    for (size_t from = 0; from < n;) {
        int found = pcre2_match(code, piece, n, from, PCRE2_NOTEMPTY, p->match, p->matching);
        if (found == PCRE2_ERROR_NOMATCH) return true;
        p->lacks_memory = p->lacks_memory || found == PCRE2_ERROR_NOMEMORY;
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(p->match);
        if (found < 0 || at[0] < from || at[1] <= at[0] || at[1] > n) return false;
        hf_probe_mark(&p->cuts, begin + at[0]);
        if (at[1] < n) hf_probe_mark(&p->cuts, begin + at[1]);
        from = at[1];
    }
    return true;
}

/* Cuts all pieces that the steps before have left. */
static bool probe_cut(probe *p, const pcre2_code *code) {
    hf_probe_cuts before = p->cuts;
    for (size_t begin = 0, end; begin < p->text_n; begin = end) {
        for (end = begin + 1; end < p->text_n && !hf_probe_is_cut(&before, end);) end++;
        if (!probe_cut_piece(p, code, begin, end)) return false;
    }
    return true;
}

/* Runs a step; `text` is what follows its letter. */
static bool probe_step(probe *p, char letter, const char *text, size_t n) {
    int error;
    PCRE2_SIZE at;
    if (letter == 'B' && n == 1 && *text == '0') return true;
    if (letter == 'B') text = GPT_2, n = sizeof GPT_2 - 1;
    if (letter == 'D') text = *text == '1' ? "\\p{N}" : "\\p{N}+", n = strlen(text);
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)text, n, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                      &error, &at, p->compiling);
    p->lacks_memory = !code && error == PCRE2_ERROR_HEAP_FAILED;
    bool ok = code && probe_cut(p, code);
    pcre2_code_free(code);
    return ok;
}

/* False: a step cannot be run. Behind the step that makes bytes of the text nothing may follow. */
static bool probe_run_steps(probe *p, const char *lines) {
    size_t steps = 0;
    for (const char *end; *lines; lines = end + 1) {
        char letter = *lines++;
        end = strchr(lines, '\n');
        if (!end || !strchr("SDB", letter) || steps++ == HF_PROBE_STEPS || (letter == 'B' && end[1]) ||
            !probe_step(p, letter, lines, (size_t)(end - lines)))
            return false;
    }
    return steps > 0;
}

bool hf_probe_cut(const char *lines, const char *text, size_t n, hf_probe_cuts *cuts, bool *is_cut,
                  gq_error *e) {
    probe p = {.text = text,
               .text_n = n,
               .compiling = pcre2_compile_context_create(NULL),
               .matching = pcre2_match_context_create(NULL),
               .match = pcre2_match_data_create(1, NULL)};
    bool ok = p.compiling && p.matching && p.match;
    *is_cut = false;
    if (ok) {
        pcre2_set_max_pattern_length(p.compiling, PATTERN_BYTES);
        pcre2_set_match_limit(p.matching, MATCH_LIMIT);
        pcre2_set_heap_limit(p.matching, MATCH_KIB);
        hf_probe_mark(&p.cuts, 0);
        *is_cut = probe_run_steps(&p, lines);
        *cuts = p.cuts;
        ok = !p.lacks_memory;
    }
    pcre2_compile_context_free(p.compiling), pcre2_match_context_free(p.matching);
    pcre2_match_data_free(p.match);
    return ok || gq_fail_memory(e, 0);
}

bool hf_probe_run(const char *lines, const char **name, gq_error *e) {
    hf_probe_cuts cuts;
    bool is_cut;
    *name = NULL;
    if (!hf_probe_cut(lines, hf_probe_text, hf_probe_bytes, &cuts, &is_cut, e)) return false;
    if (is_cut) *name = hf_probe_name(&cuts);
    return true;
}
