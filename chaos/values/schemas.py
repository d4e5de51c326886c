"""Documents that fit a JSON Schema, an Avro schema or a Protobuf message, from a seed; and their bytes.

A `Codec` has the bytes of documents. Every optional part is there, so that the id is. Libraries are imported on use.
"""

from __future__ import annotations

import base64
import io
import json
import random
import struct
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from chaos.values.places import Steps, put, value_at

_MOST = 40
"""Levels after which a schema is taken for one that contains itself without an end."""
_YEAR_US, _EPOCH_US = 31_536_000_000_000, 1_735_689_600_000_000
"""Times that are made are in 2025, so that they do not depend on the day of the run."""


class Codec(ABC):
    """A format of payloads. `document` is a JSON document; with Protobuf, a message."""

    @abstractmethod
    def make(self, rng: random.Random) -> Any:
        """Return a document. Raises `ValueError` if the schema has something that cannot be made."""

    @abstractmethod
    def of(self, sample: Any) -> Any:
        """Return the document of a sample. Raises `ValueError` if it does not fit."""

    @abstractmethod
    def encode(self, document: Any) -> bytes:
        """Return the bytes of a document. Raises `ValueError` if it does not fit."""

    @abstractmethod
    def decode(self, payload: bytes) -> Any:
        """Return the document in a payload. Raises `ValueError` for other bytes."""

    def check(self, document: Any) -> None:  # noqa: B027 - no library but Avro's encodes what does not fit
        """Raise `ValueError` if a document does not fit the schema, though it can be encoded."""

    def get(self, document: Any, steps: Steps) -> Any:
        """Return the value at a place of a document. Raises `LookupError` if there is none."""
        return value_at(document, steps)

    def put(self, document: Any, steps: Steps, value: Any) -> None:
        """Change the value at a place. Raises `LookupError`, `TypeError` or `ValueError`."""
        put(document, steps, value)

    def frame(self) -> bytes:
        """Return what the wire format of a schema registry has between the id and the payload."""
        return b""


class Json(Codec):
    """JSON, with a schema or without."""

    def __init__(self, path: str | None = None) -> None:
        self._schema: Any = None if path is None else json.loads(Path(path).read_bytes())
        if path is not None:
            from jsonschema import SchemaError
            from jsonschema.validators import validator_for

            try:
                validator_for(self._schema).check_schema(self._schema)
            except SchemaError as e:
                raise ValueError(f"is no JSON Schema: {e.json_path}: {e.message[:200]}") from None
            self._validator = validator_for(self._schema)(self._schema)

    def make(self, rng: random.Random) -> Any:
        """Return a document that fits the schema."""
        document = _json(self._schema, self._schema, rng, ())
        try:
            self.check(document)
        except ValueError as e:
            raise ValueError(f"{e}; give `examples` there in the schema, or use samples") from None
        return document

    def check(self, document: Any) -> None:
        """Raise `ValueError` for a document that the schema refuses."""
        error = next(self._validator.iter_errors(document), None) if self._schema is not None else None
        if error is not None:
            raise ValueError(f"{error.json_path}: {error.message[:200]}")

    def of(self, sample: Any) -> Any:
        """Return the sample."""
        return sample

    def encode(self, document: Any) -> bytes:
        """Return the document as compact JSON."""
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()

    def decode(self, payload: bytes) -> Any:
        """Return the document."""
        return json.loads(payload)


def _json(schema: Any, root: Any, rng: random.Random, within: tuple[str, ...]) -> Any:
    """Return a value that fits a JSON Schema. within: the references that led to it; none is followed into itself."""
    if not isinstance(schema, dict):
        return "any"
    if "$ref" in schema:
        if len(within) > _MOST:
            raise ValueError("the schema contains itself without an end; use samples")
        return _json(_referred(schema["$ref"], root), root, rng, (*within, schema["$ref"]))
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        if schema.get(key):
            return rng.choice(schema[key])
    for key in ("oneOf", "anyOf"):
        if schema.get(key):
            rest = {k: v for k, v in schema.items() if k != key}
            return _json(_merged([rest, schema[key][0]], root), root, rng, within)
    if schema.get("allOf"):
        rest = {k: v for k, v in schema.items() if k != "allOf"}
        return _json(_merged([rest, *schema["allOf"]], root), root, rng, within)
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    kind = next(k for k in kinds if k != "null" or kinds == ["null"]) if isinstance(kinds, list) else kinds
    if kind == "object":
        required = schema.get("required", [])
        properties = schema.get("properties", {}).items()
        parts = {k: v for k, v in properties if k in required or not _repeats(v, within)}
        return {**{k: "any" for k in required}, **{k: _json(v, root, rng, within) for k, v in parts.items()}}
    if kind == "array":
        item = schema.get("items", {})
        count = max(schema.get("minItems", 0), min(schema.get("maxItems", 2), 0 if _repeats(item, within) else 2))
        return [_json(item, root, rng, within) for _ in range(count)]
    if kind in ("integer", "number"):
        return _json_number(schema, kind, rng)
    return {"boolean": rng.random() < 0.5, "null": None}.get(kind, _json_text(schema, rng))


