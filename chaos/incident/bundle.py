"""The bundle: a whole run in one file, for somebody else or for later.

A gzipped tar. Its first member is `manifest.json` with the SHA-256 and the size of every other member; the others
follow in the order of their names, without times, owners or modes, so that one run gives one file, byte by byte. The
brokers' data and Great Expectations' pages are left out (the latter are made anew by `audit`).

    scenario.yaml resolved.json cluster.json clients/ logs/ ledger/ audit/ validation.json result.json junit.xml
    report.html events.jsonl

What is read from a bundle is believed only if every byte of it is what the manifest says. That finds accidents and
careless edits; somebody who writes a new manifest as well can say what he likes: a bundle is not signed.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pydantic import BaseModel, ConfigDict, ValidationError

from chaos.errors import RunDirError, UsageError
from chaos.incident.facts import versions
from chaos.run.directory import Run
from chaos.run.result import RunOutcome
from chaos.scenario.resolve import Resolved, read

SUFFIX = ".aftershock.tar.gz"
FORMAT = 1
MANIFEST = "manifest.json"
_CHUNK = 2**20
_MOST_MANIFEST_BYTES = 64 * 2**20
_LEFT_OUT = {"brokers", "gx"}
_NAME = re.compile(r"[A-Za-z0-9._@+=-]+(/[A-Za-z0-9._@+=-]+)*")

EXPECTED = {
    "scenario.yaml": "the scenario as given",
    "cluster.json": "no cluster was ever deployed",
    "ledger/seal.json": "the drive broke off before its ledger was sealed",
    "ledger/log_range.parquet": "the final log was never read back",
    "audit": "the audit never finished",
    "result.json": "there is no verdict",
    "report.html": "there is no report",
}
"""What a run that went to its end has, and what it means where it is missing."""


class File(BaseModel):
    """One member."""

    model_config = ConfigDict(extra="forbid")

    sha256: str
    size: int


class Manifest(BaseModel):
    """What a bundle holds, and what it says of itself."""

    model_config = ConfigDict(extra="forbid")

    format: int
    run_id: str
    scenario: str
    seed: int
    versions: dict[str, str]
    seen: RunOutcome | None
    """What the run showed; nothing where it has no result."""
    missing: list[str]
    files: dict[str, File]


@dataclass(frozen=True)
class Bundle:
    """A bundle that was read from its first to its last byte."""

    path: Path
    manifest: Manifest
    resolved: Resolved


def pack(run: Run, out: Path) -> Manifest:
    """Write the bundle of a run. Raises `UsageError` where it cannot be written; then nothing is left there."""
    resolved = read(run)
    paths = {path.relative_to(run.path).as_posix(): path for path in _files(run)}
    manifest = Manifest(
        format=FORMAT,
        run_id=run.run_id,
        scenario=resolved.name,
        seed=resolved.seed,
        versions=versions(run, resolved),
        seen=RunOutcome.read(run) if run.result.exists() else None,
        missing=_missing(run, paths),
        files={name: _file(path) for name, path in sorted(paths.items())},
    )
    partial = out.with_name(f".{out.name}.partial")
    try:
        with partial.open("wb") as raw:
            _write(raw, manifest, paths)
        partial.replace(out)
    except OSError as e:
        raise UsageError(f"{out} cannot be written: {e.strerror or e}; choose another --out") from None
    finally:
        partial.unlink(missing_ok=True)
    return manifest


def _files(run: Run) -> Iterator[Path]:
    for path in sorted(run.path.rglob("*")):
        top = path.relative_to(run.path).parts[0]
        if path.is_file() and not path.is_symlink() and top not in _LEFT_OUT and not path.name.startswith("."):
            yield path


def _write(raw: IO[bytes], manifest: Manifest, paths: dict[str, Path]) -> None:
    text = manifest.model_dump_json(indent=1).encode()
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        tar.addfile(_member(MANIFEST, len(text)), io.BytesIO(text))
        for name, file in manifest.files.items():
            with paths[name].open("rb") as f:
                tar.addfile(_member(name, file.size), f)


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member


def _missing(run: Run, paths: dict[str, Path]) -> list[str]:
    found = [f"{name}: {why}" for name, why in EXPECTED.items() if not (run.path / name).exists()]
    if run.cluster.exists() and not any(name.startswith("logs/broker-") for name in paths):
        found.append("logs/broker-N.log: the brokers were another run's, or none of this machine; their logs are there")
    return found


def _file(path: Path) -> File:
    """Of one pass over it: a log may grow meanwhile."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as f:
        while chunk := f.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return File(sha256=digest.hexdigest(), size=size)


