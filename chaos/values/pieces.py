"""Texts with placeholders, such as `order {id} at {now}`: fixed bytes, and slots that each record fills."""

from __future__ import annotations

import difflib
import itertools
import random
import re
from bisect import bisect
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from chaos.ledger.ids import Id

_PLACEHOLDER = re.compile(r'\{\{([a-z][^{}"]*)\}\}|\{([a-z][^{}"]*)\}')
"""JSON has no such text: after a brace it has a quote, a space or another brace."""
_RANGE = re.compile(r"(-?\d{1,15}(?:\.(\d{1,9}))?)\.\.(-?\d{1,15}(?:\.(\d{1,9}))?)")

_MOST_RANKS = 1_000_000


class Fill(NamedTuple):
    """What the slots of one record get. rng: the choices of this record; filler: the text that makes its size."""

    id: Id
    seq: int
    now_us: int
    rng: random.Random
    filler: bytes = b""


Slot = Callable[[Fill], bytes]
Pieces = Sequence[bytes | Slot]


def _id(fill: Fill) -> bytes:
    return str(fill.id).encode()


def _filler(fill: Fill) -> bytes:
    return fill.filler


SLOTS: dict[str, Slot] = {
    "id": _id,
    "id:number": _id,
    "id:uuid": _id,
    "seq": lambda fill: b"%d" % fill.seq,
    "now": lambda fill: b"%d" % (fill.now_us // 1000),
    "now:iso": lambda fill: datetime.fromtimestamp(fill.now_us / 1e6, UTC).isoformat(timespec="milliseconds").encode(),
    "uuid": lambda fill: str(UUID(int=fill.rng.getrandbits(128), version=4)).encode(),
    "filler": _filler,
}


def parse_text(text: str) -> Pieces:
    """Return the pieces of a text. Raises `ValueError` for an unknown placeholder."""
    return [piece if isinstance(piece, bytes) else piece[1] for piece in _parsed(text)]


def names_in(text: str) -> set[str]:
    """Return the names of the placeholders of a text; all that begin with `random` are `random`."""
    return {piece[0] for piece in _parsed(text) if not isinstance(piece, bytes)}


@lru_cache(maxsize=256)
def _parsed(text: str) -> list[bytes | tuple[str, Slot]]:
    found: list[bytes | tuple[str, Slot]] = []
    at = 0
    for match in _PLACEHOLDER.finditer(text):
        before, at = text[at : match.start()], match.end()
        name = re.sub(r"\s*:\s*", ":", match[2].strip()) if match[2] else ""
        if not name:
            found.append(f"{before}{{{match[1]}}}".encode())
            continue
        found += [before.encode()] if before else []
        if name.startswith("random:"):
            found.append(("random", _random(name.removeprefix("random:"))))
        elif name.startswith("zipf:"):
            found.append(("random", _zipf(name.removeprefix("zipf:"))))
        elif name in SLOTS:
            found.append((name, SLOTS[name]))
        else:
            near = difflib.get_close_matches(name, [*SLOTS, "random: 1..100"], 1)
            hint = f" (did you mean {{{near[0]}}}?)" if near else ""
            raise ValueError(f"{{{name}}} is no placeholder{hint}; write {{{{{name}}}}} for the text itself")
    return [*found, text[at:].encode()] if at < len(text) or not found else found


def _random(choice: str) -> Slot:
    """Return the slot of a range such as 1..100 or 0.50..9.99, or of texts such as red|green."""
    if match := _RANGE.fullmatch(choice.strip()):
        digits = max(len(match[2] or ""), len(match[4] or ""))
        low, high = (round(float(bound) * 10**digits) for bound in (match[1], match[3]))
        if low > high:
            raise ValueError(f"{{random: {choice}}}: the first number is the smallest one")
        if not digits:
            return lambda fill: b"%d" % fill.rng.randint(low, high)
        return lambda fill: f"{fill.rng.randint(low, high) / 10**digits:.{digits}f}".encode()
    texts = [text.strip().encode() for text in choice.split("|")]
    if len(texts) < 2:
        raise ValueError(f"{{random: {choice}}}: give a range such as 1..100, or texts such as red|green")
    return lambda fill: fill.rng.choice(texts)


def _zipf(choice: str) -> Slot:
    """Return the slot of a range of numbers, the n-th with a weight of 1/n (Zipf's law)."""
    match = re.fullmatch(r"(\d{1,15})\.\.(\d{1,15})", choice.strip())
    low, high = (int(bound) for bound in match.groups()) if match else (1, 0)
    if not 0 <= high - low < _MOST_RANKS:
        raise ValueError(f"{{zipf: {choice}}}: give a range such as 1..1000, of {_MOST_RANKS:,} numbers at most")
    sums = list(itertools.accumulate(1 / n for n in range(1, high - low + 2)))
    return lambda fill: b"%d" % (low + min(high - low, bisect(sums, fill.rng.random() * sums[-1])))


def filled(pieces: Pieces, fill: Fill) -> bytes:
    """Return the text of one record."""
    return b"".join([piece if isinstance(piece, bytes) else piece(fill) for piece in pieces])
