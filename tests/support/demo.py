"""A small shop for a module's tests: what `weir demo` makes, with short sequences and batches of 8."""
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path


def small_demo() -> Path:
    """Its folder, which is there until the module's tests are done: call it from setUpModule."""
    holder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(holder.cleanup)
    folder = Path(holder.name)
    subprocess.run([os.environ["WEIR"], "demo", "--scale", "2000", "--dir", folder, "--no-run", "--json"], check=True,
                   capture_output=True)
    path = folder / "shop.manifest.json"
    manifest = json.loads(path.read_text())
    manifest.update(global_batch_size=8, batch={"sequence_length": 32, "max_rows": 16})
    path.write_text(json.dumps(manifest))
    return folder
