"""weir.push and weir.pull: stores on S3-like and plain HTTP servers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weir import _weir
from weir._ingest import Path, ProgressCallback, _Bar, _interruptible
from weir._store import Store


@dataclass(frozen=True)
class TransferReport:
    """What a push or a pull did: the store's hash and size, and the chunks and bytes of it that travelled."""

    store_hash: str
    bytes: int
    chunks: int
    moved_chunks: int
    moved_bytes: int
    total_ns: int


def push(
    store: Store | Path,
    url: str,
    *,
    chunk_size: int = 4 << 20,
    concurrency: int = 8,
    retries: int = 6,
    timeout: int = 60,
    progress: ProgressCallback | bool = False,
) -> TransferReport:
    """Sends a store to a server, in chunks that it does not have yet (docs/remote.md).

    url: s3://bucket/folder/name.weir, or that of a plain HTTP server that takes PUT. Credentials for S3 are those of
    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION and AWS_ENDPOINT_URL. chunk_size: a power
    of two from 4 KiB to 64 MiB. retries: of one request. timeout: seconds in which a server may send nothing.
    progress and Ctrl-C: as in weir.ingest; a push that was interrupted is given again.
    """
    bits = chunk_size.bit_length() - 1
    if chunk_size != 1 << max(bits, 0) or not 12 <= bits <= 26:
        raise ValueError(f"chunk_size is {chunk_size}, but must be a power of two from 4 KiB to 64 MiB")
    path = store.path if isinstance(store, Store) else store
    return _transfer(lambda tell: _weir._push(path, url, bits, concurrency, retries, timeout, tell), progress)


def pull(
    url: str,
    out: Path | None = None,
    *,
    hash: str | None = None,
    concurrency: int = 8,
    retries: int = 6,
    timeout: int = 60,
    progress: ProgressCallback | bool = False,
) -> TransferReport:
    """Brings a store that weir.push has sent, whole and verified or not at all; only what is lacking here travels.

    out: where it goes; by default the name in the URL. hash: the store's hash; any other store is refused. What has
    arrived of a pull that was interrupted lies in `out`.part, from which the next one resumes. The rest is as in
    weir.push.
    """
    try:
        expected = None if hash is None else bytes.fromhex(hash)
    except ValueError:
        expected = b""
    if expected is not None and len(expected) != 32:
        raise ValueError("hash must be the 64 hex digits of a store's hash")
    path = out if out is not None else os.path.basename(url) or url
    return _transfer(lambda tell: _weir._pull(url, path, expected, concurrency, retries, timeout, tell), progress)


def _transfer(
    work: Callable[[Callable[..., bool]], dict[str, Any]], progress: ProgressCallback | bool
) -> TransferReport:
    with _Bar(progress, unit=" chunks") as report:
        return TransferReport(**_interruptible(work, report))
