# Given `program`, installs the libraries that it needs, except those of glibc, which every system has, into lib/attend, and
# the licences of their Debian packages.
set(prefix "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${program} RESOLVED_DEPENDENCIES_VAR libraries
     PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|pthread|rt|resolv)\\.so")
file(MAKE_DIRECTORY ${prefix}/lib/attend ${prefix}/share/doc/attend/licences)
foreach(library IN LISTS libraries)
  cmake_path(GET library FILENAME name)
  file(REAL_PATH ${library} real)
  file(COPY_FILE ${real} ${prefix}/lib/attend/${name})
  message(STATUS "Installing: ${prefix}/lib/attend/${name}")
  execute_process(COMMAND dpkg-query -S ${real} OUTPUT_VARIABLE owner RESULT_VARIABLE result ERROR_QUIET)
  if(NOT result EQUAL 0)  # Debian 12 records some files of /usr/lib as in /lib
    string(REGEX REPLACE "^/usr" "" old_place ${real})
    execute_process(COMMAND dpkg-query -S ${old_place} OUTPUT_VARIABLE owner COMMAND_ERROR_IS_FATAL ANY)
  endif()
  string(REGEX REPLACE ":.*" "" package "${owner}")
  configure_file(/usr/share/doc/${package}/copyright ${prefix}/share/doc/attend/licences/${package} COPYONLY)
endforeach()
