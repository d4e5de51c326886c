"""Rules for the cluster of a scenario: changes of its release, settings of its security, and clocks that are wrong.

They say which pairs of releases Kafka supports, and in which order; and which security fits the driver, the release and
the faults; which records have wrong times, and how far ahead a clock may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from chaos.cluster.settings import (
    ADVERTISED_CONTROLLERS_SINCE,
    FEATURES,
    KRAFT_SINCE,
    METADATA_VERSION,
    SCRAM_SINCE,
    ZOOKEEPER_BEFORE,
    line_of,
)
from chaos.faults.base import FaultSpec
from chaos.faults.clocks import ClockFaultSpec
from chaos.faults.settings import states_of
from chaos.faults.upgrades import ClusterDowngradeSpec, ClusterFinalizeSpec, ClusterUpgradeSpec, ReleaseChangeSpec
from chaos.kafka.security import OAUTHBEARER, ClusterSecurity, Security
from chaos.scenario.expect import Expect
from chaos.setup.model import Setup
from chaos.setup.names import nearest
from chaos.setup.timestamps import APPEND_TIME, ahead_s
from chaos.units import format_duration

LINES = [(2, 8), *((3, minor) for minor in range(10)), *((4, minor) for minor in range(5))]
"""The lines of releases that exist from the oldest on."""
CONTROLLERS = 0
"""Stands for all dedicated controllers, which change their release if all brokers are targets."""
FEATURES_SINCE = (4, 0)
"""The first line with features other than metadata.version."""


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
        yield f"cluster.features: {METADATA_VERSION} follows the release; begin with an older one, and upgrade"
    elif cluster.features and line_of(cluster.kafka) < FEATURES_SINCE:
        yield f"cluster.features: Kafka {cluster.kafka} has none; choose {_text(FEATURES_SINCE)} or later"


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def _text(line: tuple[int, int]) -> str:
    return ".".join(map(str, line))


WHERE = "cluster.security"
TOKENS_SINCE = (3, 4)
"""The first release with public classes that check tokens of an issuer (KIP-768)."""
LEAST_TOKEN_S = 10.0
LEAST_LIFETIME_S = 3600.0
"""Least lifetime of certificates: far more than a run takes, so that only faults let them expire."""
_MADE = ("username", "password", "token_endpoint", "ca", "certificate", "key", "key_password")


def security_problems(setup: Setup) -> Iterator[str]:
    """Yield what is wrong with `cluster.security`."""
    yield from _given(setup) if setup.attached else _made(setup)


def _given(setup: Setup) -> Iterator[str]:
    """Yield what is wrong for an existing cluster."""
    security = setup.cluster.security
    for key in ("client_certificates", "acls", "certificate_lifetime", "token_lifetime"):
        if getattr(security, key):
            yield f"{WHERE}.{key}: does not fit the attached driver: the cluster has its own security settings"
    if security.mechanism == OAUTHBEARER:
        yield (
            f"{WHERE}.mechanism: OAUTHBEARER does not fit the attached driver: Aftershock logs in to existing clusters "
            "by PLAIN or SCRAM; give a listener with one of them"
        )
        return
    try:
        security.given()
    except ValidationError as e:
        yield from (f"{WHERE}: {error['msg'].removeprefix('Value error, ')}" for error in e.errors())


def _made(setup: Setup) -> Iterator[str]:
    """Yield what is wrong for a cluster that is started."""
    cluster, security, defaults = setup.cluster, setup.cluster.security, Security()
    for key in (*_MADE, "verify_hostname"):
        if getattr(security, key) != getattr(defaults, key):
            yield (
                f"{WHERE}.{key}: does not fit the {cluster.driver} driver: Aftershock makes certificates and passwords "
                "for each run; leave it out, or use the attached driver"
            )
    if security.sasl and security.mechanism is None:
        yield f"{WHERE}: protocol {security.protocol} needs a mechanism, such as SCRAM-SHA-512"
    if security.mechanism is not None and not security.sasl:
        yield f"{WHERE}.mechanism: does not fit protocol {security.protocol}; choose SASL_SSL or SASL_PLAINTEXT"
    if security.client_certificates and security.protocol != "SSL":
        yield (
            f"{WHERE}.client_certificates: does not fit protocol {security.protocol}, only SSL: with SASL, the login "
            "identifies a client"
        )
    if security.certificate_lifetime is not None:
        yield from _lifetime_problems(security)
    if security.acls and not (security.sasl or security.client_certificates):
        yield f"{WHERE}.acls: clients have no identity; choose a protocol with SASL, or SSL with client_certificates"
    if not security.secured:
        return
    yield from _token_problems(setup)
    if cluster.voters:
        yield f"{WHERE}: does not go with cluster.voters; leave one of them out"
    if cluster.metadata == "zookeeper":
        yield (
            f"{WHERE}: Kafka {cluster.kafka} keeps its metadata in ZooKeeper here, and Aftershock secures KRaft only; "
            "choose metadata: kraft and a release from 3.3 on, or leave security out"
        )
    elif (security.mechanism or "").startswith("SCRAM") and line_of(cluster.kafka) < SCRAM_SINCE:
        yield f"{WHERE}.mechanism: KRaft has SCRAM since Kafka 3.5, and this is {cluster.kafka}; choose PLAIN"


def _token_problems(setup: Setup) -> Iterator[str]:
    cluster, security = setup.cluster, setup.cluster.security
    if security.mechanism != OAUTHBEARER:
        if security.token_lifetime is not None:
            yield f"{WHERE}.token_lifetime: clients get no tokens; set mechanism: OAUTHBEARER, or leave it out"
        return
    where = f"{WHERE}.mechanism"
    if line_of(cluster.kafka) < TOKENS_SINCE:
        yield f"{where}: Kafka {cluster.kafka} has no check of tokens of an issuer (KIP-768); choose 3.4 or later"
    if security.token_lifetime is not None and not LEAST_TOKEN_S <= security.token_lifetime <= 86_400:
        yield f"{WHERE}.token_lifetime: {format_duration(security.token_lifetime)} is not between 10s and 24h"
    for place, entry in setup.placed_entries:
        if refusal := entry.client.refusal("tokens"):
            yield f"{place}.client: {refusal} ({where})"


def _lifetime_problems(security: ClusterSecurity) -> Iterator[str]:
    where, lifetime_s = f"{WHERE}.certificate_lifetime", security.certificate_lifetime or 0.0
    if not security.tls:
        yield f"{where}: does not fit protocol {security.protocol}, which has no certificates for clients"
    if lifetime_s < LEAST_LIFETIME_S:
        yield (
            f"{where}: {format_duration(lifetime_s)} may end during the run; give 1h or more, and let a fault end "
            "them, such as certificate.expire or clock.jump"
        )


MEMORY_MS = {"producer.id.expiration.ms": 86_400_000, "transactional.id.expiration.ms": 604_800_000}
"""Settings of a broker for how long it remembers producers, with their defaults. Offsets of groups stay for longer."""
OFFSETS_MINUTES = ("offsets.retention.minutes", 10_080)


def clock_faults(faults: Sequence[FaultSpec]) -> list[ClockFaultSpec]:
    """Return the faults that change clocks of nodes or clients."""
    return [fault for fault in faults if isinstance(fault, ClockFaultSpec)]


def wrong_times(setup: Setup, faults: Sequence[FaultSpec]) -> tuple[list[str], list[str]]:
    """Return the topics in which records have wrong times, and what gives them: faults of clocks, and producers."""
    stamped = stamped_topics(setup, faults)
    found: dict[str, set[str]] = {}
    for fault in clock_faults(faults):
        written = {topic for p in setup.producers if p.name == fault.client for topic in p.written}
        written |= {p.to for p in setup.processors if p.name == fault.client}
        found[fault.name] = written if fault.client else set(stamped)
    for producer in setup.producers:
        if ahead_s(producer.timestamps):
            found[f"{producer.name} (timestamps)"] = {topic for topic in producer.written if topic not in stamped}
    return sorted(set[str]().union(*found.values())), [name for name, topics in found.items() if topics]


def stamped_topics(setup: Setup, faults: Sequence[FaultSpec]) -> list[str]:
    """Return the topics with records that a broker stamps at any time (message.timestamp.type=LogAppendTime)."""
    usual = setup.cluster.config.get("log.message.timestamp.type", "")
    return [
        topic.name
        for topic in setup.topics
        if any(str(c.get("message.timestamp.type", usual)).lower() == APPEND_TIME for c, _ in states_of(topic, faults))
    ]


def clock_problems(setup: Setup, faults: Sequence[FaultSpec], expect: Expect, run_s: float) -> Iterator[str]:
    """Yield what no rule can derive: a clock so far ahead that brokers forget producers, or offsets of groups."""
    memory_s = _memory_s(setup)
    for i, fault in enumerate(faults):
        if (
            expect.promised
            and isinstance(fault, ClockFaultSpec)
            and not fault.client
            and fault.furthest_s(run_s)[1] + run_s >= memory_s
        ):
            yield (
                f"faults[{i}]: the clock may be {memory_s:g} s ahead, after which brokers forget producers or offsets, "
                "and no rule says what settings promise then; give expect with bounds, or set the clock forward by less"
            )


def _memory_s(setup: Setup) -> float:
    """Return after how many seconds a broker may forget a producer, or the offsets of a group."""
    config = setup.cluster.config
    try:
        times_ms = [int(config.get(name, usual)) for name, usual in MEMORY_MS.items()]
        times_ms.append(int(config.get(*OFFSETS_MINUTES)) * 60_000)
    except ValueError:  # the broker refuses it
        return 0.0
    return min(times_ms) / 1000
