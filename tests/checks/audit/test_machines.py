"""Clients on two machines with wrong clocks: the audit finds what it finds with one clock, or leaves it open.

Each story is audited with the times that the clocks of its clients would have given. Consumer 2 is on worker-2, all
other clients on worker-1.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from chaos.run.directory import Run
from chaos.scenario.fleet import Fleet
from checks.audit import audit
from checks.audit.facts.machine_clocks import machine_clocks
from checks.audit.rules.registry import ACROSS
from checks.audit.rules.rule import IN_ORDER
from tests.checks.audit.stories import STORIES
from tests.checks.audit.story import Rows, Story, read_audit, resolved_of, rows_of, write_ledger

AHEAD_US = {"worker-1": 7_300_000, "worker-2": -3_111_000}
DRIFT = {"worker-1": 20e-6, "worker-2": -50e-6}
STRETCH = 20
"""Steps of a story, of 1 ms, are 20 ms: more than the clocks are unknown, 1.2 ms."""
EXACT_US, VAGUE_US = 100, 12_000
TIMES = {
    "sends": {"producer": ("invoked_us", "completed_us")},
    "transactions": {"producer": ("began_us", "ended_us")},
    "deliveries": {"consumer": ("polled_us", "processed_us"), "producer": ("sent_us",)},
    "commits": {"consumer": ("requested_us", "completed_us")},
    "assignments": {"consumer": ("at_us",)},
    "lifecycle": {"client": ("at_us",)},
}

IN_ORDER_STORIES = {
    "double_ownership": ("two_owners_at_once_without_generations", "learned_late_without_generations"),
    "zombie_commit": ("committed_after_another_had_begun", "committed_while_it_was_revoked"),
    "commit_rewind": ("moved_back_by_another_job_and_then_back_by_itself", "moved_back_by_another_job"),
    "foreign_commit": ("moved_by_another_job", "moved_by_a_fault_and_by_nobody_else"),
    "duplicate_delivery.illegal": ("again_from_below_the_committed_offset", "again_from_the_committed_offset"),
    "lost_processing": ("committed_unseen_by_the_ledger", "committed_then_died_and_was_processed_by_the_next"),
    "overcommit": ("committed_then_died", "again_from_the_committed_offset"),
    "skipped_delivery": ("left_out_between_two_owners", "on_from_a_commit_of_unknown_outcome"),
}
"""For each rule that depends on the order of events: a story that violates it, and one that does not."""
READ_EARLY = "delivered_while_the_transaction_was_still_sent_to"
GONE = ("over_again_when_its_offset_had_expired", "over_again_when_the_coordinator_had_lost_its_offset")
"""Committed offsets that are gone: several more times decide why, so that is always left open."""


def is_plain(story: Story) -> bool:
    kinds = {row["kind"] for row in story.rows["faults"]}
    return not (story.processes or story.mode == "share" or any(kind.startswith("topic.") for kind in kinds))


def worker_of(client: str) -> str:
    return "worker-2" if client.startswith("c") and client.endswith("/2") else "worker-1"


def shown_us(at_us: int, worker: str, drifts: bool) -> int:
    """The time that the clock of a worker shows, at one of the drive."""
    return at_us + AHEAD_US[worker] + round(at_us * DRIFT[worker] * drifts)


def apart(stories: list[Story], uncertainty_us: int, stretch: int, drifts: bool) -> Rows:
    """The rows of stories as the clients of two workers would have written them, and what the drive says of these."""
    rows: Rows = defaultdict(list)
    clients = {worker: set[str]() for worker in AHEAD_US}
    for table, found in rows_of(stories).items():
        for row in found:
            row = dict(row)
            for name, value in row.items():
                if name.endswith("_us") and value is not None:
                    row[name] = value * stretch
            by_drive = table == "lifecycle" and row["event"] == "crashed"
            for owner, times in TIMES.get(table, {}).items() if not by_drive else ():
                worker = worker_of(row[owner] or "")
                clients[worker] |= {row[owner]} - {None}
                for name in times:
                    if row.get(name) is not None:
                        row[name] = shown_us(row[name], worker, drifts)
            rows[table].append(row)
    end_us = stretch * max(story.now for story in stories) + 2_000_000
    for worker, held in clients.items():
        entity = {"entity": f"worker:{worker}"}
        host = {"name": f"host-{worker}", "pid": 1, "beside_drive": False}
        rows["cluster"] += [entity | {"at_us": 1, "key": "host", "value": json.dumps(host)}]
        rows["cluster"] += [entity | {"at_us": 1, "key": "clients", "value": json.dumps(sorted(held))}]
        for at_us in range(0, end_us, 1_000_000):
            ahead_us = shown_us(at_us, worker, drifts) - at_us
            rows["cluster"].append(
                entity | {"at_us": at_us, "key": "clock", "value": json.dumps([ahead_us, uncertainty_us])}
            )
    return rows


Audited = dict[str, list[dict[str, Any]]]


def audited(spark: Any, folder: Any, stories: list[Story], *how: Any) -> Audited:
    run, resolved = Run(folder / "run"), resolved_of(stories)
    write_ledger(run, apart(stories, *how))
    scenario = resolved.scenario.model_copy(update={"fleet": Fleet(workers=2)})
    audit(spark, run, resolved.model_copy(update={"scenario": scenario}))
    return {table: read_audit(run, table) for table in ("summary", "counts", "metrics")}


def written() -> dict[str, Story]:
    stories = {}
    for number, (name, (write, _)) in enumerate(STORIES.items(), start=1):
        stories[name] = Story(name, number, now=1_000_000 * number)
        write(stories[name])
    return {name: story for name, story in stories.items() if is_plain(story)}


def found_in(tables: Audited, story: Story) -> dict[str, int]:
    scopes = {story.name, story.out, *(story.reader(n) for n in range(1, story.members + 1))}
    found: Counter[str] = Counter()
    for row in (row for row in tables["summary"] if row["scope"] in scopes):
        check = row["check"]
        found[f"{check}.{row['split']}" if row["split"] else check] += row["count"]
        found[f"{check}.undetermined"] = max(row["undetermined"], found[f"{check}.undetermined"])
    return {check: count for check, count in found.items() if count}


def unsure(tables: Audited, story: Story) -> int:
    return sum(r["value"] for r in tables["counts"] if r["name"] == "unsure_order" and r["scope"] == f"{story.name}/0")


@pytest.fixture(scope="module")
def stories() -> dict[str, Story]:
    return written()


@pytest.fixture(scope="module", params=[EXACT_US, VAGUE_US], ids=["far", "near"])
def audited_apart(
    spark: Any, stories: dict[str, Story], request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[bool, Audited]:
    """Whether events of two machines are further apart than the clocks are unknown, and the tables."""
    names = {name for pair in IN_ORDER_STORIES.values() for name in pair} | {READ_EARLY, *GONE}
    chosen = [stories[name] for name in sorted(names)]
    tables = audited(spark, tmp_path_factory.mktemp("apart"), chosen, request.param, STRETCH, True)
    return request.param == EXACT_US, tables


@pytest.mark.parametrize("check", IN_ORDER_STORIES)
def test_a_rule_is_decided_if_events_are_further_apart_than_the_clocks_are_unknown(
    check: str, stories: dict[str, Story], audited_apart: tuple[bool, Audited]
) -> None:
    far, tables = audited_apart
    assert ACROSS[check.partition(".")[0]] == IN_ORDER
    violating, clean = (stories[name] for name in IN_ORDER_STORIES[check])
    for story in (violating, clean):
        assert (unsure(tables, story) == 0) is far
    if far:
        assert found_in(tables, violating)[check] == STORIES[violating.name][1][check]
        assert check not in found_in(tables, clean)


def test_a_record_that_was_read_early_is_decided_by_itself(
    stories: dict[str, Story], audited_apart: tuple[bool, Audited]
) -> None:
    far, tables = audited_apart
    found = found_in(tables, stories[READ_EARLY])
    assert found == ({"precommitted_read": 1} if far else {"precommitted_read.undetermined": 1})


def test_why_a_committed_offset_is_gone_is_left_open(
    stories: dict[str, Story], audited_apart: tuple[bool, Audited]
) -> None:
    assert all(unsure(audited_apart[1], stories[name]) for name in GONE)


def test_the_uncertainty_of_each_clock_and_of_two_is_counted(audited_apart: tuple[bool, Audited]) -> None:
    far, tables = audited_apart
    known = {r["scope"]: r["value"] for r in tables["counts"] if r["name"] == "clock_uncertainty_us"}
    # that of a comparison, 500 us for a second between two, and the drift in it
    assert known == ({"worker-1": 620, "worker-2": 650} if far else {"worker-1": 12_520, "worker-2": 12_550})
    (slack,) = (r["value"] for r in tables["counts"] if r["name"] == "clock_slack_us")
    assert slack == sum(known.values())


@pytest.mark.nightly(
    twin="checks/audit/test_machines.py::test_a_rule_is_decided_if_events_are_further_apart_than_the_clocks_are_unknown"
)
def test_corrected_times_give_what_one_clock_gives(spark: Any, stories: dict[str, Story], tmp_path: Path) -> None:
    tables = audited(spark, tmp_path, list(stories.values()), EXACT_US, 1, False)
    different = {}
    for name, story in stories.items():
        found, expected = found_in(tables, story), dict(STORIES[name][1])
        for counts in (found, expected):  # whether it is too close to be decided depends on the clocks
            counts.pop("precommitted_read", None)
            counts.pop("precommitted_read.undetermined", None)
        if found != expected:
            different[name] = found, expected
    assert different == {}
    assert len(stories) > 150


def clock_rows(*compared: tuple[float, int, int], beside: bool = False) -> list[dict[str, Any]]:
    """What the drive says of worker-1, which has consumer c/1; compared: seconds, us ahead and uncertainty."""
    host = {"name": "node-7", "pid": 1, "beside_drive": beside}
    noted = [(0, "host", host), (0, "clients", ["c/1"]), *((int(s * 1e6), "clock", [a, u]) for s, a, u in compared)]
    return [{"at_us": at, "entity": "worker:worker-1", "key": k, "value": json.dumps(v)} for at, k, v in noted]


@pytest.mark.parametrize(
    ("rows", "known_us"),
    [
        (clock_rows((0, 500, 100), (1, 500, 100)), 600),
        (clock_rows((0, 500, 100), (1, 900, 300)), 1_200),  # the offset changed by 400 us, within a second
        (clock_rows((0, 500, 100), (1, 30_500, 100)), 30_600),  # it was set
        (clock_rows((0, 500, 100), (1, 2_000_500, 100)), None),  # it was set by 2 s
        (clock_rows((0, 500, 60_000), (1, 500, 60_000)), None),
        (clock_rows((0, 500, 100), (1, 500, 100), beside=True), 0),
        (clock_rows(), None),
    ],
)
def test_the_uncertainty_covers_what_a_clock_may_have_done_meanwhile(
    rows: list[dict[str, Any]], known_us: int | None
) -> None:
    scenario = resolved_of([Story("t", 1)]).scenario.model_copy(update={"fleet": Fleet(workers=2)})
    clocks = machine_clocks(rows, [], scenario)
    assert clocks.apart is (known_us != 0)
    assert bool(clocks.clocks) is bool(known_us)
    assert clocks.slack_us == (known_us or 0)


def known_us(rows: list[dict[str, Any]], life: list[dict[str, Any]]) -> int | None:
    """Return the uncertainty of the clock of worker-1, None if it is not known well enough."""
    scenario = resolved_of([Story("t", 1)]).scenario.model_copy(update={"fleet": Fleet(workers=2)})
    found = machine_clocks(rows, life, scenario).clocks.get("worker-1")
    return found.uncertainty_us if found else None


def lived(*events: tuple[str, float], incarnation: int = 1, **detail: Any) -> list[dict[str, Any]]:
    """Return the rows of `lifecycle` of c/1: each event and its time in seconds."""
    row = {"client": "c/1", "incarnation": incarnation, "detail": json.dumps(detail)}
    return [row | {"event": event, "at_us": round(at_s * 1e6)} for event, at_s in events]


@pytest.mark.parametrize(
    ("first_s", "last_s", "known"), [(0, 5, True), (0, 7, False), (-4, 1, True), (-6, 1, False), (7, 8, False)]
)
def test_a_clock_that_was_not_compared_at_the_begin_or_end_is_unknown(first_s: int, last_s: int, known: bool) -> None:
    life = lived(("started", first_s), ("stopped", last_s), ("usage", 10**9))  # the last one is a time of the drive
    assert (known_us(clock_rows((0, 0, 100), (1, 0, 100)), life) is not None) is known


SLOW = 505_000
"""The uncertainty of a comparison that took a second."""
STEADY = [(s, 500, 100) for s in range(1, 9)]


@pytest.mark.parametrize(
    ("compared", "life", "expected_us"),
    [
        # a slow comparison before or after the clients, while they run, and so close that nobody knows which
        ([(0, 500, SLOW), *STEADY], [("started", 2), ("stopped", 7)], 600),
        ([*STEADY, (9, 500, SLOW)], [("started", 2), ("stopped", 7)], 600),
        ([(0, 500, SLOW), *STEADY], [("started", 0.9), ("stopped", 7)], None),
        ([*STEADY[:3], (4, 500, SLOW), *STEADY[4:]], [("started", 2), ("stopped", 7)], None),
        ([*STEADY[:7], (8, 500, SLOW)], [("started", 2), ("stopped", 7.1)], None),
        ([(0, 500, SLOW), *STEADY], [("started", 1.506), ("stopped", 7)], None),
        ([(0, 500, SLOW), *STEADY], [("started", 1.507), ("stopped", 7)], 600),
        ([*STEADY, (9, 500, SLOW)], [("started", 2), ("stopped", 7.494)], 600),
        ([*STEADY, (9, 500, SLOW)], [("started", 2), ("stopped", 7.496)], None),
        # a clock that was set forward, or back, before the clients started
        ([(-1, -3_000_000, 100), (0, -3_000_000, 100), *STEADY], [("started", 2), ("stopped", 7)], 600),
        ([(-1, 3_000_000, 100), (0, 3_000_000, 100), *STEADY], [("started", 5), ("stopped", 7)], 600),
        ([(-1, 3_000_000, 100), (0, 3_000_000, 100), *STEADY], [("started", 3), ("stopped", 7)], None),
        # the same after they ended
        ([*STEADY, (9, 3_000_000, 100), (10, 3_000_000, 100)], [("started", 2), ("stopped", 7)], 600),
        ([*STEADY, (9, -3_000_000, 100), (10, -3_000_000, 100)], [("started", 2), ("stopped", 4.5)], 600),
        ([*STEADY, (9, -3_000_000, 100), (10, -3_000_000, 100)], [("started", 2), ("stopped", 6.5)], None),
        # clients that ran between two comparisons, and after the last one
        ([(0, 500, SLOW), *STEADY, (9, 500, SLOW)], [("started", 4.2), ("stopped", 4.4)], 600),
        ([(0, 500, SLOW), (1, 500, 100)], [("started", 3), ("stopped", 4)], 1_600),
    ],
)
def test_only_comparisons_around_the_clients_count(
    compared: list[tuple[float, int, int]], life: list[tuple[str, float]], expected_us: int | None
) -> None:
    assert known_us(clock_rows(*compared), lived(*life)) == expected_us


AFTERWARDS = [*STEADY, (9, 500, SLOW)]
"""Comparisons of which only the last one is slow."""


@pytest.mark.parametrize(
    ("life", "expected_us"),
    [
        # the drive saw the crashed client gone at 7 s, or only when the clock was not known
        (lived(("started", 2)) + lived(("crashed", 7), exit_code=-9), 600),
        (lived(("started", 2)) + lived(("crashed", 8.1), exit_code=-9), None),
        # the next incarnation stopped by order
        (
            lived(("started", 2))
            + lived(("crashed", 3), exit_code=-9)
            + lived(("started", 4), ("stopped", 6), incarnation=2),
            600,
        ),
        # nobody knows when the client of a lost worker was gone, or one without an end
        (lived(("started", 2)) + lived(("crashed", 3), exit_code=None), None),
        (lived(("started", 2)), None),
        (lived(("started", 2)) + lived(("started", 4), ("stopped", 6), incarnation=2), None),
    ],
)
def test_a_client_that_did_not_stop_by_order_ran_until_the_drive_saw_it_gone(
    life: list[dict[str, Any]], expected_us: int | None
) -> None:
    assert known_us(clock_rows(*AFTERWARDS), life) == expected_us


def test_times_are_corrected_by_the_comparisons_around_the_clients_only() -> None:
    scenario = resolved_of([Story("t", 1)]).scenario.model_copy(update={"fleet": Fleet(workers=2)})
    compared = [(-1, 9_000_000, 100), *((s, 2_000_000, 100) for s in range(30))]  # set back by 7 s before they started
    life = lived(("started", 12), ("stopped", 20))
    clocks = machine_clocks(clock_rows(*compared), life, scenario)
    assert clocks.clocks["worker-1"].uncertainty_us == 600
    assert [clocks.by_drive("c/1", at_s * 1_000_000) for at_s in (12, 16, 20)] == [10_000_000, 14_000_000, 18_000_000]
