/* What `weir plan` can make of a plan: a table, JSON, a trace, a page. */
#ifndef WEIR_CLI_PLAN_OUTPUT_H
#define WEIR_CLI_PLAN_OUTPUT_H

#include "cli.h"

/* The plan on stdout: as {"plan_hash", "assignment_hash", "graph_hash", "tensors", "arenas", "metrics"}, or
 * for people: a line an arena, and the tensors that make its peak. */
int cli_plan_print_json(const weir_plan *plan);
int cli_plan_print_table(const weir_plan *plan, const char *name);

/* One self-contained page that shows the plan under a title. The file appears whole. */
WEIR_CHECKED weir_status cli_plan_write_html(const weir_plan *plan, weir_text title, const char *path,
                                             weir_error *error);

#endif
