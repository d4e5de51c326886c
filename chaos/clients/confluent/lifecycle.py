"""What happened to a client: its own rows in `lifecycle`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import confluent_kafka

from chaos.clients.channel import Channel
from chaos.clients.protocol import ClientSpec
from chaos.ledger.writer import TableWriter
from chaos.run.events import now_us


@dataclass
class Lifecycle:
    """Writes `lifecycle` for one client in one incarnation, and tells its owner what the protocol wants told."""

    writer: TableWriter
    channel: Channel
    client: str
    role: Literal["producer", "consumer"]
    incarnation: int

    def event(self, event: str, **detail: Any) -> None:
        """Write a row; started, stopped and error are told as well."""
        if event == "started":  # on record: what ran, and not only what was asked for
            detail |= {"confluent_kafka": confluent_kafka.__version__, "librdkafka": confluent_kafka.libversion()[0]}
        self.writer.append_rows(
            [
                {
                    "client": self.client,
                    "role": self.role,
                    "incarnation": self.incarnation,
                    "event": event,
                    "detail": json.dumps(detail),
                    "at_us": now_us(),
                }
            ]
        )
        if event in ("started", "stopped"):
            self.channel.tell(event)

    def error(self, words: str, **detail: Any) -> None:
        """An error of the client: a row, an event and a line in the log."""
        self.event("error", error=words, **detail)
        self.channel.tell("error", detail=words)
        log(words)


@contextmanager
def life(spec: ClientSpec, role: Literal["producer", "consumer"], channel: Channel) -> Iterator[Lifecycle]:
    """One life of a client; an error that ends it is on record before it goes on its way."""
    writer = TableWriter(spec.ledger, "lifecycle", spec.writer)
    lifecycle = Lifecycle(writer, channel, spec.client, role, spec.incarnation)
    try:
        yield lifecycle
    except Exception as e:
        lifecycle.error(f"{type(e).__name__}: {e}")
        raise


def log(words: str) -> None:
    """A line in the client's log."""
    sys.stderr.write(f"{now_us()} {words}\n")
    sys.stderr.flush()
