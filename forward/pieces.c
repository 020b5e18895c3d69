#include "forward/pieces.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* A seed that a file's author cannot know keeps him from choosing strings that fall on one slot. What is
 * found does not depend on it. */
static uint64_t seed_draw(void) {
    uint64_t seed = 0x9e3779b97f4a7c15;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed) seed ^= (uintptr_t)&seed;
    return seed | 1;
}

static uint64_t mix(uint64_t h, uint64_t word, uint64_t seed) {
    __uint128_t product = (__uint128_t)(h ^ word) * seed;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_text(const char *text, size_t n, uint64_t seed) {
    uint64_t h = seed ^ n, word;
    for (; n >= 8; text += 8, n -= 8) {
        memcpy(&word, text, 8);
        h = mix(h, word, seed);
    }
    word = 0;
    if (n) memcpy(&word, text, n);
    return mix(mix(h, word, seed), seed >> 7, 0xd6e8feb86659fd93);
}

/* A power of two, at most half of it used. */
static uint64_t slots_for(uint64_t most) {
    uint64_t n = 16;
    while (n < 2 * most) n *= 2;
    return n;
}

bool pieces_new(piece_table *p, uint64_t most, gq_error *e) {
    *p = (piece_table){.seed = seed_draw()};
    if (most >= NO_PIECE / 4)
        return gq_fail(e, "a vocabulary of %llu texts is too large", (unsigned long long)most);
    p->room = (uint32_t)most + 1, p->n_slots = slots_for(p->room);
    p->items = calloc(p->room, sizeof *p->items);
    p->slots = calloc(p->n_slots, sizeof *p->slots);
    return (p->items && p->slots) || gq_fail_memory(e, p->n_slots * sizeof *p->slots);
}

void pieces_free(piece_table *p) {
    free(p->items), free(p->slots);
    *p = (piece_table){0};
}

/* The slot of a text, or the free one where it would go. */
static uint32_t *slot_of(const piece_table *p, const char *text, size_t length) {
    uint64_t mask = p->n_slots - 1, at = hash_text(text, length, p->seed) & mask;
    for (; p->slots[at]; at = (at + 1) & mask) {
        const piece *i = &p->items[p->slots[at] - 1];
        if (i->length == length && !memcmp(i->text, text, length)) break;
    }
    return &p->slots[at];
}

uint32_t pieces_find(const piece_table *p, const char *text, size_t length) {
    return *slot_of(p, text, length) - 1;
}

uint32_t pieces_add(piece_table *p, const char *text, size_t length, bool *fresh) {
    uint32_t *slot = slot_of(p, text, length);
    *fresh = *slot == 0;
    if (*fresh) {
        p->items[p->n] = (piece){text, (uint32_t)length};
        *slot = ++p->n;
    }
    return *slot - 1;
}

bool merges_new(merge_table *m, uint64_t most, gq_error *e) {
    *m = (merge_table){.n_slots = slots_for(most), .seed = seed_draw()};
    m->slots = malloc(m->n_slots * sizeof *m->slots);
    if (!m->slots) return gq_fail_memory(e, m->n_slots * sizeof *m->slots);
    for (uint64_t i = 0; i < m->n_slots; i++) m->slots[i].left = NO_PIECE;
    return true;
}

void merges_free(merge_table *m) {
    free(m->slots);
    *m = (merge_table){0};
}

static merge *merge_slot(const merge_table *m, uint32_t left, uint32_t right) {
    uint64_t mask = m->n_slots - 1, at = mix(m->seed, (uint64_t)left << 32 | right, m->seed) & mask;
    while (m->slots[at].left != NO_PIECE && (m->slots[at].left != left || m->slots[at].right != right))
        at = (at + 1) & mask;
    return &m->slots[at];
}

void merges_add(merge_table *m, const merge *what) {
    merge *slot = merge_slot(m, what->left, what->right);
    if (slot->left == NO_PIECE) *slot = *what;
}

const merge *merges_find(const merge_table *m, uint32_t left, uint32_t right) {
    const merge *slot = merge_slot(m, left, right);
    return slot->left == NO_PIECE ? NULL : slot;
}
