"""`ps`: the processes and containers of Aftershock on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from chaos.processes.process import ProcessId

EXAMPLE = "ps --json"


def command(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """List the processes and containers of Aftershock on this machine, and whether their owners are alive."""
    from rich.console import Console
    from rich.table import Table

    from chaos.cli.output import print_json

    rows = _processes()
    rows += _containers({row["pid"] for row in rows})
    if as_json:
        print_json(rows)
        return
    if not rows:
        Console().print("nothing of Aftershock runs on this machine")
        return
    table = Table(box=None, header_style="bold")
    for column in ("pid", "role", "run", "owner", "state", "memory"):
        table.add_column(column, justify="right" if column in ("pid", "memory") else "left")
    for row in rows:
        memory = f"{row['rss_bytes'] / 2**20:.0f} MiB" if row["rss_bytes"] else ""
        table.add_row(str(row["pid"] or ""), row["role"], row["run_id"], row["owner"], row["state"], memory)
    Console().print(table)


def _processes() -> list[dict[str, Any]]:
    from chaos.processes.process_table import find_marked

    return [
        {
            "pid": process.identity.pid,
            "role": process.role,
            "run_id": process.run_id,
            "run_dir": str(process.run_dir),
            "owner": _owner(process.owner),
            "state": process.state,
            "rss_bytes": process.rss_bytes,
        }
        for process in find_marked()
    ]


def _containers(listed: set[int]) -> list[dict[str, Any]]:
    """Return containers without a listed process, networks and volumes."""
    from chaos.cluster.docker.engine import find_everywhere

    return [
        {
            "pid": item.pid,
            "role": f"{item.kind} {item.name}",
            "run_id": item.run_id,
            "run_dir": str(item.run_dir),
            "owner": _owner(item.owner),
            "state": item.state,
            "rss_bytes": 0,
        }
        for item in find_everywhere()
        if item.pid not in listed
    ]


def _owner(owner: ProcessId | None) -> str:
    return "none" if owner is None else "alive" if owner.alive() else "gone"
