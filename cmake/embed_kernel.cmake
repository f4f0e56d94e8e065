# cmake -DSOURCES="a.h b.h" -DOUTPUT=kernel.c -DSYMBOL=name -P embed_kernel.cmake
#
# Joins the headers that make up a kernel, without their includes, behind what CUDA C lacks of them, and writes the text as a C
# array without a terminator. Whole numbers are little-endian on the device, and aligned.
set(text "typedef signed char int8_t; typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef int int32_t;
typedef unsigned int uint32_t; typedef long long int64_t; typedef unsigned long long uint64_t;
#define WEIR__DEFINE_ACCESS(suffix, type) \\
  static inline type weir__load##suffix(const void *from) { return *(const type *)from; } \\
  static inline void weir__store##suffix(void *to, type value) { *(type *)to = value; }
WEIR__DEFINE_ACCESS(16, uint16_t)
WEIR__DEFINE_ACCESS(32, uint32_t)
WEIR__DEFINE_ACCESS(64, uint64_t)
")
separate_arguments(SOURCES)
foreach(source IN LISTS SOURCES)
  file(READ "${source}" content)
  string(REGEX REPLACE "#include [^\n]*\n" "" content "${content}")
  string(APPEND text "${content}")
endforeach()

include("${CMAKE_CURRENT_LIST_DIR}/embed_bytes.cmake")
embed_bytes("${text}" "${OUTPUT}" "${SYMBOL}")
