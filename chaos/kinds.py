"""What a path holds, so that a command that takes something else can name the command that takes it."""

from __future__ import annotations

import gzip
from collections.abc import Collection
from pathlib import Path
from typing import Literal

Kind = Literal[
    "scenario",
    "gate",
    "application",
    "cluster",
    "run",
    "campaign",
    "comparison",
    "examination",
    "bundle",
    "settings",
    "samples",
    "part",
]
KEYS: dict[Kind, frozenset[str]] = {
    "scenario": frozenset({"topics", "producers", "consumers", "processors", "apps", "effects", "faults", "variants"}),
    "gate": frozenset({"scenarios", "settings", "integrity", "exclude"}),
    "application": frozenset({"producer", "consumer", "topic", "input", "output", "traffic", "app"}),
    "cluster": frozenset({"bootstrap", "verbs", "security"}),
}
"""Keys at the top of a YAML file that only this kind has."""
WORDS: dict[Kind, tuple[str, str]] = {
    "scenario": ("a scenario", "run {}"),
    "gate": ("a gate", "gate {}"),
    "application": ("the description of an application", "prove {}"),
    "cluster": ("the description of a cluster", "tap --cluster {}"),
    "run": ("the directory of a run", "replay {}"),
    "campaign": ("the folder of a campaign", ""),
    "comparison": ("the folder of a comparison", ""),
    "examination": ("the folder of an examination of a cluster", ""),
    "bundle": ("a bundle", "replay {}"),
    "settings": ("a file of settings", "promise {}"),
    "samples": ("a file of samples", "test --samples {} -- COMMAND"),
    "part": ("a file of a run or campaign", ""),
}
"""How messages name a kind, and the command that takes it."""
RUN, CAMPAIGN, COMPARISON, COMMITS = "resolved.json", "plan.json", "comparison.json", "commits.csv"
FOLDERS: dict[str, Kind] = {CAMPAIGN: "campaign", RUN: "run", COMPARISON: "comparison", COMMITS: "examination"}
"""A file that only folders of this kind have."""
PARTS = frozenset({*FOLDERS, "campaign.json", "result.json"})
SUFFIXES: dict[str, Kind] = {".properties": "settings", ".jsonl": "samples", ".ndjson": "samples"}


def kind_of(path: Path) -> Kind | None:
    """Return what a path holds, as far as its name, its folder or its first bytes show it; a YAML file is not read."""
    if path.is_dir():
        return next((kind for name, kind in FOLDERS.items() if (path / name).is_file()), None)
    if path.name in PARTS and kind_of(path.parent) is not None:
        return "part"
    return "bundle" if _is_packed(path) else SUFFIXES.get(path.suffix) if path.is_file() else None


def kind_of_mapping(keys: Collection[str], wanted: Kind) -> Kind | None:
    """Return the other kind that a mapping has the keys of; None if it has one of `wanted`, or of no kind."""
    if KEYS[wanted] & set(keys):
        return None
    if wanted in ("scenario", "gate") and set(keys) == {"cluster"}:
        return "cluster"
    return next((kind for kind, own in KEYS.items() if own & set(keys)), None)


def mistaken(where: str | Path, found: Kind, wanted: str) -> str:
    """Return the message for a path of another kind than the `wanted` one, with the command that takes it."""
    words, command = WORDS[found]
    if found == "part":
        return f"{where} is {words}, not {wanted}; name its folder {Path(where).parent} where a run is taken"
    if found == "campaign":
        return f"{where} is {words}, not {wanted}; its runs are the directories below it"
    if found in ("comparison", "examination"):
        return f"{where} is {words}, not {wanted}; what was found is in its result.json"
    if found == "bundle" and wanted == WORDS["run"][0]:
        command = "unbundle {}"
    return f"{where} is {words}, not {wanted}; what takes it: python -m chaos {command.format(where)}"


def _is_packed(path: Path) -> bool:
    try:
        with gzip.open(path) as packed:
            return b"ustar" in packed.read(512)
    except (OSError, EOFError):
        return False
