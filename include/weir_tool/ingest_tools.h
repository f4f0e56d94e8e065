/* weir_tool/ingest_tools.h: the schema of schemas, and locations without their secrets. */
#ifndef WEIR_TOOL_INGEST_TOOLS_H
#define WEIR_TOOL_INGEST_TOOLS_H

#include "weir/ingest.h"

/* A source's location for a person's eyes: without the passwords that it holds. Cut to capacity, which is not
 * 0. Any thread. */
void weir_location_text(const char *location, char *out, size_t capacity);

/* A JSON Schema of the schema, for editors. Static. */
const char *weir_schema_json_schema(void);

#endif
