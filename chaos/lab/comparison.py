"""Runs of the variants of an A/B scenario, and their comparison."""

from __future__ import annotations

from collections.abc import Callable

from chaos.drive import variants
from chaos.lab.single import drive_and_judge
from chaos.processes.python_module import run_module
from chaos.run.comparison import Comparison
from chaos.run.directory import Run
from chaos.run.events import Event


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
    run_module("checks.report.compare", str(run.path), capture=not show)
    return Comparison.read(run)
