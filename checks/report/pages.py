"""Rendering of templates. An HTML page is one file: it contains its style and scripts, and loads nothing.

A content security policy in each page forbids everything that is not in the file.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from chaos.anomalies import ANOMALIES, METRICS
from checks.report import text
from checks.report.text import Clock

EPOCH = Clock(0)
_FOLDER = Path(__file__).parent / "page"
SCRIPTS = (("page.js",), ("page.js", "timeline.js"), ("page.js", "trend.js"), ("page.js", "gate.js"))
"""The scripts of each kind of page. A server of these pages allows no others."""


def render_page(
    template: str,
    clock: Clock = EPOCH,
    *,
    styles: tuple[str, ...] = ("report.css",),
    scripts: tuple[str, ...] = (),
    **values: Any,
) -> str:
    """Render a page with its style sheets and scripts in one file, and return valid UTF-8 text."""
    assert not scripts or scripts in SCRIPTS, scripts
    script = _joined(scripts)
    values |= {
        "style": Markup(_joined(styles)),  # our own files, here and below
        "script": Markup(script),
        "script_hash": _digest(script),
    }
    return _environment(clock).get_template(template).render(values).encode("utf-8", "replace").decode("utf-8")


def look() -> str:
    """Return the style sheet of all pages and the digests of their scripts as JSON."""
    return json.dumps({"style": _joined(("report.css",)), "scripts": [_digest(_joined(names)) for names in SCRIPTS]})


def render_text(template: str, **values: Any) -> str:
    """Render a template that is not HTML, without escaping, and return the text."""
    return _environment(EPOCH).get_template(template).render(values)


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _joined(names: tuple[str, ...]) -> str:
    return "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in names)


def _environment(clock: Clock) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=select_autoescape(("html.j2",)),
        finalize=text.visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for format_ in (text.number, text.duration, text.count, text.cut, clock.relative, clock.wall, clock.evidence):
        environment.filters[format_.__name__] = format_
    environment.globals.update(anomalies=ANOMALIES, metrics=METRICS)
    return environment
