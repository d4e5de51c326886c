"""Jars and Java: each release is resolved once, completely or not at all, and every error is one line."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from chaos.errors import MachineError, ResolveError
from chaos.install import jars
from chaos.install.cache import cached
from chaos.install.jars import kafka_jars, resolve
from chaos.install.java import find_java
from chaos.wait import wait_until

# a substitute for java: answers -version, and creates the jars that Ivy would retrieve
FAKE_JAVA = """#!{python}
import os, sys, time
from pathlib import Path
here = Path(__file__).parent
if sys.argv[1] == "-version":
    sys.exit(print('openjdk version "17.0.1" (build 17.0.1+1)', file=sys.stderr))
_, module, version = sys.argv[sys.argv.index("-dependency") + 1:][:3]
target = Path(sys.argv[sys.argv.index("-retrieve") + 1]).parent
with open(here / "options", "a") as f:
    f.write(f"{{os.environ['LC_ALL']}} {{sys.argv[1]}} {{target}} {{os.getcwd()}}\\n")
with open(here / "calls", "a") as f:
    f.write(module + "\\n")
if (here / "says").exists():
    sys.exit((here / "says").read_text())
(target / f"{{module}}-{{version}}.jar").write_text("jar")
if module == "kafka_2.13":
    for part in ("api", "reload4j"):
        (target / f"slf4j-{{part}}-1.7.36.jar").write_text("jar")
    while (here / "hold").exists():
        time.sleep(0.01)
