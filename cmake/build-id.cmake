# The sources of the library as eight hex digits, for journals and measurements: what two builds write can be
# mixed only when these agree. Made when building, of names and contents alone, so that it is the same everywhere.
# Included by CMakeLists.txt, and run as a script with SOURCE and OUT when a source has changed.
if(CMAKE_SCRIPT_MODE_FILE)
  set(root ${SOURCE})
else()
  set(root ${PROJECT_SOURCE_DIR})
  set(watch CONFIGURE_DEPENDS)
endif()
set(sources)
foreach(room arch base codec forward gguf hf imatrix mixes quantize study)
  file(GLOB_RECURSE found RELATIVE ${root} ${watch} ${root}/${room}/*.c ${root}/${room}/*.h)
  list(APPEND sources ${found})
endforeach()
list(SORT sources)

if(CMAKE_SCRIPT_MODE_FILE)
  set(all "")
  foreach(source ${sources})
    file(SHA256 ${root}/${source} digest)
    string(APPEND all "${source} ${digest}\n")
  endforeach()
  string(SHA256 id "${all}")
  string(SUBSTRING ${id} 0 8 id)
  file(WRITE ${OUT} "extern const char gq_build_id[9];\nconst char gq_build_id[9] = \"${id}\";\n")
else()
  set(build_id ${PROJECT_BINARY_DIR}/build-id.c)
  list(TRANSFORM sources PREPEND ${root}/ OUTPUT_VARIABLE watched)
  add_custom_command(OUTPUT ${build_id}
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${root} -DOUT=${build_id} -P ${CMAKE_CURRENT_LIST_FILE}
    DEPENDS ${watched} ${CMAKE_CURRENT_LIST_FILE} VERBATIM)
  target_sources(gquant PRIVATE ${build_id})
endif()
