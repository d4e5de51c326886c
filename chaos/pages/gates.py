"""The lists of gates, proofs, comparisons of client libraries, and other campaigns, from their result files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import RunDirError
from chaos.pages.folder import REPORT, Found, Kind, RunsFolder
from chaos.pages.problem import PageError
from chaos.pages.templates import count
from chaos.run.campaign import RESULT, Head
from chaos.run.client_comparison import ClientComparison
from chaos.run.directory import read_json, read_model
from chaos.run.gate_result import GateResult
from chaos.run.proof_result import ProofResult

MOST = 200
"""The latest results that a list reads."""


@dataclass(frozen=True)
class Summary:
    """One result. verdict: empty for a score, `unreadable`, or `not finished`. size: its parts."""

    path: str
    title: str
    verdict: str
    sentence: str
    made_us: int
    size: str
    has_page: bool


def summaries(folder: RunsFolder, kinds: Sequence[Kind]) -> tuple[list[Summary], int]:
    """Return the latest results of these kinds, and the number of older ones that are left out.

    Gates and proofs that have no result yet are among them.
    """
    found = [one for one in folder.scan() if one.kind in kinds or one.kind == "unfinished"]
    found.sort(key=lambda one: one.changed_ns, reverse=True)
    shown = [s for one in found[:MOST] if (s := _summary(folder, one, kinds)) is not None]
    shown.sort(key=lambda one: one.made_us, reverse=True)
    return shown, max(0, len(found) - MOST)


def _summary(folder: RunsFolder, found: Found, kinds: Sequence[Kind]) -> Summary | None:
    if found.kind == "unfinished":
        return _unfinished(folder, found, kinds)
    try:
        path = folder.copy(found, f"{found.kind}.json", REPORT)
    except PageError as e:
        return Summary(found.path, found.name, "unreadable", e.text, found.changed_ns // 1000, "", False)
    try:
        return _read(path, found)
    except (RunDirError, OSError) as e:
        reason = str(e).replace(str(path), f"{folder.name}/{found.path}")
        text = f"{reason}. Another release of Aftershock may have written it; its page is as it was."
        return Summary(found.path, found.name, "unreadable", text, found.changed_ns // 1000, "", _has_page(path))


def _unfinished(folder: RunsFolder, found: Found, kinds: Sequence[Kind]) -> Summary | None:
    """Return a gate or a proof without a result; None if it is none of these kinds, or a plan of something else."""
    try:
        plan = read_json(folder.copy(found, "plan.json") / "plan.json", "plan")
    except (RunDirError, PageError):
        return None
    if not isinstance(plan, dict):
        return None
    keys = plan.keys()
    if keys >= {"kind", "asked", "parts"}:
        kind, size = "campaign", "parts"
        if kind not in kinds or not isinstance(plan[size], list):
            return None
        text = f"It runs, or was interrupted. Its finished runs are stored; continue with --resume {found.path}."
        planned = f"planned: {count(len(plan[size]), 'part')}"
        return Summary(found.path, str(plan["kind"]), "not finished", text, found.changed_ns // 1000, planned, False)
    kind, size = ("proof", "sets") if keys >= {"app", "digest", "sets"} else ("gate", "cells")
    if kind not in kinds or not keys >= {"seed", size} or not isinstance(plan[size], list):
        return None
    text = "It runs, or was interrupted. Its finished runs are stored"
    how = f"--resume {found.path}" if kind == "proof" else f"the same command, with the folder {found.path}"
    title = plan.get("gate") if kind == "gate" else Path(str(plan["app"])).stem
    planned = f"planned: {count(len(plan[size]), 'set' if kind == 'proof' else 'cell')}"
    sentence = f"{text}; continue with {how}."
    return Summary(found.path, str(title), "not finished", sentence, found.changed_ns // 1000, planned, False)


def _read(path: Path, found: Found) -> Summary:
    page = _has_page(path)
    if found.kind == "gate":
        gate = read_model(path / "gate.json", GateResult, "result of a gate", "run the gate again")
        size = f"{len(gate.cells)} cells, {gate.repeat} runs of each"
        return Summary(found.path, f"{gate.gate}: {gate.title}", gate.verdict, gate.sentence, gate.made_us, size, page)
    if found.kind == "proof":
        proof = read_model(path / "proof.json", ProofResult, "result of a proof", "run the proof again")
        size = f"{len(proof.promises)} promises, {len(proof.runs)} runs"
        return Summary(found.path, proof.name, proof.verdict, proof.sentence, proof.made_us, size, page)
    if found.kind == "clients":
        clients = read_model(path / "clients.json", ClientComparison, "comparison of clients", "run it again")
        size = f"{len(clients.scenarios)} scenarios, {clients.repeat} runs of each"
        title = "client libraries side by side"
        return Summary(found.path, title, clients.verdict, clients.sentence, clients.made_us, size, page)
    head = read_model(path / RESULT, Head, "result of a campaign", "run it again")
    size = f"{head.repeat} runs of each"
    return Summary(found.path, f"{head.kind}: {head.title}", head.verdict, head.sentence, head.made_us, size, page)


def _has_page(path: Path) -> bool:
    return (path / REPORT).is_file()
