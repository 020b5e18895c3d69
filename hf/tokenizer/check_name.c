/* llama.cpp names a way of cutting texts by a digest of the ids of a fixed text, BOS included where the model puts it.
 * The table here has the digests that it knows.
 *
 * Merges of bytes are carried out on that text, of some 400 bytes. forward/tokens/tokenizer.h does so for any text, but
 * by a name of how to cut, which is what is looked for here. So the cuts are those of the folder's own expressions
 * (probe.c). Of the vocabulary's merges, half a million in the largest, only those matter
 * whose result is a part of the text; few are, and they are searched one by one.
 */
#include "hf/tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/memory.h"

enum {
    TEXT_MOST = HF_PROBE_MOST,
    MAPPED_MOST = 2 * TEXT_MOST,
    MERGES_MOST = 1 << 16 /* of the text; published vocabularies have some thousands */
};

/* The text: UTF-8, ends with a NUL that does not belong to it. */
static const char check_text[] = HF_CHECK_TEXT;

/* A span of the mapped text: a symbol while a piece is joined. */
typedef struct check_span {
    size_t begin, n;
} check_span;

/* Finds an added token, of those that begin there the longest. */
typedef struct check_added {
    size_t n; /* bytes; 0: none begins there */
    const json_t *id;
} check_added;

typedef struct name_check {
    const json_t *vocab;
    const char *lines;
    bool ignores_merges;
    size_t text_n;
    char mapped[MAPPED_MOST]; /* the text in byte characters */
    size_t at[TEXT_MOST + 1]; /* begin of each byte's character */
    check_added added[TEXT_MOST];
    hf_merge *merges;
    size_t n_merges, capacity;
    uint32_t ids[TEXT_MOST + 1]; /* the first is left free for BOS */
    size_t n;
    bool is_encoded; /* false: something cannot be carried out */
} name_check;

/* ---- the text ---- */

size_t hf_byte_character(uint8_t byte, char *to) {
    uint32_t code = byte;
    if (byte <= 0x20)
        code = 0x100u + byte;
    else if (byte >= 0x7f && byte <= 0xa0)
        code = 0x121u + (byte - 0x7fu);
    else if (byte == 0xad)
        code = 0x143;
    if (code < 0x80) return *to = (char)code, 1;
    to[0] = (char)(0xc0 | code >> 6), to[1] = (char)(0x80 | (code & 0x3f));
    return 2;
}

static void map_text(name_check *c) {
    size_t length = 0;
    c->text_n = strlen(check_text);
    for (size_t i = 0; i < c->text_n; i++) {
        c->at[i] = length;
        length += hf_byte_character((uint8_t)check_text[i], c->mapped + length);
    }
    c->at[c->text_n] = length;
}

static void find_added(name_check *c, const json_t *added) {
    const json_t *token;
    size_t i;
    json_array_foreach(added, i, token) {
        const json_t *content = json_object_get(token, "content");
        size_t n = json_string_length(content);
        for (size_t at = 0; n > 0 && at + n <= c->text_n; at++)
            if (n > c->added[at].n && memcmp(check_text + at, json_string_value(content), n) == 0)
                c->added[at] = (check_added){n, json_object_get(token, "id")};
    }
}

/* ---- merges ---- */

static bool text_contains(const name_check *c, const char *left, size_t n_left, const char *right,
                          size_t n_right) {
    size_t size = c->at[c->text_n];
    if (n_left == 0 || n_right == 0 || n_left > size || n_right > size - n_left) return false;
    const char *last = c->mapped + size - n_left - n_right;
    for (const char *from = c->mapped; from <= last; from++) {
        if (!(from = memchr(from, *left, (size_t)(last - from) + 1))) return false;
        if (memcmp(from, left, n_left) == 0 && memcmp(from + n_left, right, n_right) == 0) return true;
    }
    return false;
}

