"""Settings with which a client library does not start, though it takes each of them alone.

`Traits.contradictions` of a library is `contradictions`, or a function of the library that calls the parts here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from chaos.kafka.settings import Scalar, as_text

IN_FLIGHT = "max.in.flight.requests.per.connection"
OTHER_NAMES = {
    "request.required.acks": "acks",
    "message.send.max.retries": "retries",
    "max.in.flight": IN_FLIGHT,
    "Net.MaxOpenRequests": IN_FLIGHT,
    "message.timeout.ms": "delivery.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
}
"""Names of settings that `Traits.common` leaves as they are, with the common ones."""


@dataclass(frozen=True)
class Given:
    """The settings of a producer or a consumer. values: by common names. release: None if it is not known."""

    values: Mapping[str, Scalar]
    release: str | None
    producer: bool
    transactional: bool

    def number(self, name: str, default: float) -> float:
        """Return a number of a setting; the default if it is left out, or no number, which has its own message."""
        try:
            return float(self.values.get(name, default))
        except ValueError:
            return default

    @property
    def idempotent(self) -> bool:
        """Whether the settings ask for idempotence."""
        return as_text(self.values.get("enable.idempotence", False)).lower() in ("true", "t", "1")


def contradictions(given: Given) -> Iterator[str]:
    """Yield what contradicts idempotence in each library."""
    if given.producer and given.idempotent:
        yield from _acks(given)


def idempotence(given: Given, on: bool, most: int = 5) -> Iterator[str]:
    """Yield what contradicts idempotence in libraries that also ask for retries and limit requests in flight."""
    if not on:
        return
    yield from _acks(given)
    if given.number("retries", 1) == 0:
        yield "retries=0 contradicts enable.idempotence, which needs retries"
    if (found := given.number(IN_FLIGHT, most)) > most:
        yield f"{found:g} requests in flight contradict enable.idempotence, which allows {most}"


def heartbeats(given: Given) -> Iterator[str]:
    """Yield heartbeats that are no shorter than the session."""
    heartbeat, session = given.number("heartbeat.interval.ms", 3000), given.number("session.timeout.ms", 0)
    if session and heartbeat >= session:
        yield f"heartbeat.interval.ms={heartbeat:g} is not below session.timeout.ms={session:g}"


def _acks(given: Given) -> Iterator[str]:
    if as_text(given.values.get("acks", "all")).lower() not in ("all", "-1"):
        yield f"acks={given.values['acks']} contradicts enable.idempotence, which needs acks=all"
