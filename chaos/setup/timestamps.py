"""Timestamps that producers set, and the limits that brokers have for timestamps.

With message.timestamp.type=CreateTime, a record has the time that its producer gives it; with LogAppendTime, its leader
stamps it (KIP-32). Retention and compaction go by that time, whatever the clock says. Brokers refuse a timestamp beyond
their limits (INVALID_TIMESTAMP, `LogValidator.validateTimestamp` in Apache Kafka):

| release | limits |
|---|---|
| before 3.6 | message.timestamp.difference.max.ms in both directions, none by default |
| 3.6 to 3.9 | message.timestamp.before.max.ms and .after.max.ms (KIP-937); where one is not set, difference.max.ms |
| from 4.0 | before.max.ms, none by default; after.max.ms, an hour by default (KIP-1030) |
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from chaos.clients.traits import number
from chaos.kafka.settings import Scalar
from chaos.units import format_shift, parse_shift

DIVISORS_US = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}
"""Microseconds of the unit in which a producer gives the time of the call; Kafka reads the number as milliseconds."""
APPEND_TIME = "logappendtime"
_EPOCH_S = 1_700_000_000.0
"""A time in seconds since the epoch that is earlier than any run."""


def parse_timestamps(value: Any) -> str | float:
    """Return a unit, or the seconds of a shift such as `-48h`. Raises `ValueError`."""
    if isinstance(value, str) and value in DIVISORS_US:
        return value
    try:
        return parse_shift(value)
    except ValueError:
        units = ", ".join(DIVISORS_US)
        raise ValueError(f"{value!r} is not understood; give {units}, or a shift such as -48h or +2h") from None


Timestamps = Annotated[
    str | float,
    BeforeValidator(parse_timestamps),
    PlainSerializer(lambda value: value if isinstance(value, str) else format_shift(value), return_type=str),
    WithJsonSchema(
        {
            "anyOf": [{"enum": list(DIVISORS_US)}, {"pattern": r"^[+-]?\d+(\.\d+)?\s*(us|ms|s|m|min|h|d)$"}],
            "type": "string",
            "examples": ["seconds", "-48h"],
        }
    ),
]
"""A unit, or seconds that each timestamp is ahead of the time of the call, behind if negative."""


def formula(timestamps: str | float) -> dict[str, int]:
    """Return how a producer gets a timestamp in ms from the time of the call in us: a divisor, and what to add."""
    if isinstance(timestamps, str):
        return {"divisor_us": DIVISORS_US[timestamps], "shift_ms": 0}
    return {"divisor_us": 1_000, "shift_ms": round(timestamps * 1_000)}


def ahead_s(timestamps: str | float | None) -> float:
    """Return how many seconds timestamps are ahead of the time of the call, at least; behind if negative."""
    if timestamps is None:
        return 0.0
    if isinstance(timestamps, str):
        return _EPOCH_S * (1_000 / DIVISORS_US[timestamps] - 1)
    return timestamps


def described(timestamps: str | float) -> str:
    """Return what timestamps do to a record, as a clause."""
    if isinstance(timestamps, str):
        where = {"seconds": ", which Kafka reads as January 1970", "microseconds": ", which are far in the future"}
        return f"its timestamps are {timestamps}{where.get(timestamps, '')}"
    return f"its timestamps are {span(timestamps)}"


def span(seconds: float) -> str:
    """Return how far a time is ahead or behind, such as `2 d behind`."""
    left = abs(seconds)
    unit, size = next((u for u in (("d", 86_400), ("h", 3_600), ("min", 60)) if left >= u[1]), ("s", 1))
    return f"{left / size:.4g} {unit} {'ahead' if seconds > 0 else 'behind'}"


def limits_s(release: str, broker: Mapping[str, Scalar], topic: Mapping[str, Scalar]) -> tuple[float, float]:
    """Return how many seconds timestamps may be behind and ahead of the time of their broker; infinite without limit.

    broker, topic: their settings. Raises `ValueError` for a setting that is no number, which a broker refuses.
    """
    names = [f"message.timestamp.{which}.max.ms" for which in ("difference", "before", "after")]
    either, before, after = (_given(topic.get(name, broker.get(f"log.{name}"))) for name in names)
    if number(release) >= (4, 0, 0):
        either, after = math.inf, 3_600.0 if after is None else after
    elif number(release) < (3, 6, 0):
        before = after = None
    either = math.inf if either is None else either
    return either if before is None else before, either if after is None else after


def _given(value: Scalar | None) -> float | None:
    return None if value is None else int(value) / 1_000


def appended(broker: Mapping[str, Scalar], states: Iterator[Mapping[str, Scalar]]) -> bool:
    """Return whether a topic has LogAppendTime in all states of its settings."""
    usual = broker.get("log.message.timestamp.type", "")
    return all(str(state.get("message.timestamp.type", usual)).lower() == APPEND_TIME for state in states)
