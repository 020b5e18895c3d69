# To build for macOS on another machine by the zig of PyPI's ziglang, which brings the C library's headers of macOS: ZIG_TARGET
# is aarch64-macos or x86_64-macos, ZIG_ROOT the folder with zig's tools, and with zlib, PCRE2 and jansson for that target:
# sh cmake/libraries makes it.
set(CMAKE_SYSTEM_NAME Darwin)
set(ZIG_TARGET "$ENV{ZIG_TARGET}" CACHE STRING "as zig has it")
set(ZIG_ROOT "$ENV{ZIG_ROOT}" CACHE PATH "zig's tools, and libraries for that target")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ZIG_TARGET ZIG_ROOT)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR "${ZIG_TARGET}")
set(CMAKE_C_COMPILER ${ZIG_ROOT}/bin/cc)
set(CMAKE_AR ${ZIG_ROOT}/bin/ar)
set(CMAKE_RANLIB ${ZIG_ROOT}/bin/ranlib)
set(CMAKE_FIND_ROOT_PATH ${ZIG_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_FRAMEWORK NEVER)
set(CMAKE_OSX_SYSROOT "" CACHE STRING "zig has its own")
set(ENV{PKG_CONFIG_LIBDIR} ${ZIG_ROOT}/lib/pkgconfig)
set(ZLIB_USE_STATIC_LIBS ON)
