"""When records are sent, if not at one steady rate: at random, in bursts, or as in a recording."""

from __future__ import annotations

import datetime
import itertools
import json
import random
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Self
from zoneinfo import ZoneInfo

from pydantic import Discriminator, Field, Tag, model_validator

from chaos.units import Duration, Rate
from chaos.values.model import Part, Place
from chaos.values.places import parse_path, value_at

WAYS = ("poisson", "bursts", "recording")


class Bursts(Part):
    """Records at once, and then none for some time."""

    records: int = Field(ge=1, description="records of a burst")
    every: Duration = Field(gt=0, description="time from the begin of a burst to the next one")


class Arrivals(Part):
    """When records are sent: exactly one of poisson, bursts and recording."""

    poisson: Rate | None = Field(
        None, gt=0, description="at random, so many on average: as from many senders that know nothing of each other"
    )
    bursts: Bursts | None = Field(None, description="many at once, and then none for some time")
    recording: Place | None = Field(
        None,
        description="with the pauses of the samples (`value.samples`), which have their times here, such as "
        "$.created_at: ISO 8601, or a number since 1970; after the last one, from the first one on again",
    )
    speed: float = Field(1.0, gt=0, le=10_000, description="recording: how many times as fast")
    mean: float | None = Field(
        None, description="recording: records per second, found when the scenario is loaded; not to be given"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [name for name in WAYS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of {', '.join(WAYS)} (found {', '.join(given) or 'none'})")
        if self.recording is None and self.speed != 1:
            raise ValueError("speed: goes with recording")
        return self

    @property
    def per_second(self) -> float:
        """The records per second on average."""
        if self.bursts is not None:
            return self.bursts.records / self.bursts.every
        return self.poisson or self.mean or 0.0

    def times(self, seed: int, pauses: Sequence[float] = (), first: int = 0) -> Iterator[float]:
        """Yield the second of each record from the begin on, rising without end.

        pauses: behind each sample of the recording. first: the seq of the first record.
        """
        if self.bursts is not None:
            yield from (seq // self.bursts.records * self.bursts.every for seq in itertools.count())
            return
        at, rng = 0.0, random.Random(seed)
        for seq in itertools.count(first):
            yield at
            at += rng.expovariate(self.poisson) if self.poisson else pauses[seq % len(pauses)] / self.speed


Pace = Annotated[
    Annotated[Rate, Tag("float")] | Annotated[Arrivals, Tag("Arrivals")],
    Discriminator(lambda given: "Arrivals" if isinstance(given, dict | Arrivals) else "float"),
]
"""A steady rate, or arrivals."""


def per_second(pace: float | Arrivals | None) -> float:
    """Return the records per second on average; 0 at full speed."""
    return pace.per_second if isinstance(pace, Arrivals) else pace or 0.0


def recorded(samples: Path, place: str) -> list[float]:
    """Return the seconds behind each sample of a file; behind the last one, their mean.

    Raises `ValueError` with the line for a sample without a time, or with a time before the time of the line above.
    """
    steps, times = parse_path(place), list[int]()
    for number, line in enumerate(samples.read_text("utf-8-sig").split("\n"), 1):
        if not line.strip():
            continue
        try:
            found = moment_us(value_at(json.loads(line, parse_float=Decimal), steps), "UTC")
        except (LookupError, ValueError):
            found = None
        if found is None or (times and found < times[-1]):
            why = f"has no time at {place}" if found is None else f"has an earlier time at {place} than the line above"
            raise ValueError(f"{samples}:{number} {why}")
        times.append(found)
    if len(times) < 2 or times[-1] == times[0]:
        raise ValueError(f"{samples} has no two times at {place}, so there is no pause between samples")
    pauses = [(later - earlier) / 1e6 for earlier, later in itertools.pairwise(times)]
    return [*pauses, sum(pauses) / len(pauses)]


def moment_us(value: Any, zone: str) -> int | None:
    """Return a time in us since 1970; None if it is none. zone: of times that have none.

    A number is in seconds, ms, us or ns, as its size says.
    """
    if isinstance(value, str):
        text = value.strip()
        if re.fullmatch(r"\d+(\.\d+)?", text):
            value = Decimal(text)
        else:
            try:
                value = datetime.datetime.fromisoformat(text)
            except ValueError:
                return None
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=ZoneInfo(zone))
        return round(aware.timestamp() * 1_000_000)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or value <= 0:
        return None
    scales: tuple[tuple[float, int], ...] = ((1e11, 1_000_000), (1e14, 1_000), (1e17, 1))
    factor = next((factor for limit, factor in scales if value < limit), 0)
    found: int = int(value * factor) if factor else int(value) // 1000
    return found
