"""Write an invoice for each order in a pool of threads with confluent-kafka, and let the library commit by itself."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Consumer, Producer

servers = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
consumer = Consumer(
    {
        "bootstrap.servers": servers,
        "group.id": "billing",
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 500,
        "session.timeout.ms": 6000,
    }
)
producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
consumer.subscribe(["orders"])


def work(value: bytes, key: bytes) -> None:
    """Write the invoice of one order."""
    order = json.loads(value)
    time.sleep(0.05)  # the work
    producer.produce("invoices", json.dumps({"order_id": order["order_id"], "total": order["amount"]}), key)
    producer.poll(0)


with ThreadPoolExecutor(4) as pool:
    while True:
        message = consumer.poll(0.2)
        if message is not None and not message.error():
            pool.submit(work, message.value(), message.key())
