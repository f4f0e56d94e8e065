# make deb: Debian packages by CPack. weir is the program, libweir0 the shared library, libweir-dev what is needed to build with
# it, python3-weir the package for Debian's own Python.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME weir)
set(CPACK_PACKAGE_VENDOR "weir")
set(CPACK_PACKAGE_CONTACT "The weir maintainers")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_SOURCE_DIR}/dist)
set(CPACK_STRIP_FILES ON)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL program library development)
if(TARGET weir_python)
  list(APPEND CPACK_COMPONENTS_ALL python)
endif()

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME weir)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS libmariadb3) # loaded for mysql:// sources
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libweir0)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS libmariadb3)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libweir-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libweir0 (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-weir)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.11)")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS libmariadb3)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "training batches from relational databases
 weir turns a relational database into training batches that are the same bytes
 in the same order on any number of GPUs, and resumes exactly from one integer.
 This package has the program.")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "training batches from relational databases, the library
 weir turns a relational database into training batches that are the same bytes
 in the same order on any number of GPUs. This package has the shared library.")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "training batches from relational databases, for programs in C
 The headers and the static library of weir, and what pkg-config and CMake need.")
set(CPACK_COMPONENT_PYTHON_DESCRIPTION "training batches from relational databases, for Python
 The Python package of weir: loaders, samplers, stores and plans.")

# A package says whose it is and under which terms where Debian looks for that.
foreach(package program:weir library:libweir0 development:libweir-dev python:python3-weir)
  string(REPLACE ":" ";" package ${package})
  list(GET package 0 component)
  list(GET package 1 name)
  install(FILES LICENSE DESTINATION share/doc/${name} RENAME copyright COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()
include(CPack)
