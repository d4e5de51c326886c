"""The application as a scenario: which settings its runs have, what is assumed, and what is never shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos.campaign.prove import application
from chaos.campaign.prove.entries import dump
from chaos.campaign.prove.plan import scenario_of
from chaos.errors import ScenarioError, UsageError
from chaos.guarantees.application import Options
from tests.chaos.campaign.prove.apps import (
    APPS,
    CAREFUL,
    EXACTLY_ONCE,
    STRONG,
    TOPIC,
    TRANSFORMING,
    planned,
    read,
    sets,
    write,
)

SECRET = "hunter2-never-shown"


def error_of(tmp_path: Path, app: dict[str, Any]) -> str:
    with pytest.raises((ScenarioError, UsageError)) as found:
        read(tmp_path, app)
    return str(found.value)


def test_the_clients_have_the_settings_of_the_application(tmp_path: Path) -> None:
    producer = {"client": "java:3.9.2", "config": {"acks": 1, "linger.ms": 20}}
    raw = read(tmp_path, {"producer": producer, "topic": TOPIC}).raw
    (found,) = raw["producers"]
    assert (found["client"], found["config"]) == ("java:3.9.2", {"acks": 1, "linger.ms": 20})
    assert "consumers" not in raw
    assert raw["topics"][0]["config"] == {"min.insync.replicas": 2}


@pytest.mark.parametrize(
    ("config", "commit", "expected"),
    [
        ({"enable.auto.commit": False}, "after_processing", {"when": "after_batch", "kind": "sync"}),
        ({"enable.auto.commit": False}, "before_processing", {"when": "before_processing", "kind": "sync"}),
        ({}, None, {"when": "before_processing", "kind": "auto"}),
        ({"enable.auto.offset.store": False}, "after_processing", {"when": "after_batch", "kind": "auto"}),
        ({"enable.auto.commit": False}, "never", {"when": "never"}),
    ],
)
def test_a_consumer_commits_as_the_application_does(
    tmp_path: Path, config: dict[str, Any], commit: str | None, expected: dict[str, str]
) -> None:
    consumer = {"config": {"group.id": "g", **config}, **({"commit": commit} if commit else {})}
    (found,) = read(tmp_path, {"consumer": consumer, "topic": TOPIC}).raw["consumers"]
    assert found["commit"] == expected
    assert found["group"] == "g"


def test_automatic_commits_of_java_come_after_the_poll(tmp_path: Path) -> None:
    (found,) = read(tmp_path, {"consumer": {"client": "java"}}).raw["consumers"]
    assert found["commit"] == {"when": "after_batch", "kind": "auto"}


def test_an_application_without_a_producer_gets_one_that_loses_nothing(tmp_path: Path) -> None:
    app = read(tmp_path, APPS["reader"])
    (feeder,) = app.raw["producers"]
    assert feeder["config"] == {"acks": "all", "enable.idempotence": True}
    assert any("a producer of the lab" in text for text in app.assumed)


def test_a_reader_that_asks_for_committed_records_gets_transactions(tmp_path: Path) -> None:
    consumer = {**CAREFUL, "config": {**CAREFUL["config"], "isolation.level": "read_committed"}}
    (feeder,) = read(tmp_path, {"consumer": consumer}).raw["producers"]
    assert feeder["transactions"]["abort_every"]


def test_read_process_write_is_a_processor_with_a_reader_of_its_outputs(tmp_path: Path) -> None:
    raw = read(tmp_path, EXACTLY_ONCE).raw
    (processor,) = raw["processors"]
    assert (processor["client"].partition(":")[0], processor["to"]) == ("java", "orders-out")
    assert "transactional.id" not in processor["config"]
    assert [consumer["topics"] for consumer in raw["consumers"]] == [["orders-out"]]


def test_a_transaction_has_one_client_library(tmp_path: Path) -> None:
    other = {**EXACTLY_ONCE, "producer": {"client": "confluent", "config": {"transactional.id": "tx"}}}
    assert "give both the same" in error_of(tmp_path, other)


def test_secrets_and_connections_are_left_out_by_name_and_never_by_value(tmp_path: Path) -> None:
    secrets = {
        "sasl.jaas.config": f"x password={SECRET}",
        "ssl.keystore.password": SECRET,
        "ssl.keystore.location": f"/etc/{SECRET}",
        "security.protocol": "SASL_SSL",
        "interceptor.classes": f"com.example.{SECRET}",
        "schema.registry.basic.auth.user.info": f"user:{SECRET}",
        "client.id": SECRET,
        "bootstrap.servers": f"{SECRET}:9092",
    }
    producer = {"client": "java", "config": {"acks": "all", **secrets}}
    topic = {**TOPIC, "name": "orders"}
    app = read(tmp_path, {"producer": producer, "consumer": {"client": "java", "config": secrets}, "topic": topic})
    for faults in planned(app).sets:
        assert SECRET not in dump(scenario_of(app, faults))
    shown = "\n".join([*app.left_out, *app.assumed, *app.changed, *app.promises.notes])
    assert SECRET not in shown
    for name in secrets:
        assert name in shown


def test_secrets_of_sarama_are_left_out(tmp_path: Path) -> None:
    config = {"Net.SASL.Password": SECRET, "Net.TLS.Enable": True, "ClientID": SECRET, "Producer.RequiredAcks": -1}
    app = read(tmp_path, {"producer": {"client": "sarama", "config": config}, "topic": TOPIC})
    assert app.raw["producers"][0]["config"] == {"Producer.RequiredAcks": -1}
    assert SECRET not in "\n".join([*app.left_out, dump(app.raw)])


def test_a_placeholder_is_left_out_where_no_promise_depends_on_it(tmp_path: Path) -> None:
    app = read(tmp_path, {"producer": {"client": "java", "config": {"acks": "all", "batch.size": "${BATCH}"}}})
    assert app.raw["producers"][0]["config"] == {"acks": "all"}
    assert any(text.startswith("batch.size (app.yaml:") and "placeholder" in text for text in app.left_out)


def test_a_placeholder_in_a_setting_of_a_promise_is_refused(tmp_path: Path) -> None:
    message = error_of(tmp_path, {"producer": {"client": "java", "config": {"acks": "${ACKS}"}}})
    assert "acks has a placeholder" in message
    assert "ACKS}" not in message


def test_a_setting_of_the_other_client_is_named_with_its_counterpart(tmp_path: Path) -> None:
    message = error_of(tmp_path, {"producer": {"client": "confluent", "config": {"max.request.size": 1}}})
    assert "it is called message.max.bytes there" in message


def test_times_of_a_group_are_shorter_and_the_page_says_so(tmp_path: Path) -> None:
    consumer = {**CAREFUL, "config": {**CAREFUL["config"], "session.timeout.ms": 45000}}
    app = read(tmp_path, {"consumer": consumer})
    assert app.raw["consumers"][0]["config"]["session.timeout.ms"] == 6000
    assert "session.timeout.ms=6000 instead of 45000" in app.changed


def test_a_setting_of_the_application_wins_over_speed(tmp_path: Path) -> None:
    app = read(tmp_path, {"producer": STRONG, "cluster": {"config": {"broker.session.timeout.ms": 9000}}})
    assert app.raw["cluster"]["config"]["broker.session.timeout.ms"] == 9000


def test_a_job_of_flink_is_refused_in_one_line(tmp_path: Path) -> None:
    message = error_of(tmp_path, {"consumer": {"client": "flink"}})
    assert "prove" in message
    assert "\n" not in message


def test_settings_with_which_nothing_can_be_written_are_refused(tmp_path: Path) -> None:
    topic = {"replication_factor": 1, "config": {"min.insync.replicas": 2}}
    assert "cannot be run here" in error_of(tmp_path, {"producer": STRONG, "topic": topic})


def test_nothing_to_prove_is_refused(tmp_path: Path) -> None:
    assert "no producer and no consumer" in error_of(tmp_path, {"topic": TOPIC})


def test_a_lift_changes_the_fact_and_the_scenario(tmp_path: Path) -> None:
    options = Options(app=write(tmp_path, APPS["acks-1"]))
    mended = application.read(options, {"producer.acks": "all", "topic.min.insync.replicas": 2})
    assert mended.facts["producer.acks"].value == "all"
    assert mended.raw["producers"][0]["config"]["acks"] == "all"


def test_traffic_shapes_the_load(tmp_path: Path) -> None:
    app = read(tmp_path, {"producer": STRONG, "traffic": {"records": 5000, "rate": "1000/s", "keys": 10}})
    (found,) = app.raw["producers"]
    assert (found["records"], found["rate"], found["keys"], app.records) == (5000, "1000/s", 10, 5000)


def test_a_longer_session_of_the_brokers_leaves_more_time_for_the_proof_of_a_fault(tmp_path: Path) -> None:
    def limits(**config: int) -> dict[str, str]:
        found = read(tmp_path, {**APPS["reliable"], "cluster": {"config": config}}).raw["limits"]
        assert isinstance(found, dict)
        return found

    assert limits() == limits(**{"broker.session.timeout.ms": 10_000})
    assert limits()["proof"] == "20s"
    longer = limits(**{"broker.session.timeout.ms": 40_000})
    assert (longer["proof"], longer["drive"], longer["drain"]) == ("50s", "120s", limits()["drain"])


def test_an_application_with_input_and_output_is_one_program(tmp_path: Path) -> None:
    app = read(tmp_path, TRANSFORMING)
    (processor,) = app.raw["processors"]
    assert (processor["topics"], processor["to"]) == (["orders"], "bills")
    assert processor["plain"] == {"commit": "after_output", "records": 50} and "transactions" not in processor
    assert {t["name"]: (t["partitions"], t["replication_factor"]) for t in app.raw["topics"]} == {
        "orders": (2, 1),
        "bills": (3, 3),
    }
    assert [producer["topic"] for producer in app.raw["producers"]] == ["orders"]
    assert [consumer["topics"] for consumer in app.raw["consumers"]] == [["bills"]]
    assert app.names["partition"] == "bills/0"
    assert not any("two programs" in line for line in app.assumed)
    assert {"processor-crash", "processor-lost-commit-answer"} <= sets(app).keys()


@pytest.mark.parametrize(
    ("commit", "expected"), [("before_processing", "before_output"), ("after_processing", "after_output")]
)
def test_the_order_of_output_and_commit_is_that_of_the_application(tmp_path: Path, commit: str, expected: str) -> None:
    consumer = {**TRANSFORMING["consumer"], "commit": commit}
    (processor,) = read(tmp_path, {**TRANSFORMING, "consumer": consumer}).raw["processors"]
    assert processor["plain"]["commit"] == expected


def test_transactions_go_from_the_input_to_the_output(tmp_path: Path) -> None:
    topics = {key: TRANSFORMING[key] for key in ("input", "output")}
    app = {key: part for key, part in EXACTLY_ONCE.items() if key != "topic"}
    (processor,) = read(tmp_path, {**app, **topics}).raw["processors"]
    assert processor["transactions"] == {"records": 50} and processor["to"] == "bills"


def test_what_a_consumer_may_expect_depends_on_the_input(tmp_path: Path) -> None:
    answers = {f"{a.aspect}/{a.id}": a for a in read(tmp_path, TRANSFORMING).promises.answers}
    assert answers["availability/reads"].row == "no-replica"
    assert "1 h" in answers["delivery/lag"].promise
    assert answers["durability/brokers-fail"].level != "none", "the output has three replicas"


def test_two_programs_on_one_topic_are_named_as_an_assumption(tmp_path: Path) -> None:
    assumed = read(tmp_path, APPS["reliable"]).assumed
    assert any("two programs on the topic orders" in line and "input and output" in line for line in assumed)
    assert not any("two programs" in line for line in read(tmp_path, APPS["acks-1"]).assumed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"topic": TOPIC}, "topic goes without input and output"),
        ({"output": {"name": "orders"}}, "input and output are both orders"),
        ({"consumer": {**TRANSFORMING["consumer"], "commit": "never"}}, "consumer.commit is never"),
        ({"producer": {"client": "confluent"}}, "one client library reads, processes and writes"),
        ({"producer": None}, "give both producer and consumer"),
    ],
)
def test_what_does_not_fit_input_and_output_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    found = error_of(tmp_path, {key: part for key, part in {**TRANSFORMING, **change}.items() if part is not None})
    assert message in " ".join(found.split())
