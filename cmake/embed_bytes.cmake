# Writes a text as a C array without a terminator, so that the program carries it with it.
function(embed_bytes text output symbol)
  file(WRITE "${output}.text" "${text}")
  file(READ "${output}.text" bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  file(WRITE "${output}" "#include <stddef.h>

extern const unsigned char ${symbol}[];
extern const size_t ${symbol}_size;

const unsigned char ${symbol}[] = {
${bytes}
};
const size_t ${symbol}_size = sizeof ${symbol};
")
endfunction()
