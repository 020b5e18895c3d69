# To build for aarch64 on another machine: Debian's gcc-aarch64-linux-gnu, and zlib1g-dev, libpcre2-dev, libjansson-dev of
# arm64 (dpkg --add-architecture arm64), or these unpacked into the folder that AARCH64_ROOT names.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu $ENV{AARCH64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(ENV{PKG_CONFIG_LIBDIR} $ENV{AARCH64_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} $ENV{AARCH64_ROOT})
