# To build for aarch64 on another machine: Debian's gcc-aarch64-linux-gnu and libc6-dev-arm64-cross, and zlib, PCRE2 and
# jansson in the folder that AARCH64_ROOT names, where cmake/libraries puts them.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(AARCH64_ROOT "$ENV{AARCH64_ROOT}" CACHE PATH "zlib, PCRE2 and jansson for aarch64")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES AARCH64_ROOT)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu ${AARCH64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${AARCH64_ROOT}/lib/pkgconfig)
set(ZLIB_USE_STATIC_LIBS ON)
