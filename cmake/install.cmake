# `cmake --install build/release --prefix DIR`; afterwards find_package(attend) gives attend::attend.
include(CMakePackageConfigHelpers)
set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/attend)

install(TARGETS attend EXPORT attendTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT attendTargets NAMESPACE attend:: DESTINATION ${config_folder})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/attendConfig.cmake.in ${CMAKE_BINARY_DIR}/attendConfig.cmake
                              INSTALL_DESTINATION ${config_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/attendConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/attendConfig.cmake ${CMAKE_BINARY_DIR}/attendConfigVersion.cmake
        DESTINATION ${config_folder})
if(ATTEND_TOOLS)
  install(TARGETS attend_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
