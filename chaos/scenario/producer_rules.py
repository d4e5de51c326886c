"""Rules for the clients that write, and for the faults that hit them. Each problem names the key and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, get_args

from chaos.scenario.producers import OwnPartitioner, Producer, Transactions
from chaos.scenario.triggers import split_member

if TYPE_CHECKING:
    from chaos.kafka.settings import Config
    from chaos.scenario.model import Scenario

_OF_TRANSACTIONS = ("transactional.id", "transaction.timeout.ms")


def producer_problems(s: Scenario) -> Iterator[str]:
    """What does not fit together in producers, processors, and the faults that hit them."""
    for i, p in enumerate(s.producers):
        yield from _sending(f"producers[{i}]", p)
        yield from _transactional(f"producers[{i}].config", p.config, p.transactions)
    known = {t.name for t in s.topics}
    for i, processor in enumerate(s.processors):
        for key, topics in (("topics", processor.topics), ("to", [processor.to])):
            for topic in topics:
                if topic not in known:
                    yield f"processors[{i}].{key}: {topic!r} is not one of the topics ({', '.join(sorted(known))})"
        if processor.to in processor.topics:
            yield f"processors[{i}].to: {processor.to} is read by it too, so it would never end"
        yield from _transactional(f"processors[{i}].config", processor.config, processor.transactions)
        for key in ("group.id", "enable.auto.commit", "enable.auto.offset.store"):
            if key in processor.consumer_config:
                yield f"processors[{i}].consumer_config: {key} is set by Aftershock itself"
    yield from _targets(s)


def _sending(where: str, p: Producer) -> Iterator[str]:
    if p.transactions and p.mode != "callback":
        yield f"{where}.mode: transactions wait for all their records themselves, {p.mode} says nothing there"
    if p.transactions and p.resend:
        yield f"{where}.resend: a transactional producer goes on by its transactions, not by single records"
    if p.partitioner == "by_key_number" and p.keys is None:
        yield f"{where}.partitioner: by_key_number needs keys"
    if p.partitioner == "sticky" and p.keys is not None:
        yield f"{where}.partitioner: sticky is for records without a key, and keys are given"
    if p.partitioner is not None and p.partitioner not in get_args(OwnPartitioner) and "partitioner" in p.config:
        yield f"{where}.config: partitioner is given twice"


def _transactional(where: str, config: Config, transactions: Transactions | None) -> Iterator[str]:
    for key in _OF_TRANSACTIONS:
        if key in config:
            yield f"{where}: {key} is set by Aftershock itself; use transactions instead"
    if transactions is not None and str(config.get("enable.idempotence", True)).lower() == "false":
        yield f"{where}: transactions need enable.idempotence"
    if transactions is not None and str(config.get("acks", "all")) not in ("all", "-1"):
        yield f"{where}: transactions need acks=all"


def _targets(s: Scenario) -> Iterator[str]:
    """producer.* hits producers and processors, consumer.* hits consumers."""
    counts = {p.name: p.count for p in s.producers} | {p.name: p.members for p in s.processors}
    for i, fault in enumerate(s.faults):
        role = fault.kind.partition(".")[0]
        given = fault.target.given()
        where = f"faults[{i}].target"
        if role not in ("producer", "consumer") or not given.keys() & {"member", "random_member"}:
            continue
        ((kind, value),) = given.items()
        name, number = split_member(value) if kind == "member" else (value, 1)
        if role == "consumer" and name in counts:
            yield f"{where}.{kind}: {name!r} writes; {fault.kind} is for consumers"
        elif role == "producer" and name not in counts:
            yield f"{where}.{kind}: {name!r} is not one of the producers ({', '.join(counts)})"
        elif role == "producer" and number > counts[name]:
            yield f"{where}.{kind}: {name} has members 1 to {counts[name]}, not {number}"
        if fault.kind == "producer.fence" and name in {p.name for p in s.producers if not p.transactions}:
            yield f"{where}.{kind}: {name} has no transactions, so nothing can fence it"
        if fault.kind == "producer.crash" and fault.unreported:
            writers = [p for p in s.producers if p.name == name and p.count == 1 and not p.transactions]
            if not writers:
                yield f"faults[{i}].unreported: needs a producer without transactions that is one process"
            elif sum(1 for p in s.producers if p.topic == writers[0].topic) > 1:
                yield f"faults[{i}].unreported: others write to {writers[0].topic}, so its records cannot be told apart"
