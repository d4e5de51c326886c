"""Inputs x effects: a violation, a clean run and a near miss of each kind."""

import json

import pytest

from chaos.ledger.ids import Ids, number_id
from checks.effects import judge
from checks.effects.inputs import id_column, identified
from checks.effects.tables import INPUTS, nearest_rank, span
from checks.evidence import audit_rows
from tests.checks.effects.story import COMPACTED, SCENARIO, TOPIC, transaction, words
from tests.support.fake_runs import SECOND, T0

pytestmark = pytest.mark.spark

CLEAN = {"missing": 0, "duplicate": 0, "unexpected": 0}


def test_each_input_with_its_effect_is_clean(spark, story):
    s = story()
    for seq in range(3):
        s.effect(seq)
    s.effect(0, effect="mails")  # of another effect
    assert s.judge(spark) == CLEAN
    assert {kind: row["examined"] for kind, row in s.totals.items()} == dict.fromkeys(s.totals, 3)
    assert s.late() == 0.4


def test_an_acknowledged_input_without_an_effect_is_missing(spark, story):
    s = story()
    s.effect(0)
    s.effect(2)
    assert s.judge(spark) == CLEAN | {"missing": 1}
    assert words(s, "missing") == [f"{s.id(1)} (orders/0 offset 1, acknowledged at 1.1 s) has no invoices"]


TWO = (
    SCENARIO.replace("{{name: invoices}}]", "{{name: invoices}}, {{name: users}}, {{name: mails}}]")
    .replace("{{id}}'}}}}]", "{{id}}'}}}}, {{name: web, topic: users, records: 9, value: {{template: '{{id}}'}}}}]")
    .replace("{{name: invoices, {effect}}}", "{{name: invoices, of: orders, {effect}}}MORE")
)  # fmt: skip


@pytest.mark.parametrize(
    ("more", "unexpected"),
    [
        ("", 0),  # nothing says where effects of users are
        (", {{name: both, of: users, topic: invoices, id: $.order_id}}", 0),
        (", {{name: mails, of: users, topic: mails, id: $.order_id}}", 1),  # there, and so not here
        (", {{name: two, of: users, topic: [mails, invoices], id: $.order_id}}", 0),
    ],
)
def test_an_effect_of_an_input_of_another_topic_is_unexpected_only_if_it_belongs_elsewhere(
    spark, story, more, unexpected
):
    s = story(scenario=TWO.replace("MORE", more))
    s.input(0, client="web/1", topic="users", copies=0)
    for seq in range(3):
        s.effect(seq)
    s.effect(s.id(0, "web/1"), at=1)
    assert s.judge(spark) == CLEAN | {"unexpected": unexpected}


AT_DR = SCENARIO.replace("orders, partitions: 2}}", "orders, partitions: 2, cluster: dr}}")
ELSEWHERE = f"{AT_DR}clusters: {{{{dr: {{{{}}}}}}}}\n"


def test_inputs_of_another_cluster_are_in_the_ledger_of_that_cluster(spark, story):
    s = story(f"{TOPIC}, equals: $.amount, value: $.total", inputs=0, scenario=ELSEWHERE)
    for seq in range(3):
        s.input(seq, value=str(seq))
    s.effect(0, value="0")
    s.effect(2, value="7")
    assert s.judge(spark) == CLEAN | {"missing": 1, "wrong": 1}
    assert words(s, "missing") == [f"{s.id(1)} (orders/0 offset 1, acknowledged at 1.1 s) has no invoices"]


ROWS = SCENARIO.replace("topic: orders,", "rows: {{file: x}},").replace(", value: {{", ", value: {{id_type: text, ")


def row_of(story, seq, outcome="ok"):
    """Add a row that a producer inserted: it has no place in the log."""
    story.input(seq, outcome, copies=0, topic="shop", partition=None, offset=None)


def test_a_row_is_an_input_without_a_place_in_the_log(spark, story):
    s = story(inputs=0, scenario=ROWS)
    for seq in range(4):
        row_of(s, seq)
    for seq in (0, 2, 3, 3):
        s.effect(seq)
    assert s.judge(spark) == CLEAN | {"missing": 1, "duplicate": 1}
    assert words(s, "missing") == [f"{s.id(1)} (acknowledged at 1.1 s) has no invoices"]
    assert [f["why"] for f in s.findings if f["kind"] in ("missing", "duplicate")] == ["", ""]


def test_a_row_of_unknown_outcome_may_be_there_without_an_effect(spark, story):
    s = story(inputs=0, scenario=ROWS)
    row_of(s, 0)
    row_of(s, 1, "unknown")
    row_of(s, 2, "unknown")
    row_of(s, 3, "fail")
    s.effect(0)
    s.effect(2)
    assert s.judge(spark) == CLEAN | {"missing": (0, 1)}
    s.effect(3)
    assert s.judge(spark) == CLEAN | {"missing": (0, 1), "unexpected": 1}


