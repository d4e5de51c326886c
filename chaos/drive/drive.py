"""The drive: clients, fault timeline and observer at once, until everything is sent, healed and drained.

    consumers assigned -> producers start -> faults by the timeline -> heal -> drain -> stop -> seal

Whatever way it ends, every fault is healed and every client is gone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from chaos.clients.fleet import Fleet
from chaos.cluster.api import Cluster
from chaos.errors import ClientError, ClusterError, WaitTimeout
from chaos.faults import FAULTS
from chaos.faults.runner import FaultRun
from chaos.faults.world import World
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition
from chaos.kafka.readable_offsets import Isolation, readable_ends
from chaos.ledger.seal import seal
from chaos.ledger.writer import TableWriter
from chaos.observer import OFFSETS_TOPIC, Observer
from chaos.relay.control import Proxy
from chaos.run.directory import Run
from chaos.run.events import EventLog
from chaos.scenario.consumers import Consumer, reads_committed
from chaos.scenario.resolve import Resolved
from chaos.scenario.timeline import Progress, Step, is_due, steps, unreachable
from chaos.wait import wait_until

TICK_S = 0.02
REPORT_EVERY_S = 0.5
HEAL_TIMEOUT_S = 60.0

Ends = dict[Isolation, dict[TopicPartition, int]]


class Drive:
    """One drive of one run; `run` is all there is to call."""

    def __init__(
        self,
        run: Run,
        resolved: Resolved,
        cluster: Cluster,
        events: EventLog,
        before_load: Callable[[], None],
    ) -> None:
        self._run, self._resolved, self._cluster, self._events = run, resolved, cluster, events
        self._before_load = before_load
        self._scenario = resolved.scenario
        self._limits = self._scenario.limits
        self._readers = self._scenario.readers
        # what is there from the start; the observer knows what has come since
        first = [t for t in self._scenario.topics if not t.later]
        self._partitions = [TopicPartition(t.name, p) for t in first for p in range(t.partitions)]
        self._last_report: tuple[float, int, int] = (0.0, 0, 0)
        self._started = 0.0
        self._deaths = 0
        self._proxy: Proxy | None = None

    def run(self) -> None:
        """Drive to the end. The ledger is sealed even if the drive failed: what was recorded may be judged."""
        try:
            self._drive()
        except Exception:
            seal(self._run.ledger)
            raise
        with self._events.stage("seal"):
            seal(self._run.ledger)

    def _drive(self) -> None:
        with ExitStack() as stack:
            writer = stack.enter_context(TableWriter(self._run.ledger, "faults", "drive"))
            groups = sorted({c.group for c in self._readers if c.group})
            access = self._cluster.state.access()
            # a cluster that exists may have thousands of topics that are not the run's
            named = [*(t.name for t in self._scenario.topics), OFFSETS_TOPIC]
            topics = named if self._cluster.state.attached else None
            connect = partial(Kafka, self._cluster.bootstrap, access=access, topics=topics)
            later = [t.name for t in self._scenario.topics if t.later]
            observer = stack.enter_context(Observer(self._run, connect, self._partitions, groups, later))
            if self._scenario.proxied:
                self._proxy = stack.enter_context(Proxy(self._run))
            bootstrap = self._proxy.bootstrap if self._proxy else self._cluster.bootstrap
            fleet = stack.enter_context(Fleet(self._run, self._resolved, bootstrap))
            kafka = connect()
            rng = self._resolved.rng("faults")

            def world() -> World:  # several faults may be at work, each with questions of its own
                asking = connect()
                stack.callback(asking.close)
                return World(self._scenario, self._cluster, fleet, observer, asking, rng, access, self._proxy)

            faults = {
                f.name: FaultRun(FAULTS[f.kind](f), world(), writer, self._events, self._limits.proof)
                for f in self._scenario.faults
            }
            for fault in faults.values():
                stack.callback(fault.finish, HEAL_TIMEOUT_S)
            with self._events.stage("clients"):
                fleet.start_consumers()
                fleet.wait_assigned(self._limits.clients)
                self._wait_groups(observer)
                self._before_load()
                self._started = time.monotonic()
                fleet.start_producers()
            with self._events.stage("load"):
                self._load(fleet, faults, observer)
            with self._events.stage("heal"):
                self._heal(kafka, fleet, faults, observer)
            with self._events.stage("drain"):
                self._drain(kafka, fleet, observer.partitions())
            with self._events.stage("stop"):
                for client in fleet.stop_all(self._limits.clients):
                    self._events.emit("problem", words=f"{client} did not stop when ordered to and was killed")
                self._notice_deaths(fleet)

    def _wait_groups(self, observer: Observer) -> None:
        """Wait until each group is stable with all of its members: one that holds everything alone is not the group."""
        members: Counter[str] = Counter()
        later = Counter(client.rpartition("/")[0] for client in self._scenario.held_back())
        for entry in self._readers:
            if entry.mode == "subscribe":
                members[entry.group] += entry.admitted_members - later[entry.name]

        def missing() -> list[str]:
            found = []
            for group, wanted in members.items():
                state = observer.groups.get(group)
                here = len(state.members) if state else 0
                if state is None or state.state != "Stable" or here != wanted:
                    found.append(f"{group} is {state.state if state else 'unknown'} with {here} of {wanted} members")
            return found

        wait_until(lambda: not missing(), self._limits.clients, lambda: f"not formed: {'; '.join(missing())}")

    def _load(self, fleet: Fleet, faults: Mapping[str, FaultRun], observer: Observer) -> None:
        """Fire the timeline's steps as they come due, until all is sent and every fault is through."""
        waiting = steps(self._scenario)
        deadline = self._started + self._limits.drive
        while True:
            progress = self._progress(fleet, faults)
            for step in [s for s in waiting if is_due(s, progress)]:
                waiting.remove(step)
                _fire(step, faults)
            for step in unreachable(waiting, {phase for fault in faults.values() for phase in fault.lost}):
                waiting.remove(step)
                self._events.emit("problem", words=f"{step.describe()}: left out, for that never came")
            self._report(progress)
            if not waiting and not any(f.busy for f in faults.values()):
                fleet.end_outlasting()
            if fleet.producers_done() and not waiting and not any(f.busy for f in faults.values()):
                return
            self._notice_deaths(fleet)
            if observer.broken:
                raise observer.broken
            self._check_ways()
            if time.monotonic() > deadline:
                self._give_up(waiting, fleet)
                return
            time.sleep(TICK_S)

    def _check_ways(self) -> None:
        """Raise `ClusterError` if what stands between clients and brokers has ended."""
        if self._proxy:
            self._proxy.check()
        self._cluster.check()

    def _notice_deaths(self, fleet: Fleet) -> None:
        """Say which clients died unasked; without a producer there is no end to wait for."""
        exits = fleet.unexpected_exits()
        for died in exits[self._deaths :]:
            self._events.emit("problem", words=f"{died.describe()}; its log is in {self._run.logs}")
        self._deaths = len(exits)
        producers = {p.name for p in self._scenario.producers}
        if dead := [e for e in exits if e.client.rpartition("/")[0] in producers]:
            raise ClientError(dead[0].describe())

    def _progress(self, fleet: Fleet, faults: Mapping[str, FaultRun]) -> Progress:
        phases = {
            (name, phase): at - self._started
            for name, fault in faults.items()
            for phase, at in fault.phases.copy().items()
            if phase in ("injected", "proven", "healed")
        }
        acked = {p.name: fleet.acked(p.name) for p in self._scenario.producers}
        delivered = {c.name: fleet.delivered(c.name) for c in self._readers}
        return Progress(time.monotonic() - self._started, acked, delivered, phases)  # type: ignore[arg-type]

    def _report(self, progress: Progress, force: bool = False) -> None:
        """Emit how far it is, with rates since the last report."""
        at, acked, delivered = self._last_report
        now = progress.elapsed_s
        all_acked, all_delivered = sum(progress.acked.values()), sum(progress.delivered.values())
        if not force and now - at < REPORT_EVERY_S:
            return
        seconds = max(now - at, 1e-3)
        self._events.emit(
            "progress",
            elapsed_s=round(now, 2),
            acked=all_acked,
            delivered=dict(progress.delivered),
            acked_per_s=round((all_acked - acked) / seconds),
            delivered_per_s=round((all_delivered - delivered) / seconds),
        )
        self._last_report = (now, all_acked, all_delivered)

    def _give_up(self, waiting: list[Step], fleet: Fleet) -> None:
        missing = [s.describe() for s in waiting]
        if not fleet.producers_done():
            missing.append(f"the producers ({fleet.total_acked():,} records acknowledged)")
        words = f"after {self._limits.drive:g} s (limits.drive) still waiting for: {'; '.join(missing) or 'a heal'}"
        self._events.emit("problem", words=words)

    def _heal(self, kafka: Kafka, fleet: Fleet, faults: Mapping[str, FaultRun], observer: Observer) -> None:
        """Heal what is left, then wait for leaders and full ISRs: the log is read from a healed cluster.

        A producer that only now is started again has yet to send what is left for it: the drain is of that, too.
        """
        all_sent = fleet.producers_done()  # if not, the load was given up, and that was said
        for fault in faults.values():
            fault.finish(HEAL_TIMEOUT_S)
        self._wait_sent(fleet, all_sent)
        try:
            wait_until(lambda: not kafka.unhealthy(observer.partitions()), HEAL_TIMEOUT_S, "", every_s=0.2)
        except WaitTimeout:
            missing = "; ".join(kafka.unhealthy(observer.partitions()))
            raise ClusterError(
                f"the cluster did not heal within {HEAL_TIMEOUT_S:g} s: {missing}; look at {self._run.logs}"
            ) from None

    def _wait_sent(self, fleet: Fleet, all_sent: bool) -> None:
        """Wait until producers that were started again have sent what is left for them. Those of a load that was given
        up are ended: no reader would ever be through with what they send on."""
        (fleet.end_outlasting if all_sent else fleet.end_producers)()
        try:
            wait_until(fleet.producers_done, HEAL_TIMEOUT_S, "")
        except WaitTimeout:
            doing = "was started again has not sent all" if all_sent else "was ordered to stop has not ended"
            self._events.emit("problem", words=f"a producer that {doing} within {HEAL_TIMEOUT_S:g} s")

    def _drain(self, kafka: Kafka, fleet: Fleet, partitions: list[TopicPartition]) -> None:
        """Wait until every reader has processed everything, or the time-out passes: the audit then shows the tail.

        What processors write is there to be read only when they are through themselves, one after another.
        """
        if not self._readers:
            return
        deadline = time.monotonic() + self._limits.drain
        processors = [entry for entry in self._readers if entry.name in {p.name for p in self._scenario.processors}]
        ends = self._ends(kafka, partitions, deadline)
        while processors and self._drained(processors, ends, fleet, deadline):
            if ends == (ends := self._ends(kafka, partitions, deadline)):
                break
        if self._drained(self._readers, ends, fleet, deadline):
            self._report(self._progress(fleet, {}), force=True)

    def _drained(self, readers: Sequence[Consumer], ends: Ends, fleet: Fleet, deadline: float) -> bool:
        """Wait until some readers are at the ends; False, with a note, if that takes too long."""
        while behind := self._behind(readers, ends, fleet):
            self._report(self._progress(fleet, {}))
            self._check_ways()
            if time.monotonic() > deadline:
                some = "; ".join(behind[:5]) + (f" and {len(behind) - 5} more" if len(behind) > 5 else "")
                self._events.emit("note", words=f"not drained after {self._limits.drain:g} s (limits.drain): {some}")
                return False
            time.sleep(TICK_S)
        return True

    def _ends(self, kafka: Kafka, partitions: list[TopicPartition], deadline: float) -> Ends:
        """Where reading ends, by isolation level. An open transaction is waited for: its records are nobody's yet."""
        asked = partial(_all_ends, kafka, partitions)
        ends = wait_until(asked, HEAL_TIMEOUT_S, "the end offsets of some partitions are not answered")
        if not self._scenario.transactional:
            return {"read_committed": ends, "read_uncommitted": ends}
        while {name: stable for name, (_, stable) in kafka.stable_offsets(partitions).items()} != ends:
            if time.monotonic() > deadline:
                self._events.emit("note", words=f"a transaction is still open after {self._limits.drain:g} s")
                break
            time.sleep(TICK_S)
            ends = wait_until(asked, HEAL_TIMEOUT_S, "the end offsets of some partitions are not answered")
        security = self._scenario.cluster.security
        levels: tuple[Isolation, ...] = ("read_committed", "read_uncommitted")
        return {level: readable_ends(self._cluster.bootstrap, security, ends, level) for level in levels}

    def _behind(self, entries: Sequence[Consumer], all_ends: Ends, fleet: Fleet) -> list[str]:
        """What each reader has yet to process, in words."""
        found = []
        for entry in entries:
            ends = all_ends["read_committed" if reads_committed(entry) else "read_uncommitted"]
            topics = entry.topics_among({partition.topic for partition in ends})
            own = {partition: end for partition, end in ends.items() if partition.topic in topics}
            for reader in [entry.name] if entry.mode == "subscribe" else fleet.clients(entry.name):
                positions = fleet.positions(reader)
                for partition, end in own.items():
                    if positions.get(str(partition), 0) < end:
                        found.append(
                            f"{reader} is at {positions.get(str(partition), 'no position')} of {end} in {partition}"
                        )
        return found


def _all_ends(kafka: Kafka, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """The end offset of every partition, or nothing as long as one is not answered."""
    ends = kafka.end_offsets(partitions)
    return ends if len(ends) == len(partitions) else {}


def _fire(step: Step, faults: Mapping[str, FaultRun]) -> None:
    fault = faults[step.fault]
    if step.action == "inject":
        fault.inject()
    else:
        fault.heal()
