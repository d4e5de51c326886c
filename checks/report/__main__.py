"""`python -m checks.report RUN_DIR`: show a person the result of a run that was judged."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from chaos.run.directory import Run
from chaos.run.result import Result
from checks.report.terminal import render


def main(run_dir: str) -> None:
    """Print the result."""
    render(Result.model_validate_json(Run(Path(run_dir)).result.read_bytes()), Console())


if __name__ == "__main__":
    main(sys.argv[1])
