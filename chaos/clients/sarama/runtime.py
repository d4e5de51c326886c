"""sarama as a client library: any supported release, compiled into one program at first use.

The programs of each release are in the user's cache. The name of the folder has a digest of the sources, of the table
of errors and of the toolchain, so changed programs are compiled again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

from chaos.clients.protocol import Program
from chaos.clients.runtime import Installed, Runtime
from chaos.errors import ResolveError
from chaos.install.cache import Progress, cached
from chaos.install.go import NEEDED, Go, find_go, last_lines
from chaos.install.tool import run_tool
from chaos.scenario.runtimes.choice import Client
from chaos.scenario.runtimes.refusals import Refusals
from chaos.scenario.runtimes.sarama import COOPERATIVE_SINCE, ERROR_CODES, NAMES, NEWEST, TRAITS
from chaos.scenario.runtimes.traits import number

SOURCES = Path(__file__).with_name("src")
MODULE = "github.com/IBM/sarama"
SCRAM = "github.com/xdg-go/scram@v1.1.2"
BINARY = "sarama-clients"
FETCH_S = 600
COMPILE_S = 600
CHECK_S = 60
PROGRAMS: tuple[Program, ...] = ("producer", "group_consumer", "assign_consumer")
_FAULTS = r"^\S+\.go:\d+|^go: (?!(downloading|finding|added|upgraded|found) )|error|cannot"
"""Lines in the output of Go that say what is wrong."""


def prepare(client: Client, on_progress: Progress) -> Installed:
    """Compile the programs against a release; see `Runtime`."""
    release = client.release or NEWEST
    go = find_go(on_progress)
    folder = cached(
        f"clients/{TRAITS.library}-{release}-{_digest(go)}",
        lambda target: _compile(go, release, target, on_progress),
        f"another run compiles the clients for {TRAITS.library} {release}; waiting for it",
        on_progress,
    )
    return Installed(TRAITS.library, dict.fromkeys(PROGRAMS, (str(folder / BINARY),)))


def _traits() -> str:
    """Return what the programs have to know of the traits."""

    def needs(refusals: Refusals) -> dict[str, dict[str, list[str]]]:
        return {name: {"needs": sorted(refusal.needs)} for name, refusal in refusals.items()}

    names = {shared: own for own, shared in NAMES.items()}
    known = {"names": names, "sends": needs(TRAITS.sends), "commits": needs(TRAITS.commits), "errors": ERROR_CODES}
    return json.dumps(known, indent=1, sort_keys=False)


def _digest(go: Go) -> str:
    """Return a digest of the sources and of what compiles them."""
    content = hashlib.sha256(" ".join((MODULE, SCRAM, go.release, _traits())).encode())
    for path in sorted(SOURCES.glob("*.go")):
        content.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return content.hexdigest()[:12]


def _compile(go: Go, release: str, target: Path, on_progress: Progress) -> None:
    """Compile the programs against a release into one file, and check that it runs."""
    on_progress(f"compiling the clients for {TRAITS.library} {release} with Go {go.release}, once")
    folder, store = target / "src", target / "go"
    shutil.copytree(SOURCES, folder)
    (folder / "traits.json").write_text(_traits(), encoding="utf-8")
    (folder / "go.mod").write_text(f"module aftershock\n\ngo {'.'.join(map(str, NEEDED))}\n", encoding="utf-8")
    done = go.run(["get", f"{MODULE}@v{release}", SCRAM], folder, store, FETCH_S)
    if done.returncode:
        raise ResolveError(
            f"{TRAITS.library} {release} cannot be fetched: {last_lines(done, _FAULTS)}; check that the release exists "
            "and that the Go module proxy (GOPROXY) is within reach"
        )
    tags = ["-tags", "cooperative"] if number(release) >= number(COOPERATIVE_SINCE) else []
    done = go.run(["build", "-trimpath", *tags, "-o", str(target / BINARY), "."], folder, store, COMPILE_S)
    if done.returncode:
        raise ResolveError(
            f"the clients do not compile against {TRAITS.library} {release}: {last_lines(done, _FAULTS)}"
        )
    shutil.rmtree(folder)
    shutil.rmtree(store)
    done = _check(target / BINARY)
    if done.returncode or done.stdout.strip() != release:
        raise ResolveError(f"{TRAITS.library} {release} was compiled, but does not run here: {last_lines(done)}")


def _check(binary: Path) -> subprocess.CompletedProcess[str]:
    return run_tool([str(binary)], {}, CHECK_S, f"{binary.name} did not end within {CHECK_S} s; try again")


RUNTIME = Runtime(
    traits=TRAITS,
    default_release=lambda: NEWEST,
    prepare=prepare,
    consumer_defaults=lambda release: {},
)
