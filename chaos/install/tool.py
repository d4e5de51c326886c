"""One run of a tool that installs or checks something: pip, Ivy, a compiler."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.errors import ResolveError


def run_tool(
    argv: Sequence[str], variables: Mapping[str, str], timeout_s: float, late: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command without input, and return its exit code and output.

    variables: environment variables in addition to those of this process. Raises `ResolveError` with the text `late`
    if the command does not end in time; it is killed then.
    """
    try:
        return subprocess.run(
            argv,
            cwd=cwd,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ResolveError(late) from None
