# What makes an undiscovered bug hard to exploit, in builds for use: bounds checks in the C library's functions, stack
# canaries and probes, addresses that cannot be foretold, relocations that cannot be overwritten. Sanitizers check more
# and do not go together with _FORTIFY_SOURCE. tests/hardening looks at the result.
if(GQUANT_SANITIZE)
  return()
endif()
if(WIN32) # its loader moves programs by itself, and the C library has no checks
  add_compile_options(-fstack-protector-strong)
  add_link_options(-fstack-protector-strong -Wl,--high-entropy-va)
  return()
endif()
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(optimised $<CONFIG:Release,RelWithDebInfo,MinSizeRel>) # level 0 cannot know the sizes of objects
set(level 2)
if((CMAKE_C_COMPILER_ID STREQUAL GNU AND CMAKE_C_COMPILER_VERSION VERSION_GREATER_EQUAL 12) OR
   (CMAKE_C_COMPILER_ID STREQUAL Clang AND CMAKE_C_COMPILER_VERSION VERSION_GREATER_EQUAL 9))
  set(level 3) # sizes that are known at run time only, too
endif()
include(CheckCCompilerFlag)
check_c_compiler_flag("-Werror -fstack-clash-protection" GQUANT_HAVE_STACK_CLASH) # clang has it for some processors
add_compile_options(-fstack-protector-strong $<$<BOOL:${GQUANT_HAVE_STACK_CLASH}>:-fstack-clash-protection>
  $<${optimised}:-U_FORTIFY_SOURCE> $<${optimised}:-D_FORTIFY_SOURCE=${level}>)
if(UNIX AND NOT APPLE) # ELF
  add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)
endif()
