"""Changes of the brokers' release, one broker after another, and of the cluster's features.

The rules for their order and for pairs of releases are in `chaos.scenario.cluster_rules`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field

from chaos.cluster.api import ChangeRelease, Kill, Start, able
from chaos.errors import ClusterError, FaultError
from chaos.faults import targets
from chaos.faults.base import Fault, FaultSpec, World
from chaos.faults.brokers import IN_SYNC_TIMEOUT_S, OneByOne
from chaos.faults.controllers import MIN_BEHIND
from chaos.faults.targets import is_gone, start_down, stop_controlled
from chaos.run.events import now_us
from chaos.units import Duration, Release

if TYPE_CHECKING:
    from chaos.kafka.features import Support

PROTOCOL = "inter.broker.protocol.version"

LOGGED_TIMEOUT_S = 30.0

UNKNOWN_LEVEL = re.compile(r"MetadataVersion|metadata\.version|[Ff]eature|is not a valid version")
"""The reason in the log of a broker that does not know a level that is final."""


class ReleaseChangeSpec(FaultSpec):
    """Another release for the brokers."""

    run_only = "the releases that a run installs"
    targets = frozenset({"all_brokers", "broker"})
    needs = frozenset({"stop", "kill", "start", "change_release"})
    to: Release = Field(description="Apache Kafka release")
    shutdown: Literal["controlled", "kill"] = Field("controlled", description="how each broker ends; kill: SIGKILL")
    between: Duration = Field(0, ge=0, description="time with two releases in the cluster, before each next broker")


class ClusterUpgradeSpec(ReleaseChangeSpec):
    """Restart brokers one by one with a newer release, each after all replicas are in sync; they keep the release.

    Healed by a start of a broker that is down, with its former release if it did not start with the new one.
    """

    effects = frozenset({"outage", "crash", "one_by_one", "connections"})
    left_out = "needs a second release of Kafka; rolling-restart is its like"
    kind: Literal["cluster.upgrade"]


R = TypeVar("R", bound=ReleaseChangeSpec)


class ReleaseChange(OneByOne[R]):
    """A change of the release of nodes: of brokers, and of dedicated controllers if all brokers are targets."""

    controllers_first: ClassVar[bool] = True
    """Kafka's documentation does not mention the order; its system tests upgrade controllers first."""
    _former: dict[int, str]
    """The release of each node before the fault."""
    _offered: dict[int, Support]
    """What each node supported before the fault."""
    _changed: list[int]
    """The nodes that have run the new release."""
    _protocol: str | None
    """With ZooKeeper: the inter.broker.protocol.version that the brokers keep; None in KRaft mode."""

    def _inject(self, world: World) -> str:
        """Change the release of all targets. Raises `FaultError` if one does not come up or in sync."""
        to = self.spec.to
        self._former = {node: world.cluster.state.node(node).kafka for node in self._nodes(world)}
        changing = [node for node, release in self._former.items() if release != to]
        if not changing:
            raise FaultError(f"{named(self._former, world)} has the release {to} already")
        self.resolved = named(changing, world)
        able(world.cluster, ChangeRelease).prepare_release(to, lambda _: None)
        self._wait_in_sync(f"before the change to {to}", world)
        self._offered = {node: answered(node, world) for node in changing}
        self._protocol = protocol_of(changing[0], world) if world.cluster.state.zookeeper else None
        self._changed, self.evidence["steps"] = [], (steps := list[dict[str, object]]())
        self.begun = True
        for node in changing:
            if self._changed:
                time.sleep(self.spec.between)
                self._wait_in_sync(f"before the restart of {targets.node_name(node, world)}", world)
            steps.append(self._change(node, world))
        return f"{self.resolved} from {self._releases(changing)} to {to}, one after another: {describe(steps)}"

    def _nodes(self, world: World) -> list[int]:
        """Return the targets in their order."""
        if self.spec.target.broker is not None:
            return targets.brokers(self.spec.target, world)
        parts = [world.cluster.controller_ids, world.cluster.broker_ids]
        return [node for part in (parts if self.controllers_first else parts[::-1]) for node in part]

    def _change(self, node: int, world: World) -> dict[str, object]:
        """Restart a node with the new release, and return the times of its steps in seconds."""
        cluster, name = able(world.cluster, ChangeRelease), targets.node_name(node, world)
        began = time.monotonic()
        cluster.set_release(node, self.spec.to)
        if self._protocol is not None:
            cluster.set_settings(node, {PROTOCOL: self._protocol})
        if world.cluster.broker_alive(node):  # another fault may have killed it
            self._take_down(node, world)
        down, down_us = time.monotonic(), now_us()
        able(world.cluster, Start).start_broker(node)
        targets.answer(
            lambda: cluster.logged_release(node) == self.spec.to,
            lambda: f"{name} logs the release {cluster.logged_release(node)}, not {self.spec.to}",
            LOGGED_TIMEOUT_S,
        )
        self._changed.append(node)
        ready = time.monotonic()
        self._wait_in_sync(f"after the restart of {name} with {self.spec.to}", world)
        times = {"stop_s": down - began, "start_s": ready - down, "sync_s": time.monotonic() - ready}
        return {"node": name, "down_us": down_us, **{key: round(seconds, 2) for key, seconds in times.items()}}

    def _take_down(self, node: int, world: World) -> None:
        if self.spec.shutdown == "kill":
            able(world.cluster, Kill).kill_broker(node)
            return
        stop_controlled(node, world)
        targets.answer(partial(is_gone, node, world), f"broker {node} is still listed", IN_SYNC_TIMEOUT_S)

    def _out_of_sync(self, world: World) -> list[str]:
        """Return the problems of all partitions, and the voters that do not follow the metadata log."""
        problems = super()._out_of_sync(world)
        if problems or not world.cluster.controller_ids:
            return problems
        quorum = world.kafka.quorum()
        if quorum is None:
            return ["no controller is active"]
        behind = quorum.ends.get(quorum.leader, 0) - MIN_BEHIND
        return [f"controller {node} is behind" for node, end in quorum.ends.items() if end <= behind]

    def _effect(self, world: World) -> str | None:
        """Look at the log and at the ApiVersions of each node: the supported levels change with each line."""
        if set(self._changed) != set(self._offered) or self._out_of_sync(world):
            return None
        cluster, to = able(world.cluster, ChangeRelease), self.spec.to
        now = {node: supported(node, world) for node in self._changed}
        for node, before in self._offered.items():
            found, first = now[node], now[self._alike(node, world)]
            if found is None or first is None or not found.same_software(first):
                return None
            other_line = line(to) != line(self._former[node])
            if cluster.logged_release(node) != to or (other_line and found.same_software(before)):
                return None
        last = self._changed[-1]
        levels = f"{offer(self._offered[last])} to {offer(now[last])}"
        return f"{self.resolved} logged Kafka {to}, and ApiVersions went from {levels}"

    def _alike(self, node: int, world: World) -> int:
        """Return the first changed node with the same role: brokers and controllers have other APIs."""
        controllers = world.cluster.controller_ids
        return next(other for other in self._changed if (other in controllers) == (node in controllers))

    def _undo(self, world: World) -> str:
        """Start brokers that are down. One that did not start with the new release gets its former one."""
        cluster = able(world.cluster, ChangeRelease)
        for node, former in self._former.items():
            if node not in self._changed and not world.cluster.broker_alive(node):
                cluster.set_release(node, former)
        start_down(self._former, world)
        releases = dict.fromkeys(world.cluster.state.node(node).kafka for node in self._former)
        return f"{named(self._former, world)} runs {', '.join(releases)}"

    def _releases(self, nodes: Iterable[int]) -> str:
        """Return the former releases of nodes, each once."""
        return ", ".join(dict.fromkeys(self._former[node] for node in nodes))


