"""The files that a scenario names as its own: samples, schemas and templates. A run and its bundle have copies.

`resolved.json` names a copy by its path in the run directory, so that the directory may move. The program of an
application is not copied: its digests are recorded, and `programs_problems` says which file is missing.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos.run.directory import Run
from chaos.scenario.model import Scenario
from chaos.setup.effects import Avro, Effect, Protobuf
from chaos.values.model import FILES

FOLDER, SQLITE = "inputs", b"SQLite format 3\0"
Programs = dict[str, dict[str, str]]
"""SHA-256 of the files among the words of a command, by word and application."""
_IMPORT = re.compile(r'^\s*import\s+(?:public\s+|weak\s+)?"([^"]+)"\s*;', re.MULTILINE)


def with_paths(scenario: Scenario, change: Callable[[str, str], str]) -> Scenario:
    """Return the scenario with other paths of its files. change: from the key and path of a file to its new path."""
    producers = []
    for p in scenario.producers:
        if p.value is not None:
            given = {name: path for name in FILES if (path := getattr(p.value, name)) is not None}
            paths = {name: change(f"producers.{p.name}.value.{name}", path) for name, path in given.items()}
            p = p.model_copy(update={"value": p.value.model_copy(update=paths)})
        producers.append(p)
    apps = []
    for app in scenario.apps:
        files = {name: change(f"apps.{app.name}.files.{name}", path) for name, path in app.files.items()}
        apps.append(app.model_copy(update={"files": files}))
    effects = [_with_schema(effect, change) for effect in scenario.effects]
    return scenario.model_copy(update={"producers": producers, "apps": apps, "effects": effects})


def _with_schema(effect: Effect, change: Callable[[str, str], str]) -> Effect:
    form = effect.format
    if isinstance(form, Avro):
        form = form.model_copy(update={"avro": change(f"effects.{effect.name}.format.avro", form.avro)})
    elif isinstance(form, Protobuf):
        path = change(f"effects.{effect.name}.format.protobuf", form.protobuf)
        form = form.model_copy(update={"protobuf": path})
    return effect.model_copy(update={"format": form})


def keep(run: Run, scenario: Scenario) -> Scenario:
    """Copy the files of a scenario into the run directory; return the scenario with the paths of the copies.

    Samples stay where they are if the capture is to have no payloads: they are payloads, and a bundle has none then.
    """
    kept: dict[str, str] = {}

    def copied(key: str, path: str) -> str:
        if scenario.hides_payloads and key.endswith(".samples"):
            return path
        if path not in kept:
            kept[path] = str(_copy(Path(path), run.path / FOLDER / str(len(kept) + 1)))
        return kept[path]

    return with_paths(scenario, copied)


def _copy(file: Path, folder: Path) -> Path:
    """Copy a file with the files that it imports, as a .proto file may. A bundle has only plain names."""
    folder.mkdir(parents=True)
    copy = folder / re.sub(r"[^A-Za-z0-9._-]", "-", file.name)
    shutil.copyfile(file, copy)
    if file.suffix == ".proto":
        for name, path in _imported(file, file.parent, {}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / name)
    return copy


def _imported(file: Path, folder: Path, found: dict[str, Path]) -> dict[str, Path]:
    """Return the files that a .proto file and its imports import from its folder; others belong to the compiler."""
    for name in _IMPORT.findall(file.read_text(encoding="utf-8")):
        if name not in found and ".." not in Path(name).parts and (folder / name).is_file():
            found[name] = folder / name
            _imported(folder / name, folder, found)
    return found


def inside(scenario: Scenario, folder: Path) -> Scenario:
    """Return the scenario with absolute paths of the copies in a folder: a run directory, or what has its inputs."""
    return with_paths(scenario, lambda _, path: str(folder / path) if path.startswith(f"{FOLDER}/") else path)


def outside(scenario: Scenario, folder: Path) -> Scenario:
    """Return the scenario with the paths of copies in a run directory as `resolved.json` has them."""
    return with_paths(scenario, lambda _, path: path.removeprefix(f"{folder}/"))


def programs_of(scenario: Scenario) -> Programs:
    """Return the digests of the programs of applications, as far as they are files.

    A word of a command may also name what the application writes: a database, or the files of an effect.
    """
    effects = [effect.files for effect in scenario.effects if effect.files]
    return {
        app.name: {word: _digest(path) for word, path in app.program_files() if not _is_written(path, effects)}
        for app in scenario.apps
        if app.command or app.program
    }


def _is_written(path: Path, effects: Sequence[str]) -> bool:
    """Return whether a file is a database of SQLite, or is read as an effect. effects: the patterns of these files."""
    with path.open("rb") as f:
        return f.read(len(SQLITE)) == SQLITE or any(path.match(pattern) for pattern in effects)


def programs_problems(scenario: Scenario, then: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield each program of applications that this machine lacks, and how it is given. then: their digests in a run."""
    for app in scenario.apps:
        lacking = [(".".join(key), problem) for key, problem in app.missing()]
        known = then.get(app.name, {})
        if not lacking:
            files = [word for word in app.command or () if word in known and not app.file(word).is_file()]
            lacking = [("directory", f"there is no file {app.file(word)}") for word in files]
        for key, problem in lacking:
            yield (
                f"apps.{app.name}.{key}: {problem}; copy it there, or name another one with "
                f"--set apps.{app.name}.{key}={_form(key)}"
            )


def _form(key: str) -> str:
    return "'[PROGRAM, ARGUMENT, …]'" if key == "command" else "FOLDER" if key == "directory" else "FILE"


def programs_notes(scenario: Scenario, then: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return a note for each program that is another one than it was."""
    now: Mapping[str, Any] = programs_of(scenario)
    return [
        f"apps.{app}: {word} is another file than it was then"
        for app, words in then.items()
        for word, digest in words.items()
        if now.get(app, {}).get(word, digest) != digest
    ]


def _digest(path: Path) -> str:
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()
