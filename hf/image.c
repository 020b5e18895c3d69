#include "hf/tensors/tensors.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"

enum {
    SMALL_ELEMENTS = 1024, /* at most: such source tensors are F32 */
    FOLDED_LEAST = 512,    /* elements of an array that is stored as rows of 256 */
    FOLDED_ROW = 256,
};

/* ---- names of diffusers ---- */

/* Writes what becomes of a name by one row. False: the name begins otherwise, or is too long then. */
static bool name_renamed(const arch_image_rename *r, const char *name, char *to, size_t size) {
    char number[24] = "";
    size_t n = 0;
    for (const char *f = r->from; *f; f++) {
        size_t digits = *f == '#' ? strspn(name, "0123456789") : 0;
        if (*f != '#' ? *f != *name : digits == 0 || digits >= sizeof number) return false;
        if (*f == '#') memcpy(number, name, digits), number[digits] = 0;
        name += *f == '#' ? digits : 1;
    }
    for (const char *t = r->to; *t && n < size; t++)
        n += (size_t)(*t == '#' ? snprintf(to + n, size - n, "%s", number)
                                : snprintf(to + n, size - n, "%c", *t));
    return n < size && (size_t)snprintf(to + n, size - n, "%s", name) < size - n;
}

/* Finds the row of a name, and writes what becomes of it; `begins` stands before the names of a release without
 * rows, which leaves all as they are. */
static bool name_find_row(const hf_source *s, const arch_image_mark *mark, const char *name,
                          const char *begins, arch_image_rename *row, char to[GGUF_MAX_NAME + 1],
                          gq_error *e) {
    const arch_image_rename stays = {.from = "", .to = begins};
    const arch_image_rename *r = mark->renames ? mark->renames : &stays;
    for (; r->from; r++) {
        *row = *r;
        if (name_renamed(r, name, to, GGUF_MAX_NAME + 1)) {
            if (row->change == IMAGE_HALVES_OF_LAST && !hf_image_is_last_block(s->list, s->name))
                row->change = IMAGE_STAYS, row->parts = 0;
            return true;
        }
        if (r == &stays) break;
    }
    if (r->from || !*name)
        return hf_list_fail(s->list, s->stored, e, "its name has %zu bytes, expected 1 to %d", strlen(name),
                            GGUF_MAX_NAME);
    return hf_list_fail(s->list, s->stored, e,
                        "unknown tensor name for diffusers: use the model's original file");
}

/* ---- tensors ---- */

/* Sets a tensor's dimensions, row length first. GGUF has four: the outermost of a larger source tensor are one
 * there. Source tensors of UNets whose rows fit no block are stored as rows of 256. Returns whether the shape is
 * another than readers expect. */
static bool tensor_set_shape(model_tensor *m, const hf_source *s, bool folds, bool is_flat) {
    uint32_t n = s->n_dims;
    if (is_flat) {
        m->ne[0] = s->stored->n, m->n_dims = 1;
        return false;
    }
    if (folds && n > 1 && s->stored->n >= FOLDED_LEAST && s->stored->n % FOLDED_ROW == 0 &&
        s->columns % FOLDED_ROW != 0) {
        m->ne[0] = FOLDED_ROW, m->ne[1] = s->stored->n / FOLDED_ROW, m->n_dims = 2;
        return true;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint64_t *ne = &m->ne[min(i, GGUF_MAX_DIMS - 1)];
        *ne = mul_sat(*ne, s->shape[n - 1 - i]);
    }
    m->n_dims = (uint32_t)min(max(1, n), GGUF_MAX_DIMS);
    return n > GGUF_MAX_DIMS;
}

/* Notes the shape that a tensor has for its readers. */
static bool metadata_add_shape(hf_metadata *metadata, const char *name, const hf_source *s, gq_error *e) {
    char key[GGUF_MAX_NAME + 32];
    snprintf(key, sizeof key, "comfy.gguf.orig_shape.%s", name);
    for (uint32_t i = 0; i < s->n_dims; i++) {
        if (s->shape[i] > INT32_MAX)
            return hf_list_fail(s->list, s->stored, e, "a dimension is larger than 2^31 - 1");
        if (!hf_metadata_add_i32(metadata, (int32_t)s->shape[i], e)) return false;
    }
    return hf_metadata_array(metadata, key, GGUF_INT32, e);
}

