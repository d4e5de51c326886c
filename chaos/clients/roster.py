"""The read side of the fleet: the clients of a run, and their counts and positions."""

from __future__ import annotations

import threading

from chaos.clients.specs import Entry
from chaos.clients.state import ClientState
from chaos.errors import ClientError
from chaos.kafka.partition import TopicPartition
from chaos.scenario.clients import Assign, Producer, StartAt
from chaos.scenario.model import Scenario
from chaos.wait import wait_until


class Roster:
    """The clients of a scenario with all their incarnations. Its methods are thread-safe.

    A client is `<entry>/<number>`, numbered from 1. Counts include earlier incarnations. The counts of a killed
    incarnation come from its last progress event, so they may miss its last 100 ms. Methods that take a client raise
    `ClientError` if it does not exist.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._readers = scenario.readers
        self._lock = threading.RLock()
        self._incarnations: dict[str, list[ClientState]] = {}
        self._entries: dict[str, Entry] = {
            e.name: e for e in (*scenario.producers, *scenario.consumers, *scenario.processors)
        }

    def clients(self, entry: str) -> list[str]:
        """Return the names of an entry's clients. Raises `ClientError` if the scenario has no such entry."""
        if entry not in self._entries:
            raise ClientError(f"the scenario has no client entry {entry!r} (known: {', '.join(self._entries)})")
        found = self._entries[entry]
        count = found.count if isinstance(found, Producer) else found.members
        return [f"{entry}/{number}" for number in range(1, count + 1)]

    def present(self, entry: str) -> list[str]:
        """Return the names of an entry's clients that were started; a client that joins later is left out."""
        with self._lock:
            return [client for client in self.clients(entry) if client in self._incarnations]

    def state(self, client: str) -> ClientState:
        """Return the current or last incarnation of a client."""
        with self._lock:
            states = self._incarnations.get(client)
            if not states:
                known = ", ".join(sorted(self._incarnations)) or "none yet"
                raise ClientError(f"there is no client {client} (known: {known})")
            return states[-1]

    def wait_assigned(self, timeout_s: float) -> None:
        """Wait until each group holds every partition exactly once, and each assign consumer holds all its partitions.

        Assign consumers that start at an offset or a time are left out: they may wait for it. Raises `WaitTimeout`.
        """
        wait_until(
            lambda: not self._unassigned(),
            timeout_s,
            lambda: f"not all partitions are assigned: {'; '.join(self._unassigned())}",
        )

    def _unassigned(self) -> list[str]:
        missing = []
        for entry in self._readers:
            if isinstance(entry, Assign) and isinstance(entry.start, StartAt):
                continue
            held = {c: self.state(c).assigned() for c in self.present(entry.name)}
            required = sorted(
                str(TopicPartition(t.name, p))
                for t in self._scenario.topics
                if entry.topics_among([t.name]) and not t.later
                for p in range(t.partitions)
            )
            if isinstance(entry, Assign):
                missing += [
                    f"{c} holds {len(own)} of {len(required)}" for c, own in held.items() if sorted(own) != required
                ]
            elif sorted(p for own in held.values() for p in own) != required:
                missing.append(f"{entry.name}: {', '.join(f'{c} holds {len(own)}' for c, own in held.items())}")
        return missing

    def total_acked(self) -> int:
        """Return the number of records acknowledged to all producers."""
        return sum(self.acked(p.name) for p in self._scenario.producers)

    def acked(self, entry: str) -> int:
        """Return the number of records acknowledged to the clients of a producer entry."""
        return self._count("acked", entry)

    def delivered(self, entry: str) -> int:
        """Return the number of records processed by the clients of an entry; redeliveries count again."""
        return self._count("delivered", entry)

    def _count(self, count: str, entry: str) -> int:
        with self._lock:
            states = [state for client in self.clients(entry) for state in self._incarnations.get(client, [])]
        return sum(state.count(count) for state in states)

    def producers_done(self) -> bool:
        """Return whether every producer sent all its records and has an answer or a time-out for each."""
        return all(s.progress().get("done", False) or (s.asked_to_end and not s.alive) for s in self._producer_states())

    def _producer_states(self) -> list[ClientState]:
        return [self.state(c) for p in self._scenario.producers for c in self.clients(p.name)]

    def positions(self, reader: str) -> dict[str, int]:
        """Return the offset after the last processed record of each assigned `topic/partition`.

        `reader` is a client (`replay/1`) or an entry, which means its whole group. If two members claim a partition,
        the lower offset counts.
        """
        positions: dict[str, int] = {}
        for client in [reader] if "/" in reader else self.present(reader):
            for partition, offset in self.state(client).positions().items():
                positions[partition] = min(offset, positions.get(partition, offset))
        return positions
