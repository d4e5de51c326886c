"""Properties files, as `java.util.Properties` or librdkafka's programs read them.

No message contains a value: it may be a secret.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import javaproperties

from chaos.errors import UsageError
from chaos.promise.settings import Setting, Settings

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_LINE_END = re.compile(r"\r\n|\r|\n")
_NAME = re.compile(r"[A-Za-z][\w.\-]*")
MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class PropertiesFile:
    """The text of a file. `option` names the file in errors, such as `--topic-config`."""

    option: str
    path: Path
    text: str

    def names(self) -> set[str]:
        """Return the names of its settings, however its values are written."""
        return {name for name, _, _ in _plain(self.text)}

    def read(self, java: bool, notes: list[str]) -> Settings:
        """Return the settings by name; the last one counts, as in Java. java: with Java's escapes and continuations.

        Duplicates and lines without a name are added to `notes`. Raises `UsageError` if there is no setting.
        """
        found: Settings = {}
        for name, value, line in self._java() if java else _plain(self.text):
            where = f"{self.path.name}:{line}"
            if not _NAME.fullmatch(name) or not (value or "." in name):  # perhaps the rest of a broken secret
                notes.append(f"{where} is no setting, and has no effect: a name such as acks, and = are missing")
                continue
            if name in found:
                earlier = found[name].origin
                notes.append(f"{where}: {name} is given twice; this one counts, and {earlier} has no effect")
            found[name] = Setting(name, value.strip(), where)
        if not found:
            raise UsageError(f"{self.option} {self.path} has no settings; write lines such as acks=all")
        return found

    def _java(self) -> Iterator[tuple[str, str, int]]:
        line = 1
        try:
            for element in javaproperties.parse(io.StringIO(self.text, newline="")):
                if isinstance(element, javaproperties.KeyValue):
                    yield element.key, element.value, line
                line += len(_LINE_END.findall(element.source))
        except javaproperties.InvalidUEscapeError:
            raise UsageError(
                f"{self.option} {self.path}:{line}: \\u needs four hexadecimal digits; Java does not read this file"
            ) from None


def open_properties(option: str, path: Path) -> PropertiesFile:
    """Return the text of a properties file. Raises `UsageError` if it cannot be read, is empty or is not text."""
    if path.is_dir():
        raise UsageError(f"{option} {path} is a directory; give a file with lines such as acks=all")
    try:
        data = path.read_bytes()
    except OSError as e:
        raise UsageError(f"{option} {path} cannot be read: {e.strerror}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{option} {path} has {len(data):,} bytes; a properties file has at most {MAX_BYTES:,}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # the encoding of java.util.Properties
    if _CONTROL.search(text):
        raise UsageError(f"{option} {path} is not text; give a file with lines such as acks=all")
    if not text.strip():
        raise UsageError(f"{option} {path} is empty; write lines such as acks=all")
    return PropertiesFile(option, path, text)


def _plain(text: str) -> Iterator[tuple[str, str, int]]:
    """Return name, value and line number of each line such as `acks=all`, without escapes."""
    for number, line in enumerate(_LINE_END.split(text), start=1):
        if line.strip() and line.strip()[0] not in "#!":
            name, _, value = line.partition("=")
            yield name.strip(), value.strip(), number
