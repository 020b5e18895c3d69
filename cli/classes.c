/* `gquant help classes`: the classes of Hugging Face folders, and the GGUF file that each becomes. */
#include "cli/commands.h"
#include "cli/report/table.h"
#include "cli/text.h"
#include "quantize/gquant_common.h"

void classes_print(void) {
    static const char *const files[] = {[GQ_CLASS_MODEL] = "model",
                                        [GQ_CLASS_DRAFT] = "draft model, with --target-model",
                                        [GQ_CLASS_PROJECTOR] = "projector, with --mmproj",
                                        [GQ_CLASS_REFUSED] = "not read"};
    table t;
    gq_folder_class c;
    table_start(&t, "lll",
                (const char *const[]){"CLASS IN config.json", "FILE", "ARCHITECTURE OR PROJECTOR TYPE"});
    for (size_t i = 0; gq_folder_class_at(i, &c); i++) {
        table_text(&t, c.name);
        table_text(&t, files[c.kind]);
        table_cell(&t,
                   text_format("%s%s%s", c.makes ? c.makes : "-", c.also ? ", " : "", c.also ? c.also : ""));
    }
    table_end(&t, stdout);
}