/* Sets both pieces of a tensor to the halves of a source tensor's rows, the second half first. */
static bool tensor_set_halves(hf_tensor *t, const hf_source *s, gq_error *e) {
    for (uint64_t i = 0; i < 2; i++) {
        hf_view half = hf_view_of(s);
        uint64_t rows = s->n_dims ? s->shape[0] / 2 : 0;
        if (rows == 0 || s->shape[0] % 2 || !hf_view_cut(&half, 0, i ? 0 : rows, rows, 1))
            return hf_list_fail(s->list, s->stored, e, "an odd number of rows, expected two halves");
        if (!hf_build_piece(&(hf_match){.source = s}, t, i, &half, e)) return false;
    }
    return true;
}

/* Sets the type of a tensor made of a source tensor: parameters that are no layer's weights are F32, as readers take
 * them as they are, and know no BF16. */
static void tensor_set_type(model_tensor *m, const hf_source *s, const arch_image *image) {
    const hf_stored *t = s->stored;
    bool wide = s->n_dims <= 1 || s->n_dims > GGUF_MAX_DIMS || t->n <= SMALL_ELEMENTS ||
                arch_names_match(image->stays, m->name);
    if (t->dtype == HF_F16 || !wide) m->type = hf_source_type(s);
    if (!wide && (t->dtype == HF_E4M3 || t->dtype == HF_E5M2)) m->kept_type = tensor_type_of(GGUF_F16);
}

/* Whether a source tensor has the type of the other parts of a tensor that are there, and keys have as many rows
 * as values. */
static bool is_like_parts(const hf_tensor *t, const hf_source *s, size_t part) {
    enum { KEYS = 1, VALUES = 2 };
    for (size_t i = 0; i < t->n_pieces; i++) {
        const hf_source *other = t->pieces[i].source;
        if (!other) continue;
        if (other->stored->dtype != s->stored->dtype || other->coding != s->coding) return false;
        if (i != part && (i == KEYS || i == VALUES) && (part == KEYS || part == VALUES) &&
            other->shape[0] != s->shape[0])
            return false;
    }
    return true;
}

/* Adds a source tensor to the tensor that several make up, or all of a source tensor whose halves change places. */
static bool image_add_part(hf_build *b, const hf_source *s, const arch_image *image,
                           const arch_image_rename *row, const char *name, gq_error *e) {
    hf_view whole = hf_view_of(s);
    hf_tensor *t = hf_build_find(b, name);
    if (s->n_dims < 1 || s->n_dims > 2)
        return hf_list_fail(s->list, s->stored, e, "%u dimensions, expected 1 or 2", s->n_dims);
    if (!t) {
        if (!(t = hf_build_add(b, name, row->parts, e))) return false;
        t->tensor.n_dims = s->n_dims;
        t->tensor.ne[0] = s->n_dims == 2 ? s->columns : 0;
        t->tensor.ne[1] = s->n_dims == 2 ? 0 : 1;
        tensor_set_type(&t->tensor, s, image);
    }
    model_tensor *m = &t->tensor;
    if (t->n_pieces != row->parts || m->n_dims != s->n_dims || (s->n_dims == 2 && m->ne[0] != s->columns) ||
        !is_like_parts(t, s, row->part))
        return hf_list_fail(s->list, s->stored, e, "its shape or type differs from the other parts of %s",
                            name);
    m->ne[s->n_dims - 1] = add_sat(m->ne[s->n_dims - 1], s->shape[0]);
    return row->change ? tensor_set_halves(t, s, e)
                       : hf_build_piece(&(hf_match){.source = s}, t, row->part, &whole, e) != NULL;
}

static bool image_add(hf_build *b, const hf_source *s, hf_image_kind *k, hf_metadata *metadata, gq_error *e) {
    const arch_image *image = &k->arch->image;
    const char *begins, *stored = hf_image_own_name(k, s->name, &begins);
    char name[GGUF_MAX_NAME + 1];
    arch_image_rename row = {.parts = 0};
    if (!stored || arch_names_match(image->left_out, stored)) {
        if (k->n_left_out++ == 0) k->left_out = s->name;
        return true;
    }
    if (!name_find_row(s, k->mark, stored, begins, &row, name, e)) return false;
    if (s->coding == &hf_plain && s->stored->dtype >= HF_E8M0)
        return hf_list_fail(s->list, s->stored, e,
                            "elements of type %s: weights quantized by another program are not supported; "
                            "use the file in 16 bits",
                            hf_dtype_name(s->stored->dtype));
    if (row.parts) return image_add_part(b, s, image, &row, name, e);
    hf_tensor *made = hf_build_add(b, name, 1, e);
    if (!made) return false;
    made->pieces[0] = (hf_piece){.source = s, .view = hf_view_of(s)};
    made->stored_name = s->name;
    if (tensor_set_shape(&made->tensor, s, image->folds, row.change == IMAGE_FLAT) &&
        !metadata_add_shape(metadata, name, s, e))
        return false;
    tensor_set_type(&made->tensor, s, image);
    return hf_tensor_join(made, e);
}

