"""The wait for groups before the load: each is Stable with all its members, and has settled.

A group with an assignor that moves partitions in two steps (KIP-429) is Stable between them. Its partitions are judged
only after it has settled, and a short load would end before that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from chaos.clients.streams.traits import ASSIGNOR as STREAMS
from chaos.observer import Observer
from chaos.scenario.members import settled_after_s
from chaos.scenario.model import Scenario
from chaos.setup.clients import assignors_of
from chaos.wait import wait_until


def wait_formed(scenario: Scenario, observer: Observer, timeout_s: float, during: Callable[[], None]) -> None:
    """Wait until each group has all members that do not join later, and has settled. Raises `WaitTimeout`.

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