class ClusterUpgrade(ReleaseChange[ClusterUpgradeSpec], spec=ClusterUpgradeSpec):
    """A newer release.

    Proof: since its last start, each broker logs the new release, and ApiVersions returns other versions than before,
    the same for all. All replicas are in sync.
    """


class ClusterDowngradeSpec(ReleaseChangeSpec):
    """Restart brokers one by one with an older release, which they keep. No feature may have been raised before.

    Healed as an upgrade. With `refused: true`, one broker is started with the older release and must fail; a start with
    its former release heals it.
    """

    effects = frozenset({"outage", "crash", "one_by_one", "connections"})
    left_out = "needs a second release of Kafka; rolling-restart is its like"
    kind: Literal["cluster.downgrade"]
    refused: bool = Field(False, description="the features are final, so the older release has to be refused")


class ClusterDowngrade(ReleaseChange[ClusterDowngradeSpec], spec=ClusterDowngradeSpec):
    """An older release.

    Proof: as of an upgrade. With `refused: true`: the broker is down and not in the metadata, and its log names the
    feature, or the version of the protocol, that the older release does not know.
    """

    controllers_first = False
    _refusal = ""

    def _inject(self, world: World) -> str:
        return self._try(world) if self.spec.refused else super()._inject(world)

    def _try(self, world: World) -> str:
        """Start the first target with the older release. Raises `FaultError` if it gets ready."""
        to, cluster = self.spec.to, able(world.cluster, ChangeRelease)
        broker = targets.brokers(self.spec.target, world)[0]
        self._former, self._offered, self._changed = {broker: world.cluster.state.node(broker).kafka}, {}, []
        self._protocol = None
        self.resolved = f"broker {broker}"
        cluster.prepare_release(to, lambda _: None)
        self._wait_in_sync(f"before the start with {to}", world)
        self.begun = True
        cluster.set_release(broker, to)
        self._take_down(broker, world)
        try:
            able(world.cluster, Start).start_broker(broker)
        except ClusterError as e:
            self._refusal = str(e)
            return f"broker {broker} with {to} instead of {self._former[broker]}: {e}"
        raise FaultError(f"broker {broker} runs {to}, which should have been refused")

    def _effect(self, world: World) -> str | None:
        if not self.spec.refused:
            return super()._effect(world)
        broker, cluster = next(iter(self._former)), able(world.cluster, ChangeRelease)
        gone = self._refusal and not world.cluster.broker_alive(broker) and is_gone(broker, world)
        errors = cluster.logged_errors(broker) if gone else ""
        return f"broker {broker} did not start: {errors}" if UNKNOWN_LEVEL.search(errors) else None


