# Given ROOT (the sources), WORK (a folder of ours) and GENERATOR: builds the page's part of the project without Node, with
# and without a page in web/prebuilt/.
file(REMOVE_RECURSE ${WORK})
set(source ${WORK}/source)
file(COPY ${ROOT}/cmake DESTINATION ${source})
file(WRITE ${source}/CMakeLists.txt [[
cmake_minimum_required(VERSION 3.25)
project(page LANGUAGES NONE)
include(cmake/web.cmake)
include(cmake/page.cmake)
add_custom_target(page ALL DEPENDS ${packed_page})
]])

# The variables of a search that found nothing.
function(build folder)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${source} -B ${WORK}/${folder} -G ${GENERATOR} --no-warn-unused-cli
                          -DNODE_EXECUTABLE=OFF
                          -DNPM_EXECUTABLE=OFF OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK}/${folder} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  set(output "${output}" PARENT_SCOPE)
endfunction()

build(without)
if(NOT output MATCHES "the page is left out" OR EXISTS ${WORK}/without/page.html.gz)
  message(FATAL_ERROR "expected no page without Node, got:\n${output}")
endif()

file(WRITE ${source}/web/prebuilt/index.html "<!doctype html><title>prebuilt</title>\n")
build(with)
if(NOT output MATCHES "using the page in web/prebuilt")
  message(FATAL_ERROR "expected a message that web/prebuilt is used, got:\n${output}")
endif()
execute_process(COMMAND gzip -dc ${WORK}/with/page.html.gz OUTPUT_VARIABLE page COMMAND_ERROR_IS_FATAL ANY)
if(NOT page STREQUAL "<!doctype html><title>prebuilt</title>\n")
  message(FATAL_ERROR "expected the page of web/prebuilt, got '${page}'")
endif()
