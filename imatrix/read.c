/* Reading a file in whichever layout its content shows. */
#include "imatrix/read.h"

#include <string.h>

#include "imatrix/layouts.h"

bool imatrix_open(imatrix *im, const char *path, gq_error *e) {
    gq_file file;
    *im = (imatrix){0};
    return gq_file_open(&file, path, e) && imatrix_read(im, &file, e);
}

bool imatrix_read(imatrix *im, gq_file *file, gq_error *e) {
    *im = (imatrix){0};
    char magic[4] = {0};
    bool ok = imatrix_unpack(file, e);
    if (ok && file->size >= sizeof magic) ok = gq_file_read(file, 0, magic, sizeof magic, e);
    if (ok && memcmp(magic, "GGUF", sizeof magic) == 0) {
        ok = imatrix_read_gguf(im, file, e);
    } else {
        /* Never a second try as the other layout: a damaged file of one kind is not a file of the other. */
        ok = ok && imatrix_read_dat(im, file, e);
        gq_file_close(file);
    }
    if (!ok) imatrix_free(im);
    return ok;
}
