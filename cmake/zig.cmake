# To build by the zig of PyPI's ziglang, which brings the C libraries of macOS, and of Linux in any version: ZIG_TARGET is
# aarch64-macos.13.0, x86_64-linux-gnu.2.28 or the like, ZIG_ROOT the folder with zig's tools, and with zlib, PCRE2 and jansson
# for that target: sh cmake/libraries makes it.
set(ZIG_TARGET "$ENV{ZIG_TARGET}" CACHE STRING "as zig has it")
set(ZIG_ROOT "$ENV{ZIG_ROOT}" CACHE PATH "zig's tools, and libraries for that target")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ZIG_TARGET ZIG_ROOT)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR "${ZIG_TARGET}")
if(ZIG_TARGET MATCHES "macos")
  set(CMAKE_SYSTEM_NAME Darwin)
  # Names of other libraries are no part of ours. zlib 1.2.13 takes macOS for what it was in 1999, without fdopen.
  set(CMAKE_C_FLAGS_INIT "-fvisibility=hidden -Dfdopen=fdopen")
  set(CMAKE_OSX_SYSROOT "" CACHE STRING "zig has its own")
else()
  set(CMAKE_SYSTEM_NAME Linux)
endif()
set(CMAKE_C_COMPILER ${ZIG_ROOT}/bin/cc)
set(CMAKE_AR ${ZIG_ROOT}/bin/ar)
set(CMAKE_RANLIB ${ZIG_ROOT}/bin/ranlib)
set(CMAKE_C_LINK_LIBRARY_USING_WHOLE_ARCHIVE "-Wl,--whole-archive" "<LINK_ITEM>" "-Wl,--no-whole-archive") # also for macOS
set(CMAKE_C_LINK_LIBRARY_USING_WHOLE_ARCHIVE_SUPPORTED ON)
set(CMAKE_FIND_ROOT_PATH ${ZIG_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_FRAMEWORK NEVER)
set(ENV{PKG_CONFIG_LIBDIR} ${ZIG_ROOT}/lib/pkgconfig)
set(ZLIB_USE_STATIC_LIBS ON)
