"""Accessibility of a page, as axe-core sees it in the browser."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from tests.support.browser import Browser


@cache
def _source() -> str:
    return (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")


def violations(browser: Browser) -> list[str]:
    """Return each violation of the open page: the rule, the element, and what is wrong."""
    browser.run(_source() + "; 1")
    found: list[dict[str, Any]] = browser.run("axe.run(document).then(r => r.violations)")
    return [f"{v['id']}: {n['html'][:160]}: {n['failureSummary']}" for v in found for n in v["nodes"][:3]]


def broken_numbers(browser: Browser) -> list[str]:
    """Return the numbers of the open page that break over two lines."""
    found: list[str] = browser.run(
        "(() => { const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];"
        "for (let n; (n = walk.nextNode());) for (const m of n.data.matchAll(/\\d[\\d,.]*\\d/g)) {"
        "const r = document.createRange(); r.setStart(n, m.index); r.setEnd(n, m.index + m[0].length);"
        "const lines = new Set([...r.getClientRects()].filter(b => b.width).map(b => Math.round(b.top)));"
        "if (lines.size > 1 && !n.parentElement.closest('code, .mono, script, style')) found.push(m[0]); }"
        "return found; })()"
    )
    return found
