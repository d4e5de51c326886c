"""The drive: runs clients, fault timeline and observer until all records are sent, faults healed and readers drained.

    consumers assigned -> producers start -> faults by the timeline -> heal -> drain -> stop -> seal

However the drive ends, every fault is healed and every client is gone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from chaos.apps import connect_states
from chaos.apps.supervisor import Applications
from chaos.clients.streams.traits import ASSIGNOR as STREAMS
from chaos.cluster.api import Cluster
from chaos.drive import beside
from chaos.drive.drain import Behind, Drain, words_of
from chaos.drive.moments import Moments, Recoveries
from chaos.drive.overdue import Overdue
from chaos.effects.before import READY, warnings
from chaos.effects.watch import Watch, count_in_topics
from chaos.errors import ClusterError, UsageError, WaitTimeout
from chaos.faults import FAULTS
from chaos.faults.base import World
from chaos.faults.runner import FaultRun
from chaos.fleet.fleet import Fleet
from chaos.kafka.client import Kafka
from chaos.kafka.metadata import Metadata
from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import Access
from chaos.ledger.seal import seal
from chaos.ledger.stream import TableWriter
from chaos.observer import OFFSETS_TOPIC, Observer, QuorumWatch
from chaos.processes.ports import free_ports
from chaos.relay.control import Proxy
from chaos.run.directory import Run
from chaos.run.events import FAILED_TASK, MOMENTS, OUTSIDE, OVERDUE, REMARK, UNSEEN, EventLog, now_us
from chaos.scenario.effect_rules import producers_with_ids
from chaos.scenario.members import settled_after_s
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved
from chaos.scenario.timeline import Progress, Step, is_due, steps, unreachable
from chaos.setup.clients import assignors_of
from chaos.setup.effects import Effect
from chaos.setup.model import Setup
from chaos.setup.names import PRIMARY
from chaos.setup.triggers import PHASES, Phase
from chaos.wait import wait_until


def wait_formed(scenario: Scenario, observer: Observer, timeout_s: float, during: Callable[[], None]) -> None:
    """Wait until each group has all members that do not join later, and has settled. Raises `WaitTimeout`.

    A group with an assignor that moves partitions in two steps (KIP-429) is Stable between them. Its partitions are
    judged only after it has settled, and a short load would end before that.

    during: called at every check; it may raise to end the wait.
    """
    expected: Counter[str] = Counter()
    later = Counter(client.rpartition("/")[0] for client in scenario.held_back())
    for entry in scenario.readers:
        if entry.mode == "subscribe":
            expected[entry.group] += max(0, entry.admitted_members - later[entry.name])
    for share in scenario.shares:
        expected[share.group] += share.members - later[share.name]
    settled = {group: _settled_after_s(scenario, group) for group in expected}

    def unformed() -> Iterator[str]:
        for group, members in expected.items():
            if members == 0:
                continue
            state = observer.groups.get(group)
            count = len(state.members) if state else 0
            if state is None or state.state != "Stable" or count != members:
                yield f"{group} is {state.state if state else 'unknown'} with {count} of {members} members"
            elif observer.unchanged_s(group) <= settled[group]:
                yield f"the members or partitions of {group} changed within the last {settled[group]:g} s"

    def why() -> str:
        return f"not formed: {'; '.join(unformed())}"

    wait_until(lambda: not any(unformed()), timeout_s, why, during=during)


def _settled_after_s(scenario: Scenario, group: str) -> float:
    """Return after which time a group has settled, in s; 0 if nothing is judged by that."""
    lists = {assignors_of(e.config, e.client) for e in scenario.readers if e.mode == "subscribe" and e.group == group}
    first = next(iter(lists))[0] if len(lists) == 1 else ""
    return settled_after_s(first) if lists and first != STREAMS else 0.0


def placement_problems(setup: Setup, metadata: Metadata, topics: Iterable[str]) -> Iterator[str]:
    """Yield the partitions with two replicas in one rack although another rack has none (KIP-36)."""
    racks = {broker: rack for rack in setup.cluster.racks for broker in setup.brokers_in(rack)}
    names = set(topics)
    for partition, state in metadata.partitions.items():
        found = [racks[broker] for broker in state.replicas if broker in racks]
        if partition.topic in names and len(set(found)) < min(len(state.replicas), len(setup.cluster.racks)):
            yield f"the replicas of {partition} are on brokers {list(state.replicas)}, in racks {', '.join(found)}"


def fetches(setup: Setup, status: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return the number of Fetch requests by broker of each entry with a rack, from the status of the wire proxy."""
    found: dict[str, Counter[str]] = {entry.name: Counter() for entry in setup.readers if entry.rack}
    for port in status["ports"]:
        for client, count in port["fetches"].items():
            if (name := client.rpartition("/")[0]) in found:
                found[name][str(port["broker"])] += count
    return {name: dict(sorted(counts.items())) for name, counts in found.items()}


