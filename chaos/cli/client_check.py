"""`client-check`: the conformance suite for client programs."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chaos.cli.options import RUNS_DIR, RunsDir
from chaos.errors import UsageError

if TYPE_CHECKING:
    from chaos.clients.protocol import Program
    from chaos.clients.traits import Ability

EXAMPLES = {"client-check": "client-check --only producer -- ./my-client --verbose"}


def client_check(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND …", help="The program; the path of a spec is added.")
    ] = None,
    client: Annotated[str | None, typer.Option(help="Check a shipped runtime instead, such as java:3.9.2.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this case, such as producer. Repeatable.")] = None,
    schemas: Annotated[bool, typer.Option("--schemas", help="Print JSON Schemas of specs and batch lines.")] = False,
    runs_dir: RunsDir = RUNS_DIR,
) -> None:
    """Start a client program on a real broker, and judge its ledger, orders, events and crashes point by point.

    Exit codes: 0 if every point holds, 1 if not.
    """
    from chaos.cli.view import View
    from chaos.conformance.suite import check, chosen_cases

    if schemas:
        from chaos.conformance.schemas import all_schemas

        sys.stdout.write(json.dumps(all_schemas(), indent=1) + "\n")
        return
    cases = chosen_cases(only or [])
    points = []
    with View() as view:
        program, missing, lacks_setting = _chosen(command, client, view.step)
        for point in check(program, cases, runs_dir, view.say, missing, lacks_setting):
            points.append(point)
            mark = "✓" if point.holds else "✗" if point.reached else "-"
            text = point.lacks or point.reason or ("" if point.reached else "not reached")
            sys.stdout.write(f"{mark} {point.program}: {point.name}" + (f": {text}" if text else "") + "\n")
            sys.stdout.flush()
    kept, judged = sum(point.holds for point in points), sum(not point.lacks for point in points)
    others = f", {len(points) - judged} are not asked of {client}" if judged < len(points) else ""
    sys.stdout.write(f"{kept} of {judged} points hold{others}\n")
    raise typer.Exit(0 if judged and kept == judged else 1)


def _chosen(
    command: Sequence[str] | None, client: str | None, say: Callable[[str], None]
) -> tuple[Callable[[Program], Sequence[str]], Callable[[Ability], str], Callable[[str], str]]:
    """Return a function from the name of a program to its command line, and two that say what it lacks, and why.

    These are abilities, and settings by their common names.
    """
    if (client is None) == (not command):
        raise UsageError("client-check needs a program, as in: client-check -- ./my-client; or --client java")
    if command:
        program = shutil.which(command[0])
        if program is None:
            raise UsageError(f"there is no program {command[0]}")
        return lambda _: [str(Path(program).absolute()), *command[1:]], lambda ability: "", lambda name: ""
    from chaos.clients.choice import parse_client
    from chaos.clients.runtime import prepare

    try:
        chosen = parse_client(str(client))
    except ValueError as e:
        raise UsageError(f"--client {client}: {e}") from None
    installed = prepare(chosen, say)
    env = [f"{k}={v}" for k, v in installed.env.items()]
    return lambda name: ["env", *env, *installed.programs[name]], chosen.missing, chosen.missing_setting
