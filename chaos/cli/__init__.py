"""The command line, `aftershock` or `python -m chaos`. Each command calls the functions that the DAGs call.

A command's module is imported when the command runs or shows its own help, so that `--help` answers at once.

Exit codes: 0 pass, 1 fail, 2 bad usage or invalid scenario, 3 inconclusive, 130 interrupted.
"""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
import time
from types import FrameType
from typing import Any, NoReturn

import typer
from typer._click.exceptions import NoArgsIsHelpError
from typer._click.exceptions import UsageError as Misuse  # typer exports its subclasses only
from typer.core import TyperCommand, TyperGroup

from chaos.errors import INCONCLUSIVE, INTERRUPTED, USAGE, AftershockError

STARTED = time.monotonic()
"""When the command began, with its imports still to come."""

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Run and judge": {
        "test": ("run", "Run your application, unmodified, under faults, and say which inputs it lost or doubled."),
        "run": ("run", "Run a scenario: deploy a cluster, break it under load, audit every record, give the verdict."),
        "init": ("run", "Write a scenario for your application: what it reads and writes is seen in a first run."),
        "audit": ("run", "Audit a run directory again, offline: from its ledger to the verdict, without Kafka."),
        "catalogue": ("campaigns", "Run the shipped scenarios on shared clusters, and print one table."),
        "corpus": ("campaigns", "Run published bugs with affected and fixed releases, and say which ones are found."),
        "dag": ("airflow", "Run the DAG of a scenario through Airflow, and watch it."),
        "tap": ("tap", "Stand before a cluster that exists: record its applications, and judge them on Ctrl-C."),
        "compare": ("compare", "Compare topics of two clusters that exist, record by record, and only read."),
        "forensics": ("forensics", "Say what the logs of a cluster that exists tell about an incident, and only read."),
        "control": ("run", "Serve runs to tests in any language, as JSON over a socket, until Ctrl-C."),
        "ui": ("airflow", "Start Airflow with a DAG for each scenario on this machine, until Ctrl-C."),
    },
    "Campaigns": {
        "gate": ("campaigns", "Run a matrix of scenarios, releases and settings, and judge records and times."),
        "prove": ("campaigns", "Run an application under the faults that could break its promises."),
        "explore": ("campaigns", "Crash your application at every moment of its work, and say what each crash lost."),
        "compare-clients": ("campaigns", "Run scenarios with each client library that can, and compare them."),
        "ab": ("incident", "Run it twice with one seed, with and without changed settings, and compare."),
        "repeat": ("incident", "Run a scenario or bundle N times, and give the rate of each anomaly."),
    },
    "Scenarios and settings": {
        "list": ("scenarios", "List the shipped scenarios, gates and published bugs."),
        "show": ("scenarios", "Show a scenario with every default filled in, and its timeline."),
        "promise": ("promise", "Say what the settings of an application promise, and until which fault."),
        "schema": ("scenarios", "Print the JSON Schema of a scenario, for editors."),
        "reference": ("scenarios", "Print a reference of faults, checks, shipped scenarios or fields as Markdown."),
    },
    "Incidents": {
        "bundle": ("incident", "Pack a run into one file that `replay` runs again."),
        "unbundle": ("incident", "Unpack a bundle into a run directory."),
        "replay": ("incident", "Run an incident again, and compare its outcome."),
        "shrink": ("incident", "Reduce a scenario to the smallest one that still shows the anomaly."),
        "bisect": ("incident", "Find the first release with which the outcome changes."),
        "incident": ("incident", "Write a scenario from the logs of an incident."),
    },
    "A cluster to break": {
        "up": ("machine", "Start a cluster and leave it running; print its bootstrap servers."),
        "break": ("breaking", "Break a cluster that runs: one fault, its proof and its heal, without a load."),
        "down": ("machine", "End the cluster of a run directory."),
        "ps": ("machine", "List the processes and containers of Aftershock on this machine."),
        "gc": ("machine", "End processes and containers of runs without an owner, and delete their brokers' data."),
    },
    "Runs so far": {
        "history": ("history", "Show the verdicts and recovery times of all recorded runs, and what got worse."),
        "serve": ("history", "Open the web pages over all runs on this machine, until Ctrl-C."),
        "report": ("history", "Write the web pages over all runs into a folder for a static host."),
    },
    "Setup": {
        "client-check": (
            "machine",
            "Start a client program on a broker, and judge it by the contract of clients.",
        ),
        "java": ("machine", "Find Java 17 or newer, or install it."),
    },
}
"""The commands by groups, in the order of the help: name, module of this package, and summary."""

COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


class LazyGroup(TyperGroup):
    """The group of all commands. It lists them by their summaries and imports only the command that is called."""

    def __init__(self, **options: Any) -> None:
        placeholders = {
            name: TyperCommand(name, help=summary, rich_help_panel=group)
            for group, commands in GROUPS.items()
            for name, (_, summary) in commands.items()
        }
        super().__init__(**{**options, "commands": placeholders})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return name, command and remaining arguments of a command line, with the real command."""
        name, _, remaining = super().resolve_command(ctx, args)
        return name, _load(str(name)), remaining

    def invoke(self, ctx: Any) -> Any:
        """Call the command. A mistake in its options is one line, as any other mistake, and no box."""
        try:
            return super().invoke(ctx)
        except NoArgsIsHelpError:
            raise
        except Misuse as e:
            mistake = " ".join(e.format_message().split()).rstrip(".")
            _end(f"{mistake}; `{(e.ctx or ctx).command_path} --help` shows what there is", USAGE)


def _load(name: str) -> Any:
    """Import the module of a command; return its function or its group of this name (`list_` if it is taken)."""
    module = importlib.import_module(f"{__name__}.{COMMANDS[name][0]}")
    command = getattr(module, f"{name}_" if name in ("list", "break") else name.replace("-", "_"))
    parent = typer.Typer()
    parent.command("nothing", hidden=True)(lambda: None)  # with a second command, typer makes a group
    if isinstance(command, typer.Typer):
        parent.add_typer(command, name=name)
    else:
        parent.command(name, epilog=f"Example: python -m chaos {module.EXAMPLES[name]}")(command)
    return typer.main.get_group(parent).commands[name]


def options_of(command: str) -> list[str]:
    """Return the options of a command, without the dashes, in the order of its help. Imports its module."""
    long = (name for parameter in _load(command).params for name in parameter.opts if name.startswith("--"))
    return [name.removeprefix("--") for name in long]


app = typer.Typer(
    cls=LazyGroup,
    help="Break a real Apache Kafka cluster on purpose, and prove record by record what happened.\n\n"
    "Exit codes: 0 pass, 1 fail, 2 bad usage or invalid scenario, 3 inconclusive, 130 interrupted.",
    epilog="Example: aftershock run leader-kill --kafka 3.9.2 --seed 7",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _options() -> None:
    """Take no options: every option belongs to a command."""


def main() -> None:
    """Run the command line. A user's mistake, or a run that cannot continue, is one line and never a traceback."""
    for number in _ENDING:
        signal.signal(number, _interrupt)
    try:
        app()
    except AftershockError as e:
        _end(str(e), e.exit_code)
    except OSError as e:
        if e.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
            raise
        where = f" ({e.filename})" if e.filename else ""
        advice = "everything of the run was ended, make room or choose another --runs-dir and run again"
        _end(f"{e.strerror}{where}; {advice}", INCONCLUSIVE)
    except KeyboardInterrupt:
        _end(_INTERRUPTED, INTERRUPTED)
    except SystemExit as e:
        if e.code == INTERRUPTED:  # typer turns Ctrl-C into this exit, without a word
            _end(_INTERRUPTED, INTERRUPTED)
        raise


_ENDING = (signal.SIGINT, signal.SIGTERM)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End what runs. A second signal does not break off this end: it would leave processes to the reaper."""
    for other in _ENDING:
        signal.signal(other, _still_ending)
    raise KeyboardInterrupt


def _still_ending(number: int, frame: FrameType | None) -> None:
    os.write(sys.stderr.fileno(), b"still ending everything of the run\n")  # a print is not safe within a print


_INTERRUPTED = "interrupted; everything of the run was ended, and nothing is left running"


def _end(message: str, exit_code: int) -> NoReturn:
    """Print one line on standard error, and end."""
    from rich.console import Console
    from rich.markup import escape

    if sys.argv[0].rpartition("/")[2] == "aftershock":  # the command that was typed
        message = message.replace("python -m chaos", "aftershock")
    label = "" if exit_code == INTERRUPTED else "[bold red]error:[/] "
    Console(stderr=True, soft_wrap=True, highlight=False).print(label + escape(message))
    sys.exit(exit_code)
