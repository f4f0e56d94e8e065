#!/usr/bin/env python3
"""A PyTorch model as a weir graph, for `weir plan`; needs nothing but torch.

    tools/torch_graph.py mymodels:resnet > g.json

The work is done by python/weir/torch_graph.py, which is loaded by itself: the package's extension need not be built.
"""

import importlib.util
import sys
from pathlib import Path

_path = Path(__file__).resolve().parents[1] / "python" / "weir" / "torch_graph.py"
_spec = importlib.util.spec_from_file_location("weir_torch_graph", _path)
_graph = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_graph)

if __name__ == "__main__":
    _graph.main()
else:
    sys.modules[__name__] = _graph
