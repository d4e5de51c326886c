"""`gate`: a matrix of scenarios, releases and settings, judged and compared with a reference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from chaos.cli.options import RUNS_DIR, For, Into, Jobs, Json, Repeat, Resume, RunsDir, Seed
from chaos.cli.output import campaign_printer, plain_table, print_json
from chaos.cli.view import RunsView, loading
from chaos.errors import UsageError

if TYPE_CHECKING:
    from chaos.campaign.gate.judge import GateJudge
    from chaos.run.gate_result import GateResult

EXAMPLES = {"gate": "gate upgrade-3.9-to-4.3 --repeat 10 --baseline last"}
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
        from chaos.run.result import EXIT_CODES

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
        _print_plan(planned, as_json)
        return
    folder = open_folder(planned, asked)
    show = campaign_printer(as_json, _print_result)
    if judge:
        result = judge_gate(planned, folder)
        show(result, folder.path)
    else:
        with RunsView() as view:
            result = run_gate(planned, folder, asked, view, show)
    raise typer.Exit(EXIT_CODES[result.verdict])


def _print_plan(plan: GateJudge, as_json: bool) -> None:
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


def _print_result(result: GateResult, folder: Path) -> None:
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
