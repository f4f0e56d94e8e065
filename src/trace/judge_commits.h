/* Judging what a trace says of memory (docs/spec/02-trace.md, "Memory"). */
#ifndef WEIR_TRACE_JUDGE_COMMITS_H
#define WEIR_TRACE_JUDGE_COMMITS_H

#include "trace/record.h"

/* Of the process whose records are being read: from the header or a resume to the next resume. */
typedef struct weir_trace__commits {
    uint64_t t;         /* of the last step … */
    uint64_t steps;     /* … and how many there were */
    uint64_t committed; /* memory records */
    bool is_due;        /* the last step has none yet */
    bool has_digest;    /* of the last step's batch */
    uint8_t digest[WEIR_TRACE__CONTENTS_SIZE];
    uint8_t *state; /* of the last memory record; NULL: there is none */
    size_t state_capacity;
} weir_trace__commits;

/* Takes the next record of the trace, of any kind. False: what is recorded is not what follows, and `found`
 * says in which field. An error (OUT_OF_MEMORY) is in *status. */
bool weir_trace__commits_follow(weir_trace__commits *memory, const weir_env *env,
                                const weir_trace_record *record, weir__difference *found, weir_status *status,
                                weir_error *error);
void weir_trace__commits_release(weir_trace__commits *memory, const weir_env *env);

#endif