def _repeats(schema: Any, within: tuple[str, ...]) -> bool:
    """Return whether a schema refers to one that it is part of."""
    return isinstance(schema, dict) and schema.get("$ref") in (*within, "#")


def _referred(reference: str, root: Any) -> Any:
    if not reference.startswith("#"):
        raise ValueError(f"$ref {reference!r} is in another document; put it into this one, under $defs")
    for step in filter(None, reference[1:].split("/")):
        root = root[step.replace("~1", "/").replace("~0", "~")]
    return root


def _merged(schemas: list[Any], root: Any) -> dict[str, Any]:
    """Return one schema in place of several that all have to hold."""
    found: dict[str, Any] = {}
    for schema in schemas:
        part = _referred(schema["$ref"], root) if "$ref" in schema else schema
        for key, value in part.items():
            before = found.get(key)
            if isinstance(value, dict) and isinstance(before, dict):
                found[key] = before | value
            elif key == "required" and before:
                found[key] = [*before, *value]
            else:
                found[key] = value
    return found


def _json_number(schema: dict[str, Any], kind: str, rng: random.Random) -> int | float:
    step = schema.get("multipleOf", 1 if kind == "integer" else 0.01)
    low, high = schema.get("minimum"), schema.get("maximum")
    low = schema.get("exclusiveMinimum", 0 if high is None else min(0, high)) + step if low is None else low
    high = schema.get("exclusiveMaximum", low + 10_000 * step + step) - step if high is None else high
    first = -(-low // step)
    count = max(0, int(high // step - first))
    found = (first + rng.randint(0, min(count, 2**31))) * step
    return round(found) if kind == "integer" else round(float(found), 9)


def _json_text(schema: dict[str, Any], rng: random.Random) -> str:
    form = schema.get("format")
    at = datetime.fromtimestamp((_EPOCH_US + rng.randrange(_YEAR_US)) / 1e6, UTC)
    known = {
        "date-time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "date": at.date().isoformat(),
        "time": at.time().isoformat(timespec="seconds") + "Z",
        "uuid": str(UUID(int=rng.getrandbits(128), version=4)),
        "email": f"{_word(rng)}@example.com",
        "hostname": f"{_word(rng)}.example.com",
        "uri": f"https://example.com/{_word(rng)}",
        "ipv4": f"192.0.2.{rng.randrange(256)}",
    }
    text = known.get(form or "") or _word(rng)
    while len(text) < schema.get("minLength", 0):
        text += _word(rng)
    return text if form in known else text[: schema.get("maxLength", len(text))]


def _word(rng: random.Random) -> str:
    return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=8))


class Avro(Codec):
    """Avro in its binary encoding, without the header of an object container file."""

    def __init__(self, path: str) -> None:
        import fastavro

        schema = json.loads(Path(path).read_bytes())
        try:
            self._named: dict[str, Any] = {}
            self._schema = fastavro.parse_schema(schema, named_schemas=self._named)
        except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, KeyError, TypeError) as e:
            raise ValueError(f"is no Avro schema: {type(e).__name__}: {e}") from None
        self._library = fastavro

    def make(self, rng: random.Random) -> Any:
        """Return a document that fits the schema."""
        return self._value(self._schema, rng, ())

    def of(self, sample: Any) -> Any:
        """Return the sample."""
        return sample

    def encode(self, document: Any) -> bytes:
        """Return the binary encoding."""
        out = io.BytesIO()
        try:
            self._library.schemaless_writer(out, self._schema, document, strict_allow_default=True)
        except Exception as e:  # noqa: BLE001 - the errors of fastavro for a value that does not fit have no base class
            raise ValueError(f"does not fit the Avro schema: {type(e).__name__}: {e}") from None
        return out.getvalue()

    def check(self, document: Any) -> None:
        """Raise `ValueError` for a value out of the range of its type, which the encoding would take."""
        try:
            self._library.validate(document, self._schema)
        except self._library.validation.ValidationError as e:
            raise ValueError(str(e).replace("\n", " ")[:300]) from None

    def decode(self, payload: bytes) -> Any:
        """Return the document."""
        try:
            return self._library.schemaless_reader(io.BytesIO(payload), self._schema)
        except Exception as e:  # noqa: BLE001 - as above
            raise ValueError(f"does not fit the Avro schema: {type(e).__name__}") from None

    def _value(self, schema: Any, rng: random.Random, within: tuple[str, ...]) -> Any:
        """Return a value of an Avro type. within: the records that it is part of; an optional one is not repeated."""
        if isinstance(schema, list):
            kinds = [kind for kind in schema if kind != "null" and not self._repeats(kind, within)]
            return self._value(kinds[0], rng, within) if kinds else None
        if isinstance(schema, str):
            return self._value(self._named[schema], rng, within) if schema in self._named else _primitive(schema, rng)
        kind = schema["type"]
        if kind in ("record", "error"):
            if len(within) > _MOST:
                raise ValueError("the schema contains itself without an end; use samples")
            inner = (*within, schema["name"])
            return {field["name"]: self._value(field["type"], rng, inner) for field in schema["fields"]}
        if kind == "enum":
            return rng.choice(schema["symbols"])
        if kind == "fixed":
            return rng.randbytes(schema["size"])
        if kind == "array":
            several = range(0 if self._repeats(schema["items"], within) else 2)
            return [self._value(schema["items"], rng, within) for _ in several]
        if kind == "map":
            several = range(0 if self._repeats(schema["values"], within) else 2)
            return {_word(rng): self._value(schema["values"], rng, within) for _ in several}
        return _logical(schema, rng) if "logicalType" in schema else self._value(kind, rng, within)

    def _repeats(self, kind: Any, within: tuple[str, ...]) -> bool:
        return (kind["name"] if isinstance(kind, dict) and "name" in kind else kind) in within


