/* Rows of architectures are in order: what one row alone cannot show, and what one row cannot say at once. */
#include "arch/arch.h"
#include "arch/kv.h"
#include "arch/projector.h"
#include "arch/rules.h"
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
        if (!a->folder.classes != !a->folder.metadata)
            fail_msg("%s: classes without pairs, or pairs without", a->name);
        if (a->folder.classes && !arch_can_run(a) && !a->folder.shapes)
            fail_msg("%s has folders and cannot be run, and nothing says which tensors it has", a->name);
        if (arch_can_run(a) && a->kind) fail_msg("%s can be run, and a kind says that it cannot", a->name);
        for (const arch_class *c = a->folder.classes; c && c->name; c++)
            if (c->like && (!arch_named(c->like) || !arch_named(c->like)->folder.metadata))
                fail_msg("%s: folders like %s's, which has none", c->name, c->like);
    }
}

/* ---- contradictions ---- */

/* Files that are read without a choice stand alone. */
static bool stands_alone(arch_file f) {
    return f == FILE_LINES || f == FILE_WORLD || f == FILE_RANKS || f == FILE_NONE;
}

static const char *tokenizer_fault(const arch_tokenizer *t) {
    static const uint32_t either[][2] = {{TOKENS_BOS_ALWAYS, TOKENS_BOS_NEVER},
                                         {TOKENS_BOS_ALWAYS, TOKENS_BOS_IF_SET},
                                         {TOKENS_BOS_NEVER, TOKENS_BOS_IF_SET},
                                         {TOKENS_BOS_NEVER, TOKENS_BOS_IS_CHECKED},
                                         {TOKENS_ENDS_ALWAYS, TOKENS_BOS_IF_SET},
                                         {TOKENS_GLM4, TOKENS_GLM_MOE},
                                         {TOKENS_GLM4, TOKENS_CHATGLM},
                                         {TOKENS_GLM_MOE, TOKENS_CHATGLM},
                                         {TOKENS_PHI3, TOKENS_INTERNLM2},
                                         {TOKENS_INTERNLM2, TOKENS_ARCTIC},
                                         {TOKENS_MODEL_NO_SPACE, TOKENS_SPACE_IS_SET},
                                         {TOKENS_GEMMA4, TOKENS_SPACE_IS_SET}};
    for (size_t i = 0; i < sizeof either / sizeof *either; i++)
        if ((t->exceptions & either[i][0]) && (t->exceptions & either[i][1]))
            return "two exceptions of the tokenizer exclude each other";
    if (t->files[ARCH_FILES - 1]) return "the list of files has no end";
    for (int i = 0; i < ARCH_FILES && t->files[i]; i++) {
        if (stands_alone(t->files[i]) && (i > 0 || t->files[1]))
            return "a file that is not chosen stands beside others";
        for (int k = 0; k < i; k++)
            if (t->files[i] == t->files[k]) return "a file is named twice";
    }
    return NULL;
}

static arch_op_makes makes_of(arch_op step) {
#define MAKES(member, function, makes) [member] = MAKES_##makes,
    static const arch_op_makes all[ARCH_OP_LIMIT] = {ARCH_OPS(MAKES)};
    return all[step];
}

/* Whether a rule has as many names of tensors as its step makes, and asks for a part where it makes one. */
static bool makes_names(const arch_rule *r) {
    arch_op_makes makes = makes_of(r->op);
    size_t n = *r->to != 0;
    for (const char *c = r->to; *c; c++) n += *c == '|';
    if ((strchr(r->from, '*') && !strchr(r->to, '*')) != (makes == MAKES_PART)) return false;
    return makes == MAKES_NONE    ? n <= 1
           : makes == MAKES_SOME  ? n >= 1
           : makes == MAKES_TWO   ? n == 2
           : makes == MAKES_THREE ? n == 3
                                  : n == 1;
}

/* A rule behind one with the same name is never asked: it can only be a family's, whose step another has. A
 * sign of `to` needs its number. */
static const char *rules_fault(const arch_rule *list) {
    for (const arch_rule *r = list; r && r->from; r++) {
        if (strchr(r->to, '#') && !strchr(r->from, '#') && r->op != OP_COPY_TO_MTP_LAYERS)
            return "a tensor is of a layer, and its rule's name has no number";
        if (strchr(r->to, '*') && !strchr(r->from, '*'))
            return "a tensor has a number that its rule's name lacks";
        if (!makes_names(r)) return "a step makes other tensors than its rule names";
        for (const arch_rule *other = list; other < r; other++)
            if (!strcmp(other->from, r->from) && (strcmp(other->to, r->to) || other->op == r->op))
                return "two rules have one name";
    }
    return NULL;
}

