"""Pages of the Data Docs: views as Great Expectations lets a site name them, and the index of a run.

A page opens from a file, without a network: pages of GX load style sheets, scripts and a logo from other hosts, which
delays a page and discloses that it was opened. These references are removed, and a small style sheet is added.

GX makes new views for each suite of a checkpoint, and each compiles its templates. The code of a template is kept here
for all of them: compiling took more than half of the time of a validation.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from great_expectations.render.view import DefaultJinjaIndexPageView, DefaultJinjaPageView
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket

from chaos.run.directory import write_atomically

DOCS = Path("uncommitted", "data_docs")
"""The folder of the sites in the project of a run."""


class Compiled(BytecodeCache):
    """Compiled templates of this process, by their key and the checksum of their source."""

    def __init__(self) -> None:
        self._code: dict[tuple[str, str], Any] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Give a bucket its code, if there is one."""
        bucket.code = self._code.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code of a bucket."""
        self._code[bucket.key, bucket.checksum] = bucket.code


_COMPILED = Compiled()


class Page(DefaultJinjaPageView):  # type: ignore[misc]
    """A page about a suite, or about its result, that loads nothing."""

    def __init__(self, **folders: Any) -> None:
        super().__init__(**folders)
        self.env.bytecode_cache = _COMPILED

    def render(self, document: Any, template: str | None = None, **more: Any) -> str:
        """Return the page as HTML."""
        return self_contained(super().render(document, template, **more))


class Index(DefaultJinjaIndexPageView):  # type: ignore[misc]
    """The index of GX, which needs a network; `write_index` writes another one in its place."""

    def __init__(self, **folders: Any) -> None:
        super().__init__(**folders)
        self.env.bytecode_cache = _COMPILED


_EXTERNAL = re.compile(
    r"""<link\b[^>]*\bhref=["']https?://[^>]*>"""
    r"""|<script\b[^>]*\bsrc=["']https?://[^>]*>\s*</script>"""
    r"""|<img\b[^>]*\bsrc=["']https?://[^>]*>""",
    re.IGNORECASE | re.DOTALL,
)
_BACKGROUND = re.compile(r"""url\(\s*["']?https?://[^)]*\)""", re.IGNORECASE)
_INLINE_SCRIPT = re.compile(r"<script\b(?![^>]*\bsrc=)[^>]*>.*?</script>", re.IGNORECASE | re.DOTALL)
_FOOTER = re.compile(r"<footer\b.*?</footer>", re.IGNORECASE | re.DOTALL)

_STYLE = f"<style>\n{Path(__file__).with_name('datadocs.css').read_text(encoding='utf-8')}</style></head>"


def self_contained(page: str) -> str:
    """Return the page without external references, and without inline scripts, which depend on them."""
    for pattern in (_EXTERNAL, _INLINE_SCRIPT, _FOOTER):
        page = pattern.sub("", page)
    return _BACKGROUND.sub("none", page).replace("</head>", _STYLE, 1)


def write_index(project: Path, not_applicable: Mapping[str, str]) -> None:
    """Write the index of each site of a project, and remove what its style sheets load from other hosts.

    not_applicable: reasons by the name of an expectation that is no part of the suite; the index lists them.
    """
    for sheet in (project / DOCS).rglob("*.css"):
        write_atomically(sheet, _BACKGROUND.sub("none", sheet.read_text(encoding="utf-8")))
    for site in (project / DOCS).iterdir():
        write_atomically(site / "index.html", _index(site, not_applicable))


def _index(site: Path, not_applicable: Mapping[str, str]) -> str:
    """Return an index page; the index page of GX needs a network."""
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
