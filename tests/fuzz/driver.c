/* Run a target on files, or on all files of folders, or on standard input; or write its seeds.
 *
 *     replay-TARGET FILE|FOLDER...
 *     replay-TARGET --seeds FOLDER
 *     replay-TARGET < FILE
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

static size_t tried;

static void try_stream(FILE *f, const char *name) {
    size_t n = 0, room = 1 << 16;
    uint8_t *bytes = malloc(room);
    for (size_t got; bytes && (got = fread(bytes + n, 1, room - n, f)) > 0;)
        if ((n += got) == room) bytes = realloc(bytes, room *= 2);
    if (!bytes || ferror(f)) fprintf(stderr, "%s: cannot be read\n", name), exit(1);
    uint8_t *copy = fuzz_copy(bytes, n);
    free(bytes);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
    tried++;
}

static void try_path(const char *path) {
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char inside[4096];
        if (entry->d_name[0] == '.') continue;
        snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        try_path(inside);
    }
    if (folder) {
        closedir(folder);
        return;
    }
    FILE *f = fopen(path, "rb");
    if (!f) perror(path), exit(1);
    fprintf(stderr, "%s\n", path); /* before it is tried: a crash shows which one it was */
    try_stream(f, path);
    fclose(f);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--seeds") == 0) {
        fuzz_seeds(argv[2]);
        return 0;
    }
    for (int i = 1; i < argc; i++) try_path(argv[i]);
    if (argc == 1) try_stream(stdin, "standard input");
    printf("%zu inputs tried\n", tried);
    return 0;
}
