"""Rendering of templates: pages, and summaries in Markdown for a pull request.

An HTML page is one file: it contains its style and scripts, and loads nothing. A content security policy in each page
forbids everything that is not in the file.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from chaos.anomalies import ANOMALIES, METRICS
from chaos.report import text
from chaos.report.junit import clean
from chaos.report.text import Clock
from chaos.run.result import Verdict

EPOCH = Clock(0)
_FOLDER = Path(__file__).parent / "page"
VERDICTS: dict[Verdict, str] = {"pass": "✅ pass", "fail": "❌ fail", "inconclusive": "❔ inconclusive"}
MOST_CHARACTERS = 60_000
"""Of a summary. GitHub accepts 65,536 in a comment and 1 MiB in a step summary; GitLab accepts more."""
CUT = "\n\n**The rest does not fit here: see report.html.**\n"
_OPEN, _CLOSE = "<details>", "</details>"
_LONGEST = 800
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
        "script_hash": digest(script),
    }
    return _environment(clock).get_template(template).render(values).encode("utf-8", "replace").decode("utf-8")


def style() -> str:
    """Return the style sheet of all pages."""
    return _joined(("report.css",))


def script_digests() -> list[str]:
    """Return the digests of the scripts of all pages, as a content security policy names them."""
    return [digest(_joined(names)) for names in SCRIPTS]


def render_text(template: str, **values: Any) -> str:
    """Render a template of Markdown, without escaping, and return the text."""
    values |= {"plain": plain, "code": code, "VERDICTS": VERDICTS}
    return _environment(EPOCH).get_template(template).render(values)


def render_summary(template: str, **values: Any) -> str:
    """Render a template of Markdown, with at most `MOST_CHARACTERS`."""
    return fit(render_text(template, **values))


def size(text: str) -> int:
    """Return the number of characters as hosted CI counts them: UTF-16 units, so an emoji may be two."""
    return len(text.encode("utf-16-le", "replace")) // 2


def fit(text: str) -> str:
    """Return a text with at most `MOST_CHARACTERS`: cut after a whole line, with a line that says so.

    What comes first in the text stays: the verdict, and what failed. A cut inside of a folded part closes it.
    """
    if size(text) <= MOST_CHARACTERS:
        return text
    room = MOST_CHARACTERS - len(CUT) - len(_CLOSE) - 2
    kept = text.encode("utf-16-le", "replace")[: 2 * room].decode("utf-16-le", "ignore")
    kept = kept[: kept.rfind("\n")] if "\n" in kept else kept
    folded = kept.count(_OPEN) > kept.count(_CLOSE)
    return kept.rstrip() + (f"\n\n{_CLOSE}" if folded else "") + CUT


def _one_line(text: str, limit: int) -> str:
    text = " ".join(clean(text).split())
    return text if len(text) <= limit else f"{text[:limit]}…"


def plain(text: str, limit: int = _LONGEST) -> str:
    """Return foreign text on one line, without markup, HTML or mentions, cut to the limit."""
    text = _one_line(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~#!])", r"\\\1", text).replace("@", "@\u200b")


def code(text: str) -> str:
    """Return foreign text on one line that fits between backticks."""
    return _one_line(text, _LONGEST).replace("`", "'").replace("|", "\\|")


def replay(folder: str, bundle: str) -> str:
    """Return the command that runs a bundle in the folder of a campaign again, from any directory."""
    return shlex.join(["python", "-m", "chaos", "replay", str(Path(folder) / bundle)])


def digest(script: str) -> str:
    """Return the digest of a script."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _joined(names: tuple[str, ...]) -> str:
    return "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in names)


def environment(folder: Path) -> Environment:
    """Return the way in which all templates are rendered: what is missing is an error, foreign text is escaped."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=select_autoescape(("html.j2",)),
        finalize=text.visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _environment(clock: Clock) -> Environment:
    found = environment(_FOLDER)
    for format_ in (text.number, text.duration, text.count, text.cut, clock.relative, clock.wall, clock.evidence):
        found.filters[format_.__name__] = format_
    found.globals.update(anomalies=ANOMALIES, metrics=METRICS, replay=replay)
    return found
