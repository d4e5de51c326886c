"""Spark's scratch folders: what ended processes left goes when the next one begins, what others use stays."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from chaos.errors import MachineError, UsageError
from checks.spark import executors, session
from checks.spark.master import CONF


def test_only_the_folders_of_ended_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mine = session.process_folder()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as living:
        theirs = mine.with_name(session._folder_name(psutil.Process(living.pid)))
        reused = mine.with_name(f"{living.pid}-1")  # the process that had this pid before
        ended = mine.with_name("999999999-1")
        stray = mine.with_name("blockmgr-4711")
        for folder in (theirs, reused, ended, stray):
            (folder / "inside").mkdir(parents=True)
        assert session.process_folder() == mine
        assert sorted(mine.parent.iterdir()) == sorted([mine, theirs])
        living.communicate()
    session.process_folder()
    assert list(mine.parent.iterdir()) == [mine]


@pytest.mark.parametrize("flags", [0, os.ST_NOSUID, os.ST_NOSUID | os.ST_NOEXEC])
def test_a_folder_from_which_no_native_code_can_be_loaded_is_refused_with_what_to_do(
    flags: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(session.os, "statvfs", lambda folder: SimpleNamespace(f_flag=flags))
    if flags & os.ST_NOEXEC:
        with pytest.raises(MachineError, match=f"{tmp_path} is mounted noexec, .*; set TMPDIR"):
            session.process_folder()
    else:
        assert session.process_folder().is_dir()


def test_settings_of_the_user_reach_spark_unless_the_session_sets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONF, f"spark.driver.memory=3g spark.jars='a b.jar,c.jar' {executors.TIMEOUT}=7s")
    found = session._settings("local[2]")
    assert (found["spark.driver.memory"], found["spark.jars"]) == ("3g", "a b.jar,c.jar")
    assert executors._timeout_s() == 7
    monkeypatch.delenv(CONF)
    assert session._settings("local[2]")["spark.driver.memory"].endswith("m") and executors._timeout_s() == 120


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory=3g", "'memory' is not a setting; write spark.NAME=VALUE"),
        ("spark.jars", "'spark.jars' is not a setting"),
        ("spark.jars='a", "No closing quotation"),
        ("spark.driver.maxResultSize=1g", "the session itself sets spark.driver.maxResultSize"),
    ],
)
def test_settings_that_are_not_sparks_or_not_the_users_are_refused(
    text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONF, text)
    with pytest.raises(UsageError, match=message):
        session._settings("local[2]")


def test_a_time_out_in_another_unit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONF, f"{executors.TIMEOUT}=2min")
    with pytest.raises(UsageError, match="is '2min'; write seconds"):
        executors._timeout_s()
