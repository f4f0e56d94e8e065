/* What the packer's files share. Data flows one way:
 *
 *   pack_sweep.c      rows in canonical order, deaths, the lower bound          -> weir_pack__sweep
 *   pack_fit.c        best fit in time order over a sweep
 *   pack_core.c       the fullest moments searched, the rest fitted outward from them
 *   pack_windows.c    first fit of all rows, largest first; windows of time taken out and packed again
 *   pack_part.c       maximal sections of an independent part                   -> weir_pack__part
 *   pack_fuse.c       buffers that fit together made one, and back
 *   pack_corner.c     the state of a corner search: place, leave empty, undo
 *   pack_exact.c      the tree over that state: branch, split, refuted states
 *   pack_search.c     many short searches over one part, on any number of threads: settings, capacities
 *   pack.c            the strategies, and how much effort each is given
 *
 * Inside the packer sizes and offsets are in units of the greatest common divisor of all sizes, so
 * alignment needs no thought: every offset is a sum of sizes. The sum of all sizes fits 64 bits, and no
 * search ever places a buffer above the sum of others, so offsets plus sizes cannot overflow. */
#ifndef WEIR_PLAN_PACK_INTERNAL_H
#define WEIR_PLAN_PACK_INTERNAL_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/sort.h"
#include "plan/pack.h"

#define WEIR_PACK__NO_INDEX UINT32_MAX

/* ---- Sweep ----------------------------------------------------------------------------------- */

typedef struct weir_pack__row {
    uint64_t lower;
    uint64_t upper;
    uint64_t size;   /* in units, not 0 */
    uint32_t origin; /* index of the caller's buffer */
} weir_pack__row;

typedef struct weir_pack__sweep {
    uint32_t count;
    weir_pack__row *rows; /* by (lower, longest first, largest first, rank) */
    uint32_t *deaths;     /* rows by (upper, row descending) */
    uint64_t unit;        /* bytes per unit */
    uint64_t lower_bound;
    uint32_t live_max; /* most rows live at once */
    uint32_t peak_row; /* the birth after which the live sum is first the lower bound */
} weir_pack__sweep;

weir_status weir_pack__sweep_open(const weir_env *env, const weir_buffer *buffers, size_t count,
                                  const uint32_t *rank, weir_pack__sweep *sweep, weir_error *error);
void weir_pack__sweep_close(const weir_env *env, weir_pack__sweep *sweep);

/* How many rows are born before `time`: the first that is not. */
uint32_t weir_pack__born_before(const weir_pack__sweep *sweep, uint64_t time);

/* ---- Fits in time order ---------------------------------------------------------------------- */

typedef enum weir_pack__fit_from {
    WEIR_PACK__FIT_FORWARD,  /* births in time order */
    WEIR_PACK__FIT_BACKWARD, /* the same on reversed time */
    WEIR_PACK__FIT_OUTWARD,  /* the fullest moment stacked, then both ways from there */
    WEIR_PACK__FIT_AROUND    /* both ways from a window whose rows are laid out already */
} weir_pack__fit_from;

#define WEIR_PACK__SLANT_ONE  (UINT32_C(1) << 16)
#define WEIR_PACK__SLANT_LONG UINT32_MAX /* by length instead, longest lowest */

typedef struct weir_pack__fit_order {
    weir_pack__fit_from from;
    uint32_t slant; /* of the stack: 0 by death, latest lowest; SLANT_ONE by birth, oldest lowest */
    bool by_end;    /* a request goes to the side of its gap whose neighbour is freed at the nearer time */
    uint64_t window_from, window_to; /* around: what lives in [from, to) has its place in `offsets` */
} weir_pack__fit_order;

/* The place of a row in a stack: the least lies lowest, of equals the first row. */
uint64_t weir_pack__slanted(const weir_pack__sweep *sweep, const weir_pack__row *row, uint32_t slant);

/* Best fit over free blocks, O(n log n); offsets by row. *peak is in units, and on entry the top of what is
 * laid out already; *steps grows by the work. */
weir_status weir_pack__fit(const weir_env *env, const weir_pack__sweep *sweep, weir_pack__fit_order order,
                           uint64_t *offsets, uint64_t *peak, uint64_t *steps, weir_error *error);

/* ---- First fit, and windows ------------------------------------------------------------------ */

typedef struct weir_pack__windows weir_pack__windows;

