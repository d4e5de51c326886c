"""Bare client loops, the baseline of the benchmark: `python -m tests.bench.bare_clients SPEC`.

They read the specs of `chaos.clients.protocol`, send the events that a measurement needs, and write no ledger. If `gc`
is false in the spec, they disable the search for reference cycles, as our clients do and most applications do not. If
`read_messages` is true, the consumer reads the error and value of each message, as every application must; otherwise it
only counts the messages.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer


def send(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


def produce(spec: dict[str, Any]) -> float:
    """Produce with a callback that counts reports and a poll every 500 records. Returns the seconds it took.

    rate: records/s at most, if the spec has one.
    """
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
            if "rate" in spec:
                time.sleep(max(0.0, began + i / spec["rate"] - time.perf_counter()))
    producer.flush()
    assert acked == records
    return time.perf_counter() - began


def consume(spec: dict[str, Any]) -> float:
    """Consume, with a commit after each batch if the spec says so. Returns the seconds it took."""
    consumer = Consumer(
        {"bootstrap.servers": spec["bootstrap"], "group.id": spec["group"], "enable.auto.commit": False}
        | spec["config"]
    )
    consumer.subscribe(spec["topics"])
    size, commit = spec["max_poll_records"], spec["commit"]
    commits, asynchronous = commit["when"] == "after_batch", commit["kind"] == "async"
    count = 0
    while not count:
        count = len(consumer.consume(size, 0.1))
    began = time.perf_counter()
    while count < spec["records"]:
        batch = consumer.consume(size, 0.1)
        count += _read(batch) if spec["read_messages"] else len(batch)
        if commits and batch:
            consumer.commit(asynchronous=asynchronous)
    took = time.perf_counter() - began
    send("progress", done=True, delivered=count, took_s=took)
    consumer.close()
    return took


def _read(batch: list[Message]) -> int:
    count = 0
    for message in batch:
        if message.error() is None and message.value() is not None:
            count += 1
    return count


def main(path: str) -> None:
    spec = json.loads(Path(path).read_bytes())
    if not spec["gc"]:
        gc.disable()
    send("started")
    took = produce(spec) if "topic" in spec else consume(spec)
    send("progress", done=True, delivered=spec["records"], took_s=took)


if __name__ == "__main__":
    main(sys.argv[1])
