"""One place in a JSON document: its path (JSONPath), and the characters that hold its value in the user's own text."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

Steps = tuple[str | int, ...]
"""Keys of objects and numbers of items, from the whole document to a place in it."""
EACH = "*"
"""The step to each item of a list. No key is this: a path names such a key in no way."""

_SPACE = re.compile(r"[ \t\n\r]*")
_JSON = json.JSONDecoder()


@lru_cache(maxsize=64)
def parse_path(text: str, lists: bool = False) -> Steps:
    """Return the steps of a JSONPath such as `$.customer.id` or `$.items[0]`. Raises `ValueError` for any other.

    lists: whether the path may have `EACH` once, as in `$.orders[*].id`.
    """
    from jsonpath_ng.exceptions import JSONPathError  # on use: most scenarios have no path
    from jsonpath_ng.jsonpath import Child, Fields, Index, Root, Wildcard
    from jsonpath_ng.parser import parse

    example = "write one such as $.order_id, $.customer.id or $.items[0].id"
    try:
        left: Any = parse(text)
    except JSONPathError as e:
        raise ValueError(f"{text!r} is no JSONPath ({str(e).partition(chr(10))[0]}); {example}") from None
    steps: list[str | int] = []
    while isinstance(left, Child):
        left, right = left.left, left.right
        if isinstance(right, Fields) and len(right.fields) == 1 and right.fields[0] != "*":
            steps.append(right.fields[0])
        elif isinstance(right, Index) and len(right.indices) == 1 and right.indices[0] >= 0:
            steps.append(right.indices[0])
        elif lists and isinstance(right, Wildcard) and EACH not in steps:
            steps.append(EACH)
        else:
            break
    if not isinstance(left, Root) or not steps:
        raise ValueError(f"{text!r} does not name one place; {example}")
    return tuple(reversed(steps))


def value_at(document: Any, steps: Steps) -> Any:
    """Return the value at a place. Raises `LookupError` if the document has no such place."""
    found: Any = document
    for step in steps:
        try:
            fits = isinstance(found, list) if isinstance(step, int) else isinstance(found, dict)
            found = found[step] if fits else None
        except LookupError:
            fits = False
        if not fits:
            raise LookupError(step)
    return found


def put(document: Any, steps: Steps, value: Any) -> None:
    """Change the value at a place. Raises `LookupError` if the document has no such place."""
    parent: Any = value_at(document, steps[:-1])
    parent[steps[-1]] = value


def span(text: str, steps: Steps) -> tuple[int, int]:
    """Return the characters of a valid JSON text that hold the value at a place: the first one, and the next after."""
    at = _after_space(text, 0)
    for step in steps:
        at = _member(text, at, step)
    return at, _JSON.raw_decode(text, at)[1]


def _member(text: str, at: int, step: str | int) -> int:
    """Return where the value of a member begins. at: where its object or list begins. A repeated key counts last."""
    found, number = -1, 0
    at = _after_space(text, at + 1)
    while text[at] not in "]}":
        name: Any = number
        if isinstance(step, str):
            name, at = _JSON.raw_decode(text, at)
            at = _after_space(text, _after_space(text, at) + 1)  # the colon
        if name == step:
            found = at
        at = _after_space(text, _JSON.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _after_space(text, at + 1)
        number += 1
    return found


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()