@pytest.mark.parametrize("inputs", [0, 3])
def test_no_effect_at_all_is_missing_for_each_input(spark, story, inputs):
    assert story(inputs=inputs).judge(spark) == CLEAN | {"missing": inputs}


@pytest.mark.parametrize("read", [{"error": "no such table"}, {"effect": "mails"}])
def test_an_effect_that_could_not_be_read_has_no_rows(spark, story, read):
    s = story(inputs=1)
    s.judge(spark)
    s.reads |= read
    s.write()
    judge.judge_effects(spark, s.run, s.resolved)
    assert not audit_rows(s.run, "effect_totals") and not (s.run.audit / INPUTS).exists()


def test_an_input_of_unknown_outcome_may_have_an_effect_or_none(spark, story):
    s = story(inputs=0)
    s.input(0)
    s.input(1, "unknown", copies=0)
    s.input(2, "unknown", copies=0)
    s.effect(0)
    s.effect(2)
    assert s.judge(spark) == CLEAN
    examined = {kind: row["examined"] for kind, row in s.totals.items()}
    assert (examined["missing"], examined["duplicate"], examined["late max"]) == (2, 2, 1)


def test_an_input_of_unknown_outcome_in_the_log_without_an_effect_is_undecided(spark, story):
    s = story(inputs=1)
    s.effect(0)
    s.input(1, "unknown", copies=1)
    assert s.judge(spark) == CLEAN | {"missing": (0, 1)}


@pytest.mark.parametrize(
    ("more", "start", "expected"),
    [
        ({}, (0, 5), {}),  # that is another topic
        ({}, (5, 0), {"missing": (0, 1)}),
        ({"scenario": COMPACTED}, (0, 0), {"missing": (0, 1)}),
    ],
)
def test_an_input_of_unknown_outcome_may_have_been_deleted_from_the_log(spark, story, more, start, expected):
    s = story(inputs=0, **more)
    s.fake.log_range[0]["start"], s.fake.log_range[-1]["start"] = start
    for seq in range(2):
        s.input(seq, "unknown", copies=0)
    s.effect(0)
    assert s.judge(spark) == CLEAN | expected


def test_an_input_whose_row_was_lost_with_its_producer_counts_by_the_log(spark, story):
    s = story(inputs=1)
    s.effect(0)
    s.logged(1)
    s.effect(1)
    s.logged(2, committed=False)
    assert s.judge(spark) == CLEAN
    s.effect(2)
    assert s.judge(spark) == CLEAN | {"unexpected": 1}, "it was aborted"


def test_an_input_that_is_lost_on_the_write_path_says_so(spark, story):
    s = story(inputs=0)
    s.input(0, copies=0)
    s.input(1)
    s.effect(1)
    assert s.judge(spark) == CLEAN | {"missing": 1}
    assert "it is not in the log, so no application could read it (lost_write)" in words(s, "missing")[0]


def test_an_input_that_retention_deleted_is_not_called_lost(spark, story):
    s = story(inputs=0)
    s.fake.log_range[0]["start"] = 5
    s.input(0, copies=0)
    s.input(5, copies=0)
    s.input(6, copies=0, offset=None)
    s.input(7, copies=0, offset=None, partition=1)
    s.judge(spark)
    assert words(s, "missing")[0].endswith("has no invoices: it was deleted from the log before the end")
    assert words(s, "missing")[1].endswith("(lost_write)"), "the log begins with it"
    unknown = "it is not in the log, and was acknowledged without an offset: it may be lost, or deleted by retention"
    assert words(s, "missing")[2].endswith(unknown)
    assert words(s, "missing")[3].endswith("(lost_write)"), "nothing was deleted from its partition"


def test_an_input_without_an_offset_is_lost_if_nothing_was_deleted(spark, story):
    s = story(inputs=0)
    s.input(0, copies=0, offset=None)
    s.judge(spark)
    assert words(s, "missing")[0].endswith("(lost_write)")


def test_an_input_of_a_partition_that_was_not_read_back_is_lost(spark, story):
    s = story(inputs=0)
    s.fake.log_range.clear()
    s.input(0, copies=0)
    s.judge(spark)
    assert words(s, "missing")[0].endswith("(lost_write)")


def test_an_input_that_compaction_may_have_removed_is_not_called_lost(spark, story):
    s = story(inputs=0, scenario=COMPACTED)
    s.input(0, copies=0)
    s.judge(spark)
    assert words(s, "missing")[0].endswith(": it is not in the compacted log at the end")


