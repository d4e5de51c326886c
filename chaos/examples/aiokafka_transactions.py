"""Write an invoice for each order with aiokafka; invoices and offsets are one transaction."""

import asyncio
import json
import os

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

SERVERS = os.environ["KAFKA_BOOTSTRAP_SERVERS"]


async def main() -> None:
    """Read orders, and write invoices, until the process ends."""
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=SERVERS,
        group_id="billing",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=6000,
    )
    producer = AIOKafkaProducer(bootstrap_servers=SERVERS, transactional_id="billing")
    async with consumer, producer:
        while True:
            batches = await consumer.getmany(timeout_ms=200, max_records=100)
            if not batches:
                continue
            async with producer.transaction():
                for records in batches.values():
                    for record in records:
                        order = json.loads(record.value)
                        await asyncio.sleep(0.004)  # the work
                        invoice = {"order_id": order["order_id"], "total": order["amount"]}
                        await producer.send("invoices", json.dumps(invoice).encode(), key=record.key)
                offsets = {partition: records[-1].offset + 1 for partition, records in batches.items()}
                await producer.send_offsets_to_transaction(offsets, "billing")


asyncio.run(main())
