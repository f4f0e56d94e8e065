/* What a run needs of a trace's writer besides weir_tool/trace_tools.h. */
#ifndef WEIR_TRACE_TRACE_WRITER_H
#define WEIR_TRACE_TRACE_WRITER_H

#include "weir_tool/trace_tools.h"

/* Closes a writer in a child of fork: the file, what is buffered and the lock are the parent's. */
void weir_trace__writer_leave(weir_trace_writer *writer);

#endif
