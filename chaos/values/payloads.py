"""The payload of each record of a producer with `value`, and the identities of records that carry no other mark."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from chaos.errors import ClientError
from chaos.ledger import record
from chaos.ledger.ids import UUID_FIXED, Id, Ids, IdType, id_of
from chaos.values.model import FILES, ID_SLOTS, Sizes, Value
from chaos.values.pieces import SLOTS, Fill, Pieces, filled, names_in, parse_text
from chaos.values.places import Steps, parse_path, span
from chaos.values.schemas import Avro, Codec, Json, Protobuf, registry_header

MOST_BYTES = 64 << 20
"""Largest file of samples: each process of a producer keeps it in memory."""
MADE = 200
"""Different documents that are made from a schema; records take them in turn, and differ in the id."""
_FILLER = b"abcdefghijklmnopqrstuvwxyz0123456789" * 32
_IDS = {
    "text": re.compile(rb"[0-9a-f]{8}-[A-Za-z0-9._-]+-[0-9]{1,12}"),
    "uuid": re.compile(rb"[0-9a-f]{8}" + UUID_FIXED.encode() + rb"[0-9a-f]{3}-[0-9a-f]{12}"),
    "number": re.compile(rb"[0-9]{1,16}"),
}
"""What an id may look like in the payload of a template."""
_TRIED: dict[IdType, Id] = {
    kind: id_of(kind, "0" * 8, "x" * record.PRODUCER_WIDTH, 10**12 - 1, 2**53 - 1)
    for kind in ("text", "digits", "uuid", "number")
}
"""Ids of the largest size, with which payloads are tried."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class ValueProblem(ClientError):
    """Something is wrong with a key of a value, such as `samples`."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(f"value.{key}: {text}")
        self.key, self.text = key, text


class Payload(NamedTuple):
    """What a record carries, without marks."""

    value: bytes
    key: bytes | None
    headers: list[tuple[str, bytes]]


@dataclass(frozen=True)
class _Document:
    """One document that records are made from. where: its line, such as `orders.jsonl:3`.

    form: text with slots, or a document of the codec.
    """

    where: str
    form: Pieces | Any
    key: bytes | None


def _check_files(value: Value) -> None:
    for key in FILES:
        if (path := getattr(value, key)) is not None and Path(path).exists() and not Path(path).is_file():
            raise ValueProblem(key, f"{path} is no file")


class Payloads:
    """The payloads of one producer process, by seq. Raises `ValueProblem` if they cannot be made.

    made: whether payloads are made, or only ids read. id_type: the type of the id, None without one. largest: the bytes
    of the largest payload, and where it is from.
    """

    def __init__(self, value: Value, seed: int, made: bool = True) -> None:
        _check_files(value)
        self._value, self._seed = value, seed
        self._codec = _codec(value)
        self._is_text = value.template is not None or isinstance(self._codec, Json)
        self._id = parse_path(value.id) if value.id else None
        self._filler = parse_path(value.sizes.field) if value.sizes and value.sizes.field else None
        self._key_text = parse_text(value.key) if value.key and not value.key.startswith("$") else None
        self._headers = [(name, parse_text(text)) for name, text in value.headers.items()]
        texts = [value.template, *value.headers.values()]
        self._draws = value.sizes is not None or any(names_in(t) & {"random", "uuid"} for t in texts if t)
        self._frame = b"" if value.registry is None else registry_header(value.registry.id) + self._codec.frame()
        self.id_type: IdType | None = None if made else value.id_type
        self._documents = list(self._read()) if made else []
        self.largest = max(((self._try(document), document.where) for document in self._documents), default=(0, ""))

    @property
    def number(self) -> int:
        """How many payloads there are: a record has the one with the number of its seq, modulo this one."""
        return len(self._documents)

    def make(self, seq: int, record_id: Id, now_us: int) -> Payload:
        """Return what the record of a seq carries."""
        rng = random.Random(self._seed << 40 | seq) if self._draws else _NO_CHOICES
        fill = Fill(record_id, seq, now_us, rng)
        value = self._bytes(self._documents[seq % len(self._documents)], fill, self._value.sizes)
        return Payload(value, self.key(seq, record_id), [(name, filled(text, fill)) for name, text in self._headers])

    def key(self, seq: int, record_id: Id) -> bytes | None:
        """Return the key of the record of a seq, the same one each time."""
        if self._key_text is not None:
            return filled(self._key_text, Fill(record_id, seq, 0, random.Random(self._seed << 41 | seq)))
        if self._value.key is not None and self._value.key == self._value.id:
            return str(record_id).encode()
        return self._documents[seq % len(self._documents)].key

    def _bytes(self, document: _Document, fill: Fill, sizes: Sizes | None) -> bytes:
        size = 0 if sizes is None else _size(sizes, fill.rng)
        if self._is_text:
            parts = [self._frame, *(piece if isinstance(piece, bytes) else piece(fill) for piece in document.form)]
            if sizes is not None:
                at = document.form.index(SLOTS["filler"]) + 1
                parts[at] = _filler(size - sum(map(len, parts)))
            return b"".join(parts)
        if self._id is not None:
            self._codec.put(document.form, self._id, fill.id)
        if self._filler is not None:
            self._codec.put(document.form, self._filler, "")
        payload = self._frame + self._codec.encode(document.form)
        if self._filler is None or len(payload) >= size:
            return payload
        self._codec.put(document.form, self._filler, _filler(size - len(payload)).decode())
        return self._frame + self._codec.encode(document.form)

    def _read(self) -> Iterator[_Document]:
        """Yield the documents."""
        value = self._value
        if value.template is not None:
            if value.template.startswith(record.VERSION.decode()):
                raise ValueProblem("template", f"begins with {record.VERSION.decode()}, as Aftershock's own values do")
            names = names_in(value.template)
            self.id_type = next((kind for name, kind in ID_SLOTS.items() if name in names), None)
            yield _Document("template", parse_text(value.template), None)
        elif value.samples is not None:
            yield from self._samples(Path(value.samples))
        else:
            yield from self._made()

    def _samples(self, path: Path) -> Iterator[_Document]:
        found = False
        for number, line in enumerate(_lines(path), 1):
            where = f"{path}:{number}"
            if line := line.strip(" \t\r"):
                found = True
                try:
                    sample = json.loads(line, parse_constant=_no_number)
                except (ValueError, RecursionError) as e:
                    reason = f"{e.msg} (column {e.colno})" if isinstance(e, json.JSONDecodeError) else str(e)
                    hint = "each line is one document, as `jq -c . FILE` writes them"
                    raise ValueProblem("samples", f"{where} is no JSON: {reason}; {hint}") from None
                try:
                    document = self._codec.of(sample)
                except ValueError as e:
                    raise ValueProblem("samples", f"{where} {e}") from None
                yield self._document(where, document, line)
        if not found:
            raise ValueProblem("samples", f"{path} is empty; give a file with one JSON document in each line")

    def _made(self) -> Iterator[_Document]:
        key = next(k for k in ("json_schema", "avro", "protobuf") if getattr(self._value, k) is not None)
        where = str(getattr(self._value, key))
        rng = random.Random(self._seed)
        for _ in range(MADE):
            try:
                document = self._codec.make(rng)
                text = self._codec.encode(document).decode() if self._is_text else ""
            except (ValueError, LookupError, TypeError, RecursionError) as e:
                raise ValueProblem(key, f"{where}: no payload can be made: {e}") from None
            yield self._document(where, document, text)

    def _document(self, where: str, document: Any, text: str) -> _Document:
        """Return a document that is known to have id, key and filler. text: its JSON, with a text format."""
        if self._id is not None:
            self._check_id(where, self._at("id", where, document, self._id))
        if self._filler is not None and not isinstance(self._at("sizes.field", where, document, self._filler), str):
            raise ValueProblem("sizes.field", f"{self._value.sizes and self._value.sizes.field} is no text in {where}")
        form = self._pieces(text) if self._is_text else document
        return _Document(where, form, self._key_of(where, document))

    def _at(self, key: str, where: str, document: Any, steps: Steps) -> Any:
        try:
            return self._codec.get(document, steps)
        except LookupError as e:
            raise ValueProblem(key, f"{where} has no {_shown(steps)} ({e.args[0]!r} is missing)") from None

    def _check_id(self, where: str, found: Any) -> None:
        kind: IdType
        if isinstance(found, str):
            kind = "uuid" if _UUID.fullmatch(found) else "digits" if re.fullmatch(r"[0-9]+", found) else "text"
            if self.id_type not in (None, "number", kind):
                self.id_type = kind = "text"  # any text is one
        elif isinstance(found, int | float) and not isinstance(found, bool) and found == int(found):
            kind = "number"
        else:
            raise ValueProblem(
                "id",
                f"{self._value.id} in {where} is {json.dumps(found, default=repr)[:60]}, and no text or whole number",
            )
        if self.id_type not in (None, kind):
            one, other = (kind, "text") if kind == "number" else ("text", "number")
            raise ValueProblem("id", f"{self._value.id} in {where} is a {one}, and a {other} in other payloads")
        self.id_type = kind

    def _key_of(self, where: str, document: Any) -> bytes | None:
        if self._value.key is None or self._key_text is not None:
            return None
        found = self._at("key", where, document, parse_path(self._value.key))
        if isinstance(found, bool) or not isinstance(found, str | int | float):
            raise ValueProblem("key", f"{self._value.key} in {where} is no text or number")
        try:
            return (found if isinstance(found, str) else json.dumps(found)).encode()
        except UnicodeEncodeError:
            raise ValueProblem("key", f"{self._value.key} in {where} is half a character (a lone surrogate)") from None

    def _pieces(self, text: str) -> Pieces:
        """Return a JSON text, byte for byte, with slots for the id and the filler."""
        quotes = "" if self.id_type == "number" else '"'
        slots = [(*span(text, self._id), "id", quotes)] if self._id is not None else []
        slots += [(*span(text, self._filler), "filler", '"')] if self._filler is not None else []
        pieces: list[Any] = []
        at = 0
        for start, end, slot, around in sorted(slots):
            pieces += [(text[at:start] + around).encode(), SLOTS[slot], around.encode()]
            at = end
        return [*pieces, text[at:].encode()]

    def _try(self, document: _Document) -> int:
        """Return the size of the largest payload of a document, which has its id where it belongs."""
        tried: Id = _TRIED[self.id_type or "text"]
        fill = Fill(tried, 10**12 - 1, 1_763_697_600_000_000, random.Random(0))
        try:
            payload = self._bytes(document, fill, self._value.sizes)
            if self._value.template is None:
                self._codec.check(self._codec.decode(payload[len(self._frame) :]) if self._is_text else document.form)
        except (ValueError, TypeError, LookupError, OverflowError) as e:
            if self._id is None:
                raise ValueProblem("samples" if self._value.samples else "avro", f"{document.where} {e}") from None
            raise ValueProblem("id", f"{document.where} does not take an id such as {tried!r}: {e}") from None
        if self._value.has_id and tried not in self.ids_in(payload):
            raise ValueProblem("id", f"{document.where}: the id {tried!r} cannot be read there again")
        return max(len(payload), self._value.sizes.largest if self._value.sizes else 0)

    def ids_in(self, payload: bytes) -> list[object]:
        """Return what may be the id in a payload: the value at its place, or texts that look like one."""
        payload = payload[len(self._frame) :]
        if self._value.template is not None:
            found = _IDS[self.id_type or "text"].findall(payload)
            return [int(text) if self.id_type == "number" else text.decode() for text in found]
        if self._id is None:
            return []
        try:
            found = self._codec.get(self._codec.decode(payload), self._id)
            return [str(found) if isinstance(found, UUID) else found]
        except (ValueError, LookupError):
            return []


class Unmarked:
    """The identities of records that carry nothing but an id, by topic."""

    def __init__(self, values: Mapping[str, Sequence[Value]], ids: Ids) -> None:
        self._payloads = {topic: [Payloads(v, 0) for v in found] for topic, found in values.items()}
        self._ids = ids

    def identity(self, topic: str | None, payload: bytes) -> bytes | None:
        """Return the identity of a record as `record.unsealed` writes it; None without an id of this run."""
        for payloads in self._payloads.get(topic or "", ()):
            for found in payloads.ids_in(payload):
                if (origin := self._ids.parse(found)) is not None:
                    return record.unsealed(self._ids.run_token, *origin)
        return None


_NO_CHOICES = random.Random(0)


def _codec(value: Value) -> Codec:
    key, path = next(
        ((k, p) for k in ("avro", "protobuf", "json_schema") if (p := getattr(value, k)) is not None), ("", "")
    )
    try:
        if key == "avro":
            return Avro(path)
        if key == "protobuf":
            return Protobuf(path, value.message)
        return Json(path or None)
    except OSError as e:
        raise ValueProblem(key, f"{path} cannot be read: {e.strerror}") from None
    except RecursionError:
        raise ValueProblem(key, f"{path} is nested too deeply") from None
    except json.JSONDecodeError as e:
        raise ValueProblem(key, f"{path}:{e.lineno} is no JSON: {e.msg} (column {e.colno})") from None
    except LookupError as e:
        raise ValueProblem("message", f"{path} {e.args[0]}") from None
    except ValueError as e:
        raise ValueProblem(key, f"{path} {e}") from None


def _lines(path: Path) -> list[str]:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueProblem("samples", f"{path} has more than {MOST_BYTES >> 20} MiB; give a part of it")
        return path.read_bytes().decode("utf-8-sig").split("\n")
    except OSError as e:
        raise ValueProblem("samples", f"{path} cannot be read: {e.strerror}") from None
    except UnicodeDecodeError as e:
        line = path.read_bytes()[: e.start].count(b"\n") + 1
        raise ValueProblem("samples", f"{path}:{line} is no UTF-8") from None


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _shown(steps: Steps) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _filler(size: int) -> bytes:
    """Return a text of a size; empty for a size below 0: a payload is not cut."""
    return (_FILLER * (size // len(_FILLER) + 1))[: max(0, size)]


def _size(sizes: Sizes, rng: random.Random) -> int:
    if sizes.fixed is not None:
        return sizes.fixed
    if sizes.uniform is not None:
        return rng.randint(*sizes.uniform)
    found, weights = zip(*sizes.weights or (), strict=True)
    chosen: int = rng.choices(found, weights)[0]
    return chosen
