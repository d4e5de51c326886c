"""Stories of findings: what the wire saw of an input, as frames and a sentence, and the cause that this shows."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import pytest

from chaos.anomalies.causes import BENEATH, CAUSES, OF_SHARES, library_of
from chaos.ledger.seal import SEAL
from chaos.run.result import EFFECTS, EffectCount, EffectStory, Expectation
from chaos.scenario.load import of_mapping
from checks.audit.facts.offset_changes import OffsetChange
from checks.effects.findings import describe, sentence
from checks.effects.lanes import ownership
from checks.effects.seen import (
    ACCEPT,
    REJECT,
    RELEASE,
    Facts,
    Life,
    Replaced,
    Seen,
    announced,
    assigned,
    lives_of,
    replaced_of,
)
from checks.effects.story import SUMMED, UNSEEN, add_stories, tell, tell_sum
from checks.effects.tables import FINDINGS
from checks.verdict.sentence import sentence as verdict_sentence
from checks.wire.tables import FOLDER, table_path
from tests.checks.effects.wire import SCENARIO, whole, write_wire
from tests.support.fake_runs import SECOND, FakeRun

AT = 1056
"""The offset of the input."""


def at(second):
    return round(second * SECOND)


def fetch(who, second, start=1040):
    return {"instance": who, "broker": 1, "asked_us": at(second) - 9, "answered_us": at(second), "asked_offset": start}


def commit(who, second, offset=1060, state="ok", error=0):
    answered = None if state == "open" else at(second) + 9
    own = {"instance": who, "broker": 3, "asked_us": at(second), "answered_us": answered, "group": "billing"}
    return own | {"offset": offset, "state": state, "error": None if state == "open" else error}


def write(who, second, outcome="ok", offset=20):
    answered = at(second) + 9 if outcome != "unknown" else None
    place = {"topic": "invoices", "partition": 1, "written": offset, "broker": 2}
    return place | {"instance": who, "asked_us": at(second), "answered_us": answered, "outcome": outcome}


def finding(kind="missing", **more):
    row = dict.fromkeys(FINDINGS.names) | {"effect": "invoices", "kind": kind, "id": "7f31", "topic": "orders"}
    return row | {"partition": 3, "offset": AT, "why": "", "acked_us": at(12.1), "places": [], "times_us": []} | more


KILLED = {"billing/2": [Life("billing/2", 0, at(12.5), "was killed"), Life("billing/2", at(14))]}


def facts(lives=None, failed=(), writers=("billing/1", "billing/2"), left=None, certain=True, synced=None, begun=None):
    sends = {("invoices", "billing/2"): list(failed)}
    libraries = {"billing/2": "librdkafka 2.5.0"}
    writes, groups = {"invoices": frozenset(writers)}, (synced or {}, begun or {})
    return Facts(lives or {}, sends, writes, left or {}, libraries, certain, {}, *groups)


def story(
    kind, known, *, writes=(), beyond=None, fetches=(), commits=(), holder=None, returned=(), begins=(),
    outputs=("invoices",), **more,
):  # fmt: skip
    """Return the story and its sentence."""
    row = finding(kind, **more)
    row |= tell(
        row,
        Seen(list(fetches), list(commits), list(writes), beyond, holder, list(returned), list(begins)),
        known,
        outputs,
    )
    return row, sentence(row, 0)


def test_offsets_that_are_committed_before_the_work(tmp_path):
    seen = {"fetches": [fetch("billing/2", 12.3)], "commits": [commit("billing/2", 12.4)]}
    row, words = story("missing", facts(KILLED), **seen)
    assert words == (
        "7f31 (orders/3 offset 1,056, acknowledged at 12.1 s) has no invoices: fetched by billing/2 at 12.3 s, "
        "committed past at 12.4 s, billing/2 was killed at 12.5 s, and no member fetched it again: "
        "offsets are committed before the work is done"
    )
    assert row["library"] == "librdkafka 2.5.0"
    assert [(f["source"], f["target"], f["label"]) for f in row["frames"]] == [
        ("billing/2", "broker 1", "Fetch from 1,040"),
        ("broker 1", "billing/2", "with 1,056"),
        ("billing/2", "coordinator (broker 3)", "OffsetCommit 1,060"),
        ("coordinator (broker 3)", "billing/2", "ok"),
        ("billing/2", "", "was killed"),
    ]


def change(second, offset, sure=True, partition="orders/3"):
    return OffsetChange("reset", "billing", at(second) - 9, at(second), sure, {partition: offset})


OVER = [fetch("billing/2", 12.3)]
LATE_COMMIT = [commit("billing/1", 14, 1090)]


@pytest.mark.parametrize(
    ("changes", "seen", "cause", "words"),
    [
        (
            [change(13, 1080)],
            {"fetches": OVER, "commits": LATE_COMMIT},
            "set_past",
            "fetched by billing/2 at 12.3 s, billing/2 was killed at 12.5 s, reset set the offset of group billing to "
            "1,080 at 13.0 s, and no member fetched it again: a fault of the run set the offsets of its group past it",
        ),
        ([change(13, 1080)], {"commits": LATE_COMMIT}, "set_past", "and no member fetched it: a fault"),
        ([change(13, None)], {"fetches": OVER}, "set_past", "reset deleted the offset of group billing at 13.0 s"),
        ([change(13, 1080)], {"fetches": OVER, "commits": [commit("billing/2", 12.4)]}, "commit_first", ""),
        ([change(13, 1080)], {"fetches": [*OVER, fetch("billing/1", 15)], "commits": LATE_COMMIT}, "not_owner", ""),
        ([change(13, AT)], {"fetches": OVER, "commits": LATE_COMMIT}, "not_owner", "did not fetch"),
        ([change(13, 1080, sure=False)], {"fetches": OVER, "commits": LATE_COMMIT}, "not_owner", ""),
        ([change(13, 1080, partition="orders/1")], {"fetches": OVER, "commits": LATE_COMMIT}, "not_owner", ""),
        ([change(15, 1080)], {"fetches": OVER, "commits": LATE_COMMIT}, "not_owner", ""),
    ],
)
def test_an_offset_that_a_fault_set_past_an_input_is_the_cause_of_what_is_missing(changes, seen, cause, words):
    row, text = story("missing", replace(facts(KILLED), changes=changes), **seen)
    assert row["cause"] == cause and words in text


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ([change(13.5, 1000)], "set_back"),
        ([change(13.5, AT)], "set_back"),
        ([change(13.5, None)], "set_back"),
        ([change(13.5, AT + 1)], "went_back"),
        ([change(12.8, 1000)], "went_back"),
        ([change(15, 1000)], "went_back"),
        ([change(13.5, 1000, sure=False)], "went_back"),
    ],
)
def test_an_offset_that_a_fault_set_back_is_the_cause_of_what_is_done_twice(changes, cause):
    fetches = [fetch("billing/2", 12.3), fetch("billing/1", 14, 1000)]
    row, text = story(
        "duplicate", replace(facts(), changes=changes), fetches=fetches, commits=[commit("billing/2", 13)]
    )
    assert row["cause"] == cause and ("reset " in text) == (cause == "set_back")


FETCHED_AGAIN = Seen([fetch("billing/2", 12.3), fetch("billing/1", 13)])
"""Fetched again before a commit past it."""
PASSED_FIRST = Seen([fetch("billing/2", 12.3)], [commit("billing/2", 12.4)])
"""Committed past before its instance was killed."""
LOST = Seen([fetch("billing/2", 12.3)], [commit("billing/2", 12.35), commit("billing/2", 12.4, 1070)])
ONCE = Seen([fetch("billing/1", 12.3)], [commit("billing/1", 12.4)])


MIXED = [(100, ONCE), (15, FETCHED_AGAIN), (10, FETCHED_AGAIN), (5, FETCHED_AGAIN)]


@pytest.mark.parametrize(
    ("found", "inputs", "cause", "why"),
    [
        (
            "160",
            [(100, ONCE), (10, FETCHED_AGAIN), (20, FETCHED_AGAIN)],
            "not_idempotent",
            "2 of its 3 inputs are in it twice, which makes 30 too much; the first is orders/3 offset 1,057",
        ),
        (
            "140",
            [(100, ONCE), (10, FETCHED_AGAIN), (20, FETCHED_AGAIN)],
            "not_idempotent",
            "1 of its 3 inputs are in it twice, which ",
        ),
        (
            "130",
            [(100, ONCE), (10, FETCHED_AGAIN), (10, FETCHED_AGAIN)],
            None,
            "it is 10 too much, and which of its inputs make that is",
        ),
        ("145", MIXED, None, "not visible on the wire: 3 of its 4 inputs were fetched again, and 0 may be left out"),
        (
            "140.0",
            MIXED,
            "not_idempotent",
            "1 of its 4 inputs are in it twice, which makes 10.0 too much; the first is ",
        ),
        (
            "100",
            [(100, ONCE), (10, PASSED_FIRST), (20, LOST)],
            "state_lost",
            "2 of its 3 inputs are not in it, which makes 30",
        ),
        (
            "120",
            [(100, ONCE), (10, PASSED_FIRST), (20, LOST)],
            "commit_first",
            "1 of its 3 inputs are not in it, which makes",
        ),
        ("100", [(100, ONCE), (10, PASSED_FIRST)], "", "1 of its 2 inputs are not in it, which makes 10 too little"),
        (
            "100",
            [(100, ONCE), (10, PASSED_FIRST), (20, Seen())],
            "",
            "2 of its 3 inputs are not in it, which makes 30 too little",
        ),
        (
            "120",
            [(100, ONCE), (10, FETCHED_AGAIN), (20, PASSED_FIRST)],
            "",
            "2 of its 3 inputs are in it twice or not at all, which makes 10 too little",
        ),
        ("101", [(100, ONCE), (10, PASSED_FIRST)], None, "it is 9 too little, and which"),
        ("99", [(100, ONCE)], None, "it is 1 too little, and each of its 1 inputs was fetched once: the work makes"),
        ("100.5", [(100, ONCE)], None, "it is 0.5 too much, and each of"),
        (None, [(100, ONCE)], None, "one of them is no number"),
        ("NaN", [(100, ONCE)], None, "one of them is no number"),
        ("0100", [(100, ONCE)], None, "they are the same number"),
        ("110", [(100, Seen([fetch("billing/1", 12) | {"made": True}]))], "altered", "had changed an answer"),
        (
            "110",
            [(100, Seen([fetch("billing/1", 12), fetch("audit/1", 13)]))],
            None,
            "audit and billing read its inputs",
        ),
    ],
)
def test_a_wrong_sum_names_the_inputs_whose_amounts_make_exactly_the_difference(found, inputs, cause, why):
    of_key = [
        (SUMMED | {"topic": "orders", "partition": 3, "offset": AT + i, "amount": Decimal(amount)}, seen)
        for i, (amount, seen) in enumerate(inputs)
    ]
    row = finding("wrong", found=found, expected=str(sum(amount for amount, _ in inputs)), offset=None, partition=None)
    known = facts(KILLED, writers=("billing/1", "billing/2", "audit/1") if "audit" in why else ("billing/1",))
    row |= tell_sum(row, of_key, known, "invoices")
    assert (row["cause"], why in row["why"]) == (cause, True), row["why"]
    assert bool(row["frames"]) == ("inputs are" in why) and row["ending"] not in CAUSES


@pytest.mark.parametrize(
    ("known", "seen"),
    [
        (facts({"billing/1": [Life("billing/1", 0, at(12), "ended by itself (exit code 0)")]}), Seen()),  # never read
        (facts(certain=False), ONCE),  # a second fetch may not be seen
        (facts(), Seen([fetch("billing/1", 12.3)])),  # no commit passed it
        (facts(KILLED), LOST),
    ],
)
def test_the_work_is_not_blamed_for_a_sum_with_an_input_that_was_perhaps_not_fetched_once(known, seen):
    of_key = [(SUMMED | {"topic": "orders", "partition": 3, "offset": AT, "amount": Decimal(100)}, seen)]
    row = finding("wrong", found="99", expected="100", offset=None, partition=None)
    assert "which of its inputs make that is not visible" in tell_sum(row, of_key, known, "invoices")["why"]


@pytest.mark.parametrize(("number", "decided"), [(2, True), (15, False)])
def test_a_sum_with_too_many_choices_of_inputs_is_not_decided(number, decided):
    place = SUMMED | {"topic": "orders", "partition": 3, "offset": AT}
    of_key = [(place | {"amount": Decimal(2**i)}, FETCHED_AGAIN) for i in range(number)]
    row = finding("wrong", found=str(2**number), expected=str(2**number - 2), offset=None, partition=None)
    told = tell_sum(row, of_key, facts(KILLED), "invoices")["why"]
    assert (f"1 of its {number} inputs are in it twice" in told) == decided, told


@pytest.mark.parametrize(
    ("found", "seen", "words"),
    [
        ("10", LOST, "fetched by billing/2 at 12.3 s, billing/2 was killed at 12.5 s: "),
        (
            "10",
            PASSED_FIRST,
            "committed past at 12.4 s, billing/2 was killed at 12.5 s, and no member fetched it again",
        ),
    ],
)
def test_a_sum_without_an_input_shows_what_became_of_it(found, seen, words):
    """An input without an amount changes no sum."""
    of_key = [
        (SUMMED | {"topic": "orders", "partition": 3, "offset": AT + i, "amount": amount and Decimal(amount)}, of_input)
        for i, (amount, of_input) in enumerate([(5, seen), (10, ONCE), (None, seen)])
    ]
    known = facts({"billing/2": [*KILLED["billing/2"][:1], Life("billing/2", at(14))]})
    row = finding("wrong", found=found, expected="15", offset=None, partition=None)
    row |= tell_sum(row, of_key, known, "invoices")
    assert "2 of its 3 inputs are not in it" in row["why"] and words in sentence(row, 0), sentence(row, 0)


def test_a_sum_that_has_inputs_twice_shows_the_first_of_them():
    of_key = [(SUMMED | {"topic": "orders", "partition": 3, "offset": AT, "amount": Decimal(10)}, FETCHED_AGAIN)]
    row = finding("wrong", id="anna", found="20", expected="10", offset=None, partition=None)
    row |= tell_sum(row, of_key, facts(KILLED), "invoices")
    assert sentence(row, 0) == (
        "anna (acknowledged at 12.1 s) has 20 in invoices and not 10 (): 1 of its 1 inputs are in it twice, which "
        "makes 10 too much; the first is orders/3 offset 1,056; fetched by billing/2 at 12.3 s, billing/2 was killed "
        "before a commit past it at 12.5 s, fetched again by billing/1 from 1,040 at 13.0 s: the work is not "
        "idempotent, or output and offsets need one transaction"
    )


READ_ON, LATER = fetch("billing/2", 12.4, 1060), fetch("billing/2", 14.2, 1060)
OTHERS = {"billing/1": [Life("billing/1", 0)], "audit/1": [Life("audit/1", 0)]}
FETCHED = [fetch("billing/2", 12.3)]
PAST = [commit("billing/2", 12.4)]
FURTHER = [*PAST, commit("billing/2", 12.45, 1099)]
FAILED = [write("billing/2", 12.35, "fail") | {"error": 19}]
BEFORE_IT, BEHIND_IT = ([write("billing/2", second, "fail") | {"error": 19}] for second in (12.2, 12.5))
"""Of another input: before the fetch of this one, and after the next commit."""


def promoted(second, lives=None, effect="invoices"):
    """Facts of a run in which a standby took the place of the database of the effect."""
    return replace(facts(lives), replaced={effect: Replaced("promoted", "db", "reserve", at(second))})


def test_what_a_standby_lacks_of_committed_inputs_is_told_with_the_failover():
    row, words = story("missing", promoted(20), fetches=FETCHED, commits=FURTHER)
    assert row["cause"] == "failed_over"
    assert "committed past at 12.4 s, reserve took the place of db at 20.0 s, and reserve lacks its effect: " in words


@pytest.mark.parametrize(
    ("cause", "known", "commits"),
    [
        ("failed_over", promoted(20), PAST),
        ("failed_over", promoted(20, KILLED), FURTHER),
        ("passed_over", promoted(12.4), FURTHER),  # the commit was answered after the failover
        ("passed_over", promoted(20, effect="letters"), FURTHER),
        ("commit_first", promoted(20, KILLED), PAST),  # the end of its instance explains it as well
        ("passed_over", promoted(20), [commit("billing/2", 12.4, state="open")]),  # it may not be in force
    ],
)
def test_a_failover_is_a_cause_only_of_what_was_committed_before(cause, known, commits):
    assert story("missing", known, fetches=FETCHED, commits=commits)[0]["cause"] == cause


@pytest.mark.parametrize(
    ("phase", "target", "found"), [("proven", "reserve", 1), ("injected", "reserve", 0), ("proven", "db", 0)]
)
def test_a_database_was_replaced_if_the_promotion_of_its_standby_is_proven(phase, target, found):
    promote = {"statement": "select pg_promote()", "shown_by": "select not pg_is_in_recovery()", "when": {"at": 0}}
    faults = [{"name": "promoted", "kind": "database.execute", "target": {"app": target}, **promote}]
    apps = [{"name": "db", "postgres": {}}, {"name": "reserve", "postgres": {"standby_of": "db"}}]
    query, names = "select id from t", ("db", "reserve")
    effects = [{"name": f"rows{i}", "sql": f"app:{name}", "query": query} for i, name in enumerate(names)]
    producers = [{"name": "shop", "topic": "orders", "value": {"template": '{"id": "{id}"}'}}]
    topics, more = [{"name": "orders"}], {"effects": effects, "apps": apps, "faults": faults}
    scenario = of_mapping({"title": "t", "topics": topics, "producers": producers, **more}, "t.yaml")
    rows = [{"fault": "promoted", "phase": phase, "at_us": 7}]
    expected = {"rows1": Replaced("promoted", "db", "reserve", 7)} if found else {}
    assert replaced_of(scenario, rows) == expected


DONE = Life("billing/2", 0, at(12.5), "ended by itself (exit code 0)")
LOOP = [Life("billing/2", at(s), at(s + 0.5), "ended by itself (exit code 1)") for s in (11.9, 13, 14)]
AGAIN = {"billing/2": [DONE], "billing/1": [Life("billing/1", 0, at(12), "ended by itself (exit code 0)")]}
WORKS = {"billing/2": [Life("billing/2", 0)]}


@pytest.mark.parametrize(
    ("cause", "known", "seen"),
    [
        ("commit_first", facts(KILLED), {"fetches": FETCHED, "commits": [commit("billing/2", 12.4, state="open")]}),
        ("commit_first_or_passed_over", facts(KILLED), {"fetches": FETCHED, "commits": FURTHER}),
        ("passed_over", facts(), {"fetches": FETCHED, "commits": FURTHER}),
        ("commit_first", facts(KILLED), {"fetches": FETCHED, "commits": [*PAST, commit("billing/2", 12.45)]}),
        ("commit_first", facts(KILLED), {"fetches": FETCHED, "commits": [*PAST, commit("billing/1", 12.45, 1099)]}),
        (
            "commit_first",
            facts(KILLED),
            {"fetches": FETCHED, "commits": [*PAST, commit("billing/2", 12.45, 1099, "refused", 22)]},
        ),
        ("commit_first", facts(KILLED), {"fetches": FETCHED, "commits": [*PAST, commit("billing/2", 12.5, 1099)]}),
        ("passed_over", facts({"billing/2": [Life("billing/2", 0)]}), {"fetches": FETCHED, "commits": PAST}),
        ("send_failed", facts(failed=FAILED), {"fetches": FETCHED, "commits": FURTHER}),
        ("passed_over", facts(failed=BEFORE_IT), {"fetches": FETCHED, "commits": FURTHER}),
        ("passed_over", facts(failed=BEHIND_IT), {"fetches": FETCHED, "commits": FURTHER}),
        ("send_failed", facts(failed=FAILED), {"fetches": FETCHED, "commits": PAST}),
        ("send_failed", facts(KILLED, FAILED), {"fetches": FETCHED, "commits": FURTHER}),
        ("passed_over", facts(KILLED), {"fetches": [*FETCHED, fetch("billing/1", 13)], "commits": PAST}),
        ("commit_first", facts(KILLED), {"fetches": FETCHED, "commits": [commit("billing/2", 12.3)]}),
        (
            "commit_first",  # what it committed further, it had asked for before
            facts(KILLED),
            {"fetches": FETCHED, "commits": [*PAST, commit("billing/2", 12.35, 1099) | {"answered_us": at(12.45)}]},
        ),
        ("commit_first", facts(KILLED, FAILED), {"fetches": FETCHED, "commits": PAST}),  # of another input, perhaps
        (
            "commit_first",  # the answer was lost, but billing/1 began behind it
            facts(KILLED),
            {"fetches": FETCHED, "commits": [commit("billing/2", 12.4, state="open"), commit("billing/1", 20, 1090)]},
        ),
        (
            "commit_first",  # the same instance, in its next incarnation, began behind it
            facts(KILLED),
            {"fetches": FETCHED, "commits": [commit("billing/2", 12.4, state="open"), commit("billing/2", 20, 1090)]},
        ),
        (
            "not_owner",  # no commit of billing/2 is seen
            facts(KILLED),
            {"fetches": FETCHED, "commits": [commit("billing/1", 12.4, state="open"), commit("billing/1", 20, 1090)]},
        ),
        ("not_owner", facts(), {"fetches": FETCHED, "commits": [commit("billing/1", 12.4)]}),
        ("not_owner", facts(KILLED), {"fetches": FETCHED, "commits": [commit("billing/2", 14.5)]}),  # another process
        (
            "skipped",  # its next incarnation began behind it, and committed what it did there
            facts(KILLED),
            {"fetches": FETCHED, "commits": [commit("billing/2", 14.5)], "begins": [fetch("billing/2", 14.2, 1060)]},
        ),
        (
            "not_owner",  # another instance began there
            facts(KILLED),
            {"fetches": FETCHED, "commits": [commit("billing/2", 14.5)], "begins": [fetch("billing/1", 14.2, 1060)]},
        ),
        (
            "not_owner",  # it read from there after it had committed
            facts(KILLED),
            {"fetches": FETCHED, "commits": [commit("billing/2", 14.5)], "begins": [fetch("billing/2", 14.9, 1060)]},
        ),
        ("skipped", facts(), {"commits": PAST}),
        ("skipped", facts(), {"beyond": fetch("billing/1", 14, 2010)}),
        ("unread", facts(), {}),
        ("unfinished", facts(KILLED), {"fetches": FETCHED}),
        ("own_place", facts(KILLED), {"fetches": FETCHED, "begins": [READ_ON, LATER]}),
        ("own_place", facts(KILLED | OTHERS), {"fetches": FETCHED, "begins": [fetch("billing/1", 14.2, 1060)]}),
        ("unfinished", facts(KILLED), {"fetches": FETCHED, "begins": [READ_ON]}),  # in the same life
        ("unfinished", facts(KILLED | OTHERS), {"fetches": FETCHED, "begins": [fetch("audit/1", 14.2, 1060)]}),
        (
            "unfinished",  # billing/1 has it, and goes on
            facts(KILLED | OTHERS),
            {"fetches": [fetch("billing/1", 12.2), *FETCHED], "begins": [fetch("billing/1", 14.2, 1060)]},
        ),
        (
            "unfinished",  # nothing ended since the last fetch
            facts(KILLED),
            {"fetches": [*FETCHED, fetch("billing/2", 14.1)], "begins": [LATER]},
        ),
        (
            "commit_first",
            facts(KILLED),
            {"fetches": FETCHED, "commits": PAST, "begins": [LATER]},
        ),
        (
            "unfinished",
            facts(),
            {"fetches": FETCHED, "commits": [commit("billing/2", 12.4, state="refused", error=22)]},
        ),
        ("unfinished", facts(), {"fetches": FETCHED, "commits": [commit("billing/2", 12.4, state="aborted")]}),
        ("left_off", facts(AGAIN), {"fetches": FETCHED}),
        ("left_off", facts(AGAIN), {}),
        ("keeps_ending", facts({"billing/2": LOOP}), {"fetches": FETCHED}),
        ("keeps_ending", facts({"billing/2": [*LOOP, Life("billing/2", at(15))]}), {}),
        ("left_off", facts({"billing/2": LOOP[:2]}), {"fetches": FETCHED}),
        ("unread", facts({"billing/2": LOOP, "billing/1": [Life("billing/1", 0)]}), {}),
        ("unread", facts({"billing/2": [*LOOP, *KILLED["billing/2"]]}), {}),
        ("unfinished", facts({"billing/2": [DONE, Life("billing/2", at(14))]}), {"fetches": FETCHED}),
        ("unread", facts({"billing/2": [DONE], "billing/1": [Life("billing/1", 0)]}), {}),
        ("task_failed", replace(facts(WORKS), failed_tasks=frozenset({"billing"})), {"fetches": FETCHED}),
        ("task_failed", replace(facts(WORKS), failed_tasks=frozenset({"billing"})), {}),
        ("unfinished", replace(facts(WORKS), failed_tasks=frozenset({"sink"})), {"fetches": FETCHED}),
        ("unread", replace(facts(WORKS), failed_tasks=frozenset({"sink"})), {}),
        ("", facts(certain=False), {}),
        ("", facts(), {"fetches": [*FETCHED, fetch("audit/1", 12.2)], "commits": PAST} | {"writes": []}),
    ],
)
def test_the_cause_of_a_missing_effect(cause, known, seen):
    if cause == "" and seen:  # two applications write to the topic
        known = facts(writers=("billing/2", "audit/1"))
    row, words = story("missing", known, **seen)
    assert row["cause"] == cause, words
    if cause:
        assert words.endswith(CAUSES[cause].text)
    else:
        assert "not seen" in words


@pytest.mark.parametrize(
    ("lives", "elsewhere", "cause", "words"),
    [
        ({"billing/2": LOOP}, True, "keeps_ending", "its fetch is not seen on the wire"),
        (WORKS, True, "", "its fetch is not seen on the wire"),
        (WORKS, False, "unread", "no member fetched it"),
    ],
)
def test_a_mirror_that_fetched_an_input_does_nothing_outside_of_topics(lives, elsewhere, cause, words):
    mirror = {"mirror/1": [Life("mirror/1", 0)]}
    known = replace(facts(lives | mirror), outside=frozenset({"invoices"}), mirrors=frozenset({"mirror"}))
    known = replace(known, elsewhere=elsewhere)
    row, said = story("missing", known, fetches=[fetch("mirror/1", 12.3)])
    assert (row["cause"], row["frames"]) == (cause, [])
    assert words in said


@pytest.mark.parametrize(
    ("known", "seen", "words"),
    [
        (facts(), {"fetches": FETCHED}, "and no commit passed it"),
        (facts(KILLED), {"fetches": FETCHED}, "and no member fetched it again"),
        (
            facts(KILLED),
            {"fetches": FETCHED, "begins": [LATER]},
            "was killed at 12.5 s, billing/2 read on from offset 1,060 at 14.2 s, and no member fetched it again: the "
            "application began behind it, at a place that no commit shows",
        ),
        (facts(KILLED), {"fetches": [*FETCHED, fetch("billing/1", 13)]}, "fetched again by billing/1 at 13.0 s"),
        (
            facts(KILLED),
            {"fetches": [*FETCHED, fetch("billing/1", 13), fetch("billing/1", 14)]},
            "fetched again by billing/1 (the last of 3 fetches) at 14.0 s",
        ),
        (facts(), {"commits": PAST}, "committed past by billing/2 at 12.4 s"),
        (facts(), {"beyond": fetch("billing/1", 14, 2010)}, "billing/1 read on from offset 2,010 at 14.0 s"),
        (
            facts(KILLED),
            {"fetches": [fetch("billing/2", 12.2), *FETCHED], "commits": PAST},
            "12.1 s) has no invoices: fetched by billing/2 at 12.3 s, committed past at 12.4 s",
        ),
        (
            facts(),
            {"fetches": [*FETCHED, fetch("billing/2", 12.35)], "commits": [commit("billing/1", 12.4)]},
            "fetched by billing/2 at 12.3 s, committed past by billing/1",
        ),
        (
            facts(failed=[FAILED[0] | {"error": None}]),
            {"fetches": FETCHED, "commits": PAST},
            "a send of it to invoices failed (no answer) at",
        ),
        (
            facts(KILLED),
            {"fetches": FETCHED, "commits": [commit("billing/2", 12.4, state="open")]},
            "past (no answer) at",
        ),
        (facts(KILLED), {"fetches": FETCHED, "commits": FURTHER}, "it committed on to 1,099 at 12.4 s"),
        (
            facts(KILLED),
            {"fetches": [fetch("billing/1", 12.2), *FETCHED], "commits": PAST},
            "fetched by billing/2 at 12.3 s, committed past at 12.4 s",
        ),
        (
            facts(KILLED),
            {"fetches": [*FETCHED, fetch("billing/1", 13)], "commits": PAST},
            "fetched again by billing/1 at 13.0 s, and its effect is missing after that too",
        ),
        (  # neither is seen to have fetched it
            facts(KILLED),
            {"fetches": FETCHED, "commits": [commit("billing/1", 12.4, state="open"), commit("billing/1", 20, 1090)]},
            "committed past by billing/1 at 20.0 s",
        ),
        (  # the second commit was answered, so it is the one that counts, if the first was not in force
            facts(KILLED),
            {"fetches": FETCHED, "commits": [commit("billing/2", 12.35, state="open"), commit("billing/2", 12.4)]},
            "committed past at 12.4 s",
        ),
    ],
)
def test_what_became_of_a_missing_effect_is_told_as_it_was_seen(known, seen, words):
    assert words in story("missing", known, **seen)[1]


def test_a_reader_that_writes_no_effect_is_not_in_the_story():
    row, words = story(
        "missing", facts(KILLED), fetches=[fetch("audit/1", 12.2), *FETCHED], commits=[commit("audit/1", 12.3), *PAST]
    )
    assert row["cause"] == "commit_first" and "audit" not in words


def test_a_frame_says_what_its_answer_was():
    txn = commit("billing/2", 12.4, state="open") | {"answered_us": at(12.41), "error": 0, "transactional_id": "t"}
    row, _ = story("missing", facts(KILLED), fetches=[FETCHED[0] | {"made": True}], commits=[txn])
    labels = [frame["label"] for frame in row["frames"]]
    assert labels[1:] == ["with 1,056, changed by a fault", "TxnOffsetCommit 1,060", "ok"]
    row, _ = story("missing", replace(facts(), changes=[change(13, None)]), fetches=FETCHED)
    assert row["frames"][-1]["label"] == "delete the offset"
    writes = [write("billing/2", second) for second in (12.4, 12.5, 12.6)]
    row, _ = story("duplicate", facts(), fetches=FETCHED, writes=writes)
    assert [frame["label"] for frame in row["frames"]].count("Produce invoices/1") == 2
    assert story("unexpected", facts(), writes=writes)[1].count("its effect was written by billing/2") == 1


def test_work_that_is_repeated_after_a_kill():
    seen = {
        "fetches": [*FETCHED, fetch("billing/1", 20)],
        "writes": [write("billing/2", 12.4), write("billing/1", 20.1)],
    }
    row, words = story("duplicate", facts(KILLED), **seen)
    assert words.endswith(
        "fetched by billing/2 at 12.3 s, its effect was acknowledged at 12.4 s, "
        "billing/2 was killed before a commit past it at 12.5 s, fetched again by billing/1 from 1,040 at 20.0 s: "
        "the work is not idempotent, or output and offsets need one transaction"
    )
    assert [f["label"] for f in row["frames"] if f["source"] == "broker 2"] == ["ok, offset 20", "ok, offset 20"]


TWICE = [*FETCHED, fetch("billing/1", 20)]
SELF = [*FETCHED, fetch("billing/2", 13)]


@pytest.mark.parametrize(
    ("cause", "known", "seen", "words"),
    [
        ("moved", facts(), {"fetches": TWICE}, "its effects are not seen on the wire"),
        ("moved", facts(left={"billing/2": [fetch("billing/2", 15)]}), {"fetches": TWICE}, "billing/2 left the group"),
        (
            "moved",
            facts(),
            {"fetches": TWICE, "commits": [commit("billing/2", 13, state="refused", error=22)]},
            "the commit past it was refused (ILLEGAL_GENERATION) at 13.0 s",
        ),
        ("moved", facts({"billing/2": [Life("billing/2", 0, at(30), "was killed")]}), {"fetches": TWICE}, "again"),
        ("repeated", facts(), {"fetches": SELF}, "fetched again by billing/2 from 1,040"),
        ("not_idempotent", facts(KILLED), {"fetches": [*FETCHED, fetch("billing/2", 15)]}, "before a commit past it"),
        (
            "not_idempotent",
            facts(KILLED),
            {"fetches": TWICE, "commits": [commit("billing/2", 12.4, state="open")]},
            "the commit past it was sent, and not answered at 12.4 s, billing/2 was killed at 12.5 s",
        ),
        ("went_back", facts(), {"fetches": TWICE, "commits": [commit("billing/2", 13)]}, "committed past"),
        (
            "moved",
            facts(synced={"billing/1": [at(12.9)]}),
            {"fetches": TWICE, "commits": [commit("billing/2", 13)]},
            "by then",
        ),
        (
            "went_back",
            facts(synced={"billing/1": [at(13.1)]}),
            {"fetches": TWICE, "commits": [commit("billing/2", 13)]},
            "",
        ),
        (
            "went_back",  # it got the partition again later
            facts(synced={"billing/1": [at(12.9), at(14)]}),
            {"fetches": TWICE, "commits": [commit("billing/2", 13)]},
            "",
        ),
        (
            "went_back",
            facts(synced={"billing/2": [at(9)]}),
            {"fetches": SELF, "commits": [commit("billing/2", 12.5)]},
            "",
        ),
        (
            "moved",  # as kafka-go: it commits what it had read before it got the partition again
            facts(begun={"billing/2": [at(9), at(12.4)]}),
            {"fetches": SELF, "commits": [commit("billing/2", 12.5)]},
            "billing/2 had got the partition again by then",
        ),
        (
            "went_back",  # it kept its partitions in that rebalance
            facts(synced={"billing/2": [at(9), at(12.4)]}, begun={"billing/2": [at(9)]}),
            {"fetches": SELF, "commits": [commit("billing/2", 12.5)]},
            "",
        ),
        (
            "went_back",  # the commit was in force when it got the partition again
            facts(begun={"billing/2": [at(12.8)]}),
            {"fetches": SELF, "commits": [commit("billing/2", 12.5)]},
            "",
        ),
        (
            "sent_twice",
            facts(),
            {"fetches": FETCHED, "writes": [write("billing/2", 12.4), write("billing/2", 12.6)]},
            "no member fetched it again",
        ),
        (
            "sent_twice",  # the incarnation that fetched it first wrote nothing
            facts({"billing/2": [Life("billing/2", 0, at(12.5), "was killed"), Life("billing/2", at(12.7), None)]}),
            {"fetches": SELF, "writes": [write("billing/2", 13.4), write("billing/2", 13.6)]},
            "fetched by billing/2 at 13.0 s, its effect was acknowledged at 13.4 s, and no member fetched it again",
        ),
        (
            "repeated",  # the second fetch came before the first write
            facts(),
            {"fetches": SELF, "writes": [write("billing/2", 13.4), write("billing/2", 13.6)]},
            "fetched again by billing/2",
        ),
        (
            "moved",  # no fetch of the second writer is seen
            facts(),
            {"fetches": TWICE, "writes": [write("billing/2", 12.4), write("billing/3", 20.1)]},
            "fetched again by billing/1",
        ),
        ("", facts(certain=False), {"fetches": FETCHED}, "no other fetch of it is seen"),
        ("", facts(), {}, "not seen on the wire"),
    ],
)
def test_the_cause_of_a_doubled_effect(cause, known, seen, words):
    row, told = story("duplicate", known, **seen)
    assert row["cause"] == cause and words in told, told


@pytest.mark.parametrize(("left_us", "told"), [(12.2, False), (12.3, True), (20, True), (20.1, False)])
def test_a_member_that_left_the_group_did_so_between_the_two_fetches(left_us, told):
    left = {"billing/2": [fetch("billing/2", left_us) | {"asked_us": at(left_us)}]}
    assert ("billing/2 left the group" in story("duplicate", facts(left=left), fetches=TWICE)[1]) == told


@pytest.mark.parametrize(
    ("who", "left_s", "cause"),
    [("billing/2", 12.6, "left_group"), ("billing/2", 12.2, "repeated"), ("billing/1", 12.6, "repeated")],
    ids=["in between", "before", "another one"],
)
def test_an_instance_that_fetches_again_may_have_left_its_group(who, left_s, cause):
    known = facts(left={who: [fetch(who, left_s) | {"asked_us": at(left_s)}]})
    row, text = story("duplicate", known, fetches=SELF)
    assert (row["cause"], "max.poll.interval.ms" in text) == (cause, cause == "left_group"), text


def test_of_commits_past_an_input_that_were_not_in_force_the_first_is_told_with_its_answer():
    refused = [commit("billing/2", second, state="refused", error=22) for second in (13, 14)]
    row, told = story(
        "duplicate", facts(), fetches=TWICE, commits=refused, writes=[write("billing/2", 12.4, "unknown")]
    )
    assert told.count("the commit past it was refused (ILLEGAL_GENERATION)") == 1 and "at 13.0 s" in told
    assert [frame["label"] for frame in row["frames"]].count("ILLEGAL_GENERATION") == 1
    assert "its effect was sent, and not acknowledged at 12.4 s" in told


def test_a_commit_behind_the_first_one_past_an_input_is_not_the_one_in_force():
    commits = [commit("billing/1", 12.4), commit("billing/2", 12.6, state="open")]
    _, words = story("missing", facts(), fetches=[fetch("billing/2", 12.3)], commits=commits)
    assert "at 12.4 s" in words and "at 12.6 s" not in words


def test_a_refused_commit_of_another_reader_is_not_the_one_past_a_doubled_input():
    fetches = [fetch("billing/2", 12.3), fetch("billing/1", 14)]
    refused = [commit(who, 13, state="refused", error=25) for who in ("billing/2", "billing/3")]
    stories = [story("duplicate", facts(), fetches=fetches, commits=[refusal])[1] for refusal in refused]
    assert ["the commit past it was refused" in words for words in stories] == [True, False]


def test_an_instance_that_keeps_a_partition_does_not_begin_at_the_committed_offset():
    said = [("a/1", "JoinGroup", 1, None), ("a/1", "SyncGroup", 2, None), ("b/1", "SyncGroup", 3, None)]
    said += [("a/1", "JoinGroup", 4, [{"topic": "orders"}]), ("a/1", "SyncGroup", 5, None)]
    said += [("a/1", "JoinGroup", 6, []), ("a/1", "SyncGroup", 7, None)]
    rows = [dict(zip(("instance", "call", "answered_us", "owned"), one, strict=True)) for one in said]
    assert assigned(rows) == ({"a/1": [2, 5, 7], "b/1": [3]}, {"a/1": [2, 7], "b/1": [3]})


def test_two_effects_after_one_fetch_in_what_is_no_topic_may_be_of_a_query_too():
    row = finding("duplicate", places=["row 1 of the query", "row 2 of the query"])
    row |= tell(row, Seen(FETCHED, [], [], None, None), facts(), ())
    assert row["cause"] == "done_twice" and "or the query has rows twice" in sentence(row, 0)
    assert "unique key" in CAUSES["done_twice"].prevention("librdkafka 2.5.0")
    calls = ["call 1 (its caller left after 1.0 s, without an answer)", "call 2"]
    for places, cause in ((calls, "called_again"), (calls[::-1], "done_twice"), ([*calls, "call 3"], "called_again")):
        row = finding("duplicate", places=places)
        row |= tell(row, Seen(FETCHED, [], [], None, None), facts(), ())
        assert row["cause"] == cause


MADE = {"made": True}
BEFORE = fetch("billing/2", 12.0) | {"asked_us": None}
ENDED = {"billing/2": [Life("billing/2", 0, at(12.05), "was killed")]}


@pytest.mark.parametrize(
    ("cause", "known", "seen", "words"),
    [
        ("late_behind", facts(), {"fetches": [fetch("billing/1", 40)]}, "27.9 s passed before its fetch"),
        (
            "late_down",
            facts(ENDED),
            {"fetches": [fetch("billing/1", 40)], "holder": BEFORE},
            "billing/2 was killed, the owner of its partition, at 12.1 s, fetched by billing/1 at 40.0 s, "
            "its effect was acknowledged at 41.0 s, and 27.9 s passed before its fetch",
        ),
        ("late_moved", facts(), {"fetches": [fetch("billing/1", 40)], "holder": BEFORE}, "27.9 s passed"),
        (
            "late_down",
            facts(KILLED),
            {"fetches": [*FETCHED, fetch("billing/1", 40)]},
            "billing/2 was killed at 12.5 s, fetched again by billing/1 at 40.0 s, its effect was acknowledged at "
            "41.0 s, and 27.7 s passed before its last fetch",
        ),
        ("late_moved", facts(), {"fetches": [*FETCHED, fetch("billing/1", 40)]}, "fetched again by billing/1"),
        ("repeated", facts(), {"fetches": [*FETCHED, fetch("billing/2", 40)]}, "fetched again by billing/2"),
        ("late_work", facts(KILLED), {"fetches": FETCHED}, "28.7 s passed between its fetch and its effect"),
        ("late_behind", facts(), {"fetches": [fetch("billing/1", 41)]}, "28.9 s passed before its fetch"),
        (
            "late_moved",  # its owner ended after the fetch
            facts({"billing/2": [Life("billing/2", 0, at(40.5), "was killed")]}),
            {"fetches": [fetch("billing/1", 40)], "holder": BEFORE},
            "27.9 s passed before its fetch",
        ),
        (
            "late_down",
            facts(ENDED),
            {"fetches": [fetch("billing/1", 40), fetch("billing/1", 40.5)], "holder": BEFORE},
            "killed, the owner of its partition, at 12.1 s, fetched by billing/1 at 40.0 s, fetched again by billing/1",
        ),
        (
            "late_moved",  # it was killed after the last fetch
            facts({"billing/2": [Life("billing/2", 0, at(40.5), "was killed")]}),
            {"fetches": [*FETCHED, fetch("billing/1", 40)]},
            "fetched again by billing/1",
        ),
        (
            "late_down",  # its owner before is not behind the second fetch
            facts(KILLED),
            {"fetches": [*FETCHED, fetch("billing/1", 40)], "holder": BEFORE | {"instance": "billing/3"}},
            "billing/2 was killed at 12.5 s",
        ),
        (
            "late_moved",  # its owner ended between the fetches
            facts({"billing/2": [Life("billing/2", 0, at(40.2), "was killed")]}),
            {"fetches": [fetch("billing/1", 40), fetch("billing/1", 40.5)], "holder": BEFORE},
            "passed before its fetch",
        ),
        (
            "late_behind",
            facts(),
            {"fetches": [fetch("billing/2", 40), fetch("billing/1", 40.5)], "holder": BEFORE},
            "passed before its fetch",
        ),
        ("", facts(), {"fetches": [fetch("billing/1", 45)]}, "its fetch is not seen"),
    ],
)
def test_the_cause_of_a_late_effect(cause, known, seen, words):
    row, told = story("late", known, writes=[write("billing/1", 41)], at_us=at(41), **seen)
    assert row["cause"] == cause and words in told, told
    assert not cause or told.endswith(CAUSES[cause].text)
    assert told.count("was killed") == (cause == "late_down")


@pytest.mark.parametrize(
    ("cause", "seen", "words"),
    [
        (
            "miscalculated",
            {"fetches": FETCHED},
            "the fetched record is the one in the log: the work makes another value",
        ),
        ("altered", {"fetches": [FETCHED[0] | MADE]}, "a fault of the run had changed the answer with it"),
        ("altered", {"fetches": [fetch("billing/2", 12) | MADE, *FETCHED]}, "had changed the answer"),
        ("miscalculated", {"fetches": [*FETCHED, fetch("billing/2", 13) | MADE]}, "in the log"),  # after the write
        ("miscalculated", {"fetches": [fetch("billing/1", 12) | MADE, *FETCHED]}, "in the log"),  # by another one
        ("altered", {"fetches": [fetch("billing/1", 12) | MADE]}, "had changed the answer"),  # which passed it on
        ("", {}, "its fetch is not seen"),
    ],
)
def test_the_cause_of_a_wrong_value(cause, seen, words):
    own = {"writes": [write("billing/2", 12.4)], "expected": "9", "found": "8", "times_us": [at(14)]}
    row, told = story("wrong", facts(), **own, **seen)
    assert row["cause"] == cause and words in told, told
    assert "has 8 in invoices and not 9" in told


def test_the_time_of_a_wrong_effect_that_is_no_record_says_what_was_fetched_before():
    own = {"times_us": [at(12.4)], "fetches": [*FETCHED, fetch("billing/2", 13) | MADE]}
    assert story("wrong", facts(), **own)[0]["cause"] == "miscalculated"
    copying = replace(facts(), copies=frozenset({"invoices"}))
    assert story("wrong", copying, **own)[0]["cause"] == "miscopied"
    assert story("wrong", copying, **own, effect="mails")[0]["cause"] == "miscalculated"
    for outcome, how in (("ok", "acknowledged"), ("unknown", "sent")):
        assert (
            f"its effect was {how} at 12.4 s"
            in story("wrong", facts(), writes=[write("billing/2", 12.4, outcome)], **own)[1]
        )


def test_what_was_fetched_before_the_last_time_of_a_wrong_effect_may_be_behind_it():
    """If it has no time, all of it may be."""
    fetches = [*FETCHED, fetch("billing/2", 13) | MADE]
    for times_us, cause in (([at(12.4), None, at(14)], "altered"), ([None], "altered"), (None, "altered")):
        assert story("wrong", facts(), times_us=times_us, fetches=fetches)[0]["cause"] == cause


ABORTED = "its producer got an error, or its transaction was aborted"


@pytest.mark.parametrize(
    ("cause", "seen", "why", "words"),
    [
        ("read_uncommitted", {"fetches": [FETCHED[0] | {"isolation": 0}]}, ABORTED, "fetched as read_uncommitted"),
        ("", {"fetches": [FETCHED[0] | {"isolation": 1}]}, ABORTED, ABORTED),
        ("", {"fetches": [FETCHED[0] | {"isolation": 0}]}, f"{ABORTED}, and yet it is in the log", "in the log"),
        ("no_input", {"writes": [write("billing/2", 12.4)]}, "", "its effect was written by billing/2 at 12.4 s"),
        (  # what it fetched after the write is not behind it, nor what another instance fetched
            "read_uncommitted",
            {
                "fetches": [
                    FETCHED[0] | {"isolation": 0},
                    *(
                        fetch(who, second) | {"isolation": 1}
                        for who, second in (("billing/1", 12.35), ("billing/2", 13))
                    ),
                ],
                "writes": [write("billing/2", 12.4)],
            },
            ABORTED,
            "fetched by billing/2 at 12.3 s",
        ),
        (  # another instance fetched it, and passed it on
            "read_uncommitted",
            {"fetches": [fetch("billing/1", 12.3) | {"isolation": 0}], "writes": [write("billing/2", 12.4)]},
            ABORTED,
            "fetched by billing/1",
        ),
        ("stranger", {}, "", "no application of the run wrote it to invoices"),
    ],
)
def test_the_cause_of_an_effect_without_an_input(cause, seen, why, words):
    row, told = story("unexpected", facts(), why=why, places=["invoices/1 offset 20"], times_us=[at(12.4)], **seen)
    assert row["cause"] == cause and words in told and why in told, told


def test_an_application_is_not_blamed_for_what_a_fault_changed():
    known = Facts({}, {}, {"invoices": frozenset({"billing/2"})}, {}, {}, True, {"billing/2": at(12.3)})
    writes = {"writes": [write("billing/2", 12.4)]}
    assert story("unexpected", known, **writes)[0]["cause"] == "altered"
    assert story("unexpected", known, writes=[write("billing/2", 12.3)])[0]["cause"] == "altered"
    assert story("unexpected", known, writes=[write("billing/2", 12.2)])[0]["cause"] == "no_input"
    assert story("unexpected", facts(certain=False))[0]["cause"] == ""
    twins = [FETCHED[0] | MADE, FETCHED[0] | MADE]
    assert story("duplicate", facts(), fetches=twins, writes=[write("billing/2", 12.4), write("billing/2", 12.5)])[0][
        "cause"
    ] == ("given_twice")
    assert story("missing", facts(), fetches=[FETCHED[0] | MADE], commits=FURTHER)[0]["cause"] == "altered"
    assert story("missing", facts(KILLED), fetches=[FETCHED[0] | MADE])[0]["cause"] == "altered"
    doubled = replace(facts(), only_doubled=True)
    assert story("missing", doubled, fetches=[FETCHED[0] | MADE], commits=FURTHER)[0]["cause"] == "lost_place"
    assert story("missing", doubled, fetches=[FETCHED[0] | MADE])[0]["cause"] == "lost_place"
    assert story("missing", doubled, fetches=FETCHED, commits=FURTHER)[0]["cause"] == "passed_over"


def test_the_number_of_a_kind_has_the_cause_that_all_findings_share():
    row, _ = story("missing", facts(KILLED), fetches=FETCHED, commits=PAST)
    text = describe("missing", 2, 9, "invoices", [row, row | {"id": "7f32"}], 0)
    assert text.startswith(
        "2 effects in invoices are missing, for 9 inputs (offsets are committed before the work is done); 7f31 ("
    )
    assert text.endswith("; 7f32 (orders/3 offset 1,056, acknowledged at 12.1 s) has no invoices")
    assert text.count("fetched by") == 1 and text.count("before the work") == 1
    other = describe("missing", 2, 9, "invoices", [row, row | {"cause": "passed_over"}], 0)
    assert other.startswith("2 effects in invoices are missing, for 9 inputs; ")


def test_the_end_of_the_run_ends_no_incarnation():
    def row(event, second, detail):
        return {
            "app": "billing",
            "instance": 2,
            "incarnation": 1,
            "event": event,
            "detail": detail,
            "at_us": at(second),
        }

    rows = [row("started", 1, "{}"), row("crashed", 2, '{"asked": "kill"}'), row("started", 3, "{}")]
    rows += [row("crashed", 4, '{"exit_code": 3}'), row("started", 5, "{}"), row("stopped", 9, '{"asked": "stop"}')]
    lives = lives_of(rows, at(8))["billing/2"]
    assert [(life.how, life.end_us) for life in lives] == [
        ("was killed", at(2)),
        ("ended by itself (exit code 3)", at(4)),
        ("", None),
    ]


def test_the_first_end_of_an_incarnation_counts_if_the_run_had_not_begun_to_stop_it():
    own = {"app": "billing", "instance": 2}
    rows = [
        own | {"event": "started", "detail": "{}", "at_us": 1},
        own | {"event": "ready", "detail": "{}", "at_us": 2},
    ]
    ends = [
        own | {"event": event, "detail": '{"asked": "kill"}', "at_us": n}
        for event, n in (("crashed", 5), ("stopped", 7))
    ]
    assert [life.end_us for life in lives_of([*rows, *ends], 8)["billing/2"]] == [5]
    assert [life.end_us for life in lives_of([*rows, *ends], 5)["billing/2"]] == [None]


def test_nothing_runs_any_more_only_if_each_instance_ended_by_itself():
    alone, killed = Life("billing/1", 0, at(5), "ended by itself (exit code 1)"), KILLED["billing/2"][0]
    assert facts({"billing/1": [alone]}).left_off
    assert not facts({"billing/1": [alone], "billing/2": [killed]}).left_off
    assert not facts({"billing/1": [alone], "billing/2": [alone, Life("billing/2", at(7) + 1)]}).left_off
    assert not facts().left_off


def test_an_incarnation_that_had_ended_before_a_moment_did_not_end_after_it():
    known = facts(KILLED)
    assert known.end("billing/2", at(12.5)) == KILLED["billing/2"][0] and known.end("billing/2", at(13)) is None


@pytest.mark.parametrize(
    ("synced", "handed"),
    [((12.5,), True), ((13,), True), ((13.1,), False), ((12.5, 14.5), True), ((14.5,), False), ((), False)],
)
def test_a_commit_that_was_answered_when_the_next_reader_had_its_assignment_was_in_force_too_late(synced, handed):
    kept = commit("billing/2", 12.9) | {"answered_us": at(13)}
    known = facts(synced={"billing/1": [at(second) for second in synced]})
    assert known.handed_over(fetch("billing/2", 12.3), kept, fetch("billing/1", 14)) is handed


def test_a_fetch_that_was_not_captured_may_have_come_after_a_change_of_the_offset():
    known = replace(facts(certain=False), changes=[change(13, 1080)])
    assert story("missing", known, commits=LATE_COMMIT)[0]["cause"] == ""


@pytest.mark.parametrize(
    ("fetches", "commits", "cause"),
    [
        ([fetch("billing/2", 12.3), fetch("billing/1", 14)], [], "moved"),
        ([fetch("billing/2", 12.3), fetch("billing/1", 14)], [commit("billing/2", 15)], "moved"),
        ([fetch("billing/2", 12.3), fetch("billing/1", 14)], [commit("billing/2", 12.1)], "moved"),
        ([fetch("billing/2", 12.3), fetch("billing/1", 14)], [commit("billing/2", 13)], "went_back"),
        ([fetch("billing/2", 12.3), fetch("billing/1", 14)], [commit("billing/2", 12.3)], "went_back"),
        ([fetch("billing/2", 12.3), fetch("billing/1", 14)], [commit("billing/2", 14)], "moved"),
        ([fetch("billing/2", 12.3), fetch("billing/1", 14) | {"made": True}], [], "moved"),
        ([fetch("billing/2", 12.3), fetch("billing/2", 12.3)], [], "repeated"),
        ([fetch("billing/2", 12.3), fetch("billing/2", 12.3) | {"made": True}], [], "given_twice"),
        ([fetch("billing/2", 12.3), fetch("billing/2", 12.6), fetch("billing/1", 14)], [], "moved"),
    ],
)
def test_what_came_between_two_fetches_is_the_cause_of_a_second_effect(fetches, commits, cause):
    assert story("duplicate", facts(), fetches=fetches, commits=commits)[0]["cause"] == cause


def test_the_fetch_behind_an_effect_is_the_last_one_of_its_writer_before_it():
    fetches = [fetch("billing/2", 12.3), fetch("billing/1", 12.5), fetch("billing/1", 13), fetch("billing/2", 13.5)]
    row, told = story(
        "duplicate", facts(), fetches=fetches, writes=[write("billing/2", 12.6), write("billing/1", 13.4)]
    )
    assert row["cause"] == "moved"
    assert "fetched by billing/2 at 12.3 s" in told and "fetched again by billing/1 from 1,040 at 13.0 s" in told


@pytest.mark.parametrize("writers", [(), ("mailer/1",)])
def test_two_readers_that_may_have_the_effect_are_named_and_none_is_blamed(writers):
    seen = {"fetches": [fetch("billing/2", 12.3), fetch("audit/1", 13)], "commits": [commit("billing/2", 12.4)]}
    row, words = story("missing", facts(writers=writers), **seen)
    assert row["cause"] == "" and "audit and billing read it, and which has the effect is not seen" in words


def test_an_effect_of_no_topic_without_an_input_is_written_by_nobody_that_is_seen():
    assert tell(finding("unexpected"), Seen(), facts(), ()) | {"frames": 0} == {
        "frames": 0, "ending": "its write is not seen on the wire", "cause": "", "library": "",
    }  # fmt: skip


def test_what_keeps_a_group_from_beginning_too_late_does_not_keep_it_from_going_back():
    for said in (
        "kafkajs 2.2.4",
        "apache-kafka-java 3.9.0",
        "client id main@host (github.com/segmentio/kafka-go)",
    ):
        assert "no seek behind the committed offset" in CAUSES["went_back"].prevention(said)
        assert CAUSES["skipped"].prevention(said) != CAUSES["went_back"].prevention(said)


@pytest.mark.parametrize(
    ("announced", "library"),
    [
        ("confluent-kafka-python 2.6.1-rdkafka-2.6.1", "librdkafka"),
        ("apache-kafka-java 3.9.0", "java"),
        ("client id aiokafka-0.12.0", "aiokafka"),
        ("client id main@host (github.com/segmentio/kafka-go)", "kafka-go"),
        ("client id faststream-0.7.8", "faststream"),
        ("sarama 1.43.3 (client id watermill)", "watermill"),
        ("client id watermill", "watermill"),
        ("confluent-kafka-go v2.6.1-rdkafka-2.6.1", "librdkafka"),
        ("kafka-python 2.2.0", "kafka-python"),
        ("apache-kafka-java 3.9.0 and apache-kafka-java 4.1.0", "java"),
        ("apache-kafka-java 3.9.0 and sarama 1.43.3", ""),  # which of them reads is not certain
        ("client id shop", ""),
        ("", ""),
    ],
)
def test_the_library_decides_what_prevents_a_cause(announced, library):
    assert library_of(announced) == library
    for cause in CAUSES.values():
        assert cause.prevention(announced).startswith(cause.prevents.get(library, cause.prevents[""]))
        own = library in cause.prevents and library in BENEATH
        assert cause.prevention(announced).endswith("has its own way)") == own


def test_what_prevents_a_second_effect_that_is_no_record_is_no_transaction_of_kafka():
    for key in ("not_idempotent", "repeated", "set_back"):
        told = CAUSES[key].prevention("sarama 1.43.3", of_topic=False)
        assert "upsert" in told and "AddMessageToTxn" in CAUSES[key].prevention("sarama 1.43.3")
    told = CAUSES["passed_over"].prevention("rdkafka", of_topic=False)
    assert "an error of the database" in told and "delivery callback" in CAUSES["passed_over"].prevention("rdkafka")
    assert "ack_policy" in CAUSES["passed_over"].prevention("client id faststream-0.7.8", of_topic=False)
    assert CAUSES["commit_first"].prevention("sarama 1", of_topic=False) == CAUSES["commit_first"].prevention(
        "sarama 1"
    )


JAVA, SARAMA = ("apache-kafka-java", "3.9.0"), ("sarama", "1.43.3")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ([], ""),
        ([(None, None, None)], ""),
        ([(None, None, "shop"), (None, None, "main@host (github.com/segmentio/kafka-go)")],
         "client id main@host (github.com/segmentio/kafka-go)"),
        ([(None, None, "faststream-0"), (None, None, "main@host (github.com/segmentio/kafka-go)")],
         "client id faststream-0"),
        ([(None, None, "billing"), (None, None, "shop")], "client id shop"),
        ([("sarama", None, "shop")], "sarama"),
        ([(*JAVA, "adminclient-1"), (*JAVA, "shop")], "apache-kafka-java 3.9.0"),
        ([(*SARAMA, "watermill"), (*SARAMA, "metrics")], "sarama 1.43.3 (client id watermill)"),
        ([(*SARAMA, "a"), (*JAVA, "b"), (None, None, "c")], "apache-kafka-java 3.9.0 and sarama 1.43.3"),
    ],
)  # fmt: skip
def test_an_instance_may_have_several_libraries(said, words):
    assert announced(said) == words


def test_the_first_findings_of_a_kind_that_the_write_path_does_not_explain_have_a_story(tmp_path, monkeypatch):
    """Nor have late ones without a bound. A wrong sum has the story of its inputs."""
    asked = []
    mails = "[{name: mails, http: {path: /mail, port: 8099}, id: $.id}, {name: invoices, "
    scenario = SCENARIO.replace("[{name: invoices, ", mails, 1).replace(
        "{invoices: {late", "{mails: {}, invoices: {late"
    )
    run = FakeRun(tmp_path, scenario)

    def wire(spark, run, findings, outputs, apps):
        asked.append(([(row["kind"], row["topic"], row["offset"]) for row in findings], outputs, apps))
        seen = [Seen() if row["offset"] is None else PASSED_FIRST for row in findings]
        return SimpleNamespace(facts=lambda: facts(KILLED), seen=lambda: seen)

    monkeypatch.setattr("checks.effects.story.Wire", wire)

    def told(findings, resolved=run.resolved):
        add_stories(None, run.run, resolved, findings, 2)
        return [row["cause"] or row["ending"] for row in findings]

    sums = {"offset": None, "partition": None, "found": "7", "expected": "12"}
    of_key = [{"partition": 3, "offset": n, "amount": Decimal(n)} for n in (5, 6)]
    rows = [
        *(finding(offset=n, why="it is not in the log" if n == 1 else "") for n in (1, 2, 3)),
        *(finding("unexpected", offset=None, why="it was aborted", effect=name) for name in ("invoices", "mails")),
        *(finding("late", at_us=at(14), effect=name) for name in ("invoices", "mails")),
        finding("duplicate", offset=None),
        finding("wrong", inputs=of_key, **sums),
    ]
    assert told([dict(row) for row in rows]) == [None, UNSEEN, None, *[UNSEEN] * 3, None, None, UNSEEN] and not asked
    table_path(run.run, "fetched").mkdir(parents=True)
    alone = SCENARIO.replace(
        "apps: [{name: billing, command: [python, '{bootstrap}'], group: billing, reads: [orders]}]", ""
    )
    assert told([dict(row) for row in rows], FakeRun(tmp_path / "alone", alone).resolved) == [None] * 9
    assert told([dict(row) for row in rows[:1]]) == [None] and not asked
    unwritten, none = "its write is not seen on the wire", None
    assert told([dict(row) for row in rows]) == [
        none,
        "commit_first",
        none,
        "stranger",
        unwritten,
        "late_work",
        none,
        none,
        "commit_first",
    ]
    inputs = [("input", "orders", 5), ("input", "orders", 6)]
    kinds = [("missing", "orders", 2), *[("unexpected", "orders", None)] * 2, ("late", "orders", AT)]
    assert asked == [([*kinds, *inputs], ["invoices"], ["billing"])]
    assert told(rows[-1:]) == ["commit_first"] and told(rows[1:2]) == ["commit_first"], "a sum alone, and none"


@pytest.mark.spark
def test_the_wire_is_joined_with_the_findings(spark, tmp_path):
    """Near misses: a batch that ends before the input, one that begins before the asked offset, another partition,
    a commit up to the input, one in a transaction that was aborted, and a client that is no application."""
    run = FakeRun(tmp_path, SCENARIO)
    kept = {"asked_us": at(12.3), "answered_us": at(12.31), "base_offset": 1050, "last_offset": 1059}
    txn = {"asked_us": at(12.4), "sent_us": at(12.4), "answered_us": at(12.41), "offset": 1060}
    sent = {"topic": "invoices", "partition": 0, "producer_id": 7, "producer_epoch": 0, "records": 5}
    rows = whole(
        fetched=[
            kept | {"asked_offset": 1040},
            kept | {"asked_offset": 1040, "base_offset": 1040, "last_offset": 1055},
            kept | {"asked_offset": 1058},
            kept | {"asked_offset": 1040, "partition": 2},
            kept | {"asked_offset": 1040, "complete": False},
            kept | {"asked_offset": 1040, "instance": "other/1", "asked_us": 1, "answered_us": 2},
        ],
        commits=[
            txn | {"number": 1, "offset": 1056},
            txn | {"number": 2, "transactional_id": "a"},
            txn | {"number": 3, "transactional_id": "b", "asked_us": at(12.42), "answered_us": at(12.43)},
            txn | {"number": 4, "error": 22},
        ],
        transactions=[
            {"call": "EndTxn", "transactional_id": "a", "asked_us": at(12.5), "committed": False},
            {"call": "EndTxn", "transactional_id": "b", "asked_us": at(12.6), "committed": True},
            {"call": "EndTxn", "transactional_id": "b", "asked_us": at(12.7), "committed": False},
        ],
        produced=[
            sent | {"base_sequence": 0, "outcome": "ok", "base_offset": 18, "asked_us": 5, "answered_us": 6},
            sent | {"base_sequence": 5, "outcome": "unknown", "asked_us": 7, "answered_us": 9, "error": 7},
            sent | {"base_sequence": 9, "outcome": "fail", "asked_us": 8, "answered_us": 9, "error": 10},
        ],
        log=[sent | {"base_sequence": 5, "base_offset": 30}],
        connections=[{"library": "librdkafka", "library_version": "2.5.0"}],
    )
    write_wire(spark, run.run, rows)
    seal = run.run.path / FOLDER / SEAL
    seal.write_text('{"failure": ""}')
    missing = finding()
    twice = finding("duplicate", places=["invoices/0 offset 20", "invoices/0 offset 31"])
    late, explained = finding("late", at_us=at(14)), finding(why="it is not in the log")
    stray = finding("unexpected", offset=None, places=["invoices/0 offset 19"])
    summed = finding("wrong", id="anna", found="7", expected="12", offset=None, partition=None)
    summed["inputs"] = [{"partition": 3, "offset": at_, "amount": Decimal(n)} for at_, n in ((AT, 7), (2000, 5))]
    add_stories(spark, run.run, run.resolved, [missing, twice, summed, late, explained, stray], 20)
    assert (
        summed["why"] == "1 of its 2 inputs are not in it, which makes 5 too little; the first is orders/3 offset 2,000"
    )
    assert summed["cause"] == "unread"
    assert missing["cause"] == "passed_over" and missing["library"] == "librdkafka 2.5.0"
    assert [frame["label"] for frame in missing["frames"]][2:4] == ["TxnOffsetCommit 1,060", "ok"]
    assert sentence(missing, 0).count("fetched by billing/2 at 12.3 s, committed past at 12.4 s") == 1
    assert [f["label"] for f in twice["frames"] if f["label"].startswith(("ok, ", "no answer"))] == ["ok, offset 20"]
    assert "REQUEST_TIMED_OUT" in [frame["label"] for frame in twice["frames"]], "answered, though not as acknowledged"
    assert twice["cause"] == "sent_twice"
    assert late["cause"] == "late_work" and not explained["frames"]
    assert stray["cause"] == "no_input" and stray["frames"][0]["source"] == "billing/2"
    seal.unlink()  # the proxy was killed, so it may have lacked a fetch
    unsealed = finding("duplicate", places=["invoices/0 offset 20", "invoices/0 offset 31"])
    add_stories(spark, run.run, run.resolved, [unsealed], 20)
    assert unsealed["frames"] and not unsealed["cause"]


def said(call, second, who="billing/1", assigned=None, owned=None, error=0, generation=1):
    topics = [None if n is None else [{"topic": "orders", "partitions": n}] for n in (assigned, owned)]
    row = {"instance": who, "group": "billing", "call": call, "asked_us": at(second), "answered_us": at(second) + 1}
    return row | {"assigned": topics[0], "owned": topics[1], "error": error, "given_generation": generation}


@pytest.mark.parametrize(
    ("events", "held"),
    [
        (  # an eager member gives up all partitions when it joins again (KIP-429)
            [said("SyncGroup", 1, assigned=[0, 1]), said("JoinGroup", 2), said("SyncGroup", 3, assigned=[0])],
            [(0, 1, 2, "revoked"), (0, 3, None, "open"), (1, 1, 2, "revoked")],
        ),
        (  # a cooperative one keeps them
            [
                said("SyncGroup", 1, assigned=[0, 1]),
                said("JoinGroup", 2, owned=[0, 7]),  # it never got 7
                said("SyncGroup", 3, assigned=[0]),
            ],
            [(0, 1, None, "open"), (1, 1, 2, "revoked")],
        ),
        (
            [said("ConsumerGroupHeartbeat", 1, assigned=[0]), said("ConsumerGroupHeartbeat", 2, error=110)],
            [(0, 1, 2, "lost")],
        ),
        ([said("SyncGroup", 1, assigned=[0]), said("Heartbeat", 2, error=27)], [(0, 1, None, "open")]),
        ([said("SyncGroup", 1, assigned=[0]), said("LeaveGroup", 2)], [(0, 1, 2, "revoked")]),
        ([said("SyncGroup", 1, "billing/2", assigned=[0])], [(0, 1, 12, "crashed")]),
        ([said("SyncGroup", 1, assigned=[0], error=27)], []),
        (  # in any order; one without news, one without an answer
            [
                *(said("LeaveGroup", 3), said("SyncGroup", 1, assigned=[0]), said("ConsumerGroupHeartbeat", 2)),
                said("SyncGroup", 2, assigned=[1]) | {"answered_us": None},
            ],
            [(0, 1, 3, "revoked")],
        ),
        (  # the name of one topic is not known, and one has no partition
            [
                said("SyncGroup", 1)
                | {"assigned": [{"topic": None, "partitions": [0]}, {"topic": "orders", "partitions": None}]}
            ],
            [],
        ),
    ],
)
def test_partitions_of_an_instance_as_it_knew_them(events, held):
    found = [
        (
            row["partition"],
            *(us if us is None else us // SECOND for us in (row["begin_us"], row["end_us"])),
            row["end_reason"],
        )
        for row in ownership(events, KILLED)
    ]
    assert sorted(found, key=lambda row: row[:2]) == held


def test_a_partition_is_held_by_an_incarnation_the_first_one_if_its_start_is_not_known():
    lives = {"billing/2": [Life("billing/2", at(1) + 1, at(5), "was killed"), Life("billing/2", at(7) + 1)]}
    events = [said("SyncGroup", second, "billing/2", assigned=[0]) for second in (1, 7)]
    events += [said("SyncGroup", 1, "billing/1", assigned=[0])]
    held = [(row["consumer"], row["incarnation"]) for row in ownership(events, lives)]
    assert held == [("billing/2", 1), ("billing/2", 2), ("billing/1", 1)]


def test_a_member_holds_partitions_from_the_answer_until_it_asks_to_join_again():
    events = [said("SyncGroup", 1, assigned=[0]), said("JoinGroup", 2)]
    assert [(row["begin_us"], row["end_us"]) for row in ownership(events, {})] == [(at(1) + 1, at(2))]


@pytest.mark.parametrize(("number", "shown"), [(2, " (the work is not idempotent)"), (1, "")])
def test_effects_that_are_allowed_have_the_cause_that_all_listed_ones_share(number, shown):
    story = EffectStory(kind="duplicate", cause="the work is not idempotent", number=number, sentence="a")
    effect = EffectCount(
        **{"name": "invoices", "source": "topic invoices", "inputs": 9, "effects": 11, "counts": {"duplicate": 2}},
        findings={"duplicate": ["a", "b"]},
        stories=[story],
    )
    bound = Expectation(
        **{"name": "e", "check": EFFECTS, "split": "duplicate", "scope": "invoices", "verdict": "pass"},
        **{"expected": "at most 400", "seen": "2"},
    )
    text = verdict_sentence("pass", [bound], [], [], [], [], effects=[effect])
    assert f"2 effects in invoices are more than the inputs must have{shown}, as the scenario allows." in text


def acquired(who, second, delivery=1):
    return fetch(who, second, AT) | {"delivery_count": delivery}


def acknowledged(who, second, how=ACCEPT, state="ok", error=0):
    return commit(who, second, AT + 1, state, error) | {"type": how}


FIRST, AGAIN = acquired("billing/2", 12.3), acquired("billing/1", 13, 2)
LEFT_EARLY = facts(KILLED)


@pytest.mark.parametrize(
    ("known", "seen", "cause", "words"),
    [
        (
            LEFT_EARLY,
            {"fetches": [FIRST], "commits": [acknowledged("billing/2", 12.4)]},
            "accepted_first",
            "fetched by billing/2 at 12.3 s, accepted at 12.4 s, billing/2 was killed at 12.5 s, and no member fetched "
            "it again: records are accepted before the work is done",
        ),
        (
            facts(),
            {"fetches": [FIRST], "commits": [acknowledged("billing/2", 12.4)]},
            "accepted_failed",
            "accepted at 12.4 s, and it was not interrupted: nothing interrupted the work, so a record was accepted",
        ),
        (
            LEFT_EARLY,
            {"fetches": [FIRST], "returned": [acknowledged("billing/2", 12.4, REJECT)]},
            "rejected",
            "fetched by billing/2 at 12.3 s, rejected by billing/2 at 12.4 s: a share group gives a rejected record",
        ),
        (
            LEFT_EARLY,
            {"fetches": [FIRST], "returned": [acknowledged("billing/2", 12.4, RELEASE)]},
            "unfinished",
            "billing/2 was killed at 12.5 s, and no member fetched it again: the application was not done with it",
        ),
        (
            facts(),
            {"fetches": [FIRST, acquired("billing/1", 13, 5)]},
            "given_up",
            "fetched again by billing/1 at 13.0 s, and that was delivery 5 of it: it was delivered as often as",
        ),
        (
            facts(),
            {"fetches": [FIRST, acquired("billing/1", 13, 4)]},
            "unfinished",
            "fetched again by billing/1 at 13.0 s, and nobody accepted it: the application was not done",
        ),
        (
            facts(),
            {"beyond": acquired("billing/1", 13) | {"asked_offset": 1070}},
            "began_behind",
            "billing/1 read on from offset 1,070 at 13.0 s, and no member fetched it: the share group began behind it",
        ),
    ],
    ids=["accepted first", "accepted", "rejected", "released", "given up", "not yet given up", "began behind"],
)
def test_why_a_member_of_a_share_group_has_no_effect(known, seen, cause, words):
    row, text = story("missing", known, **seen)
    assert (row["cause"], words in text) == (cause, True), text


@pytest.mark.parametrize(
    ("known", "seen", "cause", "words"),
    [
        (
            LEFT_EARLY,
            {"fetches": [FIRST, AGAIN]},
            "redelivered",
            "fetched again by billing/1 from 1,056 at 13.0 s, and its effects are not seen on the wire: a share group "
            "delivers a record again",
        ),
        (
            facts(),
            {"fetches": [FIRST, AGAIN], "commits": [acknowledged("billing/2", 12.4, state="open")]},
            "redelivered",
            "its acceptance was sent, and not answered at 12.4 s, fetched again by billing/1 from 1,056 at 13.0 s, and "
            "nobody had accepted it; its effects are not seen",
        ),
        (
            facts(),
            {"fetches": [FIRST, AGAIN], "returned": [acknowledged("billing/2", 12.4, RELEASE)]},
            "released",
            "released by billing/2 at 12.4 s, fetched again by billing/1",
        ),
        (
            facts(),
            {"fetches": [FIRST, AGAIN], "returned": [acknowledged("billing/1", 13.5, RELEASE)]},
            "redelivered",
            "nobody had accepted it",
        ),
        (
            facts(),
            {"fetches": [FIRST, AGAIN], "commits": [acknowledged("billing/2", 12.4)]},
            "acceptance_lost",
            "accepted by billing/2 at 12.4 s, fetched again by billing/1 from 1,056 at 13.0 s: the share group "
            "delivered it again after an acceptance",
        ),
    ],
    ids=["killed", "not answered", "released", "released later", "accepted"],
)
def test_why_a_share_group_has_an_effect_twice(known, seen, cause, words):
    row, text = story("duplicate", known, places=["a line 1", "a line 2"], times_us=[at(12.4), at(13.1)], **seen)
    assert (row["cause"], words in text) == (cause, True), text


def test_the_frames_of_a_share_group_are_deliveries_and_acknowledgements():
    row, _ = story("missing", facts(), fetches=[FIRST], commits=[acknowledged("billing/2", 12.4)])
    labels = [frame["label"] for frame in row["frames"]]
    assert labels == ["ShareFetch", "with 1,056, delivery 1", "accept 1,056", "ok"]
    assert [frame["target"] for frame in row["frames"]][2] == "broker 3"
    late, text = story("late", LEFT_EARLY, fetches=[FIRST, acquired("billing/1", 42, 2)], at_us=at(42.1))
    assert late["cause"] == "late_locked" and "a member had it and did not end its work" in text


def test_each_cause_of_a_share_group_is_known_and_is_of_no_other_group():
    assert OF_SHARES.keys() | set(OF_SHARES.values()) <= CAUSES.keys()
    row, _ = story("missing", LEFT_EARLY, fetches=[fetch("billing/2", 12.3)], commits=[commit("billing/2", 12.4)])
    assert row["cause"] == "commit_first"
