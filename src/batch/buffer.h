/* A batch's buffer: room for its compact form and for its tensors, and what is kept beside them. */
#ifndef WEIR_BATCH_BUFFER_H
#define WEIR_BATCH_BUFFER_H

#include <stdatomic.h>

#include "base/block.h"
#include "batch/text_order.h"
#include "weir/batch.h"
#include "weir_tool/philox.h"

/* What the sizes of a batch depend on, at their largest. All members are uint64_t, also those of the room:
 * weir_batch__limits_of_both goes through them as such. */
typedef struct weir_batch__limits {
    uint64_t sequences;
    uint64_t length;
    uint64_t rows;         /* R */
    uint64_t walked_rows;  /* of a sequence */
    uint64_t walked_texts; /* cells of a sequence that use one */
    uint64_t texts;        /* U */
    uint64_t dim;
    uint64_t blob;      /* bytes of a sequence in the compact form */
    uint64_t tensors;   /* the optional ones that there are: bit i for weir_tensor_id i */
    uint64_t all_rows;  /* walked in a batch */
    uint64_t all_texts; /* cells of a batch that use one */
    uint64_t blobs;     /* bytes of a batch in the compact form, without its texts */
    weir_batch_room room;
} weir_batch__limits;

/* What is known of a sequence before its walk. */
typedef struct weir_batch__sample {
    uint64_t index; /* in the dataset */
    uint64_t position;
    weir_seed walk_seed;
    uint64_t walk_position; /* where it draws */
    uint32_t member;        /* the dataset's number in a mixed batch; else 0 */
    bool is_absent;         /* a negative that there is none for: padding */
    bool is_given;          /* these are given; else the dataset has them: */
    uint64_t stored;        /* number of the task's seed, or WEIR_NO_ROW */
    uint32_t table;         /* of the anchor row */
    uint32_t place;         /* of a destination, among all of its table */
    weir_seed_row seed;     /* what it says */
} weir_batch__sample;

struct weir_batch_buffer {
    const weir_env *env;
    weir_batch__limits limits;
    weir_batch_room room;
    uint8_t *compact; /* the compact form, but for … */
    uint8_t *beyond;  /* … the last texts, if room.compact is not enough for all */
    uint64_t here;    /* bytes of its batch that lie in `compact` */
    uint8_t *tensors; /* NULL: batches are not expanded */
    bool owns_compact;
    bool owns_tensors;
    bool hides_anchors;
    weir_batch batch;
    uint32_t tensors_asked; /* of its batch, as in limits */
    uint32_t row_stride;    /* of rows and visits, between two of its sequences */

    /* While it is built, by any threads. */
    _Atomic uint64_t used; /* bytes of the compact form that have an owner */
    _Atomic uint32_t use_count;
    _Atomic bool is_corrupt; /* a number of the store led nowhere */

    weir__block lists;
    weir_batch__sample *samples;
    uint64_t *indices;
    uint64_t *epochs;
    uint64_t *digests;
    uint32_t *anchors;
    uint32_t *dataset_ids; /* of mixed batches */
    uint64_t *group_digests;
    uint64_t *rows;   /* row_stride a sequence */
    uint32_t *visits; /* the same */
    weir_batch__text_use *uses;
    uint32_t *texts; /* the store's numbers, ascending */
};

/* Sets where the parts lie, by the batch's dims: all but the optional ones that are not among `tensors`. */
void weir_batch__place(weir_batch *batch, uint64_t tensors);

/* Sets what follows from the other limits, of batches of one length. */
void weir_batch__limit_sums(weir_batch__limits *limits);

/* What holds batches of either. */
weir_batch__limits weir_batch__limits_of_both(const weir_batch__limits *a, const weir_batch__limits *b);

/* The compact memory has `compact_room` bytes: at least limits->blobs, and all of limits->room.compact if
 * batches are expanded here. */
WEIR_CHECKED weir_status weir_batch__open_buffer(const weir_env *env, const weir_batch__limits *limits,
                                                 const weir_batch_memory *memory, uint64_t compact_room,
                                                 weir_batch_buffer **out, weir_error *error);

#endif