static bool merges_collect(name_check *c, const json_t *merges, gq_error *e) {
    size_t i;
    const json_t *merge;
    hf_merge m;
    json_array_foreach(merges, i, merge) {
        if (!hf_merge_split(merge, &m) || !text_contains(c, m.left, m.n_left, m.right, m.n_right)) continue;
        if (!memory_grow(&c->merges, &c->capacity, c->n_merges + 1, sizeof *c->merges, e)) return false;
        c->merges[c->n_merges++] = m;
        if (c->n_merges == MERGES_MOST) return c->is_encoded = false, true;
    }
    return true;
}

static size_t merge_rank(const name_check *c, const check_span *pair) {
    const char *text = c->mapped + pair->begin;
    for (size_t i = 0; i < c->n_merges; i++) {
        const hf_merge *m = &c->merges[i];
        if (m->n_left == pair[0].n && m->n_right == pair[1].n && memcmp(text, m->left, m->n_left) == 0 &&
            memcmp(text + m->n_left, m->right, m->n_right) == 0)
            return i;
    }
    return SIZE_MAX;
}

/* ---- pieces ---- */

static bool token_id(const json_t *number, uint32_t *id) {
    json_int_t value = json_integer_value(number);
    *id = (uint32_t)value;
    return json_is_integer(number) && value >= 0 && value <= UINT32_MAX;
}

static bool add_token(name_check *c, size_t begin, size_t n) {
    if (!token_id(json_object_getn(c->vocab, c->mapped + begin, n), &c->ids[1 + c->n])) return false;
    c->n++;
    return true;
}

/* Joins the pair of the lowest rank, of equal ones the first, until none is left. Returns the symbols. */
static size_t join_symbols(const name_check *c, check_span *symbols, size_t n) {
    size_t ranks[TEXT_MOST]; /* of a symbol with the next */
    for (size_t i = 0; i + 1 < n; i++) ranks[i] = merge_rank(c, symbols + i);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (ranks[i] < ranks[best]) best = i;
        if (ranks[best] == SIZE_MAX) break;
        symbols[best].n += symbols[best + 1].n;
        n--;
        memmove(symbols + best + 1, symbols + best + 2, (n - best - 1) * sizeof *symbols);
        memmove(ranks + best, ranks + best + 1, (n - best - 1) * sizeof *ranks);
        if (best + 1 < n) ranks[best] = merge_rank(c, symbols + best);
        if (best > 0) ranks[best - 1] = merge_rank(c, symbols + best - 1);
    }
    return n;
}

/* Adds the tokens of bytes [begin, end) of the text. False: a symbol is no token. */
static bool add_piece(name_check *c, size_t begin, size_t end) {
    check_span symbols[TEXT_MOST];
    size_t n = 0;
    if (c->ignores_merges && add_token(c, c->at[begin], c->at[end] - c->at[begin])) return true;
    for (size_t i = begin; i < end; i++) symbols[n++] = (check_span){c->at[i], c->at[i + 1] - c->at[i]};
    n = join_symbols(c, symbols, n);
    for (size_t i = 0; i < n; i++)
        if (!add_token(c, symbols[i].begin, symbols[i].n)) return false;
    return true;
}

/* Adds what lies between two added tokens. */
static bool add_segment(name_check *c, size_t begin, size_t end, gq_error *e) {
    hf_probe_cuts cuts = {{0}};
    bool is_cut;
    if (begin == end) return true;
    if (!hf_probe_cut(c->lines, check_text + begin, end - begin, &cuts, &is_cut, e)) return false;
    for (size_t from = begin, to; is_cut && c->is_encoded && from < end; from = to) {
        for (to = from + 1; to < end && !hf_probe_is_cut(&cuts, to - begin);) to++;
        c->is_encoded = add_piece(c, from, to);
    }
    c->is_encoded = c->is_encoded && is_cut;
    return true;
}

/* ---- digests ---- */

