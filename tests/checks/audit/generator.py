"""Whole run histories: hypothesis chooses the plan of a run, the miniature cluster carries it out.

Some plans have anomalies planted into the ledger afterwards (see `planting`), some are disturbed by arbitrary changes
of single rows (see `mutations`), so that checks meet combinations that no story has.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.checks.audit.consumers import AssignConsumer, Consumer, Group
from tests.checks.audit.histories import PART, History
from tests.checks.audit.mutations import disturb
from tests.checks.audit.oracle import Row
from tests.checks.audit.planting import PLANTED
from tests.checks.audit.sharing import Sharing
from tests.checks.audit.simulation import KEYS, Brokers, Partition, Producer
from tests.checks.audit.transacting import process, transact, watch

PARTITIONERS = ("round_robin", "by_key_number", "murmur2", "consistent")


@dataclass(frozen=True)
class Plan:
    """What a run is like. seed decides what happens in it. planted: so many anomalies, of whatever kind.

    second_entry: settings of a second entry of the group, to which the last of its members belongs.
    """

    seed: int
    steps: int
    partitions: int
    producers: int
    acks: str
    members: int
    when: str
    kind: str
    earliest: bool
    recorded: bool
    eager: bool
    assign: str
    crashes: int
    failovers: int
    drained: bool
    log: str
    first_offset: int
    first_seq: int
    planted: int
    noise: int
    parts: int
    transactions: str
    processes: bool
    watched: bool
    sending: str
    tombstones: tuple[int, int]
    shares: bool
    settings: tuple[tuple[str, str], ...]
    second_entry: tuple[tuple[str, str], ...]


_numbers = st.sampled_from([0] * 12 + [(1 << bits) - below for bits in (20, 20, 31, 40) for below in (1, 2, 4, 7)])
"""Where offsets and seqs begin: the audit looks at blocks of 2^20 of each, so some histories lie across a border."""

plans = st.builds(
    Plan,
    seed=st.integers(0, 2**48),
    steps=st.integers(2, 40),
    partitions=st.integers(1, 3),
    producers=st.integers(1, 2),
    acks=st.sampled_from(["all", "1", "0"]),
    members=st.integers(0, 3),
    when=st.sampled_from(["after_batch", "after_record", "before_processing", "never"]),
    kind=st.sampled_from(["sync", "async", "auto"]),
    earliest=st.booleans(),
    recorded=st.booleans(),
    eager=st.booleans(),
    assign=st.sampled_from(["none", "alone", "checkpoint", "fresh", "group", "pair", "intruder"]),
    crashes=st.integers(0, 3),
    failovers=st.sampled_from([0, 0, 0, 1, 2]),
    drained=st.booleans(),
    log=st.sampled_from(["whole", "whole", "markers", "compacted", "compacted", "retained"]),
    first_offset=_numbers,
    first_seq=_numbers,
    planted=st.sampled_from([0, 0, 1, 2, 3]),
    noise=st.sampled_from([0, 0, 0, 1, 2, 5]),
    parts=st.integers(1, 3),
    transactions=st.sampled_from(["none", "none", "none", "sound", "leaking"]),
    processes=st.sampled_from([False, False, False, True]),
    watched=st.booleans(),
    sending=st.sampled_from(["", "", "", "forgotten", *PARTITIONERS]),
    tombstones=st.sampled_from([(0, 0), (0, 0), (2, 30), (3, 30), (4, 86_400_000)]),
    shares=st.sampled_from([False, False, True]),
    settings=st.sampled_from(
        [
            (),
            (),
            (("isolation.level", "read_uncommitted"),),
            (("partition.assignment.strategy", "roundrobin"),),
            (("partition.assignment.strategy", "mine"),),
            (("group.protocol", "consumer"),),
        ]
    ),
    second_entry=st.sampled_from(
        [
            (),
            (),
            (("auto.offset.reset", "latest"),),
            (("auto.offset.reset", "earliest"), ("partition.assignment.strategy", "roundrobin,range")),
        ]
    ),
)


class Run:
    """A plan being carried out."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.rng = plan, random.Random(plan.seed)
        self.brokers = Brokers(self.rng, [self._partition(n) for n in range(plan.partitions)], plan.log == "markers")
        self.brokers.keyed = plan.log == "compacted"
        self.brokers.tombstone_every = plan.tombstones[0]
        self.producers = [
            Producer(self.brokers, f"p/{n + 1}", plan.acks, seq=plan.first_seq) for n in range(plan.producers)
        ]
        names = [f"c/{n + 1}" for n in range(plan.members)]
        if self.second_entry:
            names[-1] = "d/1"
        members = [Consumer(self.brokers, name, "g", "subscribe", plan.when, plan.kind) for name in names]
        self.group = Group(self.brokers, "g", members, plan.earliest, plan.recorded, plan.eager)
        self.assigned = [self._assign_consumer(n) for n in range(_ASSIGNED.get(plan.assign, 1))]

    @property
    def second_entry(self) -> dict[str, str]:
        """The settings of the second entry of the group; empty if it has one entry only."""
        settings, strategy = dict(self._settings), "partition.assignment.strategy"
        found = settings | dict(self.plan.second_entry) if self.plan.second_entry and self.plan.members > 1 else {}
        if strategy in found and "group.protocol" in settings:
            del found[strategy]
        elif strategy in found and strategy in settings:  # it supports the strategy of the first entry, too
            found[strategy] = ",".join(dict.fromkeys([*found[strategy].split(","), settings[strategy]]))
        return found

    def _partition(self, number: int) -> Partition:
        """What was before its first record is gone, or (not too much of it) was never there."""
        first = self.plan.first_offset
        return Partition(number, start=0 if first < 1 << 21 and self.rng.random() < 0.5 else first, end=first)

    def _assign_consumer(self, n: int) -> AssignConsumer:
        group = {"alone": None, "intruder": "g"}.get(self.plan.assign, "s")
        begin = {"pair": "group", "group": "group"}.get(
            self.plan.assign, "earliest" if self.plan.earliest else "latest"
        )
        keeps = self.plan.assign not in ("fresh", "pair", "group")
        when = "never" if self.plan.assign == "alone" else "after_batch"
        kind = "sync" if self.plan.kind == "auto" else self.plan.kind
        name, stores = f"a/{n + 1}", self.plan.assign == "checkpoint" and not self.plan.seed % 2
        return AssignConsumer(self.brokers, name, group, "assign", when, kind, begin=begin, keeps=keeps, stores=stores)

    def carry_out(self) -> History:
        for _ in range(self.plan.steps):
            self._step()
        self._crash_and_fail()
        for _ in range(self.plan.steps // 2):
            self._step()
        self._end()
        rows = defaultdict(list, {table: list(listed) for table, listed in self.brokers.rows.items()})
        if self.plan.transactions != "none":
            transact(self.rng, rows, hide=self.plan.transactions == "sound")
        if self.plan.watched:
            watch(self.rng, rows, self.plan.partitions, "g" if self.plan.members else None)
        if self.plan.sending in PARTITIONERS[1:] and self.plan.log != "compacted":
            for send in rows["sends"]:
                send["key"] = self.rng.choice([None, *(f"k{n}" for n in range(KEYS))])
        if self._processes:
            process(self.rng, rows, self._counts)
        shared = self.plan.shares and not self.plan.tombstones[0]  # the Java client reads no tombstones
        self.sharing = Sharing(self.rng, rows) if shared else None
        if self.sharing:
            self.sharing.carry_out()
        for name in self.rng.sample(sorted(PLANTED), self.plan.planted):
            PLANTED[name](self.rng, rows)
        disturb(self.rng, rows, self.plan.noise)
        spread(self.rng, rows, self.plan.parts)
        return self._history(rows)

    @property
    def _processes(self) -> bool:
        """Whether the members of the group are processors; they commit synchronously and know no other settings."""
        return self.plan.processes and bool(self.plan.members)

    @property
    def _counts(self) -> bool:
        """Whether the processors count by key: processors of Kafka Streams do, alone in their group."""
        alone = not self.plan.second_entry and self.plan.assign != "intruder"
        return self._processes and alone and self.plan.log != "compacted"

    def _step(self) -> None:
        actors: list[Any] = [(p.step, 3) for p in self.producers]
        actors += [(c.step, 2) for c in self.assigned]
        actors += [(self.group.step, 6)] if self.plan.members else []
        actors += [(self.brokers.observe, 1)]
        self.rng.choices([a for a, _ in actors], [w for _, w in actors])[0]()

    def _crash_and_fail(self) -> None:
        everybody: list[Producer | Consumer] = [*self.producers, *self.group.members, *self.assigned]
        for client in self.rng.sample(everybody, min(len(everybody), self.plan.crashes)):
            if client.alive:
                client.crash()
        for _ in range(self.plan.failovers):
            self.brokers.fail_over()
            self._step()
        if self.plan.log == "retained":
            self.brokers.retain()

    def _end(self) -> None:
        """The drain: everybody reads what is there, unless the run is cut short. Then all stop and the log is read."""
        consumers = [*self.group.members, *self.assigned]
        if self.plan.members and not any(m.grips for m in self.group.members):
            self.group._start()
        for consumer in consumers:
            for _ in range(4 * len(self.brokers.partitions) * self.plan.drained):
                consumer.poll(most=9)
        self.brokers.tick(10_000)
        clients: list[Producer | Consumer] = [*self.producers, *consumers]
        for client in clients:
            client.stop()
        if self.plan.log == "compacted":
            self.brokers.compact()
        self.brokers.read_back()

    @property
    def _settings(self) -> tuple[tuple[str, str], ...]:
        """The settings of the plan. Assignors of the user need the Java client, which cannot do all that plans do."""
        removed = self.plan.tombstones[0] and self.plan.log == "compacted"
        stores = self.plan.kind == "auto" and self.plan.when != "after_batch"
        without = removed or stores or self.plan.processes  # the processors are programs of librdkafka
        return tuple(pair for pair in self.plan.settings if not (without and pair[1] == "mine"))

    def _history(self, rows: dict[str, list[Row]]) -> History:
        plan = self.plan
        reset = {"auto.offset.reset": "earliest" if plan.earliest else "latest"} | dict(
            () if self._counts else self._settings
        )
        entries: list[dict[str, Any]] = []
        if plan.members:
            commit = {"when": plan.when, "kind": plan.kind}
            entry = {"mode": "subscribe", "name": "c", "group": "g", "members": plan.members - bool(self.second_entry)}
            entries.append(entry | {"commit": commit, "config": reset})
            if self.second_entry:
                entries.append(
                    entry | {"name": "d", "members": 1, "commit": commit, "config": reset | self.second_entry}
                )
        if self.assigned:
            one = self.assigned[0]
            entry = {"mode": "assign", "name": "a", "members": len(self.assigned), "start": one.begin}
            own = {name: value for name, value in reset.items() if value != "mine"}  # nothing assigns its partitions
            entry |= {"checkpoint": one.keeps, "commit": {"when": one.when, "kind": one.kind}, "config": own}
            entry |= {"checkpoint_every": 1} if one.stores else {}
            entries.append(entry | ({"group": one.group} if one.group else {}))
        if self.sharing:
            entries.append(self.sharing.entry())
        return History(
            rows=dict(rows),
            partitions=plan.partitions,
            producers=plan.producers,
            topic_config=self._topic_config(),
            producer_config={"acks": plan.acks},
            consumers=tuple(entries),
            sending=self._sending(),
            processes=self._processes,
            counts=self._counts,
        )

    def _topic_config(self) -> dict[str, Any]:
        """Two of three topics have a retention; from the others, nothing may delete records but a fault."""
        retained = bool(self.plan.seed % 3)
        policies = ["compact"] * (self.plan.log == "compacted") + ["delete"] * (self.plan.seed % 2)
        config = {"cleanup.policy": ",".join(policies)} if policies else {}
        every, held_ms = self.plan.tombstones
        held = {"delete.retention.ms": held_ms} if every and self.plan.log == "compacted" else {}
        return config | held | ({"retention.bytes": 1000} if retained else {"retention.ms": -1})

    def _sending(self) -> dict[str, Any]:
        keyed = self.plan.sending in PARTITIONERS[1:] or self.plan.log == "compacted" or self._counts
        keys = {"keys": KEYS} if keyed else {}
        if self.plan.tombstones[0] and self.plan.log == "compacted":
            keys |= {"tombstone_every": self.plan.tombstones[0]}
        if self.plan.sending == "forgotten":
            return {"mode": "fire_and_forget"} | keys
        return {"partitioner": self.plan.sending} | keys if self.plan.sending else keys


def spread(rng: random.Random, rows: dict[str, list[Row]], parts: int) -> None:
    """Lay each table in several files, cut anywhere; then a consumer's deliveries lie in the order of processing."""
    if parts == 1:
        return
    rows["deliveries"] = sorted(rows.get("deliveries", []), key=lambda row: row["ordinal"])
    for table, listed in rows.items():
        borders = sorted(rng.randint(0, len(listed)) for _ in range(parts - 1))
        rows[table] = [row | {PART: bisect_right(borders, n)} for n, row in enumerate(listed)]


_ASSIGNED = {"none": 0, "pair": 2}


def carry_out(plan: Plan) -> History:
    return Run(plan).carry_out()


histories = plans.map(carry_out)
