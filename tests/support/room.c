/* The tests of a folder as one program. A link to it runs the test of the link's name; room-NAME test_X runs
 * test_X. groups.inc lists the tests. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define GROUP(name) int name##_main(void);
#define GROUP_WITH_ARGUMENTS(name) int name##_main(int argc, char **argv);
#include "groups.inc"
#undef GROUP
#undef GROUP_WITH_ARGUMENTS

typedef struct group {
    const char *name;
    int (*alone)(void); /* NULL: takes arguments */
    int (*with_arguments)(int argc, char **argv);
} group;

#define GROUP(name) {#name, name##_main, NULL},
#define GROUP_WITH_ARGUMENTS(name) {#name, NULL, name##_main},
static const group groups[] = {
#include "groups.inc"
};
enum { GROUPS = sizeof groups / sizeof *groups };

static const group *group_named(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < GROUPS; i++)
        if (!strcmp(groups[i].name, name)) return &groups[i];
    return NULL;
}

int main(int argc, char **argv) {
    const group *asked = group_named(argv[0]);
    if (!asked && argc > 1) asked = group_named(argv[1]), argc--, argv++;
    if (!asked) {
        fprintf(stderr, "the tests here:\n");
        for (size_t i = 0; i < GROUPS; i++) fprintf(stderr, "  %s\n", groups[i].name);
        return 2;
    }
    program_invocation_name = argv[0]; /* a test may start its program again */
    return asked->alone ? asked->alone() : asked->with_arguments(argc, argv);
}