/* SHA-256 of the ids as "[1, 2, 3]". */
static const struct known_hash {
    const char *hash, *name;
} known_hashes[] = {
    {"b6e8e1518dc4305be2fe39c313ed643381c4da5db34a98f6a04c093f8afbe99b", "chatglm-bpe"},
    {"81d72c7348a9f0ebe86f23298d37debe0a5e71149e29bd283904c02262b27516", "chatglm-bpe"},
    {"a1336059768a55c99a734006ffb02203cd450fed003e9a71886c88acf24fdbc2", "glm4"},
    {"9ca2dd618e8afaf09731a7cf6e2105b373ba6a1821559f258b272fe83e6eb902", "glm4"},
    {"cdf5f35325780597efd76153d4d1c16778f766173908894c04afc20108536267", "glm4"},
    {"1431a23e583c97432bc230bff598d103ddb5a1f89960c8f1d1051aaa944d0b35", "minerva-7b"},
    {"7e57df22b1fe23a7b1e1c7f3dc4e3f96d43a4eb0836d0c6bdc3436d7b2f1c664", "hunyuan"},
    {"bba3b3366b646dbdded5dbc42d59598b849371afc42f7beafa914afaa5b70aa6", "hunyuan-dense"},
    {"a6b57017d60e6edb4d88ecc2845188e0eb333a70357e45dcc9b53964a73bbae6", "falcon-h1"},
    {"60476e1243776c4fb1b993dbd7a5f15ac22f83c80afdf425fa5ae01c8d44ef86", "falcon-h1"},
    {"3eda48b4c4dc7de733d1a8b3e3b4a85243dbbf704da2ee9d42c6beced8897896", "falcon-h1"},
    {"48f8e02c0359c0bbdd82f26909171fac1c18a457bb47573ed1fe3bbb2c1cfd4b", "falcon-h1"},
    {"81212dc7cdb7e0c1074ca62c5aeab0d43c9f52b8a737be7b12a777c953027890", "kimi-k2"},
    {"d4540891389ea895b53b399da6ac824becc30f2fba0e9ddbb98f92e55ca0e97c", "qwen2"},
    {"1444df51289cfa8063b96f0e62b1125440111bc79a52003ea14b6eac7016fd5f", "qwen35"},
    {"66b8d4e19ab16c3bfd89bce5d785fb7e0155e8648708a1f42077cb9fe002c273", "grok-2"},
    {"b3d1dd861f1d4c5c0d2569ce36baf3f90fe8a102db3de50dd71ff860d91be3df", "jina-v2-de"},
    {"0fe1cf6eda062318a1af7270f3331a85c539a01778ff948e24388e949c5282f4", "gpt-2"},
    {"9e454714343b69b99b71795c1d27a68c2a1d15dab111f4d353109f966af29da7", "lfm2"},
    {"0ef9807a4087ebef797fc749390439009c3b9eda9ad1a097abbe738f486c01e5", "llama-bpe"},
    {"049ecf7629871e3041641907f3de7c733e4dbfdc736f57d882ba0b0845599754", "deepseek-llm"},
    {"347715f544604f9118bb75ed199f68779f423cabb20db6de6f31b908d04d7821", "deepseek-coder"},
    {"8aeee3860c56296a157a1fe2fad249ec40aa59b1bb5709f4ade11c4e6fe652ed", "falcon"},
    {"9d032fcbd5501f4a38150912590928bfb36091efb5df11b8e2124b0390e3fb1e", "falcon3"},
    {"b6dc8df998e1cfbdc4eac8243701a65afe638679230920b50d6f17d81c098166", "olmo"},
    {"35d91631860c815f952d711435f48d356ebac988362536bed955d43bfa436e34", "starcoder"},
    {"3ce83efda5659b07b1ad37ca97ca5797ea4285d9b9ab0dc679e4a720c9da7454", "gpt-2"},
    {"32d85c31273f8019248f2559fed492d929ea28b17e51d81d3bb36fff23ca72b3", "stablelm2"},
    {"6221ad2852e85ce96f791f476e0b390cf9b474c9e3d1362f53a24a06dc8220ff", "refact"},
    {"9c2227e4dd922002fb81bde4fc02b0483ca4f12911410dee2255e4987644e3f8", "command-r"},
    {"d772b220ace2baec124bed8cfafce0ead7d6c38a4b65ef11261cf9d5d62246d1", "tiny_aya"},
    {"52df12b4c8d4176e7481aab4b6e8454d1fd0a210a04a574f6d4e067d10e23c3e", "cohere2moe"},
    {"e636dc30a262dcc0d8c323492e32ae2b70728f4df7dfe9737d9f920a282b8aea", "qwen2"},
    {"a8594e3edff7c29c003940395316294b2c623e09894deebbc65f33f1515df79e", "dbrx"},
    {"c7699093ba4255a91e702aa38a596aa81669f3525dae06c2953267dde580f448", "jina-v1-en"},
    {"171aeeedd6fb548d418a7461d053f11b6f1f1fc9b387bd66640d28a4b9f5c643", "jina-v2-es"},
    {"27949a2493fc4a9f53f5b9b029c82689cfbe5d3a1929bb25e043089e28466de6", "jina-v2-de"},
    {"a023e9fdc5a11f034d3ef515b92350e56fb2af1f66c6b6811a4444ea9bf8763d", "jina-v5-nano"},
    {"c136ed14d01c2745d4f60a9596ae66800e2b61fa45643e72436041855ad4089d", "smaug-bpe"},
    {"c7ea5862a53e4272c035c8238367063e2b270d51faa48c0f09e9d5b54746c360", "poro-chat"},
    {"7967bfa498ade6b757b064f31e964dddbb80f8f9a4d68d4ba7998fcf281c531a", "jina-v2-code"},
    {"7fc505bd3104ca1083b150b17d088b59534ede9bde81f0dd2090967d7fe52cee", "viking"},
    {"b53802fb28e26d645c3a310b34bfe07da813026ec7c7716883404d5e0f8b1901", "jais"},
    {"bc5108ee1eb6a3d600cadd065f63190fbd0554dbc9e4bbd6a0d977970afc8d2a", "jais-2"},
    {"7b3e7548e4308f52a76e8229e4e6cc831195d0d1df43aed21ac6c93da05fec5f", "codeshell"},
    {"63b97e4253352e6f357cc59ea5b583e3a680eaeaf2632188c2b952de2588485e", "tekken"},
    {"855059429035d75a914d1eda9f10a876752e281a054a7a3d421ef0533e5b6249", "smollm"},
    {"3c30d3ad1d6b64202cd222813e7736c2db6e1bd6d67197090fc1211fbc612ae7", "bloom"},
    {"bc01ce58980e1db43859146dc51b1758b3b88729b217a74792e9f8d43e479d21", "gpt3-finnish"},
    {"4e2b24cc4770243d65a2c9ec19770a72f08cffc161adbb73fcbb6b7dd45a0aae", "exaone"},
    {"fcace8b9cac38ce847670c970cd5892031a753a1ef381abd1d9af00f713da085", "phi-2"},
    {"60824e3c0d9401f89943cbb2fff727f0e2d4c545ba4df2d6e4f09a6db0f5b450", "chameleon"},
    {"8b5a93ed704057481f240da0be7e7dca721d7f8f4755263b6807227a2cbeae65", "roberta-bpe"},
    {"ad851be1dba641f2e3711822f816db2c265f788b37c63b4e1aeacb9ee92de8eb", "gigachat"},
    {"d4c8f286ea6b520b3d495c4455483cfa2302c0cfcd4be05d781b6a8a0a7cdaf1", "megrez"},
    {"877081d19cf6996e2c4ff0e1236341e9b7bde288f5311a56a937f0afbbb3aeb5", "deepseek-v3"},
    {"b3f499bb4255f8ca19fccd664443283318f2fd2414d5e0b040fbdd0cc195d6c5", "deepseek-r1-qwen"},
    {"ccc2ef013c104be7bae2965776d611e1d7a8a2a9c547dd93a682c9a9fc80352e", "gpt-4o"},
    {"7dec86086fcc38b66b7bc1575a160ae21cf705be7718b9d5598190d7c12db76f", "superbpe"},
    {"1994ffd01900cfb37395608534236ecd63f2bd5995d6cb1004dda1af50240f15", "trillion"},
    {"96a5f08be6259352137b512d4157e333e21df7edd3fcd152990608735a65b224", "bailingmoe"},
    {"d353350c764d8c3b39c763113960e4fb4919bea5fbf208a0e3b22e8469dc7406", "llama4"},
    {"0e9433cbbb161f89e264eb32e8e64bfe69e834973ffca5d41d3948a604a3e2a3", "pixtral"},
    {"d5f1dd6f980fec569fb218a81a7658ac45fc56b38c5a0adeb1c232fbe04ef5ec", "seed-coder"},
    {"b0a6b1c0bd5998ebd9df08611efde34a4ff03faed45ae09c43e6b31ebd4b94cf", "a.x-4.0"},
    {"f6791d196f87ce6b56a7d234be618e0d58f8cda3549416635b2bebcd22cd95c4", "midm-2.0"},
    {"169bf0296a13c4d9b7672313f749eb36501d931022de052aad6e36f2bf34dd51", "lfm2"},
    {"2085e1638f6c377a0aa4ead21b27bb4cb941bf800df86ed391011769c1758dfb", "exaone4"},
    {"a1e163ecab2e718a4c829d1148b6e86824ec36163bb71941c3dca9cd5ac25756", "mellum"},
    {"a0b64b4385f123663873756336c085744376d015ff328bb1d901598f63c44152", "modern-bert"},
    {"49fc0303c9e0d2c2c565c510f64b2d9b271276acdcdadff733249eda9f7d59df", "afmoe"},
    {"9b1be57e70d20d9501b2b3186e792d81181ae36ada3903c26f9fea418cf87206", "bailingmoe2"},
    {"53e325976a6e142379c19b09afcae354f2f496f147afa8f9e189a33fe4e3024e", "granite-docling"},
    {"f4f37b6c8eb9ea29b3eac6bb8c8487c5ab7885f8d8022e67edc1c68ce8403e95", "minimax-m2"},
    {"4a2e2abae11ca2b86d570fc5b44be4d5eb5e72cc8f22dd136a94b37da83ab665", "kormo"},
    {"9d70134b369a70e5735009b6de918f7581b5211f7c074d1f89f753aea8248af1", "youtu"},
    {"16389f0a1f51ee53e562ffd51c371dc508639ab0e4261502071836e50e223e91", "solar-open"},
    {"6c81ce329e0802883b22eabab0d3fa48357337ef1ecb45443828bf1f6254833f", "exaone-moe"},
    {"d30d75d9059f1aa2c19359de71047b3ae408c70875e8a3ccf8c5fba56c9d8af4", "qwen35"},
    {"b4b8ca1f9769494fbd956ebc4c249de6131fb277a4a3345a7a92c7dd7a55808d", "joyai-llm"},
    {"e4d54df1ebc1f2b91acd986c5b51aa50837d5faf7c7398e73c1f9e9ee5d19869", "kanana2"},
    {"862f827721df956049dff5ca81a57f29e575280bc622e290d3bf4e35eca29015", "f2llmv2"},
    {"62f6fb0a6fd5098caeabb19b07a5c1099cafc8b9c40eab6ea89ece4ec02fbc57", "sarvam-moe"},
    {"f728162c1315c26e40249849799b4ba3fe584c32084b4795b03eb295e63cb5af", "talkie"},
    {"36f3066e97b7f3994b379aaacde306c1444c6ae84e81a5ae3cd2b7ed3b8c42d4", "minicpm5"},
    {"f241072145675bf8322086f115aebad05e9f869557a238bf2150a2a417d1bf60", "granite-embed-multi-97m"},
    {"789696f5946cc0fc59371f39f6097cafed196b3acded6140432f26bbb1ae1669", "granite-embed-multi-311m"},
    {"9dcf830ee9990cdbf78cc523a5f7bd9ad8f3f9890c2d3581d2785ad10f07049d", "mellum2"},
    {"972da7b59cec44d1f0a490a86c96df53859e486e481563e5dddac155013d87ac", "laguna"},
};

