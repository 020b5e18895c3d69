#include "hf/sources/sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which architecture ---- */

const char *hf_image_names(char *text, size_t size) {
    const architecture *a;
    *text = 0;
    for (size_t i = 0, n = 0; (a = arch_at(i)) && n < size; i++)
        if (a->image.keeps) n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", " : "", a->name);
    return text;
}

static bool list_fits(const hf_list *l, const char *prefix, const arch_image_mark *mark) {
    char whole[256];
    for (size_t k = 0; k < sizeof mark->has / sizeof *mark->has && mark->has[k]; k++)
        if ((size_t)snprintf(whole, sizeof whole, "%s%s", prefix, mark->has[k]) >= sizeof whole ||
            !hf_list_find(l, whole))
            return false;
    return true;
}

/* Finds the first architecture one of whose marks fits, of releases that can be read or of others. */
static bool kind_find_mark(hf_image_kind *k, const hf_list *l, bool is_read) {
    for (size_t i = 0; (k->arch = arch_at(i)); i++)
        for (k->mark = k->arch->image.marks; k->mark && k->mark->has[0]; k->mark++)
            if (!k->mark->instead == is_read && list_fits(l, k->prefix, k->mark)) return true;
    return false;
}

static const char *const prefixes[] = {"model.diffusion_model.net.",
                                       "model.diffusion_model.",
                                       "diffusion_model.",
                                       "model.",
                                       "transformer.",
                                       "unet.",
                                       "net.",
                                       ""};
enum { PREFIXES = sizeof prefixes / sizeof *prefixes };

/* Files with text encoders have a prefix for each part; others have one for all, by the program that has saved
 * them. A release whose names cannot be read counts where no other prefix has one that can. */
/* Finds the first mark that fits, with any prefix. False: there is none. */
static bool image_find(hf_image_kind *k, const hf_list *l) {
    for (size_t i = 0; i < 2 * PREFIXES; i++) {
        *k = (hf_image_kind){.prefix = prefixes[i % PREFIXES]};
        if (kind_find_mark(k, l, i < PREFIXES)) return true;
    }
    return false;
}

bool hf_image_is(const char *folder, const char *file) {
    hf_folder f;
    hf_list l = {.folder = NULL};
    hf_image_kind k;
    bool is = hf_folder_open(&f, folder, NULL) && hf_list_read_file(&l, &f, file, NULL);
    is = is && image_find(&k, &l) && !k.mark->instead;
    hf_list_free(&l), hf_folder_close(&f);
    return is;
}

/* ---- what cannot be read ---- */

/* Fails unless ComfyUI's note beside an array, a text of JSON, says that its elements are F8 times one scale. */
static bool list_check_note(const hf_list *l, const hf_stored *t, gq_error *e) {
    enum { NOTE_MOST = 1024 };
    float bytes[NOTE_MOST];
    char text[NOTE_MOST + 1];
    size_t n = (size_t)min(t->n, NOTE_MOST);
    if (t->dtype != HF_U8 || t->n != n)
        return hf_list_fail(l, t, e, "expected a text of up to %d bytes", NOTE_MOST);
    if (!hf_list_floats(l, t, 0, n, bytes, e)) return false;
    for (size_t i = 0; i < n; i++) text[i] = bytes[i] >= 32 && bytes[i] < 127 ? (char)bytes[i] : ' ';
    text[n] = 0;
    bool is_f8 = strstr(text, "\"float8_e4m3fn\"") || strstr(text, "\"float8_e5m2\"");
    return (is_f8 && !strstr(text, "convrot")) ||
           hf_list_fail(l, t, e,
                        "ComfyUI's quantization %.100s is not supported: use the file in 16 bits or in F8",
                        text);
}

