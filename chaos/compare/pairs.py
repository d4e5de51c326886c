"""The sides of a comparison and their pairs of topics. Each refusal is one line: what is wrong, where, what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatchcase

from chaos.cluster.attached.driver import ANSWER_S, no_topic, reach
from chaos.compare.model import Comparison, Pair, SettingValues, Side
from chaos.errors import AftershockError, UsageError
from chaos.kafka import admin
from chaos.kafka.admin import DescribedSetting
from chaos.kafka.client import Kafka
from chaos.kafka.metadata import Metadata
from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import Access
from chaos.relay.log_capture import refusal
from chaos.wait import wait_until

_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
REPLICAS = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
"""Settings of a topic that name brokers."""
POLICY, TIMES = "cleanup.policy", "message.timestamp.type"
LEADER_S = 10.0
"""How long the leader of a partition may take to answer: an election, or the start of a new topic."""


@dataclass(frozen=True)
class Chosen:
    """Topics by name or pattern of A, all but Kafka's own if left out; and the name in B: `{}` is the name in A."""

    topics: Sequence[str] = ()
    rename: str = "{}"


def prepared(a: Side, b: Side, chosen: Chosen, timestamps: bool) -> Comparison:
    """Return the comparison of two sides. Raises `UsageError` if they cannot be compared."""
    of_a, of_b = _metadata("A", a), _metadata("B", b)
    names = _topics(of_a, chosen)
    if len(names) > 1 and "{}" not in chosen.rename:
        raise UsageError(f"--rename {chosen.rename!r} gives {len(names)} topics one name; write {{}} for the name in A")
    renamed = {name: chosen.rename.replace("{}", name) for name in names}
    same_cluster = of_a.cluster_id == of_b.cluster_id if of_a.cluster_id else a.bootstrap == b.bootstrap
    if same_cluster and (twice := [name for name, other in renamed.items() if name == other]):
        raise UsageError(
            f"A and B are one cluster ({of_a.cluster_id or a.bootstrap}), and {twice[0]} would be compared with "
            "itself; name another cluster, or the topic in B with --rename"
        )
    missing = sorted(set(renamed.values()) - _names(of_b))
    if missing:
        error = no_topic(missing[0], of_b)
        more = f" ({len(missing)} of {len(names)} are missing; choose with --topics)" if len(names) > 1 else ""
        raise UsageError(f"B: {error}{more}; or the user may not describe it")
    with closing(_kafka(a)) as kafka_a, closing(_kafka(b)) as kafka_b:
        pairs = [_pair((kafka_a, of_a, name), (kafka_b, of_b, other), timestamps) for name, other in renamed.items()]
    return Comparison(a=a, b=b, pairs=pairs, timestamps=timestamps)


def _kafka(side: Side) -> Kafka:
    return Kafka(side.bootstrap, ANSWER_S, Access.of(side.security))


def _metadata(name: str, side: Side) -> Metadata:
    """Return the metadata of a side, after a connection to each of its brokers."""
    try:
        return reach(side.bootstrap, Access.of(side.security))
    except AftershockError as e:
        raise UsageError(f"{name}: {e}") from None


def _names(metadata: Metadata) -> set[str]:
    return {p.topic for p in metadata.partitions}


def _topics(metadata: Metadata, chosen: Chosen) -> list[str]:
    """Return the topics of A that are chosen."""
    names = _names(metadata)
    there = sorted(name for name in names if not name.startswith("__"))
    if not chosen.topics:
        if not there:
            raise UsageError("A: the cluster has no topics, or the user may not describe them")
        return there
    found: dict[str, None] = {}
    for pattern in chosen.topics:
        if _PLAIN.fullmatch(pattern):
            if pattern not in names:
                raise UsageError(f"A: {no_topic(pattern, metadata)}; or the user may not describe it")
            found[pattern] = None
            continue
        fitting = [name for name in there if fnmatchcase(name, pattern)]
        if not fitting:
            raise UsageError(f"A: the cluster has no topic like {pattern!r}; quote the pattern, as in 'orders.*'")
        found.update(dict.fromkeys(fitting))
    return list(found)


Place = tuple[Kafka, Metadata, str]


def _pair(a: Place, b: Place, timestamps: bool) -> Pair:
    """Return a pair, after a look at its settings and at whether its records can be read."""
    found = []
    for side, (kafka, metadata, topic) in zip("AB", (a, b), strict=True):
        try:
            settings = admin.topic_settings(kafka, topic, None)
        except AftershockError as e:
            raise UsageError(f"{side}: {e}; it says whether the topic is compacted") from None
        found.append(settings)
        if timestamps and settings[TIMES].value == "LogAppendTime":
            raise UsageError(
                f"{side}: {topic} has {TIMES}=LogAppendTime, so its timestamps are of the brokers' clock and "
                "differ between A and B; leave --timestamps out"
            )
        _check_readable(side, kafka, metadata, topic)
    numbers = [sum(1 for p in metadata.partitions if p.topic == topic) for _, metadata, topic in (a, b)]
    compacted = any("compact" in settings[POLICY].value for settings in found)
    if compacted and numbers[0] != numbers[1]:
        raise UsageError(
            f"{a[2]} is compacted, and has {numbers[0]} partitions in A and {numbers[1]} in B: a key may be in several "
            "partitions, and which of its values is the last one is not known; compare topics of as many partitions"
        )
    different = _different(found[0], found[1])
    return Pair(a=a[2], b=b[2], partitions=(numbers[0], numbers[1]), compacted=compacted, settings=different)


def _different(a: Mapping[str, DescribedSetting], b: Mapping[str, DescribedSetting]) -> dict[str, SettingValues]:
    """Return the values that differ of settings that one of two topics has of itself; None: its release lacks them."""
    own = {name for side in (a, b) for name, setting in side.items() if setting.level == "topic"} - REPLICAS
    values = {name: (_value(a, name), _value(b, name)) for name in sorted(own)}
    return {name: pair for name, pair in values.items() if pair[0] != pair[1]}


def _value(settings: Mapping[str, DescribedSetting], name: str) -> str | None:
    return settings[name].value if name in settings else None


def _check_readable(side: str, kafka: Kafka, metadata: Metadata, topic: str) -> None:
    """Raise `UsageError` if a partition is offline, or the user may not read: that is a right to the whole topic."""
    partitions = [p for p in metadata.partitions if p.topic == topic]
    starts: dict[TopicPartition, int] = {}

    def silent() -> list[TopicPartition]:
        return [p for p in partitions if p not in starts]

    def answered() -> bool:
        starts.update(kafka.start_offsets(silent()))
        return not silent()

    def why_silent() -> str:
        return f"{side}: the leader of {silent()[0]} does not say where its log begins; is the partition online?"

    # A broker that was just made leader, as of a new topic, refuses for a moment.
    wait_until(answered, LEADER_S, why_silent, error=UsageError)
    first = min(partitions, key=lambda p: p.number)
    if why := refusal(kafka, TopicPartition(topic, first.number), starts[first]):
        raise UsageError(f"{side}: {topic} cannot be read: {why}; the user needs the right Read of the topic")
