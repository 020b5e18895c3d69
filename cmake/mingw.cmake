# To build for Windows on another machine: Debian's gcc-mingw-w64-x86-64-posix and libz-mingw-w64-dev, and PCRE2 and
# jansson in the folder that MINGW_ROOT names, where cmake/libraries puts them.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)
set(MINGW_ROOT "$ENV{MINGW_ROOT}" CACHE PATH "PCRE2 and jansson for Windows")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MINGW_ROOT)
set(CMAKE_FIND_ROOT_PATH /usr/x86_64-w64-mingw32 ${MINGW_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${MINGW_ROOT}/lib/pkgconfig)
# One file that needs no other of ours: of zlib the library that becomes part of it.
set(ZLIB_USE_STATIC_LIBS ON)
