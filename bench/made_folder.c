/* Writes a synthetic model as a Hugging Face folder: config.json, a byte-level BPE tokenizer.json, and
 * safetensors files. All offsets are known before a weight is made, so weights are written row by row. The
 * converter reorders rows of attn_q and attn_k (halves of a head become pairs); the folder has them in the order
 * before, so that it converts to the weights of the GGUF file.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/made.h"
#include "codec/codec.h"

enum { FP8_BLOCK = 128 }; /* rows and columns that share a scale */

/* A matrix of the folder: a tensor, or that of one expert; followed by a scale tensor where it is FP8. */
typedef struct made_array {
    const made_weight *weight;
    uint64_t expert;
    char name[96];
    bool fp8;
    uint64_t offset, bytes, scale_bytes; /* scales follow the elements; offsets are a file's */
    uint64_t file;
} made_array;

typedef struct made_folder {
    const made_model *model;
    const char *path;
    made_array *arrays;
    size_t n;
    uint64_t n_files;
} made_folder;

static FILE *folder_create(const made_folder *f, const char *name, char *path, size_t size) {
    if (snprintf(path, size, "%s/%s", f->path, name) >= (int)size)
        fprintf(stderr, "make-model: %s: the name is too long\n", f->path), exit(1);
    return made_create(path);
}

/* ---- safetensors tensors ---- */

/* GGUF's names in a layer, and the folder's; of experts where the second is set. */
static const struct {
    const char *gguf, *dense, *experts;
} array_names[] = {
    {"attn_norm", "input_layernorm", NULL},
    {"attn_q", "self_attn.q_proj", NULL},
    {"attn_k", "self_attn.k_proj", NULL},
    {"attn_v", "self_attn.v_proj", NULL},
    {"attn_output", "self_attn.o_proj", NULL},
    {"ffn_norm", "post_attention_layernorm", NULL},
    {"ffn_gate", "mlp.gate_proj", NULL},
    {"ffn_up", "mlp.up_proj", NULL},
    {"ffn_down", "mlp.down_proj", NULL},
    {"ffn_gate_inp", "block_sparse_moe.gate", NULL},
    {"ffn_gate_exps", NULL, "w1"},
    {"ffn_up_exps", NULL, "w3"},
    {"ffn_down_exps", NULL, "w2"},
};

static void array_set_name(made_array *a) {
    const char *name = a->weight->name;
    unsigned layer = 0;
    int behind = 0;
    if (sscanf(name, "blk.%u.%n", &layer, &behind) != 1) {
        snprintf(a->name, sizeof a->name, "%s",
                 strcmp(name, "token_embd.weight") == 0    ? "model.embed_tokens.weight"
                 : strcmp(name, "output_norm.weight") == 0 ? "model.norm.weight"
                                                           : "lm_head.weight");
        return;
    }
    size_t i = 0, n = strlen(name) - (size_t)behind - strlen(".weight");
    while (strlen(array_names[i].gguf) != n || memcmp(array_names[i].gguf, name + behind, n) != 0) i++;
    if (array_names[i].experts)
        snprintf(a->name, sizeof a->name, "model.layers.%u.block_sparse_moe.experts.%u.%s.weight", layer,
                 (unsigned)a->expert, array_names[i].experts);
    else
        snprintf(a->name, sizeof a->name, "model.layers.%u.%s.weight", layer, array_names[i].dense);
}

static uint64_t fp8_blocks(uint64_t n) { return (n + FP8_BLOCK - 1) / FP8_BLOCK; }

static made_array array_of(const made_model *m, const made_weight *w, uint64_t expert) {
    made_array a = {.weight = w, .expert = expert};
    const tensor_type *type = made_type_of(m, w);
    a.fp8 = m->fp8 && w->input && type == m->type;
    a.bytes = a.fp8 ? w->ne[0] * w->ne[1] : w->ne[1] * gguf_row_bytes(type, w->ne[0]);
    a.scale_bytes = a.fp8 ? sizeof(float) * fp8_blocks(w->ne[0]) * fp8_blocks(w->ne[1]) : 0;
    array_set_name(&a);
    return a;
}

