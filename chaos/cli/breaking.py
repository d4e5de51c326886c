"""`break`: one fault of a cluster that runs, without a load: injected, proven, healed."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from chaos.cli import options as opt
from chaos.errors import INCONCLUSIVE, USAGE, AftershockError, UsageError

if TYPE_CHECKING:
    from chaos.cluster.state import ClusterState
    from chaos.drive.single_fault import Order
    from chaos.kafka.security import Security
    from chaos.processes.process import Spawned
    from chaos.run.directory import Run
    from chaos.run.events import Event
    from chaos.setup.model import Cluster

EXAMPLES = {
    "break": "break leader_of=orders/0 --for 10s\n\n"
    "python -m chaos break runs/up-20261121-040000-1a2b broker.pause broker=2 --for 20s\n\n"
    "python -m chaos break --bootstrap kafka-1:9092 --cluster mine.yaml coordinator_of=billing\n\n"
    "python -m chaos break --bootstrap kafka-1:9092 election.preferred topic=orders\n\n"
    "python -m chaos break --list"
}
DEFAULT_KIND = "broker.kill"
README = "chaos/cluster/README.md#hands-on-the-brokers"
LEFT_S = 120.0
"""Time for the reaper to restore brokers after the process that heals was killed."""


def break_(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CLUSTER] [FAULT] TARGET=VALUE [PARAMETER=VALUE]…",
            help="The run directory of a cluster of `up` (left out: the only one); a fault (left out: broker.kill); "
            "its target and parameters as in a scenario, such as leader_of=orders/0, broker=2, controller=true.",
        ),
    ] = None,
    for_: Annotated[str, typer.Option("--for", metavar="DURATION", help="Time from injection to heal.")] = "10s",
    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,…", help="An existing cluster, in place of a cluster of `up`.")
    ] = None,
    cluster: Annotated[
        Path | None,
        typer.Option(help="A YAML file with the `cluster` of a scenario: bootstrap, security, verbs.", dir_okay=False),
    ] = None,
    verb: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=COMMAND", help="A command kill, stop, start, pause or resume for one broker."),
    ] = None,
    i_own_this_cluster: Annotated[
        bool, typer.Option("--i-own-this-cluster", help="Also allow changes of data that nothing undoes.")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="List what is possible on the cluster, and end.")] = False,
    runs_dir: opt.RunsDir = opt.RUNS_DIR,
) -> None:
    """Inject one fault into a cluster that runs, prove its effect, and heal it. There is no load.

    Exit codes: 0 proven and healed, 2 refused, 3 no proof or not healed, 130 interrupted: Ctrl-C heals at once.
    """
    from chaos.cli.output import View
    from chaos.run.directory import Run, new_run_id
    from chaos.units import parse_duration

    place, kind, values = _sorted(words or [], runs_dir)
    order, saved = _order(place, bootstrap, cluster, verb or [], i_own_this_cluster)
    order.for_s = opt.parsed("--for", for_, parse_duration)
    if list_:
        _list(order, saved)
        return
    order.fault = _fault(kind, values)
    _check_possible(order, saved)
    with View() as view:
        run = Run.create(runs_dir, new_run_id("break"))
        view.say(f"run directory: {run.path}")
        view.say(f"starting the process that breaks {order.place} and heals it")
        code, words_ = _follow(run, order, view)
    if code in (USAGE, INCONCLUSIVE):
        raise _as_error(code, words_)
    view.say(words_)
    raise typer.Exit(code)


def _as_error(code: int, words: str) -> AftershockError:
    error = AftershockError(words)
    error.exit_code = code
    return error


def _sorted(words: list[str], runs_dir: Path) -> tuple[Path | None, str, list[str]]:
    """Return the run directory, the kind of the fault, and the texts NAME=VALUE."""
    from chaos.drive.single_fault import KINDS
    from chaos.faults import SPECS
    from chaos.setup.names import nearest

    place, kind, values = None, "", list[str]()
    for word in words:
        at = next((p for p in (Path(word), runs_dir / word) if (p / "cluster.json").is_file()), None)
        if at is not None:
            place = at
        elif "=" in word:
            values.append(word)
        elif word in KINDS and not kind:
            kind = word
        else:
            if word in SPECS:
                raise UsageError(
                    f"{word} needs {SPECS[word].run_only}, and `break` starts none; write a scenario with it, and "
                    "`python -m chaos run` it; `break --list` shows the faults that are possible here"
                )
            raise UsageError(
                f"{word!r} is no run directory with a cluster, no fault for `break`, and no TARGET=VALUE"
                f"{nearest(word, KINDS)}; `break --list` shows the faults"
            )
    return place, kind or DEFAULT_KIND, values


def _order(
    place: Path | None, bootstrap: str | None, file: Path | None, verbs: list[str], owned: bool
) -> tuple[Order, ClusterState | None]:
    """Return an order without a fault, and the state of the cluster if it is one of `up`."""
    from chaos.cluster import state
    from chaos.drive.single_fault import Order
    from chaos.run.directory import Run

    if place is not None and (bootstrap or file):
        raise UsageError("a run directory and --bootstrap or --cluster name two clusters; give one of them")
    known = _described(bootstrap, file, verbs)
    commands = known.verbs
    local = place
    if known.bootstrap and not commands.commands():  # the user's commands count
        local = _local(known.bootstrap)
    elif not known.bootstrap:
        local = place or _only_one()
    if local is None:
        assert known.bootstrap is not None
        security = known.security.absolute().given()
        return Order(fault={}, for_s=0, bootstrap=known.bootstrap, security=security, verbs=commands, final=owned), None
    return Order(fault={}, for_s=0, up=local.absolute(), final=True), state.load(Run(local.absolute()))


def _described(bootstrap: str | None, file: Path | None, verbs: list[str]) -> Cluster:
    """Return the existing cluster as the options describe it; without a bootstrap if they name none."""
    from chaos.drive.single_fault import Place
    from chaos.scenario.load import read_mapping, validated
    from chaos.scenario.mistakes import Source

    raw: dict[str, Any] = {}
    source = Source("", "--bootstrap" if bootstrap else "--verb")
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise UsageError(f"{file} cannot be read: {e}") from None
        whole = read_mapping(text, str(file), "cluster", "bootstrap, security, verbs")
        raw = whole["cluster"] if isinstance(whole.get("cluster"), dict) else whole
        source = Source(text, str(file), {} if raw is not whole else {("cluster", key): (key,) for key in whole})
    given = {name: command for name, _, command in (text.partition("=") for text in verbs)}
    raw = {**raw, "driver": "attached", "verbs": {**(raw.get("verbs") or {}), **given}}
    source.changes |= {("cluster", "verbs", name): "--verb" for name in given}
    if bootstrap:
        raw["bootstrap"] = bootstrap
        source.changes["cluster", "bootstrap"] = "--bootstrap"
    return validated(Place, {"cluster": raw}, source, "the cluster cannot be reached as described").cluster


def cluster_of(bootstrap: str | None, file: Path | None) -> tuple[str, Security]:
    """Return the addresses of a cluster and how to connect: as described, or as the cluster of `up` has it."""
    known = _described(bootstrap, file, [])
    local = _local(known.bootstrap) if known.bootstrap else _only_one()
    if local is not None and not known.security.secured:
        from chaos.cluster import state
        from chaos.kafka.security import Security as Plain
        from chaos.run.directory import Run

        saved = state.load(Run(local.absolute()))
        return known.bootstrap or saved.bootstrap, saved.platform_security or Plain()
    if known.bootstrap is None:
        raise UsageError("the file with the security of the cluster does not name it; give --bootstrap")
    return known.bootstrap, known.security.absolute().given()


def clusters_of_up() -> dict[Path, ClusterState]:
    """Return the clusters of `up` that run on this machine, by their run directories."""
    from chaos.cli.machine import saved_cluster
    from chaos.processes.process import REAPER, find_marked

    run_dirs = dict.fromkeys(p.run_dir for p in find_marked() if p.role == REAPER and p.owner is None)
    return {at: saved for at in run_dirs if (saved := saved_cluster(at)) and saved.attached is None}


def _local(bootstrap: str) -> Path | None:
    """Return the run directory of the cluster of `up` with one of these addresses; None if there is none."""
    wanted = {address.strip().replace("localhost", "127.0.0.1") for address in bootstrap.split(",")}
    return next((at for at, saved in clusters_of_up().items() if wanted & set(saved.bootstrap.split(","))), None)


def _only_one() -> Path:
    """Return the run directory of the only cluster of `up`."""
    found = list(clusters_of_up())
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError("no cluster of `up` runs here; start one with `python -m chaos up`, or give --bootstrap")
    raise UsageError(f"{len(found)} clusters of `up` run here; name one: {', '.join(map(str, found))}")


def _fault(kind: str, values: list[str]) -> dict[str, Any]:
    """Return the specification of a fault, as a scenario has it."""
    from chaos.drive.single_fault import OF_RUNS
    from chaos.faults import SPECS
    from chaos.faults.base import FaultSpec, parse_parameters
    from chaos.scenario.load import validated
    from chaos.scenario.mistakes import Source
    from chaos.setup.names import nearest
    from chaos.setup.triggers import Target

    pairs = [value.partition("=") for value in values]
    target: dict[str, Any] = {n: True if text == "true" else text for n, _, text in pairs if n in Target.model_fields}
    more = parse_parameters(value for value in values if value.partition("=")[0] not in Target.model_fields)
    if target.keys() & OF_RUNS:
        raise UsageError(f"{', '.join(target)} is a target in a run, and `break` starts none; see `break --list`")
    if not target:
        takes = ", ".join(sorted((SPECS[kind].targets & Target.model_fields.keys()) - OF_RUNS))
        raise UsageError(f"{kind} needs a target, such as leader_of=orders/0 or broker=2; it takes {takes}")
    parameters = SPECS[kind].model_fields.keys() - FaultSpec.model_fields.keys()
    for name in sorted(more.keys() - parameters):
        takes = ", ".join(sorted(parameters)) or "none but the target"
        raise UsageError(f"{kind} has no parameter {name}{nearest(name, parameters)}; it takes {takes}")
    raw = {"name": "break", "kind": kind, "target": target, "when": {"at": "0s"}, **more}
    validated(SPECS[kind], raw, Source("", kind), "the fault cannot be injected")
    return raw


def _check_possible(order: Order, saved: ClusterState | None) -> None:
    from chaos.drive.single_fault import possible, unprepared
    from chaos.faults import SPECS

    kind = order.fault["kind"]
    can = possible(saved, order.verbs)
    if kind in can:
        return
    if saved is not None and SPECS[kind].needs & unprepared(saved):
        raise UsageError(
            f"{kind} is not possible on brokers that `up` starts, only on brokers that a run starts for it; write a "
            f"scenario with it, and `python -m chaos run` it; `break --list` shows what is possible"
        )
    if saved is not None:
        raise UsageError(
            f"{kind} is not possible on a cluster of the {saved.driver} driver; `break --list` shows what is possible"
        )
    if not (verbs := _verbs_of(kind)):
        raise UsageError(
            f"{kind} needs a broker that this tool starts, of `up` or of a run, and is not possible on a cluster that "
            f"exists; `break --list` shows what is possible"
        )
    raise UsageError(
        f"{kind} needs hands on the brokers of {order.bootstrap}: commands to {_and(verbs)}, by --verb "
        f"{verbs[0]}='ssh {{host}} …' or cluster.verbs in --cluster FILE ({README}); see `break --list`"
    )


def _verbs_of(kind: str) -> list[str]:
    from chaos.cluster.settings import CAPABILITY_NEEDS
    from chaos.faults import SPECS

    order = ("kill", "stop", "start", "pause", "resume")
    if not SPECS[kind].needs <= CAPABILITY_NEEDS.keys():
        return []  # no command is enough
    needed = {verb for name in SPECS[kind].needs for verb in CAPABILITY_NEEDS.get(name, ())}
    return sorted(needed, key=order.index)


def _and(names: list[str]) -> str:
    return " and ".join(names)


def _list(order: Order, saved: ClusterState | None) -> None:
    """Print the brokers, the faults that are possible with an example, and what the others need."""
    from chaos.cli.output import plain_table, print_line
    from chaos.cluster.attached.driver import reach
    from chaos.drive.single_fault import KINDS, possible
    from chaos.faults import SPECS
    from chaos.kafka.security import Access

    if saved is not None:
        brokers = {node.id: node.address for node in saved.brokers}
    else:
        found = reach(order.bootstrap, Access.of(order.security)).brokers
        brokers = {broker: f"{host}:{port}" for broker, (host, port) in found.items()}
    print_line("brokers: " + ", ".join(f"{broker} at {address}" for broker, address in brokers.items()))
    can = possible(saved, order.verbs)
    table = plain_table("fault", "example", "what it does")
    for kind in can:
        summary = (SPECS[kind].__doc__ or "").split(";")[0].split(":")[0].split(".")[0] + "."
        table.add_row(
            kind, KINDS[kind], summary + (" Needs --i-own-this-cluster." if SPECS[kind].final and not saved else "")
        )
    Console().print(table)
    for kind in KINDS.keys() - set(can) if saved is None else ():
        if verbs := _verbs_of(kind):
            print_line(f"{kind}: needs commands to {_and(verbs)}, by --verb or --cluster; see {README}")
    needs: dict[str, list[str]] = {}
    for kind, spec in SPECS.items():
        if spec.run_only:
            needs.setdefault(spec.run_only, []).append(kind)
    print_line("only in a scenario, with `python -m chaos run`:")
    for reason, kinds in needs.items():
        print_line(f"  {', '.join(kinds)}: needs {reason}")


def _follow(run: Run, order: Order, view: Any) -> tuple[int, str]:
    """Start the process that acts, show its events, and return the exit code and the reason. Ctrl-C heals."""
    from chaos.drive.single_fault import ENDED, write_order
    from chaos.ending import handled
    from chaos.processes.process import ProcessId, spawn

    write_order(run, order)
    owner = ProcessId.current()
    argv = [sys.executable, "-m", "chaos.drive.single_fault", str(run.path), "--owner", str(owner)]
    spawned = spawn(argv, run=run, role="break", owner=owner, log=run.logs / "break.log")

    def heal(*_: object) -> None:
        spawned.identity.signal(signal.SIGTERM)
        view.say("healing now; the command ends when the cluster is as before")

    last: Event | None = None
    with handled(heal):
        for event in _events(run, spawned):  # the process is gone when it ends: the command leaves nothing behind
            if event["kind"] == ENDED:
                last = event
            else:
                view(event)
    return (int(last["code"]), str(last["words"])) if last else (INCONCLUSIVE, _restored(run, order))


def _events(run: Run, spawned: Spawned) -> Iterator[Event]:
    """Yield the events of a run as they come, until its process has ended."""
    read = 0
    while True:
        ended = spawned.popen.poll() is not None
        text = run.events.read_text(encoding="utf-8") if run.events.exists() else ""
        whole = text[read:].rpartition("\n")[0]
        for line in filter(None, whole.split("\n")):
            yield json.loads(line)
        read += len(whole) + bool(whole)
        if ended:
            return
        time.sleep(0.1)


def _restored(run: Run, order: Order) -> str:
    """Restore the brokers after the process that heals was killed, or wait for the reaper; return what happened."""
    from chaos.cluster import state
    from chaos.drive.single_fault import restore
    from chaos.drive.stages import attach
    from chaos.run.directory import Run as Directory
    from chaos.wait import wait_until

    killed = "the process that heals was killed"
    if order.up is not None:
        back = restore(attach(Directory(order.up)))
        return f"{killed}; {', '.join(back) or 'no broker was down, and nothing'} is back by this command"
    try:
        wait_until(lambda: (found := state.load(run).attached) is not None and found.cleared, LEFT_S, "not restored")
    except AftershockError:
        return f"{killed}, and the reaper has not restored the brokers; try again: python -m chaos down {run.path}"
    return f"{killed}; the reaper of {run.path} restored the brokers"
