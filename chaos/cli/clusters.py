"""`up`, `down`, `ps` and `gc`: clusters without a scenario, and what runs (or was left) on this machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from chaos.cli.run import RUNS_DIR, RunsDir
from chaos.cli.view import View
from chaos.cluster.lifecycle.gc import end_all
from chaos.cluster.lifecycle.gc import gc as collect
from chaos.cluster.metadata_mode import choose
from chaos.cluster.settings import ClusterSpec
from chaos.errors import UsageError
from chaos.processes.process import ProcessId
from chaos.processes.process_table import MarkedProcess, find_marked
from chaos.run.directory import Run, new_run_id
from chaos.scenario.setup import DEFAULT_KAFKA
from chaos.units import parse_duration


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: python -m chaos up --brokers 3 --kafka 3.9.2 --for 2h")(up)
    app.command(epilog="Example: python -m chaos down runs/up-20261121-040000-1a2b")(down)
    app.command(epilog="Example: python -m chaos ps --json")(ps)
    app.command(epilog="Example: python -m chaos gc --run leader-kill-20261121-040000-1a2b")(gc)


def up(
    brokers: Annotated[int, typer.Option(min=1, max=9, help="Number of brokers.")] = 3,
    kafka: Annotated[str, typer.Option(help="Kafka release.")] = DEFAULT_KAFKA,
    driver: Annotated[str, typer.Option(help="Where brokers run: process or docker.")] = "process",
    for_: Annotated[str, typer.Option("--for", metavar="DURATION", help="Ended by itself after this time.")] = "8h",
    runs_dir: RunsDir = RUNS_DIR,
) -> None:
    """Start a cluster and leave it running; prints its bootstrap servers."""
    try:
        deadline_s = parse_duration(for_)
    except ValueError as e:
        raise UsageError(f"--for: {e}") from None
    from chaos.cluster.drivers import driver as driver_of

    spec = ClusterSpec(brokers=brokers, kafka=kafka, metadata=choose(kafka, driver=driver))
    run = Run.create(runs_dir, new_run_id("up"))
    with View() as view:
        cluster = driver_of(driver).deploy(run, spec, owner=None, deadline_s=deadline_s, on_progress=view.say)
        view.say(
            f"{brokers} brokers of Kafka {kafka}; ended by itself after {for_}, or by: python -m chaos down {run.path}"
        )
    sys.stdout.write(cluster.bootstrap + "\n")


def down(run_dir: Annotated[Path, typer.Argument(help="The run directory that `up` (or a run) printed.")]) -> None:
    """End the cluster of a run directory. Does nothing to one that has ended already."""
    run = Run(run_dir.absolute())
    if not run.cluster.is_file():
        raise UsageError(f"{run_dir} has no cluster.json; `python -m chaos ps` lists what runs")
    end_all(run.path)


def ps(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """List the processes of Aftershock on this machine, what else is in Docker, and whether an owner is there."""
    found = [_process(p) for p in find_marked()]
    found += _in_docker({row["pid"] for row in found})
    if as_json:
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
        return
    if not found:
        Console().print("nothing of Aftershock runs on this machine")
        return
    table = Table(box=None, header_style="bold")
    for column in ("pid", "role", "run", "owner", "state", "memory"):
        table.add_column(column, justify="right" if column in ("pid", "memory") else "left")
    for row in found:
        memory = f"{row['rss_bytes'] / 2**20:.0f} MiB" if row["rss_bytes"] else ""
        pid = str(row["pid"] or "")
        table.add_row(pid, row["role"], row["run_id"], row["owner"], row["state"], memory)
    Console().print(table)


def gc(
    run: Annotated[str | None, typer.Option(help="End this run, whether its owner is there or not.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="End every run of Aftershock on this machine.")] = False,
) -> None:
    """End what was left behind: processes and containers of runs whose owner is gone, and their brokers' data."""
    ended = collect(run, force_all=everything)
    for one in ended:
        Console().print(f"ended {one}", soft_wrap=True, highlight=False)
    if not ended:
        Console().print("nothing was left behind")


def _process(p: MarkedProcess) -> dict[str, Any]:
    return {
        "pid": p.identity.pid,
        "role": p.role,
        "run_id": p.run_id,
        "run_dir": str(p.run_dir),
        "owner": _owner(p.owner),
        "state": p.state,
        "rss_bytes": p.rss_bytes,
    }


def _in_docker(pids: set[int]) -> list[dict[str, Any]]:
    """What has no process that was listed: containers that ended, networks, volumes."""
    from chaos.cluster.docker.engine import find_everywhere

    return [
        {
            "pid": one.pid,
            "role": f"{one.kind} {one.name}",
            "run_id": one.run_id,
            "run_dir": str(one.run_dir),
            "owner": _owner(one.owner),
            "state": one.state,
            "rss_bytes": 0,
        }
        for one in find_everywhere()
        if one.pid not in pids
    ]


def _owner(owner: ProcessId | None) -> str:
    return "none" if owner is None else "alive" if owner.alive() else "gone"