/* NULL: no memory. */
weir_pack__windows *weir_pack__windows_open(const weir_env *env, const weir_pack__sweep *sweep);
void weir_pack__windows_close(weir_pack__windows *windows);

/* First fit of every row, largest key first. False: that could take the steps past the limit. */
bool weir_pack__windows_fit(weir_pack__windows *windows, uint64_t limit, uint64_t *offsets, uint64_t *steps);

/* Improves a layout until its peak is at most `floor` or the steps have reached `limit`. Nothing that is
 * known from an earlier call is lost. */
void weir_pack__windows_run(weir_pack__windows *windows, uint64_t floor, uint64_t limit, uint64_t *offsets,
                            uint64_t *peak, uint64_t *steps);

/* ---- Parts ----------------------------------------------------------------------------------- */

/* A problem over *sections*: the maximal sets of buffers that are live together, in time order. Buffers are
 * sorted by first section, so those born strictly inside a lifetime are one index range. Immutable once
 * built. */
typedef struct weir_pack__part {
    weir__arena memory; /* of all arrays */
    uint32_t count;
    uint32_t section_count;
    uint32_t *first; /* by buffer: sections [first, last) */
    uint32_t *last;
    uint64_t *size;
    uint32_t *born_at;    /* by section, and one past: index of the first buffer with first >= section */
    uint64_t *load;       /* by section: sum of sizes */
    uint32_t *members_at; /* by section, and one past: where its buffers start in members */
    uint32_t *members;
    uint32_t *slots_at;   /* by buffer: number of memberships of the buffers before it */
    uint64_t lower_bound; /* largest load */
    uint32_t live_max;
    bool oversized; /* too many memberships to list: nothing by section is there, and no search is run */
} weir_pack__part;

enum { WEIR_PACK__MEMBERSHIPS_MAX = 1 << 25 };

/* Buffer i is row i; rows must be sorted by lower. Fails with OUT_OF_MEMORY only. */
weir_status weir_pack__part_open(const weir_env *env, const weir_pack__row *rows, uint32_t count,
                                 weir_pack__part *part, weir_error *error);
void weir_pack__part_close(weir_pack__part *part);

/* The sections of rows that are sorted by lower, [first, last) each; `deaths` are the rows by upper. Returns
 * how many sections there are. */
uint32_t weir_pack__number_sections(const weir_pack__row *rows, const uint32_t *deaths, uint32_t count,
                                    uint32_t *first, uint32_t *last);

/* ---- Fusion ---------------------------------------------------------------------------------- */

/* Rows fused into larger rectangles, and the way back. */
typedef struct weir_pack__fusion weir_pack__fusion;

/* *left is how many rectangles there are then. NULL: no memory. */
weir_pack__fusion *weir_pack__fuse(const weir_env *env, const weir_pack__sweep *sweep, uint32_t *left,
                                   uint64_t *steps);
void weir_pack__fusion_close(weir_pack__fusion *fusion);

/* The problem over the rectangles that are left: their lifetimes are sections. */
void weir_pack__fusion_buffers(const weir_pack__fusion *fusion, weir_buffer *buffers);
/* Offsets of the rows from those of the buffers that weir_pack__fusion_buffers gave. */
void weir_pack__fusion_expand(weir_pack__fusion *fusion, const uint64_t *offsets, uint64_t *expanded);

/* ---- Corner search --------------------------------------------------------------------------- */

typedef enum weir_pack__corner_rule {
    WEIR_PACK__RULE_FEWEST,   /* the corner with the fewest choices, then the least slack */
    WEIR_PACK__RULE_LOWEST,   /* the lowest plateau */
    WEIR_PACK__RULE_TIGHTEST, /* the least slack, coarsely, then the fewest choices */
    WEIR_PACK__RULE_NEAREST,  /* the fewest choices, then nearest to the last placement */
    WEIR_PACK__RULES
} weir_pack__corner_rule;

typedef enum weir_pack__corner_order {
    WEIR_PACK__ORDER_LONGEST,
    WEIR_PACK__ORDER_LARGEST,
    WEIR_PACK__ORDER_AREA,
    WEIR_PACK__ORDER_LONG_AREA,  /* duration squared x size */
    WEIR_PACK__ORDER_LARGE_AREA, /* duration x size squared */
    WEIR_PACK__ORDERS
} weir_pack__corner_order;

