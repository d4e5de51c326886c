"""The command line: `python -m chaos`. Each command calls the stages that the DAGs call.

Exit codes: 0 pass, 1 fail, 2 bad usage or invalid scenario, 3 inconclusive, 130 interrupted.
"""

from __future__ import annotations

import errno
import signal
import sys
from types import FrameType

import typer
from rich.console import Console

from chaos.cli import (
    again,
    bundle,
    catalogue,
    clusters,
    dag,
    gate,
    history,
    incident,
    java,
    reference,
    run,
    scenarios,
    search,
    ui,
)
from chaos.errors import INCONCLUSIVE, INTERRUPTED, AftershockError

app = typer.Typer(
    help="Break a real Apache Kafka cluster on purpose, and prove record by record what happened.\n\n"
    "Exit codes: 0 pass, 1 fail, 2 bad usage or invalid scenario, 3 inconclusive, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (
    *(run, dag, ui, catalogue, gate, history, scenarios, reference),
    *(bundle, again, search, incident, clusters, java),
):
    module.register(app)


def main() -> None:
    """Run the command line; a user's mistake or a run that cannot go on is one line, never a traceback."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        app()
    except AftershockError as e:
        Console(stderr=True, soft_wrap=True, highlight=False).print(f"[bold red]error:[/] {_plain(str(e))}")
        sys.exit(e.exit_code)
    except OSError as e:
        if e.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
            raise
        where = f" ({e.filename})" if e.filename else ""
        Console(stderr=True, soft_wrap=True, highlight=False).print(
            f"[bold red]error:[/] {_plain(str(e.strerror))}{_plain(where)}; everything of the run was ended, "
            "make room or choose another --runs-dir and run again"
        )
        sys.exit(INCONCLUSIVE)
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted; everything of the run was ended")
        sys.exit(INTERRUPTED)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    """SIGTERM cleans up as Ctrl-C does."""
    raise KeyboardInterrupt


def _plain(text: str) -> str:
    return text.replace("[", "\\[")
