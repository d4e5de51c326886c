"""Call an HTTP server for each order with confluent-kafka, and commit the offsets when the calls were accepted."""

import json
import os
import time
import urllib.error
import urllib.request

from confluent_kafka import Consumer, KafkaError, KafkaException

FORBIDDEN = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
consumer = Consumer(
    {
        "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"],
        "group.id": "billing",
        "auto.offset.reset": os.environ.get("AUTO_OFFSET_RESET", "earliest"),
        "enable.auto.commit": False,
        "session.timeout.ms": 6000,
        **json.loads(os.environ.get("KAFKA_LOGIN", "{}")),
    }
)
consumer.subscribe([os.environ["ORDERS_TOPIC"]])


def call(order: dict[str, object]) -> None:
    """Send the invoice of an order until the server accepts it."""
    invoice = {"order_id": order["order_id"], "total": order["amount"]}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(os.environ["INVOICES_URL"], json.dumps(invoice).encode(), headers)
    while True:
        try:
            urllib.request.urlopen(request, timeout=10).close()
            return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.2)


try:
    while True:
        polled = consumer.consume(100, timeout=0.2)
        for error in [error for message in polled if (error := message.error())]:
            if error.code() in FORBIDDEN:
                raise KafkaException(error)
        messages = [message for message in polled if not message.error()]
        for message in messages:
            call(json.loads(message.value()))
        if messages:
            consumer.commit(asynchronous=False)
finally:
    consumer.close()