static const char *items_fault(const arch_item *list) {
    for (const arch_item *i = list; i && i->make != MAKE_END; i++) {
        if ((i->make == KV_LIST || i->make == KV_LIST_IF) != (i->list != NULL))
            return "a list is missing, or one is not used";
        for (const arch_item *later = i + 1; i->key && later->make != MAKE_END; later++)
            if (later->key && !strcmp(later->key, i->key) && later->make == i->make &&
                later->need == NEEDED && i->need != NEEDED)
                return "an item is replaced whatever the config says";
    }
    return NULL;
}

static const char *classes_fault(const arch_class *list) {
    for (const arch_class *c = list; c && c->name; c++) {
        bool asks = c->when == WHEN_MODEL_TYPE || c->when == WHEN_KEY || c->when == WHEN_USED;
        const char *fault = tokenizer_fault(&c->tokenizer);
        if (asks != (c->text != NULL)) return "a condition without its text, or a text without a condition";
        if (c->drops_mtp && (c->mtp_key || c->has_stages)) return "MTP layers are dropped and counted";
        if (fault || (fault = rules_fault(c->rules)) || (fault = items_fault(c->metadata))) return fault;
        for (const arch_refusal *r = arch_refused; r->name; r++)
            if (!strcmp(r->name, c->name)) return "a class is read and refused";
    }
    return NULL;
}

static const char *head_fault(const architecture *a) {
    const arch_folder *f = &a->folder;
    if ((f->has_no_head || f->needs_no_head) && f->has_own_head)
        return "a head that is needed and is not there";
    if (f->is_tied_by_class && f->has_own_head) return "a head of its own that is tied by the class";
    if (f->has_no_head && f->drops_tied_head) return "a head that is not there is dropped";
    if (f->has_no_head && a->graph.tied == TIED_NO) return "folders without a head, and a graph with one";
    if (f->has_own_head && a->graph.tied == TIED_MUST) return "folders with a head, and a graph without one";
    return NULL;
}

static const char *folder_fault(const architecture *a) {
    const arch_folder *f = &a->folder;
    const arch_mtp *p = &f->mtp;
    if (p->key && p->fixed) return "the number of MTP layers is fixed and read";
    if ((p->most || p->counts || p->for_each) && !p->key && !p->fixed)
        return "MTP layers that nothing announces";
    if (p->is_one && p->for_each) return "one MTP layer, and each of them";
    if ((f->mlx & (MLX_NORMS_BY_CONVOLUTION | MLX_NORMS_BY_NAMES)) && !f->adds_one)
        return "MLX adds 1 to norms that lack nothing";
    if (f->assumed && !f->assumed_key) return "a value that no key has";
    if (f->layers_by_number && !a->graph.period_default) return "layers by their number, without a period";
    for (const arch_shape *s = f->shapes; s && s->tensor; s++)
        if (!*s->shape) return "a shape without a size";
    return NULL;
}

static const char *graph_fault(const architecture *a) {
    const arch_graph *g = &a->graph;
    if (g->window == WINDOW_NONE && (g->window_default || g->pattern_list || g->pattern_by_number))
        return "a pattern of windows, and none";
    if (g->first_global && !g->period_default) return "the first layer of no period";
    if (g->pattern_list && g->pattern_by_number) return "a list that must be there, and is not read";
    if (g->alibi > 0 && g->alibi_key) return "a slope that is fixed and read";
    if (g->qk == QK_NONE && (g->qk_after_rope || g->qk_centers || g->qk_eps > 0))
        return "norms of queries that are none";
    if (g->has_dense && !g->embeds) return "matrices behind a pooling that is none";
    if (g->rope_fixed && (g->rope_partial || g->rotated_local)) return "whole heads turn, and parts";
    if (g->unweighted && g->norm_bias != ABSENT) return "a bias of norms without weights";
    if (a->is_projector && (arch_can_run(a) || a->folder.classes))
        return "a projector with layers or folders";
    for (size_t i = 0; i < sizeof a->by_number / sizeof *a->by_number; i++)
        if (a->by_number[i].most && a->by_number[i].least > a->by_number[i].most)
            return "no number is in its range";
    return NULL;
}

/* Returns what a row says and takes back; NULL: nothing. */
static const char *row_fault(const architecture *a) {
    const char *fault = tokenizer_fault(&a->folder.tokenizer);
    if (!fault) fault = classes_fault(a->folder.classes);
    if (!fault) fault = rules_fault(a->folder.rules);
    if (!fault) fault = rules_fault(a->folder.more);
    if (!fault) fault = items_fault(a->folder.metadata);
    if (!fault) fault = head_fault(a);
    if (!fault) fault = folder_fault(a);
    return fault ? fault : graph_fault(a);
}

