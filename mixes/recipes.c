/* Recipes that publishers of models made common, by the names that their files have. docs/recipes.md says where
 * each is from. A recipe is a file type and patterns that go before its rules.
 */
#include <strings.h>

#include "mixes/mixes.h"

#define LARGE_ENDS "^output\\.weight$=Q8_0\n^token_embd\\.weight$=Q8_0\n"
const mix_named_recipe mix_named_recipes[] = {
    {"Q2_K_L", "Q2_K", LARGE_ENDS, "Q2_K with embedding and output in Q8_0"},
    {"Q3_K_XL", "Q3_K_L", LARGE_ENDS, "Q3_K_L with embedding and output in Q8_0"},
    {"Q4_K_L", "Q4_K_M", LARGE_ENDS, "Q4_K_M with embedding and output in Q8_0"},
    {"Q5_K_L", "Q5_K_M", LARGE_ENDS, "Q5_K_M with embedding and output in Q8_0"},
    {"Q6_K_L", "Q6_K", LARGE_ENDS, "Q6_K with embedding and output in Q8_0"},
};
const size_t mix_n_named_recipes = sizeof mix_named_recipes / sizeof *mix_named_recipes;

const mix_named_recipe *mix_recipe_named(const char *name) {
    for (size_t i = 0; i < mix_n_named_recipes; i++)
        if (!strcasecmp(mix_named_recipes[i].name, name)) return &mix_named_recipes[i];
    return NULL;
}
