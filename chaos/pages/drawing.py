"""What `checks.report` draws, in a child process: the style of all pages, and the trend page."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ValidationError

from chaos.pages.problem import PageError
from chaos.processes.python_module import run_module
from chaos.run.trend import Trends


class Look(BaseModel):
    """The style sheet of the reports, and the digests of the scripts that this release writes into pages."""

    style: str
    scripts: list[str]


@cache
def look() -> Look:
    """Return the look of the reports. Raises `PageError` if it cannot be read."""
    try:
        return Look.model_validate_json(_report("look", "-"))
    except ValidationError:
        raise _broken("it returned no style sheet") from None


def trend_page(trends: Trends, folder: Path) -> str:
    """Return the trend page. folder: where its links to reports begin. Raises `PageError`."""
    return _report("trend-text", str(folder), text_input=trends.model_dump_json())


def script_digest(script: str) -> str:
    """Return the digest of a script, as a content security policy names it."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _report(page: str, target: str, text_input: str | None = None) -> str:
    done = run_module("checks.report", page, target, text_input=text_input)
    if done.returncode:
        raise _broken((done.stderr.strip() or "no reason was given").splitlines()[-1])
    return done.stdout


def _broken(reason: str) -> PageError:
    return PageError(500, "The page cannot be drawn", f"checks.report failed: {reason}.", "Check the installation.")