def _primitive(kind: str, rng: random.Random) -> Any:
    made: dict[str, Callable[[], Any]] = {
        "int": lambda: rng.randrange(10_000),
        "long": lambda: rng.randrange(10_000),
        "float": lambda: rng.randrange(1_000_000) / 100,
        "double": lambda: rng.randrange(1_000_000) / 100,
        "boolean": lambda: rng.random() < 0.5,
        "bytes": lambda: rng.randbytes(8),
        "string": lambda: _word(rng),
        "null": lambda: None,
    }
    if kind not in made:
        raise ValueError(f"has the type {kind!r}, which is unknown")
    return made[kind]()


def _logical(schema: dict[str, Any], rng: random.Random) -> Any:
    """Return a value of a logical type, as the library takes it without a conversion."""
    name, at_us = schema["logicalType"], _EPOCH_US + rng.randrange(_YEAR_US)
    if name == "decimal":
        from decimal import Decimal

        scale = schema.get("scale", 0)
        return Decimal(rng.randrange(10 ** min(schema.get("precision", 4), 6))).scaleb(-scale)
    if name == "uuid":
        return str(UUID(int=rng.getrandbits(128), version=4))
    units = {"millis": 1000, "micros": 1}
    divisor = units.get(name.rpartition("-")[2], 1)
    if "timestamp" in name:
        return at_us // divisor
    if name.startswith("time-"):
        return at_us % 86_400_000_000 // divisor
    return at_us // 86_400_000_000 if name == "date" else _primitive(schema["type"], rng)


