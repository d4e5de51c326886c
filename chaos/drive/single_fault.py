"""One fault of a cluster that runs already, without a load: the part of `break` that acts.

    connect -> resolve the target -> inject -> proof -> heal -> every replica in sync again -> leave

    python -m chaos.drive.single_fault RUN_DIR --owner PID:STARTED

It is a separate process. When the command (its owner) ends, also by SIGKILL, it heals at once. When it is killed too,
the reaper of the run restores the brokers of a cluster that exists, and the command the brokers of a cluster of `up`.
"""

from __future__ import annotations

import argparse
import math
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from pydantic import BaseModel

from chaos.cluster import state
from chaos.cluster.api import Cluster, Pause, Start
from chaos.cluster.attached.driver import AttachedCluster, check_groups, check_partition
from chaos.cluster.drivers import capabilities
from chaos.cluster.drivers import driver as driver_of
from chaos.cluster.settings import ClusterSpec, Existing, Verbs
from chaos.cluster.state import ClusterState
from chaos.drive.found import as_found
from chaos.errors import (
    INCONCLUSIVE,
    INTERRUPTED,
    PASS,
    USAGE,
    AftershockError,
    ClusterError,
    FaultError,
    UsageError,
)
from chaos.faults import FAULTS, SPECS
from chaos.faults.base import FaultSpec, World
from chaos.faults.runner import FaultRun
from chaos.faults.targets import BrokerFault, abbreviate
from chaos.fleet.fleet import Fleet
from chaos.kafka.client import Kafka
from chaos.kafka.metadata import Metadata
from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import Security
from chaos.ledger.stream import TableWriter
from chaos.observer import Observer
from chaos.processes.process import ProcessId
from chaos.run.directory import Run, read_json, write_json
from chaos.run.events import EventLog
from chaos.run.locked import locked
from chaos.scenario.model import Scenario
from chaos.setup import model as setup
from chaos.setup.model import PARTITION_TARGETS
from chaos.wait import wait_until

_EXAMPLES = {
    **{"leader_of": "orders/0", "coordinator_of": "billing", "all_brokers": "true", "broker": "2"},
    **{"controller": "true", "partition": "orders/0", "topic": "orders", "group": "billing"},
}
"""Targets of examples; the first one that a fault takes counts."""


def _example(spec: type[FaultSpec]) -> str:
    selector = next(name for name in _EXAMPLES if name in spec.targets)
    return f"{selector}={_EXAMPLES[selector]} {spec.example}".rstrip()


OF_RUNS = frozenset({"member", "random_member", "random_member_of", "share_coordinator_of", "task_manager"})
"""Targets that only a run has."""
KINDS = {kind: _example(spec) for kind, spec in SPECS.items() if not spec.run_only}
"""The faults that need no run, each with the target and the parameters of an example."""
_STARTED_SO = {"isolate": "switch", "set_clock": "clocks", "slow_disk": "disks"}
"""Capabilities of the process driver that brokers have only if they were started for it, with the mark of that."""

ORDER, ENDED, LOCK = "break.json", "ended", "break.lock"
ANSWER_S, SAMPLE_S = 10.0, 0.1
PROOF_S = 30.0
"""Time for the proof after the moment of the heal."""
HEAL_S, SYNC_S = 60.0, 120.0
MARGIN_S = 900.0
"""Time for injection, heal and replicas in sync: the reaper waits for it, and for the length of the fault."""
MOST, SHOWN = 500, 5
"""Maximum number of partitions that are watched, and that are named."""


class Place(BaseModel):
    """The cluster in a file of the user."""

    cluster: setup.Cluster


class Order(BaseModel):
    """What `break` asks for. up: the run directory of a cluster of `up`; without it, bootstrap names a cluster.

    fault: the specification of a scenario. for_s: time from injection to heal. final: whether a change that nothing
    undoes is allowed.
    """

    fault: dict[str, Any]
    for_s: float
    up: Path | None = None
    bootstrap: str = ""
    security: Security = Security()
    verbs: Verbs = Verbs()
    final: bool = False

    @property
    def spec(self) -> FaultSpec:
        """The specification of the fault. Raises `ValidationError`."""
        return SPECS[self.fault["kind"]].model_validate(self.fault)

    @property
    def place(self) -> str:
        """The cluster, for messages."""
        return str(self.up) if self.up else self.bootstrap


