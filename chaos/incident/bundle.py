"""Bundles: a whole run in one file, to share or to keep.

A bundle is a gzipped tar file. Its first member is `manifest.json` with the SHA-256 and the size of every other
member; the others follow in alphabetical order, without times, owners or modes, so that a run always gives the same
bytes. The brokers' data, the folders of applications, the keys of a tap and the pages of Great Expectations are left
out; `audit` writes the latter again. The samples and schemas of the scenario are among the members, the programs of
applications are not.

A bundle is used only if every byte matches the manifest. This detects accidents and careless edits. A bundle is not
signed: it does not protect against an attacker who writes a new manifest.
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

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, ValidationError

from chaos.clients.choice import RUNTIMES
from chaos.errors import RunDirError, UsageError
from chaos.install.cache import cached
from chaos.kinds import kind_of, mistaken
from chaos.ledger.files import ledger_files, read_file
from chaos.ledger.schemas import TABLES
from chaos.ledger.stream import StreamEnd
from chaos.run.directory import Run
from chaos.run.result import RunOutcome
from chaos.scenario.inputs import FOLDER, inside
from chaos.scenario.resolve import Resolved, read

SUFFIX = ".aftershock.tar.gz"
FORMAT = 1
MANIFEST = "manifest.json"
_CHUNK = 2**20
_MAX_MANIFEST_BYTES = 64 * 2**20
_CLIENT_KEYS = {key: package for traits in RUNTIMES.values() for key, package in traits.reported.items()}
"""Keys of the detail of the event started, with the packages that they name."""
EXCLUDED = frozenset({"brokers", "gx", "apps", "tls"})
"""Folders of a run that are not in its bundle."""
_NAME = re.compile(r"[A-Za-z0-9._@+=-]+(/[A-Za-z0-9._@+=-]+)*")

EXPECTED = {
    "scenario.yaml": "the scenario as the user wrote it",
    "cluster.json": "no cluster was ever deployed",
    "ledger/seal.json": "the drive broke off before its ledger was sealed",
    "ledger/log_range.parquet": "the final log was never read back",
    "audit": "the audit never finished",
    "result.json": "there is no verdict",
    "report.html": "there is no report",
}
"""The files of a complete run, and what it means if one is missing."""


class File(BaseModel):
    """Digest and size of one member, in bytes."""

    model_config = ConfigDict(extra="forbid")

    sha256: str
    size: int


class Manifest(BaseModel):
    """The description of a run and the list of a bundle's members."""

    model_config = ConfigDict(extra="forbid")

    format: int
    run_id: str
    scenario: str
    seed: int
    versions: dict[str, str]
    seen: RunOutcome | None
    """The outcome of the run; None without a result."""
    missing: list[str]
    files: dict[str, File]


@dataclass(frozen=True)
class Bundle:
    """A bundle that was read and verified completely."""

    manifest: Manifest
    resolved: Resolved


