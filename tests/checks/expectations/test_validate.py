"""The rules in Great Expectations, on Spark."""

from __future__ import annotations

import html
import re
import socket

import pytest

from chaos.anomalies import ANOMALIES
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
    (page,) = site.glob("validations/**/*.html")
    text = page.read_text()
    assert "No acknowledged record is lost" in text
    left_out = [e.name for e in found.values() if not e.applies]
    assert left_out and not any(html.escape(name) in text for name in left_out), "GX counts no rule without rows"
    counted = re.search(r"Evaluated Expectations.*?>(\d+)</div>", text, re.DOTALL)
    assert counted and int(counted[1]) == len(found) - len(left_out)
    index = (site / "index.html").read_text()
    assert f"<summary>{len(left_out)} not applicable" in index and all(html.escape(n) in index for n in left_out)
    for file in [*site.rglob("*.html"), *site.rglob("*.css")]:
        assert not re.search(
            r"(src|href)=[\"']https?://(?!greatexpectations)|url\([\"']?https?:|<script", file.read_text()
        ), file
    assert page.relative_to(site).as_posix() in (site / "index.html").read_text()


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


def test_a_missing_column_is_inconclusive_and_affects_no_other_term(fake, validated, monkeypatch):
    from checks.expectations import validate

    whole = validate._one_row
    monkeypatch.setattr(validate, "_one_row", lambda spark, agreed: whole(spark, agreed).drop("lost_write"))
    run = fake()
    run.found("duplicate_write", count=2)
    found = validated(run)
    assert verdicts(found) == {("lost_write", "", ""): "inconclusive", ("duplicate_write", "", ""): "fail"}
    assert "could not be evaluated" in found["lost_write", "", ""].why


def test_a_rule_that_spark_cannot_evaluate_is_never_a_violation(fake, validated, monkeypatch):
    from pyspark.sql import functions as F

    from checks.expectations import validate

    whole, few = validate._one_row, validate.terms
    monkeypatch.setattr(validate, "terms", lambda resolved: few(resolved)[:2])  # GX tries each several times
    monkeypatch.setattr(
        validate,
        "_one_row",
        lambda spark, agreed: whole(spark, agreed).withColumn("lost_write", F.expr("raise_error('broken rule')")),
    )
    found = validated(fake())
    assert found["lost_write", "", ""].verdict == "inconclusive"
    assert "fail" not in verdicts(found).values()


def test_a_hostile_group_name_stays_text(fake, validated):
    name = "<script>alert(1)</script>$x"[:30].replace("/", "")
    odd = SCENARIO.replace("group: billing", f"group: '{name}'").replace("billing: {members", f"'{name}': {{members")
    run = fake(odd)
    run.ledger["cluster"] = []
    found = validated(run)
    assert found["groups", "members", name].verdict == "inconclusive"
    (page,) = (run.run.gx / "uncommitted").glob("**/validations/**/*.html")
    assert "<script" not in page.read_text()
    assert "alert(1)" in page.read_text()


def test_the_suite_on_disk_reads_as_the_contract(fake, validated):
    run = fake()
    validated(run)
    suite = (run.run.gx / "expectations" / "contract.json").read_text()
    assert "expect_lost_writes_to_be_between" in suite
    assert "expect_produce_unavailability_to_be_between" in suite


def test_validating_twice_replaces_the_project(fake, validated):
    run = fake()
    validated(run)
    validated(run)
    assert len(list((run.run.gx / "uncommitted").glob("**/validations/**/*.html"))) == 1


@pytest.mark.parametrize("more", ["", "  consume_unavailability: {max: 15s, p95: 14s}\n"])
def test_the_contract_is_one_spark_job_in_addition_to_that_of_the_table(fake, validated, spark, more):
    """The rules are aggregates of one row, and GX bundles them, whatever their number."""
    spark.sparkContext.setJobGroup(f"contract{more}", "validate")
    try:
        assert len(validated(fake(SCENARIO + more))) > 20
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(f"contract{more}")) == 2
