/* Finds the known word that a mistyped one was meant to be, for messages. */
#include <ctype.h>
#include <string.h>

#include "base/error.h"

enum { LONGEST = 64 }; /* longer words are like no other */

/* The cost of typing b where a was meant; 0 stands for no character. A forgotten '_' is the likeliest
 * slip, a wrong digit the least likely: it asks for something else. */
static unsigned slip_cost(char a, char b) {
    if (toupper((unsigned char)a) == toupper((unsigned char)b)) return 0;
    if ((a == 0 && b == '_') || (a == '_' && b == 0)) return 1;
    return isdigit((unsigned char)a) || isdigit((unsigned char)b) ? 3 : 2;
}

/* Edit distance with these costs. */
static unsigned slip_distance(const char *a, const char *b) {
    size_t n = strlen(b);
    unsigned row[LONGEST + 1] = {0};
    for (size_t j = 0; j < n; j++) row[j + 1] = row[j] + slip_cost(0, b[j]);
    for (; *a; a++) {
        unsigned diagonal = row[0];
        row[0] += slip_cost(*a, 0);
        for (size_t j = 0; j < n; j++) {
            unsigned best = diagonal + slip_cost(*a, b[j]);
            if (row[j] + slip_cost(0, b[j]) < best) best = row[j] + slip_cost(0, b[j]);
            if (row[j + 1] + slip_cost(*a, 0) < best) best = row[j + 1] + slip_cost(*a, 0);
            diagonal = row[j + 1];
            row[j + 1] = best;
        }
    }
    return row[n];
}

const char *gq_nearest(const char *text, const char *const *words, size_t n, unsigned below) {
    const char *best = NULL;
    for (size_t i = 0; strlen(text) <= LONGEST && i < n; i++) {
        unsigned slips = strlen(words[i]) <= LONGEST ? slip_distance(text, words[i]) : below;
        if (slips < below) below = slips, best = words[i];
    }
    return best;
}
