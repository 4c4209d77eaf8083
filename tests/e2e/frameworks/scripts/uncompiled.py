"""Keep PyTorch's first optimizer from importing the compiler: that takes as long as PyTorch."""

import sys
from types import SimpleNamespace

sys.modules["torch._dynamo"] = SimpleNamespace(
    disable=lambda function, *_, **__: function,
    graph_break=lambda: None,
    trace_rules=SimpleNamespace(clear_lru_cache=lambda: None),
)
