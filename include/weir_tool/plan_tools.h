/* weir_tool/plan_tools.h: the other parts of a plan file, and packing instances of CSV files. */
#ifndef WEIR_TOOL_PLAN_TOOLS_H
#define WEIR_TOOL_PLAN_TOOLS_H

#include "weir/arenas.h"
#include "weir/plan.h"
#include "weir_tool/documents.h"

weir_text weir_graph_name(const weir_graph *graph);
size_t weir_graph_tensor_count(const weir_graph *graph);
size_t weir_graph_node_count(const weir_graph *graph);

/* The graph as weir-graph/1 again, defaults left out; faults stick to the writer. */
void weir_graph_write_json(const weir_graph *graph, weir_json_writer *w);
void weir_graph_write_cbor(const weir_graph *graph, weir_cbor_writer *w);

/* The plan's canonical CBOR (weir-plan/1): the first item of a plan file. */
void weir_plan_write(const weir_plan *plan, weir_cbor_writer *w);

/* The second and the third item of a plan file: what its tensors are (weir-plan-tensors/1,
 * docs/spec/03b-plan-tensors.md) and its metrics (weir-plan-metrics/1, docs/spec/03e-plan-metrics.md).
 * Nothing if the plan was restored without. */
void weir_plan_write_tensors(const weir_plan *plan, weir_cbor_writer *w);
void weir_plan_write_metrics(const weir_plan *plan, weir_cbor_writer *w);

/* The allocation trace: records as a CBOR sequence, allocation_header, a tensor each, summary
 * (docs/planner.md). Of a restored plan too. */
void weir_plan_write_trace(const weir_plan *plan, weir_cbor_writer *w);

/* The end of time: every death is at most this. */
uint64_t weir_plan_end(const weir_plan *plan);

/* The first position at which an arena has its lower bound of bytes live. */
uint64_t weir_plan_fullest(const weir_plan *plan, size_t arena);

/* Bytes live in an arena (rounded sizes) at each position from 0 to weir_plan_end - 1; their largest is the
 * lower bound. `bytes` is the caller's and has weir_plan_end entries. */
void weir_plan_live_bytes(const weir_plan *plan, size_t arena, uint64_t *bytes);

/* Reads the plain CSV that planners share: a header with the columns id, lower, upper, size in any order (a
 * column offset is ignored), a buffer a line, live in [lower, upper). INVALID_IR with the line. The caller
 * owns *packing. */
WEIR_CHECKED weir_status weir_packing_read_csv(const weir_env *env, const void *data, size_t size,
                                               const char *name, weir_packing **packing, weir_error *error);

/* weir_pack of the rows that were read; ids order buffers that are otherwise equal, so the offsets do not
 * depend on the order of the rows. One thread at a time per packing. Errors as weir_pack. */
WEIR_CHECKED weir_status weir_packing_solve(weir_packing *packing, const weir_packing_options *options,
                                            weir_packing_result *result, weir_error *error);

/* After solve: the rows as they were read, with a column offset. *text is terminated and lives as long as
 * the packing. */
WEIR_CHECKED weir_status weir_packing_csv(weir_packing *packing, const char **text, size_t *size,
                                          weir_error *error);
void weir_packing_close(weir_packing *packing);

/* DebugFill: writes BLAKE3's extended output, keyed by token and address, to a tensor's bytes, to find reads
 * of what was never written. Errors as weir_arenas_zero. */
WEIR_CHECKED weir_status weir_arenas_debug_fill(weir_arenas *arenas, const char *id, size_t id_size,
                                                const uint8_t *token, size_t token_size, weir_error *error);

#endif
