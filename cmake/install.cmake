# Rules for `cmake --install build/release --prefix DIR`. find_package(attend) then provides attend::attend, and
# `pkg-config attend` the flags for other build systems. cmake/package.cmake builds packages from the components.
include(CMakePackageConfigHelpers)
set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/attend)

# A static library does not carry its dependencies, so its users link them; a shared one does.
set(ATTEND_IS_STATIC ON)
set(ATTEND_PC_PRIVATE "")
if(BUILD_SHARED_LIBS)
  set(ATTEND_IS_STATIC OFF)
  set(ATTEND_PC_PRIVATE ".private")
endif()

install(TARGETS attend EXPORT attendTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development NAMELINK_COMPONENT development
        FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT attendTargets NAMESPACE attend:: DESTINATION ${config_folder} COMPONENT development)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/attendConfig.cmake.in ${CMAKE_BINARY_DIR}/attendConfig.cmake
                              INSTALL_DESTINATION ${config_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/attendConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/attendConfig.cmake ${CMAKE_BINARY_DIR}/attendConfigVersion.cmake
        DESTINATION ${config_folder} COMPONENT development)

set(ATTEND_PC_REQUIRES "libhwy icu-i18n icu-uc zlib libpng libjpeg sentencepiece freetype2 fontconfig")
set(prefix_of_pc /prefix)
cmake_path(RELATIVE_PATH prefix_of_pc BASE_DIRECTORY /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig
           OUTPUT_VARIABLE ATTEND_PC_PREFIX)
configure_file(${CMAKE_CURRENT_LIST_DIR}/attend.pc.in ${CMAKE_BINARY_DIR}/attend.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/attend.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

if(ATTEND_TOOLS)
  set(manual ${PROJECT_BINARY_DIR}/manual)
  install(TARGETS attend_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
  install(DIRECTORY ${manual}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT manual)
  install(FILES ${manual}/attend.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME attend
          COMPONENT manual)
  install(FILES ${manual}/attend.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
          COMPONENT manual)
  install(FILES ${manual}/_attend DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT zsh)
endif()
