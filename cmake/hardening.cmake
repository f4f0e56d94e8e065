# What the compiler and the linker can do against mistakes that were not found: checked copies, guarded stacks, branch targets,
# addresses that cannot be guessed and tables that cannot be written. Each is used if the compiler has it. Debug builds stay
# plain, because checked copies need an optimiser; sanitizers bring their own checks.
if(NOT WEIR_HARDENING OR WEIR_SANITIZE OR WEIR_FUZZ OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  return()
endif()

include(CheckCCompilerFlag)
include(CheckLinkerFlag)
include(CheckPIESupported)

# clang takes flags of other processors and warns that it does not use them: such a flag counts as unknown.
set(CMAKE_REQUIRED_FLAGS -Werror)
foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection=full -mbranch-protection=standard)
  string(MAKE_C_IDENTIFIER "WEIR_HAS${flag}" known)
  check_c_compiler_flag(${flag} ${known})
  if(${known})
    add_compile_options(${flag})
  endif()
endforeach()
unset(CMAKE_REQUIRED_FLAGS)

# Some compilers define the level themselves, and a second definition would be a warning in every file.
if(CMAKE_BUILD_TYPE MATCHES "Release|RelWithDebInfo|MinSizeRel")
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
endif()

foreach(flag -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
  string(MAKE_C_IDENTIFIER "WEIR_HAS${flag}" known)
  check_linker_flag(C ${flag} ${known})
  if(${known})
    add_link_options(${flag})
  endif()
endforeach()

check_pie_supported(LANGUAGES C) # CMAKE_POSITION_INDEPENDENT_CODE then makes programs position-independent too
