"""The installation of the Java clients: a release that does not compile or run leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.clients import jvm
from chaos.clients.choice import Client
from chaos.clients.java import runtime
from chaos.errors import ResolveError
from chaos.install.cache import silent
from chaos.install.java import Java


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace Java and the registry by a script and folders; return the cache."""
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'ERROR in Main.java: no such class' >&2\nexit 1\n")
    java.chmod(0o755)
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "ecj-1.jar").touch()
    monkeypatch.setenv("AFTERSHOCK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jvm, "_java", lambda: Java(java, 17, "17"))
    monkeypatch.setattr(runtime, "kafka_jars", lambda *_: jars)
    monkeypatch.setattr("chaos.install.jars.find_java", lambda: Java(java, 17, "17"))
    monkeypatch.setattr("chaos.install.jars.resolve", lambda *artifact: jars)
    monkeypatch.setattr(runtime, "resolve", lambda *artifact: jars)
    return tmp_path / "cache"


def test_a_compile_error_is_one_line_and_leaves_no_folder(fake: Path) -> None:
    with pytest.raises(ResolveError, match=r"do not compile against kafka-clients 3\.9\.2: ERROR in Main\.java"):
        runtime.prepare(Client(runtime="java", release="3.9.2"), silent)
    assert not [path for path in (fake / "clients").iterdir() if path.name != ".lock"]


def test_a_changed_source_is_compiled_again(tmp_path: Path) -> None:
    (tmp_path / "Main.java").write_text("class Main {}")
    before, more = jvm.digest([tmp_path]), jvm.digest([jvm.SOURCES, tmp_path])
    (tmp_path / "Main.java").write_text("class Main { }")
    assert len({before, more, jvm.digest([tmp_path])}) == 3
