"""The scenario files that ship with Aftershock, and files of a user's folder. Light to import."""

from __future__ import annotations

from pathlib import Path

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


def titles(folder: Path = SHIPPED) -> dict[str, str]:
    """Return the title of each YAML file of a folder by its name, without validating the files."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C loader is ten times as fast, but optional
    files = sorted(folder.glob("*.yaml"))
    return {path.stem: str(yaml.load(path.read_text(encoding="utf-8"), Loader=loader)["title"]) for path in files}


def scenarios_in(folder: Path) -> dict[str, Path]:
    """Return the scenario files of a user's folder by name. Raises `UsageError` if the folder does not exist."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder of scenarios; create it, and put YAML files into it")
    return {path.stem: path for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])}
