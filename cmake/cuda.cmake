# The CUDA plug-in, libattend-cuda.so, which the program opens when a GPU is used. It is built beside the command. The
# CUDA runtime is linked statically; cuBLASLt is opened by the plug-in.
set(ATTEND_CUDA AUTO CACHE STRING "Build the CUDA plug-in: AUTO (if there is a CUDA toolkit), ON or OFF")
set_property(CACHE ATTEND_CUDA PROPERTY STRINGS AUTO ON OFF)
# By default one intermediate program (PTX of compute_80) becomes machine code for sm_80 and sm_90, and is carried for
# other chips: that takes a third less time than compiling for each architecture from the source.
set(ATTEND_CUDA_ARCHITECTURES "" CACHE STRING "GPU architectures of the CUDA plug-in (default: sm_80, sm_90 and PTX)")

set(build_plugin OFF)
if(ATTEND_CUDA STREQUAL "AUTO")
  if(NOT ATTEND_SANITIZE)
    find_program(nvcc nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin NO_CACHE)
    if(nvcc)
      if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
        set(ENV{CUDACXX} ${nvcc})
      endif()
      include(CheckLanguage)
      check_language(CUDA)
      if(CMAKE_CUDA_COMPILER)
        set(build_plugin ON)
      endif()
    endif()
  endif()
else()
  set(build_plugin ${ATTEND_CUDA})
endif()

if(NOT build_plugin)
  add_custom_target(attend_cuda)  # so that a build can always name it
  return()
endif()

if(ATTEND_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES ${ATTEND_CUDA_ARCHITECTURES})
else()
  set(CMAKE_CUDA_ARCHITECTURES OFF)
endif()
enable_language(CUDA)
set(cuda_folder ${PROJECT_SOURCE_DIR}/src/backend/cuda)
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${cuda_folder}/*.cpp ${cuda_folder}/*.cu)
set(hopper_sources ${cuda_sources})
list(FILTER hopper_sources INCLUDE REGEX "/hopper_[^/]*\\.cu$")
list(REMOVE_ITEM cuda_sources ${hopper_sources} "")

# attend_cuda_settings(TARGET): compiler settings of the plug-in. nvcc does not take the options of the host compiler.
function(attend_cuda_settings target)
  set(settings $<TARGET_PROPERTY:attend_settings,INTERFACE_COMPILE_OPTIONS>)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${settings}>")
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr;-diag-suppress=554;-Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers>")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-march=x86-64-v2>)
  endif()
  if(ATTEND_WERROR)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
  endif()
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_include_directories(${target} SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  set_target_properties(${target} PROPERTIES CXX_STANDARD 20 CXX_EXTENSIONS OFF
                                             CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden
                                             VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
endfunction()

# The base functions that the kernels use are a part of the plug-in.
add_library(attend_cuda MODULE ${cuda_sources} ${PROJECT_SOURCE_DIR}/src/base/dtype.cpp
                               ${PROJECT_SOURCE_DIR}/src/base/error.cpp ${PROJECT_SOURCE_DIR}/src/base/shape.cpp)
attend_cuda_settings(attend_cuda)
# One PTX serves all devices, to save time. Kernels that overlap or form clusters on sm_90 contain instructions that the
# PTX of sm_80 does not have, so that their files are compiled for both.
if(NOT ATTEND_CUDA_ARCHITECTURES)
  foreach(source IN LISTS cuda_sources)
    file(STRINGS ${source} overlaps REGEX "overlap\\.cuh" LIMIT_COUNT 1)
    if(NOT source MATCHES "\\.cu$")
      continue()
    elseif(overlaps)
      set(code -gencode=arch=compute_80,code=[compute_80,sm_80] -gencode=arch=compute_90,code=[compute_90,sm_90])
    else()
      set(code -gencode=arch=compute_80,code=[compute_80,sm_80,sm_90])
    endif()
    set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS "${code}")
  endforeach()
endif()
# Instructions of Hopper alone (wgmma, TMA) need their own architecture.
if(hopper_sources)
  add_library(attend_cuda_hopper OBJECT ${hopper_sources})
  attend_cuda_settings(attend_cuda_hopper)
  set_target_properties(attend_cuda_hopper PROPERTIES CUDA_ARCHITECTURES 90a-real)
  target_sources(attend_cuda PRIVATE $<TARGET_OBJECTS:attend_cuda_hopper>)
endif()
set(plugin_exports ${PROJECT_SOURCE_DIR}/cmake/cuda_exports.map)
target_link_options(attend_cuda PRIVATE LINKER:--version-script=${plugin_exports} LINKER:--no-undefined)
target_link_libraries(attend_cuda PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
set_target_properties(attend_cuda PROPERTIES PREFIX lib OUTPUT_NAME attend-cuda LINK_DEPENDS ${plugin_exports}
                                             CUDA_RUNTIME_LIBRARY Static
                                             LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
install(TARGETS attend_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/attend COMPONENT cuda OPTIONAL)
