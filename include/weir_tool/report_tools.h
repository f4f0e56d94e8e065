/* weir_tool/report_tools.h: a report as a document. */
#ifndef WEIR_TOOL_REPORT_TOOLS_H
#define WEIR_TOOL_REPORT_TOOLS_H

#include "weir/report.h"
#include "weir_tool/documents.h"

/* As one JSON object; the store must be the one that it was made of. */
void weir_report_json(const weir_report *report, const weir_store *store, weir_json_writer *w);

#endif
