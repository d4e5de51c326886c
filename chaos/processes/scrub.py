"""Texts that no output may contain, such as passwords: they are replaced before an output is kept.

A library may print a secret in another form than it got it: escaped as in JSON or Java, encoded for HTTP or a URL, or
one line of it; or a form of a form, as a JAAS line in JSON. All of these are replaced. Pieces below `SHORTEST`
characters stay, because words would go with them.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO
from urllib.parse import quote, quote_plus

HIDDEN = "[secret]"
SHORTEST = 4
"""Characters of the shortest piece of a secret that is replaced."""


class Scrubber:
    """Replaces secrets. Without a secret, it returns everything as it is."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets for form in _forms(secret)}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def __bool__(self) -> bool:
        return self._pattern is not None

    def text(self, text: str) -> str:
        """Return a text without the secrets."""
        return self._pattern.sub(HIDDEN, text) if self._pattern else text

    def raw(self, line: bytes) -> bytes:
        """Return UTF-8 without the secrets; bytes that are none stay as they are."""
        if self._pattern is None:
            return line
        return self.text(line.decode("utf-8", errors="surrogateescape")).encode("utf-8", errors="surrogateescape")

    def copy(self, source: IO[bytes], log: Path) -> threading.Thread:
        """Append an output to a log without the secrets, line by line, until it ends. Returns the thread that does."""

        def run() -> None:
            with source, log.open("ab", buffering=0) as kept:
                for line in source:
                    kept.write(self.raw(line))

        thread = threading.Thread(target=run, name=f"scrub {log.name}", daemon=True)
        thread.start()
        return thread


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms in which an output may show a secret, or a line of it."""
    for piece in {secret, *secret.splitlines()}:
        for once in {piece, *_written(piece)}:
            yield from (form for form in {once, *_written(once)} if len(form) >= SHORTEST)


def _written(text: str) -> list[str]:
    """Return how a program may write a text."""
    raw = text.encode("utf-8", errors="surrogateescape")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    found = [escaped, repr(text)[1:-1], base64.b64encode(raw).decode()]
    found += [quote(raw), quote(raw, safe=""), quote_plus(raw)]
    return [*found, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]]
