"""Rules for consumer groups: the entries of a group must be able to be its members."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from chaos.clients.traits import number
from chaos.faults.base import FaultSpec
from chaos.faults.consumers import ConsumerCrashSpec, ConsumerJoinSpec, ConsumerLeaveSpec, ConsumerPauseSpec
from chaos.kafka.settings import Scalar
from chaos.scenario.expect import Expect
from chaos.setup.clients import Processor, Subscribe, assignors_of, reads_committed, uses_kip_848
from chaos.setup.model import Setup
from chaos.setup.share import Share

EAGER = {"range": "eager", "roundrobin": "eager", "sticky": "eager", "cooperative-sticky": "cooperative"}
"""The rebalance protocol of the assignors (KIP-429)."""
SETTLED_S = 0.3
"""A group has settled after this time in state Stable with the same members and partitions: about one sample."""
SETTLED_IN_STEPS_S = 2.0
"""The same for rebalances in two steps (cooperative-sticky, KIP-848), where the group is Stable in between."""
SESSION_MS = 45_000
"""Session time-out in ms where neither a scenario nor an old release has another (KIP-735, KIP-848, KIP-932)."""
NO_COMMON_ASSIGNOR = "INCONSISTENT_GROUP_PROTOCOL"
"""What a member reports that the coordinator refuses, as it has no assignor in common with all members."""


def settled_after_s(assignor: str) -> float:
    """Return after which time a group has settled. assignor: the common assignor of its entries, "" if they differ."""
    return SETTLED_S if assignor in ("range", "roundrobin") else SETTLED_IN_STEPS_S


def session_timeout(setup: Setup, entry: Subscribe | Share) -> tuple[float, str]:
    """Return the session time-out of the members of an entry in seconds, and the setting that has it.

    Without a setting of the scenario it is the default of the library; brokers have it with KIP-848 and share groups.
    """
    name = "session.timeout.ms"
    given: Scalar | None = None
    if isinstance(entry, Share):
        name = "group.share.session.timeout.ms"
        given = entry.settings.get("share.session.timeout.ms", setup.cluster.config.get(name))
    elif uses_kip_848(entry.config):
        name = "group.consumer.session.timeout.ms"
        given = setup.cluster.config.get(name)
    else:
        traits = entry.client.traits
        given = traits.common(entry.config).get(name, traits.defaults(entry.client.release).get(name))
        first = traits.long_sessions_since
        if given is None and first and number(setup.client_of(entry).release or "99") < number(first):
            given = 10_000  # until KIP-735
    try:
        return float(SESSION_MS if given is None else given) / 1000, name
    except ValueError:  # no number, which has its own message
        return SESSION_MS / 1000, name


def slow_removals(setup: Setup, faults: Sequence[FaultSpec]) -> Iterator[tuple[str, float, str]]:
    """Yield the faults that are proven by the removal of a silent member: name, session time-out in s, and its setting.

    The group does not wait for the session of a static member, and its process proves its end.
    """
    entries = {e.name: e for e in setup.consumers if isinstance(e, Subscribe | Share)}
    for fault in faults:
        if not isinstance(fault, ConsumerCrashSpec | ConsumerPauseSpec):
            continue
        selector, value = fault.target.selector
        names = setup.groups.get(value, []) if selector == "random_member_of" else [str(value).partition("/")[0]]
        for entry in (entries[name] for name in names if name in entries):
            if isinstance(entry, Share) or not entry.static:
                yield (fault.name, *session_timeout(setup, entry))


def group_problems(setup: Setup, faults: Sequence[FaultSpec], expect: Expect) -> Iterator[str]:
    """Check that the entries of each group can be members of one group, and that it is clear what they must read.

    Entries without a common assignor are refused, unless the scenario is about that: then `expect.client_errors` of the
    entry that joins later names the answer of the coordinator.
    """
    groups: dict[str, list[Subscribe]] = {}
    places = {
        entry.name: f"{place}.{'consumer_' * isinstance(entry, Processor)}config"
        for place, entry in setup.placed_entries
    }
    for consumer in setup.readers:
        if not isinstance(consumer, Subscribe):
            continue
        groups.setdefault(consumer.group, []).append(consumer)
        kinds = {EAGER.get(name, "unknown") for name in _assignors(consumer)} - {"unknown"}
        mixed = consumer.client.traits.mixed_assignors or uses_kip_848(consumer.config)
        if not mixed and len(kinds) > 1:
            yield (
                f"{places[consumer.name]}: partition.assignment.strategy mixes eager and cooperative assignors, which "
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
        refused = {name for name, errors in expect.client_errors.items() if NO_COMMON_ASSIGNOR in errors}
        classic = [e for e in entries if not uses_kip_848(e.config) and e.name not in refused]
        for moment, members in _at_one_time(classic, faults):
            if members and not set.intersection(*(set(_assignors(entry)) for entry in members)):
                lists = "; ".join(f"{e.name}: {','.join(_assignors(e))}" for e in members)
                yield (
                    f"consumers: the entries of group {group}{moment} have no common assignor ({lists}), so the "
                    f"coordinator would refuse later members ({NO_COMMON_ASSIGNOR}); give each one that all of "
                    "them support, or, to show the error, expect it in client_errors of the entry that joins later"
                )
        if len({reads_committed(entry) for entry in entries}) > 1:
            yield (
                f"consumers: the entries of group {group} ({names}) differ in isolation.level, so what the group must "
                "read would depend on which of them owns a partition"
            )


def _at_one_time(
    entries: Sequence[Subscribe], faults: Sequence[FaultSpec]
) -> Iterator[tuple[str, Sequence[Subscribe]]]:
    """Yield the entries with members in the group at one time, each with the moment if they are not all entries.

    Entries change by faults: all members of one join later, and all of another leave for good. Entries that change may
    have their members in the group one after the other, so each needs an assignor in common with the next one only.
    """
    joining = {str(f.target.member) for f in faults if isinstance(f, ConsumerJoinSpec)}
    leaving = {str(f.target.member) for f in faults if isinstance(f, ConsumerLeaveSpec) and f.for_good}

    def without(members: set[str]) -> list[Subscribe]:
        return [e for e in entries if any(f"{e.name}/{n}" not in members for n in range(1, e.members + 1))]

    at_first, at_last = without(joining), without(leaving)
    if len(at_first) == len(entries) or len(at_last) == len(entries):
        yield "", entries
        return
    yield " at the start", at_first
    stay = [e for e in at_first if e in at_last]
    changing = [[e for e in at_first if e not in stay]]
    changing += [[e] for e in entries if e not in at_first and e not in at_last]
    changing += [[e for e in at_last if e not in stay]]
    for before, after in itertools.pairwise(changing):
        yield " on the way", [*stay, *before, *after]
    yield " at the end", at_last


def _assignors(entry: Subscribe) -> tuple[str, ...]:
    return assignors_of(entry.config, entry.client)
