"""Write an invoice for each order with confluent-kafka; after SIGTERM, it commits what it has done, and leaves."""

import json
import os
import signal
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

servers = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
consumer = Consumer(
    {
        "bootstrap.servers": servers,
        "group.id": "billing",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6000,
    }
)
producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
consumer.subscribe(["orders"])


def delivered(error: KafkaError | None, message: Message) -> None:
    """Let `flush` raise what kept an invoice from being written, so that its order is not committed."""
    if error is not None:
        raise KafkaException(error)


stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
try:
    while not stopping.is_set():
        messages = [message for message in consumer.consume(100, timeout=0.2) if not message.error()]
        for message in messages:
            order = json.loads(message.value())
            time.sleep(0.008)  # the work
            invoice = {"order_id": order["order_id"], "total": order["amount"]}
            producer.produce("invoices", json.dumps(invoice), message.key(), on_delivery=delivered)
        producer.flush()
        if messages:
            consumer.commit(asynchronous=False)
finally:
    consumer.close()