/* Fails for source tensors that are no model's, or coded as only other programs know: a piece of a name shows it. */
static bool list_check_kind(const hf_list *l, gq_error *e) {
    static const char lora[] = "a LoRA, not a model: merge it into its model first",
                      four[] = "weights quantized to 4 bits cannot be read: take the file in 16 bits",
                      control[] = "a ControlNet, not a model: programs load it as it is, without conversion";
    static const char *const rows[][2] = {
        {".lora_", lora},
        {"lora_unet_", lora},
        {"lora_transformer_", lora},
        {".hada_w1_", lora},
        {".lokr_w1", lora},
        {".quant_state.", four},
        {".weight.absmax", four},
        {".wscales", four},
        {"controlnet_", control},
        {"zero_convs.", control},
        {"input_hint_block.", control},
    };
    for (size_t i = 0; i < l->n; i++) {
        const hf_stored *t = &l->stored[i];
        if (name_ends(t->name, ".comfy_quant") && !list_check_note(l, t, e)) return false;
        if (name_ends(t->name, ".diff") || name_ends(t->name, ".diff_b"))
            return hf_list_fail(l, t, e, "%s", lora);
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
            if (strstr(t->name, rows[k][0])) return hf_list_fail(l, t, e, "%s", rows[k][1]);
    }
    return true;
}

/* Limits a search through all source tensors per name, far above what models have. */
enum { ARRAYS_MOST = 16384 };

/* Whether a source tensor with the model's prefix begins with the same word. */
static bool list_has_word(const hf_list *l, const char *prefix, const char *name, size_t n) {
    for (size_t i = 0; i < l->n; i++) {
        const char *own = name_behind(l->stored[i].name, prefix);
        if (own && strncmp(own, name, n) == 0 && own[n] == '.') return true;
    }
    return false;
}

/* Fails for a tensor of the model that lacks the prefix of the others, or has another. */
static bool list_check_prefix(const hf_list *l, const hf_image_kind *k, gq_error *e) {
    for (size_t i = 0; i < l->n && l->n <= ARRAYS_MOST && !k->arch->image.begins; i++) {
        const hf_stored *t = &l->stored[i];
        const char *name = t->name;
        bool own = *k->prefix && name_behind(name, k->prefix);
        for (size_t p = 0; p < PREFIXES && name == t->name && !own; p++)
            if (*prefixes[p] && name_behind(t->name, prefixes[p])) name = name_behind(t->name, prefixes[p]);
        if (own || (!*k->prefix && name == t->name)) continue;
        if (list_has_word(l, k->prefix, name, strcspn(name, ".")))
            return hf_list_fail(l, t, e,
                                "a tensor of the %s model whose name does not begin as the others do "
                                "('%s%.*s.'): two files were merged; use the model's original file",
                                k->arch->name, k->prefix, (int)strcspn(name, "."), name);
    }
    return true;
}

bool hf_image_recognise(hf_image_kind *k, const hf_list *l, gq_error *e) {
    char names[HF_IMAGE_NAMES];
    bool found = image_find(k, l);
    if (l->n == 0) return gq_fail(e, "%s has no tensors", l->folder->files[0].file.path);
    if (!list_check_kind(l, e)) return false;
    if (found && !k->mark->instead) return list_check_prefix(l, k, e);
    const char *path = hf_list_path(l, l->stored[0].file);
    if (found) return gq_fail(e, "%s: %s has %s", path, k->arch->name, k->mark->instead);
    return gq_fail(e,
                   "%s: its tensors ('%s' and %zu more) belong to no supported image model (%s); for a "
                   "language model, name its folder, with config.json",
                   path, l->stored[0].name, l->n - 1, hf_image_names(names, sizeof names));
}

