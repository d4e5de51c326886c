"""Class archives: optional, made once, and removed when no JVM opens them any more."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.errors import ResolveError
from chaos.install.cache import silent
from chaos.install.java import archive_flags, class_archive, find_java

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
