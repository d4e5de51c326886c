"""The model of a scenario: what to deploy, which clients run, which faults occur when, and what must hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from chaos.anomalies import ANOMALIES
from chaos.faults import AnySpec
from chaos.faults.apps import AppEndSpec
from chaos.faults.base import Experiment
from chaos.faults.clocks import ClockFaultSpec
from chaos.faults.consumers import ConsumerJoinSpec, ConsumerPauseSpec
from chaos.faults.producers import ProducerJoinSpec
from chaos.faults.raw import WireProduceSpec
from chaos.faults.topics import AddPartitionsSpec, DeleteTopicSpec, RecreateTopicSpec
from chaos.faults.upgrades import ReleaseChangeSpec
from chaos.faults.wire import FrameFaultSpec, WireFaultSpec
from chaos.kafka.settings import Config
from chaos.relay.roles import Payloads
from chaos.scenario import retention, rules
from chaos.scenario.cluster_rules import clock_problems
from chaos.scenario.expect import AFFECTED, FIXED, Bug, Expect, Expected
from chaos.scenario.members import slow_removals
from chaos.scenario.mistakes import joined
from chaos.setup.model import Limits, Topic
from chaos.setup.names import PRIMARY, Spelled, nearest
from chaos.setup.triggers import Strict
from chaos.values.arrivals import per_second


def _check_anomaly(name: str) -> str:
    kind, _, split = name.partition(".")
    if kind not in ANOMALIES or split not in (ANOMALIES[kind].splits or ("",)):
        lines = [f"{k}.{s}" if s else k for k, a in ANOMALIES.items() for s in a.splits or ("",)]
        raise ValueError(f"there is no anomaly {name!r}{nearest(name, lines)}")
    return name


AnomalyName = Annotated[str, AfterValidator(_check_anomaly)]
"""An anomaly, or a part of it that is counted separately, such as `duplicate_delivery.legal`."""


AFTER_SESSION_S = 15.0
"""Seconds after the end of a session in which a group shows that its member is gone."""
AFTER_SENDING_S = 120.0
"""Seconds of a drive beyond those that a producer needs at its rate: for the starts of clients, outages and heals."""
VariantName = Annotated[
    str,
    Spelled(r"^[A-Za-z0-9][A-Za-z0-9_-]*$", "letters, digits, _ and -, a letter or digit first"),
    Field(max_length=40),
]


Differences = dict[AnomalyName, Annotated[str, Field(min_length=1)]]


def _raised(limits: Limits, **seconds: float) -> Limits:
    """Return the limits with at least these values, which do not count as given by the scenario."""
    found = limits.model_copy()
    found.__dict__.update({name: max(getattr(limits, name), value) for name, value in seconds.items()})
    return found


class Variant(Strict):
    """One side of an A/B scenario: the values it changes, and its contract."""

    set: dict[str, Any] = Field({}, description="values by path, as for --set: producers.shop.config.acks: 1")
    expect: Expected | None = Field(None, description="the contract of this side; the scenario's if left out")
    promised_differs: Differences = Field({}, description="as in the scenario, for this side; added to those")


class Scenario(Experiment):
    """A whole scenario. `resolved.json` and `python -m chaos show` contain every default."""

    faults: list[AnySpec] = []
    expect: Expected = Field(
        Expect(promised=True),
        description="the contract; `promised`, or nothing, derives it from the settings and the faults",
    )
    promised_differs: Differences = Field(
        {}, description="by anomaly: why `expect` differs from what the settings promise"
    )
    variants: dict[VariantName, Variant] = Field(
        {}, description="A/B: each is a run with the same seed and timeline; the report compares them"
    )
    bug: Bug | None = Field(None, description="the published bug that the variant `affected` shows")

    @model_validator(mode="after")
    def _extend_limits(self) -> Self:
        """Drive for longer than the slowest producer sends, and wait longer for proofs than silenced members stay.

        A new coordinator begins a session again, so a fault of brokers makes it up to twice as long.
        """
        if "drive" not in self.limits.model_fields_set:
            sending_s = max((p.records / rate for p in self.producers if (rate := per_second(p.rate))), default=0.0)
            self.__dict__["limits"] = _raised(self.limits, drive=sending_s + AFTER_SENDING_S)
        if "proof" not in self.limits.model_fields_set:
            self.__dict__["limits"] = self._limits_beyond_sessions()
        return self

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        changes = {name: variant.set for name, variant in self.variants.items()}
        problems = [*rules.problems(self, self.faults, self.expect, changes), *self._bug_problems()]
        run_s = self.limits.drive + self.limits.drain + self.limits.clients
        problems += clock_problems(self, self.at(PRIMARY).faults, self.expect, run_s)
        problems += [*self._promise_problems(), *self._proof_problems()]
        if problems:
            raise joined(problems)
        return self

    def _limits_beyond_sessions(self) -> Limits:
        """Return the limits, with longer ones for proofs and for the drive if a session needs them."""
        longest = max((session_s for _, session_s, _ in slow_removals(self, self.faults)), default=0.0)
        longest *= 2 if any(fault.hits_brokers for fault in self.faults) else 1
        if self.limits.proof >= longest + AFTER_SESSION_S:
            return self.limits
        limits = _raised(self.limits, proof=longest + AFTER_SESSION_S)
        return limits if "drive" in limits.model_fields_set else _raised(limits, drive=2 * longest + 120.0)

    def with_settings(self, config: Config, topics: list[Topic]) -> Scenario:
        """Return the scenario with the settings that an existing cluster and its topics have.

        Proofs get the time that the sessions of the cluster need.
        """
        cluster = self.cluster.model_copy(update={"config": config, "asked": True})
        found = self.model_copy(update={"cluster": cluster, "topics": topics})
        return found.model_copy(update={"limits": found._limits_beyond_sessions()})

    def _proof_problems(self) -> Iterator[str]:
        """Yield the faults that cannot have a proof within a limit that the scenario gives."""
        for name, session_s, setting in slow_removals(self, self.faults):
            fault = next(fault for fault in self.faults if fault.name == name)
            heal_s = fault.heal.after if fault.heal else None
            if isinstance(fault, ConsumerPauseSpec) and heal_s is not None and heal_s <= session_s:
                yield (
                    f"faults[{self.faults.index(fault)}].heal: {name} ends after {heal_s:g} s, before the session "
                    f"time-out of {session_s:g} s ({setting}), so no broker would notice it; heal it later, or shorten "
                    "the session"
                )
            if "proof" in self.limits.model_fields_set and session_s >= self.limits.proof:
                yield (
                    f"limits.proof: {self.limits.proof:g} s are too short for {name}: brokers remove its member after "
                    f"the session time-out of {session_s:g} s ({setting}); give {session_s + AFTER_SESSION_S:g}s, "
                    "leave it out, or shorten the session"
                )

    def _promise_problems(self) -> Iterator[str]:
        """Yield the faults under which no rule can derive the contract."""
        for i, fault in enumerate(self.faults):
            if self.expect.promised and fault.unpromised:
                yield (
                    f"faults[{i}]: {fault.unpromised}, and no rule says what settings promise then; "
                    "give expect with bounds"
                )

    def _bug_problems(self) -> Iterator[str]:
        """Check that a bug has its variants. One side of it, as a run has it, has none."""
        needed = {AFFECTED, FIXED} if self.bug and self.bug.fixed else {AFFECTED}
        if self.bug and self.variants and set(self.variants) != needed:
            yield f"bug: needs the variants {' and '.join(sorted(needed))}, and no other"

    @property
    def raw_writes(self) -> list[WireProduceSpec]:
        """The faults that write records."""
        return [fault for fault in self.faults if isinstance(fault, WireProduceSpec)]

    @property
    def transactional(self) -> bool:
        """Whether any client or fault writes in transactions."""
        return super().transactional or any(fault.in_transaction for fault in self.raw_writes)

    @property
    def topics_with_markers(self) -> set[str]:
        """The topics that clients or faults write to in transactions."""
        return self.written_in_transactions() | {fault.topic for fault in self.raw_writes if fault.in_transaction}

    @property
    def with_unseen_transactions(self) -> frozenset[str]:
        """The topics that an application may write to in a transaction that no ledger has."""
        if self.judged_on_wire:
            return frozenset()
        return self.app_topics | {topic for effect in self.effects for topic in effect.own_topics}

    @property
    def compacted(self) -> frozenset[str]:
        """The topics with `compact` in their cleanup.policy, from the start or by a fault."""
        return retention.compacted_topics(self, self.faults)

    @property
    def keyed(self) -> frozenset[str]:
        """The topics with keys that matter: compacted topics, and topics that processors count."""
        counting = [p for p in self.processors if p.state == "count"]
        return self.compacted.union(*(p.topics for p in counting), (p.to for p in counting))

    def retained(self, run_ms: int) -> frozenset[str]:
        """Return the topics from which retention may delete records in a run of that many ms."""
        return retention.retained_topics(self, self.faults, run_ms)

    def kept(self, topic: str) -> retention.Kept | None:
        """Return how long a topic keeps a record at most; None if time retention deletes nothing, or if unknown."""
        return retention.kept(self, self.faults, topic)

    def superseded(self, topic: str) -> retention.Kept | None:
        """Return how long a compacted topic keeps a superseded record at most; None if nothing is known to bound it."""
        return retention.superseded(self, self.faults, topic)

    def protected_us(self, topic: str, run_ms: int) -> int:
        """Return for how long in us compaction leaves a record of a topic; 0 if it is not known."""
        return 1000 * retention.protected_ms(self, self.faults, topic, run_ms)

    def delete_retention_us(self, topic: str) -> int:
        """Return the shortest time in us for which a compacted topic holds a tombstone."""
        return 1000 * retention.delete_retention_ms(self, self.faults, topic)

    @property
    def proxied(self) -> bool:
        """Whether clients reach the brokers only through the wire proxy; so do applications, at fronts."""
        racks = any(entry.rack for entry in self.readers)  # the proxy counts the brokers that they read from
        forced = self.cluster.proxy or self.capture is not None or bool(self.apps)
        return forced or racks or any(isinstance(fault, WireFaultSpec) for fault in self.faults)

    @property
    def hides_payloads(self) -> bool:
        """Whether nothing of the run may have a part of a payload."""
        return self.capture is not None and self.capture.payloads == "none"

    @property
    def captured(self) -> Payloads | None:
        """What the capture keeps of records; None: no capture. What applications say is captured without asking."""
        if self.capture is not None:
            return self.capture.payloads
        return "none" if self.apps else None

    @property
    def reads_sessions(self) -> bool:
        """Whether the proxy has to know the partitions of Fetch requests, which name only what changes."""
        sets = [frames for f in self.faults if isinstance(f, FrameFaultSpec) for frames in f.sets]
        return any(frames.api == "Fetch" and frames.names != (None, None) for frames in sets)

    @property
    def switched(self) -> bool:
        """Whether brokers of the process driver reach each other through a switch, which a fault needs to cut links."""
        return self.cluster.driver == "process" and any("isolate" in fault.needs for fault in self.faults)

    @property
    def skewed(self) -> bool:
        """Whether a fault changes clocks of nodes, which they need to be started for."""
        return any(isinstance(fault, ClockFaultSpec) and not fault.client for fault in self.faults)

    @property
    def skewed_clients(self) -> frozenset[str]:
        """The client entries with a fault on a client's clock; all their processes are started for it."""
        return frozenset(f.client for f in self.faults if isinstance(f, ClockFaultSpec) and f.client)

    @property
    def slowed(self) -> bool:
        """Whether a fault slows disks of nodes, which they need to be started for."""
        return any("slow_disk" in fault.needs for fault in self.faults)

    def partitions_at_end(self) -> dict[str, int]:
        """Return the number of partitions that each topic has after all faults, at least.

        What the audit judges has no topics that only applications write, but has the faults of them.
        """
        partitions = {t.name: t.partitions for t in self.topics}
        for fault in self.faults:
            topic = str(fault.target.topic)
            if topic not in partitions:
                continue
            if isinstance(fault, AddPartitionsSpec):
                partitions[topic] = max(partitions[topic], fault.to)
            if isinstance(fault, RecreateTopicSpec) and fault.partitions:
                partitions[topic] = fault.partitions
        return {topic: 0 if topic in self.absent_topics else count for topic, count in partitions.items()}

    @property
    def later_releases(self) -> list[str]:
        """The releases of brokers that faults change to, each once."""
        return list(dict.fromkeys(f.to for f in self.faults if isinstance(f, ReleaseChangeSpec)))

    @property
    def deleted_topics(self) -> frozenset[str]:
        """The topics that a fault deletes, whether they are created again or not."""
        return frozenset(str(f.target.topic) for f in self.faults if isinstance(f, DeleteTopicSpec | RecreateTopicSpec))

    @property
    def absent_topics(self) -> frozenset[str]:
        """The topics that may not exist at the end: a fault deletes them, and only a client may create them again."""
        deleted = (f for f in self.faults if isinstance(f, DeleteTopicSpec) and not f.create_again)
        return frozenset(str(f.target.topic) for f in deleted)

    @property
    def left_apps(self) -> frozenset[str]:
        """The applications with faults that end all their instances for good."""
        ended = Counter(f.app_name for f in self.faults if isinstance(f, AppEndSpec) and f.for_good)
        return frozenset(app.name for app in self.apps if ended[app.name] >= app.instances > 0)

    def held_back(self) -> set[str]:
        """Return the clients, such as billing/3, that a fault consumer.join or producer.join starts later."""
        return {
            str(fault.target.member) for fault in self.faults if isinstance(fault, ConsumerJoinSpec | ProducerJoinSpec)
        }
