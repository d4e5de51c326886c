"""The lifecycle rows and the log of a client."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import confluent_kafka

from chaos.clients.channel import Channel
from chaos.clients.protocol import ClientSpec, lifecycle_row
from chaos.ledger.writer import TableWriter
from chaos.run.events import now_us

Role = Literal["producer", "consumer"]


@dataclass
class Lifecycle:
    """Writes `lifecycle` for one incarnation of a client, and sends the events of the protocol that belong to it."""

    writer: TableWriter
    channel: Channel
    client: str
    role: Role
    incarnation: int

    def event(self, event: str, **detail: Any) -> None:
        """Write a row; for started and stopped, send an event as well."""
        if event == "started":  # records what runs, not only what the scenario asks for
            detail |= {"confluent_kafka": confluent_kafka.__version__, "librdkafka": confluent_kafka.libversion()[0]}
        self.writer.append_rows([lifecycle_row(self.client, self.role, self.incarnation, event, detail)])
        if event in ("started", "stopped"):
            self.channel.send(event)

    def error(self, message: str, **detail: Any) -> None:
        """Report an error as a row, an event and a line in the log."""
        self.event("error", error=message, **detail)
        self.channel.send("error", detail=message)
        log(message)


@contextmanager
def incarnation(spec: ClientSpec, role: Role, channel: Channel) -> Iterator[Lifecycle]:
    """Yield the `Lifecycle` of an incarnation; an exception that ends it is recorded and raised again."""
    lifecycle = Lifecycle(
        TableWriter(spec.ledger, "lifecycle", spec.writer), channel, spec.client, role, spec.incarnation
    )
    try:
        yield lifecycle
    except Exception as e:
        lifecycle.error(f"{type(e).__name__}: {e}")
        raise


def log(message: str) -> None:
    """Write a line to the log of the client, which is stderr."""
    sys.stderr.write(f"{now_us()} {message}\n")
    sys.stderr.flush()
