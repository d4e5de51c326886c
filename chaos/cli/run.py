"""`run` and `audit`: from a scenario, or from the ledger of an earlier run, to a verdict."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from chaos.cli.checks import Checks, check_master
from chaos.cli.view import View
from chaos.errors import INCONCLUSIVE, AftershockError
from chaos.history.recording import record
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.run.events import EventLog
from chaos.scenario.resolve import read

RUNS_DIR = Path("runs")

Scenario = Annotated[str, typer.Argument(help="A shipped scenario's name (see `list`) or a YAML file.")]
Kafka = Annotated[str | None, typer.Option(help="Kafka release, such as 3.9.2 or 4.3.1.")]
Client = Annotated[str | None, typer.Option(help="confluent-kafka release of the clients, such as 2.5.0.")]
Driver = Annotated[
    str | None, typer.Option(help="Where brokers run: process, docker or attached; see `cluster.driver`.")
]
Bootstrap = Annotated[
    str | None, typer.Option(metavar="HOST:PORT,…", help="Use a cluster that exists; see `cluster.security`.")
]
Owned = Annotated[
    bool, typer.Option("--i-own-this-cluster", help="Break brokers of a cluster that exists, by `cluster.verbs`.")
]
Seed = Annotated[int | None, typer.Option(min=0, help="Fixes every random choice; drawn and reported when left out.")]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PATH=VALUE", help="Override a value, e.g. producers.shop.config.acks=1. Repeatable."
    ),
]
Variant = Annotated[str, typer.Option(help="Only this side of an A/B scenario; all of them when left out.")]
RunsDir = Annotated[Path, typer.Option(help="Where run directories are made.", file_okay=False)]
Json = Annotated[bool, typer.Option("--json", help="Print result.json on stdout; progress stays on stderr.")]
Master = Annotated[str | None, typer.Option(help="Spark master of the audit; local[*] when left out.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: python -m chaos run leader-kill --kafka 3.9.2 --seed 7 --json")(run)
    app.command(epilog="Example: python -m chaos audit runs/leader-kill-20261121-040000-1a2b")(audit)


def run(
    scenario: Scenario,
    kafka: Kafka = None,
    client: Client = None,
    driver: Driver = None,
    bootstrap: Bootstrap = None,
    i_own_this_cluster: Owned = False,
    seed: Seed = None,
    sets: Sets = None,
    variant: Variant = "",
    runs_dir: RunsDir = RUNS_DIR,
    spark_master: Master = None,
    as_json: Json = False,
) -> None:
    """Run a scenario: deploy a cluster, break it under load, audit every record, tell the verdict.

    One with variants is run once for each, with the same seed, and ends with what set them apart.
    """
    from chaos.drive import stages, variants  # on use: `list` and `--help` need no Kafka client

    check_master(spark_master)
    given = stages.ScenarioRequest(
        scenario, seed, kafka, driver, bootstrap, tuple(sets or ()), i_own_this_cluster, client
    )
    if not variant and variants.names(given):
        whole = variants.prepare(given, runs_dir)
        with View() as view:
            view.say(f"run directory: {whole.run.path}")
            with _recorded(whole.by_variant.values(), runs_dir, view):
                for name, side in whole.by_variant.items():
                    view.say(f"[bold]variant {name}[/]")
                    one(side, view, spark_master)
        raise typer.Exit(show_comparison(whole.run, as_json))
    directory = stages.prepare(given, runs_dir=runs_dir, variant=variant)
    with View() as view:
        view.say(f"run directory: {directory.path}")
        with _recorded([directory], runs_dir, view):
            code = one(directory, view, spark_master)
    show_result(directory, as_json)
    raise typer.Exit(code)


@contextlib.contextmanager
def _recorded(runs: Iterable[Run], runs_dir: Path, view: View) -> Iterator[None]:
    """Add runs to the history when they are over; one that broke off as well, but not where nothing could begin."""
    try:
        yield
    except AftershockError as e:
        if e.exit_code == INCONCLUSIVE:
            record(runs, runs_dir, view.problem)
        raise
    record(runs, runs_dir, view.problem)


def one(directory: Run, view: View, spark_master: str | None) -> int:
    """Drive and judge one run; the exit code of its verdict."""
    from chaos.drive import stages

    events = EventLog(directory, view)
    try:
        stages.deploy(directory, events, ProcessId.current())
        with Checks(directory, view, spark_master, when_told=True) as checks:
            # a drive that broke off is judged all the same: what it recorded may show a loss, and is never a pass
            with contextlib.suppress(AftershockError):
                stages.drive(directory, events, before_load=checks.wait_ready)
            return checks.judge(after_readback=lambda: stages.end_brokers(directory, events))
    finally:
        stages.destroy(directory, events)


def audit(
    run_dir: Annotated[
        str, typer.Argument(help="The directory of an earlier run, or its URI, such as hdfs://host:9000/runs/x.")
    ],
    spark_master: Master = None,
    as_json: Json = False,
) -> None:
    """Audit a run directory again, offline: from its ledger to the verdict, with no Kafka."""
    check_master(spark_master)
    with contextlib.ExitStack() as stack:
        uri = run_dir if "://" in run_dir else None
        if uri:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aftershock-")))
            directory = Run(work / uri.rstrip("/").rpartition("/")[2])
            directory.logs.mkdir(parents=True)
        else:
            directory = Run.open(Path(run_dir))
            read(directory)
        with View() as view, Checks(directory, view, spark_master, uri=uri) as checks:
            code = checks.judge()
        show_result(directory, as_json)
    raise typer.Exit(code)


def show_result(run: Run, as_json: bool) -> None:
    """Print the result for a person, or for a script."""
    if not run.result.exists():
        return
    if as_json:
        sys.stdout.write(run.result.read_text(encoding="utf-8") + "\n")
    else:
        subprocess.run([sys.executable, "-m", "checks.report", str(run.path)], check=False)


def show_comparison(run: Run, as_json: bool) -> int:
    """Put the variants side by side, print that, and return the exit code."""
    argv = [sys.executable, "-m", "checks.report.compare", str(run.path), *(["--json"] if as_json else [])]
    return subprocess.run(argv, check=False).returncode
