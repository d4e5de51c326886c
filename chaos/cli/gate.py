"""`gate`: may we go there? A matrix of scenarios, releases and settings, against what there is now."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from chaos.cli.again import Watch
from chaos.cli.run import RUNS_DIR, RunsDir, Seed
from chaos.errors import AftershockError, RunDirError, UsageError
from chaos.run.directory import make_folder, new_run_id, write_atomically
from chaos.run.result import EXIT_CODES, describe_anomalies

if TYPE_CHECKING:  # `--help` needs no Kafka client
    from chaos.gate.judge import Judged
    from chaos.gate.matrix import Planned
    from chaos.gate.running import Kept
    from chaos.run.gate_result import GateResult

_ROOT = Path(__file__).resolve().parents[2]
_SIGNS = {"pass": "[green]✓ pass[/]", "fail": "[bold red]✗ FAIL[/]", "inconclusive": "[bold yellow]? INCONCLUSIVE[/]"}
PLAN = "plan.json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: python -m chaos gate upgrade-3.9-to-4.3 --repeat 10 --baseline last/gate.json")(gate)


def gate(
    gate: Annotated[str, typer.Argument(metavar="GATE", help="A shipped gate's name (see `list`) or a YAML file.")],
    baseline: Annotated[
        Path | None, typer.Option(help="A stored gate.json of the same matrix; the gate file's own when left out.")
    ] = None,
    repeat: Annotated[int | None, typer.Option(min=1, max=1000, help="Runs of each cell.")] = None,
    seed: Seed = None,
    into: Annotated[
        Path | None, typer.Option(file_okay=False, help="The folder to use; one that was interrupted is continued.")
    ] = None,
    cell: Annotated[
        list[int] | None,
        typer.Option(help="Run only the cell of this number, and judge its records alone. Repeatable."),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Check the gate and show its cells; with --into, note them there."),
    ] = False,
    judge: Annotated[bool, typer.Option("--judge", help="Only judge what was run in --into.")] = False,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Annotated[bool, typer.Option("--json", help="Print gate.json on stdout; progress is on stderr.")] = False,
) -> None:
    """Run every cell of a matrix so many times, and say whether records and times are as they have to be.

    Ends with 0 if everything held, 1 if a run broke its contract or a time is shown to be beyond its margin, 3 if
    something could not be told, 2 for bad input. gate.json, summary.md, junit.xml, report.html and bundles of what
    failed are in one folder; Ctrl-C (130) keeps what is finished.
    """
    from dataclasses import replace

    from chaos.gate import baseline as fitting
    from chaos.gate import matrix
    from chaos.gate.judge import Judged, fewest
    from chaos.gate.model import find, load
    from chaos.gate.running import Kept
    from chaos.scenario.resolve import new_seed

    file = find(gate)
    earlier = _earlier(into)
    given = load(file, repeat=repeat or earlier.get("repeat"), seed=_first(seed, earlier.get("seed")))
    cells = matrix.cells(given, file.parent)
    place = baseline or (file.parent / given.baseline if given.baseline else None)
    stored = fitting.read(place) if place else None
    pairs = fitting.pairs(given, cells, stored)
    if unknown := set(cell or []) - {one.number for one in cells}:
        raise UsageError(f"there is no cell {min(unknown)}; the gate has {len(cells)}, see --plan")
    base = given.seed if given.seed is not None else new_seed()
    options = [f"--baseline {shlex.quote(str(baseline))}"] if baseline else []
    command = " ".join(["python -m chaos gate", shlex.quote(gate), *options, f"--repeat {given.repeat} --seed {base}"])
    name = file.stem
    judged = Judged(given, name, command, base, cells, pairs, stored)
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    if not judge and (words := fewest(given, pairs)):
        console.print(f"[bold yellow]note:[/] {words}")
    if plan and into is None:
        _show_plan(cells, given.repeat, as_json)
        return
    folder = _folder(into, judge, runs_dir, name)
    _note_plan(folder, judged)
    if plan:
        _show_plan(cells, given.repeat, as_json)
        return
    kept = Kept(folder)
    if judge:
        found = _finish(judged, kept)
    elif cell:
        alone = replace(judged, cells=[one for one in cells if one.number in cell], pairs=[], stored=None)
        found = _run(alone, kept, pages=False)
    else:
        found = _run(judged, kept)
    if as_json:
        sys.stdout.write(found.model_dump_json(indent=1) + "\n")
    else:
        show(found, folder, Console())
    raise typer.Exit(EXIT_CODES[found.verdict])


def _first(one: int | None, other: int | None) -> int | None:
    return one if one is not None else other


def _earlier(into: Path | None) -> dict[str, int]:
    """Seed and number of repetitions of a gate that is continued."""
    if into is None or not (into / PLAN).is_file():
        return {}
    try:
        raw = json.loads((into / PLAN).read_text(encoding="utf-8"))
        return {"seed": int(raw["seed"]), "repeat": int(raw["repeat"])}
    except (ValueError, KeyError, TypeError):
        raise RunDirError(f"{into / PLAN} is damaged; run the gate anew") from None


def _folder(into: Path | None, judge: bool, runs_dir: Path, name: str) -> Path:
    if judge and (into is None or not (into / PLAN).is_file()):
        raise UsageError("--judge needs --into FOLDER, where a gate was run")
    if into is not None and into.is_dir():
        if not (into / PLAN).is_file() and any(into.iterdir()):
            raise UsageError(f"{into} is not the folder of a gate; name a new one")
        return into.absolute()
    folder = into.absolute() if into is not None else runs_dir.absolute() / new_run_id(f"gate-{name}")
    make_folder(folder)
    return folder


def _note_plan(folder: Path, judged: Judged) -> None:
    """Write down what is run in the folder, or raise `UsageError` if that is another gate's."""
    noted = {
        "gate": judged.name,
        "seed": judged.seed,
        "repeat": judged.gate.repeat,
        "cells": [{**cell.key.model_dump(), "setup": cell.setup} for cell in judged.cells],
    }
    path = folder / PLAN
    if path.is_file():
        before = json.loads(path.read_text(encoding="utf-8"))
        if before.get("cells") != noted["cells"] or before.get("seed") != noted["seed"]:
            raise UsageError(f"{folder} is of another gate, or of another seed; name another folder with --into")
    write_atomically(path, json.dumps(noted, indent=1) + "\n")