def pack(run: Run, out: Path) -> Manifest:
    """Write the bundle of a run. Raises `UsageError`, and leaves no file, if it cannot be written."""
    resolved = read(run)
    paths = {path.relative_to(run.path).as_posix(): path for path in _files(run)}
    manifest = Manifest(
        format=FORMAT,
        run_id=run.run_id,
        scenario=resolved.name,
        seed=resolved.seed,
        versions=recorded_versions(run, resolved),
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


def recorded_versions(run: Run, resolved: Resolved) -> dict[str, str]:
    """Return versions by name: as the clients reported them, else as resolved before the run."""
    reported: dict[str, set[str]] = {}
    started = (row["detail"] for rows in _lifecycle(run) for row in rows.to_pylist() if row["event"] == "started")
    for detail in map(json.loads, started):
        for key, name in _CLIENT_KEYS.items():
            if isinstance(version := detail.get(key), str):
                reported.setdefault(name, set()).add(version)
    return {**resolved.versions, **{name: ", ".join(sorted(versions)) for name, versions in reported.items()}}


def _lifecycle(run: Run) -> Iterator[pa.Table | pa.RecordBatch]:
    """Yield the sealed lifecycle table, or the streams of its writers if the drive broke off before sealing."""
    sealed = sorted((run.ledger / "lifecycle.parquet").glob("*.parquet"))
    for path in sealed:
        yield pq.read_table(path, columns=["event", "detail"])
    if not sealed:
        for path in ledger_files(run.ledger / "lifecycle"):
            yield from read_file(path, TABLES["lifecycle"], StreamEnd())


def _files(run: Run) -> Iterator[Path]:
    for path in sorted(run.path.rglob("*")):
        parts = path.relative_to(run.path).parts
        beside = parts[0] == run.clusters.name and len(parts) > 2  # such a cluster has the same folders
        top = parts[2] if beside else parts[0]
        if path.is_file() and not path.is_symlink() and top not in EXCLUDED and not path.name.startswith("."):
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
    missing = [f"{name}: {reason}" for name, reason in EXPECTED.items() if not (run.path / name).exists()]
    if run.cluster.exists() and not any(name.startswith("logs/broker-") for name in paths):
        missing.append("logs/broker-N.log: the cluster belongs to another run or machine, which has its logs")
    return missing


def _file(path: Path) -> File:
    """Return digest and size from one pass: a log may grow meanwhile."""
    with path.open("rb") as f:
        digest = hashlib.file_digest(f, "sha256")
        return File(sha256=digest.hexdigest(), size=f.tell())


def open_bundle(path: Path) -> Bundle:
    """Read and verify a bundle. Raises `RunDirError` if it is missing, not a bundle, cut short or altered."""
    ((_, text, manifest),) = _members(path, {"resolved.json"})
    try:
        resolved = Resolved.model_validate_json(text)
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RunDirError(f"{path}: its resolved.json is of another version: {where}: {first['msg']}") from None
    return Bundle(manifest, resolved)


def with_inputs(path: Path, bundle: Bundle) -> Resolved:
    """Return what a bundle resolved, with the files of its scenario in the cache. Raises as `open_bundle`."""
    members = {name: file for name, file in bundle.manifest.files.items() if name.startswith(f"{FOLDER}/")}
    if not members:
        return bundle.resolved

    def fill(folder: Path) -> None:
        for name, data, _ in _members(path, set(members)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)

    digest = hashlib.sha256("\n".join(f"{name} {members[name].sha256}" for name in sorted(members)).encode())
    folder = cached(f"bundles/{digest.hexdigest()[:24]}", fill, "waiting for the files of the bundle")
    return bundle.resolved.model_copy(update={"scenario": inside(bundle.resolved.scenario, folder)})


def unpack(path: Path, runs_dir: Path) -> Run:
    """Unpack a bundle into a run directory. Raises as `open_bundle`, and then leaves no directory."""
    manifest = open_bundle(path).manifest  # before anything is written
    run = Run.create(runs_dir, manifest.run_id)
    for name, data, _ in _members(path, set(manifest.files)):
        target = run.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return run


def _members(path: Path, names: set[str]) -> Iterator[tuple[str, bytes, Manifest]]:
    """Yield name, content and manifest for the members in `names`; verify all members until the end of the file."""
    try:
        # tarfile's own gzip reader does not verify the checksum at the end
        with gzip.open(path) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as tar:
            manifest, left = None, dict[str, File]()
            for member in tar:
                name = _safe(path, member)
                if manifest is None:
                    manifest = _manifest(path, tar, member)
                    left = dict(manifest.files)
                    continue
                if name not in left:
                    raise _altered(path, f"{name} is not in its manifest, or is in the bundle twice")
                data = _checked(path, tar, member, left.pop(name), keep=name in names)
                if data is not None:
                    yield name, data, manifest
            if manifest is None or left:
                more = f" and {len(left) - 3} more" if len(left) > 3 else ""
                missing = ", ".join(sorted(left)[:3]) or MANIFEST
                raise RunDirError(f"{path} is cut short: {missing}{more} is missing; copy the bundle again")
            while unpacked.read(_CHUNK):
                pass
    except FileNotFoundError:
        raise RunDirError(f"there is no bundle {path}") from None
    except (EOFError, tarfile.TarError, zlib.error) as e:
        raise RunDirError(f"{path} is cut short or damaged ({e}); copy the bundle again") from None
    except gzip.BadGzipFile as e:
        raise RunDirError(
            f"{path} is not a bundle, or damaged ({e}); `python -m chaos bundle RUN_DIR` makes one"
        ) from None
    except OSError as e:
        if kind := kind_of(path):
            raise RunDirError(mistaken(path, kind, "a bundle")) from None
        raise RunDirError(f"{path} cannot be read: {e.strerror or e}") from None


def _safe(path: Path, member: tarfile.TarInfo) -> str:
    """Return the name of a member. Raises `RunDirError` unless it is a plain file below the run directory."""
    name = member.name
    if not member.isreg() or not _NAME.fullmatch(name) or {".", ".."} & set(name.split("/")):
        raise RunDirError(f"{path} is refused: {name!r} is not a plain file below the run directory")
    return name


def _manifest(path: Path, tar: tarfile.TarFile, member: tarfile.TarInfo) -> Manifest:
    if member.name != MANIFEST or member.size > _MAX_MANIFEST_BYTES:
        raise RunDirError(f"{path} is not a bundle: it does not begin with {MANIFEST}")
    try:
        source = tar.extractfile(member)
        assert source is not None  # _safe admits plain files only
        raw = json.loads(source.read())
        if isinstance(raw, dict) and raw.get("format", FORMAT) != FORMAT:
            raise RunDirError(f"{path} is of format {raw['format']}, and this version of Aftershock reads {FORMAT}")
        manifest = Manifest.model_validate(raw)
    except (ValueError, ValidationError):
        raise _altered(path, f"{MANIFEST} is not a valid manifest") from None
    if not _NAME.fullmatch(manifest.run_id) or "/" in manifest.run_id or manifest.run_id in (".", ".."):
        raise RunDirError(f"{path} is refused: {manifest.run_id!r} cannot be the name of a run")
    if "resolved.json" not in manifest.files:
        raise _altered(path, "its manifest names no resolved.json")
    return manifest


def _checked(path: Path, tar: tarfile.TarFile, member: tarfile.TarInfo, file: File, *, keep: bool) -> bytes | None:
    if member.size != file.size:
        raise _altered(path, f"{member.name} has {member.size} bytes instead of {file.size}")
    source = tar.extractfile(member)
    assert isinstance(source, io.BufferedReader)  # _safe admits plain files only
    data = source.read() if keep else None
    digest = hashlib.file_digest(source, "sha256") if data is None else hashlib.sha256(data)
    if digest.hexdigest() != file.sha256:
        raise _altered(path, f"{member.name} does not match the SHA-256 in its manifest")
    return data


def _altered(path: Path, what: str) -> RunDirError:
    return RunDirError(f"{path} was altered: {what}; make the bundle again from its run directory")
