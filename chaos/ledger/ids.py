"""Ids of inputs: what marks a record of a producer with `value`, in the field that the user names.

An application knows nothing of Aftershock, so the id has the form of the user's own:

| type   | such as                                | what is in it                                                     |
|--------|----------------------------------------|-------------------------------------------------------------------|
| text   | `7f3a91c0-shop-1-40`                   | the token of the run, client and seq                              |
| number | `5028613586944040`                     | the second of the run, and the number among all records of the run |
| digits | `"5028613586944040"`                   | the same, as a text                                               |
| uuid   | `7f3a91c0-af7e-4a57-8011-dd5e5c000028` | the token, and the number (a UUID of version 4 by its form)       |

It is a function of the run, the client and the record's number, so no table of ids is kept: the audit makes them again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

NUMBER_BITS = 26
"""Bits for the records of a run: 67 million. With the time of the run, an id has 53 bits, as a double holds exactly."""
_RUN_BITS = 27
"""Bits for the second in which the run was made, so that ids of other runs in the same database are others."""

IdType = Literal["text", "digits", "uuid", "number"]
Id = str | int
UUID_FIXED = "-af7e-4a57-8"
"""What UUIDs have behind the token of the run: version 4, and the first digit of the variant (RFC 9562)."""
_UUID_LOW = 48
"""Bits of a number in the last group of a UUID; the rest is in the group before it."""
_UUID = re.compile(rf"([0-9a-f]{{8}}){UUID_FIXED}([0-9a-f]{{3}})-([0-9a-f]{{12}})")


def text_id(run_token: str, client: str, seq: int) -> str:
    """Return the id of a record as text, such as `7f3a91c0-shop-1-40`."""
    return f"{run_token}-{client.replace('/', '-')}-{seq}"


def number_id(created_us: int, first: int, seq: int) -> int:
    """Return the id of a record as a number. first: how many records the clients before this one may send."""
    run = (created_us // 1_000_000) % (1 << _RUN_BITS)
    return (run << NUMBER_BITS) + first + seq


def id_of(kind: IdType, run_token: str, client: str, seq: int, number: int) -> Id:
    """Return the id of a record. number: see `number_id`."""
    if kind == "text":
        return text_id(run_token, client, seq)
    if kind == "uuid":
        return f"{run_token}{UUID_FIXED}{number >> _UUID_LOW:03x}-{number & ((1 << _UUID_LOW) - 1):012x}"
    return number if kind == "number" else str(number)


@dataclass(frozen=True)
class Ids:
    """The ids of a run. first: by client, how many records the clients before it may send; most: of all clients."""

    run_token: str
    created_us: int
    first: Mapping[str, int]
    most: int

    def of(self, client: str, seq: int, kind: IdType) -> Id:
        """Return the id of a record."""
        number = number_id(self.created_us, self.first.get(client, 0), seq)
        return id_of(kind, self.run_token, client, seq, number)

    def parse(self, found: object) -> tuple[str, int] | None:
        """Return the client and the seq of an id of any type; None for what is no id of this run."""
        if isinstance(found, str) and (match := _UUID.fullmatch(found)):
            found = int(match[2] + match[3], 16) if match[1] == self.run_token else None
        elif isinstance(found, str) and re.fullmatch(r"[1-9][0-9]{0,16}", found):
            found = int(found)
        if isinstance(found, str):
            match = re.fullmatch(r"([0-9a-f]{8})-(.+)-(0|[1-9][0-9]{0,11})", found)
            if match is None or match[1] != self.run_token:
                return None
            client = "/".join(match[2].rsplit("-", 1))
            return (client, int(match[3])) if client in self.first else None
        if isinstance(found, float) and found.is_integer():
            found = int(found)  # other programs write 17 as 17.0
        if not isinstance(found, int) or isinstance(found, bool):
            return None
        at = found - number_id(self.created_us, 0, 0)
        if not 0 <= at < self.most:
            return None
        clients, starts = list(self.first), list(self.first.values())
        number = bisect_right(starts, at) - 1
        return clients[number], at - starts[number]