def _run(judged: Judged, kept: Kept, pages: bool = True) -> GateResult:
    """Run what is not there yet; whatever happens, what is finished is kept, and judged if the pages are wanted."""
    from chaos.gate import matrix, running
    from chaos.incident.lab import Lab

    cells = judged.cells
    with Watch() as view:
        due = running.due(cells, judged.gate, judged.seed, kept)
        view.say(f"{len(cells)} cells, {len(due)} runs, in {kept.folder}")
        for words in matrix.prepare(list(cells)):
            view.say(f"{words} is there, or fetched now")
        done = 0
        try:
            with Lab(kept.folder, view) as lab:
                for one, run in running.run(lab, due, kept):
                    done += 1
                    shown = run.sentence if not run.conclusive else describe_anomalies(run.anomalies, none="no anomaly")
                    view.say(
                        f"{done} of {len(due)}, {escape(_shown(one.cell.key.name))}, {one.n}: {run.verdict}, "
                        f"{escape(_shown(shown))} ({run.seconds:.0f} s)"
                    )
        except BaseException:
            if pages:
                _finish(judged, kept)
            view.say(f"what is finished is kept; go on with --into {kept.folder}")
            raise
    return _finish(judged, kept) if pages else _judge(judged, kept)


def _judge(judged: Judged, kept: Kept) -> GateResult:
    return judged.result({cell.number: kept.runs(cell) for cell in judged.cells})


def _finish(judged: Judged, kept: Kept) -> GateResult:
    """Judge, write gate.json, and have the rest drawn by the half that draws reports."""
    found = _judge(judged, kept)
    write_atomically(kept.folder / "gate.json", found.model_dump_json(indent=1) + "\n")
    argv = [sys.executable, "-m", "checks.report.gate", str(kept.folder)]
    done = subprocess.run(argv, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip() or "no reason was given").splitlines()[-1]
        raise AftershockError(f"gate.json is in {kept.folder}, but its pages could not be written: {why}")
    return found


def _show_plan(cells: Sequence[Planned], repeat: int, as_json: bool) -> None:
    if as_json:
        rows = [{"number": cell.number, **cell.key.model_dump(), "setup": cell.setup} for cell in cells]
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("cell", "scenario", "Kafka", "client", "settings"):
        table.add_column(column, justify="right" if column == "cell" else "left", overflow="fold")
    for one in cells:
        table.add_row(
            str(one.number), *map(escape, (one.key.scenario, one.key.kafka, one.key.client, one.key.settings))
        )
    console = Console()
    console.print(table)
    console.print(f"{len(cells)} cells, {repeat} runs of each: {len(cells) * repeat} runs", highlight=False)


def _shown(text: str) -> str:
    """Foreign text without control characters, which a terminal would obey."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def show(found: GateResult, folder: Path, console: Console) -> None:
    """Print it for a person."""
    console.print(f"{_SIGNS[found.verdict]}  [bold]{escape(_shown(found.title))}[/]", soft_wrap=True, highlight=False)
    console.print(_shown(found.sentence), soft_wrap=True, highlight=False, markup=False)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("verdict", "cell", "what is known"):
        table.add_column(column, overflow="fold", no_wrap=column == "verdict")
    for cell in found.cells:
        name = escape(_shown(cell.key.name)) + (" [dim](reference)[/]" if cell.reference else "")
        table.add_row(_SIGNS[cell.verdict], name, escape(_shown(cell.sentence)))
    console.print(table)
    for note in found.notes:
        console.print(_shown(f"note: {note}"), soft_wrap=True, highlight=False, markup=False)
    lines = [f"run again: {found.command}"]
    if (folder / "report.html").exists():
        lines += [f"report:    {folder}/report.html", f"baseline:  {folder}/gate.json"]
    for line in lines:
        console.print(_shown(line), soft_wrap=True, highlight=False, markup=False)
