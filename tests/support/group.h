/* Included before a test that is linked with others of its folder: its main() gets the name GQ_GROUP, and a
 * declaration. */
#define main(...) \
    GQ_GROUP(__VA_ARGS__); \
    int GQ_GROUP(__VA_ARGS__)
