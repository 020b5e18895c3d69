#include "hf/adapter/adapter_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "hf/arrays/names.h"

enum {
    PATTERN_BYTES = 1024,
    MATCH_STEPS = 20000, /* of a name of some 60 bytes */
    MATCH_KIB = 1024,
};

bool hf_module_ends(const char *module, const char *end) {
    size_t n = strlen(module), m = strlen(end);
    return name_ends(module, end) && (n == m || (n > m && module[n - m - 1] == '.'));
}

/* Expressions come from a file that nobody vouches for: each match has a limit of steps and memory. */
static bool expression_fits(const char *pattern, const char *expression, const char *module, bool *fits,
                            gq_error *e) {
    int error;
    PCRE2_SIZE at;
    pcre2_code *code = pcre2_compile(
        (PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED,
        PCRE2_UTF | PCRE2_ANCHORED | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C, &error, &at, NULL);
    pcre2_match_context *limits = code ? pcre2_match_context_create(NULL) : NULL;
    pcre2_match_data *match = limits ? pcre2_match_data_create(1, NULL) : NULL;
    int found = PCRE2_ERROR_NOMEMORY;
    if (match) {
        pcre2_set_match_limit(limits, MATCH_STEPS), pcre2_set_heap_limit(limits, MATCH_KIB);
        found = pcre2_match(code, (PCRE2_SPTR)module, strlen(module), 0, 0, match, limits);
    }
    bool bad = !code && error != PCRE2_ERROR_HEAP_FAILED;
    pcre2_match_data_free(match), pcre2_match_context_free(limits), pcre2_code_free(code);
    *fits = found >= 0;
    if (bad || (found < 0 && found != PCRE2_ERROR_NOMATCH && found != PCRE2_ERROR_NOMEMORY))
        return gq_fail(e, "the pattern '%.80s' cannot be run", pattern);
    return found != PCRE2_ERROR_NOMEMORY || gq_fail_memory(e, 0);
}

/* Configs name each module of hundreds: an expression whose only signs are dots, which stand for any byte, is
 * compared without being compiled. */
static bool dots_fit(const char *pattern, const char *module) {
    size_t n = strlen(module), m = strlen(pattern);
    if (n < m || (n > m && module[n - m - 1] != '.')) return false;
    for (module += n - m; *pattern && (*pattern == '.' || *pattern == *module);) pattern++, module++;
    return *pattern == 0;
}

bool hf_pattern_fits(const char *pattern, const char *module, bool *fits, gq_error *e) {
    char whole[PATTERN_BYTES];
    *fits = dots_fit(pattern, module);
    if (*fits || !strpbrk(pattern, "\\^$*+?()[]{}|")) return true;
    if (snprintf(whole, sizeof whole, "(.*\\.)?(%s)$", pattern) >= (int)sizeof whole)
        return gq_fail(e, "the pattern '%.80s' is longer than %d bytes", pattern, PATTERN_BYTES);
    return expression_fits(pattern, whole, module, fits, e);
}
