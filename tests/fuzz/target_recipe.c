/* Recipe files: what is accepted compiles, and every item is used on names. */
#include <string.h>

#include "mixes/mixes.h"
#include "mixes/rules.h"
#include "tests/fuzz/fuzz.h"

static void use(const mix_recipe *r) {
    static const char *const names[] = {"blk.12.ffn_down_exps.weight", "token_embd.weight",
                                        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    gq_error e = {0};
    mix_matcher *matcher = mix_matcher_new(&e);
    mix_pattern *p = mix_patterns_new((const char *const *)r->items, r->n, true, &e);
    if (!p || !matcher) fuzz_check_error(&e); /* too many */
    for (size_t i = 0; p && matcher && i < sizeof names / sizeof *names; i++) {
        size_t hit;
        uint32_t type = GGUF_TYPE_LIMIT;
        e = (gq_error){0};
        if (!mix_patterns_find(p, matcher, names[i], &hit, &type, &e))
            fuzz_check_error(&e); /* takes too long */
        else
            PROMISE(hit == MIX_NO_PATTERN || tensor_type_of(type), "type %u", type);
    }
    mix_patterns_free(p);
    mix_matcher_free(matcher);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    mix_recipe r;
    gq_error e = {0};
    if (n > 4096) return -1; /* compiling is slow beneath sanitizers, and more of the same finds nothing */
    if (!mix_recipe_read(&r, "recipe", (const char *)bytes, n, &e)) {
        fuzz_check_error(&e);
        return 0;
    }
    for (size_t i = 0; i < r.n; i++)
        PROMISE(*r.items[i] && strchr(r.items[i], '='), "item %zu is '%s'", i, r.items[i]);
    use(&r);
    mix_recipe_free(&r);
    return 0;
}

void fuzz_seeds(const char *folder) {
    static const char *const texts[] = {
        "# a comment\nblk\\.[0-9]\\.ffn_down\\.weight=Q6_K\nattn_v=q8_0,attn_k=Q5_K\r\n",
        "^blk\\.(1[0-9]|2[0-3])\\..*exps=iq4_xs token_embd\\.weight=BF16",
        "\xEF\xBB\xBF(?<layer>\\d+)\\.(?!ffn).*\\k<layer>=F16\na{1,3}b+?=mxfp4",
        "[[:alpha:]_]+\\u0041\\x2e()|(?=x)*$=Q4_0",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        fuzz_seed(folder, (char[]){(char)('a' + i), 0}, texts[i], strlen(texts[i]));
}
