"""Samples of groups by the observer, with answers by hand."""

import json
from types import SimpleNamespace

import pytest

from chaos.kafka.client import GroupState
from chaos.kafka.partition import TopicPartition
from chaos.observer import Observer
from chaos.run.directory import Run

PARTITION = TopicPartition("orders", 0)


@pytest.fixture
def samples(tmp_path):
    """Return a function that samples answers of a coordinator, each (state, committed offset), and returns the rows."""

    def sample(*answers):
        run = Run.create(tmp_path, "observer")
        observer, rows = Observer(run, lambda: None, [PARTITION], ["billing"]), []
        observer._writer = SimpleNamespace(append_rows=rows.extend)
        for state, committed in answers:
            asked = []

            def committed_or_none(group, partitions, coordinator, committed=committed, asked=asked):
                asked.append(coordinator)
                return None if committed == "refused" else {PARTITION: committed}

            answer = None if state is None else GroupState(state, 2, ())
            kafka = SimpleNamespace(group=lambda group, answer=answer: answer, committed_or_none=committed_or_none)
            observer._sample_groups(kafka)
            assert asked == ([] if state is None else [2]), "one sample asks one coordinator"
        return [(row["key"], json.loads(row["value"])) for row in rows if row["key"] in ("answers", "committed")]

    return sample


def test_an_offset_that_is_gone_is_null_and_one_that_never_was_has_no_row(samples):
    rows = samples(("Empty", None), ("Empty", 7), ("Empty", 7), ("Dead", None))
    assert rows == [("answers", True), ("committed", 7), ("committed", None)]


def test_a_sample_without_offsets_is_no_sample(samples):
    rows = samples(("Stable", 7), ("Dead", "refused"), (None, None), ("Stable", 7))
    assert rows == [("answers", True), ("committed", 7), ("answers", False), ("answers", True)]


def test_a_sample_of_a_group_is_late_while_another_group_is_not_answered(tmp_path, monkeypatch):
    now_s = 100.0
    monkeypatch.setattr("chaos.observer.monotonic", lambda: now_s)
    observer, rows = Observer(Run.create(tmp_path, "late"), lambda: None, [PARTITION], ["billing", "silent"]), []
    observer._writer = SimpleNamespace(append_rows=rows.extend)

    def group(name):
        nonlocal now_s
        now_s += 0.1 if name == "billing" else 5.0
        observer._record_lateness(kafka)
        return GroupState("Stable", 2, ()) if name == "billing" else None

    kafka = SimpleNamespace(group=group, committed_or_none=lambda *_: {PARTITION: 7})
    observer._sample_groups(kafka)
    observer._sample_groups(kafka)
    late = [(row["entity"], json.loads(row["value"])) for row in rows if row["key"] == "late"]
    assert late == [("group:billing", False), ("group:billing", True)] * 2


def test_a_group_is_unchanged_since_its_last_other_state_or_members_or_missing_answer(tmp_path, monkeypatch):
    now_s = 100.0
    monkeypatch.setattr("chaos.observer.monotonic", lambda: now_s)
    observer = Observer(Run.create(tmp_path, "unchanged"), lambda: None, [PARTITION], ["billing"])
    observer._writer = SimpleNamespace(append_rows=lambda rows: None)
    seen = []
    states = ("PreparingRebalance", "Stable", "Stable", "Stable", None, "Stable")
    for state, committed in zip(states, (1, 1, 1, 2, None, 2), strict=True):
        answer = GroupState(state, 2, ()) if state else None
        kafka = SimpleNamespace(group=lambda _, a=answer: a, committed_or_none=lambda *_, c=committed: {PARTITION: c})
        observer._sample_groups(kafka)
        now_s += 1.0
        seen.append(observer.unchanged_s("billing"))
    assert seen == [1.0, 1.0, 2.0, 3.0, 1.0, 1.0]
    assert observer.unchanged_s("another") == 0.0
