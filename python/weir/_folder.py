"""A folder of files, here or on any filesystem that pyarrow (s3://, gs://, abfs://, hdfs://) or fsspec has."""

from __future__ import annotations

import os
from typing import Any, BinaryIO, cast

HADOOP_SCHEMES = {"s3a": "s3", "s3n": "s3"}  # what Spark calls a filesystem, as pyarrow does


class Folder:
    """Writes whole files into one folder, which it makes. What it writes is on the disk when it is closed."""

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self.location = os.fspath(location)
        self._remote: Any = None
        self._path = self.location
        if self.is_remote(self.location):
            self._remote, self._path = _remote(self.location)
            self._remote.create_dir(self._path, recursive=True)
        else:
            os.makedirs(self._path, exist_ok=True)

    @staticmethod
    def is_remote(location: str | os.PathLike[str]) -> bool:
        return "://" in os.fspath(location)

    def create(self, name: str) -> BinaryIO:
        """A new file, to be written from its beginning to its end and given to `finish`."""
        path = os.path.join(self._path, name)
        return cast(BinaryIO, self._remote.open_output_stream(path)) if self._remote else open(path, "xb")

    def finish(self, file: BinaryIO) -> None:
        if not self._remote:
            file.flush()
            os.fsync(file.fileno())
        file.close()

    def replace(self, name: str, data: bytes) -> None:
        """Makes a small file, or replaces it, at once."""
        path = os.path.join(self._path, name)
        if self._remote:
            with self._remote.open_output_stream(path) as file:
                file.write(data)
            return
        with open(f"{path}.new", "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.new", path)
        directory = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def remove(self, name: str) -> None:
        path = os.path.join(self._path, name)
        self._remote.delete_file(path) if self._remote else os.remove(path)

    def names(self) -> list[str]:
        if not self._remote:
            return os.listdir(self._path)
        from pyarrow.fs import FileSelector

        return [entry.base_name for entry in self._remote.get_file_info(FileSelector(self._path))]


def copy_here(location: str, folder: str) -> None:
    """Copies the files of a remote folder into one of this machine."""
    from pyarrow import fs

    remote, path = _remote(location)
    fs.copy_files(path, folder, source_filesystem=remote, destination_filesystem=fs.LocalFileSystem())


def _remote(location: str) -> tuple[Any, str]:
    try:
        from pyarrow import ArrowInvalid, fs
    except ImportError as error:
        raise ImportError(f"{location} is on another machine, which needs pyarrow: pip install pyarrow") from error
    scheme, rest = location.split("://", 1)
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(f"{HADOOP_SCHEMES.get(scheme, scheme)}://{rest}")
        return found
    except ArrowInvalid as error:
        return _of_fsspec(location, error)


def _of_fsspec(location: str, why: Exception) -> tuple[Any, str]:
    from pyarrow import fs

    try:
        import fsspec
    except ImportError:
        raise ValueError(f"pyarrow has no filesystem for {location}, and fsspec is not installed: {why}") from why
    system, path = fsspec.core.url_to_fs(location)
    return fs.PyFileSystem(fs.FSSpecHandler(system)), path
