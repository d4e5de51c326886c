"""What a broker's own log says about why it did not start."""

from __future__ import annotations

import re
from pathlib import Path

MOST_LINES, MOST_CHARS = 10, 300
_TAIL_BYTES = 256 * 1024

_JVM_ERROR = re.compile(r"^Error: |^Error occurred during init")
_ERROR = re.compile(rf"\[(ERROR|FATAL)\]|^Exception in thread|^Caused by: |{_JVM_ERROR.pattern}")
_TRACE = re.compile(r"^\s+(at |\.\.\. \d+ more)|^\s*$")


def read_from(log: Path, offset: int) -> str:
    """The text of a log from a byte offset on, or of its last part if that is very long; empty if there is no log."""
    try:
        with log.open("rb") as f:
            f.seek(max(offset, log.stat().st_size - _TAIL_BYTES))
            return f.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def telling_lines(text: str) -> list[str]:
    """The last few lines that tell what went wrong: errors with the exceptions they name, else simply the last ones."""
    lines = [line for line in text.splitlines() if not _TRACE.match(line)]
    telling = [
        line for i, line in enumerate(lines) if _ERROR.search(line) or (i > 0 and _is_exception_of(lines[i - 1], line))
    ]
    return [line[:MOST_CHARS] for line in (telling or lines)[-MOST_LINES:]]


def _is_exception_of(previous: str, line: str) -> bool:
    """An error is logged on one line, and the exception behind it on the next; so is the reason of the JVM itself."""
    if _JVM_ERROR.search(previous):
        return True
    return _ERROR.search(previous) is not None and re.match(r"[\w.$]+(Exception|Error)\b", line) is not None
