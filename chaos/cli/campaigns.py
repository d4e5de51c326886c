"""The commands of campaigns: `catalogue`, `corpus`, `gate`, `prove`, `explore` and `compare-clients`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from chaos.cli.options import (
    RUNS_DIR,
    Bootstrap,
    For,
    Into,
    Jobs,
    JobsChosen,
    Json,
    Kafka,
    Repeat,
    Resume,
    RunsDir,
    Seed,
    Select,
    Sets,
    Side,
)
from chaos.cli.output import SIGNS, RunsView, campaign_printer, loading, plain_table, print_json, print_line
from chaos.errors import UsageError
from chaos.run.result import EXIT_CODES

if TYPE_CHECKING:
    from chaos.campaign.gate.judge import GateJudge
    from chaos.campaign.prove.judge import ProofJudge
    from chaos.run.campaign import GateResult
    from chaos.run.proof import Break, ProofResult


EXAMPLES = {
    "catalogue": "catalogue --only 'leader-*' --only coordinator-loss --repeat 5",
    "corpus": "corpus KAFKA-17754 'librdkafka*' --repeat 10 --jobs 2",
    "gate": "gate upgrade-3.9-to-4.3 --repeat 10 --baseline last",
    "prove": "prove app.yaml --for 30m",
    "explore": "explore billing.yaml --for 10m\n\npython -m chaos explore billing.yaml --random --for 8h",
    "compare-clients": "compare-clients leader-kill --clients java:3.9.2,sarama,confluent --repeat 8",
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


_SIGNS = {"pass": "[green]✓ pass[/]", "fail": "[bold red]✗ FAIL[/]", "inconclusive": "[bold yellow]? INCONCLUSIVE[/]"}


def gate(
    name: Annotated[
        str, typer.Argument(metavar="GATE", help="A shipped gate's name (see `list`) or a YAML file.")
    ] = "",
    baseline: Annotated[
        Path | None,
        typer.Option(
            help="A stored campaign.json of the same matrix, or its folder; the one in the gate file when left out."
        ),
    ] = None,
    repeat: Repeat = None,
    jobs: Jobs = 1,
    budget: For = None,
    into: Into = None,
    resume: Resume = None,
    seed: Seed = None,
    cell: Annotated[
        list[int] | None,
        typer.Option(help="Run only the cell with this number, and judge only its records. Repeatable."),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Check the gate and show its cells; with --into, write the plan there."),
    ] = False,
    judge: Annotated[bool, typer.Option("--judge", help="Only judge the stored runs in --resume.")] = False,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Json = False,
) -> None:
    """Run a matrix of scenarios, releases and settings, and judge records and times.

    Ends with 0 if everything passed, 1 if a run broke its contract or a time is shown to be beyond its margin, 3 if
    something is unknown, 2 for bad input. campaign.json, summary.md, junit.xml, report.html and bundles of failed runs
    are in one folder; Ctrl-C (130) keeps the finished runs.
    """
    with loading():
        from chaos.campaign.gate.gate import GateRequest, judge_gate, open_folder, plan_gate, run_gate

    request = GateRequest(
        runs_dir=runs_dir, into=into, resume=resume, repeat=repeat, jobs=jobs, budget=budget, seed=seed,
        gate=name, baseline=baseline, cells=tuple(cell or ()),
    )  # fmt: skip
    if judge and resume is None:
        raise UsageError("--judge needs --resume FOLDER with the runs of a gate")
    with loading("planning the gate"):
        planned, asked = plan_gate(request)
    if planned.warning and not judge:
        Console(stderr=True, soft_wrap=True, highlight=False).print(f"[bold yellow]note:[/] {planned.warning}")
    if plan:
        if into is not None or resume is not None:
            open_folder(planned, asked)
        _print_gate_plan(planned, as_json)
        return
    folder = open_folder(planned, asked)
    show = campaign_printer(as_json, _print_gate)
    if judge:
        result = judge_gate(planned, folder)
        show(result, folder.path)
    else:
        with RunsView() as view:
            result = run_gate(planned, folder, asked, view, show)
    raise typer.Exit(EXIT_CODES[result.verdict])


def _print_gate_plan(plan: GateJudge, as_json: bool) -> None:
    cells, repeat = plan.cells, plan.gate.repeat
    if as_json:
        rows = [{"number": cell.number, **cell.key.model_dump(), "setup": cell.setup} for cell in cells]
        print_json([*rows, *({**out.key.model_dump(), "left_out": out.reason} for out in plan.left_out)])
        return
    table = plain_table("cell", "scenario", "Kafka", "client", "settings", right=("cell",))
    for cell in cells:
        key = cell.key
        table.add_row(str(cell.number), *map(escape, (key.scenario, key.kafka, key.client, key.settings)))
    console = Console()
    console.print(table)
    for out in plan.left_out:
        console.print(f"left out: {out.key.name}: {out.reason}", soft_wrap=True, markup=False, highlight=False)
    console.print(f"{len(cells)} cells, {repeat} runs of each: {len(cells) * repeat} runs", highlight=False)


def _print_gate(result: GateResult, folder: Path) -> None:
    console = Console(highlight=False)
    console.print(f"{_SIGNS[result.verdict]}  [bold]{escape(_printable(result.title))}[/]", soft_wrap=True)
    console.print(_printable(result.sentence), soft_wrap=True, markup=False)
    table = plain_table("verdict", "cell", "evidence", fixed=("verdict",))
    for cell in result.cells:
        name = escape(_printable(cell.key.name)) + (" [dim](reference)[/]" if cell.reference else "")
        table.add_row(_SIGNS[cell.verdict], name, escape(_printable(cell.sentence)))
    console.print(table)
    lines = [*(f"note: {note}" for note in result.notes), f"run again: {result.command}"]
    if (folder / "report.html").exists():
        lines += [f"report:    {folder}/report.html", f"baseline:  {folder}/campaign.json"]
    for line in lines:
        console.print(_printable(line), soft_wrap=True, markup=False)


def _printable(text: str) -> str:
    """Return untrusted text without control characters, which a terminal would obey."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def prove(
    app: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="An app.yaml, or settings of an application, as `promise` reads them."),
    ] = None,
    budget: For = None,
    most: Annotated[int, typer.Option(min=1, max=2, help="Faults of a set at most.")] = 2,
    jobs: JobsChosen = None,
    seed: Seed = None,
    resume: Resume = None,
    into: Into = None,
    baseline: Annotated[
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
    """Try the settings of an application with programs of Aftershock, and the application itself if the file names it.

    The programs run under the faults that could break a promise of the settings: sets of at most two, the most
    dangerous ones first, on clusters of this machine. With `app:` in app.yaml, the application is explored in the same
    budget: it is crashed at every moment of its work. The answer says which promises hold, and what the application
    loses. Ends with 0 if every tested promise held, 1 if one broke, 3 if that is not known, 2 for bad input. The folder
    has campaign.json, report.html and summary.md; Ctrl-C (130) keeps the finished runs.
    """
    with loading():
        from chaos.campaign.prove.prove import ProofRequest, open_proof, plan_proof, run_proof

    request = ProofRequest(
        runs_dir=runs_dir, into=into, resume=resume, jobs=jobs or 0, budget=budget, seed=seed,
        app=app, most=most, baseline=baseline, bootstrap=bootstrap, topic=topic,
        select=tuple(select or ()),
    )  # fmt: skip
    with loading() as view:
        view.step("reading the settings of the application")
        judge, asked = plan_proof(request)
    for line in judge.application.assumed:
        typer.echo(f"assumed: {line}", err=True)
    if plan:
        _print_proof_plan(judge)
        return
    proof = open_proof(judge, asked)
    with RunsView() as view:
        result = run_proof(proof, view, campaign_printer(as_json, _print_proof))
    raise typer.Exit(EXIT_CODES[result.verdict])


def _print_proof_plan(judge: ProofJudge) -> None:
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
    if (program := judge.application.file.app.app) is not None:
        print_line(f"in turn with them: {program.name}, crashed at each moment of its work that a first run shows")


def _print_proof(result: ProofResult, folder: Path) -> None:
    from chaos.campaign.prove.judge import STATES

    how = "and the program itself" if result.program else "not with the application itself"
    print_line(f"Settings of {result.name}, tried with programs of Aftershock, {how}:")
    Console(highlight=False).print(f"{SIGNS[result.verdict]}  [bold]{result.name}[/], Kafka {result.kafka}")
    print_line(result.sentence)
    table = plain_table("promise", "state", "sets", "runs", right=("sets", "runs"), fixed=("state",))
    for promise in result.promises:
        runs = sum(len(tried.runs) for tried in promise.sets)
        table.add_row(promise.title, STATES[promise.state], str(len(promise.sets)), str(runs))
    Console(highlight=False).print(table)
    for found in result.broken:
        print_line(f"broken: {_broken_promise(found)}")
    for found in result.seen:
        word = "not decided" if found.promised is None else "not promised"
        print_line(f"{word}, and seen: {_broken_promise(found)}")
    for change in result.changes:
        word = "regression" if change.regression else "differs"
        print_line(f"{word}: {change.title}: was {change.before}, is {change.now}")
    for gap in result.not_tested:
        print_line(f"not tested: {gap.title} ({gap.why})")
    for setting in result.announced:
        if setting.differs:
            print_line(f"other than app.yaml: {setting.describe()}")
    if result.program is not None:
        from chaos.report.explore import show_program

        show_program(result.program, folder)
    for name in ("report.html", "summary.md"):
        if (folder / name).exists():
            print_line(f"{name}: {folder / name}")
    count = len(result.runs) + sum(len(part.runs) for part in (result.program.parts if result.program else ()))
    print_line(f"{count} runs in {result.seconds:.0f} s, {result.per_hour:.0f} an hour")
    print_line(f"continue:  python -m chaos prove --resume {shlex.quote(str(folder))}")


def _broken_promise(found: Break) -> str:
    text = f"{found.anomalies[0].text} under {found.title} ({found.shown} of {found.of} runs, {found.runs[0]})"
    if found.mend is not None:
        outcome = {True: "does not appear", False: "still appears", None: "has no verdict"}[found.mend.held]
        text += f"; with {found.mend.change} it {outcome} ({found.mend.run})"
    return text


def compare_clients(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SCENARIO]...",
            help="Names, name/variant of an A/B scenario, or YAML files; leader-kill, coordinator-loss, slow-consumer, "
            "consumer-crash, rolling-restart and transactions when left out.",
        ),
    ] = None,
    clients: Annotated[
        str,
        typer.Option(metavar="CLIENT,…", help="Client libraries, such as java:3.9.2,sarama,confluent; all by default."),
    ] = "",
    reference: Annotated[
        str,
        typer.Option(metavar="CLIENT", help="The library that the others are compared with; the first one by default."),
    ] = "",
    kafka: Kafka = None,
    margin: Annotated[float, typer.Option(min=1, max=100, help="Factor up to which two values count as equal.")] = 1.25,
    repeat: Repeat = None,
    jobs: Jobs = 1,
    budget: For = None,
    into: Into = None,
    resume: Resume = None,
    seed: Seed = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Json = False,
) -> None:
    """Run scenarios with each client library that can, with the same seeds, and compare them.

    Verdicts, anomalies, recovery times, throughput, CPU time and memory are side by side. A library that cannot run a
    scenario is left out with the reason. Ends with 0 if every run kept its contract, 1 if one broke it, 3 if one is
    inconclusive, 2 for bad input or if nothing can run. campaign.json, summary.md and report.html are in one folder;
    Ctrl-C (130) keeps the finished runs.
    """
    with loading():
        from chaos.campaign.compare import CompareRequest, open_folder, plan
        from chaos.campaign.compare import compare_clients as compare

    names = tuple(name.strip() for name in clients.split(",") if name.strip())
    request = CompareRequest(
        runs_dir=runs_dir, into=into, resume=resume, repeat=repeat, jobs=jobs, budget=budget, seed=seed,
        scenarios=tuple(scenarios or ()), clients=names, reference=reference, kafka=kafka, margin=margin,
    )  # fmt: skip
    with loading("planning the comparison"):
        planned = plan(request)
        folder = open_folder(planned)
    with RunsView() as view:
        comparison = compare(planned, folder, view, campaign_printer(as_json))
    raise typer.Exit(EXIT_CODES[comparison.verdict])


