"""The expectations in Great Expectations, over the tables of fake runs."""

from __future__ import annotations

import html
import re
import socket

import great_expectations as gx
import pyarrow.parquet as pq
import pytest
from jinja2 import Environment

from chaos.anomalies import ANOMALIES
from chaos.run.directory import Run
from checks.expectations import bounds, pages, validate
from tests.support.fake_runs import SCENARIO


def verdicts(found):
    return {key: e.verdict for key, e in found.items() if e.verdict not in ("pass", "not applicable")}


def test_a_sound_run_passes_offline_and_leaves_data_docs(fake, validated, monkeypatch):
    connect = socket.socket.connect

    def local_only(self, address):
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "localhost", "::1"):
            raise AssertionError(f"a connection to {address}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local_only)
    run = fake()
    found = validated(run)
    assert verdicts(found) == {}
    assert len(found) > len(ANOMALIES)
    site = run.run.gx / "uncommitted" / "data_docs" / "local_site"
    pages = sorted(site.glob("validations/**/*.html"))
    assert len(pages) == 3, "one for each table"
    text = "".join(page.read_text() for page in pages)
    assert "No acknowledged record is lost" in text
    left_out = [e.name for e in found.values() if not e.applies]
    assert left_out and not any(html.escape(name) in text for name in left_out), "GX counts no rule without rows"
    counted = re.findall(r"Evaluated Expectations.*?>(\d+)</div>", text, re.DOTALL)
    assert sum(map(int, counted)) == len(found) - len(left_out)
    index = (site / "index.html").read_text()
    assert f"<summary>{len(left_out)} not applicable" in index and all(html.escape(n) in index for n in left_out)
    for file in [*site.rglob("*.html"), *site.rglob("*.css")]:
        assert not re.search(
            r"(src|href)=[\"']https?://(?!greatexpectations)|url\([\"']?https?:|<script", file.read_text()
        ), file
    assert all(page.relative_to(site).as_posix() in index for page in pages)


def test_fail_and_inconclusive_are_distinguished(fake, validated):
    run = fake()
    run.found("lost_write", count=37)
    run.found("duplicate_delivery", "illegal", count=1)
    run.examined_nothing("poll_skip")
    run.metrics = []
    run.ledger["faults"] = []
    assert verdicts(validated(run)) == {
        ("lost_write", "", ""): "fail",
        ("duplicate_delivery", "illegal", ""): "fail",
        ("poll_skip", "", ""): "inconclusive",
        ("produce_unavailability", "max", ""): "inconclusive",
        ("fault_proof", "", "kill"): "inconclusive",
    }


def test_a_table_without_a_column_is_inconclusive_and_affects_no_other_table(fake, validated):
    run = fake()
    run.found("duplicate_write", count=2)
    run.metrics[0]["value_us"] = 99_000_000
    run.write()
    file = run.run.audit / "summary" / "part-0.parquet"
    run.write = lambda: pq.write_table(pq.read_table(file).drop_columns(["undecided"]), file)
    found = validated(run)
    assert verdicts(found)["produce_unavailability", "max", ""] == "fail"
    assert {found[key].verdict for key in found if key[0].endswith("_write")} <= {"inconclusive", "not applicable"}
    assert "could not be evaluated: 'undecided'" in found["duplicate_write", "", ""].why


@pytest.mark.parametrize(
    ("table", "damage"), [("summary", b"PAR1 no more"), ("metrics", b"PAR1 no more"), ("metrics", None)]
)
def test_a_damaged_or_missing_table_hides_no_violation_in_another_one(fake, validated, table, damage):
    run = fake()
    run.found("duplicate_write", count=2)
    run.metrics[0]["value_us"] = 99_000_000
    run.write()
    file = run.run.audit / table / "part-0.parquet"
    run.write = lambda: file.unlink() if damage is None else file.write_bytes(damage)
    found = validated(run)
    failed = {key[0] for key, verdict in verdicts(found).items() if verdict == "fail"}
    assert failed == {"duplicate_write", "produce_unavailability"} - {
        "duplicate_write" if table == "summary" else "produce_unavailability"
    }


@pytest.mark.parametrize(
    ("least", "most", "bound", "holds", "violated"),
    [
        (0, 0, (0, 0), True, False),
        (0, 1, (0, 0), False, False),
        (1, 1, (0, 0), False, True),
        (1, 9, (0, 0), False, True),
        (0, 5, (1, None), False, False),
        (1, 5, (1, None), True, False),
        (0, 0, (1, None), False, True),
        (2, 5, (0, 9), True, False),
        (8, 11, (0, 9), False, False),
        (10, 10, (0, 9), False, True),
    ],
)
def test_a_range_holds_as_a_whole_and_is_violated_as_a_whole(least, most, bound, holds, violated):
    rows = [{"count": least, "undecided": most - least}]
    expectation = bounds.ExpectFindingsToBeBetween(check="lost_write", min_value=bound[0], max_value=bound[1])
    result = expectation._validate({bounds.ROWS: rows})
    assert (result["success"], result["result"]["details"]["violated"]) == (holds, violated)


def test_a_value_that_is_not_known_is_neither_and_says_why(fake, validated):
    run = fake()
    run.log_range.pop()
    validated(run)
    pages = "".join(page.read_text() for page in run.run.gx.glob("uncommitted/**/validations/**/*.html"))
    assert "not known: the final log was not read back completely" in pages


def test_a_hostile_group_name_stays_text(fake, validated):
    name = "<script>alert(1)</script>$x"[:30].replace("/", "")
    odd = SCENARIO.replace("group: billing", f"group: '{name}'").replace("billing: {members", f"'{name}': {{members")
    run = fake(odd)
    run.ledger["cluster"] = []
    found = validated(run)
    assert found["groups", "members", name].verdict == "inconclusive"
    text = "".join(page.read_text() for page in (run.run.gx / "uncommitted").glob("**/validations/**/*.html"))
    assert "<script" not in text
    assert "alert(1)" in text


def test_the_project_on_disk_reads_as_the_contract_and_runs_again(fake, validated):
    run = fake()
    run.found("lost_write", count=3)
    validated(run)
    context = gx.get_context(mode="file", project_root_dir=run.run.path)
    (lost,) = [e for e in context.suites.get("summary").expectations if e.check == "lost_write"]
    assert (
        isinstance(lost, bounds.ExpectFindingsToBeBetween) and lost.description == "No acknowledged record is lost: 0"
    )
    severities = {e.check: e.severity.value for e in context.suites.get("observations").expectations}
    assert (lost.severity.value, severities["clients_lived"]) == ("critical", "warning")
    context.variables.progress_bars = {"globally": False}
    again = context.checkpoints.get("contract").run()
    failed = [r for one in again.run_results.values() for r in one.results if not r.success]
    assert [(r.expectation_config.kwargs["check"], r.result["observed_value"]) for r in failed] == [("lost_write", 3)]


def test_a_run_whose_name_reads_as_a_time_is_validated(fake, validated):
    """Of a scenario `st.yaml`: a time with an offset of 52 hours, which no time has."""
    run = fake()
    path = run.run.path.with_name("st-20261130-072715-5250")
    run.run.path.rename(path)
    run.run = Run(path)
    assert not verdicts(validated(run))


def test_the_index_lists_nothing_where_everything_applies(tmp_path):
    assert pages._index(tmp_path, {}).endswith("<ul></ul></body></html>")
    assert "1 not applicable" in pages._index(tmp_path, {"a rule": "no row"})


def test_validating_twice_replaces_the_project_and_compiles_no_template_again(fake, validated, monkeypatch):
    run, compiled = fake(), []
    compile_ = Environment.compile
    monkeypatch.setattr(
        Environment, "compile", lambda *args, **more: (compiled.append(args[2]), compile_(*args, **more))[1]
    )
    monkeypatch.setattr(pages, "_COMPILED", pages.Compiled())
    validated(run)
    assert "page.j2" in compiled and len(compiled) == len(set(compiled))
    compiled.clear()
    validated(run)
    assert not compiled
    assert len(list((run.run.gx / "uncommitted").glob("**/validations/**/*.html"))) == 3


RAISED = {"raised_exception": True, "exception_message": "no column\nof that name"}
NOT_RAISED = {"raised_exception": False, "exception_message": None}


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ({}, ""),
        (NOT_RAISED, ""),
        (RAISED | {"exception_message": "no column"}, "no column"),
        (RAISED | {"exception_message": None}, "an exception without a message"),
        ({"a metric": NOT_RAISED, "another": RAISED, "a third": "text"}, "no column"),
        ({"a metric": NOT_RAISED}, ""),
    ],
)
def test_only_an_exception_that_was_raised_says_why_a_rule_was_not_evaluated(info, message):
    assert validate._exception(info) == message


