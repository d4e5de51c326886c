"""Write an invoice for each order with Quix Streams, with its defaults."""

import os
import time
from typing import Any

from quixstreams import Application

app = Application(
    broker_address=os.environ["KAFKA_BOOTSTRAP_SERVERS"],
    consumer_group="billing",
    auto_offset_reset="earliest",
    state_dir=os.environ.get("STATE_DIR", "state"),
    consumer_extra_config={"session.timeout.ms": 6000},
)
orders = app.topic("orders", value_deserializer="json")
invoices = app.topic("invoices", value_serializer="json")


def bill(order: dict[str, Any]) -> dict[str, Any]:
    """Return the invoice of one order."""
    time.sleep(0.002)  # the work
    return {"order_id": order["order_id"], "total": order["amount"]}


app.dataframe(orders).apply(bill).to_topic(invoices)
app.run()