typedef struct weir_pack__search_task {
    weir_pack__corner_rule rule;
    weir_pack__corner_order order;
    uint32_t seed; /* 0: no noise in the order */
    uint32_t fit;  /* bit 0: prefer tops level with a wall; bit 1: prefer buffers that span the plateau */
    uint64_t capacity;
    uint64_t budget;   /* in steps */
    bool soft;         /* if no choice fits, raise the capacity and continue: never REFUTED */
    uint32_t patience; /* soft: refuted choices before the capacity is raised */
} weir_pack__search_task;

typedef enum weir_pack__search_end {
    WEIR_PACK__SEARCH_SOLVED,
    WEIR_PACK__SEARCH_REFUTED,
    WEIR_PACK__SEARCH_SPENT
} weir_pack__search_end;

typedef struct weir_pack__corner weir_pack__corner;

/* *corner is NULL, or one that is at hand and is opened anew, which spares its large tables. It is NULL after
 * a failure. */
weir_status weir_pack__corner_open(const weir_env *env, const weir_pack__part *part,
                                   weir_pack__corner **corner, weir_error *error);
void weir_pack__corner_close(weir_pack__corner *corner);
/* Runs one search from the start. Offsets by buffer of the part, written where SOLVED. */
weir_status weir_pack__corner_run(weir_pack__corner *corner, const weir_pack__search_task *task,
                                  uint64_t *offsets, weir_pack__search_end *end, uint64_t *steps,
                                  weir_error *error);

/* Core fits: see pack_core.c. Offsets by row; *peak UINT64_MAX if the core was not laid out. *corner is kept
 * from one to the next, as weir_pack__corner_open takes it. */
typedef struct weir_pack__core_setting {
    uint32_t reach; /* rows born before and after the fullest moment */
    weir_pack__corner_order order;
    uint32_t seed;
    uint32_t slant;
    bool by_end;
} weir_pack__core_setting;

weir_status weir_pack__fit_core(const weir_env *env, const weir_pack__sweep *sweep,
                                const weir_pack__core_setting *setting, uint64_t target,
                                weir_pack__corner **corner, uint64_t *offsets, uint64_t *peak,
                                uint64_t *steps, weir_error *error);

/* ---- Search over one part -------------------------------------------------------------------- */

enum { WEIR_PACK__TASKS_MAX = 24 };

typedef struct weir_pack__outcome {
    weir_pack__search_end end;
    uint64_t peak; /* UINT64_MAX if there is no layout */
    uint64_t steps;
} weir_pack__outcome;

/* A part, the best layout of it so far, and what is known about it. Searching goes on where it stopped. */
typedef struct weir_pack__part_search {
    const weir_env *env;
    weir_pack__part part;
    uint64_t *offsets; /* by buffer of the part: valid before each call, better after it */
    uint64_t peak;
    uint64_t proven;  /* no layout has a lower peak than this */
    uint64_t target;  /* nothing is gained below */
    uint64_t steps;   /* grows */
    unsigned number;  /* of the next task: settings and noise come from it; grows */
    bool is_of_large; /* the part is one of a large problem */
    unsigned round;   /* then: of soft searches, over all calls */
    uint64_t dive;    /* steps of one dive; 0: none was made */
    uint64_t cycle;   /* steps of one hard search in the next cycle; 0: the first */

    /* The batch of tasks at hand. */
    const weir_pack__search_task *tasks;
    uint64_t enough;
    atomic_uint decisive; /* the first decisive task known so far, or the last of all */
    atomic_bool is_short_of_memory;
    uint64_t *layouts; /* WEIR_PACK__TASKS_MAX of them; NULL: nothing was searched yet */
    weir_pack__outcome outcomes[WEIR_PACK__TASKS_MAX];
    unsigned worker_count;
    weir_pack__corner *corners[WEIR_PACK__THREADS_MAX]; /* a worker's */
} weir_pack__part_search;

/* As weir_pack__part_open takes it. Close it in any case. */
weir_status weir_pack__search_open(const weir_env *env, const weir_pack__row *rows, uint32_t count,
                                   uint32_t threads, weir_pack__part_search *search, weir_error *error);
/* Searches until the steps have reached `limit`; hard (exact) searches too if asked. Nothing is done if not
 * even one dive fits. The steps pass the limit by a few nodes of a tree at most. */
weir_status weir_pack__search_part(weir_pack__part_search *search, uint64_t limit, bool with_hard,
                                   weir_error *error);
void weir_pack__search_close(weir_pack__part_search *search);

#endif
