"""`up`, `down`, `ps`, `gc`, `java` and `client-check`: clusters, processes and client programs on this machine."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from chaos.cli.options import RUNS_DIR, RunsDir, parsed
from chaos.errors import AftershockError, MachineError, UsageError
from chaos.setup.model import DEFAULT_KAFKA

if TYPE_CHECKING:
    from chaos.clients.protocol import Program
    from chaos.clients.traits import Ability
    from chaos.cluster.state import ClusterState
    from chaos.processes.process import ProcessId


EXAMPLES = {
    "up": "up --brokers 3 --kafka 3.9.2 --for 2h",
    "down": "down runs/up-20261121-040000-1a2b",
    "ps": "ps --json",
    "gc": "gc --run leader-kill-20261121-040000-1a2b",
    "java": "java --install",
    "client-check": "client-check --only producer -- ./my-client --verbose",
}
JAVA_PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless")


def up(
    brokers: Annotated[int, typer.Option(min=1, max=9, help="Number of brokers.")] = 3,
    controllers: Annotated[
        int, typer.Option(min=0, max=9, help="Number of dedicated controllers; 0: every broker is one too.")
    ] = 0,
    kafka: Annotated[str, typer.Option(help="Kafka release.")] = DEFAULT_KAFKA,
    driver: Annotated[str, typer.Option(help="Where brokers run: process or docker.")] = "process",
    for_: Annotated[str, typer.Option("--for", metavar="DURATION", help="Time after which the cluster ends.")] = "8h",
    runs_dir: RunsDir = RUNS_DIR,
) -> None:
    """Start a cluster and leave it running; print its bootstrap servers, and its brokers on standard error."""
    from chaos.cli.output import View
    from chaos.cluster.drivers import driver as driver_of
    from chaos.cluster.settings import ClusterSpec, choose_metadata
    from chaos.run.directory import Run, new_run_id
    from chaos.units import parse_duration

    deadline_s = parsed("--for", for_, parse_duration)
    metadata = choose_metadata(kafka, driver=driver)
    spec = ClusterSpec(brokers=brokers, kafka=kafka, metadata=metadata, controllers=controllers)
    run = Run.create(runs_dir, new_run_id("up"))
    with View() as view:
        cluster = driver_of(driver).deploy(run, spec, owner=None, deadline_s=deadline_s, on_progress=view.step)
        view.say(f"{spec.describe()}; they end after {for_}, or by: python -m chaos down {run.path}")
        for node in cluster.state.nodes:
            view.say(f"{cluster.state.name(node.id)} at {node.address}{_pid(node.process)}")
        view.say(f"break them: {_break(run.path)} (leader_of=TOPIC/0 for the leader of a partition; --list for more)")
    sys.stdout.write(cluster.bootstrap + "\n")


def _pid(process: ProcessId | None) -> str:
    return f", pid {process.pid}" if process else ""


def _break(run_dir: Path) -> str:
    """Return the command that breaks a broker of a cluster of `up`."""
    return f"python -m chaos break {run_dir} broker=1 --for 10s"


def down(run_dir: Annotated[Path, typer.Argument(help="The run directory that `up` (or a run) printed.")]) -> None:
    """End the cluster of a run directory. Does nothing if it has ended already."""
    from chaos.cluster.reaper import end_all
    from chaos.run.directory import Run

    run = Run(run_dir.absolute())
    if not run.cluster.is_file():
        raise UsageError(f"{run_dir} has no cluster.json; `python -m chaos ps` lists what runs")
    end_all(run.path)


def ps(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """List the processes and containers of Aftershock on this machine, who uses them, and how they end.

    A run that has ended has none. What is in use belongs to a command that still runs, and ends with it.
    """
    from rich.table import Table

    from chaos.cli.output import print_json, print_line
    from chaos.cluster.docker.engine import find_everywhere
    from chaos.processes.process import find_marked

    marked = find_marked()
    clusters = {run_dir: saved for run_dir in {p.run_dir for p in marked} if (saved := saved_cluster(run_dir))}
    addresses = {n.process.pid: n.address for saved in clusters.values() for n in saved.nodes if n.process}
    rows = [_row(found, found.identity.pid, found.role, found.rss_bytes) for found in marked]
    listed = {row["pid"] for row in rows}
    # containers without a listed process, networks and volumes
    rows += [
        _row(item, item.pid, f"{item.kind} {item.name}", 0) for item in find_everywhere() if item.pid not in listed
    ]
    rows = [{**row, "address": addresses.get(row["pid"], "")} for row in rows]
    if as_json:
        print_json(rows)
        return
    if not rows:
        Console().print("nothing of Aftershock runs on this machine")
        return
    table = Table(box=None, header_style="bold")
    for column in ("pid", "role", "address", "run", "use", "memory"):
        width = max(len(row["address"]) for row in rows) if column == "address" else None
        table.add_column(column, justify="right" if column in ("pid", "memory") else "left", min_width=width)
    for row in rows:
        memory = f"{row['rss_bytes'] / 2**20:.0f} MiB" if row["rss_bytes"] else ""
        role = f"{row['role']} (paused)" if row["state"] == "stopped" else row["role"]
        table.add_row(str(row["pid"] or ""), role, row["address"], row["run_id"], USES[row["owner"]], memory)
    Console().print(table)
    for line in _uses(rows):
        print_line(line)
    for run_dir in sorted(at for at, saved in clusters.items() if saved.owner is None and not saved.attached):
        print_line(f"break a broker: {_break(run_dir)}")


def saved_cluster(run_dir: Path) -> ClusterState | None:
    """Return the state of the cluster of a run, unless another run has the cluster; None if there is none."""
    from chaos.cluster import state
    from chaos.run.directory import Run

    try:
        saved = state.load(Run(run_dir))
    except AftershockError:
        return None
    return None if saved.lender else saved


USES = {"alive": "in use", "gone": "left behind", "none": "kept"}
"""What the state of an owner means for what it started."""


def _uses(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each command that uses runs, for what is left behind, and for what is kept: how it ends."""
    groups: dict[tuple[str, int | None], dict[str, str]] = {}
    for row in rows:
        owner = row["owner_pid"] if row["owner"] == "alive" else None
        groups.setdefault((row["owner"], owner), {})[row["run_id"]] = row["run_dir"]
    for (owner, pid), runs in sorted(groups.items(), key=str):
        names = ", ".join(runs)
        if pid is not None:
            yield f"in use by {_command(pid)}, which ends it; now: Ctrl-C there, or `kill {pid}`: {names}"
        elif owner == "gone":
            yield f"left behind by a command that is gone; `python -m chaos gc` ends it: {names}"
        else:
            yield from (f"kept until its time is over; ends it now: python -m chaos down {at}" for at in runs.values())


