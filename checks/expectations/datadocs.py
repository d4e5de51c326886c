"""Data Docs that open from a file, without a network.

GX's pages load style sheets, scripts and a logo from other hosts, which delays the page and discloses that it was
opened. This module removes these references and adds a small style sheet.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from chaos.run.directory import write_atomically

_EXTERNAL = re.compile(
    r"""<link\b[^>]*\bhref=["']https?://[^>]*>"""
    r"""|<script\b[^>]*\bsrc=["']https?://[^>]*>\s*</script>"""
    r"""|<img\b[^>]*\bsrc=["']https?://[^>]*>""",
    re.IGNORECASE | re.DOTALL,
)
_BACKGROUND = re.compile(r"""url\(\s*["']?https?://[^)]*\)""", re.IGNORECASE)
_INLINE_SCRIPT = re.compile(r"<script\b(?![^>]*\bsrc=)[^>]*>.*?</script>", re.IGNORECASE | re.DOTALL)
_FOOTER = re.compile(r"<footer\b.*?</footer>", re.IGNORECASE | re.DOTALL)

_STYLE = f"<style>\n{Path(__file__).with_suffix('.css').read_text(encoding='utf-8')}</style></head>"


def make_self_contained(project: Path, not_applicable: Mapping[str, str]) -> None:
    """Rewrite every page of the Data Docs of a project so that it loads nothing.

    not_applicable: reasons by the name of an expectation that is no part of the suite; the index lists them.
    """
    docs = project / "uncommitted" / "data_docs"
    for page in sorted(docs.rglob("*.html")):
        write_atomically(page, self_contained(page.read_text(encoding="utf-8")))
    for sheet in docs.rglob("*.css"):
        write_atomically(sheet, _BACKGROUND.sub("none", sheet.read_text(encoding="utf-8")))
    for site in docs.iterdir():
        write_atomically(site / "index.html", _index(site, not_applicable))


def _index(site: Path, not_applicable: Mapping[str, str]) -> str:
    """Return an index page; a script that needs a network renders the one of GX."""
    pages = sorted(page.relative_to(site).as_posix() for page in site.rglob("*.html") if page.parent != site)
    links = "".join(f'<li><a href="{quote(page)}">{html.escape(page)}</a></li>' for page in pages)
    head = '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Data Docs</title>'
    return f"{head}{_STYLE}<body><h1>Data Docs</h1><ul>{links}</ul>{_left_out(not_applicable)}</body></html>"


def _left_out(not_applicable: Mapping[str, str]) -> str:
    """Return the folded list of the expectations that are not applicable; empty if there are none."""
    if not not_applicable:
        return ""
    rows = "".join(f"<li>{html.escape(f'{name}: {why}')}</li>" for name, why in not_applicable.items())
    return (
        f'<details class="left-out"><summary>{len(not_applicable)} not applicable: nothing to examine in this scenario'
        f"</summary><ul>{rows}</ul></details>"
    )


def self_contained(page: str) -> str:
    """Return the page without external references, and without inline scripts, which depend on them."""
    for pattern in (_EXTERNAL, _INLINE_SCRIPT, _FOOTER):
        page = pattern.sub("", page)
    return _BACKGROUND.sub("none", page).replace("</head>", _STYLE, 1)
