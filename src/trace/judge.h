/* Judging a trace as the record of a whole run: that its steps follow each other as the header's schedule
 * says, and that its failure and its run_end are what they lead to (docs/spec/02-trace.md). What each step
 * holds is the replayer's to check. */
#ifndef WEIR_TRACE_JUDGE_H
#define WEIR_TRACE_JUDGE_H

#include "trace/judge_commits.h"
#include "trace/record.h"
#include "trace/tally.h"

/* Where a step must lie. Of the first step of a cursor schedule that is not known. */
typedef struct weir_trace__place_of_step {
    bool is_known;
    weir_status status;  /* of finding it: a step may lie beyond what can be counted */
    const char *dataset; /* valid until the next record */
    weir_cursor cursor;
    weir_stage stage; /* EVAL stands for infer too */
} weir_trace__place_of_step;

typedef struct weir_trace__judge {
    const weir_env *env;
    const weir_trace_info *header;
    const weir_manifest *manifest;
    weir_mix *mix; /* of a mix schedule; else NULL */
    bool is_best_effort;
    bool has_begun;          /* a step or a resume was met */
    bool is_partial;         /* it began with a resume: what was taken before is not here */
    unsigned __int128 next;  /* the next step; in best effort the first that is not taken yet */
    unsigned __int128 taken; /* steps, those before a partial trace included */
    uint64_t *ahead;         /* best effort: steps after `next` that were taken, ascending */
    size_t ahead_count;
    size_t ahead_capacity;
    char *dataset; /* of a cursor schedule's steps; NULL before the first */
    weir_stage stage;
    weir_cursor cursor; /* where the last step ended */
    weir_trace__tally tally;
    weir_trace__commits memory;
    uint64_t steps;
    weir_run_status status;
    bool has_failed; /* a failure was met */
    uint64_t failed_step;
    char failure_code[64];
    weir_cbor_writer body;
} weir_trace__judge;

/* The header and the manifest must outlive it. Close it, also after a failure. */
WEIR_CHECKED weir_status weir_trace__judge_open(weir_trace__judge *judge, const weir_env *env,
                                                const weir_trace_info *header, const weir_manifest *manifest,
                                                weir_error *error);
void weir_trace__judge_close(weir_trace__judge *judge);

/* Takes the next record of the trace, of any kind. REPLAY_DIVERGENCE, OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir_trace__judge_take(weir_trace__judge *judge, const weir_trace_record *record,
                                                weir_error *error);

/* Where step t must lie; before the record of that step is taken. */
weir_trace__place_of_step weir_trace__judge_locate(weir_trace__judge *judge, uint64_t t);

#endif
