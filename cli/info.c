/* The command `gquant info FILE`: shows a model's metadata, its tensors, and sums per tensor type. The
 * library opens the model with all its shards and hands out rows; here they become tables for people or, with
 * --json, one document for programs. The weights are not read through, so this is quick for any model. Lists
 * and texts in metadata are cut, because a vocabulary has hundreds of thousands of entries; how much is shown
 * is fixed below. Names and texts come from the file and may hold anything, so they reach a terminal only
 * through text_shown and print_line.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum {
    SHOWN_VALUES = 8,  /* elements of a list in the tables */
    JSON_VALUES = 256, /* the same in JSON */
    SHOWN_TEXT = 60,   /* bytes of a string in the tables */
};

/* ---- for people ---- */

static char *value_text(const gq_value *v) {
    switch (v->kind) {
    case GQ_UNSIGNED:
        return text_format("%" PRIu64, v->as_unsigned);
    case GQ_SIGNED:
        return text_format("%" PRId64, v->as_signed);
    case GQ_FLOAT:
        return text_format("%.7g", v->as_float);
    case GQ_BOOL:
        return text_format("%s", v->as_bool ? "true" : "false");
    case GQ_TEXT: {
        bool cut = v->length > SHOWN_TEXT;
        char *copy =
            text_format("%.*s", (int)(cut ? SHOWN_TEXT : v->length), v->text); /* "%.*s" also ends at a NUL */
        char *safe = text_shown(copy), *text = text_format("%s%s", safe, cut ? "..." : "");
        free(copy), free(safe);
        return text;
    }
    case GQ_NESTED:
        break;
    }
    return text_format("(a list)");
}

static char *metadata_text(const gq_metadata *m) {
    gq_value values[SHOWN_VALUES];
    size_t n = gq_metadata_values(m, values, SHOWN_VALUES);
    char *text = m->list ? text_format("[%" PRIu64 "]", m->count) : text_format("%s", "");
    for (size_t i = 0; i < n; i++) {
        char *value = value_text(&values[i]),
             *longer = text_format("%s%s%s", text, i || m->list ? " " : "", value);
        free(value), free(text);
        text = longer;
    }
    if (!m->list && strcmp(m->key, "general.file_type") == 0) {
        int filetype = gq_filetype_find(text);
        char *longer =
            text_format("%s%s%s%s", text, filetype < 0 ? "" : " (",
                        filetype < 0 ? "" : gq_filetype_name((size_t)filetype), filetype < 0 ? "" : ")");
        free(text);
        text = longer;
    }
    if (n < m->count) {
        char *longer = text_format("%s ...", text);
        free(text);
        text = longer;
    }
    return text;
}

static void print_metadata(const gq_model *m) {
    size_t n;
    const gq_metadata *rows = gq_model_metadata(m, &n);
    table t;
    table_start(&t, "ll1l", (const char *const[]){"key", "type", "value"});
    for (size_t i = 0; i < n; i++) {
        table_name(&t, rows[i].key);
        table_cell(&t, text_format("%s%s", rows[i].type, rows[i].list ? "[]" : ""));
        table_cell(&t, metadata_text(&rows[i]));
    }
    table_end(&t, stdout);
}

/* Prints the tensors; those of a folder with their arrays there, and what is done to these. */
static void info_print_tensors(const gq_model *m) {
    size_t n;
    const gq_stored *rows = gq_model_tensors(m, &n);
    bool folder = n > 0 && rows[0].origin;
    table t;
    table_start(&t, folder ? "ll1lrrl" : "ll1lrr",
                (const char *const[]){"tensor", "shape", "type", "bpw", "MB", "in the folder"});
    for (size_t i = 0; i < n; i++) {
        const gq_stored *s = &rows[i];
        uint64_t bytes = s->origin ? s->origin->bytes : s->bytes;
        table_name(&t, s->name);
        table_cell(&t, shape_text(s->ne, s->n_dims, s->transposed));
        table_cell(&t, report_origin_type(s->type, s->origin));
        table_cell(&t, text_format("%.3f", gq_bits_per_weight(bytes, s->n_weights)));
        table_cell(&t, text_format("%.2f", (double)bytes / 1e6));
        if (folder) table_cell(&t, report_origin_text(s->origin));
    }
    table_end(&t, stdout);
}

