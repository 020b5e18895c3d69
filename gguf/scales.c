#include "gguf/scales.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* A column or row that is scaled: its number among those of all of the tensor's matrices. */
typedef struct scaled_line {
    uint64_t at;
    int by;
} scaled_line;
typedef struct scaled_lines {
    scaled_line *items;
    size_t n, capacity;
} scaled_lines;

typedef struct scaled_tensor {
    const model_tensor *tensor;
    scaled_lines columns, rows;
} scaled_tensor;

struct model_scales {
    scaled_tensor *items;
    size_t n, capacity;
};

model_scales *model_scales_new(gq_error *e) {
    model_scales *s = calloc(1, sizeof *s);
    if (!s) gq_fail_memory(e, sizeof *s);
    return s;
}

void model_scales_free(model_scales *s) {
    for (size_t i = 0; s && i < s->n; i++) free(s->items[i].columns.items), free(s->items[i].rows.items);
    if (s) free(s->items);
    free(s);
}

bool model_scales_type(const tensor_type *type) {
    return type->id == GGUF_F32 || type->id == GGUF_F16 || type->id == GGUF_BF16;
}

/* ---- what is scaled ---- */

/* Tensors of a layer come one after another, so the last ones are looked at first. */
static scaled_tensor *scales_find(const model_scales *s, const model_tensor *t) {
    for (size_t i = s->n; i > 0; i--)
        if (s->items[i - 1].tensor == t) return &s->items[i - 1];
    return NULL;
}

static scaled_tensor *scales_of_tensor(model_scales *s, const model_tensor *t, gq_error *e) {
    scaled_tensor *found = scales_find(s, t);
    if (found) return found;
    if (!memory_grow(&s->items, &s->capacity, s->n + 1, sizeof *s->items, e)) return NULL;
    s->items[s->n] = (scaled_tensor){.tensor = t};
    return &s->items[s->n++];
}

static bool scales_add(scaled_lines *to, uint64_t at, int by, gq_error *e) {
    if (!memory_grow(&to->items, &to->capacity, to->n + 1, sizeof *to->items, e)) return false;
    to->items[to->n++] = (scaled_line){at, by};
    return true;
}

bool model_scales_column(model_scales *s, const model_tensor *t, uint64_t matrix, uint64_t column, int by,
                         gq_error *e) {
    scaled_tensor *of = scales_of_tensor(s, t, e);
    return of && scales_add(&of->columns, matrix * t->ne[0] + column, by, e);
}

bool model_scales_row(model_scales *s, const model_tensor *t, uint64_t row, int by, gq_error *e) {
    scaled_tensor *of = scales_of_tensor(s, t, e);
    return of && scales_add(&of->rows, row, by, e);
}

bool model_scales_has(const model_scales *s, const model_tensor *t) { return s && scales_find(s, t); }

/* ---- values ---- */

/* Returns a binary16 value times 2^by, rounded to the nearest, of two to the even one. */
static uint16_t scale_half(uint16_t h, int by) {
    enum { BIAS = 15, BITS = 10, INFINITE = 31 };
    int exponent = h >> BITS & INFINITE, mantissa = h & ((1 << BITS) - 1);
    uint16_t sign = h & 0x8000;
    if (exponent == INFINITE) return h;
    double x =
        ldexp(exponent ? mantissa + (1 << BITS) : mantissa, (exponent ? exponent : 1) - BIAS - BITS + by);
    if (x == 0) return sign;
    int power;
    frexp(x, &power);
    if (power < 2 - BIAS) power = 2 - BIAS; /* below, all have the distance of the least normal ones */
    int steps = (int)rint(ldexp(x, BITS + 1 - power));
    uint32_t bits = ((uint32_t)(power - 2 + BIAS) << BITS) + (uint32_t)steps; /* steps have the leading one */
    return bits >= (uint32_t)INFINITE << BITS ? sign | INFINITE << BITS : sign | (uint16_t)bits;
}

static void scale_value(uint32_t type, void *values, uint64_t i, int by) {
    uint16_t *halves = values;
    if (type == GGUF_F32) {
        ((float *)values)[i] = ldexpf(((float *)values)[i], by);
    } else if (type == GGUF_F16) {
        halves[i] = scale_half(halves[i], by);
    } else {
        uint32_t bits = (uint32_t)halves[i] << 16;
        float x;
        memcpy(&x, &bits, sizeof x);
        x = ldexpf(x, by);
        memcpy(&bits, &x, sizeof bits);
        halves[i] = bits >> 16;
    }
}

void model_scales_values(const tensor_type *type, void *values, uint64_t n, int by) {
    for (uint64_t i = 0; i < n; i++) scale_value(type->id, values, i, by);
}

/* Returns the first line with a number of at least `at`. */
static size_t scales_from(const scaled_lines *l, uint64_t at) {
    size_t low = 0, high = l->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (l->items[middle].at < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void model_scales_apply(const model_scales *s, const model_tensor *t, uint64_t first, uint64_t n, void *to) {
    const scaled_tensor *of = scales_find(s, t);
    uint64_t columns = t->ne[0], end = first + n;
    if (!of || !n) return;
    for (uint64_t row = first / columns; row * columns < end; row++) {
        uint64_t matrix = row / t->ne[1], begin = row * columns;
        for (size_t i = scales_from(&of->columns, matrix * columns);
             i < of->columns.n && of->columns.items[i].at < (matrix + 1) * columns; i++) {
            uint64_t element = begin + of->columns.items[i].at % columns;
            if (element >= first && element < end)
                scale_value(t->type->id, to, element - first, of->columns.items[i].by);
        }
    }
    for (size_t i = scales_from(&of->rows, first / columns);
         i < of->rows.n && of->rows.items[i].at * columns < end; i++) {
        uint64_t begin = of->rows.items[i].at * columns, stop = begin + columns;
        for (uint64_t k = begin > first ? begin : first; k < stop && k < end; k++)
            scale_value(t->type->id, to, k - first, of->rows.items[i].by);
    }
}
