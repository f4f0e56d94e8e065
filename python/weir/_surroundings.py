"""What weir's C code looks for around it, and what Python knows better: where pip put DuckDB, and where this machine keeps
its certificates (a wheel that was built elsewhere cannot know). Said in environment variables, unless they are set."""

import importlib.util
import os
from pathlib import Path

# Debian and its kin, Red Hat's, SUSE's, Alpine's.
_CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def prepare() -> None:
    """Sets WEIR_DUCKDB and SSL_CERT_FILE if nothing is said and something is found."""
    if not os.environ.get("WEIR_DUCKDB"):
        library = _duckdb()
        if library:
            os.environ["WEIR_DUCKDB"] = library
    if not os.environ.get("SSL_CERT_FILE") and not os.environ.get("SSL_CERT_DIR"):
        certificates = next((path for path in _CERTIFICATES if os.path.exists(path)), None)
        if certificates:
            os.environ["SSL_CERT_FILE"] = certificates


def _duckdb() -> str | None:
    """The module of pip's duckdb, which has DuckDB's C interface; until version 1.3 it lay inside the package."""
    module = importlib.util.find_spec("_duckdb")
    if module is not None:
        return module.origin
    package = importlib.util.find_spec("duckdb")
    folders = package.submodule_search_locations if package is not None else None
    return next((str(path) for folder in folders or () for path in Path(folder).glob("duckdb.*.so")), None)