/* Lists the safetensors tensors and assigns their offsets: files of about the same size, in order. */
static void folder_lay_out(made_folder *f, uint64_t shards) {
    const made_model *m = f->model;
    size_t n = 0;
    uint64_t all = 0, before = 0, offset = 0, file = 0;
    for (size_t i = 0; i < m->n; i++) n += m->weights[i].ne[2];
    f->arrays = made_allocate(n, sizeof *f->arrays);
    for (size_t i = 0; i < m->n; i++)
        for (uint64_t k = 0; k < m->weights[i].ne[2]; k++) {
            made_array *a = &f->arrays[f->n++];
            *a = array_of(m, &m->weights[i], k);
            all += a->bytes + a->scale_bytes;
        }
    for (size_t i = 0; i < f->n; i++) {
        made_array *a = &f->arrays[i];
        if (offset > 0 && before >= all / shards * (file + 1) && file + 1 < shards) file++, offset = 0;
        a->file = file, a->offset = offset;
        offset += a->bytes + a->scale_bytes, before += a->bytes + a->scale_bytes;
    }
    f->n_files = file + 1;
}

/* ---- weights ---- */

/* The row of a GGUF tensor that becomes row `row` of a safetensors tensor. */
static uint64_t array_row(const made_model *m, const made_array *a, uint64_t row) {
    if (!strstr(a->name, "q_proj") && !strstr(a->name, "k_proj")) return a->expert * a->weight->ne[1] + row;
    uint64_t head = m->shape.width / m->shape.heads, in = row % head;
    return row - in + in % (head / 2) * 2 + in / (head / 2);
}

static void write_numbers(FILE *to, const made_model *m, const made_array *a) {
    const tensor_type *type = made_type_of(m, a->weight);
    codec_encode *encode = kernels_select()->codecs[type->id].encode;
    uint64_t columns = a->weight->ne[0], bytes = gguf_row_bytes(type, columns);
    float *x = made_allocate(columns, sizeof *x);
    uint8_t *row = made_allocate(bytes, 1);
    for (uint64_t r = 0; r < a->weight->ne[1]; r++) {
        made_fill_row(m, a->weight, array_row(m, a, r), x);
        encode(x, row, 1, columns, NULL, &(encode_settings){.effort = EFFORT_DEFAULT});
        made_write(to, row, bytes);
    }
    free(x), free(row);
}

/* The nearest number of 4 bits of exponent (bias 7) and 3 of mantissa, ties to even; |x| is at most 448. */
static uint8_t e4m3_of(float x) {
    float a = fabsf(x);
    uint32_t bits;
    uint8_t sign = signbit(x) ? 0x80 : 0;
    if (a < 0x1p-6f) return (uint8_t)(sign | (uint8_t)nearbyintf(a * 0x1p9f)); /* 8 is the least normal one */
    memcpy(&bits, &a, sizeof bits);
    bits += 0x7ffff + (bits >> 20 & 1);
    return (uint8_t)(sign | ((bits >> 20) - (120 << 3)));
}

/* Makes elements of up to FP8_BLOCK rows, and their scales, each a block's largest number / 448. */
static void encode_fp8(const float *x, uint64_t rows, uint64_t columns, uint8_t *to, float *scales) {
    for (uint64_t b = 0; b < columns; b += FP8_BLOCK) {
        uint64_t end = b + FP8_BLOCK < columns ? b + FP8_BLOCK : columns;
        float most = 0;
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t i = b; i < end; i++) most = fmaxf(most, fabsf(x[r * columns + i]));
        float scale = scales[b / FP8_BLOCK] = most > 0 ? most / 448 : 1;
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t i = b; i < end; i++)
                to[r * columns + i] = e4m3_of(fminf(fmaxf(x[r * columns + i] / scale, -448), 448));
    }
}

static void write_fp8(FILE *to, const made_model *m, const made_array *a) {
    uint64_t columns = a->weight->ne[0], n = a->weight->ne[1], rows;
    float *x = made_allocate(FP8_BLOCK * columns, sizeof *x), *scales = made_allocate(a->scale_bytes, 1);
    uint8_t *bytes = made_allocate(FP8_BLOCK * columns, 1);
    for (uint64_t r = 0; r < n; r += rows) {
        rows = n - r < FP8_BLOCK ? n - r : FP8_BLOCK;
        for (uint64_t k = 0; k < rows; k++)
            made_fill_row(m, a->weight, array_row(m, a, r + k), x + k * columns);
        encode_fp8(x, rows, columns, bytes, scales + r / FP8_BLOCK * fp8_blocks(columns));
        made_write(to, bytes, rows * columns);
    }
    made_write(to, scales, a->scale_bytes);
    free(x), free(scales), free(bytes);
}

