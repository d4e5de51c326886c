"""The lists of gates, proofs, comparisons of client libraries, and scores of the corpus, from their result files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import RunDirError
from chaos.pages.folder import REPORT, Found, Kind, RunsFolder
from chaos.run.client_comparison import ClientComparison
from chaos.run.corpus_result import CorpusResult
from chaos.run.directory import read_model
from chaos.run.gate_result import GateResult
from chaos.run.proof_result import ProofResult

MOST = 200
"""The latest results that a list reads."""


@dataclass(frozen=True)
class Summary:
    """One result. verdict: empty for a score, `unreadable` if the file is damaged or newer. size: its parts."""

    path: str
    title: str
    verdict: str
    sentence: str
    made_us: int
    size: str
    has_page: bool


def summaries(folder: RunsFolder, kinds: Iterable[Kind]) -> tuple[list[Summary], int]:
    """Return the latest results of these kinds, and the number of older ones that are left out."""
    wanted = set(kinds)
    found = [one for one in folder.scan() if one.kind in wanted]
    found.sort(key=lambda one: one.changed_ns, reverse=True)
    shown = [_summary(folder, one) for one in found[:MOST]]
    shown.sort(key=lambda one: one.made_us, reverse=True)
    return shown, max(0, len(found) - MOST)


def _summary(folder: RunsFolder, found: Found) -> Summary:
    path = folder.path / found.path
    try:
        return next(_read(path, found))
    except (RunDirError, OSError) as e:
        text = f"{e}. Another release of Aftershock may have written it; its page is as it was."
        return Summary(found.path, found.name, "unreadable", text, found.changed_ns // 1000, "", _has_page(path))


def _read(path: Path, found: Found) -> Iterator[Summary]:
    page = _has_page(path)
    if found.kind == "gate":
        gate = read_model(path / "gate.json", GateResult, "result of a gate", "run the gate again")
        size = f"{len(gate.cells)} cells, {gate.repeat} runs of each"
        yield Summary(found.path, f"{gate.gate}: {gate.title}", gate.verdict, gate.sentence, gate.made_us, size, page)
    elif found.kind == "proof":
        proof = read_model(path / "proof.json", ProofResult, "result of a proof", "run the proof again")
        size = f"{len(proof.promises)} promises, {len(proof.runs)} runs"
        yield Summary(found.path, proof.name, proof.verdict, proof.sentence, proof.made_us, size, page)
    elif found.kind == "clients":
        clients = read_model(path / "clients.json", ClientComparison, "comparison of clients", "run it again")
        size = f"{len(clients.scenarios)} scenarios, {clients.repeat} runs of each"
        title = "client libraries side by side"
        yield Summary(found.path, title, clients.verdict, clients.sentence, clients.made_us, size, page)
    else:
        corpus = read_model(path / "corpus.json", CorpusResult, "score of the corpus", "run it again")
        size = f"{len(corpus.cases)} bugs"
        yield Summary(found.path, "score of the corpus", "", corpus.sentence, corpus.made_us, size, page)


def _has_page(path: Path) -> bool:
    return (path / REPORT).is_file()
