# cmake -DPAGE=page.html -DOUTPUT=page.c -DSYMBOL=name -P embed_page.cmake
#
# Joins a page with the files that its lines "@include FILE" name (relative to the file that names them) and writes it as
# a C array, so that the program carries the page with it. The array has the page's bytes without a terminator.
get_filename_component(folder "${PAGE}" DIRECTORY)
file(READ "${PAGE}" text)
# Twice: what is included may include the shell that pages share.
foreach(round RANGE 1)
  string(REGEX MATCHALL "@include [a-z_./]+\\.[a-z]+" includes "${text}")
  foreach(include IN LISTS includes)
    string(REPLACE "@include " "" name "${include}")
    file(READ "${folder}/${name}" content)
    string(REPLACE "${include}\n" "${content}" text "${text}")
  endforeach()
endforeach()

include("${CMAKE_CURRENT_LIST_DIR}/embed_bytes.cmake")
embed_bytes("${text}" "${OUTPUT}" "${SYMBOL}")
