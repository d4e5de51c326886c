"""Rules for references: a topic, partition, group or broker that a scenario names has to exist in the scenario.

Each function yields one message per problem, which begins with `where`, the key that holds the reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from chaos.kafka.partition import TopicPartition
from chaos.scenario.setup import Setup
from chaos.scenario.triggers import Target

PARTITION_TARGETS = frozenset({"leader_of", "followers_of", "follower_of", "isr_of", "partition"})


def topic_problems(setup: Setup, where: str, topics: Iterable[str]) -> Iterator[str]:
    """Check that the scenario has these topics."""
    names = {t.name for t in setup.topics}
    for topic in topics:
        if topic not in names:
            yield f"{where}: {topic!r} is not one of the topics ({', '.join(sorted(names))})"


def partition_problems(setup: Setup, where: str, text: str) -> Iterator[str]:
    """Check that the scenario has a partition such as `orders/0`."""
    partition = TopicPartition.parse(text)
    topic = next((t for t in setup.topics if t.name == partition.topic), None)
    if topic is None:
        yield f"{where}: there is no topic {partition.topic!r}"
    elif partition.number >= topic.partitions:
        yield f"{where}: {topic.name} has partitions 0 to {topic.partitions - 1}, not {partition.number}"


def group_problems(setup: Setup, where: str, group: str) -> Iterator[str]:
    """Check that a consumer or processor has this group id."""
    groups = sorted({c.group for c in setup.readers if c.group})
    if group not in groups:
        yield f"{where}: no consumer has the group id {group!r} ({', '.join(groups) or 'none given'})"


def broker_problems(setup: Setup, where: str, brokers: Iterable[int]) -> Iterator[str]:
    """Check broker ids. Those of an existing cluster are not known before the run."""
    for broker in brokers:
        if not setup.attached and not 1 <= broker <= setup.cluster.brokers:
            yield f"{where}: brokers are numbered 1 to {setup.cluster.brokers}, not {broker}"


def target_problems(setup: Setup, where: str, target: Target) -> Iterator[str]:
    """Check the partition, topic, group or broker of a target. Clients are checked by the faults that target them."""
    kind, value = target.selector
    where = f"{where}.{kind}"
    if kind in PARTITION_TARGETS:
        problems = list(partition_problems(setup, where, value))
        yield from problems
        if (
            not problems
            and "follower" in kind
            and setup.topic(TopicPartition.parse(value).topic).replication_factor == 1
        ):
            yield f"{where}: {value} has one replica, so it has no follower"
    elif kind == "topic":
        yield from topic_problems(setup, where, [value])
    elif kind in ("coordinator_of", "group"):
        yield from group_problems(setup, where, value)
    elif kind == "broker":
        yield from broker_problems(setup, where, [value])
