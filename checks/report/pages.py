"""Rendering of the HTML pages: templates, style and scripts become one file that loads nothing.

A content security policy in each page forbids everything that is not in the file.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from chaos.anomalies import ANOMALIES, METRICS
from checks.report import text
from checks.report.text import Clock

_FOLDER = Path(__file__).parent / "page"


def render_page(
    template: str, clock: Clock, *, styles: tuple[str, ...], scripts: tuple[str, ...], **values: Any
) -> str:
    """Render a template with its style sheets and scripts in one file, and return valid UTF-8 text."""
    script = _joined(scripts)
    page = (
        _environment(clock)
        .get_template(template)
        .render(
            **values,
            style=Markup(_joined(styles)),  # our own files, here and below
            script=Markup(script),
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )
    return page.encode("utf-8", "replace").decode("utf-8")


def _joined(names: tuple[str, ...]) -> str:
    return "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in names)


def _environment(clock: Clock) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        finalize=text.visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "number": text.number,
        "duration": text.duration,
        "count": text.count,
        "cut": text.cut,
        "relative": clock.relative,
        "wall": clock.wall,
        "evidence": clock.evidence,
    }
    environment.filters.update(filters)
    environment.globals.update(anomalies=ANOMALIES, metrics=METRICS)
    return environment
