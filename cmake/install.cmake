# `cmake --install`: headers, both libraries, the program with its manual page and completions, the
# suites, the documentation, and what CMake and pkg-config need to find them.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/rapt)

install(DIRECTORY include/rapt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
install(TARGETS rapt_static rapt_shared EXPORT raptTargets)
if(RAPT_BUILD_CLI)
  install(TARGETS rapt)
  set(generated ${PROJECT_BINARY_DIR}/cli/generated)
  install(FILES ${generated}/rapt.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${generated}/rapt
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${generated}/_rapt DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${generated}/rapt.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
install(DIRECTORY bench/suites DESTINATION ${CMAKE_INSTALL_DATADIR}/rapt)
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT raptTargets NAMESPACE rapt:: DESTINATION ${package_folder})
configure_package_config_file(cmake/raptConfig.cmake.in ${PROJECT_BINARY_DIR}/raptConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/raptConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/raptConfig.cmake ${PROJECT_BINARY_DIR}/raptConfigVersion.cmake
        DESTINATION ${package_folder})

# What a program that links the archive needs besides it.
set(pkgconfig_private_libraries "-lstdc++ -lm -ldl -pthread")
if(RAPT_WITH_CUDA)
  string(APPEND pkgconfig_private_libraries " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt")
endif()
file(RELATIVE_PATH pkgconfig_prefix
     ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
foreach(name rapt rapt-shared)
  configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
