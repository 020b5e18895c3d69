/* What a folder holds besides the text model that is made of it, told by the names of its arrays: those that see, hear
 * and speak, which the text model leaves out (hf/tensors/steps.c), and blocks that predict further tokens.
 */
#include "hf/beside.h"

#include "base/checked.h"
#include "hf/tensors/build_names.h"
#include "hf/tensors/steps.h"

/* Kinds in the order in which a name is asked for them; what is left is vision. */
static const struct {
    const char *name, *const marks[8];
} kinds[] = {
    {"speech", {"talker.", "token2wav.", "code2wav.", NULL}},
    {"audio", {"audio", "sound_", "speech_", "^conformer.", NULL}},
    {"vision", {"", NULL}},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

void hf_beside_find(model_source *m, const hf_config *c, const hf_list *l) {
    model_beside found[KINDS] = {0};
    for (size_t i = 0; i < l->n; i++) {
        const hf_stored *t = &l->stored[i];
        size_t k = 0;
        if (!hf_names_match(hf_common_left_out, t->name)) continue;
        while (k + 1 < KINDS && !hf_names_match(kinds[k].marks, t->name)) k++;
        found[k] = (model_beside){kinds[k].name, found[k].n + 1, add_sat(found[k].bytes, t->bytes), false};
    }
    for (size_t k = KINDS; k > 0; k--)
        if (found[k - 1].n) m->beside[m->n_beside++] = found[k - 1];
    if (c->predicting) m->beside[m->n_beside++] = (model_beside){"prediction", c->predicting, 0, true};
}
