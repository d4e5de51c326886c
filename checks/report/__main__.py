"""`python -m checks.report RUN_DIR`: print the result of a run."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from chaos.run.directory import Run
from chaos.run.result import Result
from checks.report.terminal import render


def main(run_dir: str) -> None:
    """Print the result."""
    render(Result.read(Run(Path(run_dir))), Console())


if __name__ == "__main__":
    main(sys.argv[1])
