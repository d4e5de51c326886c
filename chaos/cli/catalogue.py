"""`catalogue` and `corpus`: the shipped scenarios, and the published bugs, each with what it must show."""

from __future__ import annotations

from typing import Annotated

import typer

from chaos.cli.options import RUNS_DIR, For, Into, Jobs, Json, Repeat, Resume, RunsDir, Seed
from chaos.cli.output import campaign_printer
from chaos.cli.view import RunsView, loading
from chaos.run.result import EXIT_CODES

EXAMPLES = {
    "catalogue": "catalogue --only 'leader-*' --only coordinator-loss --repeat 5",
    "corpus": "corpus KAFKA-17754 'librdkafka*' --repeat 10 --jobs 2",
}


def catalogue(
    only: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="Scenarios with these names. Repeatable.")
    ] = None,
    repeat: Repeat = None,
    jobs: Jobs = 1,
    budget: For = None,
    into: Into = None,
    resume: Resume = None,
    seed: Seed = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Json = False,
) -> None:
    """Run the shipped scenarios on shared clusters, and print one table.

    Ends with 1 if a run failed, with 3 if a run was inconclusive or is missing. All run directories, campaign.json,
    summary.md and report.html are in one folder; Ctrl-C (130) keeps the finished runs.
    """
    with loading():
        from chaos.campaign.catalogue import CatalogueRequest, run_catalogue

    asked = CatalogueRequest(
        runs_dir=runs_dir, into=into, resume=resume, repeat=repeat, jobs=jobs, budget=budget, seed=seed,
        only=tuple(only or ()),
    )  # fmt: skip
    with RunsView() as view:
        result = run_catalogue(asked, view, campaign_printer(as_json))
    raise typer.Exit(EXIT_CODES[result.verdict])


def corpus(
    bugs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[BUG]...", help="Names or ids of bugs, with * for any text; all when left out."),
    ] = None,
    repeat: Repeat = None,
    jobs: Jobs = 1,
    budget: For = None,
    into: Into = None,
    resume: Resume = None,
    seed: Seed = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Json = False,
) -> None:
    """Run each published bug with the affected and the fixed release or setting, and say which ones are found.

    A bug is found if a run with the affected one shows all its anomalies, and no run with the fixed one does. Ends with
    0 if all are found, 1 if one is not, 3 if a variant has no conclusive run. All run directories, campaign.json,
    summary.md and report.html are in one folder; Ctrl-C (130) keeps the finished runs.
    """
    with loading():
        from chaos.campaign.corpus import CorpusRequest, run_corpus

    asked = CorpusRequest(
        runs_dir=runs_dir, into=into, resume=resume, repeat=repeat, jobs=jobs, budget=budget, seed=seed,
        bugs=tuple(bugs or ()),
    )  # fmt: skip
    with RunsView() as view:
        result = run_corpus(asked, view, campaign_printer(as_json))
    raise typer.Exit(EXIT_CODES[result.verdict])
