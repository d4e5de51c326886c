"""The files of a campaign, such as `report.html` and `summary.md`, and its table in a terminal.

Campaigns that only count have their pages here, with the corpus and a proof; `gate` and `clients` have the pages of
matrices. Verdicts, statistics and sentences come from `chaos.campaign`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rich.console import Console
from rich.text import Text

from chaos.report import clients, explore, gate
from chaos.report.junit import JunitCase, of_campaign
from chaos.report.pages import render_page, render_summary
from chaos.report.terminal import Page, table
from chaos.report.text import duration, minutes
from chaos.run.campaign import Answer, Campaign, CaseScore, Comparison, CorpusResult, Part, PartsResult, Rate
from chaos.run.directory import write_atomically
from chaos.run.proof import ProofResult, State
from chaos.run.result import Verdict

COUNT_STYLES, PROOF_STYLES = ("report.css", "trend.css", "clients.css"), ("report.css", "proof.css")
ANSWERS: dict[Answer, Verdict] = {
    "found": "pass",
    "not found": "fail",
    "not mended": "fail",
    "could not tell": "inconclusive",
}
"""The verdict with the colour and the sign that an answer takes."""
STATES: dict[State, str] = {
    "held": "✅ held",
    "partly": "⚠️ held in part",
    "broken": "❌ broken",
    "unpromised": "⚠️ not promised",
    "unknown": "❔ not known",
    "untested": "⬜ not tested",
}
LEVELS = {"full": "✓", "limited": "~", "none": "✗", "unknown": "?"}
SIGNS = "✓ promised   ~ promised, but a common fault ends it   ✗ not promised   ? not known"


def write(result: Campaign, folder: Path) -> None:
    """Write the files of a result next to its `campaign.json`. Raises `OSError`."""
    for name, draw in FILES.get(result.kind, PARTS).items():
        write_atomically(folder / name, draw(result))


def show(result: Campaign, folder: Path) -> None:
    """Print a result to the terminal, with the path of its page."""
    kinds: Mapping[str, Callable[[Any, Path], None]] = {
        "ab": _show_sides,
        "corpus": _show_corpus,
        "clients": clients.show,
        "explore": explore.show,
    }
    kinds.get(result.kind, _show_parts)(result, folder)


def page(result: PartsResult) -> str:
    """Return the page of a campaign that only counts, as text."""
    return render_page("campaign.html.j2", styles=COUNT_STYLES, scripts=("page.js",), link=quote, **_values(result))


def markdown(result: PartsResult) -> str:
    """Return its summary for a pull request."""
    return render_summary("campaign_summary.md.j2", **_values(result))


def junit(result: PartsResult) -> str:
    """Return a test case for the campaign and one for each part, as XML text."""
    cases = []
    for part in result.parts:
        message = " ".join(filter(None, [part.state and f"{part.state}:", part.sentence]))
        cases.append(JunitCase("parts", part.name, part.verdict, message, sum(run.seconds for run in part.runs)))
    return of_campaign(result.kind, result, cases)


def _show_parts(result: PartsResult, folder: Path) -> None:
    """Print the parts and their rates to the terminal."""
    console = Console()
    screen = Page(console)
    screen.line(Text.assemble(screen.verdict(result.verdict), "  ", screen.text(result.title, "bold")))
    screen.line(screen.text(result.sentence))
    what = "is" if any(part.state for part in result.parts) else "expected"
    rows = table("verdict", "part", what, "seen", "seconds")
    rows.columns[1].no_wrap = True
    for part in result.parts:
        name = f"{part.name}, {len(part.runs)} runs" if len(part.runs) > 1 else part.name
        shown = (name, part.state or part.expected, seen(part), seconds(part))
        rows.add_row(screen.verdict(part.verdict), *map(screen.text, shown))
    console.print(rows)
    if result.repeat > 1:
        screen.line(Text())
        console.print(_rates(screen, result))
    for part in result.parts:
        for run in part.runs:
            if not run.conclusive:
                screen.line(screen.text(f"inconclusive: {run.run_id}: {run.sentence}"))
    for line in (*(f"note: {note}" for note in result.notes), f"run again: {result.command}"):
        screen.line(screen.text(line))
    screen.line(screen.text(f"report:    {folder}/report.html"))


def _rates(screen: Page, result: PartsResult) -> Any:
    rows = table("part", "seen", "runs", "rate", "95 % interval")
    for part in result.parts:
        for rate in part.rates:
            texts = (part.name, rate.name, f"{rate.count} of {rate.of}", share(rate), bounds(rate))
            rows.add_row(*map(screen.text, texts))
    return rows


def _values(result: PartsResult) -> dict[str, Any]:
    return {"c": result, "seen": seen, "seconds": seconds, "share": share, "bounds": bounds}


def seen(part: Part) -> str:
    """Return what the runs of a part show; different ones as a number."""
    texts = list(dict.fromkeys(run.shown for run in part.runs))
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    return (texts[0] + more) if texts else "did not run"


def seconds(part: Part) -> str:
    """Return the mean time of a run in seconds."""
    return f"{sum(run.seconds for run in part.runs) / len(part.runs):.0f}" if part.runs else "-"


def share(rate: Rate) -> str:
    """Return the share of runs in percent."""
    return f"{100 * rate.count / rate.of:.0f} %" if rate.of else "-"


def bounds(rate: Rate) -> str:
    """Return the interval of the true rate in percent."""
    return f"{100 * rate.low:.1f} to {100 * rate.high:.1f} %"


def corpus_page(corpus: CorpusResult) -> str:
    """Return the page as text."""
    return render_page(
        "corpus.html.j2", styles=COUNT_STYLES, scripts=("page.js",), link=quote, **_corpus_values(corpus)
    )


def corpus_markdown(corpus: CorpusResult) -> str:
    """Return the summary for a pull request."""
    return render_summary("corpus_summary.md.j2", **_corpus_values(corpus))


def _corpus_values(corpus: CorpusResult) -> dict[str, Any]:
    return {"c": corpus, "rate": answers, "time": detection, "ANSWERS": ANSWERS}


def _show_corpus(corpus: CorpusResult, folder: Path) -> None:
    """Print the score to the terminal."""
    console = Console()
    screen = Page(console)
    rows = table("answer", "bug", "must show", "affected", "fixed", "time to detection")
    for case in corpus.cases:
        sign = screen.verdict(ANSWERS[case.answer]).plain.split()[0]
        answer = Text(f"{sign} {case.answer}", screen.verdict(ANSWERS[case.answer]).style)
        name = screen.text(case.bug, "bold").append_text(screen.text(f"\n{case.title}", "dim"))
        shown = (", ".join(case.shows), answers(case.affected), answers(case.fixed, "fail"), detection(case))
        rows.add_row(answer, name, *map(screen.text, shown))
    console.print(rows)
    for line in (f"\n{corpus.sentence}", f"run again: {corpus.command}", f"report:    {folder}/report.html"):
        screen.line(screen.text(line))


def answers(side: Part | None, showing: Verdict = "pass") -> str:
    """Return how many runs of a variant show the bug, such as `9 of 10`, and how many are inconclusive.

    showing: the verdict of a run that shows the bug: `pass` of the affected variant, `fail` of the fixed one.
    """
    if side is None:
        return "none known"
    unclear = len(side.runs) - side.conclusive
    shown = f"{sum(run.verdict == showing for run in side.runs)} of {side.conclusive}"
    return shown + (f", {unclear} inconclusive" if unclear else "")


def detection(case: CaseScore) -> str:
    """Return the time to detection."""
    return "not seen" if case.detection_s is None else duration(case.detection_s * 1e6)


def ab_page(comparison: Comparison) -> str:
    """Return the page as text."""
    return render_page("ab.html.j2", scripts=("page.js",), link=quote, c=comparison)


def _show_sides(comparison: Comparison, folder: Path) -> None:
    """Print the comparison to a terminal."""
    console = Console()
    screen = Page(console)
    screen.line(Text.assemble(screen.verdict(comparison.verdict), " ", screen.text(comparison.title, "bold")))
    screen.line(screen.text(comparison.sentence))
    names = [side.name for side in comparison.sides]
    columns = table("", *names)
    columns.add_row("verdict", *(side.verdict for side in comparison.sides))
    for difference in comparison.differences:
        columns.add_row(screen.text(difference.path), *(screen.text(difference.values[name]) for name in names))
    for row in [*comparison.anomalies, *comparison.rebalances]:
        columns.add_row(screen.text(row.name, "bold" if row.decides else ""), *(row.values[name] for name in names))
    for row in [time for time in comparison.times if "unavailability (max)" in time.name]:
        columns.add_row(screen.text(row.name), *(row.values[name] for name in names))
    console.print(columns)
    screen.line(screen.text(f"run again: {comparison.command}"))
    screen.line(screen.text(f"report:    {folder}/report.html"))


def proof_page(proof: ProofResult) -> str:
    """Return the page as text."""
    return render_page("proof.html.j2", styles=PROOF_STYLES, scripts=("page.js",), SIGNS=SIGNS, **_proof_values(proof))


def proof_card(proof: ProofResult) -> str:
    """Return the card as a page."""
    return render_page("proof_card.html.j2", styles=PROOF_STYLES, **_proof_values(proof))


def proof_markdown(proof: ProofResult) -> str:
    """Return the card for a README or a pull request."""
    return render_summary("proof_card.md.j2", STATES=STATES, p=proof)


def _proof_values(proof: ProofResult) -> dict[str, Any]:
    by_id = {run.run_id: run for run in proof.runs}
    program = explore.values(proof.program.model_copy(update={"folder": proof.folder})) if proof.program else {}
    return {**program, "p": proof, "by_id": by_id, "quote": quote, "minutes": minutes, "LEVELS": LEVELS}


Files = Mapping[str, Callable[[Any], str]]
PARTS: Files = {"report.html": page, "summary.md": markdown, "junit.xml": junit}
FILES: Mapping[str, Files] = {
    "gate": gate.FILES,
    "clients": clients.FILES,
    "ab": {"report.html": ab_page},
    "explore": {**explore.FILES, "junit.xml": junit},
    "corpus": {"report.html": corpus_page, "summary.md": corpus_markdown},
    "proof": {"report.html": proof_page, "card.html": proof_card, "summary.md": proof_markdown},
}
"""The files of the kinds of campaigns with separate pages; the others have `PARTS`."""
