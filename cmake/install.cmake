# What `cmake --install` lays down: the command with its man page and completion, the library, its public header and a
# pkg-config file; and the same as a package (`cpack`).
# Relative to itself, as packages are not installed where the build would be.
file(RELATIVE_PATH GQUANT_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
# A static library does not say what it needs: whoever links it has to.
set(openmp -lgomp) # which gcc finds in its own folder; clang does not look for its libomp there
if(NOT CMAKE_C_COMPILER_ID STREQUAL GNU)
  list(GET OpenMP_C_LIB_NAMES 0 openmp)
  set(openmp ${OpenMP_${openmp}_LIBRARY})
endif()
set(GQUANT_PC_PRIVATE " -pthread -lz -lpcre2-8 ${openmp} -lm")
if(GQUANT_BLAS)
  list(JOIN BLAS_LIBRARIES " " blas)
  string(APPEND GQUANT_PC_PRIVATE " ${blas}")
endif()
get_target_property(gquant_kind gquant TYPE)
if(gquant_kind STREQUAL "STATIC_LIBRARY")
  set(GQUANT_PC_STATIC "${GQUANT_PC_PRIVATE}")
endif()
configure_file(cmake/gquant.pc.in gquant.pc @ONLY)
install(TARGETS gquant ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS gquant-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES quantize/gquant.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gquant)
install(FILES gguf/error.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gquant/gguf)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/gquant.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES docs/gquant.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

# The command writes its own completion scripts; one built for another machine cannot run here.
function(gquant_completion shell file folder)
  set(script ${CMAKE_CURRENT_BINARY_DIR}/completion/${shell}/${file})
  add_custom_command(OUTPUT ${script}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/completion/${shell}
    COMMAND gquant-cli completion ${shell} > ${script} DEPENDS gquant-cli VERBATIM)
  add_custom_target(completion-${shell} ALL DEPENDS ${script})
  install(FILES ${script} DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder})
endfunction()
if(NOT CMAKE_CROSSCOMPILING)
  gquant_completion(bash gquant bash-completion/completions)
  gquant_completion(zsh _gquant zsh/vendor-completions)
  gquant_completion(fish gquant.fish fish/vendor_completions.d)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_CONTACT "The gquant maintainers <gquant@users.noreply.example>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Quantizes GGUF models and reports what was lost")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
