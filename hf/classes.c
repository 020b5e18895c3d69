/* The list of classes that folders from Hugging Face may name, in the order of arch/'s tables: architectures, then
 * projectors, then those that are refused. */
#include <string.h>

#include "arch/arch.h"
#include "arch/kv.h"
#include "arch/projector.h"
#include "hf/hf.h"

/* The projector types that the metadata of a row name, at most two: vision, then audio. */
static void class_find_projectors(const arch_item *items, hf_class *to) {
    static const char key[] = ".projector_type";
    for (const arch_item *i = items; i && i->make != MAKE_END; i++) {
        size_t n = i->key ? strlen(i->key) : 0;
        if (i->make == KV_LIST) class_find_projectors(i->list, to);
        if (i->make != KV_TEXT || n < sizeof key - 1 || strcmp(i->key + n - (sizeof key - 1), key) != 0)
            continue;
        *(to->makes ? &to->also : &to->makes) = i->names;
    }
}

static bool class_of_architecture(size_t *i, hf_class *to) {
    const architecture *a;
    for (size_t row = 0; (a = arch_at(row)); row++)
        for (const arch_class *c = a->folder.classes; c && c->name; c++) {
            if (*i > 0) {
                --*i;
                continue;
            }
            *to = (hf_class){.name = c->name, .makes = a->name};
            to->kind = a->folder.target == TARGET_NONE ? HF_CLASS_MODEL : HF_CLASS_DRAFT;
            return true;
        }
    return false;
}

static bool class_of_projector(size_t *i, hf_class *to) {
    const arch_projector *p;
    for (size_t row = 0; (p = arch_projector_at(row)); row++)
        for (const char *const *c = p->classes; *c; c++) {
            if (*i > 0) {
                --*i;
                continue;
            }
            *to = (hf_class){.name = *c, .kind = HF_CLASS_PROJECTOR};
            class_find_projectors(p->folder.metadata, to);
            if (p->refused) to->kind = HF_CLASS_REFUSED, to->makes = p->refused, to->also = NULL;
            return true;
        }
    return false;
}

bool hf_class_at(size_t i, hf_class *to) {
    if (class_of_architecture(&i, to) || class_of_projector(&i, to)) return true;
    for (const arch_refusal *r = arch_refused; r->name; r++)
        if (i == 0)
            return *to = (hf_class){.name = r->name, .makes = r->why, .kind = HF_CLASS_REFUSED}, true;
        else
            i--;
    return false;
}
