"""The scenario files that ship with Aftershock, and files of a user's folder. Light to import."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from chaos.errors import UsageError

SHIPPED = Path(__file__).parent.parent / "scenarios"
GATES = SHIPPED.parent / "gates"
BUGS = SHIPPED.parent / "bugs"


def shipped() -> dict[str, Path]:
    """Return the files of the shipped scenarios by name, in alphabetical order."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def bugs() -> dict[str, Path]:
    """Return the files of the corpus of published bugs by name, in alphabetical order."""
    return {path.stem: path for path in sorted(BUGS.glob("*.yaml"))}


def gates() -> dict[str, Path]:
    """Return the files of the shipped gates by name, in alphabetical order."""
    return {path.stem: path for path in sorted(GATES.glob("*.yaml"))}


def titles(folder: Path = SHIPPED) -> dict[str, str]:
    """Return the title of each YAML file of a folder by its name, without validating the files."""
    return {path.stem: str(unchecked(path)["title"]) for path in sorted(folder.glob("*.yaml"))}


def sides() -> list[tuple[str, str]]:
    """Return the shipped scenarios with each of their variants, or with "", without validating the files."""
    return [(name, side) for name, path in shipped().items() for side in unchecked(path).get("variants") or [""]]


def unchecked(path: Path) -> dict[str, Any]:
    """Return the content of a YAML file that ships, as plain data."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C loader is ten times as fast, but optional
    found: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    return found


def dag_of(name: str) -> str:
    """Return the id of the DAG of a scenario."""
    return f"resilience.{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}"


def scenarios_in(folder: Path) -> dict[str, Path]:
    """Return the scenario files of a user's folder by name. Raises `UsageError` if the folder does not exist."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder of scenarios; create it, and put YAML files into it")
    return {path.stem: path for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])}
