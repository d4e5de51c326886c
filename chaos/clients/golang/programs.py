"""Programs in Go: compiled against a release of a library into one file at first use.

The programs of each release are in the user's cache. The name of the folder has a digest of all sources, of the table
of errors and of the toolchain, so changed programs are compiled again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaos.clients.choice import Client
from chaos.clients.protocol import Program
from chaos.clients.runtime import Installed, Runtime
from chaos.clients.traits import Refusals, Traits, number
from chaos.errors import ResolveError
from chaos.install.cache import Progress, cached, run_tool
from chaos.install.go import NEEDED, Go, find_go, last_lines

PROGRAMS: tuple[Program, ...] = ("producer", "group_consumer", "assign_consumer")
SHARED = Path(__file__).with_name("src")
"""Sources that do not depend on a library."""
FETCH_S = 600
COMPILE_S = 600
CHECK_S = 60
_FAULTS = r"^\S+\.go:\d+|^go: (?!(downloading|finding|added|upgraded|found) )|error|cannot"
"""Lines in the output of Go that say what is wrong."""


@dataclass(frozen=True)
class GoPrograms:
    """The programs of a library in Go.

    module: the path of the library's module. sources: the folder of what depends on the library.
    names: common names of settings by the names of the library. errors: names of error codes in the protocol.
    more_modules: other modules with their versions. tags: build tags, with the first release that they are for.
    """

    traits: Traits
    module: str
    sources: Path
    names: Mapping[str, str]
    errors: Mapping[int, str]
    more_modules: Sequence[str] = ()
    tags: Mapping[str, str] = field(default_factory=dict)

    def compiled(self, release: str, on_progress: Progress) -> Path:
        """Return the executable file for a release; without an argument, it prints the release.

        Raises `ResolveError` if the release does not exist, or the programs do not compile or run with it.
        """
        go = find_go(on_progress)
        library = self.traits.library
        folder = cached(
            f"clients/{library}-{release}-{self.digest(go)}",
            lambda target: self._compile(go, release, target, on_progress),
            f"another run compiles the clients for {library} {release}; waiting for it",
            on_progress,
        )
        return folder / self._binary

    def runtime(self, newest: str) -> Runtime:
        """Return the runtime of these programs. newest: the release of an entry that names none."""

        def prepare(client: Client, on_progress: Progress) -> Installed:
            command = (str(self.compiled(client.release or newest, on_progress)),)
            return Installed(self.traits.library, dict.fromkeys(PROGRAMS, command))

        return Runtime(self.traits, default_release=lambda: newest, prepare=prepare, consumer_defaults=lambda _: {})

    def digest(self, go: Go) -> str:
        """Return a digest of the sources and of what compiles them."""
        content = hashlib.sha256(" ".join((self.module, *self.more_modules, go.release, self._known())).encode())
        for path in self._files():
            content.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return content.hexdigest()[:12]

    @property
    def _binary(self) -> str:
        return f"{self.traits.library}-clients"

    def _files(self) -> list[Path]:
        return [path for folder in (SHARED, self.sources) for path in sorted(folder.glob("*.go"))]

    def _known(self) -> str:
        """Return what the programs have to know of the traits."""

        def needs(refusals: Refusals) -> dict[str, dict[str, list[str]]]:
            return {name: {"needs": sorted(refusal.needs)} for name, refusal in refusals.items()}

        sends, commits = needs(self.traits.sends), needs(self.traits.commits)
        own = {shared: name for name, shared in self.names.items()}
        return json.dumps({"names": own, "sends": sends, "commits": commits, "errors": dict(self.errors)}, indent=1)

    def _compile(self, go: Go, release: str, target: Path, on_progress: Progress) -> None:
        """Compile the programs against a release into one file, and check that it runs."""
        library = self.traits.library
        on_progress(f"compiling the clients for {library} {release} with Go {go.release}, once")
        folder, store = target / "src", target / "go"
        folder.mkdir(parents=True)
        for path in self._files():
            shutil.copy(path, folder)
        (folder / "traits.json").write_text(self._known(), encoding="utf-8")
        (folder / "go.mod").write_text(f"module aftershock\n\ngo {'.'.join(map(str, NEEDED))}\n", encoding="utf-8")
        done = go.run(["get", f"{self.module}@v{release}", *self.more_modules], folder, store, FETCH_S)
        if done.returncode:
            raise ResolveError(
                f"{library} {release} cannot be fetched: {last_lines(done, _FAULTS)}; check that the release exists "
                "and that the Go module proxy (GOPROXY) is within reach"
            )
        tags = [tag for tag, since in self.tags.items() if number(release) >= number(since)]
        done = go.run(
            ["build", "-trimpath", "-tags", ",".join(tags), "-o", str(target / self._binary), "."],
            folder,
            store,
            COMPILE_S,
        )
        if done.returncode:
            raise ResolveError(f"the clients do not compile against {library} {release}: {last_lines(done, _FAULTS)}")
        shutil.rmtree(folder)
        shutil.rmtree(store)
        done = _check(target / self._binary)
        if done.returncode or done.stdout.strip() != release:
            raise ResolveError(f"{library} {release} was compiled, but does not run here: {last_lines(done)}")


def _check(binary: Path) -> subprocess.CompletedProcess[str]:
    return run_tool([str(binary)], {}, CHECK_S, f"{binary.name} did not end within {CHECK_S} s; try again")
