"""The files of a proof, from its `campaign.json`: the page `report.html`, and the card as `card.html` and `card.md`.

Verdict and sentences come from `chaos.campaign.prove`.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from chaos.run.proof_result import ProofResult, State
from checks.report.gate import VERDICTS, code, plain
from checks.report.pages import render_page
from checks.report.summary import render_summary

STYLES = ("report.css", "proof.css")
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


def page(proof: ProofResult) -> str:
    """Return the page as text."""
    return render_page("proof.html.j2", styles=STYLES, scripts=("page.js",), SIGNS=SIGNS, **_values(proof))


def card(proof: ProofResult) -> str:
    """Return the card as a page."""
    return render_page("proof_card.html.j2", styles=STYLES, **_values(proof))


def markdown(proof: ProofResult) -> str:
    """Return the card for a README or a pull request."""
    return render_summary("proof_card.md.j2", plain=plain, code=code, VERDICTS=VERDICTS, STATES=STATES, p=proof)


MODEL, FILES = ProofResult, {"report.html": page, "card.html": card, "card.md": markdown}


def _values(proof: ProofResult) -> dict[str, Any]:
    by_id = {run.run_id: run for run in proof.runs}
    return {"p": proof, "by_id": by_id, "quote": quote, "minutes": minutes, "LEVELS": LEVELS}


def minutes(seconds: float) -> str:
    """Return a time such as `12 min`."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
