# What `cmake --install` lays down: the command with its man page and completion, the library, its public headers and a
# pkg-config file; and the same as a package (`cpack`).
# Relative to itself, as packages are not installed where the build would be.
file(RELATIVE_PATH GQUANT_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
# A static library does not say what it needs: whoever links it has to, with pkg-config --static.
set(GQUANT_PC_PRIVATE " -pthread -lz -lpcre2-8 -ljansson -lm")
if(GQUANT_HAVE_OPENMP)
  string(REGEX REPLACE "^(g?omp)$" "-l\\1" openmp "${GQUANT_OPENMP_LIBRARY}") # others are paths
  string(APPEND GQUANT_PC_PRIVATE " ${openmp}")
endif()
if(GQUANT_BLAS)
  list(JOIN BLAS_LIBRARIES " " blas)
  string(APPEND GQUANT_PC_PRIVATE " ${blas}")
endif()
if(NOT TARGET gquant-shared)
  set(GQUANT_PC_STATIC "${GQUANT_PC_PRIVATE}")
endif()
configure_file(cmake/gquant.pc.in gquant.pc @ONLY)
install(TARGETS gquant ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
if(TARGET gquant-shared)
  install(TARGETS gquant-shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT dev)
endif()
install(TARGETS gquant-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
# The names under which the command takes lines of llama.cpp's tools (cli/options/other_tools.c).
if(NOT WIN32)
  foreach(tool quantize imatrix perplexity)
    file(CREATE_LINK gquant ${CMAKE_CURRENT_BINARY_DIR}/gquant-${tool} SYMBOLIC)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/gquant-${tool} DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
  endforeach()
endif()
file(GLOB headers CONFIGURE_DEPENDS quantize/gquant*.h)
install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gquant COMPONENT dev)
install(FILES base/adapters.h base/callbacks.h base/error.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gquant/base COMPONENT dev)
install(FILES base/comm/comm.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gquant/base/comm COMPONENT dev)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/gquant.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
install(FILES docs/gquant.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)
file(GLOB pages CONFIGURE_DEPENDS docs/*.md) # those for users; what is for developers stays in the repository
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command)
install(DIRECTORY docs/examples docs/operations DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command RENAME copyright)

# The command writes its own completion scripts; one built for another machine cannot run here.
function(gquant_completion shell file folder)
  set(script ${CMAKE_CURRENT_BINARY_DIR}/completion/${shell}/${file})
  add_custom_command(OUTPUT ${script}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/completion/${shell}
    COMMAND gquant-cli completion ${shell} > ${script} DEPENDS gquant-cli VERBATIM)
  add_custom_target(completion-${shell} ALL DEPENDS ${script})
  if(NOT shell STREQUAL "zsh")
    install(FILES ${script} DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder} COMPONENT command)
    return()
  endif()
  # zsh looks into share/zsh/vendor-completions below /usr only, and into site-functions below /usr/local. The prefix is
  # known when files are installed: packages have another than the build.
  install(CODE "
    set(folder ${folder})
    if(CMAKE_INSTALL_PREFIX MATCHES \"/usr/?\\$\")
      set(folder zsh/vendor-completions)
    endif()
    file(INSTALL \"${script}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/\${folder}\")"
    COMPONENT command)
endfunction()
if(NOT CMAKE_CROSSCOMPILING)
  gquant_completion(bash gquant bash-completion/completions)
  gquant_completion(zsh _gquant zsh/site-functions)
  gquant_completion(fish gquant.fish fish/vendor_completions.d)
endif()

# Packages of Debian: the command, which needs none of the others, the same on ranks of MPI, the library, and what
# programs are built with.
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL command dev)
set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME gquant)
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libgquant-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "zlib1g-dev, libpcre2-dev, libjansson-dev")
if(TARGET gquant-mpi)
  install(TARGETS gquant-mpi RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT mpi)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/gquant-mpi COMPONENT mpi RENAME copyright)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_NAME gquant-mpi)
endif()
if(TARGET gquant-shared)
  list(APPEND CPACK_COMPONENTS_ALL library)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libgquant0)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_GENERATE_SHLIBS ON) # and a trigger for the loader's cache
  string(PREPEND CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libgquant0 (= ${PROJECT_VERSION}), ")
endif()
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_CONTACT "The gquant maintainers <gquant@users.noreply.example>")
# Each package's first line, and what is behind it.
set(CPACK_COMPONENT_COMMAND_DESCRIPTION "Quantizes GGUF models and reports what was lost\nThe command gquant with its manual page, completions and documents. It reads a folder from Hugging Face or a GGUF, and\nwrites a smaller GGUF for llama.cpp.")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "Library that quantizes GGUF models\nThe shared library, for programs that are linked with it.")
set(CPACK_COMPONENT_DEV_DESCRIPTION "Library that quantizes GGUF models: files for building programs\nHeaders, the static library and the pkg-config file.")
set(CPACK_COMPONENT_MPI_DESCRIPTION "Quantizes GGUF models on the ranks of an MPI job\nThe command gquant for clusters.")
set(CPACK_GQUANT_TRIPLET "${CMAKE_LIBRARY_ARCHITECTURE}")
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian.cmake)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
