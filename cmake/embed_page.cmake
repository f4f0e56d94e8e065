# cmake -DPAGE=page.html -DFOLDER=cli/plan_page -DNAME=plan -DOUTPUT=page.c -DSYMBOL=name -P embed_page.cmake
#
# Joins a page with the files that its lines "@include FILE" name and writes it as a C array, so that the program carries
# the page with it. A FILE lies beside the page, or, as "page/FILE", in FOLDER; @name in the text becomes NAME. The array
# has the page's bytes without a terminator.
get_filename_component(beside "${PAGE}" DIRECTORY)
file(READ "${PAGE}" text)
# Twice: what is included may list files itself.
foreach(round RANGE 1)
  string(REGEX MATCHALL "@include [a-z_/]+\\.[a-z]+" includes "${text}")
  foreach(include IN LISTS includes)
    string(REPLACE "@include " "${beside}/" path "${include}")
    string(REPLACE "${beside}/page/" "${FOLDER}/" path "${path}")
    file(READ "${path}" content)
    string(REPLACE "${include}\n" "${content}" text "${text}")
  endforeach()
endforeach()
string(REPLACE "@name" "${NAME}" text "${text}")

include("${CMAKE_CURRENT_LIST_DIR}/embed_bytes.cmake")
embed_bytes("${text}" "${OUTPUT}" "${SYMBOL}")
