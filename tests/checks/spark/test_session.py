"""Spark's scratch folders: what ended processes left goes when the next one begins, what others use stays."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from checks.spark import session


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
