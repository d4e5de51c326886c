"""The bare loops that clients with a ledger are measured against: `python -m tests.bench.bare_clients SPEC`.

They take the specs of `chaos.clients.protocol`, tell as much of its protocol as a measurement needs, and write nothing.
With `gc` false in the spec they switch the search for reference cycles off, as the clients do: few loops out there have
thought of it. With `look` the consumer asks each message for its error and its value, as whoever wants the records has
to; without, it only counts what a batch holds.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer


def tell(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


def produce(spec: dict[str, Any]) -> float:
    """`produce` with a delivery callback that counts, and a poll every 500 records."""
    producer = Producer({"bootstrap.servers": spec["bootstrap"], **spec["config"]})
    topic, value, records = spec["topic"], b"x" * spec["value_size"], spec["records"]
    acked = 0

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        nonlocal acked
        if error is None:
            acked += 1

    began = time.perf_counter()
    for i in range(records):
        while True:
            try:
                producer.produce(topic, value, None, -1, on_delivery)
                break
            except BufferError:
                producer.poll(0.01)
        if i % 500 == 0:
            producer.poll(0)
    producer.flush()
    assert acked == records
    return time.perf_counter() - began


def consume(spec: dict[str, Any]) -> float:
    """`consume`, and a commit after each batch where the spec has one."""
    consumer = Consumer(
        {"bootstrap.servers": spec["bootstrap"], "group.id": spec["group"], "enable.auto.commit": False}
        | spec["config"]
    )
    consumer.subscribe(spec["topics"])
    size, commit = spec["max_poll_records"], spec["commit"]
    commits, asynchronous = commit["when"] == "after_batch", commit["kind"] == "async"
    seen = 0
    while not seen:
        seen = len(consumer.consume(size, 0.1))
    began = time.perf_counter()
    while seen < spec["records"]:
        batch = consumer.consume(size, 0.1)
        seen += _looked_at(batch) if spec["look"] else len(batch)
        if commits and batch:
            consumer.commit(asynchronous=asynchronous)
    took = time.perf_counter() - began
    tell("progress", done=True, delivered=seen, took_s=took)
    consumer.close()
    return took


def _looked_at(batch: list[Message]) -> int:
    seen = 0
    for message in batch:
        if message.error() is None and message.value() is not None:
            seen += 1
    return seen


def main(path: str) -> None:
    spec = json.loads(Path(path).read_bytes())
    if not spec["gc"]:
        gc.disable()
    tell("started")
    took = produce(spec) if "topic" in spec else consume(spec)
    tell("progress", done=True, delivered=spec["records"], took_s=took)


if __name__ == "__main__":
    main(sys.argv[1])
