/* Notes in tables and reports on tensors that come from a folder's arrays. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

char *report_origin_type(uint32_t type, const gq_origin *o) {
    if (!o || !*o->type) return text_format("%s", gq_type_name(type));
    return text_format("%.*s", (int)strcspn(o->type, ","), o->type);
}

char *report_origin_text(const gq_origin *o) {
    if (!o || !*o->names) return text_format("%s", o ? o->changes : "");
    bool changed = strcmp(o->changes, "as is") != 0;
    char *names = text_shown(o->names);
    char *text = text_format("from %s%s%s", names, changed ? ": " : "", changed ? o->changes : "");
    free(names);
    return text;
}
