"""Write an invoice for each order in a pool of threads with confluent-kafka, and commit what the threads have done."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

servers = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
consumer = Consumer(
    {
        "bootstrap.servers": servers,
        "group.id": "billing",
        "auto.offset.reset": "earliest",
        "enable.auto.offset.store": False,
        "auto.commit.interval.ms": 500,
        "session.timeout.ms": 6000,
    }
)
producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
consumer.subscribe(["orders"])


def delivered(error: KafkaError | None, message: Message) -> None:
    """Let `flush` raise what kept an invoice from being written, so that its order is not committed."""
    if error is not None:
        raise KafkaException(error)


def work(message: Message) -> None:
    """Write the invoice of one order."""
    order = json.loads(message.value() or b"")
    time.sleep(0.05)  # the work
    invoice = {"order_id": order["order_id"], "total": order["amount"]}
    producer.produce("invoices", json.dumps(invoice), message.key(), on_delivery=delivered)


with ThreadPoolExecutor(4) as pool:
    while True:
        messages = [message for message in consumer.consume(40, timeout=0.2) if not message.error()]
        list(pool.map(work, messages))
        producer.flush()
        for message in messages:
            consumer.store_offsets(message)