class ClusterFinalizeSpec(FaultSpec):
    """Raise the features to the levels of the brokers' release, as kafka-features.sh upgrade does; they stay.

    With ZooKeeper: restart the brokers one by one with inter.broker.protocol.version of their release.
    """

    effects = frozenset({"outage", "one_by_one", "connections"})
    left_out = "needs a second release of Kafka; rolling-restart is its like"
    run_only = "the releases that a run installs"
    targets = frozenset({"all_brokers"})
    needs = frozenset({"stop", "start", "change_release"})
    kind: Literal["cluster.finalize"]
    features: dict[str, Annotated[int, Field(ge=0)]] = Field(
        {}, description="level by feature, such as group.version: 1; if left out: the levels of the release, see below"
    )


class ClusterFinalize(OneByOne[ClusterFinalizeSpec], spec=ClusterFinalizeSpec):
    """Features raised to the levels of the brokers' release.

    Proof: ApiVersions of every broker returns the new levels as final. With ZooKeeper: every broker describes the
    inter.broker.protocol.version of its release, and all replicas are in sync.
    """

    lasting = "they stay"
    _levels: dict[str, int]
    """The levels to finalize; with ZooKeeper, there are none."""

    def _inject(self, world: World) -> str:
        from chaos.kafka import features

        self.resolved = "the features of the cluster"
        if world.cluster.state.zookeeper:
            return self._raise_protocol(world)
        supports = [answered(node, world) for node in world.cluster.node_ids]
        before = supports[0].finalized
        wanted = self.spec.features or features.release_levels(supports)
        self._levels = {name: level for name, level in wanted.items() if before.get(name, 0) != level}
        if not self._levels:
            raise FaultError(f"the features are final already: {levels_text(before)}")
        self.begun = True
        able(world.cluster, ChangeRelease).note_refinalized()
        features.update(world.kafka, self._levels, before)
        changes = ", ".join(f"{name} {before.get(name, 0)} to {level}" for name, level in self._levels.items())
        return f"requested {changes}"

    def _raise_protocol(self, world: World) -> str:
        """Restart each broker with the protocol of its release, as its documentation says."""
        cluster, brokers = able(world.cluster, ChangeRelease), world.cluster.broker_ids
        self._levels, before = {}, protocol_of(brokers[0], world)
        self._wait_in_sync("before the restart", world)
        self.begun = True
        able(world.cluster, ChangeRelease).note_refinalized()
        for broker in brokers:
            cluster.set_settings(broker, {PROTOCOL: self._protocol(broker, world)})
            stop_controlled(broker, world)
            targets.answer(partial(is_gone, broker, world), f"broker {broker} is still listed", IN_SYNC_TIMEOUT_S)
            able(world.cluster, Start).start_broker(broker)
            self._wait_in_sync(f"after the restart of broker {broker}", world)
        return f"restarted all brokers with {PROTOCOL} {self._protocol(brokers[0], world)} instead of {before}"

    def _protocol(self, broker: int, world: World) -> str:
        return ".".join(line(world.cluster.state.node(broker).kafka))

    def _effect(self, world: World) -> str | None:
        brokers = world.cluster.broker_ids
        if world.cluster.state.zookeeper:
            protocols = [protocol_of(broker, world) for broker in brokers]
            raised = all(p.startswith(self._protocol(b, world)) for b, p in zip(brokers, protocols, strict=True))
            in_sync = raised and not self._out_of_sync(world)
            return f"every broker describes {PROTOCOL} as {protocols[0]}" if in_sync else None
        for broker in brokers:
            found = supported(broker, world)
            if found is None or any(found.finalized.get(name, 0) != level for name, level in self._levels.items()):
                return None
        return f"every broker returns as final: {levels_text(self._levels)}"

    def _undo(self, world: World) -> str:
        start_down(world.cluster.broker_ids, world)
        return super()._undo(world)


