"""`prove`: whether the promises of an application hold, under the faults that could break them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from chaos.cli.options import RUNS_DIR, Bootstrap, For, Into, Jobs, Json, Resume, RunsDir, Seed, Select
from chaos.cli.output import campaign_printer, plain_table, print_line
from chaos.cli.view import SIGNS, RunsView, loading

if TYPE_CHECKING:
    from chaos.campaign.prove.judge import ProofJudge
    from chaos.run.proof_result import Break, ProofResult

EXAMPLES = {"prove": "prove app.yaml --for 30m"}


def prove(
    app: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="An app.yaml, or settings of an application, as `promise` reads them."),
    ] = None,
    budget: For = None,
    most: Annotated[int, typer.Option(min=1, max=2, help="Faults of a set at most.")] = 2,
    jobs: Jobs = 2,
    seed: Seed = None,
    resume: Resume = None,
    into: Into = None,
    against: Annotated[
        Path | None, typer.Option(metavar="CAMPAIGN.JSON", help="Compare with an earlier proof, and name what differs.")
    ] = None,
    bootstrap: Bootstrap = None,
    topic: Annotated[str | None, typer.Option(help="With --bootstrap: the topic to read the settings of.")] = None,
    select: Select = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show the sets of faults in their order; start nothing.")
    ] = False,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Json = False,
) -> None:
    """Try the settings of an application with programs of Aftershock, not with the application itself.

    The programs run under the faults that could break a promise of the settings: sets of at most two, the most
    dangerous ones first, on clusters of this machine. The answer says which promises hold. Ends with 0 if every tested
    promise held, 1 if one broke, 3 if that is not known, 2 for bad input. campaign.json, report.html and card.md are in
    one folder; Ctrl-C (130) keeps the finished runs.
    """
    with loading():
        from chaos.campaign.prove.prove import ProofRequest, open_proof, plan_proof, run_proof
        from chaos.run.result import EXIT_CODES

    request = ProofRequest(
        runs_dir=runs_dir, into=into, resume=resume, jobs=jobs, budget=budget, seed=seed,
        app=app, most=most, against=against, bootstrap=bootstrap, topic=topic,
        select=tuple(select or ()),
    )  # fmt: skip
    with loading() as view:
        view.step("reading the settings of the application")
        judge, asked = plan_proof(request)
    for line in judge.application.assumed:
        typer.echo(f"assumed: {line}", err=True)
    if plan:
        _print_plan(judge)
        return
    proof = open_proof(judge, asked)
    with RunsView() as view:
        result = run_proof(proof, view, campaign_printer(as_json, _print_result))
    raise typer.Exit(EXIT_CODES[result.verdict])


def _print_plan(judge: ProofJudge) -> None:
    table = plain_table("set", "faults", "supports that it cuts", fixed=("set",))
    for faults in judge.plan.sets:
        cut, aim = "", faults.aim
        if aim is not None:
            left = len(aim.left(faults.cuts))
            cut = f"{len(aim.supports) - left} of {len(aim.supports)} of: {aim.title[0].lower()}{aim.title[1:]}"
        table.add_row(faults.id, faults.title, cut)
    Console().print(table)
    print_line(
        f"{len(judge.plan.sets)} sets; {judge.plan.unrelated} pairs support no promise together, and are left out"
    )


def _print_result(result: ProofResult, folder: Path) -> None:
    from chaos.campaign.prove.judge import STATES

    print_line(f"Settings of {result.name}, tried with programs of Aftershock, not with the application itself:")
    Console(highlight=False).print(f"{SIGNS[result.verdict]}  [bold]{result.name}[/], Kafka {result.kafka}")
    print_line(result.sentence)
    table = plain_table("promise", "state", "sets", "runs", right=("sets", "runs"), fixed=("state",))
    for promise in result.promises:
        runs = sum(len(tried.runs) for tried in promise.sets)
        table.add_row(promise.title, STATES[promise.state], str(len(promise.sets)), str(runs))
    Console(highlight=False).print(table)
    for found in result.broken:
        print_line(f"broken: {_describe(found)}")
    for found in result.seen:
        word = "not decided" if found.promised is None else "not promised"
        print_line(f"{word}, and seen: {_describe(found)}")
    for change in result.changes:
        print_line(f"{'worse' if change.worse else 'differs'}: {change.title}: was {change.before}, is {change.now}")
    for gap in result.not_tested:
        print_line(f"not tested: {gap.title} ({gap.why})")
    for name in ("report.html", "card.md"):
        if (folder / name).exists():
            print_line(f"{name}: {folder / name}")
    print_line(
        f"{len(result.runs)} runs in {result.seconds:.0f} s, {result.per_hour:.0f} an hour; continue: --resume {folder}"
    )


def _describe(found: Break) -> str:
    text = f"{found.anomalies[0].text} under {found.title} ({found.shown} of {found.of} runs, {found.runs[0]})"
    if found.mend is not None:
        outcome = {True: "does not appear", False: "still appears", None: "has no verdict"}[found.mend.held]
        text += f"; with {found.mend.change} it {outcome} ({found.mend.run})"
    return text
