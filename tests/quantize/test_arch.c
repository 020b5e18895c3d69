/* Rows of architectures are in order: what one row alone cannot show. */
#include "arch/arch.h"
#include "arch/pairs.h"
#include "tests/support/support.h"

TEST(names_are_there_once) {
    const architecture *a;
    (void)state;
    for (size_t i = 0; (a = arch_at(i)); i++)
        if (!arch_named(a->name) || (arch_named(a->name) != a) != a->of_embeddings)
            fail_msg("%s has two rows", a->name);
    assert_null(arch_named("no such architecture"));
}

/* A class that is in several rows without a condition would belong to the first one alone. */
TEST(classes_without_a_condition_have_one_row) {
    const architecture *a, *b;
    (void)state;
    for (size_t i = 0; (a = arch_at(i)); i++)
        for (const arch_class *c = a->folder.classes; c && c->name; c++)
            for (size_t k = i; c->when == WHEN_ALWAYS && (b = arch_at(k)); k++)
                for (const arch_class *d = b->folder.classes; d && d->name; d++)
                    if (c != d && d->when == WHEN_ALWAYS && !strcmp(c->name, d->name))
                        fail_msg("%s is of %s and of %s", c->name, a->name, b->name);
}

TEST(folders_have_pairs_and_can_be_run) {
    const architecture *a;
    (void)state;
    for (size_t i = 0; (a = arch_at(i)); i++) {
        if (!a->folder.classes != !a->folder.pairs)
            fail_msg("%s: classes without pairs, or pairs without", a->name);
        if (a->folder.classes && !arch_can_run(a) && !a->folder.shapes)
            fail_msg("%s has folders and cannot be run, and nothing says which tensors it has", a->name);
        if (arch_can_run(a) && a->kind) fail_msg("%s can be run, and a kind says that it cannot", a->name);
        for (const arch_class *c = a->folder.classes; c && c->name; c++)
            if (c->like && (!arch_named(c->like) || !arch_named(c->like)->folder.pairs))
                fail_msg("%s: folders like %s's, which has none", c->name, c->like);
    }
}

int main(void) { return tests_run(NULL, NULL); }
