// A program of somebody else's in C++, where names are mangled and structures not filled by name. For
// tests/install and tests/clean-root.
#include <cstring>
#include <gquant.h>
#include <vector>

int main() {
    gq_error e = {};
    gq_output out = {};
    gq_options options = {};
    out.filetype = "Q4_K_M";
    options.size = sizeof options;
    options.input = "/nowhere";
    options.outputs = &out;
    options.n_outputs = 1;
    gq_plan *plan = gq_plan_new(&options, &e);
    gq_plan_free(plan);
    if (e.status != GQ_FAILED || !std::strstr(e.text, "/nowhere")) return 1;
    char text[100];
    gq_printable(text, sizeof text, "\a"); // of the header that it includes
    std::vector<float> x(512, 0.5f), decoded(512);
    std::vector<unsigned char> blocks(2 * 272);
    gq_array_options how = {};
    how.size = sizeof how;
    how.threads = 2;
    const uint32_t type = static_cast<uint32_t>(gq_type_find("Q8_0"));
    return gq_encode(type, 2, 256, x.data(), &how, blocks.data(), blocks.size(), nullptr, &e) &&
                   gq_decode(type, 2, 256, blocks.data(), blocks.size(), decoded.data(), 1, &e) &&
                   decoded[300] > 0.49f && decoded[300] < 0.51f && !std::strcmp(text, "\\x07")
               ? 0
               : 1;
}
