"""Write an invoice for each order with aiokafka, and commit the offsets of the orders after their invoices."""

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
    producer = AIOKafkaProducer(bootstrap_servers=SERVERS, enable_idempotence=True)
    async with consumer, producer:
        while True:
            batches = await consumer.getmany(timeout_ms=200, max_records=100)
            for records in batches.values():
                for record in records:
                    order = json.loads(record.value)
                    await asyncio.sleep(0.004)  # the work
                    invoice = {"order_id": order["order_id"], "total": order["amount"]}
                    await producer.send("invoices", json.dumps(invoice).encode(), key=record.key)
            await producer.flush()
            if batches:
                await consumer.commit()


asyncio.run(main())
