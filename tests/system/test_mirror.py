"""A mirror to a second cluster as it is: MirrorMaker 2, its worker killed, and each record compared."""

import pytest

from tests.support.platform import chaos, left_running

pytestmark = [pytest.mark.kafka, pytest.mark.landing, pytest.mark.timeout(600)]


@pytest.mark.nightly(
    twin="system/test_mirror.py::test_a_group_that_moves_to_the_mirror_skips_nothing_if_its_offsets_were_translated[translated]"
)
def test_a_mirror_repeats_what_it_had_not_stored_when_its_worker_is_killed_and_loses_nothing(tmp_path):
    fewer = ["--set", "producers.shop.records=1500", "--set", "faults.crash.when={acked: 600}"]
    ended = chaos("run", "app-mirror", *fewer, "--json", "--seed", 7, "--runs-dir", tmp_path)
    (mirrored,) = ended.result["effects"]
    counts = mirrored["counts"]
    found = (ended.code, counts["missing"], counts["unexpected"], counts["wrong"])
    assert found == (0, 0, 0, 0), ended.result["sentence"]
    assert mirrored["effects"] == mirrored["inputs"] + counts["duplicate"] >= 1500
    assert left_running(tmp_path) == []


NIGHTLY = pytest.mark.nightly(twin="chaos/scenario/test_clusters.py")


def moved(scenario, variant, runs_dir):
    """Return the effects of a mirror that has each record, and of the application that moved to it."""
    ended = chaos("run", scenario, "--variant", variant, "--json", "--seed", 7, "--runs-dir", runs_dir)
    mirrored, invoices = ended.result["effects"]
    assert ended.code == 0, ended.result["sentence"]
    assert (mirrored["counts"]["missing"], mirrored["counts"]["wrong"]) == (0, 0)
    assert left_running(runs_dir) == []
    return mirrored, invoices


@pytest.mark.parametrize("variant", ["translated", pytest.param("not-translated", marks=NIGHTLY)])
def test_a_group_that_moves_to_the_mirror_skips_nothing_if_its_offsets_were_translated(tmp_path, variant):
    _, invoices = moved("app-failover", variant, tmp_path)
    assert bool(invoices["counts"]["missing"]) == (variant == "not-translated")


@pytest.mark.nightly(
    twin="system/test_mirror.py::test_a_group_that_moves_to_the_mirror_skips_nothing_if_its_offsets_were_translated[translated]"
)
@pytest.mark.parametrize("variant", ["synchronized", "not-synchronized"])
def test_a_reader_may_read_the_mirror_if_its_right_was_synchronized(tmp_path, variant):
    mirrored, invoices = moved("app-mirror-acls", variant, tmp_path)
    assert invoices["counts"]["missing"] == (0 if variant == "synchronized" else mirrored["inputs"])


@NIGHTLY
@pytest.mark.parametrize("variant", ["late", "synchronized", "left-out"])
def test_a_mirror_stops_at_a_record_that_its_topic_does_not_take_and_the_report_says_why(tmp_path, variant):
    ended = chaos("run", "app-mirror-settings", "--variant", variant, "--json", "--seed", 7, "--runs-dir", tmp_path)
    (mirrored,) = ended.result["effects"]
    assert (ended.code, bool(mirrored["counts"]["missing"])) == (0, variant == "late"), ended.result["sentence"]
    assert ("RecordTooLargeException" in ended.result["sentence"]) == (variant == "late")
    assert left_running(tmp_path) == []


@NIGHTLY
@pytest.mark.parametrize("variant", ["enabled", "disabled", "same-name"])
def test_a_mirror_in_transactions_repeats_nothing_when_its_worker_is_killed(tmp_path, variant):
    ended = chaos("run", "app-mirror-exactly-once", "--variant", variant, "--json", "--seed", 7, "--runs-dir", tmp_path)
    (mirrored,) = ended.result["effects"]
    assert (ended.code, mirrored["counts"]["missing"]) == (0, 0), ended.result["sentence"]
    assert bool(mirrored["counts"]["duplicate"]) == (variant == "disabled")
    assert left_running(tmp_path) == []


@NIGHTLY
def test_two_clusters_mirror_each_other_and_what_is_written_while_one_is_down_comes_back(tmp_path):
    ended = chaos("run", "app-mirror-both-ways", "--json", "--seed", 7, "--runs-dir", tmp_path)
    assert ended.code == 0, ended.result["sentence"]
    for effect in ended.result["effects"]:
        assert effect["inputs"] >= 2000
        assert (effect["counts"]["missing"], effect["counts"]["wrong"]) == (0, 0)
    assert left_running(tmp_path) == []


@NIGHTLY
@pytest.mark.parametrize(("variant", "lost"), [("retention", True), ("recreated", True), ("intact", False)])
def test_what_the_source_lost_while_its_mirror_was_paused_is_named_although_the_mirror_goes_on(tmp_path, variant, lost):
    ended = chaos("run", "app-mirror-gap", "--variant", variant, "--json", "--seed", 7, "--runs-dir", tmp_path)
    (mirrored,) = ended.result["effects"]
    assert (ended.code, mirrored["counts"]["missing"] > 100) == (0, lost), ended.result["sentence"]
    assert left_running(tmp_path) == []


@NIGHTLY
def test_a_mirror_follows_a_topic_that_grows_while_its_own_cluster_fails(tmp_path):
    ended = chaos("run", "app-mirror-operations", "--json", "--seed", 7, "--runs-dir", tmp_path)
    (mirrored,) = ended.result["effects"]
    assert (ended.code, mirrored["counts"]["missing"], mirrored["counts"]["wrong"]) == (0, 0, 0)
    assert all(fault["proven_us"] for fault in ended.result["faults"])
    assert left_running(tmp_path) == []
