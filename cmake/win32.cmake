# What Windows needs, before any target: what its C library lacks of POSIX goes before every source (base/platform/win32/posix.h),
# in place of the headers that it has not. The tests are not built there.
set(GQUANT_TESTS OFF)
foreach(header auxv file ioctl mman random resource statvfs)
  file(CONFIGURE OUTPUT win32/headers/sys/${header}.h CONTENT "")
endforeach()
include_directories(BEFORE SYSTEM ${CMAKE_CURRENT_BINARY_DIR}/win32/headers)
include_directories(${CMAKE_CURRENT_SOURCE_DIR})
add_compile_definitions(__USE_MINGW_ANSI_STDIO=1 _WIN32_WINNT=0x0A00 NOMINMAX PCRE2_STATIC) # base/checked.h has min and max
# Formats are checked where others build: here gcc takes printf for Windows' own, in place of which there is another.
add_compile_options(-include base/platform/win32/posix.h -Wno-format)
# Windows promises 16 bytes of alignment on the stack, and gcc stores vectors of 32 and 64 bytes there as if they
# were aligned (gcc.gnu.org/bugzilla, 54412): the assembler makes unaligned moves of all.
add_compile_options(-Wa,-muse-unaligned-vector-move)
# One file that needs no other; as much of a stack as elsewhere; arguments in UTF-16.
add_link_options(-static -Wl,--stack,0x800000 -municode)
