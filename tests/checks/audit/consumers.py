"""Consumers of the miniature cluster: what they do with the partitions they hold, and the group that hands them out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.checks.audit.histories import TOPIC
from tests.checks.audit.oracle import Row
from tests.checks.audit.simulation import Brokers, Partition


@dataclass
class Grip:
    """A partition in the hands of a consumer. gone: it was taken away, which the consumer does not know yet."""

    partition: Partition
    assignment: int
    position: int
    gone: bool = False


@dataclass
class Consumer:
    """One consumer process over all its incarnations; `when` and `kind` are how it commits."""

    brokers: Brokers
    name: str
    group: str | None
    mode: str
    when: str = "after_batch"
    kind: str = "sync"
    incarnation: int = 0
    alive: bool = False
    generation: int | None = None
    assignment: int = 0
    ordinal: int = 0
    grips: dict[int, Grip] = field(default_factory=dict)
    checkpoint: dict[int, int] = field(default_factory=dict)

    def start(self) -> None:
        self.incarnation += 1
        self.alive, self.generation, self.assignment, self.ordinal = True, None, 0, 0
        self.brokers.life(self.name, "consumer", self.incarnation, "started")

    def _who(self, grip: Grip) -> Row:
        return {
            "consumer": self.name,
            "incarnation": self.incarnation,
            "group": self.group,
            "mode": self.mode,
            "assignment": grip.assignment,
            "topic": TOPIC,
            "partition": grip.partition.number,
        }

    def _event(self, event: str, grip: Grip, source: str | None = None, position: int | None = None) -> None:
        member = f"{self.name}-{self.incarnation}" if self.mode == "subscribe" else None
        row = {"member_id": member, "generation": self.generation, "event": event, "source": source}
        row |= {"position": position, "at_us": self.brokers.tick()}
        self.brokers.rows["assignments"].append(self._who(grip) | row)

    def take(self, partition: Partition, position: int, source: str | None, recorded: bool = True) -> None:
        """Begin to read a partition. recorded: the position is on record."""
        self.assignment += 1
        grip = Grip(partition, self.assignment, position)
        self.grips[partition.number] = grip
        event = "seek" if source == "seek" else "assigned"
        self._event(event, grip, source if recorded else None, position if recorded else None)
        if not recorded and not partition.after(position, 1) and self.brokers.maybe(0.5):
            self._event("position", grip, position=position)

    def give_up(self, number: int, event: str) -> None:
        grip = self.grips.pop(number)
        self._event(event, grip, position=grip.position)

    def seek(self) -> None:
        if self.grips:
            grip = self.brokers.rng.choice(list(self.grips.values()))
            if not grip.gone:
                position = self.brokers.rng.randint(grip.partition.start, grip.partition.end)
                self.take(grip.partition, position, "seek")

    def poll(self, most: int = 3) -> None:
        """Process a batch of one partition and commit as configured."""
        if not self.alive or not self.grips:
            return
        grip = self.brokers.rng.choice(list(self.grips.values()))
        grip.position = min(max(grip.position, grip.partition.start), grip.partition.end)
        batch = grip.partition.after(grip.position, self.brokers.rng.randint(1, most))
        end = batch[-1] + 1 if batch else grip.position
        if batch and grip.partition.end == end + 1 and not grip.partition.after(end, 1):
            end += self.brokers.rng.randint(0, 1)  # past a marker
        if self.when == "before_processing":
            self.commit(grip, end)
            if self.brokers.maybe(0.15):
                self.crash()
                return
        for offset in batch:
            self._process(grip, offset)
            if self.when == "after_record":
                self.commit(grip, offset + 1)
        grip.position = end
        if self.when == "after_batch":
            self.commit(grip, end)

    def _process(self, grip: Grip, offset: int) -> None:
        b, record = self.brokers, grip.partition.records.get(offset)
        if record is None:  # the leader died meanwhile
            return
        self.ordinal += 1
        row = {"ordinal": self.ordinal, "offset": offset, "leader_epoch": 0, "producer": record["producer"]}
        row |= {"producer_incarnation": record["incarnation"], "seq": record["seq"], "polled_us": b.now}
        row["sent_us"] = b.sent_us.get((record["producer"], record["incarnation"], record["seq"]))
        b.rows["deliveries"].append(self._who(grip) | row | {"processed_us": b.tick()})
        grip.position = offset + 1
        self.checkpoint[grip.partition.number] = offset + 1

    def commit(self, grip: Grip, offset: int) -> None:
        """Ask for a commit. It may be refused, or made and never answered; asynchronous ones are answered later."""
        b = self.brokers
        if self.group is None or (self.kind == "auto" and b.maybe(0.5)):
            return
        outcome = "fail" if grip.gone else b.rng.choices(["ok", "unknown", "fail"], [88, 7, 5])[0]
        made = outcome == "ok" or (outcome == "unknown" and b.maybe(0.5))
        row = self._who(grip) | {"offset": offset, "kind": self.kind, "outcome": outcome}
        row |= {"error": None if outcome == "ok" else "_TIMED_OUT", "requested_us": b.now}
        if b.maybe(0.02):
            row["assignment"] = None  # answered when the partition was no longer held
        arrive = self._answer(row, made)
        if self.kind == "sync":
            b.tick()
            arrive()
        elif self.kind == "auto":
            self._make(row, made)
            b.later.append((b.now + b.rng.randint(1, 3_000), self._answer(row, False)))
        else:
            b.later.append((b.now + b.rng.randint(1, 6_000), arrive))

    def _make(self, row: Row, made: bool) -> None:
        if made:
            self.brokers.committed[row["group"], row["partition"]] = row["offset"]
            place = {name: row[name] for name in ("group", "topic", "partition", "offset")}
            for _ in range(1 + self.brokers.maybe(0.05)):  # the client may repeat a request
                self.brokers.rows["commit_log"].append(place | {"appended_us": self.brokers.now})

    def _answer(self, row: Row, made: bool) -> Callable[[], None]:
        incarnation = self.incarnation

        def arrive() -> None:
            self._make(row, made)
            if not self.alive or self.incarnation != incarnation:
                return  # its row died with the member
            now = {"completed_us": self.brokers.now}
            if row["kind"] == "auto":
                now["requested_us"] = self.brokers.now
            self.brokers.rows["commits"].append(row | now)

        return arrive

    def crash(self) -> None:
        """SIGKILL: the row of its last commit may be torn."""
        commits = self.brokers.rows["commits"]
        mine = [r for r in commits if (r["consumer"], r["incarnation"]) == (self.name, self.incarnation)]
        if mine and self.brokers.maybe(0.3):
            commits.remove(mine[-1])
        self.brokers.life(self.name, "consumer", self.incarnation, "crashed")
        self.alive = False
        self.grips.clear()

    def stop(self) -> None:
        if not self.alive:
            return
        for number in sorted(self.grips):
            self.give_up(number, "lost" if self.grips[number].gone else "revoked")
        self.brokers.life(self.name, "consumer", self.incarnation, "stopped")
        self.alive = False


@dataclass
class AssignConsumer(Consumer):
    """Reads every partition. begin: earliest, latest or group; keeps: whether it has a checkpoint;
    stores: whether that is apart from its results.
    """

    begin: str = "earliest"
    keeps: bool = True
    stores: bool = False
    stored: dict[int, int] = field(default_factory=dict)

    def step(self) -> None:
        if self.alive:
            if self.stores and self.brokers.maybe(0.3):
                self.store()
            self.poll()
            return
        self.start()
        for partition in self.brokers.partitions:
            committed = self.brokers.committed.get((self.group or "", partition.number))
            checkpoint = self.stored if self.stores else self.checkpoint
            if self.keeps and partition.number in checkpoint:
                self.take(partition, checkpoint[partition.number], "checkpoint")
            elif self.begin == "group" and committed is not None:
                self.take(partition, committed, "committed")
            else:
                position = partition.end if self.begin == "latest" else partition.start
                self.take(partition, position, "reset" if self.begin == "group" else "start")

    def store(self) -> None:
        """Complete a checkpoint of all partitions. It may have no row: then the process dies before it writes one."""
        self.stored = {number: grip.position for number, grip in self.grips.items()}
        if self.brokers.maybe(0.2):
            self.crash()
            return
        for grip in self.grips.values():
            self._event("checkpoint", grip, position=grip.position)


@dataclass
class Group:
    """A group and its coordinator. recorded: members know the generation. eager: rebalances revoke all partitions."""

    brokers: Brokers
    name: str
    members: list[Consumer]
    earliest: bool = True
    recorded: bool = True
    eager: bool = True
    generation: int = 0

    def step(self) -> None:
        """One member polls; now and then one dies, starts, joins, seeks, or the group is rebalanced."""
        rng = self.brokers.rng
        deeds: dict[Callable[[], Any], int] = {
            self._poll: 60,
            self.rebalance: 8,
            self._crash: 4,
            self._start: 10,
            self._seek: 2,
        }
        rng.choices(list(deeds), list(deeds.values()))[0]()

    def _alive(self) -> list[Consumer]:
        return [m for m in self.members if m.alive]

    def _poll(self) -> None:
        if alive := self._alive():
            self.brokers.rng.choice(alive).poll()
        else:
            self._start()

    def _crash(self) -> None:
        if alive := self._alive():
            self.brokers.rng.choice(alive).crash()

    def _seek(self) -> None:
        if alive := self._alive():
            self.brokers.rng.choice(alive).seek()

    def _start(self) -> None:
        if dead := [m for m in self.members if not m.alive]:
            self.brokers.rng.choice(dead).start()
            self.rebalance()

    def rebalance(self) -> None:
        """Take partitions away and hand them out. Who is thrown out learns of it later, and may go on until then."""
        b, alive = self.brokers, self._alive()
        if not alive:
            return
        thrown_out = b.rng.choice(alive) if len(alive) > 1 and b.maybe(0.2) else None
        for member in alive:
            for grip in [g for g in member.grips.values() if g.gone]:
                member.give_up(grip.partition.number, "lost")
        takers = [m for m in alive if m is not thrown_out]
        owners = {p.number: b.rng.choice(takers) for p in b.partitions}
        held = {n for m in takers for n in m.grips if not self.eager and owners[n] is m}
        for member in takers:
            for number in sorted(set(member.grips) - held):
                if b.maybe(0.5) and member.when != "never":
                    member.commit(member.grips[number], member.grips[number].position)
                member.give_up(number, "revoked")
        if thrown_out:
            for grip in thrown_out.grips.values():
                grip.gone = True
        self.generation += 1
        for partition in b.partitions:
            if partition.number not in held:
                self._hand_out(partition, owners[partition.number])

    def _hand_out(self, partition: Partition, member: Consumer) -> None:
        b = self.brokers
        member.generation = self.generation if self.recorded else None
        committed = b.committed.get((self.name, partition.number))
        if committed is not None and partition.start <= committed <= partition.end:
            member.take(partition, committed, "committed", recorded=not b.maybe(0.03))
        else:
            position = partition.start if self.earliest else partition.end
            member.take(partition, position, "reset", recorded=not b.maybe(0.03))
