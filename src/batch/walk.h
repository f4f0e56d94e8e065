/* The walk: from a seed's row along foreign keys, parents first, children by chance, to the rows of a
 * sequence. */
#ifndef WEIR_BATCH_WALK_H
#define WEIR_BATCH_WALK_H

#include "batch/choose.h"
#include "batch/known.h"
#include "batch/levels.h"
#include "batch/retrieve.h"
#include "batch/times.h"
#include "store/reader.h"

/* Here a row is the place of a row in its table. */
typedef struct weir_batch__walked_row {
    const uint8_t *record;
    uint32_t row;
    uint32_t first_cell; /* position in the sequence */
    uint16_t table;
    uint16_t kind; /* which says what cells it has */
    uint16_t hop;
    uint16_t part; /* of the sequence */
} weir_batch__walked_row;

typedef struct weir_batch__queued_row {
    uint32_t row;
    uint16_t hop;
    uint16_t table;
} weir_batch__queued_row;

/* A visible foreign key of a row of the sequence. */
typedef struct weir_batch__link {
    uint32_t parent; /* row … */
    uint16_t table;  /* … of this table */
    uint16_t child;  /* local number */
    uint32_t place;  /* of the parent among the known rows */
} weir_batch__link;

/* Children that a row is about to list: those along one edge type, of which the ones up to the observation
 * time count. How many these are is searched for step by step. */
typedef struct weir_batch__listing {
    const weir_batch__child_rule *rule;
    uint32_t index;          /* of the row in its table */
    uint32_t local;          /* number of the row */
    weir_batch__shown shown; /* of its list: the children that count, … */
    uint32_t always;         /* … of which these were always there; after them come … */
    uint32_t old;            /* … so many that do not count, because they are too old */
} weir_batch__listing;

/* What a step of a walk does: visit rows; or, when its level is done, list the children of the rows that
 * were visited since the last time: find their lists, search them, list what is taken, each in steps of their
 * own, so that what one reads was asked for in the one before. */
typedef enum weir_batch__walk_stage {
    WEIR_BATCH__WALK_VISIT,
    WEIR_BATCH__WALK_FIND,
    WEIR_BATCH__WALK_SEARCH,
    WEIR_BATCH__WALK_LIST,
} weir_batch__walk_stage;

typedef struct weir_batch__walk {
    const weir_store *store;
    const weir_batch__rules *rules;
    const weir_batch_config *config;
    uint32_t sequence_length;
    uint32_t max_rows;
    uint32_t max_hops;
    weir_child_policy policy;

    /* The rows of the sequence, in visit order; behind the last, where the next would begin. Its cells: while
     * it goes on, also those that will be cut. */
    weir_batch__walked_row *rows;
    uint32_t row_count;
    uint32_t cell_count;
    uint64_t record_bytes; /* of its rows, each at a multiple of 8 */
    uint8_t *task_rows;    /* the records of those that are task rows, by local number */

    /* Visible foreign keys between rows of the sequence, as local numbers. */
    struct weir_batch__local_edge {
        uint16_t child;
        uint16_t parent;
    } * edges;
    uint32_t edge_count;

    /* Scratch. */
    weir_batch__walk_stage stage;
    weir_batch__known_rows known;
    weir_batch__queued_row *queue; /* parents, first in, first out: those from queue_begin on wait */
    uint32_t queue_begin, queue_end;
    weir_batch__levels levels;
    weir_batch__chooser chooser;
    weir_batch__walk_draws draws;
    weir_batch__link *links;
    uint32_t link_count;
    weir_batch__listing *listings; /* of the rows that are being listed */
    uint32_t listing_count;
    uint32_t *searches; /* those of them that are not sure yet */
    uint32_t search_count;
    uint32_t listing;      /* the next of them to be listed */
    uint32_t listed_count; /* rows whose children are listed, or being listed */
    bool has_chosen;       /* the children of that next one: chooser.taken has their places in its list */
    weir_batch__retriever *retriever; /* of the thread; NULL: the sequence has one part */
    weir_batch__budget budget;
    weir_batch__outlook outlook;
    weir_batch__example *examples; /* that start the parts, part 0 left out */
    uint32_t example_count;        /* that were found */
    uint32_t next_example;
    uint32_t fill_tries;
    uint32_t *part_visits; /* how often walks came to the row that starts each part */
    uint32_t part;
    uint32_t part_end;        /* it ends when the sequence has so many cells */
    int64_t observation_time; /* of the seed */
    bool has_grown;           /* known rows have moved: places in links are old */
    bool is_corrupt;          /* a part of the store is damaged, or a number of it led nowhere */
} weir_batch__walk;

/* The retriever, which several walks of a thread share, is NULL if there is none. */
void weir_batch__walk_carve(weir_batch__walk *walk, weir__block *block, const weir_store *store,
                            const weir_batch__rules *rules, const weir_batch_config *config,
                            weir_batch__retriever *retriever);

/* How many rows it may know at most; it can be opened for up to WEIR_BATCH__KNOWN_ROWS_MAX. */
uint64_t weir_batch__walk_knows(const weir_batch__rules *rules, const weir_batch_config *config);

/* A walk is begun: from what an outlook says without its times, for a sequence of some length that is
 * observed at some time. Then it is taken step by step, until weir_batch__walk_step says false: then it is
 * done, or the store is damaged (is_corrupt). What a step reads was asked for in an earlier one, so that
 * several walks that take turns wait for their cache misses together. */
void weir_batch__walk_begin(weir_batch__walk *walk, const weir_batch__outlook *from, int64_t observation_time,
                            uint32_t sequence_length);
bool weir_batch__walk_step(weir_batch__walk *walk);

/* Nothing of the store is used before it is verified: a walk over what is damaged is corrupt. */
static inline void weir_batch__walk_touch(weir_batch__walk *walk, weir_batch__lies_in kind, const uint8_t *at,
                                          size_t size) {
    walk->is_corrupt |= !weir_batch__verify(walk->store, kind, at, size);
}

/* The state of a row among those that are known, made if there is none. */
static inline uint32_t *weir_batch__walk_know(weir_batch__walk *walk, uint32_t table, uint32_t row) {
    return weir_batch__know(&walk->known, table, row + walk->rules->tables[table].first_key);
}

/* A table of known rows of twice the places. What is known is in the lists of the walk. */
void weir_batch__walk_grow(weir_batch__walk *walk);

/* Makes room for `more` rows, which may be known already; places may change. The largest table has places for
 * all rows that there are. */
static inline void weir_batch__walk_reserve(weir_batch__walk *walk, uint32_t more) {
    while (walk->known.count + more > walk->known.room && walk->known.bits < walk->known.bits_max)
        weir_batch__walk_grow(walk);
}

#endif
