"""Durations, sizes, rates, shares and releases as text: `5s`, `250ms`, `64KiB`, `2000/s`, `99.9 %`, `3.9.2`."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


MAX_SHIFT_S = 3650 * 86_400.0
"""Maximum shift of a clock: ten years, so that it stays between 2001 and 2106."""


def _quantity(text: str, units: dict[str, Any], example: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if not match or match[2] not in units:
        raise ValueError(
            f"{text!r} is not understood; write a number and one of {', '.join(filter(None, units))}, such as {example}"
        )
    return float(match[1]) * float(units[match[2]])


def parse_duration(value: Any) -> float:
    """Return the seconds of `5s`, `250ms`, `2m`, `1h` or a plain number of seconds. Raises `ValueError`."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not a duration; write one such as 5s or 250ms")
    seconds = float(value) if isinstance(value, int | float) else _quantity(value, _SECONDS, "5s or 250ms")
    if not 0 <= seconds <= 7 * 24 * 3600:
        raise ValueError(f"{value!r} is not between 0 and 7 days")
    return seconds


def format_duration(seconds: float) -> str:
    """Return the shortest exact text, such as `5s`, `250ms` or `3us`."""
    for unit, factor in (("s", 1), ("ms", 1_000), ("us", 1_000_000)):
        scaled = seconds * factor
        if abs(scaled - round(scaled)) < 1e-6 or unit == "us":
            return f"{round(scaled)}{unit}"
    raise AssertionError("unreachable")


def parse_shift(value: Any) -> float:
    """Return the seconds of `+1h`, `-250ms` or `10d`; negative: back. Raises `ValueError`."""
    match = re.fullmatch(r"\s*([+-]?)(.*)", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is no shift of a clock; write one such as +1h or -250ms")
    seconds = _quantity(match[2], {**_SECONDS, "d": 86_400.0}, "+1h or -250ms")
    if not 0 < seconds <= MAX_SHIFT_S:
        raise ValueError(f"{value!r} is not between 0 and {MAX_SHIFT_S / 86_400:g} days, forward or back")
    return -seconds if match[1] == "-" else seconds


def format_shift(seconds: float) -> str:
    """Return the exact text with its sign, such as `+3600s`."""
    return f"{'-' if seconds < 0 else '+'}{format_duration(abs(seconds))}"


def parse_size(value: Any) -> int:
    """Return the bytes of `64KiB`, `256MiB`, `1GB` or a plain number of bytes. Raises `ValueError`."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{value!r} is not a size; write one such as 64KiB")
    size = value if isinstance(value, int) else round(_quantity(value, {"": 1, **_BYTES}, "64KiB"))
    if size < 0:
        raise ValueError(f"{value!r} is negative")
    return size


def format_size(size: int) -> str:
    """Return the text with the largest binary unit that is exact, such as `64KiB`."""
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return f"{size}B"


def parse_percent(value: Any) -> int:
    """Return the millionths of `99.9 %`, at most four decimals. Raises `ValueError`."""
    match = re.fullmatch(r"\s*(\d{1,3})(?:\.(\d{1,4}))?\s*%\s*", value) if isinstance(value, str) else None
    millionths = int(match[1]) * 10_000 + int((match[2] or "").ljust(4, "0")) if match else -1
    if not 0 <= millionths <= 1_000_000:
        raise ValueError(f"{value!r} is not a share; write one such as 99.9 %, with the sign and at most four decimals")
    return millionths


def rounded_size(size: int) -> str:
    """Return the text with the largest binary unit, rounded, such as `1.4 GiB`."""
    for unit in ("GiB", "MiB", "KiB"):
        if size >= _BYTES[unit]:
            return f"{size / _BYTES[unit]:.1f} {unit}"
    return f"{size} B"


def format_percent(millionths: int) -> str:
    """Return the shortest exact text, such as `99.9 %`."""
    return f"{millionths // 10_000}.{millionths % 10_000:04}".rstrip("0").rstrip(".") + " %"


def parse_rate(value: Any) -> float:
    """Return the events per second of `2000/s` or a plain number. Raises `ValueError`."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*/\s*s\s*", value)
        if not match:
            raise ValueError(f"{value!r} is not a rate; write one such as 2000/s")
        value = float(match[1])
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise ValueError(f"{value!r} is not a rate above zero; write one such as 2000/s")
    return float(value)


def parse_release(value: Any) -> str:
    """Return the text of a release with three numbers, such as `3.9.2`. Raises `ValueError`."""
    if not isinstance(value, str) or not re.fullmatch(_RELEASE, value):
        raise ValueError(f"{value!r} is not a release; write its three numbers, such as 3.9.2")
    return value


_RELEASE = r"\d+\.\d+\.\d+"
Release = Annotated[str, BeforeValidator(parse_release), WithJsonSchema({"type": "string", "pattern": f"^{_RELEASE}$"})]
"""A release of software, such as 3.9.2."""

Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": ["string", "number"], "pattern": r"^\d+(\.\d+)?\s*(us|ms|s|m|min|h)$", "examples": ["5s"]}),
]
"""Seconds."""

Shift = Annotated[
    float,
    BeforeValidator(parse_shift),
    PlainSerializer(format_shift, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^[+-]?\d+(\.\d+)?\s*(us|ms|s|m|min|h|d)$", "examples": ["+1h"]}),
]
"""Seconds forward, or back if negative."""

Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(format_size, return_type=str),
    WithJsonSchema({"type": ["string", "integer"], "pattern": r"^\d+(\.\d+)?\s*(B|[KMG]iB|[kMG]B)?$"}),
]
"""Bytes."""

Rate = Annotated[
    float,
    BeforeValidator(parse_rate),
    PlainSerializer(lambda r: f"{r:g}/s", return_type=str),
    WithJsonSchema({"type": ["string", "number"], "pattern": r"^\d+(\.\d+)?\s*/\s*s$", "examples": ["2000/s"]}),
]
"""Events per second."""

Percent = Annotated[
    int,
    BeforeValidator(parse_percent),
    PlainSerializer(format_percent, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^\d{1,3}(\.\d{1,4})?\s*%$", "examples": ["99.9 %"]}),
]
"""Millionths."""
