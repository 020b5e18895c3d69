/* page.html as text, made by the build (CMakeLists.txt). Holds @REPORT@ once. */
#ifndef CLI_PAGE_H
#define CLI_PAGE_H

extern const char page[];

#endif
