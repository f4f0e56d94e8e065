/* The options of a run: a table of them for front ends (weir_tool/pipeline_tools.h), their defaults, and the
 * checks that need nothing but the options. */
#ifndef WEIR_PIPELINE_RUN_OPTIONS_H
#define WEIR_PIPELINE_RUN_OPTIONS_H

#include "weir/run.h"

/* Puts the defaults in place, and checks what nobody else does. */
WEIR_CHECKED weir_status weir_pipeline__run_settle(weir_run_options *options, weir_error *error);

#endif