/* ---- files of weights ---- */

static void file_write_name(const made_folder *f, uint64_t file, char *to, size_t size) {
    if (f->n_files == 1)
        snprintf(to, size, "model.safetensors");
    else
        snprintf(to, size, "model-%05u-of-%05u.safetensors", (unsigned)file + 1, (unsigned)f->n_files);
}

static void write_entry(FILE *head, const char *name, const char *dtype, const made_weight *w, uint64_t rows,
                        uint64_t columns, uint64_t from, uint64_t bytes) {
    fprintf(head, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", name, dtype);
    if (!w->norm) fprintf(head, "%llu,", (unsigned long long)rows);
    fprintf(head, "%llu],\"data_offsets\":[%llu,%llu]}", (unsigned long long)columns,
            (unsigned long long)from, (unsigned long long)(from + bytes));
}

/* The header of a safetensors file, as it is made. */
typedef struct made_head {
    FILE *to;
    char *text;
    size_t n;
} made_head;

static void head_open(made_head *h) {
    h->to = open_memstream(&h->text, &h->n);
    if (!h->to) perror("make-model"), exit(1);
    fputs("{\"__metadata__\":{\"format\":\"pt\"}", h->to);
}

static void head_close(made_head *h, FILE *to) {
    fputc('}', h->to);
    while (ftell(h->to) % 8) fputc(' ', h->to);
    if (fclose(h->to) != 0) perror("make-model"), exit(1);
    uint64_t size = h->n; /* little-endian, as every machine that this runs on */
    made_write(to, &size, sizeof size);
    made_write(to, h->text, h->n);
    free(h->text);
}

/* Writes the header of a file, and returns the bytes of all that follows it. */
static uint64_t write_header(const made_folder *f, uint64_t file, FILE *to) {
    uint64_t data = 0;
    made_head head;
    head_open(&head);
    for (size_t i = 0; i < f->n; i++) {
        const made_array *a = &f->arrays[i];
        const made_weight *w = a->weight;
        if (a->file != file) continue;
        write_entry(head.to, a->name, a->fp8 ? "F8_E4M3" : made_type_of(f->model, w)->name, w, w->ne[1],
                    w->ne[0], a->offset, a->bytes);
        char scale[128];
        snprintf(scale, sizeof scale, "%s_scale_inv", a->name);
        if (a->fp8)
            write_entry(head.to, scale, "F32", w, fp8_blocks(w->ne[1]), fp8_blocks(w->ne[0]),
                        a->offset + a->bytes, a->scale_bytes);
        data = a->offset + a->bytes + a->scale_bytes;
    }
    head_close(&head, to);
    return data;
}

static void folder_write_file(const made_folder *f, uint64_t file) {
    char name[64], path[4096];
    file_write_name(f, file, name, sizeof name);
    FILE *to = folder_create(f, name, path, sizeof path);
    uint64_t data = write_header(f, file, to);
    if (f->model->sparse) made_extend(to, path, (uint64_t)ftell(to) + data);
    for (size_t i = 0; !f->model->sparse && i < f->n; i++)
        if (f->arrays[i].file == file)
            (f->arrays[i].fp8 ? write_fp8 : write_numbers)(to, f->model, &f->arrays[i]);
    made_close(to, path);
}

static void write_index(const made_folder *f) {
    char path[4096], file[64];
    FILE *to = folder_create(f, "model.safetensors.index.json", path, sizeof path);
    const char *between = "{\"metadata\":{},\"weight_map\":{\n";
    for (size_t i = 0; i < f->n; i++, between = ",\n") {
        const made_array *a = &f->arrays[i];
        file_write_name(f, a->file, file, sizeof file);
        fprintf(to, "%s\"%s\":\"%s\"", between, a->name, file);
        if (a->fp8) fprintf(to, ",\n\"%s_scale_inv\":\"%s\"", a->name, file);
    }
    fputs("}}\n", to);
    made_close(to, path);
}

/* ---- texts ---- */

enum { SPECIAL = 2, BYTES = 256, FIRST_WORD = SPECIAL + BYTES };

static void write_config(const made_folder *f) {
    made_shape s = f->model->shape;
    char path[4096];
    FILE *to = folder_create(f, "config.json", path, sizeof path);
    fprintf(to, "{\"architectures\":[\"%s\"],\"model_type\":\"%s\",\"torch_dtype\":\"%s\",\n",
            s.experts ? "MixtralForCausalLM" : "LlamaForCausalLM", s.experts ? "mixtral" : "llama",
            f->model->type->id == GGUF_F32   ? "float32"
            : f->model->type->id == GGUF_F16 ? "float16"
                                             : "bfloat16");
    if (s.experts)
        fprintf(to, "\"num_local_experts\":%u,\"num_experts_per_tok\":%d,\n", (unsigned)s.experts,
                (int)s.used);
    if (f->model->fp8)
        fprintf(to,
                "\"quantization_config\":{\"quant_method\":\"fp8\",\"fmt\":\"e4m3\",\"activation_scheme\":"
                "\"dynamic\",\"weight_block_size\":[%d,%d]},\n",
                FP8_BLOCK, FP8_BLOCK);
    fprintf(to,
            "\"hidden_size\":%u,\"intermediate_size\":%u,\"num_hidden_layers\":%u,\"num_attention_heads\":%u,"
            "\"num_key_value_heads\":%u,\n\"max_position_embeddings\":2048,\"rms_norm_eps\":1e-05,\"rope_"
            "theta\":10000,"
            "\"vocab_size\":%u,\"bos_token_id\":0,\"eos_token_id\":1,\"tie_word_embeddings\":false}\n",
            (unsigned)s.width, (unsigned)s.feed, (unsigned)s.layers, (unsigned)s.heads, (unsigned)s.kv_heads,
            (unsigned)s.vocabulary);
    made_close(to, path);
}

/* Writes the character that stands for a byte: itself, if it is printed and no space, else the next one from
 * U+0100 on. */
static void write_byte(FILE *to, unsigned byte) {
    unsigned code = 256;
    for (unsigned i = 0; i <= byte; i++) {
        bool own = (i > 32 && i < 127) || (i > 160 && i != 173);
        if (i == byte && own) code = i;
        if (i < byte && !own) code++;
    }
    if (code == '"' || code == '\\')
        fprintf(to, "\\%c", (int)code);
    else if (code < 128)
        fputc((int)code, to);
    else
        fprintf(to, "%c%c", (int)(0xc0 | code >> 6), (int)(0x80 | (code & 63)));
}

static const char SPACE[] = "\xc4\xa0"; /* the character of byte 32 */

/* Special tokens, the 256 bytes, then synthetic words in pairs: alone, and after a space. */
static void write_vocabulary(FILE *to, uint64_t n) {
    static const char *const special[] = {"<s>", "</s>"};
    char word[32];
    for (uint64_t i = 0; i < n; i++) {
        fputs(i ? ",\n\"" : "\"", to);
        if (i < SPECIAL)
            fputs(special[i], to);
        else if (i < FIRST_WORD)
            write_byte(to, (unsigned)(i - SPECIAL));
        else
            made_word(word, sizeof word, (i - FIRST_WORD) / 2),
                fprintf(to, "%s%s", (i - FIRST_WORD) % 2 ? SPACE : "", word);
        fprintf(to, "\":%u", (unsigned)i);
    }
}

/* A syllable is merged of its letters and gets the space in front of it; a longer word is merged of its first
 * syllable, with the space, and the rest, which is a word of a smaller number. */
static void write_merges(FILE *to, uint64_t n) {
    char word[32];
    for (uint64_t i = FIRST_WORD; i < n; i++) {
        uint64_t number = (i - FIRST_WORD) / 2;
        bool behind_space = (i - FIRST_WORD) % 2;
        int first = number >= 100 ? 2 : behind_space ? 0 : 1;
        made_word(word, sizeof word, number);
        fprintf(to, "%s\"%s%.*s %s\"", i > FIRST_WORD ? ",\n" : "", behind_space ? SPACE : "", first, word,
                word + first);
    }
}

static void write_folder_tokenizer(const made_folder *f) {
    char path[4096];
    FILE *to = folder_create(f, "tokenizer.json", path, sizeof path);
    uint64_t n = f->model->shape.vocabulary;
    fputs("{\"version\":\"1.0\",\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"special\":true},"
          "{\"id\":1,\"content\":\"</s>\",\"special\":true}],\n\"normalizer\":null,\"pre_tokenizer\":"
          "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},\n"
          "\"model\":{\"type\":\"BPE\",\"vocab\":{",
          to);
    write_vocabulary(to, n);
    fputs("},\n\"merges\":[", to);
    write_merges(to, n);
    fputs("]}}\n", to);
    made_close(to, path);
    to = folder_create(f, "tokenizer_config.json", path, sizeof path);
    fputs("{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"add_bos_token\":true,\"add_eos_token\":false}\n",
          to);
    made_close(to, path);
}

/* ---- an adapter ---- */

enum { LORA_RANK = 8, LORA_ALPHA = 16 };

/* Writes lora_A[rank][columns] and lora_B[rows][rank], normal with deviations of 1 / sqrt(columns) and 1 / 100. */
static void write_lora(FILE *to, const made_model *m, const made_weight *w) {
    uint64_t a = LORA_RANK * w->ne[0], b = LORA_RANK * w->ne[1],
             state = m->seed ^ (uint64_t)(w - m->weights + 1) * 0x9e3779b97f4a7c15u;
    float *x = made_allocate(a + b, sizeof *x);
    for (uint64_t i = 0; i < a + b; i++)
        x[i] = made_normal(&state) * (i < a ? 1 / sqrtf((float)w->ne[0]) : .01f);
    made_write(to, x, (a + b) * sizeof *x);
    free(x);
}

void made_write_adapter(const made_model *m, const char *base, const char *path) {
    made_folder f = {.model = m, .path = path};
    char name[4096], lora[160];
    if (mkdir(path, 0777) != 0 && errno != EEXIST) perror(path), exit(1);
    folder_lay_out(&f, 1);
    FILE *to = folder_create(&f, "adapter_config.json", name, sizeof name);
    fprintf(to,
            "{\"peft_type\":\"LORA\",\"task_type\":\"CAUSAL_LM\",\"base_model_name_or_path\":\"%s\",\"r\":%d,"
            "\"lora_alpha\":%d,\"bias\":\"none\",\"target_modules\":[\"o_proj\"]}\n",
            base, LORA_RANK, LORA_ALPHA);
    made_close(to, name);
    to = folder_create(&f, "adapter_model.safetensors", name, sizeof name);
    made_head head;
    head_open(&head);
    uint64_t at = 0;
    for (size_t i = 0; i < f.n; i++) {
        const made_weight *w = f.arrays[i].weight;
        int stem = (int)(strlen(f.arrays[i].name) - strlen(".weight"));
        if (!strstr(f.arrays[i].name, "o_proj")) continue;
        for (int b = 0; b < 2; b++) {
            uint64_t rows = b ? w->ne[1] : LORA_RANK, columns = b ? LORA_RANK : w->ne[0];
            snprintf(lora, sizeof lora, "base_model.model.%.*s.lora_%c.weight", stem, f.arrays[i].name,
                     "AB"[b]);
            write_entry(head.to, lora, "F32", w, rows, columns, at, rows * columns * sizeof(float));
            at += rows * columns * sizeof(float);
        }
    }
    head_close(&head, to);
    for (size_t i = 0; i < f.n; i++)
        if (strstr(f.arrays[i].name, "o_proj")) write_lora(to, m, f.arrays[i].weight);
    made_close(to, name);
    free(f.arrays);
}

void made_write_folder(const made_model *m, const char *path, uint64_t shards) {
    made_folder f = {.model = m, .path = path};
    if (mkdir(path, 0777) != 0 && errno != EEXIST) perror(path), exit(1);
    folder_lay_out(&f, shards);
    write_config(&f);
    write_folder_tokenizer(&f);
    for (uint64_t i = 0; i < f.n_files; i++) folder_write_file(&f, i);
    if (f.n_files > 1) write_index(&f);
    free(f.arrays);
}
