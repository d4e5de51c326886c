"""The base of both kinds of consumers on a library in Python; see `chaos.clients.reader`.

Every record of a poll has its row before the next poll, so nothing is pending when partitions are taken away.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from chaos.clients import reader
from chaos.clients.columns import MISSING, Columns
from chaos.clients.program import Channel, Lifecycle
from chaos.clients.protocol import AssignConsumerSpec, GroupConsumerSpec, Partition, partition_of
from chaos.clients.python.commits import Committer
from chaos.clients.python.library import ConsumerAdapter, Library
from chaos.clients.python.outcomes import describe
from chaos.clients.python.settings import connection, own_settings
from chaos.errors import ClientError
from chaos.ledger.record import in_headers
from chaos.ledger.record_columns import headers_of

ERROR_PAUSE_S = 0.1

Spec = TypeVar("Spec", bound=GroupConsumerSpec | AssignConsumerSpec)


class Reader(reader.Reader[Spec, Committer]):
    """One incarnation of a consumer, except for the way in which it gets its partitions."""

    consumer: ConsumerAdapter

    def __init__(self, library: Library, spec: Spec, channel: Channel, lifecycle: Lifecycle) -> None:
        self._library = library
        self.Errors = (library.Error,)  # type: ignore[misc]  # known only when a library is chosen
        super().__init__(spec, channel, lifecycle, type("Committer", (Committer,), {"library": library}))
        commit = spec.commit
        self.consumer = library.consumer(
            {
                **connection(spec, library),
                "group_id": spec.group,
                **own_settings(spec.config, library, library.consumer_settings),
                "enable_auto_commit": commit.kind == "auto" and commit.when != "never",
            }
        )

    def _poll(self) -> Sequence[Any]:
        """Return records. Raises `ClientError` if the member is fenced: polls of the libraries would go on."""
        self._committer.serve()
        self.write_all()
        if self._committer.fenced is not None:
            raise ClientError(describe(self._committer.fenced))
        try:
            return self.consumer.poll(self._spec.max_poll_records)
        except self._library.Error as e:
            if not self._library.passes(e):
                raise ClientError(describe(e)) from None
            self._lifecycle.error(describe(e))
            time.sleep(ERROR_PAUSE_S)
            return []

    def _process(self, batch: Sequence[Any], polled_us: int) -> None:
        super()._process(batch, polled_us)
        self.write_all()

    def _columns(self, batch: Sequence[Any]) -> Columns:
        values = [r.value if r.value is not None else in_headers(r.headers) for r in batch]
        epochs = [getattr(r, "leader_epoch", None) for r in batch]
        return Columns(
            headers_of(values),
            np.array([r.partition for r in batch], np.int64),
            np.array([r.offset for r in batch], np.int64),
            np.array([MISSING if epoch is None else epoch for epoch in epochs], np.int64),
            [r.topic for r in batch] if self._deliveries.needs_topics else None,
        )

    def _seek(self, order: dict[str, Any]) -> Mapping[Partition, int]:
        held = list(self.assignments.numbers)
        if "offsets" in order:
            offsets = {partition_of(name): int(offset) for name, offset in order["offsets"].items()}
            targets = {p: offsets[p] for p in held if p in offsets}
        else:
            since_ms = int((time.time() - float(order["ago_s"])) * 1000)
            targets = {p: self.offset_at(p, since_ms) for p in held}
        for partition, offset in targets.items():
            self.consumer.seek(partition, offset)
        return targets

    def offset_at(self, partition: Partition, timestamp_ms: int) -> int:
        """Return the first offset at or after a time, or the high watermark without one."""
        found = self.consumer.offset_at(partition, timestamp_ms)
        return self.consumer.watermarks(partition)[1] if found is None else found

    def _close_consumer(self) -> None:
        try:
            self.consumer.close()
        except self._library.Error as e:
            self._lifecycle.error(f"close: {describe(e)}")