def explore(
    source: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="A scenario with apps and effects, such as `test --save` writes.")
    ] = "",
    random: Annotated[
        bool, typer.Option("--random", help="Draw mixtures of faults from the seed, without an end before --for.")
    ] = False,
    budget: For = None,
    jobs: JobsChosen = None,
    into: Into = None,
    resume: Resume = None,
    variant: Side = "",
    seed: Seed = None,
    sets: Sets = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Json = False,
) -> None:
    """Crash an application at every kind of moment of its work that the wire shows, and say what each crash lost.

    A run without a crash shows the moments: a request or an answer, and the step before it. Each moment then gets
    SIGKILL, then SIGTERM, then SIGKILL together with the broker that the instance speaks to. What breaks is bundled.
    Runs go at once, one for each processor, unless they would share something, such as a port that the program chose.
    No run begins after 60 runs or 10 minutes, unless --for says otherwise. Ends with 0 if every crash that was tried
    lost and doubled nothing, 1 if one did, 3 if that is not known.

    With --random, also for a scenario without apps, mixtures of up to four faults are drawn of all that the cluster
    and the scenario take, rather those that were covered less. A run is judged by what the settings promise under its
    faults. What breaks is shrunk to the faults that it needs, and filed once.

    campaign.json, report.html and summary.md are in one folder; Ctrl-C (130) keeps the finished runs.
    """
    with loading():
        from chaos.campaign.explore import explore as explored
        from chaos.campaign.subject import Request

    request = Request(
        runs_dir=runs_dir, into=into, resume=resume, jobs=jobs or 0, budget=budget, seed=seed, source=source,
        variant=variant, overrides=tuple(sets or ()), random=random,
    )  # fmt: skip
    with RunsView() as view:
        result = explored(request, view, campaign_printer(as_json))
    raise typer.Exit(EXIT_CODES[result.verdict])
