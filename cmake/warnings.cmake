# Compiler settings. Every target of this project links attend_settings.
add_library(attend_settings INTERFACE)
target_compile_features(attend_settings INTERFACE cxx_std_20)
target_compile_options(attend_settings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers)
option(ATTEND_WERROR "Treat warnings of GCC 12, the compiler of the tests, as errors" ${PROJECT_IS_TOP_LEVEL})
set(is_gcc12 FALSE)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^12\\.")
  set(is_gcc12 TRUE)
endif()
# GCC 12 reports false positives about the short buffer of an inlined std::string.
if(is_gcc12)
  target_compile_options(attend_settings INTERFACE -Wno-array-bounds -Wno-stringop-overflow
                                                   -Wno-stringop-overread -Wno-restrict)
  if(ATTEND_WERROR AND NOT ATTEND_SANITIZE)  # sanitizers cause false warnings
    target_compile_options(attend_settings INTERFACE -Werror)
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # With precompiled headers, garbage collection below 400 MB takes GCC an eighth of its time.
  target_compile_options(attend_settings INTERFACE "SHELL:--param ggc-min-heapsize=400000")
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # The baseline is x86-64-v2 (2010). Kernels choose AVX2 or AVX-512 at run time.
  target_compile_options(attend_settings INTERFACE -march=x86-64-v2 -maes -mpclmul)
endif()
if(ATTEND_SANITIZE)
  target_compile_options(attend_settings INTERFACE -fsanitize=${ATTEND_SANITIZE} -fno-omit-frame-pointer
                                                   -fno-sanitize-recover=all)
  target_link_options(attend_settings INTERFACE -fsanitize=${ATTEND_SANITIZE})
endif()