TEST(rows_do_not_contradict_themselves) {
    const architecture *a;
    (void)state;
    for (size_t i = 0; (a = arch_at(i)); i++)
        if (row_fault(a)) print_error("%s: %s\n", a->name, row_fault(a));
    for (size_t i = 0; (a = arch_at(i)); i++) assert_null(row_fault(a));
    const arch_projector *p;
    for (size_t i = 0; (p = arch_projector_at(i)); i++) {
        const char *fault = rules_fault(p->folder.rules);
        if (!fault) fault = rules_fault(p->folder.more);
        if (fault) fail_msg("projector %zu: %s", i, fault);
    }
}

TEST(contradictions_are_found) {
    static const arch_rule twice[] = {{"a.#", "blk.#.b", OP_COPY}, {"a.#", "blk.#.c", OP_COPY}, {0}},
                           lacking[] = {{"a", "blk.#.b", OP_COPY}, {0}},
                           few[] = {{"a.#", "blk.#.b", OP_SPLIT_HALVES}, {0}},
                           many[] = {{"a.#", "blk.#.b|blk.#.c", OP_TRANSPOSE}, {0}},
                           part[] = {{"a.#.*", "blk.#.b", OP_COPY}, {0}},
                           whole[] = {{"a.#", "blk.#.b", OP_JOIN_EXPERTS}, {0}};
    static const arch_class texts[] = {{.name = "A", .when = WHEN_KEY}, {.name = NULL}},
                            refused[] = {{.name = "UltravoxModel"}, {.name = NULL}};
    static const arch_item dead[] = {U32_IF(".a", "b"), U32(".a", "c"), END};
    const architecture rows[] = {
        {.folder.tokenizer = {.files = {FILE_MODEL, FILE_MODEL}}},
        {.folder.tokenizer = {.files = {FILE_BYTES, FILE_NONE}}},
        {.folder.tokenizer = {.exceptions = TOKENS_BOS_ALWAYS | TOKENS_BOS_NEVER}},
        {.folder.rules = twice},
        {.folder.more = lacking},
        {.folder.rules = few},
        {.folder.rules = many},
        {.folder.rules = part},
        {.folder.rules = whole},
        {.folder.metadata = dead},
        {.folder.classes = texts},
        {.folder.classes = refused},
        {.folder = {.has_no_head = true, .has_own_head = true}},
        {.folder.has_own_head = true, .graph.tied = TIED_MUST},
        {.folder.mtp = {.key = "n", .fixed = 1}},
        {.folder.mtp.for_each = true},
        {.folder.mlx = MLX_NORMS_BY_NAMES},
        {.folder.layers_by_number = true},
        {.graph.window_default = 8},
        {.graph = {.alibi = 8, .alibi_key = true}},
        {.graph.qk_eps = 1},
        {.by_number = {{BY_NUMBER_ROPE, 3, 2, NULL}}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!row_fault(&rows[i])) fail_msg("contradiction %zu is not found", i);
}

/* ---- sizes of projectors ---- */

static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", DIGITS[] = "0123456789";

/* Whether a word is one of arch/projector.h. */
static bool is_size(const char *word) {
    if (strchr("?@~+", *word)) return word[1] == 0;
    if (strchr("*^", *word)) return word[1] && strchr(LETTERS, word[1]) && word[2] == 0;
    for (;; word++) {
        size_t digits = strspn(word, DIGITS);
        word += digits;
        size_t letters = strspn(word, LETTERS);
        if (!digits && !letters) return false;
        word += letters;
        if (*word == 0) return true;
        if (*word != '+') return false;
    }
}

/* Whether a tensor of a list has this letter in a sum, by which it gets a value; or the metadata have it. */
static bool letter_has_value(const arch_tensor_size *list, char letter) {
    for (const arch_tensor_size *s = list; s && s->tensor; s++)
        for (const char *at = strchr(s->dims, letter); at; at = strchr(at + 1, letter))
            if (at == s->dims || !strchr("*^", at[-1])) return true;
    return strchr("DdTtNnsy", letter);
}

static void check_sizes(const arch_tensor_size *list) {
    for (const arch_tensor_size *s = list; s && s->tensor; s++) {
        char words[64], *word, *rest = words;
        snprintf(words, sizeof words, "%s", s->dims);
        while ((word = strsep(&rest, " |"))) {
            if (!is_size(word)) fail_msg("%s: '%s' in \"%s\" is no size", s->tensor, word, s->dims);
            if (strchr("*^", *word) && !letter_has_value(list, word[1]) &&
                !letter_has_value(arch_projector_shapes, word[1]))
                fail_msg("%s: nothing gives %c a value", s->tensor, word[1]);
        }
    }
}

TEST(sizes_of_projectors_are_words) {
    const arch_projector *p;
    (void)state;
    assert_true(is_size("Q+2K") && is_size("^D") && is_size("3") && !is_size("%") && !is_size("*") &&
                !is_size("D+"));
    check_sizes(arch_projector_shapes);
    for (size_t i = 0; (p = arch_projector_at(i)); i++) check_sizes(p->shapes);
}

int main(void) { return tests_run(NULL, NULL); }
