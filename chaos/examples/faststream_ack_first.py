"""Call the service for invoices for each order with FastStream."""

import asyncio
import os
from typing import Any

import httpx
from faststream import FastStream
from faststream.kafka import KafkaBroker

broker = KafkaBroker(os.environ["KAFKA_BOOTSTRAP_SERVERS"])
app = FastStream(broker)
http = httpx.AsyncClient()


@broker.subscriber("orders", group_id="billing", auto_offset_reset="earliest")
async def bill(order: dict[str, Any]) -> None:
    """Ask for the invoice of one order."""
    invoice = {"order_id": order["order_id"], "total": order["amount"]}
    answer = await http.post(os.environ["INVOICES_URL"], json=invoice)
    answer.raise_for_status()


asyncio.run(app.run())
