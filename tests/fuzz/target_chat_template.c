/* A model's chat template: it gives a text, or it is refused with a message. */
#include <stdlib.h>
#include <string.h>

#include "publish/jinja/render.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static const chat_message messages[] = {
        {"system", "s"}, {"user", "u"}, {"assistant", "a"}, {"user", "v"}};
    gq_error e = {0};
    char *text = jinja_render((const char *)bytes, n, messages, 4, "<s>", "</s>", &e);
    if (!text) fuzz_check_error(&e);
    free(text);
    return 0;
}

void fuzz_seeds(const char *folder) {
    static const char *const seeds[] = {
        "{%- set ns = namespace(n=0) -%}{% for m in messages[::-1] if m.role != 'system' %}{{ loop.index0 ~ "
        "m['content'] | trim }}"
        "{% set ns.n = ns.n + 1 %}{% else %}{% break %}{% endfor %}",
        "{% macro f(a, b='x') %}{{ a.split('y')[-1] if a is string and b else {'k': [1, none]} | tojson }}{% "
        "endmacro %}"
        "{# note #}{{ f('xyz', b=bos_token) }}",
        "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join(', ') }}"};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        fuzz_seed(folder, (char[]){(char)('a' + i), 0}, seeds[i], strlen(seeds[i]));
}
