"""Class archives: optional, made once, and removed when no JVM opens them any more."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.errors import ResolveError
from chaos.install.cache import silent
from chaos.install.java import ExitArchive, archive_flags, class_archive, exit_archive, find_java

Make = Callable[[tuple[str, ...]], None]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AFTERSHOCK_CACHE", str(tmp_path))
    return tmp_path / "classes"


def _archive(make: Make, *class_path: Path) -> Path | None:
    return class_archive("lib-1", find_java(), ("-XX:+UseSerialGC",), class_path, make, "waiting", silent)


def test_an_archive_that_cannot_be_made_is_tried_once(cache: Path) -> None:
    tried = []

    def make(flags: tuple[str, ...]) -> None:
        tried.append(flags)
        raise ResolveError("there is no broker")

    assert _archive(make) is None
    assert _archive(make) is None
    assert len(tried) == 1
    [reason] = cache.glob("lib-1-*/none.txt")
    assert reason.read_text() == "there is no broker\n"
    assert archive_flags(None) == ()


def test_an_archive_that_no_jvm_accepts_is_not_kept(cache: Path) -> None:
    assert _archive(lambda flags: _write(flags, "no archive")) is None
    assert not list(cache.glob("*/classes.jsa"))


def test_an_archive_is_made_again_for_other_jars_and_the_unused_one_goes(cache: Path, tmp_path: Path) -> None:
    made = []

    def make(_: tuple[str, ...]) -> None:
        made.append(jar.stat().st_size)

    for old, name in ((0, "lib-1-a"), (8 * 24 * 3600, "lib-1-b"), (8 * 24 * 3600, "other-1-a")):
        (cache / name).mkdir(parents=True)
        (archive := cache / name / "classes.jsa").touch()
        os.utime(archive, (time.time() - old,) * 2)
    for size in (1, 2, 2):
        (jar := tmp_path / "a.jar").write_bytes(bytes(size))
        os.utime(jar, (size, size))
        _archive(make, jar)
    assert made == [1, 2]
    assert sorted(path.name for path in cache.glob("*-[ab]")) == ["lib-1-a", "other-1-a"]


def _write(flags: tuple[str, ...], text: str) -> None:
    Path(flags[0].partition("=")[2]).write_text(text)


FLAGS = ("-XX:+UseSerialGC",)


def _start(cache: Path) -> ExitArchive:
    """Start a JVM with what its cache has; return that."""
    archive = exit_archive("lib-1", find_java(), FLAGS, [])
    argv = [str(find_java().path), *FLAGS, *archive.flags, "-version"]
    subprocess.run(argv, check=True, capture_output=True)
    return archive


def test_the_second_start_makes_an_archive_at_its_exit_and_the_third_one_uses_it(cache: Path) -> None:
    assert (first := _start(cache)).flags == () and not first.makes
    second = _start(cache)
    assert second.makes and not list(cache.glob("*/classes.jsa")), "not yet checked"
    assert exit_archive("lib-1", find_java(), FLAGS, []).flags == (), "another process makes it"
    second.keep("")
    (archive,) = cache.glob("lib-1-*/classes.jsa")
    assert _start(cache).flags == archive_flags(archive)


def test_an_archive_at_exit_is_tried_three_times(cache: Path) -> None:
    assert not _start(cache).makes
    for _ in range(3):
        archive = exit_archive("lib-1", find_java(), FLAGS, [])
        assert archive.makes
        _write((archive.flags[0],), "no archive")
        archive.keep("")
    assert exit_archive("lib-1", find_java(), FLAGS, []).flags == ()
    assert not list(cache.glob("*/*.jsa"))


def test_without_a_cache_there_is_no_archive_at_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFTERSHOCK_CACHE", "/proc/none")
    assert exit_archive("lib-1", find_java(), FLAGS, []).flags == ()
