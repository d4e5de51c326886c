"""Tests of the folder of a tap: a new one, one that goes on, and one beside a tap that was judged."""

from __future__ import annotations

import pytest

from chaos.ending import Ending
from chaos.errors import UsageError
from chaos.run.directory import Run
from chaos.run.tap import TapRecord
from chaos.tap.order import LOCK, held, place


def made(path, judged=False):
    run = Run.create(path.parent, path.name)
    run.resolved.write_text("{}")
    TapRecord(listen="", advertise="", ports={}).save(run)
    if judged:
        run.result.write_text("{}")
    return run


def test_a_tap_has_a_folder_of_its_own_below_the_folder_of_runs(tmp_path):
    run, goes_on = place(tmp_path, None, None)
    assert run.path.parent == tmp_path and run.path.name.startswith("tap-") and not goes_on


def test_a_folder_is_made_and_gone_on_with_until_its_tap_was_judged(tmp_path):
    run, goes_on = place(tmp_path, tmp_path / "tap", None)
    assert (run.path.name, goes_on) == ("tap", False)
    run.path.rename(tmp_path / "away")
    interrupted = made(tmp_path / "tap")
    assert place(tmp_path, tmp_path / "tap", None) == (interrupted, True)
    interrupted.result.write_text("{}")
    assert place(tmp_path, tmp_path / "tap", None)[0].path.name == "tap-2"


def test_a_folder_of_a_tap_that_was_killed_before_it_began_is_used_again(tmp_path):
    Run.create(tmp_path, "tap")
    (tmp_path / "tap" / LOCK).touch()
    run, goes_on = place(tmp_path, tmp_path / "tap", None)
    assert not goes_on and not (run.path / LOCK).exists()


def test_to_go_on_needs_the_folder_of_a_tap(tmp_path):
    assert place(tmp_path, None, made(tmp_path / "tap").path) == (Run(tmp_path / "tap"), True)
    other = Run.create(tmp_path, "other")
    other.resolved.write_text("{}")
    with pytest.raises(UsageError, match=r"no folder of a tap: it has no tap\.json"):
        place(tmp_path, None, other.path)
    with pytest.raises(UsageError, match="two folders"):
        place(tmp_path, other.path, other.path)


def test_two_processes_do_not_tap_into_one_folder(tmp_path):
    run = made(tmp_path / "tap")
    with held(run), pytest.raises(UsageError, match="another process taps into"), held(run):
        pass
    with held(run):
        pass


def test_a_recording_ends_when_it_is_asked_to_or_its_time_is_over():
    ending = Ending()
    assert not ending.asked
    ending.ask()
    assert ending.asked and ending.wait(1000)
    assert Ending(1e-9).wait(0)
