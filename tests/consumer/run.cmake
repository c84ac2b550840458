# Given ATTEND_BUILD (a build of attend), WORK (a folder of ours), GENERATOR, COMPILER, SANITIZE, and SHARED, the shared
# library or nothing. Builds main.cpp by find_package, by pkg-config, and against the shared library.
set(prefix ${WORK}/prefix)
set(flags "")
set(sanitize "")
if(SANITIZE)
  set(sanitize -fsanitize=${SANITIZE})
  set(flags "-DCMAKE_CXX_FLAGS=${sanitize}")
endif()
file(REMOVE_RECURSE ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${ATTEND_BUILD} --prefix ${prefix} OUTPUT_QUIET
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK}/build -G ${GENERATOR}
                        -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_PREFIX_PATH=${prefix} ${flags}
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK}/build COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${WORK}/build/consumer COMMAND_ERROR_IS_FATAL ANY)

file(GLOB_RECURSE pc_file ${prefix}/*/attend.pc)
cmake_path(GET pc_file PARENT_PATH pc_folder)
set(ENV{PKG_CONFIG_PATH} ${pc_folder})
foreach(question modversion cflags libs)
  execute_process(COMMAND pkg-config --${question} attend OUTPUT_VARIABLE ${question} OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(${question})
endforeach()
file(STRINGS ${prefix}/include/attend/version.h version REGEX "^#define ATTEND_VERSION \"${modversion}\"$")
if(NOT version)
  message(FATAL_ERROR "attend.pc has version ${modversion}, which is not that of attend/version.h")
endif()
execute_process(COMMAND ${COMPILER} -std=c++20 ${sanitize} ${cflags} -c ${CMAKE_CURRENT_LIST_DIR}/main.cpp -o ${WORK}/main.o
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${COMPILER} ${sanitize} ${WORK}/main.o -o ${WORK}/by_pkg_config ${libs}
                COMMAND_ERROR_IS_FATAL ANY)
cmake_path(GET pc_folder PARENT_PATH libraries)  # where a shared library is
execute_process(COMMAND ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${libraries} ${WORK}/by_pkg_config
                COMMAND_ERROR_IS_FATAL ANY)

if(SHARED)
  cmake_path(GET SHARED PARENT_PATH folder)
  execute_process(COMMAND ${COMPILER} ${WORK}/main.o -o ${WORK}/with_shared -L${folder} -l:libattend.so
                          -Wl,-rpath,${folder} COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${WORK}/with_shared COMMAND_ERROR_IS_FATAL ANY)
endif()