def protocol_of(broker: int, world: World) -> str:
    """Return the inter.broker.protocol.version of a broker. Raises `ClusterError` without an answer."""
    from chaos.kafka.admin import broker_settings

    return broker_settings(world.kafka, broker, [PROTOCOL])[PROTOCOL].value


def supported(node: int, world: World) -> Support | None:
    """Return what a node supports; None without an answer."""
    from chaos.kafka import features
    from chaos.kafka.connection import BrokerConnection

    return features.support(BrokerConnection(*world.cluster.address(node), targets.access_to(node, world)))


def answered(node: int, world: World) -> Support:
    """Return what a node supports. Raises `FaultError` without an answer."""
    return targets.answer(lambda: supported(node, world), f"{targets.node_name(node, world)} does not answer")


def named(nodes: Iterable[int], world: World) -> str:
    """Return nodes by role, such as `controller 101, 102 and broker 1, 2, 3`."""
    controllers = [n for n in nodes if n in world.cluster.controller_ids]
    parts = {"controller": controllers, "broker": [n for n in nodes if n not in controllers]}
    return " and ".join(f"{role} {', '.join(map(str, found))}" for role, found in parts.items() if found)


def levels_text(levels: Mapping[str, int]) -> str:
    """Return levels as text, such as `metadata.version 30`."""
    return ", ".join(f"{name} {level}" for name, level in levels.items()) or "none"


def line(release: str) -> tuple[str, ...]:
    """Return the line of a release, such as `("4", "3")`."""
    return tuple(release.split(".")[:2])


def offer(found: Support | None) -> str:
    """Return the feature or the number of APIs that shows the line of a release."""
    from chaos.kafka.features import METADATA_VERSION

    if found is None:
        return "no answer"
    if METADATA_VERSION in found.levels:
        return f"{METADATA_VERSION} {found.levels[METADATA_VERSION][1]}"
    return f"{len(found.apis)} APIs"


def describe(steps: list[dict[str, object]]) -> str:
    """Return the times of all steps as text."""
    return "; ".join(
        f"{s['node']} stopped in {s['stop_s']} s, ready after {s['start_s']} s, in sync after {s['sync_s']} s"
        for s in steps
    )


FAULTS: dict[str, type[Fault[Any]]] = {
    "cluster.upgrade": ClusterUpgrade,
    "cluster.downgrade": ClusterDowngrade,
    "cluster.finalize": ClusterFinalize,
}
