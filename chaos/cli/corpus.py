"""`corpus`: the published bugs, run to see whether Aftershock finds them."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chaos.cli.catalogue import CatalogueView
from chaos.cli.options import RUNS_DIR, RunsDir, Seed
from chaos.cli.view import RunsView
from chaos.errors import UsageError

if TYPE_CHECKING:
    from chaos.scenario.model import Scenario

EXAMPLES = {"corpus": "corpus KAFKA-17754 'librdkafka*' --repeat 10 --jobs 2"}
BUDGET = "20m"


def corpus(
    bugs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[BUG]...", help="Names or ids of bugs, with * for any text; all when left out."),
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, max=1000, help="Runs of each variant.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, max=16, help="Runs at once, each on its own cluster.")] = 1,
    unaided: Annotated[
        bool, typer.Option("--unaided", help="Prove the application of each bug instead, without a hint of the bug.")
    ] = False,
    budget: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="With --unaided: the time of each proof; 20m if left out."),
    ] = None,
    seed: Seed = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print corpus.json on stdout; progress is on stderr.")
    ] = False,
) -> None:
    """Run each published bug with the affected and the fixed release or setting, and say which ones are found.

    A bug is found if a run with the affected one shows all its anomalies, and no run with the fixed one does. Ends with
    0 if all are found, 1 if one is not, 3 if a variant has no conclusive run. All run directories, corpus.json,
    summary.md and report.html are in one folder.

    With --unaided, `prove` gets only the settings of the affected variant. A bug is found if a promise breaks by an
    anomaly of the bug.
    """
    from chaos.corpus.cases import select
    from chaos.corpus.score import entries, run_corpus
    from chaos.processes.python_module import run_module

    selected = select(bugs or ())
    if unaided:
        if repeat != 1:
            raise UsageError("--repeat is for the variants; --unaided makes one proof of each application")
        raise typer.Exit(_prove(selected, bugs or [], budget or BUDGET, jobs, seed, runs_dir, as_json))
    if budget is not None:
        raise UsageError("--for is the time of a proof; it goes with --unaided")
    words = ["python", "-m", "chaos", "corpus", *(bugs or ()), "--repeat", str(repeat), "--jobs", str(jobs)]
    with CatalogueView(len(entries(selected, repeat))) as view:
        folder, result = run_corpus(selected, repeat, shlex.join(words), runs_dir, view, view.run_finished, jobs, seed)
    if as_json:
        sys.stdout.write(result.model_dump_json(indent=1) + "\n")
    else:
        run_module("checks.report", "corpus-table", str(folder), capture=False)
    answers = {case.answer for case in result.cases}
    raise typer.Exit(3 if "could not tell" in answers else 0 if answers == {"found"} else 1)


def _prove(
    cases: dict[str, Scenario],
    names: list[str],
    budget: str,
    jobs: int,
    seed: int | None,
    runs_dir: Path,
    as_json: bool,
) -> int:
    """Prove the applications of bugs, print the answers, and return the exit code."""
    from chaos.corpus.unaided import prove_corpus
    from chaos.processes.python_module import run_module

    words = ["python", "-m", "chaos", "corpus", *names, "--unaided", "--for", budget, "--jobs", str(jobs)]
    with RunsView() as view:
        folder, result = prove_corpus(cases, budget, shlex.join(words), runs_dir, view, jobs, seed)
    if as_json:
        sys.stdout.write(result.model_dump_json(indent=1) + "\n")
    else:
        run_module("checks.report", "unaided-table", str(folder), capture=False)
    answers = {case.answer for case in result.cases} - {"not applicable"}
    return 3 if "could not tell" in answers or not answers else 0 if answers == {"found"} else 1