/* Sums over the tensors of one type. */
typedef struct info_type {
    char *name;
    uint32_t number;
    uint64_t n, bytes;
    double weights;
} info_type;

static int info_compare_types(const void *left, const void *right) {
    const info_type *a = left, *b = right;
    if (a->number != b->number) return a->number < b->number ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Adds a tensor to the sums of its type; returns their number. */
static size_t info_add_type(info_type *sums, size_t n, const gq_stored *s) {
    char *name = report_origin_type(s->type, s->origin);
    size_t i = 0;
    while (i < n && strcmp(sums[i].name, name) != 0) i++;
    if (i == n)
        sums[n++] = (info_type){.name = name, .number = s->type};
    else
        free(name);
    sums[i].n++, sums[i].weights += (double)s->n_weights;
    sums[i].bytes += s->origin ? s->origin->bytes : s->bytes;
    return n;
}

static void info_print_types(const gq_model *m) {
    size_t n, n_types = 0;
    const gq_stored *rows = gq_model_tensors(m, &n);
    info_type *sums = NULL;
    for (size_t i = 0; i < n; i++) {
        sums = need_next(sums, n_types, sizeof *sums);
        n_types = info_add_type(sums, n_types, &rows[i]);
    }
    if (n_types) qsort(sums, n_types, sizeof *sums, info_compare_types);
    table t;
    table_start(&t, "lrrrr", (const char *const[]){"type", "tensors", "weights", "bpw", "MB"});
    for (size_t i = 0; i < n_types; i++) {
        char count[UNIT_ROOM];
        table_text(&t, sums[i].name);
        table_cell(&t, text_format("%" PRIu64, sums[i].n));
        table_text(&t, count_text(count, sums[i].weights));
        table_cell(&t, text_format("%.3f", gq_bits_per_weight(sums[i].bytes, sums[i].weights)));
        table_cell(&t, text_format("%.2f", (double)sums[i].bytes / 1e6));
        free(sums[i].name);
    }
    table_end(&t, stdout);
    free(sums);
}

static void print_summary(const char *path, const gq_model *m) {
    const gq_model_facts *f = gq_model_summary(m);
    char size[UNIT_ROOM], count[UNIT_ROOM], *name = report_path(stdout, path, 2 * UNIT_ROOM);
    file_text(size, (double)f->file_bytes);
    char *line = f->version ? text_format("%s: GGUF version %u, %u file%s of %s, alignment %u", name,
                                          f->version, f->shards, plural_suffix(f->shards), size, f->alignment)
                            : text_format("%s: %s, %u file%s of %s", name,
                                          path_is_folder(path) ? "a folder from Hugging Face" : "safetensors",
                                          f->shards, plural_suffix(f->shards), size);
    print_wrapped(stdout, line);
    free(line);
    print_line(stdout, "%s weights in %" PRIu64 " tensor%s of %s, %.4g bits per weight",
               count_text(count, (double)f->n_weights), f->n_tensors, plural_suffix(f->n_tensors),
               file_text(size, (double)f->tensor_bytes), gq_bits_per_weight(f->tensor_bytes, f->n_weights));
    free(name);
}

/* ---- for programs ---- */

static void put_value(json_writer *j, const char *key, const gq_value *v) {
    switch (v->kind) {
    case GQ_UNSIGNED:
        return json_put_count(j, key, v->as_unsigned);
    case GQ_SIGNED:
        return json_put_signed(j, key, v->as_signed);
    case GQ_FLOAT:
        return json_put_number(j, key, v->as_float);
    case GQ_BOOL:
        return json_put_bool(j, key, v->as_bool);
    case GQ_TEXT:
        return json_put_bytes(j, key, v->text, v->length);
    case GQ_NESTED:
        return json_put_text(j, key, NULL);
    }
}

static void put_metadata(json_writer *j, const gq_metadata *m) {
    gq_value values[JSON_VALUES];
    size_t n = gq_metadata_values(m, values, JSON_VALUES);
    json_open(j, NULL, '{');
    json_put_text(j, "key", m->key);
    json_put_text(j, "type", m->type);
    if (m->list) {
        json_put_count(j, "count", m->count);
        json_open(j, "values", '[');
        for (size_t i = 0; i < n; i++) put_value(j, NULL, &values[i]);
        json_close(j);
    } else {
        put_value(j, "value", &values[0]);
    }
    json_close(j);
}

static void put_stored(json_writer *j, const gq_stored *t) {
    json_open(j, NULL, '{');
    json_put_text(j, "name", t->name);
    json_open(j, "shape", '[');
    for (uint32_t d = 0; d < t->n_dims; d++) json_put_count(j, NULL, t->ne[d]);
    json_close(j);
    if (t->transposed) json_put_bool(j, "transposed", true);
    json_put_text(j, "type", gq_type_name(t->type));
    json_put_count(j, "bytes", t->bytes);
    json_put_count(j, "shard", t->shard);
    json_put_count(j, "offset", t->offset);
    if (t->origin) {
        json_open(j, "origin", '{');
        json_put_text(j, "names", t->origin->names);
        json_put_text(j, "type", t->origin->type);
        json_put_text(j, "changes", t->origin->changes);
        json_put_count(j, "bytes", t->origin->bytes);
        json_close(j);
    }
    json_close(j);
}

static void put_info_facts(json_writer *j, const char *path, const gq_model *m) {
    const gq_model_facts *f = gq_model_summary(m);
    json_put_text(j, "path", path);
    json_put_count(j, "version", f->version);
    json_put_count(j, "shards", f->shards);
    json_put_count(j, "alignment", f->alignment);
    json_put_count(j, "file_bytes", f->file_bytes);
    json_put_count(j, "tensor_bytes", f->tensor_bytes);
    json_put_count(j, "weights", f->n_weights);
    json_put_number(j, "bits_per_weight", gq_bits_per_weight(f->tensor_bytes, f->n_weights));
}

static void info_print_json(const char *path, const gq_model *m) {
    size_t n;
    json_writer j = json_start(stdout, '{');
    put_info_facts(&j, path, m);
    const char *const *warnings = gq_model_warnings(m, &n);
    json_put_texts(&j, "warnings", warnings, n);
    const gq_metadata *metadata = gq_model_metadata(m, &n);
    json_open_lines(&j, "metadata", '[');
    for (size_t i = 0; i < n; i++) put_metadata(&j, &metadata[i]);
    json_close(&j);
    const gq_stored *tensors = gq_model_tensors(m, &n);
    json_open_lines(&j, "tensors", '[');
    for (size_t i = 0; i < n; i++) put_stored(&j, &tensors[i]);
    json_close(&j);
    json_end(&j);
}

int info_main(const request *r) {
    gq_error e = {0};
    gq_model *m = gq_model_open_adapted(r->arguments[0], &r->quantize.adapters, &e);
    if (!m) return say_failure(r->said, &e);
    size_t n;
    const char *const *warnings = gq_model_warnings(m, &n);
    if (!r->quiet) warn_all(r->said, warnings, n);
    if (r->json) {
        info_print_json(r->arguments[0], m);
    } else {
        print_summary(r->arguments[0], m);
        putchar('\n'), print_metadata(m);
        putchar('\n'), info_print_tensors(m);
        putchar('\n'), info_print_types(m);
        next_say(r, "plan", r->arguments[0], (char *)NULL);
    }
    gq_model_close(m);
    return GQ_OK;
}