TICK_S = 0.02
REPORT_EVERY_S = 0.5
HEAL_TIMEOUT_S = 60.0


class Drive:
    """The drive of one run; call `run`."""

    def __init__(
        self, run: Run, resolved: Resolved, cluster: Cluster, events: EventLog, before_load: Callable[[], None]
    ) -> None:
        self._run, self._resolved, self._cluster, self._events = run, resolved, cluster, events
        self._before_load, self._scenario = before_load, resolved.scenario
        self._limits = self._scenario.limits
        self._readers, self._has_effects = self._scenario.readers, bool(self._scenario.effects)
        self._last_report: tuple[float, int, int] = (0.0, 0, 0)
        self._started, self._loaded_us = 0.0, 0
        self._proxy: Proxy | None = None
        self._apps: Applications | None = None
        self._others = beside.Others(run, self._scenario)
        self._watched = resolved

    def run(self) -> None:
        """Drive to the end. The ledger is sealed even after a failure, so that it can be audited."""
        try:
            self._drive()
        except Exception:
            seal(self._run.ledger)
            raise
        with self._events.stage("seal"):
            seal(self._run.ledger)

    def _drive(self) -> None:
        """Drive until all clients have ended."""
        with ExitStack() as stack:
            state = self._cluster.state
            writer = stack.enter_context(TableWriter(self._run.ledger, "faults", "drive"))
            observer = stack.enter_context(self._observer())
            stack.enter_context(self._others)
            stack.enter_context(QuorumWatch(state.controller_addresses, observer.note, state.access))
            if self._scenario.proxied:
                self._proxy = stack.enter_context(Proxy(self._run))
            if self._scenario.captured and self._proxy:
                stack.push(partial(self._end_capture, self._proxy))
            ports = self._ports()
            databases = {a.name: a.postgres.url(ports[a.name]) for a in self._scenario.apps if a.postgres}
            self._watched = self._resolved.with_databases(databases)
            watch = stack.enter_context(self._watch()) if self._has_effects else None
            bootstrap = self._proxy.bootstrap if self._proxy else self._cluster.bootstrap
            others = self._others.endpoints
            fleet = Fleet(self._run, self._resolved, bootstrap, state.client_security, self._front, databases, others)
            stack.enter_context(fleet)
            kafka = self._connect()
            apps = self._apps = self._applications(stack, observer, watch.urls if watch else {}, ports)
            faults = self._faults(stack, writer, fleet, observer, apps)
            with self._events.stage("clients"):
                fleet.start_consumers()
                fleet.wait_assigned(self._limits.clients)
                wait_formed(self._scenario, observer, self._limits.clients, lambda: self._check_infrastructure(fleet))
                if self._scenario.apps:
                    with self._events.stage("apps"):
                        apps.start()
                    self._ask_databases()
                self._before_load()
                self._started, self._loaded_us = time.monotonic(), now_us()
                fleet.start_producers()
            with self._events.stage("load"):
                self._load(kafka, fleet, faults, observer)
            with self._events.stage("heal"):
                self._heal(kafka, fleet, faults, observer)
            with self._events.stage("drain"):
                drain = Drain(
                    self._scenario, self._cluster, kafka, fleet, self._events, self._during_drain, apps.group_of
                )
                if drain.run(observer.partitions()):
                    self._report(self._progress(fleet, {}), force=True)
            if watch:
                with self._events.stage("settle"):
                    ends = partial(_records, kafka, observer, self._others)
                    inputs = partial(self._inputs, fleet)
                    during = partial(self._during_settle, fleet)
                    watch.settle(ends, inputs, self._limits.drain, during, apps.starting, self._effects_in_lists)
                    watch.keep()
            with self._events.stage("stop"):
                self._note_fetches(observer)
                for stranger in apps.strangers():
                    self._events.emit(UNSEEN, words=stranger)
                    self._events.problem(stranger)
                for words in apps.outside():
                    self._events.emit(OUTSIDE, words=words)
                self._remark_connectors()
                for instance in apps.stop_all():
                    self._events.note(
                        f"{instance} did not end within its grace when it was asked to, and was killed: "
                        f"{apps.instance(instance).app.deaf}"
                    )
                for client in fleet.stop_all(self._limits.clients):
                    self._events.problem(f"{client} did not stop when ordered to and was killed")
                for died in fleet.deaths():
                    self._events.problem(died.describe_exit())

    @property
    def _front(self) -> Callable[[str], str] | None:
        """What returns the addresses for a client, if the scenario asks for a capture of clients."""
        return self._proxy.front if self._proxy and self._scenario.capture else None

    def _address(self, instance: str) -> str:
        """Return the bootstrap servers of an instance of an application: its front."""
        assert self._proxy is not None  # a scenario with applications has one
        reach = next(app.reach for app in self._scenario.apps if app.name == instance.partition("/")[0])
        return self._proxy.front(instance, reach.listen, reach.host)

    def _end_capture(self, proxy: Proxy, error: type[BaseException] | None = None, *_: object) -> None:
        """Seal the capture, when no client is left. error: what broke the drive off, which is reason enough then."""
        try:
            failure = proxy.seal()["failure"]
        except ClusterError as e:
            failure = str(e)
        if failure and error is None:  # only the capture shows whether applications got records, and by which way
            say = self._events.problem if self._scenario.apps else self._events.note
            say(f"the capture of the wire is not complete: {failure}")

    def _ask_databases(self) -> None:
        """Note what the databases of effects lack when the applications are ready: each has made its tables then."""
        try:
            lines = warnings(self._watched.scenario.effects, self._scenario.hides_payloads, READY)
        except UsageError as e:
            lines = [str(e)]
        for line in lines:
            self._events.note(line)

    def _remark_connectors(self) -> None:
        """Record which connectors and tasks failed, and why, as workers of Kafka Connect said it to each other."""
        endpoints = self._others.endpoints | {PRIMARY: self._cluster.state.endpoint}
        for app in self._scenario.apps:
            if app.connect is None or not (topic := app.connect.topic_of_states(app.name)) or "{" in topic:
                continue
            at = endpoints[app.cluster]
            seen = [*connect_states.states_of(connect_states.read(at.bootstrap, at.platform, topic))]
            if connect_states.failed_for_good(seen):
                self._events.emit(FAILED_TASK, app=app.name)
            for words in connect_states.sentences(app.name, seen, self._loaded_us):
                hidden = self._scenario.hides_payloads  # an exception may quote a record
                self._events.emit(REMARK, words=f"{words.partition(': ')[0].rstrip('.')}." if hidden else words)

    def _inputs(self, fleet: Fleet, topic: str) -> int:
        """Return the acknowledged records or rows of the producers with ids that write to a topic, and to no other."""
        return sum(fleet.acked(p.name) for p in producers_with_ids(self._scenario) if p.inputs == [topic])

    def _connect(self) -> Kafka:
        # an attached cluster may have thousands of topics of other users
        topics = None
        if self._cluster.state.attached:
            topics = [*(t.name for t in self._scenario.topics), *sorted(self._scenario.their_topics), OFFSETS_TOPIC]
        return Kafka(self._cluster.bootstrap, access=self._cluster.state.access(), topics=topics)

    def _observer(self) -> Observer:
        topics = self._scenario.at(PRIMARY).topics
        partitions = [TopicPartition(t.name, p) for t in topics if not t.later for p in range(t.partitions)]
        groups = sorted({*self._scenario.groups, *self._scenario.app_groups})
        return Observer(self._run, self._connect, partitions, groups, [t.name for t in topics if t.later])

    def _watch(self) -> Watch:
        """Return the watch over effects, which stores what is in databases of the run."""
        kept = [effect.name for effect in self._scenario.effects if effect.app is not None]
        return Watch(self._run, self._watched, self._events, kept)

    def _ports(self) -> dict[str, int]:
        """Return a free port for the first instance of each application, which others may need to know."""
        names = [app.name for app in self._scenario.apps]
        return dict(zip(names, free_ports(len(names)), strict=True))

    def _applications(
        self, stack: ExitStack, observer: Observer, receivers: Mapping[str, str], ports: Mapping[str, int]
    ) -> Applications:
        """Return the applications; each instance has a front of the proxy. Leaving `stack` ends them."""
        access, kafka = Access.of(self._cluster.state.client_security), self._connect()
        superuser = Access.of(self._cluster.state.platform_security)
        stack.callback(kafka.close)
        used = self._proxy.used if self._proxy else None
        apps = Applications(
            self._run, self._resolved, self._address, access, self._events, kafka, observer.partitions, receivers,
            used=used, brokers=lambda: [*map(self._cluster.address, self._cluster.broker_ids)],
            beside=self._others.endpoints, ports=ports, superuser=superuser,
            begins=self._proxy.begin if self._proxy else lambda _: None,
        )  # fmt: skip
        return stack.enter_context(apps)

    def _faults(
        self, stack: ExitStack, writer: TableWriter, fleet: Fleet, observer: Observer, apps: Applications
    ) -> dict[str, FaultRun]:
        """Return the faults by name. Leaving `stack` heals them."""
        access, rng = self._cluster.state.access(), self._resolved.rng("faults")
        faults = {}
        for spec in self._scenario.faults:
            connection = self._connect()  # faults run at the same time, so each has a connection
            world = World(
                self._scenario, self._cluster, fleet, observer, connection, rng, access, self._proxy, self._run, apps
            )
            run = FaultRun(FAULTS[spec.kind](spec), world, writer, self._events, self._limits.proof)
            if spec.elsewhere:
                connection.close()
                run.world, run.look = self._others.world(world, spec.cluster), partial(beside.looked, spec)
            stack.callback(run.world.kafka.close)
            faults[spec.name] = run
        for fault in faults.values():
            stack.callback(fault.finish, HEAL_TIMEOUT_S)
        return faults

    def _load(self, kafka: Kafka, fleet: Fleet, faults: Mapping[str, FaultRun], observer: Observer) -> None:
        """Take the steps of the timeline as they are due, until all records are sent and no fault is active."""
        specs = list(self._scenario.faults)
        moments, recoveries = Moments(self._proxy, specs, self._apps), Recoveries(self._proxy, self._apps, specs)
        overdue = Overdue(self._scenario, self._proxy, self._apps, kafka, observer.partitions)
        with moments.armed():
            overdue.begin()
            self._take_steps(fleet, faults, observer, moments, recoveries, overdue)
        if self._scenario.apps and self._proxy:
            self._events.emit(MOMENTS, by_instance=moments.counted())

    def _take_steps(
        self,
        fleet: Fleet,
        faults: Mapping[str, FaultRun],
        observer: Observer,
        moments: Moments,
        recoveries: Recoveries,
        overdue: Overdue,
    ) -> None:
        waiting, gone = steps(self._scenario.faults), set[tuple[str, Phase]]()
        total, ended_early = len(waiting), False
        deadline = self._started + self._limits.drive
        while True:
            came = moments.came()
            progress = replace(self._progress(fleet, faults), moments=came)
            progress = replace(progress, working=recoveries.working(progress))
            moments.release(faults)
            for step in [s for s in waiting if is_due(s, progress)]:
                if len(waiting) == total:
                    self._note_fetches(observer)
                waiting.remove(step)
                fault = faults[step.fault]
                fault.world = replace(fault.world, moment=came.get(step.fault))
                if step.fault not in came:
                    moments.pass_by(step.fault)
                _fire(step, faults)
            late = overdue.look(waiting, faults, fleet.minimum_sent(), fleet.producers_done())
            for step, why in [*late, *recoveries.given_up(waiting, self._limits.works)]:
                waiting.remove(step)
                gone |= {(step.fault, phase) for phase in PHASES}
                self._events.emit(OVERDUE, fault=step.fault, words=why)
                self._events.problem(why)
            for step in unreachable(waiting, gone.union(*(fault.lost for fault in faults.values()))):
                waiting.remove(step)
                self._events.problem(f"{step.describe()}: left out, because its trigger can no longer occur")
            self._report(progress)
            if overdue.is_behind and not ended_early:
                ended_early = True
                self._events.note(overdue.behind())
            is_over = not waiting and not any(f.busy for f in faults.values())
            if is_over or ended_early:
                fleet.end_outlasting()
            if is_over and fleet.producers_done():
                return
            if observer.broken:
                raise observer.broken
            self._check_infrastructure(fleet)
            if time.monotonic() > deadline:
                self._give_up(waiting, fleet, recoveries)
                return
            moments.watch(TICK_S)

    def _check_infrastructure(self, fleet: Fleet) -> None:
        """Raise an error if the proxy, a process of the cluster driver, or something of the fleet has ended.

        A run with a client that died proves nothing, so each wait ends at once with the client's own error.
        """
        if self._proxy:
            self._proxy.check()
        self._cluster.check()
        self._others.check()
        fleet.check()
        if self._apps:
            self._apps.check()

    def _progress(self, fleet: Fleet, faults: Mapping[str, FaultRun]) -> Progress:
        phases = {
            (name, phase): at - self._started
            for name, fault in faults.items()
            for phase, at in fault.phases.copy().items()
            if phase in ("injected", "proven", "healed")
        }
        acked = {p.name: fleet.acked(p.name) for p in self._scenario.producers}
        delivered = {c.name: fleet.delivered(c.name) for c in (*self._readers, *self._scenario.shares)}
        elapsed_s = time.monotonic() - self._started
        return Progress(elapsed_s, acked, delivered, self._scenario.groups, phases)  # type: ignore[arg-type]

    def _report(self, progress: Progress, force: bool = False, waits: str = "") -> None:
        """Record a progress event, with rates since the last one. waits: for what the run waits."""
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
            delivered=_by_reader(self._scenario, progress),
            acked_per_s=round((all_acked - acked) / seconds),
            delivered_per_s=round((all_delivered - delivered) / seconds),
            **({"waits": waits} if waits else {}),
        )
        self._last_report = (now, all_acked, all_delivered)

    def _give_up(self, waiting: list[Step], fleet: Fleet, recoveries: Recoveries) -> None:
        missing = [s.describe() for s in waiting]
        if not fleet.producers_done():
            missing.append(f"the producers ({fleet.total_acked():,} records acknowledged)")
        limit = f"after {self._limits.drive:g} s (limits.drive)"
        self._events.problem(f"{limit} still waiting for: {'; '.join(missing) or 'a heal'}")
        for step in waiting:
            if words := recoveries.overdue(step.fault, "limits.drive"):
                self._events.emit(OVERDUE, fault=step.fault, words=words)
                self._events.problem(words)

    def _heal(self, kafka: Kafka, fleet: Fleet, faults: Mapping[str, FaultRun], observer: Observer) -> None:
        """Heal all faults, then wait for leaders and full ISRs, because the log is read from a healed cluster.

        A heal may restart a producer, which then sends its remaining records before the drain.
        """
        all_sent = fleet.producers_done()  # if not, `_give_up` recorded a problem
        for fault in faults.values():
            fault.finish(HEAL_TIMEOUT_S)
        self._wait_sent(fleet, all_sent)
        try:
            unhealthy = partial(self._unhealthy, kafka, observer)
            wait_until(lambda: not unhealthy(), HEAL_TIMEOUT_S, "", every_s=0.2, during=fleet.check)
        except WaitTimeout:
            missing = "; ".join(self._unhealthy(kafka, observer))
            raise ClusterError(
                f"the cluster did not heal within {HEAL_TIMEOUT_S:g} s: {missing}; see {self._run.logs}"
            ) from None

    def _unhealthy(self, kafka: Kafka, observer: Observer) -> list[str]:
        """Describe what is not healthy: a topic that was deleted and is not there again, then single partitions."""
        partitions = observer.partitions()
        expected = self._scenario.at(PRIMARY).deleted_topics - self._scenario.absent_topics
        missing = sorted(expected - {partition.topic for partition in partitions})
        return [f"{topic} does not exist" for topic in missing] + kafka.unhealthy(partitions) + self._others.unhealthy()

    def _wait_sent(self, fleet: Fleet, all_sent: bool) -> None:
        """Wait until restarted producers have sent their remaining records.

        If the load was given up (`all_sent` is false), stop them instead: readers could not drain while they send.
        """
        (fleet.end_outlasting if all_sent else fleet.end_producers)()
        try:
            wait_until(fleet.producers_done, HEAL_TIMEOUT_S, "", during=fleet.check)
        except WaitTimeout:
            failure = "was restarted has not sent all records" if all_sent else "was ordered to stop has not ended"
            self._events.problem(f"a producer that {failure} within {HEAL_TIMEOUT_S:g} s")

    def _note_fetches(self, observer: Observer) -> None:
        """Record which brokers the consumers with a rack read from: before the first fault, and at the end."""
        if self._proxy:
            for entry, counts in fetches(self._scenario, self._proxy.status()).items():
                observer.note(f"client:{entry}", "fetches", counts)

    def _effects_in_lists(self, effect: Effect) -> int:
        here = self._cluster.state.endpoint
        return count_in_topics(effect, self._others.endpoints.get(effect.cluster, here))

    def _during_settle(self, fleet: Fleet, waits: str) -> None:
        self._report(self._progress(fleet, {}), waits=waits)
        self._check_infrastructure(fleet)

    def _during_drain(self, fleet: Fleet, behind: Sequence[Behind]) -> None:
        self._report(self._progress(fleet, {}), waits=words_of(behind, 1))
        self._check_infrastructure(fleet)


def _by_reader(scenario: Scenario, progress: Progress) -> dict[str, int]:
    """Return the processed records by entry, of a group of several entries together."""
    entries = [*scenario.readers, *scenario.shares]
    members = Counter(entry.group for entry in entries if entry.mode != "assign")
    counts: Counter[str] = Counter()
    for entry in entries:
        together = entry.mode != "assign" and members[entry.group] > 1
        counts[f"group {entry.group}" if together else entry.name] += progress.delivered[entry.name]
    return dict(counts)


def _records(kafka: Kafka, observer: Observer, others: beside.Others, effect: Effect) -> tuple[int, bool]:
    """Return the sum of the end offsets of its topics, as far as answered, and whether a transaction is open in one."""
    if effect.cluster != PRIMARY:
        return others.records(effect.cluster, effect.topics)
    return beside.total(kafka, observer.partitions(effect.topics))


def _fire(step: Step, faults: Mapping[str, FaultRun]) -> None:
    fault = faults[step.fault]
    if step.action == "inject":
        fault.inject()
    else:
        fault.heal()
