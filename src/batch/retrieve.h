/* Finding examples: rows that show a label of the task, by walks from a sequence's first row, each step to a
 * parent or child of where it stands (docs/spec/05c-task-rows-and-retrieval.md). */
#ifndef WEIR_BATCH_RETRIEVE_H
#define WEIR_BATCH_RETRIEVE_H

#include "base/philox_many.h"
#include "batch/rules.h"

/* The numbers of `retrieval` that hold for a sequence. */
typedef struct weir_batch__budget {
    uint32_t walks;
    uint32_t length;
    uint32_t local_cells;
    uint32_t width;
} weir_batch__budget;

/* What walks start from, and may see. */
typedef struct weir_batch__outlook {
    weir_seed seed; /* of the draws */
    uint64_t position;
    uint32_t anchor_table;
    uint32_t anchor_row;   /* its place in the table */
    uint32_t own_row;      /* the seed's task row, by its number in the task; WEIR_NONE: there are none */
    int64_t cutoff;        /* the latest time that is shown, … */
    int64_t anchor_cutoff; /* … and of the anchor row itself */
    int64_t floor; /* the earliest time of children and labels that are shown; WEIR_TIME_ALWAYS: any */
} weir_batch__outlook;

typedef struct weir_batch__example {
    uint32_t row;    /* its place in the table of labels: of a task row its seed's number */
    uint32_t visits; /* 0: it was drawn, not found */
} weir_batch__example;

typedef struct weir_batch__retriever weir_batch__retriever;

/* A thread's. One that was not opened has no memory and finds nothing. */
struct weir_batch__retriever {
    const weir_store *store;
    const weir_batch__rules *rules;
    const weir_retrieval_config *config;
    const weir_batch__outlook *outlook; /* of the sequence that is at hand */
    weir__philox_kernel *philox;
    uint32_t most;               /* examples that a sequence can use */
    int64_t limit;               /* the latest time of an edge that is shown */
    const uint8_t *blank_anchor; /* the anchor's record if it shows nothing; else NULL */

    uint64_t *rows;                      /* on which the walkers stand (RowIdx), … */
    struct weir_batch__memo **row_memos; /* … their memos, where a step needs them, … */
    struct weir_batch__walkers_at *at;   /* … and which of them do what */
    uint64_t first_task_row;             /* UINT64_MAX: there are none */
    uint64_t example_start;              /* the rows that may be examples, in a cell task */
    uint32_t example_count;
    struct weir_batch__way *ways;             /* out of each table, … */
    uint32_t *first_way;                      /* … whose first are these */
    uint32_t way_count;                       /* the most that a row has */
    uint32_t *by_table;                       /* scratch of a sort by table */
    struct weir_batch__found_row *found_rows; /* the walkers' rows that are not remembered, … */
    struct weir_batch__shown *found;          /* … what they lead to, … */
    struct weir_batch__shown **searches;      /* … and lists of which it is not known how much is shown */
    struct weir_batch__links *links;          /* of each row of the store; NULL: there is no such memory */
    uint64_t least_head;                      /* of links that the sequence may use */
    uint8_t *memos;                           /* what rows lead to: … */
    uint8_t *spare_memos;                     /* one for each walker */
    uint64_t memo_size;                       /* … so many bytes each, … */
    struct weir_batch__span *spans;           /* … for these cut-offs, … */
    uint32_t memo_bits;                       /* … 2^memo_bits of them, … */
    uint32_t memo_ways;                       /* … with room for so many ways, … */
    uint32_t few;                             /* … or for so many neighbours */
    uint16_t serial;                          /* of what sequences see, from 1 on */
    int64_t seen_cutoff, seen_floor;          /* by the last sequence; … */
    bool keeps;                               /* … and whether what it remembered holds for others */
    bool is_early;                            /* the anchor is shown before its time */
    bool has_spans;                           /* what it sees follows from its cut-off alone */

    uint32_t *keys; /* an open table of examples … */
    uint32_t *visits;
    uint32_t shift;
    uint32_t *used; /* … whose places these are */
    uint32_t used_count;
    struct weir_batch__ranked_example *ranked; /* a heap of the best, the worst on top */

    bool is_whole; /* all that walks read is verified */
    bool is_corrupt;

    struct weir_batch__team *team; /* that walks with it; NULL: it walks alone */
    uint64_t sequence;             /* that it walked for last, as a helper in a team */
};

/* Whether a recipe needs one. */
bool weir_batch__retrieves(const weir_batch__rules *rules, const weir_batch_config *config);

void weir_batch__retriever_carve(weir_batch__retriever *retriever, weir__block *block,
                                 const weir_store *store, const weir_batch__rules *rules,
                                 const weir_batch_config *config);

/* The budget of a sequence. */
weir_batch__budget weir_batch__budget_of(const weir_retrieval_config *config,
                                         const weir_batch__outlook *outlook);

/* Walks, and writes the examples that were found, in order, at most `retriever->most` of them. Returns how
 * many; is_corrupt says that the store is damaged. */
uint32_t weir_batch__retrieve(weir_batch__retriever *retriever, const weir_batch__outlook *outlook,
                              const weir_batch__budget *budget, weir_batch__example *out);

/* What a team does in parts: readies a retriever for a sequence; takes the walks that go abreast with walk
 * `first`; adds the visits that `from` counted to the others', and leaves it none. */
void weir_batch__begin_walks(weir_batch__retriever *retriever, const weir_batch__outlook *outlook);
void weir_batch__take_walks(weir_batch__retriever *retriever, const weir_batch__budget *budget,
                            uint32_t first);
void weir_batch__bring_visits(weir_batch__retriever *to, weir_batch__retriever *from);

/* The example that try `number` of `fill` draws, of WEIR_BATCH__FILL_TRIES, by its place in the table of
 * labels; WEIR_NONE if it is none. */
enum { WEIR_BATCH__FILL_TRIES = 4096 };
uint32_t weir_batch__draw_example(weir_batch__retriever *retriever, const weir_batch__outlook *outlook,
                                  uint32_t number);

#endif