def possible(saved: ClusterState | None, verbs: Verbs) -> list[str]:
    """Return the kinds that are possible on a cluster of `up` (saved), or else on one with these commands."""
    if saved is None:
        able = capabilities("attached", verbs.commands())
    else:
        able = capabilities(saved.driver) - unprepared(saved)
    return [kind for kind in KINDS if SPECS[kind].needs <= able]


def unprepared(saved: ClusterState) -> frozenset[str]:
    """Return the capabilities of the driver that the brokers of a cluster of `up` lack, as they were not started so."""
    return frozenset(n for n, mark in _STARTED_SO.items() if saved.driver == "process" and not getattr(saved, mark))


def restore(cluster: Cluster) -> list[str]:
    """Start or resume the brokers of a cluster of `up` that are down or paused; return the names of those."""
    found = [n for n in cluster.state.nodes if n.state in ("paused", "killed", "stopped")]
    for node in found:
        if node.state == "paused" and isinstance(cluster, Pause):
            cluster.resume_broker(node.id)
    if down := [n.id for n in found if n.state != "paused"]:
        cast(Start, cluster).start_brokers(down)
    return [cluster.state.name(n.id) for n in found]


@contextmanager
def _opened(run: Run, order: Order, events: EventLog) -> Iterator[Cluster]:
    """Yield the cluster, and leave it afterwards. Raises an `AftershockError` if it cannot be used."""
    if order.up is not None:
        theirs = Run(order.up)
        with locked(theirs.path / LOCK, f"another break of {theirs.path} is under way; wait for its end"):
            yield driver_of(state.load(theirs).driver).attach(theirs)
        return
    with events.stage("deploy", f"connecting to {order.bootstrap}"):
        existing = Existing(order.bootstrap, "", order.security, order.verbs)
        cluster = AttachedCluster.deploy(
            run, ClusterSpec(existing=existing), ProcessId.current(), order.for_s + MARGIN_S
        )
    try:
        yield cluster
    finally:
        with events.stage("destroy", "leaving the cluster"):
            cluster.destroy()


def carry_out(run: Run, order: Order, events: EventLog, is_over: Callable[[], bool]) -> tuple[int, str]:
    """Inject, prove and heal; return the exit code of `break` and its reason.

    is_over: whether to heal now. Raises `UsageError` if the target or the fault does not fit the cluster; nothing was
    changed then.
    """
    with ExitStack() as stack:
        events.note(f"asking {order.place} for the target")
        cluster = stack.enter_context(_opened(run, order, events))
        connect = partial(Kafka, cluster.bootstrap, access=cluster.state.access())
        kafka = stack.enter_context(closing(connect(timeout_s=ANSWER_S)))
        metadata = kafka.metadata()
        if metadata is None:
            raise ClusterError(f"no broker of {order.place} answers")
        spec = order.spec
        scenario = as_found(cluster, metadata, spec, kafka)
        _check(order, spec, scenario, kafka, metadata)
        no_observer = cast(Observer, None)  # the target is resolved without it
        world = World(scenario, cluster, cast(Fleet, None), no_observer, kafka, random.Random(), cluster.state.access())
        fault = FAULTS[spec.kind](spec)
        try:
            fault.aim(world)
        except FaultError as e:
            raise UsageError(f"nothing was changed: {e}") from None
        watched = _watched(fault, spec, metadata, {topic for entry in scenario.consumers for topic in entry.topics})
        names = sorted({p.topic for p in watched})
        scenario = scenario.model_copy(update={"topics": [t for t in scenario.topics if t.name in names]})
        observer = stack.enter_context(Observer(run, partial(connect, topics=names or None), watched, []))
        world = replace(world, scenario=scenario, observer=observer, kafka=kafka, run=run)
        events.note(_target(fault, spec, cluster, watched))
        before = set(kafka.unhealthy(watched))
        writer = stack.enter_context(TableWriter(run.ledger, "faults", "break"))
        wait_until(lambda: observer.metadata, ANSWER_S, "no broker answers", error=ClusterError)
        leaders = stack.enter_context(LeaderWatch(partial(connect, topics=names or None), watched))
        faulted = FaultRun(fault, world, writer, events, order.for_s + PROOF_S)
        stack.callback(_heal_if_begun, faulted)  # whatever happens
        return _run(faulted, leaders, order, events, is_over, lambda: sorted(set(kafka.unhealthy(watched)) - before))


