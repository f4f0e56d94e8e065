/* The one table of weir's errors. Codes are pinned for ever: a code that is retired is never used again.
 *
 * Each row is X(numeric code, id, subsystem, what it means). The header enum, the error records, the
 * command line's texts, docs/errors.md (checked against `weir help errors`) and the Python exceptions all
 * come from here. */
#ifndef WEIR_ERRORS_H
#define WEIR_ERRORS_H

#define WEIR_ERROR_TABLE(X)                                                                                  \
    X(1101, BATCH_SIZE_INCONSISTENT, "data", "the batch size does not fit the world size or the dataset")    \
    X(1102, INVALID_DATASET_KEY, "data", "the manifest has no dataset of that name")                         \
    X(1103, CARDINALITY_MISMATCH, "data",                                                                    \
      "a dataset is empty, or is not the one that the manifest describes")                                   \
    X(1104, GLOBAL_POSITION_EXCEEDS_CARDINALITY, "data",                                                     \
      "a position lies at or beyond the end of the epoch")                                                   \
    X(1105, KEY_NOT_FOUND, "data", "no row of the table has that key")                                       \
    X(1201, INVALID_IR, "ir", "a model graph is malformed")                                                  \
    X(1301, ALIGNMENT_VIOLATION, "memory", "an alignment is not a power of two from 1 to 2^30")              \
    X(1303, ALLOCATION_OVERFLOW, "memory", "a size or a sum of sizes does not fit 64 bits")                  \
    X(1304, ARENA_TOO_SMALL, "memory", "the plan needs more memory than the arena's capacity")               \
    X(1305, LIVENESS_CYCLE, "memory", "the graph has a cycle, or the order uses a tensor before its birth")  \
    X(1306, INVALID_IR_SHAPES, "ir", "a tensor's shape or dtype is not valid")                               \
    X(1307, ADDRESS_COLLISION, "memory", "two slots of an arena hash to one address")                        \
    X(1801, CONTRACT_VIOLATION, "contract", "an argument breaks the operator's contract")                    \
    X(1802, INVALID_STAGE_TYPE, "contract", "the stage is not train, eval, infer or eval_seeded")            \
    X(1804, COUNTER_OVERFLOW, "contract", "a counter would pass 2^64-1")                                     \
    X(1901, REPLAY_DIVERGENCE, "replay", "a replayed step differs from its record")                          \
    X(2001, IO_ERROR, "io", "the operating system refused a file operation")                                 \
    X(2002, OUT_OF_MEMORY, "memory", "out of memory")                                                        \
    X(2003, STORE_CORRUPT, "store", "a store's bytes are damaged")                                           \
    X(2004, STORE_VERSION, "store", "a store was written by an incompatible version")                        \
    X(2005, SCHEMA_INVALID, "store", "a schema, or data that it describes, is not valid")                    \
    X(2006, SOURCE_ERROR, "store", "the source database failed or gave unreadable data")                     \
    X(2007, TASK_INVALID, "store", "a task's definition or its query is not valid")                          \
    X(2008, CHECKPOINT_MISMATCH, "pipeline", "a checkpoint belongs to another run configuration")            \
    X(2009, DEVICE_ERROR, "device", "a device or its driver failed")                                         \
    X(2010, CANCELLED, "pipeline", "the operation was cancelled")                                            \
    X(2011, CBOR_INVALID, "encoding", "bytes or a value outside the canonical CBOR profile")                 \
    X(2012, MANIFEST_INVALID, "data", "a manifest is malformed")                                             \
    X(2013, TRACE_CORRUPT, "replay", "a trace is cut, edited or not a trace")

#endif
