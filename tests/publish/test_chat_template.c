/* What chat templates make of a conversation. What is expected is what jinja2 gives with transformers' settings. */
#include "publish/jinja/render.h"
#include "tests/support/support.h"

static const chat_message messages[] = {{"system", "S"}, {"user", "U"}, {"assistant", "A"}, {"user", "V"}};

static char *render(const char *template, gq_error *e) {
    return jinja_render(template, strlen(template), messages, 4, "<s>", "</s>", e);
}

TEST(templates_render_as_by_jinja2) {
    static const char *const cases[][2] = {
        {"{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m.content + '<|im_end|>' + '\n' }}{% "
         "endfor %}"
         "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
         "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>"
         "\n"
         "<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n"},
        {"{{ bos_token }}{%- if messages[0].role == \"system\" -%}\n  {% set system = messages[0].content "
         "%}\n"
         "  {% set messages = messages[1:] %}\n{%- endif -%}\n{% for m in messages %}{{ loop.index0 }}{{ "
         "m.content }}"
         "{{ system if loop.last else ',' }}{% endfor %}",
         "<s>0U,1A,2VS"},
        {"{%- set ns = namespace(n=0, seen=false) %}\n{%- for m in messages[::-1] %}\n"
         "    {%- if m.role == 'user' and not ns.seen %}\n        {%- set ns.n = ns.n + loop.index %}\n"
         "        {%- set ns.seen = true %}\n    {%- elif m.role is not defined %}x{% else %}\n-\n    {%- "
         "endif %}\n"
         "{%- endfor %}\n{{ ns.n }}",
         "---1"},
        {"a\n  {% if true %}\n  b\n  {%- endif %}\nc\n", "a\n  bc"},
        {"  {# note #}\nx{{ 1 }}\n {%+ if true %}y{% endif %}", "x1\n y"},
        {"{% macro say(who, what='hi') %}[{{ who }}: {{ what | trim }}]{% endmacro %}{{ say('a') }}{{ "
         "say('b', what=' c ') }}",
         "[a: hi][b: c]"},
        {"{% for m in messages if m.role == 'user' %}{{ m.content }}{% if loop.last %}!{% endif %}{% else "
         "%}none{% endfor %}",
         "UV!"},
        {"{% for m in messages %}{% if loop.index0 == 1 %}{% continue %}{% endif %}{% if m.role == 'user' "
         "%}{% break %}"
         "{% endif %}{{ m.content }}{% endfor %}.",
         "SA."},
        {"{% set text %}a{{ 1 + 2 * 3 }}b{% endset %}{{ text ~ '|' ~ text | length }}", "a7b|3"},
        {"{{ '<think>x</think>y'.split('</think>')[-1].strip('y') ~ 'aXbX'.replace('X', '-') ~ 'Ab' | upper "
         "}}",
         "a-b-AB"},
        {"{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join(', ') }}",
         "U, V"},
        {"{{ {'a': [1, none, true], 'b\\n': \"'\"} | tojson }}", "{\"a\": [1, null, true], \"b\\n\": \"'\"}"},
        {"{{ tools is none }} {{ missing is defined }} {{ missing | default('d') }} {{ 'a' in 'cab' }} {{ "
         "'z' not in ['a'] }}",
         "True False d True True"},
        {"{{ strftime_now('%Y') }}{% for i in range(3, 0, -1) %}{{ i }}{% endfor %}{% generation %}g{% "
         "endgeneration %}",
         "{date}321g"},
        {"{% if false %}{{ raise_exception('no') }}{% endif %}{{ 'y' if 1 < 2 else raise_exception('no') }}",
         "y"},
        {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gq_error e = {0};
        char *text = render(cases[i][0], &e);
        if (!text) fail_msg("%s: %s", cases[i][0], e.text);
        assert_string_equal(text, cases[i][1]);
        free(text);
    }
}

TEST(templates_that_are_refused) {
    static const char *const cases[][2] = {
        {"{{ raise_exception('no system') }}", "no system"},
        {"{{ missing.part }}", "undefined"},
        {"{{ 1.5 }}", "not understood at byte"},
        {"{% if 1 %}", "does not end"},
        {"{% endif %}", "without a beginning"},
        {"{{ 'a", "not understood"},
        {"{{ x | nofilter }}", "nofilter"},
        {"{% include 'x' %}", "include"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested"},
        {"{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "too much work"},
        {"{% set n = namespace(t='aaaaaaaaaaaaaaaa') %}{% for i in range(40) %}{% set n.t = n.t + n.t %}{% "
         "endfor %}",
         ""},
        {"{{ [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[ }}",
         "fewer nested brackets"},
        {"{{ messages }}", "prints a list"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gq_error e = {0};
        char *text = render(cases[i][0], &e);
        if (text) fail_msg("%s gives %s", cases[i][0], text);
        if (!strstr(e.text, cases[i][1])) fail_msg("%s: %s", cases[i][0], e.text);
    }
}

int main(void) { return tests_run(NULL, NULL); }
