# make install: the program, the libraries with their headers, and what pkg-config and CMake's find_package need to use them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS weir RUNTIME COMPONENT program)
install(DIRECTORY include/weir DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development FILES_MATCHING PATTERN "*.h")
install(TARGETS weir_static ARCHIVE COMPONENT development)
if(TARGET weir_shared)
  install(TARGETS weir_shared EXPORT weirTargets LIBRARY COMPONENT library NAMELINK_COMPONENT development)
  set_target_properties(weir_shared PROPERTIES EXPORT_NAME weir)
  target_include_directories(weir_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(EXPORT weirTargets NAMESPACE weir:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weir COMPONENT development)
endif()

# What a program that links libweir.a links beside it.
set(WEIR_PRIVATE_LIBRARIES)
foreach(library ${WEIR_LIBRARIES})
  if(library STREQUAL "Threads::Threads")
    list(APPEND WEIR_PRIVATE_LIBRARIES pthread)
  else()
    list(APPEND WEIR_PRIVATE_LIBRARIES ${library})
  endif()
endforeach()
list(TRANSFORM WEIR_PRIVATE_LIBRARIES PREPEND "-l" OUTPUT_VARIABLE WEIR_PRIVATE_FLAGS)
string(JOIN " " WEIR_PRIVATE_FLAGS ${WEIR_PRIVATE_FLAGS})

file(RELATIVE_PATH WEIR_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /) # the files find each other wherever they are put
configure_file(cmake/weir.pc.in weir.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weir.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

configure_package_config_file(cmake/weirConfig.cmake.in weirConfig.cmake INSTALL_DESTINATION
  ${CMAKE_INSTALL_LIBDIR}/cmake/weir PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(weirConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weirConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/weirConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weir COMPONENT development)

if(TARGET weir_python) # for Debian's own Python, in a package for it; pip serves all others
  install(DIRECTORY ${PROJECT_BINARY_DIR}/python/weir DESTINATION lib/python3/dist-packages COMPONENT python
          EXCLUDE_FROM_ALL PATTERN "__pycache__" EXCLUDE)
endif()
