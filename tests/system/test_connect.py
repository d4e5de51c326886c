"""Kafka Connect as it is: one of two workers with a sink is killed, and a connector has a class that no worker has."""

import pytest

from tests.support.platform import chaos, left_running

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]


@pytest.mark.nightly(
    twin="system/test_rows.py::test_each_row_of_a_source_and_each_record_of_a_sink_is_there_after_crashes"
)
def test_a_sink_repeats_what_it_had_not_committed_when_its_worker_is_killed_and_loses_nothing(tmp_path):
    records = ["--set", "producers.shop.records=1500", "--set", "faults.crash.when={acked: 600}"]
    ended = chaos("run", "app-connect", *records, "--json", "--seed", 7, "--runs-dir", tmp_path)
    (printed,) = ended.result["effects"]
    counts = printed["counts"]
    assert (ended.code, counts["missing"], counts["unexpected"]) == (0, 0, 0), ended.result["sentence"]
    assert printed["effects"] == printed["inputs"] + counts["duplicate"] >= 1500
    assert left_running(tmp_path) == []


@pytest.mark.nightly(twin="chaos/apps/test_connect.py::test_a_refusal_is_one_line_with_the_classes_that_the_worker_has")
def test_a_class_that_no_worker_has_ends_the_run_with_the_classes_that_it_has(tmp_path):
    other = "apps.sink.connect.connectors.printed={connector.class: org.x.Nothing, topics: orders}"
    ended = chaos("run", "app-connect", "--set", other, "--json", "--runs-dir", tmp_path)
    assert ended.code == 3
    said = str(ended.result)
    assert "refuses connector printed" in said and "org.apache.kafka.connect.file.FileStreamSinkConnector" in said
    assert left_running(tmp_path) == []
