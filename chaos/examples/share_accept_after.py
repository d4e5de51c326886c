"""Write an invoice for each order of a share group (KIP-932), and accept the orders when the invoices are written."""

import json
import os
import time

from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, Message, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

servers = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]}
first = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
group = ConfigResource(ResourceType.GROUP, "billing", incremental_configs=[first])
admin = AdminClient(servers)
for change in admin.incremental_alter_configs([group]).values():
    change.result()
consumer = ShareConsumer(servers | {"group.id": "billing", "share.acknowledgement.mode": "explicit"})
producer = Producer(servers | {"enable.idempotence": True})
consumer.subscribe(["orders"])


def delivered(error: KafkaError | None, message: Message) -> None:
    """Let `flush` raise what kept an invoice from being written, so that its order is not accepted."""
    if error is not None:
        raise KafkaException(error)


try:
    while True:
        messages = [message for message in consumer.poll(0.2) if not message.error()]
        for message in messages:
            order = json.loads(message.value())
            time.sleep(0.002)  # the work
            invoice = {"order_id": order["order_id"], "total": order["amount"]}
            producer.produce("invoices", json.dumps(invoice), message.key(), on_delivery=delivered)
        producer.flush()
        for message in messages:
            consumer.acknowledge(message, AcknowledgeType.ACCEPT)
        if messages:
            consumer.commit_sync()
finally:
    consumer.close()