def _heal_if_begun(fault: FaultRun) -> None:
    if fault.fault.begun and not fault.fault.lasting:
        fault.finish(HEAL_S)


def _run(
    fault: FaultRun,
    leaders: LeaderWatch,
    order: Order,
    events: EventLog,
    is_over: Callable[[], bool],
    unhealthy: Callable[[], Sequence[str]],
) -> tuple[int, str]:
    """Inject, wait, heal, and wait until the cluster is as before; return the exit code and the reason."""
    lasting = fault.fault.lasting
    fault.inject()
    wait_until(lambda: fault.phases.keys() & {"injected", "failed"} or not fault.busy, 10 * HEAL_S, "no injection")
    if not fault.fault.begun:
        return USAGE, f"nothing was changed: {fault.errors[0].partition(' failed: ')[2]}"
    if "injected" in fault.phases and not lasting:
        events.note(f"healing {order.for_s:g} s after the injection, or at once with Ctrl-C")
        heal_at = fault.phases["injected"] + order.for_s
        while time.monotonic() < heal_at and not is_over():
            time.sleep(SAMPLE_S)
    interrupted = is_over()
    if not lasting:
        events.note("healing")
        fault.heal()
    limit = math.inf if lasting else time.monotonic() + HEAL_S
    while fault.busy and not ("healed" in fault.phases and is_over()):  # the proof may come after the heal
        if "healed" not in fault.phases and time.monotonic() > limit:
            break  # `finish` waits once more, and gives up
        time.sleep(SAMPLE_S)
    if not lasting:
        fault.finish(HEAL_S)
    problems = [] if lasting or "healed" in fault.phases else [f"not healed: {'; '.join(fault.errors)}"]
    if unhealthy() or leaders.missing:
        events.note("waiting until every replica is in sync again")
        try:
            wait_until(
                lambda: not unhealthy() and not leaders.missing,
                SYNC_S,
                lambda: "; ".join(
                    [*unhealthy(), *(f"the leader of {p} does not answer" for p in leaders.missing)][:SHOWN]
                ),
                every_s=0.2,
            )
        except AftershockError as e:
            problems.append(str(e))
    for line in leaders.describe():
        events.note(line)
    if problems:
        return INCONCLUSIVE, "; ".join(problems)
    proven, healed = "proven" in fault.phases, lasting or "healed"
    if interrupted:
        return INTERRUPTED, f"interrupted; {fault.fault.resolved}: {healed}"
    if "injected" not in fault.phases and fault.errors:
        return INCONCLUSIVE, f"{fault.errors[0]}; {fault.fault.resolved}: {healed}"
    if not proven:
        return INCONCLUSIVE, f"no proof: nothing changed that was seen from outside; {fault.fault.resolved}: {healed}"
    return PASS, f"proven; {fault.fault.resolved}: {healed}"


def _check(order: Order, spec: FaultSpec, scenario: Scenario, kafka: Kafka, metadata: Metadata) -> None:
    """Raise `UsageError` if the cluster lacks the target, or if the fault does not fit the cluster."""
    selector, value = spec.target.selector
    if selector in PARTITION_TARGETS:
        check_partition(TopicPartition.parse(value), metadata)
    elif selector == "topic":
        check_partition(TopicPartition(value, 0), metadata)
    elif selector == "broker" and value not in metadata.brokers:
        raise UsageError(f"there is no broker {value}; there are {', '.join(map(str, metadata.brokers))}")
    elif selector in ("coordinator_of", "group"):
        check_groups(kafka, [value])
    problems = list(spec.problems(scenario, "fault"))
    if not scenario.is_theirs(spec.target) and selector != "coordinator_of":
        problems += scenario.target_problems("target", spec.target, spec.hits_controllers)
    if spec.final and not order.final:
        problems.append(f"nothing undoes {spec.kind}; if you may change this data for good, add --i-own-this-cluster")
    if problems:
        raise UsageError("; ".join(problems))