const char *hf_image_own_name(const hf_image_kind *k, const char *name, const char **begins) {
    /* Parts of other models that are saved beside one whose names have no prefix, or inside of its blocks. */
    static const char *const others[] = {"^model_ema.",
                                         "^first_stage_model.",
                                         "^cond_stage_model.",
                                         "^conditioner.",
                                         "^text_encoders.",
                                         "^text_encoder.",
                                         "^text_encoder_2.",
                                         "^vae.",
                                         "^pulid",
                                         "ip_adapter",
                                         NULL};
    const char *own = name_behind(name, k->prefix), *wanted = k->arch->image.begins;
    if (arch_names_match(others, name)) return *begins = "", NULL;
    *begins = own && wanted ? wanted : "";
    return own || !wanted ? own : name; /* what stands outside is read by its own name, too */
}

/* ---- what is left over, and what is missing ---- */

/* Finds the first number that stands alone between dots, that of a block. False: there is none. */
static bool name_find_block(const char *name, size_t *before, size_t *behind) {
    for (size_t i = 1; name[0] && name[i]; i++) {
        size_t digits = name[i - 1] == '.' ? strspn(name + i, "0123456789") : 0;
        *before = i, *behind = i + digits;
        if (digits > 0 && digits <= 3 && name[*behind] == '.') return true;
    }
    return false;
}

/* Whether another block has the source tensor that one has. */
static const hf_stored *list_find_in_block(const hf_list *l, const char *name, size_t before, size_t behind,
                                           uint64_t block) {
    char other[512];
    int n = snprintf(other, sizeof other, "%.*s%llu%s", (int)before, name, LLU(block), name + behind);
    return n >= 0 && (size_t)n < sizeof other ? hf_list_find(l, other) : NULL;
}

static bool list_has_in_block(const hf_list *l, const char *name, size_t before, size_t behind,
                              uint64_t block) {
    return list_find_in_block(l, name, before, behind, block) != NULL;
}

bool hf_image_is_last_block(const hf_list *l, const char *name) {
    size_t before, behind;
    return name_find_block(name, &before, &behind) &&
           !list_has_in_block(l, name, before, behind, strtoull(name + before, NULL, 10) + 1);
}

/* Whether there is a block of that number beside the block that a source tensor is of. */
static bool list_has_block(const hf_list *l, const char *name, size_t before, uint64_t block) {
    char begin[512];
    int n = snprintf(begin, sizeof begin, "%.*s%llu.", (int)before, name, LLU(block));
    for (size_t i = 0; n > 0 && (size_t)n < sizeof begin && i < l->n; i++)
        if (name_behind(l->stored[i].name, begin)) return true;
    return false;
}

static const uint64_t NO_BLOCK = UINT64_MAX;

/* Returns the number of the last block if it alone lacks a source tensor; else NO_BLOCK. */
static uint64_t list_find_last_hole(const hf_list *l, const char *name, size_t before, size_t behind) {
    enum { AFTER_MOST = 32 };
    uint64_t block = strtoull(name + before, NULL, 10);
    for (uint64_t i = 0; i < block; i++)
        if (!list_has_in_block(l, name, before, behind, i)) return NO_BLOCK;
    if (l->n > ARRAYS_MOST || !list_has_block(l, name, before, block + 1)) return NO_BLOCK;
    for (uint64_t i = block + 2; i < block + AFTER_MOST; i++)
        if (list_has_block(l, name, before, i)) return NO_BLOCK;
    return block + 1;
}

/* Whether the first block, of three and more, alone lacks a source tensor. */
static bool list_lacks_first(const hf_list *l, const char *name, size_t before, size_t behind) {
    uint64_t n = 1;
    while (list_has_in_block(l, name, before, behind, n)) n++;
    return n >= 3 && l->n <= ARRAYS_MOST && list_has_block(l, name, before, 0) &&
           !list_has_block(l, name, before, n);
}

