"""Open transactions, and those that hang: open on a partition, while no coordinator has them (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kafka.protocol.admin import DescribeProducersRequest, DescribeTransactionsRequest, ListTransactionsRequest

from chaos.errors import AftershockError
from chaos.forensics.model import Finding, Findings, Transaction
from chaos.kafka import admin
from chaos.kafka.client import Kafka
from chaos.kafka.messages import request
from chaos.kafka.partition import TopicPartition
from chaos.report.text import duration

STATE_TOPIC = "__transaction_state"
GOING = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""States in which a coordinator has still to write markers."""
AUTHORIZER, LONGEST = "authorizer.class.name", "transaction.max.timeout.ms"


@dataclass(frozen=True)
class OnPartition:
    """A transaction that a partition has open."""

    partition: TopicPartition
    producer_id: int
    epoch: int
    start_offset: int
    last_ms: int


@dataclass(frozen=True)
class AtCoordinator:
    """A transaction as its coordinator has it. partitions: those that wait for a marker."""

    transactional_id: str
    producer_id: int
    epoch: int
    state: str
    start_ms: int
    timeout_ms: int
    partitions: frozenset[tuple[str, int]]


@dataclass
class Seen:
    """What was asked. before, after: open on partitions, before and after all coordinators were asked.

    complete: empty, or why a coordinator may have a transaction that is not listed. restricted: whether the cluster
    may hide transactional ids from the user. longest_ms: the longest time-out of a transaction, None if unknown.
    """

    before: list[OnPartition] = field(default_factory=list)
    after: list[OnPartition] = field(default_factory=list)
    listed: list[AtCoordinator] = field(default_factory=list)
    complete: str = ""
    restricted: bool = True
    longest_ms: int | None = None


def ask(kafka: Kafka, partitions: Iterable[TopicPartition]) -> tuple[Seen, str]:
    """Return what partitions and coordinators say, and why it is not all; empty if it is."""
    apis = DescribeProducersRequest, DescribeTransactionsRequest, ListTransactionsRequest
    unstable, silent = [], []
    stable = kafka.stable_offsets(wanted := list(partitions))
    for partition in wanted:
        if partition not in stable:
            silent.append(str(partition))
        elif stable[partition][1] < stable[partition][0]:
            unstable.append(partition)
    problem = f"transactions: the leaders of {_some(silent)} do not answer" if silent else ""
    if not all(kafka.supports(api.API_KEY) for api in apis):
        held = f"; transactions are open on {_some(map(str, unstable))}" if unstable else ""
        return Seen(), f"transactions: brokers before Kafka 3.0 do not say which ones are open (KIP-664){held}"
    seen, led = Seen(), _leaders(kafka)
    seen.before, refused = _open_on(kafka, unstable)
    seen.listed, seen.complete = _at_coordinators(kafka)
    seen.after, _ = _open_on(kafka, unstable)
    if None in led.values() or led != _leaders(kafka):
        seen.complete = f"coordinators moved, or partitions of {STATE_TOPIC} have no leader"
    seen.restricted, seen.longest_ms = limits(kafka)
    if refused:
        problem = f"transactions: {refused}"
    return seen, problem


def _leaders(kafka: Kafka) -> dict[TopicPartition, tuple[int, int] | None]:
    metadata = kafka.metadata()
    found = metadata.partitions.items() if metadata else ()
    return {p: (s.leader, s.leader_epoch) if s.leader >= 0 else None for p, s in found if p.topic == STATE_TOPIC}


def _open_on(kafka: Kafka, partitions: Iterable[TopicPartition]) -> tuple[list[OnPartition], str]:
    """Return the transactions that partitions have open, and why some do not say."""
    found, refused = [], []
    for partition in partitions:
        state = kafka.state(partition)
        message = request(
            DescribeProducersRequest[0],
            topics=[{"name": partition.topic, "partition_indexes": [partition.number]}],
        )
        answer = kafka.ask(state.leader, message) if state else None
        of = answer.topics[0].partitions[0] if answer and answer.topics else None
        if of is None or of.error_code:
            refused.append(f"{partition} ({of.error_message or of.error_code if of else 'no answer'})")
            continue
        found += [
            OnPartition(partition, p.producer_id, p.producer_epoch, p.current_txn_start_offset, p.last_timestamp)
            for p in of.active_producers
            if p.current_txn_start_offset >= 0
        ]
    return found, f"no list of producers of {_some(refused)}; it needs the right Read" if refused else ""