@pytest.mark.parametrize(
    ("values", "found"), [([3], (3, 3)), ([0], (0, 0)), ([None], None), ([3, 4], None), ([], None)]
)
def test_an_observation_is_the_value_of_its_one_row(values, found):
    rows = [{"value": float("nan") if value is None else value} for value in values]
    assert bounds.ExpectObservationToBeBetween(check="c").range_of(rows) == found


@pytest.mark.parametrize(("values", "found"), [([3, 9, None, 4], (9, 9)), ([None], None), ([], None)])
def test_a_time_is_the_longest_of_its_rows(values, found):
    rows = [{"value_us": float("nan") if value is None else value} for value in values]
    assert bounds.ExpectTimeToBeBetween(metric="m", stat="max").range_of(rows) == found


def test_findings_and_what_could_not_be_decided_add_up_over_all_scopes():
    rows = [{"count": 1, "undecided": 2}, {"count": 3, "undecided": 0}]
    assert bounds.ExpectFindingsToBeBetween(check="c").range_of(rows) == (4, 6)
    assert bounds.ExpectFindingsToBeBetween(check="c").range_of([]) == (0, 0)


def test_a_value_that_the_table_does_not_have_is_neither_and_no_bound_is_no_limit():
    expectation = bounds.ExpectObservationToBeBetween(check="c")
    nothing = expectation._validate({bounds.ROWS: []})
    assert (nothing["success"], nothing["result"]["details"]) == (False, {"violated": False, "least": None})
    assert nothing["result"]["observed_value"] == "not known: the table has no value"
    huge = expectation._validate({bounds.ROWS: [{"value": 2**62}]})
    assert (huge["success"], huge["result"]["details"]) == (True, {"violated": False, "least": 2**62})