/* Checks that a bias that was joined has a number for each row of its matrix: its parts are alike to one another. */
static bool image_check_bias(const hf_build *b, const hf_tensor *t, gq_error *e) {
    char weight[GGUF_MAX_NAME + 1];
    const hf_tensor *matrix = NULL;
    if (name_with_end(weight, sizeof weight, t->tensor.name, ".bias", ".weight"))
        matrix = hf_build_find(b, weight);
    return !matrix || matrix->tensor.n_dims != 2 || matrix->tensor.ne[1] == t->tensor.ne[0] ||
           gq_fail(e, "%s: tensor %s: %llu numbers for the %llu rows of %s; '%s' is one of them",
                   b->list->folder->files[0].file.path, t->tensor.name, LLU(t->tensor.ne[0]),
                   LLU(matrix->tensor.ne[1]), weight, t->stored_name);
}

/* Joins the parts of tensors of several, none of which may be missing. */
static bool image_join(hf_build *b, gq_error *e) {
    for (size_t i = 0; i < b->n; i++) {
        hf_tensor *t = &b->tensors[i];
        for (size_t k = 0; t->n_pieces > 1 && k < t->n_pieces; k++)
            if (!t->pieces[k].source)
                return gq_fail(e, "%s: tensor %s: part %zu of %zu is missing; '%s' is there",
                               b->list->folder->files[0].file.path, t->tensor.name, k + 1, t->n_pieces,
                               t->stored_name);
        if (t->n_pieces > 1 && (!image_check_bias(b, t, e) || !hf_tensor_join(t, e))) return false;
    }
    return true;
}

/* Whether a tensor is of the part that a layer's name begins with. */
static bool image_has_part(const hf_build *b, const char *layer) {
    size_t n = strcspn(layer, ".") + 1;
    for (size_t i = 0; i < b->n; i++)
        if (!strncmp(b->tensors[i].tensor.name, layer, n)) return true;
    return false;
}

/* Warns of layers without their weight or their bias, as of blocks with holes: readers start them at random, or refuse
 * the file. */
static bool image_warn_needs(const hf_build *b, const arch_image_mark *mark, gq_error *e) {
    static const char *const ends[] = {"weight", "bias"};
    char first[GGUF_MAX_NAME + 1] = "", name[GGUF_MAX_NAME + 1];
    size_t missing = 0;
    for (const char *const *need = mark->needs; need && *need; need++) {
        bool is_optional = **need == '?';
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
            snprintf(name, sizeof name, "%s.%s", *need + is_optional, ends[i]);
            if (!hf_build_find(b, name) && !(is_optional && !image_has_part(b, name)) && missing++ == 0)
                memcpy(first, name, sizeof first);
        }
    }
    bool is_whole = missing == 0;
    for (size_t i = 0; i < b->n && is_whole; i++) { /* no layer has a bias alone */
        const char *bias = b->tensors[i].tensor.name;
        if (!name_with_end(name, sizeof name, bias, ".bias", ".weight")) continue;
        if (!hf_build_find(b, name) && missing++ == 0) memcpy(first, name, sizeof first);
    }
    return missing == 0 || hf_folder_warn(b->list->folder, "", e,
                                          "missing tensor %s%s, which all such models have: programs may "
                                          "refuse the GGUF; download the model again",
                                          first, missing > 1 ? ", and more" : "");
}

bool hf_image_build(hf_build *b, const hf_config *c, const hf_list *l, hf_metadata *metadata, gq_error *e) {
    hf_image_kind k;
    *b = (hf_build){.config = c, .list = l};
    if (!hf_image_recognise(&k, l, e) ||
        !hf_metadata_text(metadata, "general.architecture", k.arch->name, e) ||
        !hf_sources_find(c, l, &b->sources, &b->n_sources, e))
        return false;
    for (size_t i = 0; i < b->n_sources; i++)
        if (!image_add(b, &b->sources[i], &k, metadata, e)) return false;
    if (l->config && !hf_metadata_text(metadata, "config", l->config, e)) return false;
    if (!image_join(b, e) || !image_warn_needs(b, k.mark, e)) return false;
    for (size_t i = 0; i < b->n; i++)
        if (!hf_tensor_describe(&b->tensors[i], e)) return false;
    return hf_image_warn(&k, l, e);
}
