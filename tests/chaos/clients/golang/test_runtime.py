"""The installation of the sarama clients: what does not compile, run or arrive leaves nothing behind."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.clients.choice import Client
from chaos.clients.golang import programs
from chaos.clients.sarama import runtime
from chaos.errors import ResolveError
from chaos.install import go
from chaos.install.cache import silent

OLD = Client(runtime="sarama", release="1.43.3")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AFTERSHOCK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(go, "_KNOWN", tmp_path / "absent")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "cache"


def toolchain(folder: Path, commands: str, release: str = "1.26.8") -> None:
    """Put a `go` of a release on the path that runs a script for the commands other than `env`."""
    script = folder / "go"
    script.write_text(f'#!/bin/sh\n[ "$1" = env ] && echo go{release} && exit\n{commands}\n')
    script.chmod(0o755)


def left_in(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if path.name != ".lock"]


@pytest.mark.parametrize(
    ("commands", "reason"),
    [
        (
            "[ $1 = get ] && exit\necho '# aftershock' >&2\necho './main.go:9:2: undefined: x' >&2\nexit 1",
            r"^the clients do not compile against sarama 1\.43\.3: \./main\.go:9:2: undefined: x$",
        ),
        (
            "echo 'go: downloading x' >&2\necho 'go: x@v1.43.3: unknown revision v1.43.3' >&2\nexit 1",
            r"^sarama 1\.43\.3 cannot be fetched: go: x@v1\.43\.3: unknown revision v1\.43\.3; check that the release",
        ),
        (
            'mkdir -p "$GOPATH"\n[ $1 = build ] && printf "#!/bin/sh\\nexit 3\\n" > "$6" && chmod +x "$6"\nexit 0',
            r"^sarama 1\.43\.3 was compiled, but does not run here: no output$",
        ),
    ],
    ids=["compile error", "no such release", "does not run"],
)
def test_a_failure_is_one_line_and_leaves_no_folder(cache: Path, tmp_path: Path, commands: str, reason: str) -> None:
    toolchain(tmp_path, commands)
    with pytest.raises(ResolveError, match=reason):
        runtime.RUNTIME.prepare(OLD, silent)
    assert left_in(cache / "clients") == []


def test_a_machine_without_a_new_go_and_without_an_index_gets_one_line(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolchain(tmp_path, "exit 1", release="1.19")
    pip = tmp_path / "pip"
    pip.write_text("#!/bin/sh\necho 'ERROR: No matching distribution found' >&2\nexit 1\n")
    pip.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(pip))
    with pytest.raises(
        ResolveError, match=r"^Go \S+ cannot be installed: ERROR: No match.*; install Go 1\.26 or newer"
    ):
        runtime.RUNTIME.prepare(OLD, silent)
    assert left_in(cache / "toolchains") == [] and not (cache / "clients").exists()


def test_a_changed_source_or_toolchain_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new, newer = go.Go(Path("go"), "1.26.8"), go.Go(Path("go"), "1.27.3")
    (tmp_path / "main.go").write_text("package main")
    found = {runtime.GO.digest(new), runtime.GO.digest(newer), replace(runtime.GO, errors={1: "A"}).digest(new)}
    found.add(replace(runtime.GO, sources=tmp_path).digest(new))
    monkeypatch.setattr(programs, "SHARED", tmp_path)
    assert len({*found, runtime.GO.digest(new)}) == 5


@pytest.mark.parametrize("release", ["1.43.2", "1.62.0", "2.0.0"])
def test_a_release_outside_the_supported_ones_is_refused(release: str) -> None:
    with pytest.raises(ValueError, match=rf"sarama {release} is not supported; choose 1\.43\.3 to 1\.61\.1"):
        Client(runtime="sarama", release=release)