def test_a_value_that_is_not_to_be_trusted_is_not_read():
    expectation = bounds.ExpectObservationToBeBetween(check="c", unknown="rows were <missed>")
    found = expectation._validate({bounds.ROWS: [{"value": 0}]})
    assert (found["success"], found["result"]["details"]) == (False, {"violated": False, "least": None})
    assert found["result"]["observed_value"] == "not known: rows were &lt;missed&gt;"


def test_an_effect_without_a_row_or_without_both_times_has_no_number():
    missing = bounds.ExpectEffectsToBeBetween(effect="e", kind="missing", without_id=1)
    numbers = {"missing": 3, "missing_open": 2, "duplicate": 9, "duplicate_open": 9}
    assert missing.range_of(numbers | {"rows": 1}) == (2, 5), "a row without an id may be one of them"
    assert missing.range_of(numbers | {"rows": 0}) is None
    late = bounds.ExpectTimeToEffectToBeBetween(effect="e", stat="p99")
    assert [late.range_of(times) for times in ([1, 2], [1], [])] == [(1, 2), None, None]


def test_a_range_is_shown_with_both_of_its_ends():
    shown = [
        bounds.ExpectFindingsToBeBetween(check="c")._validate({bounds.ROWS: [{"count": 1000, "undecided": more}]})
        for more in (0, 1000)
    ]
    assert [one["result"]["observed_value"] for one in shown] == [1000, "1,000 to 2,000"]
