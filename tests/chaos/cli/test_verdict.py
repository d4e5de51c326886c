"""Tests of when a run says its verdict."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

from chaos.lab import lab
from chaos.run.directory import Run


def test_the_verdict_is_printed_before_spark_ends(tmp_path, monkeypatch):
    """The end of Spark may take half a minute: it archives its classes in the second run on a machine."""
    done: list[str] = []
    judgement = SimpleNamespace(log_read=SimpleNamespace(wait=lambda: None), read_back=True)
    judge = SimpleNamespace(
        submit=lambda run: judgement,
        wait=lambda judgement: done.append("judged") or 1,
        close=lambda: done.append("Spark ended"),
        wait_before_load=lambda events: None,
    )
    monkeypatch.setattr(lab, "Judge", lambda *_: contextlib.nullcontext(judge))
    for stage in ("deploy", "drive", "end_brokers", "destroy"):
        monkeypatch.setattr(lab.stages, stage, lambda *_, **__: None)
    run = Run(tmp_path)
    assert lab.drive_and_judge(run, lambda event: None, on_verdict=lambda: done.append("printed")) == 1
    assert done == ["judged", "printed", "Spark ended"]
    assert lab.drive_and_judge(run, lambda event: None) == 1 and done[3:] == ["judged", "Spark ended"]
