"""The result of a run in a terminal: verdict, sentence, expectations, faults, path of the report.

Colour is never the only sign, foreign text is never interpreted as markup, and a terminal without Unicode gets ASCII.
"""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaos.report.text import duration
from chaos.run.result import (
    EFFECT_KINDS,
    NOT_APPLICABLE,
    Counts,
    EffectCount,
    Expectation,
    FaultOutcome,
    Result,
    Verdict,
    applicable,
    count_held,
)

MOST_ALIKE = 3
"""Expectations that are open for the same reason, and that are shown one by one."""
STYLES: dict[Verdict, str] = {"pass": "bold green", "fail": "bold red", "inconclusive": "bold yellow"}
SIGNS: dict[Verdict, tuple[str, str]] = {"pass": ("✓", "+"), "fail": ("✗", "x"), "inconclusive": ("?", "?")}
MOST_READERS = 6
_PLAIN = {"≤": "<=", "…": "..."}


def render(result: Result, console: Console) -> None:
    """Print the summary of a run."""
    page = Page(console)
    page.line(Text.assemble(page.verdict(result.verdict), "  ", page.text(result.title, "bold")))
    page.line(page.text(result.sentence))
    page.line(page.text(_numbers(result.counts), "dim"))
    if result.expectations:
        page.line(Text())
        console.print(_expectations(page, result.expectations, result.sentence))
        page.line(page.text(count_held(result.expectations), "dim"))
    if result.effects:
        page.line(Text())
        console.print(_effects(page, result.effects))
        stories = [story for effect in result.effects for story in effect.stories if story.prevents]
        seen = [f" ({story.library})" if story.library else "" for story in stories]
        lines = [f"prevents {s.kind}{by}: {s.prevents}" for s, by in zip(stories, seen, strict=True)]
        for line in dict.fromkeys(lines):  # several effects may have one cause
            page.line(page.text(line, "dim"))
    if result.faults:
        page.line(Text())
        console.print(_faults(page, result.faults))
    page.line(Text())
    for problem in result.problems:
        page.line(page.text(f"! {problem}"))
    page.line(page.text(f"run again: {result.command}"))
    page.line(page.text(f"report:    {result.run_dir}/report.html"))


class Page:
    """A console, and the conversion of foreign text for it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.unicode = console.encoding.lower().startswith("utf")

    def line(self, text: Text) -> None:
        """Print a line without wrapping it."""
        self._console.print(text, soft_wrap=True)

    def verdict(self, verdict: Verdict) -> Text:
        """Return a verdict with its sign and colour."""
        sign = SIGNS[verdict][0 if self.unicode else 1]
        return Text(f"{sign} {verdict.upper()}", STYLES[verdict])

    def text(self, text: str, style: str = "") -> Text:
        """Return foreign text without control characters, in characters that the terminal supports."""
        text = "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
        if not self.unicode:
            for sign, plain in _PLAIN.items():
                text = text.replace(sign, plain)
            text = text.encode("ascii", "replace").decode()
        return Text(text, style)


def _numbers(c: Counts) -> str:
    """Return the numbers of records as text."""
    outcomes = f"{c.acked:,} acknowledged, {c.failed:,} failed, {c.unknown:,} unknown"
    records = f"{c.sent:,} sent, {outcomes}, {c.in_log:,} in the log"
    rows = f"{c.inserted:,} rows written" if c.inserted else ""
    written = "; ".join(filter(None, (rows, records if c.sent or not rows else "")))
    removed = {"gone with a deleted topic": c.gone, "superseded": c.superseded, "expired": c.expired_tombstones}
    written += "".join(f", {count:,} {how}" for how, count in removed.items() if count)
    read = ", ".join(f"{r.reader} {r.delivered:,}" for r in c.readers[:MOST_READERS])
    more = len(c.readers) - MOST_READERS
    if c.commits_unknown:
        written += f"; commits decided from the log: {c.commits_by_log:,} of {c.commits_unknown:,}"
    return written + (f"; delivered: {read}" if read else "") + (f" and {more} more readers" if more > 0 else "")


def table(*columns: str) -> Table:
    """Return an empty table without lines."""
    empty = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        empty.add_column(column, overflow="fold")
    return empty


def _expectations(page: Page, expectations: list[Expectation], sentence: str) -> Table:
    """Return the expectations, the worst first; passed zeros share a row, as does what is open for one reason.

    sentence: of the verdict. What it says in full is shortened in the narrow column.
    """
    rows = table("verdict", "expectation", "expected", "observed")
    counting, _ = applicable(expectations)
    quiet = [e for e in counting if e.verdict == "pass" and e.expected == "0" and not e.why]
    open_for = Counter(e.why for e in counting if e.verdict == "inconclusive")
    following = [e for e in counting if e.follows or (e.verdict == "inconclusive" and open_for[e.why] > MOST_ALIKE)]
    for e in (e for e in counting if e not in quiet and e not in following):
        assert e.verdict != NOT_APPLICABLE
        name = page.text(e.name)
        if e.why:
            name.append_text(page.text(f"\n{e.why}", "dim"))
        rows.add_row(page.verdict(e.verdict), name, page.text(e.expected), page.text(_shortened(e.seen, sentence)))
    for why, number in Counter(e.why for e in following).items():
        what = page.text(f"{number} expectation{'s' * (number > 1)}").append_text(page.text(f"\n{why}", "dim"))
        rows.add_row(page.verdict("inconclusive"), what, "", "not decided")
    if quiet:
        rows.add_row(page.verdict("pass"), page.text(f"{len(quiet)} anomalies that must not occur"), "0", "0")
    return rows


def _shortened(seen: str, sentence: str) -> str:
    """Return what was seen without the clauses after the first one, if the sentence has them."""
    first, _, more = seen.partition("; ")
    return f"{first}; …" if more and more in sentence else seen


def _effects(page: Page, effects: list[EffectCount]) -> Table:
    """Return the numbers of each effect."""
    rows = table("effect", "inputs", "effects", "missing", "duplicate", "unexpected", "wrong", "late (p50, p99, max)")
    for e in effects:
        name = page.text(e.name)
        counts = map(e.number, EFFECT_KINDS)
        times = ", ".join(duration(e.late_us[stat]) for stat in ("p50", "p99", "max") if stat in e.late_us)
        rows.add_row(name, *map(page.text, (f"{e.inputs:,}", f"{e.effects:,}", *counts, times)))
    return rows


def _faults(page: Page, faults: list[FaultOutcome]) -> Table:
    rows = table("proof", "fault", "target", "evidence", "produce", "consume")
    for f in faults:
        missing = f.shortcoming
        target = f"{f.target} = {f.resolved}" if f.resolved else f.target
        outages = (f.produce_unavailability_us, f.consume_unavailability_us)
        rows.add_row(
            page.verdict("inconclusive" if missing else "pass"),
            *map(page.text, (f"{f.name} ({f.kind})", target, missing or f.proof_text)),
            *("" if us is None else duration(us) for us in outages),
        )
    return rows
