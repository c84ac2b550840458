# The MPI plug-in, libattend-mpi.so, which the program opens when a launcher (mpirun, srun) started it. It is built
# beside the command, with Open MPI or MPICH.
set(ATTEND_MPI AUTO CACHE STRING "Build the MPI plug-in: AUTO (if MPI is installed), ON or OFF")
set_property(CACHE ATTEND_MPI PROPERTY STRINGS AUTO ON OFF)

set(MPI_FOUND OFF)
if(NOT ATTEND_MPI STREQUAL "OFF" AND NOT ATTEND_SANITIZE)
  pkg_search_module(MPI QUIET IMPORTED_TARGET mpi-c ompi-c mpich)
  if(ATTEND_MPI STREQUAL "ON" AND NOT MPI_FOUND)
    message(FATAL_ERROR "ATTEND_MPI is ON, but pkg-config finds neither mpi-c, ompi-c nor mpich")
  endif()
endif()
if(NOT MPI_FOUND)
  add_custom_target(attend_mpi)  # so that a build can always name it
  return()
endif()

file(GLOB mpi_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/distributed/mpi/*.cpp)
add_library(attend_mpi MODULE ${mpi_sources} ${PROJECT_SOURCE_DIR}/src/base/error.cpp)
target_include_directories(attend_mpi PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(attend_mpi PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)  # only the C interface is used
target_link_libraries(attend_mpi PRIVATE attend_settings PkgConfig::MPI Threads::Threads)
set(mpi_exports ${CMAKE_CURRENT_LIST_DIR}/mpi_exports.map)
target_link_options(attend_mpi PRIVATE LINKER:--version-script=${mpi_exports} LINKER:--no-undefined)
set_target_properties(attend_mpi PROPERTIES PREFIX lib OUTPUT_NAME attend-mpi LINK_DEPENDS ${mpi_exports}
                                            CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                                            LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
install(TARGETS attend_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/attend COMPONENT mpi OPTIONAL)
