"""Faults of answers and records on the wire (wire.*): given twice, or with changed bytes.

No broker sends an answer or a record twice, so what a client does then is a matter of its library. Measured and read in
their sources:

| library     | an answer twice         | a record twice in an answer   | a checksum that does not fit              |
|-------------|-------------------------|-------------------------------|-------------------------------------------|
| librdkafka  | ignores the second one  | gives both to the application | takes the record, unless check.crcs=true  |
| Java client | `IllegalStateException` | skips the second one          | raises, and goes on only after a seek     |
| aiokafka    | ends the connection     | skips the second one          | raises `CorruptRecordException`           |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from chaos.faults.base import Fault, World
from chaos.faults.wire import FrameFault, FrameFaultSpec, Side
from chaos.setup.model import Setup

if TYPE_CHECKING:
    from chaos.relay.rules import Frames, Rule


class WireRepeatSpec(FrameFaultSpec):
    """Send answers of brokers twice, with the same correlation id; healed by sending each once."""

    effects = frozenset({"wire", "connections"})
    left_out = "as lost-answer for a client that ends the connection; others ignore the second answer"
    kind: Literal["wire.repeat"]
    side: Literal["response"] = "response"


class WireRepeat(FrameFault[WireRepeatSpec], spec=WireRepeatSpec):
    """Answers twice. Proof: the proxy counted at least one answer that it sent twice."""

    act, result = "repeat", "sent twice"


class WireDuplicateSpec(FrameFaultSpec):
    """Give clients each batch of records in an answer to Fetch twice, one behind the other; healed by giving it once.

    The records keep their offsets in the log, so a library that looks at them skips the second batch.
    """

    effects = frozenset({"repeats"})
    left_out = "no broker does it; what a library makes of it is no promise of settings"
    kind: Literal["wire.duplicate"]
    api: Literal["Fetch"] = "Fetch"
    side: Literal["response"] = "response"


class WireDuplicate(FrameFault[WireDuplicateSpec], spec=WireDuplicateSpec):
    """Records twice. Proof: the proxy counted at least one answer with records that it gave twice.

    An answer without records does not count.
    """

    act, result = "duplicate", "passed on with their records twice"


class WireCorruptSpec(FrameFaultSpec):
    """Change one bit of a value in answers to Fetch, or in Produce requests; healed by passing records on as they are.

    With a checksum that does not fit, a broker refuses the request, and a client that checks it the answer. With one
    that fits, nobody can know. Of a compressed batch, one of its compressed bytes changes.
    """

    effects = frozenset({"wire", "connections"})
    left_out = "no broker does it, and no setting promises what happens then"
    no_promise = "wire.corrupt changes records on their way"
    kind: Literal["wire.corrupt"]
    api: Literal["Fetch", "Produce"] = "Fetch"
    side: Side = Field(
        default_factory=lambda given: "request" if given.get("api") == "Produce" else "response",
        description="the answers to Fetch, and the requests of Produce: they have the records",
    )
    checksum: Literal["wrong", "right"] = Field(
        "wrong", description="wrong: the one of the records as they were; right: one of the changed bytes"
    )

    @property
    def unpromised_by_all(self) -> str:
        """The reason of the kind, if the checksum fits: else a broker and a client that check it refuse the records.

        A request that is refused, or an answer, comes again as it was (CORRUPT_MESSAGE is a retriable error of Kafka).
        """
        return self.no_promise if self.checksum == "right" else ""

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the frames have records."""
        yield from super().problems(setup, where)
        right = "request" if self.api == "Produce" else "response"
        if self.side != right:
            yield f"{where}.side: the {self.side} of {self.api} has no records; give {right}, or leave it out"


class WireCorrupt(FrameFault[WireCorruptSpec], spec=WireCorruptSpec):
    """Changed records. Proof: the proxy counted at least one frame with a record that it changed.

    A frame without records does not count.
    """

    act = "corrupt"

    def _rule_for(self, frames: Frames, world: World) -> Rule:
        rule = super()._rule_for(frames, world)
        return replace(rule, valid=self.spec.checksum == "right", seed=world.rng.randrange(2**31))

    def _result(self) -> str:
        fits = "fits the changed record" if self.spec.checksum == "right" else "does not fit it"
        return f"passed on with one bit of a record changed, and a checksum that {fits}"


FAULTS: dict[str, type[Fault[Any]]] = {
    "wire.repeat": WireRepeat,
    "wire.duplicate": WireDuplicate,
    "wire.corrupt": WireCorrupt,
}