def _at_coordinators(kafka: Kafka) -> tuple[list[AtCoordinator], str]:
    """Return what all coordinators have, and why some may have more; empty if none has."""
    found, problems, metadata = list[AtCoordinator](), list[str](), kafka.metadata()
    for broker in metadata.brokers if metadata else ():
        answer = kafka.ask(broker, ListTransactionsRequest[0](state_filters=list(GOING), producer_id_filters=[]))
        if answer is None or answer.error_code:
            problems.append(f"broker {broker} does not list its transactions")
            continue
        ids = [t.transactional_id for t in answer.transaction_states]
        described = kafka.ask(broker, DescribeTransactionsRequest[0](transactional_ids=ids)) if ids else None
        if ids and described is None:
            problems.append(f"broker {broker} does not describe its transactions")
        for t in described.transaction_states if described else ():
            parts = frozenset((of.topic, p) for of in t.topics for p in of.partitions)
            times = t.transaction_start_time_ms, t.transaction_timeout_ms
            if not t.error_code:
                found.append(
                    AtCoordinator(
                        t.transactional_id, t.producer_id, t.producer_epoch, t.transaction_state, *times, parts
                    )
                )
            elif t.transactional_id:
                problems.append(f"{t.transactional_id} is not described (error {t.error_code})")
    return found, _some(problems) if metadata else "no broker answers"


def limits(kafka: Kafka) -> tuple[bool, int | None]:
    """Return whether the cluster may hide something from the user, and the longest time-out of a transaction in ms.

    Without an answer it may, and the time-out is None. Only an authorizer hides topics and transactional ids.
    """
    metadata = kafka.metadata()
    for broker in list(metadata.brokers)[:1] if metadata else ():
        try:
            found = admin.broker_settings(kafka, broker, (AUTHORIZER, LONGEST))
        except AftershockError:
            break
        longest_ms = int(found[LONGEST].value) if LONGEST in found else None
        return AUTHORIZER not in found or bool(found[AUTHORIZER].value), longest_ms
    return True, None


def judge(seen: Seen, now_ms: int, findings: Findings) -> list[Transaction]:
    """Return the open transactions, and add those that hang."""
    again = {(t.partition, t.producer_id, t.start_offset) for t in seen.after}
    by_producer = {t.producer_id: t for t in seen.listed}
    rows = []
    for held in seen.before:
        if (held.partition, held.producer_id, held.start_offset) not in again:
            continue  # it ended meanwhile
        known = by_producer.get(held.producer_id)
        row = Transaction(
            state="open",
            transactional_id=known.transactional_id if known else None,
            producer_id=held.producer_id,
            epoch=held.epoch,
            partition=str(held.partition),
            start_offset=held.start_offset,
            since_us=known.start_ms * 1000 if known and known.start_ms > 0 else held.last_ms * 1000,
        )
        has_it = known is not None and (held.partition.topic, held.partition.number) in known.partitions
        if has_it and known:
            row.words = f"{known.state} at its coordinator, time-out {duration(known.timeout_ms * 1000)}"
        else:
            _decide(row, held, known, seen, now_ms)
        rows.append(row)
        if row.state == "hanging":
            where = f"{held.partition} from offset {held.start_offset:,}"
            words = f"producer id {held.producer_id}, epoch {held.epoch}: {row.words}"
            at = (
                f"--topic {held.partition.topic} --partition {held.partition.number} --start-offset {held.start_offset}"
            )
            abort = f"kafka-transactions.sh abort {at}"
            findings.add(Finding(kind="hanging", where=where, at_us=row.since_us, words=words, place=abort))
    return rows + _without_partition(seen, rows)


def _decide(row: Transaction, held: OnPartition, known: AtCoordinator | None, seen: Seen, now_ms: int) -> None:
    """Decide on a transaction that no coordinator has on its partition."""
    other = f"{known.transactional_id} is {known.state} without this partition" if known else "no coordinator has it"
    age_ms = now_ms - held.last_ms
    long_over = seen.longest_ms is not None and age_ms > seen.longest_ms
    last = f"its last record is {duration(age_ms * 1000)} old"
    if known is None and seen.complete:
        row.state, row.words = "undecided", f"{last}, and not all coordinators say what they have: {seen.complete}"
    elif known is None and seen.restricted and not long_over:
        row.state = "undecided"
        row.words = f"{other} that this user may see; {last}: it hangs, or its transactional id is hidden"
    else:
        row.state, row.words = "hanging", f"{other}; {last}"


def _without_partition(seen: Seen, rows: Iterable[Transaction]) -> list[Transaction]:
    """Return the transactions that coordinators have, and no partition of `rows` shows."""
    shown = {row.producer_id for row in rows}
    return [
        Transaction(
            state="open",
            transactional_id=t.transactional_id,
            producer_id=t.producer_id,
            epoch=t.epoch,
            since_us=t.start_ms * 1000 if t.start_ms > 0 else None,
            words=f"{t.state} at its coordinator with {len(t.partitions)} partitions; none had it open when asked",
        )
        for t in seen.listed
        if t.producer_id not in shown
    ]


def _some(names: Iterable[str]) -> str:
    """Return the first names of a list."""
    named = list(names)
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    return ", ".join(named[:3]) + more