/* Finds the name of a vocabulary that encodes the text to these ids; *name NULL: none is known. */
static bool hash_find(const uint32_t *ids, size_t n, const char **name, gq_error *e) {
    enum { NUMBER = 12 }; /* bytes of an id's ten digits, ", " */
    uint8_t digest[SHA256_BYTES];
    char hash[2 * SHA256_BYTES + 1], *list;
    size_t length = 0, room;
    *name = NULL;
    if (n > SIZE_MAX / NUMBER - 1) return gq_fail_memory(e, n);
    room = (n + 1) * NUMBER;
    if (!(list = malloc(room))) return gq_fail_memory(e, room);
    list[length++] = '[';
    for (size_t i = 0; i < n; i++)
        length += (size_t)snprintf(list + length, room - length, "%s%" PRIu32, i ? ", " : "", ids[i]);
    list[length++] = ']';
    sha256_sum(list, length, digest);
    free(list);
    sha256_print(digest, hash);
    for (size_t i = 0; i < sizeof known_hashes / sizeof *known_hashes; i++)
        if (strcmp(known_hashes[i].hash, hash) == 0) *name = known_hashes[i].name;
    return true;
}

/* ---- the whole ---- */

static bool encode(name_check *c, gq_error *e) {
    size_t from = 0;
    for (size_t at = 0; at < c->text_n && c->is_encoded; at++) {
        const check_added *added = &c->added[at];
        if (added->n == 0) continue;
        if (!add_segment(c, from, at, e)) return false;
        c->is_encoded = c->is_encoded && token_id(added->id, &c->ids[1 + c->n++]);
        from = at + added->n, at = from - 1;
    }
    return !c->is_encoded || add_segment(c, from, c->text_n, e);
}

