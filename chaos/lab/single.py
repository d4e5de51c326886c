"""Runs on clusters of their own: one run, or the variants of an A/B scenario, from the directory to the verdict."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from chaos.drive import stages, variants
from chaos.errors import INCONCLUSIVE, AftershockError
from chaos.history.recording import record
from chaos.lab.judge import Judge
from chaos.processes.process import ProcessId
from chaos.processes.python_module import run_module
from chaos.run.comparison import Comparison
from chaos.run.directory import Run
from chaos.run.events import Event, EventLog


def drive_and_judge(run: Run, listener: Callable[[Event], None], spark_master: str | None = None) -> int:
    """Drive and judge a prepared run, and return the exit code of its verdict. Raises `AftershockError`."""
    events = EventLog(run, listener)
    try:
        stages.deploy(run, events, ProcessId.current())
        with Judge(run, listener, spark_master) as judge:
            # a drive that broke off is judged too: what it recorded may show a loss, and is never a pass
            with contextlib.suppress(AftershockError):
                stages.drive(run, events, before_load=judge.wait_ready)
            judgement = judge.submit(run)
            judgement.log_read.wait()
            if judgement.read_back:
                stages.end_brokers(run, events)
            return judge.wait(judgement)
    finally:
        stages.destroy(run, events)


def run_variants(
    whole: variants.VariantRuns,
    listener: Callable[[Event], None],
    on_variant: Callable[[str], None],
    spark_master: str | None = None,
) -> None:
    """Drive and judge each prepared variant, one after another. Raises `AftershockError`."""
    for name, side in whole.by_variant.items():
        on_variant(name)
        drive_and_judge(side, listener, spark_master)


def compare(run: Run, *, show: bool = False) -> Comparison:
    """Write the comparison of all variants and return it. show: print it as a table, too.

    Raises `RunDirError` if a variant has no result.
    """
    run_module("checks.report", "compare", str(run.path), capture=not show)
    return Comparison.read(run)


@contextlib.contextmanager
def recorded(runs: Iterable[Run], runs_dir: Path, on_problem: Callable[[str], None]) -> Iterator[None]:
    """Add runs to the history when the block ends, also if a run broke off; not if it could not start (exit code 2)."""
    try:
        yield
    except AftershockError as e:
        if e.exit_code == INCONCLUSIVE:
            record(runs, runs_dir, on_problem)
        raise
    record(runs, runs_dir, on_problem)