def test_a_second_effect_is_a_duplicate_with_both_places(spark, story):
    s = story()
    for seq in (0, 1, 1, 1, 2):
        s.effect(seq)
    assert s.judge(spark) == CLEAN | {"duplicate": 2}
    assert words(s, "duplicate") == [
        f"{s.id(1)} (orders/0 offset 1, acknowledged at 1.1 s) has more than it should of invoices: "
        "invoices/0 offset 1 at 1.5 s and invoices/0 offset 2 at 1.5 s and invoices/0 offset 3 at 1.5 s"
    ]


def test_a_duplicate_of_an_input_that_is_in_the_log_twice_says_so(spark, story):
    s = story(inputs=0)
    s.input(0, copies=2)
    s.effect(0)
    s.effect(0)
    s.input(1, "unknown", copies=0)
    s.effect(1)
    s.effect(1)
    assert s.judge(spark) == CLEAN | {"duplicate": 2}
    assert words(s, "duplicate")[0].endswith(": it is in the log 2 times")
    assert "log" not in words(s, "duplicate")[1], "it was perhaps never written"


def test_a_resend_of_one_input_is_one_input(spark, story):
    s = story(inputs=0)
    s.input(0, "unknown", copies=0)
    s.input(0, "ok", incarnation=2, invoked_us=T0 + 60 * SECOND, completed_us=T0 + 61 * SECOND)
    s.effect(0)
    assert s.judge(spark) == CLEAN
    assert s.totals["missing"]["examined"] == 1
    assert s.late() == 0, "the first send may have had the effect, so that is not before its input"