static bool find_bos(const hf_tokenizer *t, uint32_t *id) {
    const json_t *content = hf_token_content(json_object_get(t->settings, "bos_token"));
    hf_special found = {.id = 0};
    bool is_found = content && hf_special_find_text(t, json_string_value(content), &found);
    *id = found.id;
    return is_found;
}

static bool check_look_up(name_check *c, const hf_tokenizer *t, const char **name, gq_error *e) {
    if (find_bos(t, &c->ids[0]) && !hash_find(c->ids, c->n + 1, name, e)) return false;
    return *name || hash_find(c->ids + 1, c->n, name, e);
}

bool hf_check_name(const hf_tokenizer *t, const char *lines, const char **name, gq_error *e) {
    const json_t *model = hf_json_model(t);
    name_check *c = calloc(1, sizeof *c);
    *name = NULL;
    if (!c) return gq_fail_memory(e, sizeof *c);
    c->vocab = json_object_get(model, "vocab"), c->lines = lines;
    c->ignores_merges = json_is_true(json_object_get(model, "ignore_merges"));
    c->is_encoded = true;
    map_text(c);
    find_added(c, json_object_get(t->json, "added_tokens"));
    bool ok = merges_collect(c, json_object_get(model, "merges"), e) && encode(c, e) &&
              (!c->is_encoded || check_look_up(c, t, name, e));
    free(c->merges);
    free(c);
    return ok;
}
