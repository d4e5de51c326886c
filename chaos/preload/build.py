"""The compilation of libraries to preload, and the environment variables that load them."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from chaos.errors import MachineError, ResolveError
from chaos.install.cache import Progress, cache_dir, cached, silent
from chaos.install.tool import run_tool

COMPILERS = ("cc", "gcc", "clang")
COMPILE_S = 120
PRELOAD = "LD_PRELOAD"
_FLAGS = ("-shared", "-fPIC", "-O2")
_LIBRARIES = ("-ldl", "-lpthread")
_SOURCES = Path(__file__).parent


@dataclass(frozen=True)
class Preload:
    """A library that a process loads before all others, and the environment variables that the library reads."""

    library: Path
    variables: dict[str, str] = field(default_factory=dict)


def compiled(name: str, on_progress: Progress = silent) -> Path:
    """Return the shared object of `<name>.c`. It is compiled once, and loaded once as a check.

    Raises `MachineError` without Linux or a C compiler, `ResolveError` if it does not compile or load.
    """
    if sys.platform != "linux":
        raise MachineError(f"the {name} of single processes can be changed on Linux only; run the scenario there")
    if any(character in str(cache_dir()) for character in " :\t\n"):
        raise MachineError(
            f"a library in {cache_dir()} cannot be preloaded, because LD_PRELOAD separates paths by spaces and colons; "
            "set AFTERSHOCK_CACHE to a directory without them"
        )
    source = _SOURCES / f"{name}.c"
    digest = hashlib.sha256(source.read_bytes() + " ".join(_FLAGS).encode()).hexdigest()[:12]
    folder = f"preload/{name}-{digest}-{os.uname().machine}"
    waiting = f"another run compiles {source.name}; waiting for it"
    return cached(folder, lambda target: _compile(source, target, on_progress), waiting, on_progress) / f"{name}.so"


def environment(*preloads: Preload) -> dict[str, str]:
    """Return the environment variables of a process that loads libraries before those that it would load anyway."""
    if not preloads:
        return {}
    before = os.environ.get(PRELOAD)
    libraries = [*(str(preload.library) for preload in preloads), *([before] if before else [])]
    variables = {key: value for preload in preloads for key, value in preload.variables.items()}
    return {**variables, PRELOAD: ":".join(libraries)}


def _compile(source: Path, target: Path, on_progress: Progress) -> None:
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise MachineError(
            f"there is no C compiler ({', '.join(COMPILERS)}) on PATH to compile {source.name}; install one, "
            "such as the packages gcc and libc6-dev of Debian"
        )
    on_progress(f"compiling {source.name}, once")
    library = target / f"{source.stem}.so"
    late = f"{compiler} did not end within {COMPILE_S} s; try again"
    done = run_tool([compiler, *_FLAGS, "-o", str(library), str(source), *_LIBRARIES], {}, COMPILE_S, late)
    if done.returncode:
        raise ResolveError(
            f"{source} does not compile with {compiler}: {_error(done.stderr)}; install the headers of the C library, "
            "such as the package libc6-dev of Debian"
        )
    # the loader ignores a library that it cannot load, and says so
    done = run_tool([sys.executable, "-c", ""], {PRELOAD: str(library)}, COMPILE_S, late)
    if done.returncode or PRELOAD in done.stderr:
        raise ResolveError(f"{library} was compiled, but cannot be loaded: {_error(done.stderr)}")


def _error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return ([line for line in lines if "error" in line.lower()] or lines or ["no output"])[0][:300]
