"""The start of a client program in Python, without pandas: `python -m chaos.clients.python.start MODULE SPEC`.

pyarrow imports pandas with the first array if pandas is installed, which costs a process 0.25 s of CPU time and 50 MB.
No client program uses it.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

ENTRY = (sys.executable, "-m", "chaos.clients.python.start")
"""Command line that the name of a module and the path of a spec complete."""


class _NoPandas(MetaPathFinder):
    """A finder that refuses pandas, as if it were not installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise `ModuleNotFoundError` for pandas; leave all other modules to the other finders."""
        if fullname == "pandas":
            raise ModuleNotFoundError("client programs do not use pandas", name=fullname)
        return None


if __name__ == "__main__":
    sys.meta_path.insert(0, _NoPandas())
    program = sys.argv.pop(1)
    runpy.run_module(program, run_name="__main__", alter_sys=True)
