/* Two stacks of blocks by turns (hrm_text), each with a state of its own. A stack begins with the sum of both
 * hidden states, and the norm of what it gives, which has no weights, is its state from then on. The lower
 * stack is run several times, then the upper one once, and so on.
 *
 * A loop of the model is one run of the lower stack and one of the upper stack, which is idle in all but the
 * last of such loops. So each state passes the blocks in their order, as in any model that runs them several
 * times. */
#include "forward/graph/residual/residual.h"

static size_t stack_length(const forward_model *m) { return m->sizes.blocks / 2; }

void stacks_read_keys(forward_model *m, key_reader *r, uint64_t blocks) {
    enum { MOST_CYCLES = 16, MOST_BLOCKS = 1 << 16 };
    const char *each_key = "hrm.layers_per_stack", *upper_key = "hrm.h_cycles", *lower_key = "hrm.l_cycles";
    uint64_t each = key_number_needed(r, each_key, 1, MOST_BLOCKS),
             upper = key_number_needed(r, upper_key, 1, MOST_CYCLES),
             lower = key_number_needed(r, lower_key, 1, MOST_CYCLES);
    if (!r->ok) return;
    if (blocks != each * upper * (lower + 1))
        key_fail(r, "block_count", "is %llu, expected %s times %s times (%s + 1): %llu",
                 (unsigned long long)blocks, each_key, upper_key, lower_key,
                 (unsigned long long)(each * upper * (lower + 1)));
    else if (2 * each > m->file->n_tensors)
        key_fail(r, each_key, "is %llu, but the model has only %llu tensors", (unsigned long long)each,
                 (unsigned long long)m->file->n_tensors);
    m->sizes.layers = m->sizes.blocks = 2 * each;
    m->loops = upper * lower, m->lower_cycles = lower;
}

void stacks_rest(forward_model *m) {
    size_t blocks = m->sizes.blocks;
    for (size_t i = 0; m->lower_cycles && i < m->sizes.layers; i++)
        m->layers[i].is_idle = i % blocks >= stack_length(m) && (i / blocks + 1) % m->lower_cycles != 0;
}

/* ---- the tail ---- */

typedef struct stacks_numbers {
    const model_tensor *first; /* the lower stack's state before it is run */
} stacks_numbers;

static void stacks_find_model_tensors(tensor_finder *f, model_sublayer *p) {
    stacks_numbers *n = p->numbers;
    n->first = tensors_take(f, "hrm.z_l_init", REQUIRED, SHAPE(f->m->sizes.width));
}

/* The upper stack's state, and the lower one's behind it. */
static uint64_t stacks_carried_rows(const forward_model *m, const model_sublayer *, size_t) {
    return 2 * (uint64_t)m->sizes.width;
}

static bool stacks_embed(forward_batch *b, const model_sublayer *p, const uint32_t *, const float *x,
                         float *carried, size_t stride) {
    const stacks_numbers *n = p->numbers;
    size_t width = b->model->sizes.width;
    float *lower = carried + width * stride;
    if (!model_read_values(b->model, n->first, b->normed, b->output, b->e)) return false;
    batch_copy(b, carried, stride, x, stride, width);
    for (size_t c = 0; c < width; c++)
        for (size_t t = 0; t < b->tokens; t++) lower[c * stride + t] = b->output[c];
    return true;
}

static bool stacks_begin(forward_batch *b, const sublayer_spec *p, float *x, size_t stride) {
    size_t width = b->model->sizes.width, block = b->layer->index % b->model->sizes.blocks;
    const float *upper = batch_carried(b, p->sublayer);
    if (block % stack_length(b->model) != 0) return true;
    batch_copy(b, x, stride, upper, stride, width);
    batch_add(b, x, stride, upper + width * stride, stride, width, 1);
    return true;
}

static bool stacks_run(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    size_t width = b->model->sizes.width, each = stack_length(b->model),
           block = b->layer->index % b->model->sizes.blocks;
    float *residual = batch_carried(b, p->sublayer) + (block < each ? width * stride : 0);
    if ((block + 1) % each != 0) return true;
    batch_norm(b, &(norm_groups){
                      .x = x, .y = b->residual, .x_stride = stride, .y_stride = stride, .features = width});
    batch_copy(b, residual, stride, b->residual, stride, width);
    return true;
}

const sublayer_kind tail_stacks = {
    .model_bytes = sizeof(stacks_numbers),
    .find_model_tensors = stacks_find_model_tensors,
    .carried_rows = stacks_carried_rows,
    .embed = stacks_embed,
    .begin = stacks_begin,
    .run = stacks_run,
};
