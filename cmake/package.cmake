# `./run package` makes packages of the components that cmake/install.cmake installs:
#   attend_VERSION_ARCH.deb          the command, its manual pages and completions
#   libattend-dev_VERSION_ARCH.deb   headers, library, CMake package and pkg-config file
#   attend-mpi_VERSION_ARCH.deb      the plug-in for mpirun and srun, if MPI is installed; it uses Debian's Open MPI
#   attend-VERSION-linux-ARCH.tar.gz the command with every library it needs except those of glibc
# The .deb files use the libraries of Debian 12.

# The command once more, from the same objects: its libraries are in lib/attend beside bin. Those of other systems have
# other versions, so the old kind of rpath is used, which also holds for what the libraries themselves need.
add_executable(attend_portable EXCLUDE_FROM_ALL $<TARGET_OBJECTS:attend_cli>)
target_link_libraries(attend_portable PRIVATE attend_whole attend_settings)
target_link_options(attend_portable PRIVATE LINKER:--disable-new-dtags)
set_target_properties(attend_portable PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME attend
                      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/portable
                      BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/../lib/attend")
install(PROGRAMS ${CMAKE_BINARY_DIR}/portable/attend DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT portable
        EXCLUDE_FROM_ALL)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION . COMPONENT portable
        EXCLUDE_FROM_ALL)
install(CODE "set(program [[${CMAKE_BINARY_DIR}/portable/attend]])" COMPONENT portable EXCLUDE_FROM_ALL)
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/portable_libraries.cmake COMPONENT portable EXCLUDE_FROM_ALL)

# What Debian wants in its packages alone: completions of zsh in its own folder, and the licence as `copyright`.
install(FILES ${CMAKE_BINARY_DIR}/manual/_attend DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions
        COMPONENT debian_command EXCLUDE_FROM_ALL)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/attend RENAME copyright
        COMPONENT debian_command EXCLUDE_FROM_ALL)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libattend-dev RENAME copyright
        COMPONENT debian_development EXCLUDE_FROM_ALL)

set(CPACK_PACKAGE_NAME attend)
set(CPACK_PACKAGE_VENDOR "The attend authors")
set(CPACK_PACKAGE_CONTACT "The attend authors <attend@example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Train, run and inspect Transformers")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_SOURCE_DIR}/build/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/package_options.cmake)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME attend)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS fonts-dejavu-core)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "fonts-noto-cjk, libattend-dev")
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "The command attend, its manual pages, and
completions for bash, zsh and fish. It needs no Python and no network.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libattend-dev)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
string(CONCAT CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS
              "libhwy-dev, libicu-dev, zlib1g-dev, libpng-dev, libjpeg-dev, libsentencepiece-dev, "
              "libfreetype-dev, libfontconfig-dev, pkg-config")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "Headers and static library for C++20 programs, found by
find_package of CMake or by pkg-config.")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/attend-mpi RENAME copyright
        COMPONENT debian_mpi EXCLUDE_FROM_ALL)
set(CPACK_DEBIAN_CLUSTER_PACKAGE_NAME attend-mpi)
set(CPACK_DEBIAN_CLUSTER_PACKAGE_SECTION science)
set(CPACK_DEBIAN_CLUSTER_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_CLUSTER_PACKAGE_DEPENDS "attend (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_CLUSTER_PACKAGE_RECOMMENDS openmpi-bin)
set(CPACK_COMPONENT_CLUSTER_DESCRIPTION "The part of attend that mpirun and srun need: several
processes train one model, or share the lines of an input.")
set(CPACK_ATTEND_HAS_MPI ${MPI_FOUND})
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)

include(CPack)
cpack_add_component_group(program)
cpack_add_component_group(library)
cpack_add_component_group(cluster)
foreach(component command manual debian_command)
  cpack_add_component(${component} GROUP program)
endforeach()
foreach(component development debian_development)
  cpack_add_component(${component} GROUP library)
endforeach()
foreach(component mpi debian_mpi)
  cpack_add_component(${component} GROUP cluster)
endforeach()
