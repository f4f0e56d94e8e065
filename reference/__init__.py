"""The reference simulator: weir's contracts in pure Python, to be read rather than to be run fast.

It follows the specification sections "Canonical encoding, hashes, randomness, errors", "Sampler" and "Store"
and shares no code with the C library, so that where the two agree, neither is merely agreeing with itself. It
needs Python 3.11 and its standard library.
"""

from .errors import WeirError
from .manifest import Manifest
from .mix import Mixer
from .sampler import Batch, Cursor, Sampler
from .store import Store

__all__ = ["Batch", "Cursor", "Manifest", "Mixer", "Sampler", "Store", "WeirError"]
