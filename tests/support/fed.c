#include "tests/support/fed.h"

#include "tests/support/support.h"

fed *fed_of(fed_list *l, const char *name) {
    for (size_t i = 0; i < l->n; i++)
        if (!strcmp(l->weights[i].name, name)) return &l->weights[i];
    return NULL;
}

forward_answer fed_take(void *data, const forward_inputs *in, gq_error *e) {
    fed_list *l = data;
    (void)e;
    assert_true(in->n_weights >= 1 && in->matrix < in->matrices && in->tokens >= 1);
    for (size_t k = 0; k < in->n_weights; k++) {
        const model_tensor *t = in->weights[k];
        fed *f = fed_of(l, t->name);
        assert_int_equal(in->features, t->ne[0]);
        assert_int_equal(in->matrices, t->ne[2]);
        if (!f) {
            assert_true(l->n < FED_MOST);
            f = &l->weights[l->n++];
            *f = (fed){.rows = 0};
            snprintf(f->name, sizeof f->name, "%s", t->name);
        }
        f->rows += (double)in->tokens;
        for (size_t c = 0; c < in->features; c++)
            for (size_t i = 0; i < in->tokens; i++)
                f->squares += (double)in->x[c * in->stride + i] * (double)in->x[c * in->stride + i];
    }
    return FORWARD_ON;
}