def open_bundle(path: Path) -> Bundle:
    """Read a bundle to its end. Raises `RunDirError` for what is none, was cut short or altered."""
    ((_, text, manifest),) = _members(path, {"resolved.json"})
    try:
        resolved = Resolved.model_validate_json(text)
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RunDirError(f"{path}: its resolved.json is not one of this version: {where}: {first['msg']}") from None
    return Bundle(path, manifest, resolved)


def unpack(path: Path, runs_dir: Path) -> Run:
    """Make the run directory of a bundle again. Raises as `open_bundle`; nothing is left behind then."""
    manifest = open_bundle(path).manifest  # before anything is written
    run = Run.create(runs_dir, manifest.run_id)
    for name, data, _ in _members(path, set(manifest.files)):
        target = run.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return run


def _members(path: Path, wanted: set[str]) -> Iterator[tuple[str, bytes, Manifest]]:
    """The members that are wanted, each checked, and the manifest; at the end everything has been checked."""
    try:
        # tarfile's own gzip reader would not look at the check sum at the end
        with gzip.open(path) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as tar:
            manifest, left = None, dict[str, File]()
            for member in tar:
                name = _safe(path, member)
                if manifest is None:
                    manifest = _manifest(path, tar, member)
                    left = dict(manifest.files)
                    continue
                if name not in left:
                    raise _altered(path, f"{name} is not in its manifest, or there twice")
                data = _checked(path, tar, member, left.pop(name), keep=name in wanted)
                if data is not None:
                    yield name, data, manifest
            if manifest is None or left:
                raise RunDirError(f"{path} is cut short: {_some(left) or MANIFEST} is missing; copy the bundle again")
            while unpacked.read(_CHUNK):
                pass
    except FileNotFoundError:
        raise RunDirError(f"there is no bundle {path}") from None
    except (EOFError, tarfile.TarError, zlib.error) as e:
        raise RunDirError(f"{path} is cut short or damaged ({e}); copy the bundle again") from None
    except gzip.BadGzipFile as e:
        raise RunDirError(
            f"{path} is no bundle, or damaged ({e}); `python -m chaos bundle RUN_DIR` makes one"
        ) from None
    except OSError as e:
        raise RunDirError(f"{path} cannot be read: {e.strerror or e}") from None


def _safe(path: Path, member: tarfile.TarInfo) -> str:
    """The name of a member that is a plain file below the run directory, and nothing else."""
    name = member.name
    if not member.isreg() or not _NAME.fullmatch(name) or {".", ".."} & set(name.split("/")):
        raise RunDirError(f"{path} is refused: {name!r} is not a plain file below the run directory")
    return name


def _manifest(path: Path, tar: tarfile.TarFile, member: tarfile.TarInfo) -> Manifest:
    if member.name != MANIFEST or member.size > _MOST_MANIFEST_BYTES:
        raise RunDirError(f"{path} is not a bundle: it does not begin with {MANIFEST}")
    try:
        raw = json.loads(_content(tar, member))
        if isinstance(raw, dict) and raw.get("format", FORMAT) != FORMAT:
            raise RunDirError(f"{path} is of format {raw['format']}, and this version of Aftershock reads {FORMAT}")
        manifest = Manifest.model_validate(raw)
    except (ValueError, ValidationError):
        raise _altered(path, f"{MANIFEST} is not one") from None
    if not _NAME.fullmatch(manifest.run_id) or "/" in manifest.run_id or manifest.run_id in (".", ".."):
        raise RunDirError(f"{path} is refused: {manifest.run_id!r} cannot be the name of a run")
    if "resolved.json" not in manifest.files:
        raise _altered(path, "its manifest names no resolved.json")
    return manifest


def _checked(path: Path, tar: tarfile.TarFile, member: tarfile.TarInfo, file: File, *, keep: bool) -> bytes | None:
    if member.size != file.size:
        raise _altered(path, f"{member.name} has {member.size} bytes instead of {file.size}")
    source, digest, kept = tar.extractfile(member), hashlib.sha256(), []
    assert source is not None  # it is a plain file
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        if keep:
            kept.append(chunk)
    if digest.hexdigest() != file.sha256:
        raise _altered(path, f"{member.name} is not what its manifest says (SHA-256)")
    return b"".join(kept) if keep else None


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    source = tar.extractfile(member)
    assert source is not None  # it is a plain file
    return source.read()


def _altered(path: Path, what: str) -> RunDirError:
    return RunDirError(f"{path} was altered: {what}; make the bundle again from its run directory")


def _some(names: dict[str, File]) -> str:
    first = sorted(names)[:3]
    return ", ".join(first) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