"""


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a fake java, the only directory on PATH; the cache is empty."""
    directory = tmp_path / "fake"
    directory.mkdir()
    (directory / "java").write_text(FAKE_JAVA.format(python=sys.executable))
    (directory / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("AFTERSHOCK_CACHE", str(tmp_path / "cache"))
    return directory


def calls(java: Path) -> list[str]:
    path = java / "calls"
    return path.read_text().split() if path.exists() else []


def left_over(tmp_path: Path) -> list[str]:
    return sorted(p.name for p in (tmp_path / "cache" / "jars").iterdir() if p.name != ".lock")


def test_a_release_is_resolved_once_with_one_log_back_end(java: Path) -> None:
    messages: list[str] = []
    first = kafka_jars("4.3.1", messages.append)
    assert sorted(p.name for p in first.glob("*.jar")) == [
        "kafka_2.13-4.3.1.jar",
        "slf4j-api-1.7.36.jar",
        "slf4j-simple-1.7.36.jar",
    ]
    assert kafka_jars("4.3.1", messages.append) == first
    assert calls(java) == ["kafka_2.13", "slf4j-simple"] and len(messages) == 1


def test_any_artifact_is_resolved(java: Path) -> None:
    directory = resolve("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.0.0")
    assert [p.name for p in directory.glob("*.jar")] == ["spark-sql-kafka-0-10_2.13-4.0.0.jar"]


def test_concurrent_requests_resolve_once(java: Path, tmp_path: Path) -> None:
    (java / "hold").touch()
    messages: list[str] = []
    found: list[Path] = []
    first = threading.Thread(target=lambda: found.append(kafka_jars("4.3.1")))
    second = threading.Thread(target=lambda: found.append(kafka_jars("4.3.1", messages.append)))
    first.start()
    wait_until(lambda: calls(java), 30, "the first does not resolve")
    second.start()
    wait_until(lambda: messages, 30, "the second does not wait")
    assert found == [] and not (tmp_path / "cache/jars/kafka-4.3.1").exists()  # partial: not visible yet
    (java / "hold").unlink()
    first.join(30)
    second.join(30)
    assert found == [tmp_path / "cache/jars/kafka-4.3.1"] * 2
    assert calls(java) == ["kafka_2.13", "slf4j-simple"]
    assert "waiting" in messages[0]


def test_remains_of_a_killed_process_are_neither_used_nor_kept(java: Path, tmp_path: Path) -> None:
    stale = tmp_path / "cache/jars/.partial-abc"
    stale.mkdir(parents=True)
    (stale / "kafka_2.13-4.3.1.jar").write_text("half a j")
    half = tmp_path / "cache/jars/kafka-4.3.1"  # as an interrupted copy of a cache leaves it
    half.mkdir()
    (half / "kafka_2.13-4.3.1.jar").write_text("half a j")
    assert (kafka_jars("4.3.1") / "kafka_2.13-4.3.1.jar").read_text() == "jar"
    assert left_over(tmp_path) == ["kafka-4.3.1"]


@pytest.mark.parametrize("damage", [Path.unlink, lambda p: p.write_text("")])
def test_a_release_that_lost_a_jar_is_resolved_again(java: Path, damage: object) -> None:
    jar = kafka_jars("4.3.1") / "slf4j-simple-1.7.36.jar"
    damage(jar)  # type: ignore[operator]
    assert kafka_jars("4.3.1") == jar.parent and jar.read_text() == "jar"


def test_an_unknown_release_is_reported_in_one_line_and_leaves_nothing(java: Path, tmp_path: Path) -> None:
    (java / "says").write_text(
        "\t\tmodule not found: org.apache.kafka#kafka_2.13;4.99.1\n"
        "\t\t::          UNRESOLVED DEPENDENCIES         ::\n"
        "\t\t:: org.apache.kafka#kafka_2.13;4.99.1: not found\n"
        "\t\t::::::::::::::::::::::::::::::::::::::::::::::\n"
        ":: USE VERBOSE OR DEBUG MESSAGE LEVEL FOR MORE DETAILS\n"
    )
    with pytest.raises(ResolveError) as error:
        kafka_jars("4.99.1")
    text = str(error.value)
    assert "\n" not in text and "4.99.1: not found" in text and jars.KNOWN_GOOD[-1] in text
    assert left_over(tmp_path) == []


def test_an_unreachable_repository_differs_from_an_unknown_release(java: Path) -> None:
    (java / "says").write_text(
        "\t\t:: org.apache.kafka#kafka_2.13;3.9.1: not found\n"
        ":::: ERRORS\n"
        "\tServer access error at url file.pom (java.net.ConnectException: Connection refused)\n"
    )
    with pytest.raises(ResolveError, match=r"cannot be reached \(java.net.ConnectException: Connection refused\)") as e:
        kafka_jars("3.9.1")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("version", ["", "latest", "4", "-rf", "4.3.1; ls", "4.3.1\n", "../4.3.1", "4.3.[0,)"])
def test_an_invalid_version_is_refused_before_anything_runs(java: Path, version: str) -> None:
    with pytest.raises(ResolveError, match="is not a Kafka version"):
        kafka_jars(version)
    assert calls(java) == []


@pytest.mark.parametrize("version", ["4.3.1", "4.3.1-rc1", "3.1.3.Final"])
def test_a_version_may_end_in_a_word_as_releases_of_debezium_do(version: str) -> None:
    assert jars._VERSION.fullmatch(version)


def test_a_cache_that_cannot_be_written_is_named(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AFTERSHOCK_CACHE", str(tmp_path / "file"))
    with pytest.raises(MachineError, match="AFTERSHOCK_CACHE"):
        kafka_jars("4.3.1")


@pytest.fixture
def no_home(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory of a user with a home directory that cannot be written."""
    monkeypatch.delenv("AFTERSHOCK_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/proc/nonexistent")
    monkeypatch.setattr(jars.pwd, "getpwuid", lambda _: SimpleNamespace(pw_dir="/proc/nonexistent"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("chaos.install.cache._reported", set())
    return tmp_path


def test_without_a_writable_home_the_cache_is_a_private_temporary_directory(no_home: Path, java: Path) -> None:
    messages: list[str] = []
    temporary = no_home / f"aftershock-{os.getuid()}"
    assert kafka_jars("4.3.1", messages.append) == temporary / "jars" / "kafka-4.3.1"
    resolve("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.0.0", messages.append)
    [note] = [message for message in messages if "AFTERSHOCK_CACHE" in message]
    assert "/proc/nonexistent/.cache/aftershock cannot be written" in note and str(temporary) in note
    assert temporary.stat().st_mode & 0o777 == 0o700
    assert f"-Duser.home={temporary}" in (java / "options").read_text()


def test_a_temporary_cache_of_another_user_is_refused(no_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (no_home / "elsewhere").mkdir()
    (no_home / f"aftershock-{os.getuid()}").symlink_to(no_home / "elsewhere")
    with pytest.raises(MachineError, match="belongs to another user; set AFTERSHOCK_CACHE"):
        kafka_jars("4.3.1")


def test_a_cache_that_is_read_only_still_serves_what_it_has(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AFTERSHOCK_CACHE", str(tmp_path / "home" / "aftershock"))
    directory = kafka_jars("4.3.1")
    monkeypatch.delenv("AFTERSHOCK_CACHE")
    monkeypatch.setattr("os.access", lambda *_: False)
    assert kafka_jars("4.3.1") == directory


def test_ivy_gets_no_path_that_is_special_in_its_patterns(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFTERSHOCK_CACHE", str(tmp_path / "Träge Läufe (1) [x]"))
    kafka_jars("4.3.1")
    locale, _, target, *_ = (java / "options").read_text(encoding="utf-8").split()
    assert (locale, target) == ("C.UTF-8", ".")


def test_a_failed_fill_leaves_nothing(java: Path, tmp_path: Path) -> None:
    def fill(directory: Path) -> None:
        (directory / "half").write_text("")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached("jars/x", fill, "")
    assert left_over(tmp_path) == []


def test_the_java_on_path_or_in_java_home_is_found(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (find_java().path, find_java().major, find_java().build) == (java / "java", 17, "17.0.1+1")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/bin").symlink_to(java)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "")
    assert find_java().path == tmp_path / "home/bin/java"


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ("echo 'java version \"1.8.0_402\"' >&2", "is Java 8, and Kafka needs 17"),
        ("echo 'openjdk version \"11.0.2\"' >&2", "is Java 11, and Kafka needs 17"),
        ("echo nothing >&2", "names no version"),
        ("exit 1", "does not run"),
    ],
)
def test_an_unusable_java_is_named(java: Path, says: str, message: str) -> None:
    (java / "java").write_text(f"#!/bin/sh\n{says}\n")
    with pytest.raises(MachineError, match=message) as error:
        find_java()
    assert str(java) in str(error.value) and "JAVA_HOME" in str(error.value)


def test_a_missing_java_is_reported_in_one_line(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(MachineError, match="no java on PATH; install a Java 17"):
        kafka_jars("4.3.1")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(MachineError, match="JAVA_HOME is /nowhere"):
        find_java()