def _command(pid: int) -> str:
    """Return the command line of a process and its user."""
    import psutil

    try:
        process = psutil.Process(pid)
        words = process.cmdline()
        words = ["python", *words[1:]] if words and Path(words[0]).name.startswith("python") else words
        return f"pid {pid} ({shlex.join(words)[:120]}, user {process.username()})"
    except psutil.Error:
        return f"pid {pid}"


def _row(found: Any, pid: int | None, role: str, rss_bytes: int) -> dict[str, Any]:
    owner = found.owner
    return {
        "pid": pid,
        "role": role,
        "run_id": found.run_id,
        "run_dir": str(found.run_dir),
        "owner": "none" if owner is None else "alive" if owner.alive() else "gone",
        "owner_pid": owner.pid if owner else None,
        "state": found.state,
        "rss_bytes": rss_bytes,
    }


def gc(
    run: Annotated[str | None, typer.Option(help="End this run, also if its owner is alive.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="End every run of Aftershock on this machine.")] = False,
) -> None:
    """End processes and containers of runs without an owner, and delete their brokers' data."""
    from chaos.cluster import reaper

    ended = reaper.gc(run, force_all=everything)
    for name in ended:
        Console().print(f"ended {name}", soft_wrap=True, highlight=False)
    if not ended:
        Console().print("nothing was left behind")


def java(
    install: Annotated[bool, typer.Option("--install", help="As root on Debian or Ubuntu, install it.")] = False,
) -> None:
    """Find Java 17 or newer."""
    from chaos.install.java import find_java

    try:
        found = find_java()
    except MachineError:
        if not (install and os.geteuid() == 0 and shutil.which("apt-get")):
            raise
        _install_java()
        found = find_java()
    Console(highlight=False).print(f"Java {found.major} at {found.path}", soft_wrap=True)


def _install_java() -> None:
    """Install the first of the distribution's packages that exists. Raises `MachineError` if none does."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], env=env, check=False)
    for package in JAVA_PACKAGES:
        Console().print(f"installing {package}")
        argv = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
        if subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, check=False).returncode == 0:
            return
    raise MachineError(f"none of {', '.join(JAVA_PACKAGES)} could be installed; install a Java 17 or newer by hand")


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
    from chaos.cli.output import View
    from chaos.conformance.suite import check, chosen_cases

    if schemas:
        from chaos.conformance.suite import all_schemas

        sys.stdout.write(json.dumps(all_schemas(), indent=1) + "\n")
        return
    cases = chosen_cases(only or [])
    points = []
    with View() as view:
        program, missing, lacks_setting = _program(command, client, view.step)
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


def _program(
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
