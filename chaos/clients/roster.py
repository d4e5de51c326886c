"""Who the clients of a run are, and what they last told: the part of the fleet that only asks."""

from __future__ import annotations

import threading

from chaos.clients.protocol import partition_name
from chaos.clients.specs import Entry
from chaos.clients.state import ClientState
from chaos.errors import ClientError
from chaos.scenario.consumers import Assign, StartAt
from chaos.scenario.model import Scenario
from chaos.scenario.producers import Producer
from chaos.wait import wait_until


class Roster:
    """The clients of a scenario, each with its lives so far. Its methods may be called from several threads.

    Each client is `<entry>/<number>`, numbered from 1. Counts include the earlier lives of a client; those of a life
    that was killed are as it last told them, so they may be short by what it did in its last 100 ms. Methods that name
    a client raise `ClientError` if there is no such client.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._readers = scenario.readers
        self._lock = threading.RLock()
        self._lives: dict[str, list[ClientState]] = {}
        self._entries: dict[str, Entry] = {
            e.name: e for e in (*scenario.producers, *scenario.consumers, *scenario.processors)
        }

    def clients(self, entry: str) -> list[str]:
        """The ids of an entry's clients."""
        if entry not in self._entries:
            raise ClientError(f"the scenario has no client entry {entry!r} (known: {', '.join(self._entries)})")
        found = self._entries[entry]
        count = found.count if isinstance(found, Producer) else found.members
        return [f"{entry}/{number}" for number in range(1, count + 1)]

    def present(self, entry: str) -> list[str]:
        """The ids of an entry's clients that have been started: one that is to join later has not."""
        with self._lock:
            return [client for client in self.clients(entry) if client in self._lives]

    def state(self, client: str) -> ClientState:
        """The present or last life of a client."""
        with self._lock:
            lives = self._lives.get(client)
            if not lives:
                raise ClientError(
                    f"there is no client {client} (known: {', '.join(sorted(self._lives)) or 'none yet'})"
                )
            return lives[-1]

    def _lives_of(self, entry: str) -> list[ClientState]:
        with self._lock:
            return [life for client in self.clients(entry) for life in self._lives.get(client, [])]

    def wait_assigned(self, timeout_s: float) -> None:
        """Wait until the members of each group together hold every partition, each partition once, and every assign
        consumer holds all of its own (one that waits for a time or an offset to come only has to run).

        Raises `WaitTimeout`.
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
            wanted = sorted(
                partition_name((t.name, p))
                for t in self._scenario.topics
                if entry.topics_among([t.name]) and not t.later
                for p in range(t.partitions)
            )
            if isinstance(entry, Assign):
                missing += [
                    f"{c} holds {len(has)} of {len(wanted)}" for c, has in held.items() if sorted(has) != wanted
                ]
            elif sorted(p for has in held.values() for p in has) != wanted:
                missing.append(f"{entry.name}: {', '.join(f'{c} holds {len(has)}' for c, has in held.items())}")
        return missing

    def total_sent(self) -> int:
        """Records that all producers together have given to their client library."""
        return self._total("sent")

    def total_acked(self) -> int:
        """Records that were acknowledged to all producers together."""
        return self._total("acked")

    def acked(self, entry: str) -> int:
        """Records that were acknowledged to all lives of a producer entry."""
        return self._count("acked", entry)

    def _total(self, count: str) -> int:
        return sum(self._count(count, p.name) for p in self._scenario.producers)

    def _count(self, count: str, entry: str) -> int:
        return sum(life.count(count) for life in self._lives_of(entry))

    def producers_done(self) -> bool:
        """Whether every producer has sent all it has to send, and has an answer or a time-out for each record."""
        return all(s.progress().get("done", False) or (s.asked_to_end and not s.alive) for s in self._producer_states())

    def _producer_states(self) -> list[ClientState]:
        return [self.state(c) for p in self._scenario.producers for c in self.clients(p.name)]

    def delivered(self, entry: str) -> int:
        """Records processed by all clients of a consumer entry; redeliveries count again."""
        return self._count("delivered", entry)

    def positions(self, reader: str) -> dict[str, int]:
        """Next offset after the last processed record, by `topic/partition`, of what is held now.

        A reader is one client (`replay/1`), or an entry: then it is the group, and a partition that two members claim
        is as far as the one that is further back.
        """
        clients = [reader] if "/" in reader else self.present(reader)
        found: dict[str, int] = {}
        for client in clients:
            state = self.state(client)
            for partition, offset in state.positions().items():
                found[partition] = min(offset, found.get(partition, offset))
        return found
