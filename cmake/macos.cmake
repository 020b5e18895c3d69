# What macOS needs, before any target: what its C library lacks of Linux's goes before every source (base/platform/macos/posix.h), in
# place of the headers that it has not. The tests are not built where another machine cross-compiles, as they cannot run.
foreach(header sys/auxv malloc)
  file(CONFIGURE OUTPUT macos/headers/${header}.h CONTENT "")
endforeach()
include_directories(BEFORE SYSTEM ${CMAKE_CURRENT_BINARY_DIR}/macos/headers)
add_compile_definitions(_DARWIN_C_SOURCE)
add_compile_options(-include ${CMAKE_CURRENT_SOURCE_DIR}/base/platform/macos/posix.h)
if(CMAKE_CROSSCOMPILING)
  set(GQUANT_TESTS OFF)
endif()