def test_an_input_that_is_acknowledged_twice_is_there_from_the_first_time_on(spark, story):
    """Its producer was started again, and sent it again; the first try of all had no answer."""
    s = story(inputs=0)
    s.input(0, "unknown", copies=0, invoked_us=T0 - SECOND, completed_us=T0 - SECOND // 2)
    s.input(0, copies=0, incarnation=2, offset=7)
    s.input(0, copies=0, incarnation=3, offset=9, invoked_us=T0 + 60 * SECOND, completed_us=T0 + 61 * SECOND)
    assert s.judge(spark) == CLEAN | {"missing": 1}
    assert words(s, "missing")[0].startswith(f"{s.id(0)} (orders/0 offset 7, acknowledged at 0.1 s) has no invoices")
    s.effect(0)
    assert s.judge(spark) == CLEAN and s.late() == 0.4


def test_an_effect_of_a_failed_input_is_unexpected(spark, story):
    s = story(inputs=1)
    s.effect(0)
    s.input(1, "fail")
    s.effect(1)
    assert s.judge(spark) == CLEAN | {"unexpected": 1}
    assert words(s, "unexpected")[0].endswith(": its producer got an error, or its transaction was aborted")
    s = story(inputs=1)
    s.effect(0)
    s.input(1, "fail")
    assert s.judge(spark) == CLEAN


def test_an_effect_without_an_input_is_unexpected_but_not_one_of_another_run(spark, story):
    s = story(inputs=1)
    s.effect(0)
    s.effect("no-id-of-ours", at=3)
    s.effect("no-id-of-ours", at=4)
    s.effect("0badf00d-shop-1-7", at=3)
    s.effect(f"{s.ids.run_token}-nobody-1-7", at=5)
    assert s.judge(spark) == CLEAN | {"unexpected": 3}
    assert words(s, "unexpected") == [
        "invoices no-id-of-ours (invoices/0 offset 1 at 3.0 s and invoices/0 offset 2 at 4.0 s) has no input",
        f"invoices {s.ids.run_token}-nobody-1-7 (invoices/0 offset 4 at 5.0 s) has no input",
    ]


def test_only_what_this_run_wrote_to_the_topic_is_an_input(spark, story):
    s = story(inputs=1)
    s.effect(0)
    s.input(1, copies=0, topic="invoices")
    s.logged(2, run="0badf00d")
    s.input(3, client="pos/1")  # its records have no ids
    assert s.judge(spark) == CLEAN


def test_a_number_of_another_run_is_none_of_an_input_and_a_small_one_is_no_id(spark, story):
    s = story(inputs=1)
    s.effect(0)
    for number in (-1, s.ids.most):  # the next ones of runs before and after this one
        s.effect(str(number_id(s.ids.created_us, 0, 0) + number), at=3)
    assert s.judge(spark) == CLEAN
    s.effect("42", at=3)
    assert s.judge(spark) == CLEAN | {"unexpected": 1}


def test_an_effect_of_a_seq_that_was_never_sent_is_unexpected_unless_its_producer_was_killed(spark, story):
    s = story(inputs=1)
    s.effect(0)
    s.effect(7)
    assert s.judge(spark) == CLEAN | {"unexpected": 1}
    s.crash("shop/1")
    s.effect("no-id-of-ours", at=3)
    assert s.judge(spark) == CLEAN | {"unexpected": (1, 2)}


def test_what_was_in_a_database_before_the_run_is_no_effect_of_it(spark, story):
    s = story("sql: 'env:DB', query: select 1", inputs=1)
    s.effect(0)
    s.seen(0.4, 0.2)
    for older in ("older", "41"):
        s.effect(older)
        s.seen(-5, None)
    assert s.judge(spark) == CLEAN
    s.effect("newer")
    s.seen(0.6, 0.4)
    s.effect("between the last two looks")
    assert s.judge(spark) == CLEAN | {"unexpected": 2}


def test_a_call_before_the_first_input_is_an_effect_of_the_run(spark, story):
    """A receiver is there from the begin of the run on, and nobody looks for its calls."""
    s = story("http: {path: /booked}, id: $.id", inputs=1)
    s.effect(0)
    s.effect("whose", at=-5)
    s.sights.append({"mark": "1", "at_us": T0 - 5 * SECOND, "after_us": None})
    assert s.judge(spark) == CLEAN | {"unexpected": 1}


def test_a_database_that_could_not_be_looked_at_before_the_run_leaves_strangers_open(spark, story):
    s = story("sql: 'env:DB', query: select 1", inputs=1)
    s.loads.append(T0 + 9 * SECOND)  # the drive is repeated, and the run began with the first one
    s.effect(0)
    s.seen(0.4, None)
    s.effect(0)
    s.seen(0.6, 0.5)
    s.effect("whose")
    s.seen(0.4, None)
    assert s.judge(spark) == CLEAN | {"duplicate": 1, "unexpected": (0, 1)}
    assert s.late() == (0, 0.3)


def test_ids_of_all_forms_are_read(spark, story):
    s = story()
    s.input(3, client="shop/2")
    s.effect(s.id(3, client="shop/2", kind="uuid").upper(), at=4)
    s.effect(s.id(3, client="shop/2", kind="uuid").replace(s.ids.run_token, "0" * 8), at=4)  # of another run
    s.effect(str(s.id(0, kind="number")), at=0.5)
    s.effect(s.id(1), at=1.5)
    s.effect(str(s.id(2, kind="number")), at=2.5)
    s.input(0, client="shop/2")
    s.effect(str(s.id(0, client="shop/2", kind="number")), at=1)
    assert s.judge(spark) == CLEAN


def test_several_effects_for_each_input(spark, story):
    s = story(f"{TOPIC}, per: {{input: 3}}")
    for seq, number in ((0, 3), (1, 2), (2, 4)):
        for line in range(number):
            s.effect(seq, at=seq + line)
    s.input(3, "unknown")
    s.effect(3)
    s.effect("no-id-of-ours", at=1)
    assert s.judge(spark) == CLEAN | {"missing": 1 + 2, "duplicate": 1, "unexpected": 1}
    assert s.totals["missing"]["examined"] == 4
    assert s.late() == 1.9, "an input is done with its third effect"


def sampled(folder, *numbers):
    """Return the effect and the scenario of a story with inputs from samples, which lead to some effects each."""
    (folder / "samples.jsonl").write_text("".join(json.dumps({"id": f"x{n}"}) + "\n" for n, _ in enumerate(numbers)))
    value = f"{{{{samples: {folder}/samples.jsonl, id: $.id}}}}"
    scenario = SCENARIO.replace("{{template: 'order {{id}}'}}", value)
    assert scenario != SCENARIO
    return {"effect": f"{TOPIC}, per: {{samples: {[*numbers]}}}", "scenario": scenario}


def test_a_number_of_effects_by_the_sample(spark, story, tmp_path):
    s = story(inputs=9, **sampled(tmp_path, 1, 0, 2))
    for seq, number in ((0, 1), (2, 2), (3, 0), (4, 1), (5, 1), (6, 2), (8, 2)):
        for line in range(number):
            s.effect(seq, at=seq + line + 1)
    s.input(9, "unknown", copies=1)
    s.input(10, "unknown", copies=1)  # it has to have nothing, whether it is there or not
    assert s.judge(spark) == CLEAN | {"missing": (2, 3), "duplicate": 1 + 1}
    assert s.totals["missing"]["examined"] == 6, "inputs that lead to nothing lack nothing"
    assert s.late() == 1.9, "an input is done with its last effect"


def missing(s):
    return [(f["seq"], f["why"]) for f in s.findings if f["kind"] == "missing"]


def test_what_every_input_from_a_sample_lacks_is_left_out_and_hides_no_loss(spark, story, tmp_path, monkeypatch):
    monkeypatch.setattr(judge, "MANY", 3)
    s = story(inputs=12, **sampled(tmp_path, 1, 1, 1))
    for seq in (0, 3, 6, 2, 5, 8, 11):  # sample 2 is left out, and the input 9 is lost
        s.effect(seq)
    assert s.judge(spark) == CLEAN | {"missing": 5}
    assert [seq for seq, _ in missing(s)] == [9, 1, 4, 7, 10] and missing(s)[0][1] == ""
    why = "no input from sample 2 of 3 has one, whatever fault came: the application leaves it out, or fails at it"
    assert all(text.startswith(why) and "per: {samples: [1, 0, …]}" in text for _, text in missing(s)[1:])


def test_what_is_lost_with_its_partition_is_not_left_out(spark, story, tmp_path, monkeypatch):
    monkeypatch.setattr(judge, "MANY", 3)
    s = story(inputs=0, **sampled(tmp_path, 1, 1))
    for seq in range(8):  # as with a key: a sample is in one partition, and one of them is never read
        s.input(seq, partition=seq % 2)
        s.log[-1]["partition"] = seq % 2
        if seq % 2:
            s.effect(seq)
    assert s.judge(spark) == CLEAN | {"missing": 4}
    assert {why for _, why in missing(s)} == {""}


def test_an_application_that_does_nothing_leaves_nothing_out(spark, story, tmp_path, monkeypatch):
    monkeypatch.setattr(judge, "MANY", 3)
    s = story(inputs=8, **sampled(tmp_path, 1, 1))
    assert s.judge(spark) == CLEAN | {"missing": 8} and {why for _, why in missing(s)} == {""}


def test_a_wrong_value(spark, story):
    s = story(f"{TOPIC}, equals: $.amount", inputs=0)
    for seq, (given, made) in enumerate(
        [
            *[("12.5", "12.5"), ("12.5", "12.51"), ("7", "007"), ("0.3", "0.30000000000000004")],
            *[("12.0", "12"), ("0.1234564", "0.1234561"), ("0.123456", "0.123457")],
            ("12345678.1234565", "12345678.123456499"),  # as a sum of floats
            ("12", "12.0"),
        ]
    ):
        s.input(seq, value=given)
        s.effect(seq, value=made)
    assert s.judge(spark) == CLEAN | {"wrong": 3}
    assert words(s, "wrong")[0].startswith(
        f"{s.id(1)} (orders/0 offset 1, acknowledged at 1.1 s) has 12.51 in invoices and not 12.5 ("
    )


def test_each_place_of_a_wrong_value_is_named(spark, story):
    s = story(f"{TOPIC}, equals: $.amount", inputs=0)
    s.input(0, value="1")
    for at in (2, 1):
        s.effect(0, at=at, value="7")
    assert s.judge(spark) == CLEAN | {"duplicate": 1, "wrong": 2}
    (finding,) = [f for f in s.findings if f["kind"] == "wrong"]
    assert finding["places"] == ["invoices/0 offset 1", "invoices/0 offset 0"]


def behind(story, *faults, bounds="{behind: {max: 5}}", inputs=4, **more):
    """Return a story with inputs that are acknowledged at 0.1, 1.1, 2.1 … s, and faults at some seconds."""
    s = story(inputs=inputs, bounds=bounds, **more)
    for name, at in faults:
        row = {"fault": name, "kind": "app.kill", "target": "billing/1", "evidence": ""}
        s.fake.ledger["faults"].append(row | {"phase": "injected", "at_us": T0 + round(at * SECOND)})
    return s


def test_what_has_no_effect_yet_when_a_fault_comes_is_behind(spark, story):
    s = behind(story, ("crash", 2.5))
    for seq, at in enumerate([1, 3, None, 4]):  # the last one is acknowledged after the fault
        if at is not None:
            s.effect(seq, at=at)
    assert s.judge(spark) == CLEAN | {"missing": 1, "behind": 2}
    total = s.totals["behind"]
    assert (total["examined"], total["why"]) == (3, "when crash came, the oldest for 1.4 s")
    assert words(s, "behind") == [
        f"{s.id(1)} (orders/0 offset 1, acknowledged at 1.1 s) had no invoices yet (invoices/0 offset 1 at 3.0 s)",
        f"{s.id(2)} (orders/0 offset 2, acknowledged at 2.1 s) had no invoices yet (and has none)",
    ]


def test_the_fault_at_which_most_is_behind_counts(spark, story):
    s = behind(story, ("early", 0.5), ("worst", 2.5), ("late", 9))
    for seq in range(4):
        s.effect(seq, at=5)
    assert s.judge(spark) == CLEAN | {"behind": 3}
    assert s.totals["behind"]["why"].startswith("when worst came")


@pytest.mark.parametrize("phase", ["proven", "healed", "failed"])
def test_only_the_injection_of_a_fault_is_the_moment_of_what_is_behind(spark, story, phase):
    s = behind(story, ("crash", 0.5))
    s.fake.ledger["faults"].append(s.fake.ledger["faults"][-1] | {"phase": phase, "at_us": T0 + 2 * SECOND})
    for seq in range(4):
        s.effect(seq, at=5)
    assert s.judge(spark) == CLEAN | {"behind": 1}


def test_nothing_is_behind_when_each_effect_came_before_the_fault(spark, story):
    s = behind(story, ("crash", 3.6))
    for seq in range(4):
        s.effect(seq)
    assert s.judge(spark) == CLEAN | {"behind": 0}
    assert s.totals["behind"]["examined"] == 4


def test_without_a_fault_or_a_bound_nothing_shows_what_is_behind(spark, story):
    assert behind(story).judge(spark)["behind"] is None
    assert "behind" not in behind(story, ("crash", 1), bounds="{}").judge(spark)


def test_an_effect_that_was_seen_between_two_looks_around_a_fault_is_undecided(spark, story):
    s = behind(story, ("crash", 2.5), inputs=2, effect="files: out/*.jsonl, id: $.order_id")
    for seq, (at, after) in enumerate([(3, 2), (2.4, 1)]):
        s.effect(seq)
        s.seen(at, after)
    assert s.judge(spark)["behind"] == (0, 1)


@pytest.mark.parametrize(
    ("at", "made", "late"),
    [
        (1.1, 9, 2),  # acknowledged in the microsecond of the fault
        (1.099999, 9, 1),
        (8, 8, 0),  # there in the microsecond of the fault
        (7.999999, 8, 2),
    ],
)
def test_what_happens_in_the_microsecond_of_a_fault_is_before_it(spark, story, at, made, late):
    s = behind(story, ("crash", at), inputs=2)
    for seq in range(2):
        s.effect(seq, at=made)
    assert s.judge(spark)["behind"] == late


def test_an_effect_whose_time_is_not_known_may_be_behind(spark, story):
    s = behind(story, ("crash", 2.5), inputs=1)
    s.effect(0, at_us=None, after_us=None)
    assert s.judge(spark)["behind"] == (0, 1)


def test_what_may_be_behind_counts_for_the_fault_at_which_most_is(spark, story):
    s = behind(story, ("one", 0.3), ("two", 2.5), inputs=2, effect="files: out/*.jsonl, id: $.order_id")
    for seq, (at, after) in enumerate([(3, 1), (4, 2)]):
        s.effect(seq)
        s.seen(at, after)
    assert s.judge(spark)["behind"] == (0, 2) and s.totals["behind"]["why"].startswith("when two came")


def test_of_several_effects_the_last_one_that_an_input_must_have_counts(spark, story):
    s = behind(story, ("crash", 2.5), inputs=2, effect=f"{TOPIC}, per: {{input: 2}}")
    for seq, at in ((0, 1), (0, 2), (1, 2), (1, 3)):
        s.effect(seq, at=at)
    assert s.judge(spark)["behind"] == 1


def test_an_input_that_leads_to_nothing_is_never_behind(spark, story, tmp_path):
    s = behind(story, ("crash", 2.5), inputs=4, **sampled(tmp_path, 0, 1))
    s.effect(1, at=2)
    s.effect(3, at=4)
    assert s.judge(spark)["behind"] == 0 and s.totals["behind"]["examined"] == 1


@pytest.mark.parametrize(
    ("made", "wrong"),
    [
        ([0, 1, 2], 0),
        ([0, 1, 0, 1, 2], 0),  # a mirror that goes on at an older offset
        ([0, 2, 1, 2], 1),
        ([2, 0, 1], 1),
        ([2, 1, 0], 2),
        ([0, 2], 0),  # one is missing, and none is at a wrong place
    ],
)
def test_a_first_copy_before_the_copy_of_an_earlier_record_is_wrong(spark, story, made, wrong):
    s = story(f"{TOPIC}, equals: record", inputs=0)
    for seq in range(3):
        s.input(seq, value=f"partition 0, value {seq}")
    for number, seq in enumerate(made):
        s.effect(seq, at=5 + number, value=f"partition 0, value {seq}")
    assert s.judge(spark)["wrong"] == wrong
    found = "has a place before the copy of an earlier record in invoices and not a place after it"
    assert all(found in text for text in words(s, "wrong"))


def test_the_order_of_copies_is_by_partition(spark, story):
    s = story(f"{TOPIC}, equals: record", inputs=0)
    for seq, partition in enumerate([0, 1, 0]):
        s.input(seq, partition=partition, copies=0)
        s.logged(seq, partition=partition)
        s.values.append({"effect": "invoices", "partition": partition, "offset": seq, "value": "a"})
    for number, seq in enumerate([1, 0, 2]):
        s.effect(seq, at=5 + number, value="a")
    assert s.judge(spark) == CLEAN | {"wrong": 0}


def test_a_copy_of_a_record_whose_place_is_not_known_says_nothing_about_the_others(spark, story):
    """It was acknowledged without an offset, and deleted from the log after it had been copied."""
    s = story(f"{TOPIC}, equals: record", inputs=0)
    s.input(0, copies=0, offset=None)
    for seq in (1, 2):
        s.input(seq, value="a")
    for number, seq in enumerate([1, 0, 2]):
        s.effect(seq, at=5 + number, value="a")
    assert s.judge(spark) == CLEAN | {"wrong": (0, 1)}


def test_a_copy_with_another_key_is_wrong_once(spark, story):
    s = story(f"{TOPIC}, equals: record", inputs=0)
    for seq in range(2):
        s.input(seq, value="key a")
    for seq, value in ((1, "key b"), (0, "key a")):
        s.effect(seq, at=5 - seq, value=value)
    assert s.judge(spark) == CLEAN | {"wrong": 1}
    assert "has key b in invoices and not key a" in words(s, "wrong")[0]


def test_a_value_of_what_was_not_written_is_not_wrong_and_counts_once(spark, story):
    s = story(f"{TOPIC}, equals: $.amount", inputs=0)
    s.input(0, "fail", copies=1, value="1")
    for id_ in (0, 0, "no-id-of-ours"):
        s.effect(id_, at=1, value="2")
    assert s.judge(spark) == CLEAN | {"unexpected": 3, "wrong": 0}
    assert words(s, "unexpected")[0].endswith("or its transaction was aborted, and yet it is in the log")


def test_a_value_of_an_input_that_is_gone_is_undecided(spark, story):
    s = story(f"{TOPIC}, equals: $.amount", inputs=0)
    s.input(0, copies=0)
    s.input(1, value="2")
    s.input(2)
    for seq in range(3):
        s.effect(seq, value="2")
    s.logged(0, offset=1, topic="invoices")  # at the place of a value of another topic
    s.logged(0, offset=1, run="0badf00d")
    s.values.append({"effect": "mails", "key": None, "value": "3", "partition": 0, "offset": 2})
    assert s.judge(spark) == CLEAN | {"wrong": (0, 2)}


def test_a_value_that_is_missing_is_wrong(spark, story):
    s = story(f"{TOPIC}, equals: $.amount", inputs=0)
    s.input(0, value="1")
    s.effect(0)
    assert s.judge(spark) == CLEAN | {"wrong": 1}


def test_times_are_ranges_where_the_run_looked_at_intervals(spark, story):
    s = story("sql: 'env:DB', query: select 1", inputs=3)
    for seq, (at, after) in enumerate([(0.4, 0.3), (4.1, 2.1)]):
        s.effect(seq)
        s.seen(at, after)
    s.seen(9, 8)  # again, as after a rotation of its file
    s.effect(2, at=2.2)  # its row has a time
    s.sights.append(s.sights[-1] | {"mark": "2"})
    assert s.judge(spark) == CLEAN
    assert (s.late("p50"), s.late("max")) == ((0.2, 0.3), (1, 3))


def test_an_effect_before_its_input_says_that_a_clock_or_zone_is_wrong(spark, story):
    s = story(inputs=1)
    s.effect(0, at=-3600)
    s.judge(spark)
    assert s.late().startswith("1 effects are before their inputs, by up to 3600s: give the time zone")
    s = story(inputs=1)
    s.effect(0, at=0.05)
    s.judge(spark)
    assert s.late() == 0, "an application may be faster than the acknowledgement"
    s = story(inputs=1)
    s.effect(0, at=-1)
    s.judge(spark)
    assert s.late() == 0, "two clocks differ"


COPIED = "its records have the timestamps of their inputs, as Kafka Streams gives them: set message.timestamp.type"


@pytest.mark.parametrize(
    ("effect", "apart", "said"),
    [
        (TOPIC, [-0.0004, -0.0009, 0.011], COPIED),
        (TOPIC, [-0.0004, 0.001, 0.001], ""),  # a fast application, before its inputs are acknowledged
        (TOPIC, [-0.0004, -0.004, -0.004], ""),  # another clock
        (f"{TOPIC}, at: $.at", [-0.0004] * 3, ""),  # the application says when
    ],
)
def test_records_with_the_timestamps_of_their_inputs_do_not_say_when_they_came(spark, story, effect, apart, said):
    s = behind(story, ("crash", 1.5), inputs=3, effect=effect)
    for seq, seconds in enumerate(apart):
        s.effect(seq, at=seq + seconds)
    assert s.judge(spark) == CLEAN | {"behind": None if said else 0}
    assert s.late() == 0 if not said else s.late().startswith(said)
    assert s.totals["behind"]["why"].startswith(said or "when crash came")


def test_an_effect_that_the_run_did_not_see_come_has_no_time(spark, story):
    s = story("sql: 'env:DB', query: select 1", inputs=1)
    s.effect(0, at_us=None)
    s.effects[-1] |= {"at_us": None}
    s.effect("whose")
    assert s.judge(spark) == CLEAN | {"unexpected": (0, 1)}, "it may be older than the run"
    assert s.late() == "the run did not see when 1 effects appeared; give at, or look more often (every)"


def test_rows_without_an_id_may_be_any_effect(spark, story):
    s = story(inputs=3)
    s.effect(0)
    s.effect(None, at=1)
    s.reads |= {"unreadable": 1}
    assert s.judge(spark) == {"missing": (1, 2), "duplicate": (0, 1), "unexpected": (0, 1)}


@pytest.mark.parametrize(("without_id", "expected"), [(0, (2, 3)), (1, (1, 3)), (5, (0, 3))])
def test_rows_without_an_id_are_no_more_than_what_is_missing(without_id, expected):
    assert span("missing", 2, 1, without_id) == expected


@pytest.mark.parametrize(
    ("share", "number", "place"), [(0.5, 1, 0), (0.5, 2, 0), (0.5, 3, 1), (0.95, 20, 18), (1, 3, 2)]
)
def test_a_percentile_is_the_nearest_rank(share, number, place):
    assert nearest_rank(share, number) == place


def test_aborted_inputs_must_have_no_effect(spark, story):
    s = story(inputs=0)
    for seq, outcome in enumerate(("committed", "aborted", "unknown")):
        s.input(seq, txn=seq)
        s.log[-1]["committed"] = outcome != "aborted"
        row = {"producer": "shop/1", "incarnation": 1, "txn": seq, "outcome": outcome, "began_us": T0, "ended_us": T0}
        s.fake.ledger.setdefault("transactions", []).append(row)
    s.fake.ledger["transactions"] += [row | {"txn": 1, "incarnation": 2, "outcome": "committed"}]  # another one
    s.input(3, "fail", txn=2)
    s.effect(0)
    assert s.judge(spark) == CLEAN | {"missing": (0, 1)}
    for seq in (1, 2, 3):
        s.effect(seq)
    assert s.judge(spark) == CLEAN | {"unexpected": 2}


@pytest.mark.parametrize(
    ("committed", "expected"),
    [(False, {"unexpected": 1}), (True, {}), (None, {})],  # None: the log does not tell either
)
def test_the_log_says_that_a_transaction_of_unknown_end_was_aborted(spark, story, committed, expected):
    s = story(inputs=2)
    transaction(s, 1, "unknown", committed)
    s.effect(0)
    s.effect(1)
    assert s.judge(spark) == CLEAN | expected
    s.sends.append(s.sends[-1] | {"incarnation": 2, "txn": None, "outcome": "unknown"})
    assert s.judge(spark) == CLEAN, "sent again, and that copy may have been read"
    s.logged(1, offset=9)
    s.sends.pop()
    assert s.judge(spark) == CLEAN, "the row of that send was lost"


def test_an_input_in_a_transaction_is_acknowledged_where_and_when_that_was_committed(spark, story):
    """Its first attempt was aborted."""
    s = story(inputs=1)
    transaction(s, 1, "aborted", committed=False)
    s.sends.append(s.sends[-1] | {"txn": 2})
    s.logged(0, offset=7)
    s.fake.ledger["transactions"] += [s.fake.ledger["transactions"][0] | {"txn": 2, "outcome": "committed"}]
    s.fake.ledger["transactions"][-1]["ended_us"] = T0 + SECOND // 5
    assert s.judge(spark) == CLEAN | {"missing": 1}
    assert words(s, "missing")[0].startswith(f"{s.id(0)} (orders/0 offset 7, acknowledged at 0.2 s)")
    s.effect(0)
    assert s.judge(spark) == CLEAN and s.late() == 0.3


def test_the_id_of_an_input_is_the_one_that_its_producer_wrote(spark):
    kinds = {"shop": "text", "till": "digits", "web": "uuid", "mail": "number"}
    ids = Ids("7f3a91c0", T0, {f"{name}/1": 1000 * n for n, name in enumerate(kinds)}, 4000)
    rows = [(f"{name}/1", seq) for name in kinds for seq in (0, 7, 999)]
    frame = spark.createDataFrame(rows, "producer string, seq bigint")
    found = frame.withColumn("id", id_column(ids, kinds)).collect()
    assert [row.id for row in found] == [str(ids.of(client, seq, kinds[client[:-2]])) for client, seq in rows]
    again = identified(spark.createDataFrame([(row.id,) for row in found], "id string"), ids).collect()
    assert [(row.producer, row.seq, row.origin) for row in again] == [(*row, "own") for row in rows]
