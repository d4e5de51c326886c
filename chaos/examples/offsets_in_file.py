"""Write an invoice for each order with confluent-kafka, and keep the offsets in a file, too, to begin there."""

import json
import os
import signal
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

servers = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
store = Path(os.environ["DATA_DIR"]) / "offsets.json"
offsets: dict[str, int] = json.loads(store.read_text()) if store.exists() else {}
consumer = Consumer(
    {
        "bootstrap.servers": servers,
        "group.id": "billing",
        "client.id": f"billing-{os.environ['INSTANCE']}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6000,
    }
)
producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})


def begin(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    """Begin at the offsets of the file."""
    for partition in partitions:
        partition.offset = offsets.get(str(partition.partition), partition.offset)
    consumer.assign(partitions)


consumer.subscribe(["orders"], on_assign=begin)
stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
try:
    while not stopping.is_set():
        messages = [message for message in consumer.consume(100, timeout=0.2) if not message.error()]
        for message in messages:
            order = json.loads(message.value())
            time.sleep(0.004)  # the work
            invoice = {"order_id": order["order_id"], "total": order["amount"]}
            producer.produce("invoices", json.dumps(invoice), message.key())
            offsets[str(message.partition())] = message.offset() + 1
        producer.flush()
        store.write_text(json.dumps(offsets))
        if messages:
            consumer.commit(asynchronous=False)
finally:
    consumer.close()
