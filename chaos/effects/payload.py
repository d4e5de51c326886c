"""Records of an effect as ids, values and times.

Ids and values are compared as texts in one form: the number 7, the number 7.0 and the text "7" are the same, and so are
12.50 as a decimal number of a database and 12.5 in JSON.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from chaos.setup.effects import Avro, Effect, Format, Place, Protobuf
from chaos.values.arrivals import moment_us

Headers = Sequence[tuple[str, str | bytes | None]] | None
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,30})(?:\.\d{1,30})?")
_SHOWN = 60
FRAME_BYTES = 5
"""The zero byte and the id of the schema before a payload; see `chaos.values.model.Registry`."""


class Unreadable(ValueError):
    """A record without what an effect needs; the text says what. sample: a part of the record, or empty."""

    def __init__(self, brief: str, sample: str = "") -> None:
        super().__init__(f"{brief} ({sample})" if sample else brief)
        self._brief = brief

    def reason(self, hidden: bool) -> str:
        """Return the text. hidden: without the sample, because no payloads are to be kept."""
        return self._brief if hidden else str(self)


@dataclass(frozen=True)
class Record:
    """A record of a source. data: what it holds, by fields or columns."""

    data: Any
    key: bytes | None = None
    headers: Headers = None


@dataclass(frozen=True)
class Found:
    """An effect in a record: the texts of its id and its value, and the time that it carries in us.

    item: its place in the list of an effect with several ids, such as ` [2]`. problem: why it has no id.
    """

    id: str | None
    value: str | None = None
    at_us: int | None = None
    item: str = ""
    problem: str = ""


def canonical(value: Any) -> str | None:
    """Return the text by which ids and values are compared; None for null and for what is no single value."""
    if value is None or isinstance(value, dict | list | tuple):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | bytearray | memoryview):
        value = bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        value = Decimal(repr(value))
    if isinstance(value, int):
        return str(value)
    text = str(value).strip()  # a database pads CHAR columns with blanks
    if isinstance(value, Decimal) or ("." in text and _NUMBER.fullmatch(text)):
        return _plain(Decimal(text))
    return text or None


def _plain(number: Decimal) -> str:
    """Return a number without an exponent and without zeros at its end."""
    text = format(number, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def at_place(place: Place, record: Record) -> Any:
    """Return what is at a place; None if nothing is. Raises `Unreadable` if the way to it is no field or list."""
    if place.kind == "key":
        return record.key
    if place.kind == "header":
        return next((value for name, value in record.headers or () if name == place.name), None)
    at = record.data
    for key in place.keys:
        if isinstance(key, int) and isinstance(at, list):
            at = at[key] if -len(at) <= key < len(at) else None
        elif isinstance(key, str) and isinstance(at, Mapping):
            at = at.get(key)
        else:
            return None
    return at


class Extractor:
    """What an effect says of its records; call it with what makes one. hidden: see `Unreadable.reason`."""

    def __init__(self, effect: Effect, hidden: bool = False) -> None:
        self._places = (effect.id_place, effect.value_place, Place.parse(effect.at) if effect.at else None)
        self._zone, self._named, self._hidden = effect.zone, effect.id or "id", hidden

    def __call__(self, read: Callable[[], Record]) -> list[Found]:
        """Return the effects in a record: one, or one for each item of a list. read: may raise `Unreadable`."""
        try:
            record, place = read(), self._places[0]
            if place is None or not (to_list := place.to_list):
                return [self._found(record, self._places)]
            items = at_place(Place("path", to_list[:-1]), record)
            if not isinstance(items, list):
                raise self._missing(record, None, place)
        except Unreadable as e:
            return [Found(None, problem=e.reason(self._hidden))]
        return [self._of_item(record, number) for number in range(len(items))]

    def _of_item(self, record: Record, number: int) -> Found:
        item = f" [{number}]"
        try:
            places = tuple(place and place.of_item(number) for place in self._places)
            return replace(self._found(record, places), item=item)
        except Unreadable as e:
            return Found(None, item=item, problem=e.reason(self._hidden))

    def _found(self, record: Record, places: Sequence[Place | None]) -> Found:
        place, at_value, at = places
        raw = next(iter(record.data.values()), None) if place is None else at_place(place, record)
        found = canonical(raw)
        if found is None:
            raise self._missing(record, raw, place)
        value = canonical(at_place(at_value, record)) if at_value else None
        return Found(found, value, moment_us(at_place(at, record), self._zone) if at else None)

    def _missing(self, record: Record, raw: Any, place: Place | None) -> Unreadable:
        if place is None:
            return Unreadable("the first column is empty")
        if isinstance(raw, dict | list):
            return Unreadable(f"{self._named} is no single value")
        if isinstance(record.data, Mapping) and place.keys and place.keys[0] not in record.data:
            lack = f"there is no {self._named}" if place.kind == "name" else f"nothing is at {self._named}"
            known = ", ".join(map(str, list(record.data)[:8])) or "no fields"
            return Unreadable(lack, f"there are {known}")
        if place.kind in ("path", "name") and not isinstance(record.data, Mapping | list):
            return Unreadable("it has no value" if record.data is None else "its value has no fields")
        return Unreadable(f"nothing is at {self._named}")


def decoder(form: Format) -> Callable[[bytes | None], Any]:
    """Return the function from the bytes of a value to its content. It raises `Unreadable`, and passes None."""
    if form == "json":
        return _json
    if isinstance(form, Avro):
        return _schema(_avro(form))
    if isinstance(form, Protobuf):
        return _schema(_protobuf(form))
    return _text(re.compile(form.text))


def _json(raw: bytes | None) -> Any:
    if raw is None:
        return None
    try:
        return json.loads(raw[FRAME_BYTES:] if raw[:1] == b"\0" else raw, parse_float=Decimal)
    except (ValueError, RecursionError):
        raise Unreadable("it is no JSON", shown(raw)) from None


def _text(pattern: re.Pattern[str]) -> Callable[[bytes | None], Any]:
    def read(raw: bytes | None) -> Any:
        if raw is None:
            return None
        if not (match := pattern.search(raw.decode("utf-8", "replace"))):
            raise Unreadable(f"it does not match {pattern.pattern!r}", shown(raw))
        return match.groupdict()

    return read


def shown(raw: bytes) -> str:
    """Return the begin of a value for a message."""
    text = raw[: _SHOWN + 1].decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def _schema(read: Callable[[bytes], Any]) -> Callable[[bytes | None], Any]:
    """Return a decoder that passes None, and names what does not fit."""

    def decode(raw: bytes | None) -> Any:
        if raw is None:
            return None
        try:
            return read(raw)
        except ValueError as e:
            raise Unreadable(f"it {e}") from None

    return decode


def _avro(form: Avro) -> Callable[[bytes], Any]:
    from chaos.values.schemas import Avro as Codec

    codec = Codec(form.avro)

    def read(raw: bytes) -> Any:
        if form.registry and (raw[:1] != b"\0" or len(raw) < FRAME_BYTES):
            raise ValueError("does not have the wire format of a schema registry")
        return codec.decode(raw[FRAME_BYTES:] if form.registry else raw)

    return read


def _protobuf(form: Protobuf) -> Callable[[bytes], Any]:
    from google.protobuf.json_format import MessageToDict

    from chaos.values.schemas import Protobuf as Codec

    codec = Codec(form.protobuf, form.message)

    def read(raw: bytes) -> Any:
        if raw[:1] == b"\0":  # no message begins like that: it is the wire format of a schema registry
            raw = raw[FRAME_BYTES + len(codec.frame()) :]
        message = codec.decode(raw)
        return MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)

    return read
