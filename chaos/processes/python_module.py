"""Python modules of this installation, run as child processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

from chaos.install.locations import python_path


def run_module(
    *argv: str, capture: bool = True, text_input: str | None = None, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `python -m <argv>` to its end, in any working directory.

    capture: return stdout and stderr as text, else they go where those of this process go. variables: more variables
    of the environment.
    """
    return subprocess.run(
        [sys.executable, "-m", *argv],
        env={**os.environ, **(variables or {}), "PYTHONPATH": python_path()},
        input=text_input if text_input is not None else "",
        capture_output=capture,
        text=True,
        check=False,
    )
