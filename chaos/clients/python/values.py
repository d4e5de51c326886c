"""Records of the user's form in the programs of clients in Python: what a producer sends, and who sent what was read.

A producer marks each record with its identity: in the header `aftershock`, or only in its own memory (`mark: none`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from chaos.clients.protocol import IdentitiesSpec, ProducerSpec
from chaos.ledger import record
from chaos.ledger.ids import Id, Ids, id_of
from chaos.ledger.record_columns import Ints
from chaos.values.payloads import Payloads, Unmarked

RawHeaders = Sequence[tuple[str, str | bytes | None]] | None


class Made(NamedTuple):
    """A record to send, and the identity that belongs to it."""

    value: bytes
    key: bytes | None
    headers: list[tuple[str, bytes]]
    identity: bytes


class UserValues:
    """Makes the records of one incarnation of a producer with `value`."""

    def __init__(self, spec: ProducerSpec) -> None:
        assert spec.value is not None  # the caller looked
        self._spec, self._payloads = spec, Payloads(spec.value, spec.seed)
        self._prefix = record.header_prefix(spec.run_token, spec.client, spec.incarnation)
        self._marked = spec.value.mark == "header"

    def make(self, first: int, count: int, sent_us: int) -> list[Made]:
        """Return the records of `count` seqs with one time of the send."""
        return [self._made(seq, sent_us) for seq in range(first, first + count)]

    def _made(self, seq: int, sent_us: int) -> Made:
        payload = self._payloads.make(seq, self._id(seq), sent_us)
        head = self._prefix + b"%012d %016d " % (seq, sent_us)
        identity = record.in_header(head, payload.key, payload.value)
        mark = [(record.IDENTITY_HEADER, identity)] if self._marked else []
        return Made(payload.value, payload.key, [*payload.headers, *mark], identity)

    def key(self, seq: int) -> str | None:
        """Return the key of a record as the ledger has it."""
        key = self._payloads.key(seq, self._id(seq))
        return None if key is None else key.decode(errors="backslashreplace")

    def keys(self, seqs: Ints) -> pa.Array:
        """Return the keys of records as a column."""
        return pa.array(list(map(self.key, seqs.tolist())), pa.string())

    def _id(self, seq: int) -> Id:
        spec = self._spec
        return id_of(self._payloads.id_type or "text", spec.run_token, spec.client, seq, spec.number_from + seq)


class Origins:
    """Finds the identities of records that a reader got; without a spec, in values and in headers of tombstones."""

    def __init__(self, run_token: str = "", spec: IdentitiesSpec | None = None) -> None:
        self._marked = frozenset(spec.in_headers if spec else ())
        self._unmarked: Unmarked | None = None
        if spec is not None:
            ids = Ids(run_token, spec.created_us, spec.first, spec.most)
            self._unmarked = Unmarked(spec.unmarked, ids)

    @property
    def elsewhere(self) -> bool:
        """Whether records with a value may have their identity outside of it."""
        return self._unmarked is not None

    def of(self, topic: str | None, value: bytes | None, headers: RawHeaders) -> bytes | None:
        """Return the bytes that begin with the identity of a record; the bytes of a foreign record have none."""
        if value is None or (topic in self._marked and not value.startswith(record.VERSION)):
            return record.in_headers(headers) or value
        if self._unmarked is not None and not value.startswith(record.VERSION):
            return self._unmarked.identity(topic, value) or value
        return value
