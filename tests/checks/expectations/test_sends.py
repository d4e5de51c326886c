"""Failed and unknown sends, and the share of acknowledged sends over time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.run.directory import Run
from checks.expectations.contract import terms
from checks.expectations.measure import Measure, failures, lowest_success
from tests.support.fake_runs import SCENARIO, T0, FakeRun

STEP_US, WINDOW_US = 250_000, 1_000_000
Steps = dict[int, int]
"""Number of the 250 ms step -> sends."""


def write_series(run: Run, called: Steps, unacked: Steps, topic: str = "orders") -> None:
    rows = [
        {"at_us": T0 + step * STEP_US, "series": series, "scope": topic, "value": value}
        for series, steps in (("acked", {-9: 9} if called else {}), ("called", called), ("unacked", unacked))
        for step, value in steps.items()
    ]
    (run.audit / "series").mkdir(parents=True)
    if rows:
        pq.write_table(pa.Table.from_pylist(rows), run.audit / "series" / "part-0.parquet")


def lowest(folder: Path, called: Steps, unacked: Steps, topic: str = "orders") -> tuple[int | None, str]:
    run = Run.create(folder, "sends-1")
    write_series(run, called, unacked, topic)
    observed = lowest_success(run, WINDOW_US)
    return observed.value, observed.text


@pytest.mark.parametrize(
    ("called", "unacked", "share", "of"),
    [
        ({0: 100, 4: 100}, {}, 1_000_000, 100),
        ({0: 900, 3: 99, 4: 1000}, {3: 1}, 998_998, 999),  # rounded down
        ({0: 1000, 3: 1000, 4: 1000}, {3: 1, 4: 1}, 999_000, 1000),  # the window ends before step 4
        ({0: 1000, 4: 10}, {4: 1}, 900_000, 10),  # the last window counts, though it is short
        ({0: 1000, 40: 1000}, {}, 1_000_000, 1000),  # windows without sends do not count
        ({0: 10}, {0: 10}, 0, 10),
        ({5: 100, 0: 100, 3: 100}, {3: 10}, 950_000, 200),  # in any order
    ],
)
def test_the_window_with_the_lowest_share_counts(tmp_path, called, unacked, share, of):
    value, text = lowest(tmp_path, called, unacked)
    assert value == share and text.endswith(f"% of {of:,} sends")


def test_windows_begin_with_the_first_send(tmp_path):
    value, _ = lowest(tmp_path, {3: 100, 4: 100, 6: 100, 7: 100}, {3: 1, 6: 1})
    assert value == 993_333


def test_the_lives_of_a_topic_count_together(tmp_path):
    value, _ = lowest(tmp_path, {0: 4}, {0: 1}, "orders (deleted 1)")
    assert value == 750_000


def test_without_sends_nothing_is_measured(tmp_path):
    assert lowest(tmp_path, {}, {})[0] is None


def test_failures_are_counted_by_outcome_over_all_topics(fake: Callable[..., FakeRun]) -> None:
    run = fake()
    run.counts += [{"name": "failed", "scope": t, "value": n} for t, n in (("orders", 40), ("stock", 2))]
    run.counts += [{"name": "unknown", "scope": "orders", "value": 0}]
    run.write()
    failed, unknown = (failures(run.run, outcome) for outcome in ("fail", "unknown"))
    assert (failed.value, failed.reason) == (42, "42 sends failed for good (orders: 40, stock: 2)")
    assert (unknown.value, unknown.reason) == (0, "no send")


def test_without_counts_failures_are_not_zero(fake: Callable[..., FakeRun]) -> None:
    assert failures(fake().write().run, "fail").value is None


BOUNDED = SCENARIO + "  send_failures: {fail: 40, unknown: 0}\n"


@pytest.mark.parametrize(("failed", "verdict"), [(40, "pass"), (39, "fail"), (41, "fail")])
def test_a_contract_bounds_the_failures(fake, validated, failed, verdict):
    run = fake(BOUNDED)
    run.counts += [{"name": "failed", "scope": "orders", "value": failed}]
    run.counts += [{"name": "unknown", "scope": "orders", "value": 0}]
    found = validated(run)
    assert found["send_failures", "fail", ""].verdict == verdict
    assert found["send_failures", "unknown", ""].verdict == "pass"


def test_a_contract_bounds_the_share_in_windows_of_its_length_if_the_clock_is_right(fake):
    run = fake(SCENARIO + "  send_success: {min: 99%, per: 2s}\n").write()
    write_series(run.run, {0: 100, 4: 100, 8: 100}, {4: 2})
    term = next(t for t in terms(run.resolved) if t.check == "send_success")
    found = Measure(run.run, run.resolved).observe(term)
    assert (found.value, found.text, found.unknown) == (990_000, "99 % of 200 sends", "")
    assert found.reason.endswith(" after the first send to orders")
    with run.run.events.open("a") as events:
        events.writelines(json.dumps({"kind": "progress", "at_us": T0 + at}) + "\n" for at in (90_000_000, 80_000_000))
    found = Measure(run.run, run.resolved).observe(term)
    assert found.value is None and found.unknown.startswith("the clock of the machine was set back")