/* Whether a source tensor has another shape than that of two other blocks beside it, which are alike. */
static bool stored_is_odd(const hf_list *l, const hf_stored *t, bool last_differs) {
    size_t before, behind;
    if (!name_find_block(t->name, &before, &behind)) return false;
    uint64_t block = strtoull(t->name + before, NULL, 10);
    const hf_stored *beside[4];
    for (int i = 0; i < 4; i++) {
        int64_t at = (int64_t)block + (int64_t[]){-2, -1, 1, 2}[i];
        beside[i] = at < 0 ? NULL : list_find_in_block(l, t->name, before, behind, (uint64_t)at);
    }
    if (last_differs && !beside[2]) return false;
    const hf_stored *a = beside[1] ? beside[1] : beside[2], *b = beside[1] && beside[2] ? beside[2]
                                                                 : beside[1]            ? beside[0]
                                                                                        : beside[3];
    return a && b && a->n_dims == b->n_dims && !memcmp(a->shape, b->shape, sizeof a->shape) &&
           (t->n_dims != a->n_dims || memcmp(t->shape, a->shape, sizeof a->shape));
}

/* Returns the number of a block that lacks a source tensor: the block after the tensor's own, if most blocks and a
 * later one have the tensor; or the first block, if it alone has the tensor; else NO_BLOCK. A name with one word
 * behind its number is that of a layer among others, which have numbers, too. */
static uint64_t list_find_hole(const hf_list *l, const char *name, bool last_differs) {
    enum { BLOCKS_MOST = 256, HOLE_MOST = 32 };
    size_t before, behind;
    if (!name_find_block(name, &before, &behind) || !strchr(name + behind + 1, '.')) return NO_BLOCK;
    uint64_t block = strtoull(name + before, NULL, 10), last = 0, has = 0;
    if (block == 1 && !list_has_in_block(l, name, before, behind, 0))
        return list_lacks_first(l, name, before, behind) ? 0 : NO_BLOCK;
    if (list_has_in_block(l, name, before, behind, block + 1)) return NO_BLOCK;
    for (uint64_t i = block + 2; i < block + HOLE_MOST && !last; i++)
        if (list_has_in_block(l, name, before, behind, i)) last = i;
    for (uint64_t i = 0; last && i < BLOCKS_MOST; i++)
        if (list_has_in_block(l, name, before, behind, i)) has++, last = max(last, i);
    if (!last && !last_differs) return list_find_last_hole(l, name, before, behind);
    return last && (has == last || has * 4 >= (last + 1) * 3) ? block + 1 : NO_BLOCK;
}

bool hf_image_warn(const hf_image_kind *k, const hf_list *l, gq_error *e) {
    const char *first = NULL;
    const hf_stored *odd = NULL;
    size_t holes = 0;
    uint64_t hole = 0;
    for (size_t i = 0; i < l->n && !k->arch->image.folds; i++) {
        const char *name = l->stored[i].name;
        uint64_t block =
            name_behind(name, k->prefix) ? list_find_hole(l, name, k->arch->image.last_differs) : NO_BLOCK;
        if (block != NO_BLOCK && holes++ == 0) first = name, hole = block;
        if (!odd && name_behind(name, k->prefix) &&
            stored_is_odd(l, &l->stored[i], k->arch->image.last_differs))
            odd = &l->stored[i];
    }
    if (first && !hf_folder_warn(l->folder, "", e,
                                 "block %llu lacks '%s'%s, which the block beside it has: programs may "
                                 "refuse the GGUF; download the model again",
                                 LLU(hole), first, holes > 1 ? ", and more" : ""))
        return false;
    if (odd &&
        !hf_folder_warn(l->folder, "", e,
                        "tensor '%s' has another shape than in the blocks beside it: programs may refuse "
                        "the GGUF; download the model again",
                        odd->name))
        return false;
    return k->n_left_out == 0 || hf_folder_warn(l->folder, "", e,
                                                "%zu tensor%s such as '%s' %s left out, as the %s model has "
                                                "no such part: text encoders and VAEs are files of their own",
                                                k->n_left_out, plural_suffix(k->n_left_out), k->left_out,
                                                k->n_left_out == 1 ? "is" : "are", k->arch->name);
}
