"""`python -m chaos.workers RUN_DIR NUMBER [TIMEOUT_S]`: run one worker of a run, until its drive ends."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from chaos.errors import AftershockError
from chaos.workers.agent import serve
from chaos.workers.connection import TIMEOUT_S


def main(run_dir: str, number: str, timeout_s: str = str(TIMEOUT_S)) -> int:
    """Run a worker. Returns the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends its clients, as Ctrl-C does
    try:
        serve(Path(run_dir), int(number), float(timeout_s))
    except AftershockError as e:
        sys.stderr.write(f"{e}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
