"""Rules for changes of the brokers' release: which pairs of releases Kafka supports, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from chaos.cluster.settings import (
    ADVERTISED_CONTROLLERS_SINCE,
    FEATURES,
    KRAFT_SINCE,
    METADATA_VERSION,
    ZOOKEEPER_BEFORE,
    line_of,
)
from chaos.faults.base import FaultSpec
from chaos.faults.upgrades import ClusterDowngradeSpec, ClusterFinalizeSpec, ClusterUpgradeSpec, ReleaseChangeSpec
from chaos.setup.hints import nearest
from chaos.setup.model import Setup

LINES = [(2, 8), *((3, minor) for minor in range(10)), *((4, minor) for minor in range(5))]
"""The lines of releases that exist from the oldest on."""
CONTROLLERS = 0
"""Stands for all dedicated controllers, which change their release if all brokers are targets."""
FEATURES_SINCE = (4, 0)
"""The first line with features beside metadata.version."""


@dataclass
class Timeline:
    """The releases of brokers and dedicated controllers after the steps so far, and the line with final features."""

    releases: dict[int, str]
    final: tuple[int, int]
    zookeeper: bool
    """Whether the brokers keep their metadata in ZooKeeper."""

    def target(self, fault: FaultSpec) -> list[int]:
        """Return the brokers that a fault targets."""
        return [broker for broker in self.releases if fault.target.broker in (None, broker)]


def release_problems(setup: Setup, faults: Sequence[FaultSpec]) -> Iterator[str]:
    """Yield what is wrong with changes of releases and features. They take place in the order of the scenario."""
    yield from _start_problems(setup)
    kafka = setup.cluster.kafka
    controllers = [CONTROLLERS] if setup.cluster.controllers else []
    releases = dict.fromkeys([*controllers, *range(1, setup.cluster.brokers + 1)], kafka)
    now = Timeline(releases, line_of(kafka), setup.cluster.metadata == "zookeeper")
    former: FaultSpec | None = None
    for i, fault in enumerate(faults):
        where = f"faults[{i}]"
        if not isinstance(fault, ReleaseChangeSpec | ClusterFinalizeSpec):
            continue
        if former is not None and former.name not in _awaited(fault, faults):
            yield (
                f"{where}.when: begins while {former.name} may be under way; "
                f"let it begin afterwards, such as after: {former.name}.proven"
            )
        former = fault
        if isinstance(fault, ClusterFinalizeSpec):
            yield from _finalize_problems(setup, where, fault, now)
            continue
        yield from _pair_problems(setup, where, fault, now)
        yield from _cut_problems(where, fault, now, faults)
        if not (isinstance(fault, ClusterDowngradeSpec) and fault.refused):
            now.releases |= dict.fromkeys(now.target(fault), fault.to)


def _awaited(fault: FaultSpec, faults: Sequence[FaultSpec]) -> set[str]:
    """Return the names of the faults that a fault waits for, directly or through others."""
    by_name, found = {f.name: f for f in faults}, set[str]()
    while (after := fault.when.awaited) is not None and after.fault not in found and after.fault in by_name:
        found.add(after.fault)
        fault = by_name[after.fault]
    return found


def _pair_problems(setup: Setup, where: str, fault: ReleaseChangeSpec, now: Timeline) -> Iterator[str]:
    """Yield what is wrong with the release that brokers change to."""
    to, line, present = fault.to, line_of(fault.to), [now.releases[b] for b in now.target(fault)]
    if line not in LINES:
        yield f"{where}.to: Kafka {to} is not known; choose a release of {_text(LINES[0])} to {_text(LINES[-1])}"
    elif set(present) == {to}:
        yield f"{where}.to: the brokers run {to} already; choose another release"
    elif isinstance(fault, ClusterUpgradeSpec) and any(_numbers(to) < _numbers(p) for p in present):
        yield f"{where}.to: {to} is older than {max(present, key=_numbers)}, which brokers run; use cluster.downgrade"
    elif isinstance(fault, ClusterDowngradeSpec) and any(_numbers(to) > _numbers(p) for p in present):
        yield f"{where}.to: {to} is newer than {min(present, key=_numbers)}, which brokers run; use cluster.upgrade"
    elif now.zookeeper and line >= ZOOKEEPER_BEFORE:
        yield (
            f"{where}.to: {to} has no ZooKeeper mode, and the brokers keep their metadata in ZooKeeper; "
            f"choose a release before {_text(ZOOKEEPER_BEFORE)}, or a cluster with metadata: kraft from "
            f"{_text(KRAFT_SINCE)} on"
        )
    elif isinstance(fault, ClusterDowngradeSpec):
        yield from _downgrade_problems(setup, where, fault, now)


def _downgrade_problems(setup: Setup, where: str, fault: ClusterDowngradeSpec, now: Timeline) -> Iterator[str]:
    final, refused = _text(now.final), line_of(fault.to) < now.final
    if refused and not fault.refused:
        yield (
            f"{where}.to: the features of {final} are final, so {fault.to} would be refused; downgrade before they "
            "are finalized, or set refused: true to see the refusal"
        )
    elif fault.refused and not refused:
        yield f"{where}.refused: {fault.to} is not refused, because only the features of {final} are final"
    elif fault.refused and CONTROLLERS in now.releases:
        yield (
            f"{where}.refused: dedicated controllers refuse an older broker, and its log does not name the reason; "
            "leave cluster.controllers out, so that each broker is a controller too"
        )


def _cut_problems(where: str, fault: ReleaseChangeSpec, now: Timeline, faults: Sequence[FaultSpec]) -> Iterator[str]:
    lines = [*(line_of(now.releases[b]) for b in now.target(fault)), line_of(fault.to)]
    crosses = min(lines) < ADVERTISED_CONTROLLERS_SINCE <= max(lines)
    if crosses and any("isolate" in f.needs for f in faults):
        yield (
            f"{where}.to: from {_text(ADVERTISED_CONTROLLERS_SINCE)} on controllers have advertised addresses, "
            "which cuts of links need; leave out the cuts, or begin with that release"
        )


def _finalize_problems(setup: Setup, where: str, fault: ClusterFinalizeSpec, now: Timeline) -> Iterator[str]:
    """Yield what is wrong with features, and note what is final afterwards."""
    releases = list(dict.fromkeys(now.releases.values()))
    lines = {line_of(release) for release in releases}
    if len(lines) > 1:
        yield f"{where}: the nodes run {' and '.join(releases)}; upgrade all of them before, by all_brokers: true"
    elif not fault.features and lines == {now.final}:
        yield f"{where}: the features of {_text(now.final)} are final already; upgrade before, or name features"
    yield from _feature_problems(now.zookeeper, f"{where}.features", fault.features)
    if len(lines) == 1 and (not fault.features or METADATA_VERSION in fault.features):
        now.final = lines.pop()


def _feature_problems(zookeeper: bool, where: str, features: Iterable[str]) -> Iterator[str]:
    for name in features:
        if zookeeper:
            yield f"{where}: with ZooKeeper there are none; leave it out"
        elif name not in FEATURES:
            yield f"{where}: {name!r} is no feature{nearest(name, FEATURES)} ({', '.join(FEATURES)})"


def _start_problems(setup: Setup) -> Iterator[str]:
    """Yield what is wrong with the features of a new cluster."""
    cluster = setup.cluster
    yield from _feature_problems(cluster.metadata == "zookeeper", "cluster.features", cluster.features)
    if METADATA_VERSION in cluster.features:
        yield f"cluster.features: {METADATA_VERSION} is that of the release; begin with an older one, and upgrade"
    elif cluster.features and line_of(cluster.kafka) < FEATURES_SINCE:
        yield f"cluster.features: Kafka {cluster.kafka} has none; choose {_text(FEATURES_SINCE)} or later"


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def _text(line: tuple[int, int]) -> str:
    return ".".join(map(str, line))
