"""Changes of the settings of topics and brokers, by an administrator."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from pydantic import Field

from chaos.errors import FaultError, WaitTimeout
from chaos.faults import targets
from chaos.faults.base import BROKER_TARGETS, BROKERS, BY_ADMINISTRATOR, TOPIC, Fault, FaultSpec, World
from chaos.faults.targets import BrokerFault
from chaos.kafka.settings import Config, Scalar, as_text, topic_defaults
from chaos.settings import dynamic_problem
from chaos.setup.model import Setup, Topic
from chaos.setup.timestamps import appended, limits_s
from chaos.wait import wait_until

HIDDEN = ""
"""The rate in the answer of a broker: Kafka gives no rate a type, so brokers hide the value as they hide passwords."""

BACK_S = 20.0
"""Time in which the heal of another fault may start a broker to put back settings."""


class TopicConfigSpec(FaultSpec):
    """Change settings of a topic; healed by their former values."""

    effects = frozenset()
    left_out = BY_ADMINISTRATOR
    example = "settings.max.message.bytes=1000"
    targets = TOPIC
    kind: Literal["topic.config"]
    settings: dict[str, Scalar] = Field(min_length=1, description="by their Kafka names")

    @property
    def changed(self) -> frozenset[tuple[str, str]]:
        """The settings, of the topic."""
        return frozenset((f"topic {self.target.topic}", name) for name in self.settings)


class TopicConfig(Fault[TopicConfigSpec], spec=TopicConfigSpec):
    """Changed settings of a topic. Proof: a read returns the new values."""

    _settings: dict[str, str]
    _before: dict[str, str | None]
    """The former values; None for a setting that had its default."""

    def _inject(self, world: World) -> str:
        from chaos.kafka import admin

        self._settings = {key: as_text(value) for key, value in self.spec.settings.items()}
        before = admin.settings(world.kafka, self.resolved, self._settings)
        if missing := self._settings.keys() - before.keys():
            raise FaultError(f"{self.resolved} has no settings {', '.join(sorted(missing))}")
        self._before = {key: value if is_set else None for key, (value, is_set) in before.items()}
        self.begun = True
        admin.set_settings(world.kafka, self.resolved, self._settings)
        settings, topic = self._settings.items(), self.resolved
        return "; ".join(f"{key} of {topic} from {before[key][0]} to {value}" for key, value in settings)

    def _effect(self, world: World) -> str | None:
        from chaos.kafka import admin

        now = admin.settings(world.kafka, self.resolved, self._settings)
        if any(now.get(key, ("", False))[0] != value for key, value in self._settings.items()):
            return None
        return f"{self.resolved} has {', '.join(f'{key}={value}' for key, value in self._settings.items())}"

    def _undo(self, world: World) -> str:
        from chaos.kafka import admin

        admin.set_settings(world.kafka, self.resolved, self._before)
        return f"{self.resolved} has its former settings"


def wait_up(broker: int, world: World) -> None:
    """Wait until a broker that is down is back, as only the broker takes its own settings; else start it."""
    with contextlib.suppress(WaitTimeout):
        wait_until(lambda: world.cluster.broker_alive(broker), BACK_S, f"broker {broker} is down")
    targets.start_down([broker], world)


class BrokerConfigSpec(FaultSpec):
    """Change settings of brokers while they run (KIP-226); healed by their former values, or by none if none was set.

    A broker keeps such a setting over a restart. One that is down at the heal is started, unless another fault does so
    in time: only the broker itself takes the former value.
    """

    effects = frozenset({"outage", "connections"})
    left_out = BY_ADMINISTRATOR
    example = "settings.max.connections=100"
    targets = BROKER_TARGETS
    kind: Literal["broker.config"]
    settings: dict[str, Scalar] = Field(min_length=1, description="by their Kafka names, such as max.connections: 20")

    @property
    def changed(self) -> frozenset[tuple[str, str]]:
        """The settings, of one broker or of some."""
        owner = BROKERS if self.target.broker is None else f"broker {self.target.broker}"
        return frozenset((owner, name) for name in self.settings)

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that brokers of the release take each setting while they run."""
        release = None if setup.attached else setup.cluster.kafka
        for name in self.settings:
            if problem := dynamic_problem(name, release):
                yield f"{where}.settings.{name}: {problem}"


