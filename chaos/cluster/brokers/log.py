"""The errors in the log of a broker or of another JVM."""

from __future__ import annotations

import re
from pathlib import Path

MAX_LINES, MAX_CHARS = 10, 300
_TAIL_BYTES = 256 * 1024

_JVM_ERROR = re.compile(r"^Error: |^Error occurred during init")
_ERROR = re.compile(rf"\[(ERROR|FATAL)\]|^Exception in thread|^Caused by: |{_JVM_ERROR.pattern}")
_TRACE = re.compile(r"^\s+(at |\.\.\. \d+ more)|^\s*$")


def read_from(log: Path, offset: int) -> str:
    """Return the text of a log from a byte offset on, at most its last 256 KiB; empty if there is no log."""
    try:
        with log.open("rb") as f:
            f.seek(max(offset, log.stat().st_size - _TAIL_BYTES))
            return f.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def errors_in(log: Path, offset: int = 0) -> str:
    """Return the error lines of a log from a byte offset on, indented, after the path of the log."""
    lines = "\n".join(f"  {line}" for line in error_lines(read_from(log, offset)))
    return f"{log} says:\n{lines}" if lines else f"{log} says nothing"


def error_lines(text: str) -> list[str]:
    """Return the last error lines with the exceptions they name; without errors, the last lines of the text."""
    lines = [line for line in text.splitlines() if not _TRACE.match(line)]
    errors = [
        line for i, line in enumerate(lines) if _ERROR.search(line) or (i > 0 and _is_exception_of(lines[i - 1], line))
    ]
    return [line[:MAX_CHARS] for line in (errors or lines)[-MAX_LINES:]]


def _is_exception_of(previous: str, line: str) -> bool:
    """Return whether a line is the reason for the error on the line before it."""
    if _JVM_ERROR.search(previous):
        return True
    return _ERROR.search(previous) is not None and re.match(r"[\w.$]+(Exception|Error)\b", line) is not None
