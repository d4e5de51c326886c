"""Rules for consumer groups: the entries of a group must be able to be its members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from chaos.scenario.clients import Subscribe, assignors_of, reads_committed, uses_kip_848
from chaos.scenario.setup import Setup

EAGER = {"range": "eager", "roundrobin": "eager", "cooperative-sticky": "cooperative"}
"""The rebalance protocol of librdkafka's assignors (KIP-429)."""


def group_problems(setup: Setup) -> Iterator[str]:
    """Check that the entries of each group can be members of one group, and that it is clear what they must read."""
    groups: dict[str, list[Subscribe]] = {}
    for i, consumer in enumerate(setup.readers):
        if not isinstance(consumer, Subscribe):
            continue
        groups.setdefault(consumer.group, []).append(consumer)
        kinds = {EAGER.get(name, "unknown") for name in _assignors(consumer)} - {"unknown"}
        mixed = consumer.client.traits.mixed_assignors or uses_kip_848(consumer.config)
        if not mixed and len(kinds) > 1:
            yield (
                f"consumers[{i}].config: partition.assignment.strategy mixes eager and cooperative assignors, which "
                "librdkafka refuses; a group cannot change between them member by member"
            )
    for group, entries in groups.items():
        names = ", ".join(entry.name for entry in entries)
        ids = Counter(id_ for e in entries for n in range(1, e.members + 1) if (id_ := e.instance_id(n)))
        for id_ in [id_ for id_, count in ids.items() if count > 1]:
            yield (
                f"consumers: {ids[id_]} members of group {group} have the group.instance.id {id_}, so each fences the "
                "other; give the entries templates that differ, or use a fault consumer.fence to show it"
            )
        classic = [entry for entry in entries if not uses_kip_848(entry.config)]
        if classic and not set.intersection(*(set(_assignors(entry)) for entry in classic)):
            lists = "; ".join(f"{e.name}: {','.join(_assignors(e))}" for e in classic)
            yield (
                f"consumers: the entries of group {group} have no common assignor ({lists}), so the coordinator would "
                "refuse those that join later (INCONSISTENT_GROUP_PROTOCOL); give each one that all of them support"
            )
        if len({reads_committed(entry) for entry in entries}) > 1:
            yield (
                f"consumers: the entries of group {group} ({names}) differ in isolation.level, so what the group must "
                "read would depend on which of them owns a partition"
            )


def _assignors(entry: Subscribe) -> tuple[str, ...]:
    return assignors_of(entry.config, entry.client)
