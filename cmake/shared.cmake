# attend_limit_exports(TARGET): gives a shared library its version and hides every symbol that no public header declares.
# The linker does it, by a list made from the headers: the headers need no marks, and the objects are the same as those
# of the static library.
find_program(AWK_EXECUTABLE NAMES awk)
set(exports_map ${PROJECT_BINARY_DIR}/exports.map)
set(exports_script ${CMAKE_CURRENT_LIST_DIR}/exports.awk)
add_custom_command(
  OUTPUT ${exports_map}
  COMMAND ${AWK_EXECUTABLE} -f ${exports_script} ${ATTEND_HEADERS} > ${exports_map}
  DEPENDS ${exports_script} ${ATTEND_HEADERS}
  VERBATIM
  COMMENT "Listing what the shared library exports")
add_custom_target(attend_exports DEPENDS ${exports_map})

function(attend_limit_exports target)
  if(NOT AWK_EXECUTABLE)
    message(FATAL_ERROR "The shared library needs awk, which lists the names to export")
  endif()
  set(map ${PROJECT_BINARY_DIR}/exports.map)
  add_dependencies(${target} attend_exports)
  # Before 1.0 each minor version may change the ABI.
  set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} LINK_DEPENDS ${map}
                                             SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_link_options(${target} PRIVATE LINKER:--version-script=${map} LINKER:--no-undefined)
endfunction()
