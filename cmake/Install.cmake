# find_package(tenon) for programs outside this tree.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
get_property(folders GLOBAL PROPERTY TENON_FOLDERS)
install(TARGETS tenon ${folders} EXPORT tenon-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/tenon DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS tenon-opt RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
set(destination ${CMAKE_INSTALL_LIBDIR}/cmake/tenon)
install(EXPORT tenon-targets NAMESPACE tenon:: DESTINATION ${destination})
configure_package_config_file(cmake/tenon-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/tenon-config.cmake INSTALL_DESTINATION ${destination})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/tenon-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tenon-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/tenon-config-version.cmake cmake/FindTorch.cmake cmake/FindLlvm.cmake cmake/FindText.cmake
  DESTINATION ${destination})
