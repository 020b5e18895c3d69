/* All rows of projectors. */
#include "arch/projector.h"

#include "arch/projectors.h"

static const arch_projector *const files[] = {arch_projectors_vision, arch_projectors_audio,
                                              arch_projectors_both, arch_projectors_more};

const arch_projector *arch_projector_at(size_t i) {
    for (size_t f = 0; f < sizeof files / sizeof *files; f++)
        for (const arch_projector *p = files[f]; p->classes; p++)
            if (i-- == 0) return p;
    return NULL;
}
