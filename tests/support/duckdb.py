"""libduckdb through ctypes, as far as tests need it to make databases: DuckDB(path).run(sql)."""
import ctypes
import glob
import importlib.util
import os


def library_path():
    """The library that WEIR_DUCKDB names, or that pip's package duckdb has, or None."""
    path = os.environ.get("WEIR_DUCKDB", "")
    if path:
        return path if os.path.exists(path) else None
    module, package = importlib.util.find_spec("_duckdb"), importlib.util.find_spec("duckdb")
    if module:
        return module.origin
    folders = package.submodule_search_locations if package else []
    return next((found for folder in folders for found in glob.glob(os.path.join(folder, "duckdb.*.so"))), None)


class Result(ctypes.Structure):
    _fields_ = [("words", ctypes.c_uint64 * 6)]


class DuckDB:
    def __init__(self, path):
        self.library = ctypes.CDLL(library_path())
        self.library.duckdb_result_error.restype = ctypes.c_char_p
        self.database = ctypes.c_void_p()
        self.connection = ctypes.c_void_p()
        assert self.library.duckdb_open(path.encode(), ctypes.byref(self.database)) == 0
        assert self.library.duckdb_connect(self.database, ctypes.byref(self.connection)) == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.library.duckdb_disconnect(ctypes.byref(self.connection))
        self.library.duckdb_close(ctypes.byref(self.database))

    def run(self, sql):
        result = Result()
        state = self.library.duckdb_query(self.connection, sql.encode(), ctypes.byref(result))
        message = self.library.duckdb_result_error(ctypes.byref(result)) if state else b""
        self.library.duckdb_destroy_result(ctypes.byref(result))
        if state:
            raise RuntimeError(message.decode(errors="replace"))