class Protobuf(Codec):
    """Protobuf messages. A document is a message; one that is encoded keeps its changes."""

    def __init__(self, path: str, message: str | None) -> None:
        from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
        from google.protobuf.message import DecodeError

        files = descriptor_pb2.FileDescriptorSet.FromString(_compiled(path))
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.AddSerializedFile(file.SerializeToString())
        own = files.file[-1]
        named = dict(_messages(own.message_type, own.package))
        if not named:
            raise ValueError("has no message")
        chosen = next((n for n in named if message is None or n == message or n.endswith(f".{message}")), None)
        if chosen is None:
            raise LookupError(f"has no message {message!r} (there are {', '.join(named)})")
        self._indexes = named[chosen]
        self._class = message_factory.GetMessageClass(pool.FindMessageTypeByName(chosen))
        self._json, self._error = json_format, DecodeError

    def make(self, rng: random.Random) -> Any:
        """Return a message with a value in each field."""
        found = self._class()
        _fill(found, rng, ())
        return found

    def of(self, sample: Any) -> Any:
        """Return the message that a JSON document means, with field names as in the file or in lowerCamelCase."""
        try:
            return self._json.ParseDict(sample, self._class())
        except (self._json.ParseError, TypeError, AttributeError) as e:
            raise ValueError(f"does not fit the message: {e}") from None

    def encode(self, document: Any) -> bytes:
        """Return the bytes of a message; the same ones for the same message."""
        found: bytes = document.SerializeToString(deterministic=True)
        return found

    def decode(self, payload: bytes) -> Any:
        """Return the message."""
        try:
            return self._class.FromString(payload)
        except self._error:
            raise ValueError("does not fit the message") from None

    def get(self, document: Any, steps: Steps) -> Any:
        """Return the value of a field."""
        for step in steps:
            try:
                document = document[step] if isinstance(step, int) or _is_map(document) else _field(document, step)
            except (TypeError, IndexError, KeyError, AttributeError):
                raise LookupError(step) from None
        return document

    def put(self, document: Any, steps: Steps, value: Any) -> None:
        """Change the value of a field."""
        parent, last = self.get(document, steps[:-1]), steps[-1]
        if isinstance(last, int) or _is_map(parent):
            parent[last] = value
        else:
            setattr(parent, last, value)

    def frame(self) -> bytes:
        """Return the indexes of the message in its file: their number and each, as zigzag; 0 alone for the first."""
        if self._indexes == (0,):
            return b"\0"
        return b"".join(_varint(2 * number) for number in (len(self._indexes), *self._indexes))


def _is_map(value: Any) -> bool:
    return hasattr(value, "GetEntryClass")


def _field(message: Any, name: str) -> Any:
    if name not in message.DESCRIPTOR.fields_by_name:
        raise KeyError(name)
    return getattr(message, name)


def _compiled(path: str) -> bytes:
    """Return the descriptors of a .proto file, it last. Raises `ValueError` with what the compiler says."""
    file = Path(path)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "descriptors"
        options = [f"-I{file.parent}", f"--descriptor_set_out={out}", "--include_imports", str(file)]
        command = [sys.executable, "-m", "grpc_tools.protoc", *options]
        # as a process: the compiler writes its errors to the file of stderr
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().split("\n")
            said = next((line for line in lines if f"{file.name}:" in line), lines[-1])
            raise ValueError(f"cannot be compiled: {said or f'exit code {done.returncode}'}")
        return out.read_bytes()


def _messages(types: Any, within: str, path: tuple[int, ...] = ()) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the full names of messages with their indexes; those within a message follow it."""
    for index, kind in enumerate(types):
        name = f"{within}.{kind.name}".lstrip(".")
        if not kind.options.map_entry:
            yield name, (*path, index)
            yield from _messages(kind.nested_type, name, (*path, index))


def _fill(message: Any, rng: random.Random, within: tuple[str, ...]) -> None:
    """Give each field of a message a value; of the fields of a oneof, only the last one keeps it.

    within: the messages that it is part of; none is repeated.
    """
    inner = (*within, message.DESCRIPTOR.full_name)
    for field in message.DESCRIPTOR.fields:
        target, kind = getattr(message, field.name), field.message_type
        if _is_map(target):
            key, value = (kind.fields_by_name[name] for name in ("key", "value"))
            if value.message_type is None:
                target[_scalar(key, rng)] = _scalar(value, rng)
            elif value.message_type.full_name not in inner:
                _fill(target[_scalar(key, rng)], rng, inner)
        elif kind is not None and kind.full_name in inner:
            continue
        elif field.is_repeated:
            for _ in range(2):
                if kind is None:
                    target.append(_scalar(field, rng))
                else:
                    _fill(target.add(), rng, inner)
        elif kind is None:
            setattr(message, field.name, _scalar(field, rng))
        else:
            target.SetInParent()
            _fill(target, rng, inner)


def _scalar(field: Any, rng: random.Random) -> Any:
    if field.enum_type is not None:
        return rng.choice([value.number for value in field.enum_type.values])
    kind = {1: float, 2: float, 8: bool, 9: str, 12: bytes}.get(field.type, int)
    number = rng.randrange(1, 10_000)
    made = {float: number / 4, bool: number % 2 == 0, str: _word(rng), bytes: base64.b32encode(rng.randbytes(5))}
    return made.get(kind, number)


def _varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


def registry_header(schema_id: int) -> bytes:
    """Return what the wire format of a schema registry begins with."""
    return b"\0" + struct.pack(">I", schema_id)
