"""The errors of weir: one table of pinned codes, and the one exception that carries them.

Follows the section "Errors" of the specification. An operation that fails raises `WeirError`, has produced no
output and has changed no state. The diagnostics are the numbers involved, by name; the byte at which a CBOR
decoder gave up, for example, is the diagnostic `offset`.
"""

NUMERIC_CODES: dict[str, int] = {
    "BATCH_SIZE_INCONSISTENT": 1101,
    "INVALID_DATASET_KEY": 1102,
    "CARDINALITY_MISMATCH": 1103,
    "GLOBAL_POSITION_EXCEEDS_CARDINALITY": 1104,
    "KEY_NOT_FOUND": 1105,
    "INVALID_IR": 1201,
    "ALIGNMENT_VIOLATION": 1301,
    "ALLOCATION_OVERFLOW": 1303,
    "ARENA_TOO_SMALL": 1304,
    "LIVENESS_CYCLE": 1305,
    "INVALID_IR_SHAPES": 1306,
    "ADDRESS_COLLISION": 1307,
    "CONTRACT_VIOLATION": 1801,
    "INVALID_STAGE_TYPE": 1802,
    "COUNTER_OVERFLOW": 1804,
    "REPLAY_DIVERGENCE": 1901,
    "IO_ERROR": 2001,
    "OUT_OF_MEMORY": 2002,
    "STORE_CORRUPT": 2003,
    "STORE_VERSION": 2004,
    "SCHEMA_INVALID": 2005,
    "SOURCE_ERROR": 2006,
    "TASK_INVALID": 2007,
    "CHECKPOINT_MISMATCH": 2008,
    "DEVICE_ERROR": 2009,
    "CANCELLED": 2010,
    "CBOR_INVALID": 2011,
    "MANIFEST_INVALID": 2012,
    "TRACE_CORRUPT": 2013,
}


class WeirError(Exception):
    """A failure with its identity, a sentence for people, and the numbers involved."""

    def __init__(self, code_id: str, message: str, **diagnostics: int | str) -> None:
        super().__init__(f"{code_id}: {message}")
        self.code_id = code_id
        self.numeric_code = NUMERIC_CODES[code_id]
        self.message = message
        self.diagnostics = diagnostics
