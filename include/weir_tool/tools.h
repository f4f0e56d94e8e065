/* weir_tool/tools.h: what weir's own programs, its Python module and its tests share with the library beyond
 * the public headers. Not installed, not exported by the shared library, and free to change. */
#ifndef WEIR_TOOL_TOOLS_H
#define WEIR_TOOL_TOOLS_H

#include "weir_tool/base_tools.h"
#include "weir_tool/batch_tools.h"
#include "weir_tool/device_work.h"
#include "weir_tool/documents.h"
#include "weir_tool/ingest_tools.h"
#include "weir_tool/philox.h"
#include "weir_tool/pipeline_tools.h"
#include "weir_tool/plan_tools.h"
#include "weir_tool/report_tools.h"
#include "weir_tool/sampler_tools.h"
#include "weir_tool/store_tools.h"
#include "weir_tool/trace_tools.h"

#endif