class BrokerConfig(BrokerFault[BrokerConfigSpec], spec=BrokerConfigSpec):
    """Settings of brokers changed while they run. Proof: each broker itself reports the new values as its own."""

    _settings: dict[str, str]
    _before: dict[int, dict[str, str | None]]
    """The former values by broker; None for a setting that was not set for the broker alone."""

    def _inject(self, world: World) -> str:
        from chaos.kafka import admin

        self._settings = {key: as_text(value) for key, value in self.spec.settings.items()}
        self._before = {}
        for broker in self.brokers:
            found = admin.dynamic_of_broker(world.kafka, broker, self._settings)
            if found is None:
                raise FaultError(f"broker {broker} does not answer for its settings, so none was changed")
            self._before[broker] = {key: found.get(key) for key in self._settings}
        self.begun = True
        for broker in self.brokers:
            admin.set_of_broker(world.kafka, broker, self._settings)
        return f"set {self._text(self._settings)} at {self.resolved}"

    def _effect(self, world: World) -> str | None:
        if not all(self._reports(broker, self._settings, world) for broker in self.brokers):
            return None
        return f"{self.resolved} {'reports' if len(self.brokers) == 1 else 'report'} {self._text(self._settings)}"

    def _undo(self, world: World) -> str:
        from chaos.kafka import admin

        for broker, former in self._before.items():
            wait_up(broker, world)
            admin.set_of_broker(world.kafka, broker, former)
        for broker, former in self._before.items():
            why = f"broker {broker} does not report its former settings"
            targets.answer(partial(self._reports, broker, former, world), why)
        return f"{self.resolved} has its former settings"

    def _reports(self, broker: int, values: Mapping[str, str | None], world: World) -> bool:
        from chaos.kafka import admin

        found = admin.dynamic_of_broker(world.kafka, broker, values)
        return found is not None and all(_same(found.get(key), value) for key, value in values.items())

    @staticmethod
    def _text(settings: Mapping[str, str]) -> str:
        return ", ".join(f"{key}={value}" for key, value in settings.items())


def _same(found: str | None, value: str | None) -> bool:
    """Return whether a reported value is the value that was set; a broker may write a number in another form."""
    try:
        return found == value or (found is not None and value is not None and float(found) == float(value))
    except ValueError:
        return False


def overlap_problems(faults: Sequence[FaultSpec]) -> Iterator[str]:
    """Yield two faults that may change one setting at a time: the heal of one would bring back the other's value."""
    for first, second in itertools.combinations(faults, 2):
        shared = {
            name for one, name in first.changed for other, own in second.changed if name == own and _meet(one, other)
        }
        if shared and not _waits(first, second, faults) and not _waits(second, first, faults):
            yield (
                f"faults: {first.name} and {second.name} both change {min(shared)}, perhaps at one time, and then the "
                f"heal of one brings back the value of the other; let one wait: when: {{after: {first.name}.healed}}"
            )


def _meet(one: str, other: str) -> bool:
    """Return whether two owners of settings may be the same."""
    brokers = one.startswith("broker") and other.startswith("broker")
    return one == other or (brokers and BROKERS in (one, other))


def _waits(fault: FaultSpec, other: FaultSpec, faults: Sequence[FaultSpec]) -> bool:
    """Return whether a fault begins only after the heal of another one, directly or through others."""
    by_name, seen = {f.name: f for f in faults}, set[str]()
    current: FaultSpec | None = fault
    while current is not None and current.name not in seen and (after := current.when.awaited):
        if after.fault == other.name and after.phase == "healed":
            return True
        seen.add(current.name)
        current = by_name.get(after.fault)
    return False


def states_of(topic: Topic, faults: Iterable[FaultSpec]) -> list[tuple[Config, FaultSpec | None]]:
    """Return the settings of a topic at the start, and then with each fault that changes them, with that fault.

    A topic that sets no value has the value of its brokers.
    """
    states: list[tuple[Config, FaultSpec | None]] = [(topic.config, None)]
    for fault in faults:
        if isinstance(fault, TopicConfigSpec) and fault.target.topic == topic.name:
            states.append((topic.config | fault.settings, fault))
        elif isinstance(fault, BrokerConfigSpec) and (defaults := topic_defaults(fault.settings)):
            states.append((defaults | topic.config, fault))
    return states


def refused(setup: Setup, faults: Sequence[FaultSpec], topic: str, ahead: float) -> bool:
    """Return whether brokers refuse records with timestamps so many seconds ahead of the time, behind if negative."""
    broker, states = setup.cluster.config, [config for config, _ in states_of(setup.topic(topic), faults)]
    if setup.attached or appended(broker, iter(states)):
        return False
    limits = [limits_s(setup.cluster.kafka, broker, state) for state in states]
    return all(not -before <= ahead <= after for before, after in limits)


FAULTS: dict[str, type[Fault[Any]]] = {
    "topic.config": TopicConfig,
    "broker.config": BrokerConfig,
}