def _watched(fault: Any, spec: FaultSpec, metadata: Metadata, topics: Collection[str]) -> list[TopicPartition]:
    """Return the partitions that the fault is about: the target's partition, then what the brokers lead."""
    selector, value = spec.target.selector
    theirs = {p: s for p, s in metadata.partitions.items() if not p.topic.startswith("__")}
    first = [p for p in theirs if value in (str(p), p.topic)] if selector in {*PARTITION_TARGETS, "topic"} else []
    if selector == "group":
        first = [p for p in theirs if p.topic in topics]
    hit = set(fault.brokers) if isinstance(fault, BrokerFault) else set()
    if spec.target.all_brokers:
        hit = set(metadata.brokers)
    return [*dict.fromkeys([*first, *(p for p, s in theirs.items() if s.leader in hit)])][:MOST]


def _target(fault: Any, spec: FaultSpec, cluster: Cluster, watched: Sequence[TopicPartition]) -> str:
    found = f"{spec.kind} of {spec.aimed_at}"
    if isinstance(fault, BrokerFault):
        at = ", ".join(f"{cluster.state.name(b)} at {cluster.state.node(b).address}" for b in fault.brokers)
        named = spec.target.selector[0] in PARTITION_TARGETS
        led = (
            f"; {len(watched)} partition{'s' * (len(watched) != 1)} watched" if len(fault.brokers) == 1 or named else ""
        )
        return f"{found}: {at}{led if watched else ''}"
    return f"{found}: {abbreviate(watched)}" if watched else found


@dataclass
class LeaderWatch:
    """Asks the leader of each partition for the end of its log, again and again, and keeps the longest silences."""

    connect: Callable[[], Kafka]
    partitions: Sequence[TopicPartition]
    _answered_s: dict[TopicPartition, float] = field(default_factory=dict)
    missing: set[TopicPartition] = field(default_factory=set)
    """The partitions without a leader that answered the last question."""
    _longest_s: dict[TopicPartition, float] = field(default_factory=dict)
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self.partitions:
            self._thread = threading.Thread(target=self._repeat, daemon=True, name="leaders")
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ending.set()
        if self._thread:
            self._thread.join(ANSWER_S)

    def _repeat(self) -> None:
        kafka = self.connect()
        while not self._ending.is_set():
            asked_s = time.monotonic()
            self.note(asked_s, kafka.end_offsets(self.partitions).keys())
            self._ending.wait(SAMPLE_S)
        kafka.close()

    def note(self, asked_s: float, answered: Sequence[TopicPartition] | Any) -> None:
        """Keep one sample: the partitions with a leader that answered a question asked at that time."""
        for partition in self.partitions:
            last_s = self._answered_s.get(partition, asked_s)
            if partition not in answered:
                self.missing.add(partition)
                self._answered_s.setdefault(partition, asked_s)
            else:
                self._answered_s[partition] = asked_s
            if partition in self.missing:
                self._longest_s[partition] = max(self._longest_s.get(partition, 0.0), asked_s - last_s)
            if partition in answered:
                self.missing.discard(partition)

    def describe(self) -> list[str]:
        """Return for how long partitions had no leader that answered, the longest first."""
        longest = sorted(self._longest_s.items(), key=lambda found: -found[1])
        if not longest:
            return ["each partition had a leader that answered all the time"] if self.partitions else []
        lines = [
            f"{partition}: no leader answered for {seconds:.1f} s{', and none does now' * (partition in self.missing)}"
            for partition, seconds in longest[:SHOWN]
        ]
        more = longest[SHOWN:]
        return lines + ([f"{len(more)} more partitions: for {more[-1][1]:.1f} to {more[0][1]:.1f} s"] if more else [])


def write_order(run: Run, order: Order) -> None:
    """Write the order into the run directory, for `main`."""
    write_json(run.path / ORDER, order.model_dump(mode="json"))


def main(argv: list[str] | None = None) -> int:
    """Carry out the order in a run directory; the last event names the exit code of `break`, and why."""
    parser = argparse.ArgumentParser(description="Break a cluster as break.json says.")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--owner", type=ProcessId.parse, required=True, help="PID:STARTED of the command")
    args = parser.parse_args(argv)
    run, over = Run(args.run_dir), threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: over.set())
    events = EventLog(run)
    code, words = INCONCLUSIVE, "it ended by an error of Aftershock; see logs/break.log"
    try:
        order = Order.model_validate(read_json(run.path / ORDER, "order"))
        code, words = carry_out(run, order, events, lambda: over.is_set() or not args.owner.alive())
    except AftershockError as e:
        code, words = e.exit_code, str(e)
    finally:
        events.emit(ENDED, code=code, words=words)
    return code


if __name__ == "__main__":
    sys.exit(main())
