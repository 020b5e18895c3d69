/* Finds a model by what people give as its path. That is a folder as it was downloaded; a folder of the hub's
 * cache, whose name is a checksum, or the one above it; a file of a folder; the folder of an image model's
 * parts, of which one is the model itself; or a file of weights alone. Everything else is refused with what
 * to give instead.
 */
#include "hf/sources/sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "arch/rules.h"

static const char DIFFUSION[] = "diffusion_pytorch_model", WEIGHTS[] = ".safetensors";

const char *hf_path_last(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool path_is(const char *path, mode_t kind) {
    struct stat st;
    return stat(path, &st) == 0 && (st.st_mode & S_IFMT) == kind;
}

/* Returns "folder/name", malloc'ed. */
static char *path_join(const char *folder, const char *name, gq_error *e) {
    return hf_folder_path(&(hf_folder){.path = (char *)folder}, name, e);
}

/* Returns the folder that a path's last part is in, malloc'ed. */
static char *path_above(const char *path, gq_error *e) {
    const char *last = hf_path_last(path);
    char *above = last == path ? strdup(".") : strndup(path, (size_t)(last - path) - (last - path > 1));
    if (!above) gq_fail_memory(e, strlen(path));
    return above;
}

/* Whether a folder has an entry, by its path. */
static bool folder_has(const char *folder, const char *name) {
    return hf_folder_has(&(hf_folder){.path = (char *)folder}, name);
}

/* ---- what a folder is called ---- */

/* Finds ".../models--ORGANIZATION--NAME/snapshots/REVISION", as the hub's cache names folders, and writes
 * "ORGANIZATION/NAME". False: the path is another. */
static bool hub_id(const char *whole, char *id, size_t size) {
    const char *revision = hf_path_last(whole);
    static const char between[] = "/snapshots/", begin[] = "models--";
    size_t n = (size_t)(revision - whole), m = sizeof between - 1;
    if (n <= m || strncmp(revision - m, between, m) != 0) return false;
    const char *end = revision - m, *name = end;
    while (name > whole && name[-1] != '/') name--;
    if (!name_behind(name, begin)) return false;
    name += sizeof begin - 1;
    if (name >= end || (size_t)(end - name) >= size) return false;
    memcpy(id, name, (size_t)(end - name));
    id[end - name] = 0;
    char *two = strstr(id, "--");
    if (two) *two = '/', memmove(two + 1, two + 2, strlen(two + 2) + 1);
    return true;
}

/* Whether a folder is the part of an image model's folder that is the model itself. */
static bool folder_is_component(const char *path, const char *whole) {
    const char *last = hf_path_last(whole);
    if (strcmp(last, "transformer") != 0 && strcmp(last, "unet") != 0) return false;
    char *above = path_join(path, "..", NULL);
    bool is = above && folder_has(above, "model_index.json");
    free(above);
    return is;
}

bool hf_folder_names(const char *path, char **id, char **stem, gq_error *e) {
    char *whole = realpath(path, NULL), *above = NULL, hub[256];
    const char *last = hf_path_last(path), *real = whole ? hf_path_last(whole) : last;
    bool is_above = strcmp(last, ".") == 0 || strcmp(last, "..") == 0 || !*last, ok = true;
    *id = *stem = NULL;
    if (whole && folder_is_component(path, whole)) {
        ok = (above = is_above || last == path ? path_join(path, "..", e) : path_above(path, e)) &&
             hf_folder_names(above, id, stem, e);
    } else if (whole && (is_above || strcmp(last, real) == 0) && hub_id(whole, hub, sizeof hub)) {
        ok = (*id = strdup(hub)) && (*stem = strdup(hf_path_last(hub)));
    } else if (is_above) {
        ok = (*id = strdup(*real ? real : "model")) &&
             (asprintf(stem, "%s/../%s", path, *id) >= 0 || (*stem = NULL));
    } else {
        ok = (*id = strdup(last)) && (*stem = strdup(path));
    }
    free(whole), free(above);
    if (ok) return true;
    free(*id), free(*stem);
    *id = *stem = NULL;
    return gq_fail_memory(e, strlen(path));
}

/* ---- folders ---- */

/* Follows a model's folder of the hub's cache to the revision that refs/main names. *path stays as it is
 * where the folder is another. */
static bool hub_follow(char **path, gq_error *e) {
    if (!folder_has(*path, "snapshots") || folder_has(*path, "config.json") ||
        !name_behind(hf_path_last(*path), "models--"))
        return true;
    hf_folder f = {.path = *path};
    char *revision = NULL, *to = NULL;
    size_t n = 0;
    bool ok = hf_folder_text(&f, "refs/main", &revision, &n, e);
    if (ok && revision) revision[strcspn(revision, " \r\n\t")] = 0;
    if (ok && (!revision || !*revision || strchr(revision, '/') || revision[0] == '.'))
        ok = gq_fail(e,
                     "%s is a folder of the Hugging Face cache without refs/main: name one of the folders in "
                     "%s/snapshots",
                     *path, *path);
    if (ok && asprintf(&to, "%s/snapshots/%s", *path, revision) < 0) ok = gq_fail_memory(e, n);
    if (ok && !path_is(to, S_IFDIR))
        ok = gq_fail(e, "%s: refs/main names %s, which is not a folder: download the model again", *path, to);
    free(revision);
    f.path = NULL;
    hf_folder_close(&f);
    if (ok)
        free(*path), *path = to;
    else
        free(to);
    return ok;
}

/* Looks for the files of weights that hold an image model by themselves. *name: the first one, or NULL;
 * *other: a second one, or NULL. */
static bool folder_find_image(const char *path, char **name, char **other, gq_error *e) {
    enum { FILES_MOST = 64 }; /* headers of more than that are not read */
    hf_folder f = {.path = (char *)path};
    char **names;
    size_t n;
    *name = *other = NULL;
    if (!hf_folder_list(&f, "", WEIGHTS, &names, &n, e)) return false;
    for (size_t i = 0; i < n && i < FILES_MOST && !*other; i++) {
        unsigned parts;
        size_t stem = hf_shard_stem(names[i], &parts);
        bool is_image = (!stem || name_behind(names[i] + stem, "-00001-")) && hf_image_is(path, names[i]);
        if (is_image) *(*name ? other : name) = names[i], names[i] = NULL;
    }
    for (size_t i = 0; i < n; i++) free(names[i]);
    free(names);
    return true;
}

/* Takes the folder's own file of an image model, where there is one. */
static bool place_take_image(hf_place *p, gq_error *e) {
    char *other;
    if (!folder_find_image(p->folder, &p->file, &other, e)) return false;
    if (other)
        gq_fail(e, "%s holds several models: name one of them, as %s/%s or %s/%s", p->folder, p->folder,
                p->file, p->folder, other);
    bool ok = !other;
    free(other);
    return ok;
}

static bool folder_has_weights(const char *path, const char *called, bool *has, gq_error *e) {
    hf_folder f = {.path = (char *)path};
    char **names;
    size_t n;
    if (!hf_folder_list(&f, called, WEIGHTS, &names, &n, e)) return false;
    *has = n > 0;
    hf_names_free(names, n);
    return true;
}

/* A folder of diffusers' weights: one file, or several that an index names. */
static bool place_set_diffusion(hf_place *p, gq_error *e) {
    p->called = DIFFUSION, p->is_image = true;
    if (folder_has(p->folder, "diffusion_pytorch_model.safetensors.index.json") ||
        !folder_has(p->folder, "diffusion_pytorch_model.safetensors"))
        return true;
    p->file = strdup("diffusion_pytorch_model.safetensors"); /* others are the same weights in other types */
    return p->file || gq_fail_memory(e, 0);
}

/* The whole of an image model: text encoders and more have folders of their own beside it. */
static bool place_find_pipeline(hf_place *p, gq_error *e) {
    static const char *const components[] = {"transformer", "unet"};
    p->is_image = true;
    if (!place_take_image(p, e)) return false;
    if (p->file) return true;
    for (size_t i = 0; i < 2; i++) {
        if (!folder_has(p->folder, components[i])) continue;
        p->pipeline = p->folder;
        return (p->folder = path_join(p->pipeline, components[i], e)) && place_set_diffusion(p, e);
    }
    return gq_fail(e,
                   "%s has a model_index.json, but no folder 'transformer' or 'unet': name the folder of the "
                   "model's weights",
                   p->folder);
}

static bool place_find_folder(hf_place *p, const char *path, gq_error *e) {
    char *id = NULL;
    bool diffusion = false, any = false;
    if (!(p->folder = strdup(path))) return gq_fail_memory(e, strlen(path));
    bool ok = hub_follow(&p->folder, e) && hf_folder_names(p->folder, &id, &p->stem, e) &&
              folder_has_weights(p->folder, DIFFUSION, &diffusion, e) &&
              folder_has_weights(p->folder, "", &any, e);
    free(id);
    if (!ok) return false;
    if (folder_has(p->folder, "model_index.json")) return place_find_pipeline(p, e);
    if (diffusion) return place_set_diffusion(p, e);
    if (folder_has(p->folder, "config.json")) return true;
    hf_folder f = {.path = p->folder};
    char names[HF_IMAGE_NAMES];
    if (!any || folder_has(p->folder, "adapter_config.json"))
        return hf_folder_fail_no_weights(&f, p->called, e);
    p->is_image = true;
    return place_take_image(p, e) &&
           (p->file ||
            gq_fail(
                e,
                "%s has weights, but no config.json, and none of its files is a supported image model (%s)",
                p->folder, hf_image_names(names, sizeof names)));
}

/* ---- files ---- */

/* Whether a file of this name describes its folder. */
static bool name_is_of_folder(const char *name) {
    return name_is_one(name, NAMES("config.json", "model_index.json", "tokenizer.json")) ||
           name_ends(name, ".safetensors.index.json");
}

/* Reads how a file begins; its size is in *size. False: it cannot be opened, or is shorter. */
static bool file_begin(const char *path, void *begin, size_t n, uint64_t *size) {
    gq_file f;
    if (!gq_file_open(&f, path, NULL)) return false;
    *size = f.size;
    bool ok = f.size >= n && gq_file_read(&f, 0, begin, n, NULL);
    gq_file_close(&f);
    return ok;
}

/* Whether a file begins as safetensors do: the length of a header that fits, and its brace. */
static bool file_is_safetensors(const char *path) {
    uint8_t begin[9];
    uint64_t length = 0, size;
    if (!file_begin(path, begin, sizeof begin, &size) || begin[8] != '{') return false;
    for (int i = 7; i >= 0; i--) length = length << 8 | begin[i];
    return length <= size - 8;
}

static bool file_is_gguf(const char *path) {
    char begin[4];
    uint64_t size;
    return file_begin(path, begin, sizeof begin, &size) && memcmp(begin, "GGUF", sizeof begin) == 0;
}

bool hf_place_is(const char *path) {
    const char *name = hf_path_last(path);
    if (path_is(path, S_IFDIR)) return true;
    if (!path_is(path, S_IFREG) || file_is_gguf(path)) return false;
    return name_is_of_folder(name) || name_ends(name, WEIGHTS) || name_ends(name, ".incomplete") ||
           file_is_safetensors(path);
}

static bool place_find_file(hf_place *p, const char *path, gq_error *e) {
    const char *name = hf_path_last(path);
    if (name_ends(name, ".incomplete"))
        return gq_fail(e, "%s is an unfinished download: download the model again", path);
    char *above = path_above(path, e);
    if (!above) return false;
    bool of_model =
        folder_has(above, "config.json") && (name_behind(name, "model") || name_behind(name, DIFFUSION));
    bool ok;
    if (name_is_of_folder(name) || of_model) {
        ok = place_find_folder(p, above, e);
        free(above);
        return ok;
    }
    size_t n = strlen(path), end = name_ends(name, WEIGHTS) ? strlen(WEIGHTS) : 0;
    unsigned parts;
    size_t stem = hf_shard_stem(name, &parts);
    if (stem) end = strlen(name) - stem;
    p->folder = above, p->is_image = true;
    ok = (p->file = strdup(name)) && (p->stem = strndup(path, n - end));
    return ok || gq_fail_memory(e, n);
}

/* ---- the whole ---- */

bool hf_place_find(hf_place *p, const char *path, gq_error *e) {
    size_t n = strlen(path);
    *p = (hf_place){.called = "model"};
    while (n > 1 && path[n - 1] == '/') n--;
    char *whole = strndup(path, n);
    if (!whole) return gq_fail_memory(e, n);
    bool ok = path_is(whole, S_IFDIR) ? place_find_folder(p, whole, e) : place_find_file(p, whole, e);
    free(whole);
    return ok;
}

void hf_place_free(hf_place *p) {
    free(p->folder), free(p->pipeline), free(p->file), free(p->stem);
    *p = (hf_place){.folder = NULL};
}
