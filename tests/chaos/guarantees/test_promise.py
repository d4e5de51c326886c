"""`promise` as a user runs it: its output, its errors, and what it never prints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from chaos.cli import app
from chaos.errors import AftershockError, UsageError
from tests.support.promised import write_app

PAGE = Path(__file__).parents[3] / "chaos" / "campaign" / "README.md"
JAVA = "key.serializer=org.apache.kafka.common.serialization.StringSerializer\n"


def run(*arguments: str | Path) -> Result:
    """Run the command in a wide terminal."""
    return CliRunner().invoke(app, ["promise", *map(str, arguments)], env={"COLUMNS": "400"})


def error_of(*arguments: str | Path) -> str:
    """Return the error that the command ends with; its exit code is 2."""
    found = run(*arguments).exception
    assert isinstance(found, AftershockError), found
    assert found.exit_code == 2
    return str(found)


def put(folder: Path, text: str | bytes, name: str = "some.properties") -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def answers(*arguments: str | Path) -> dict[str, dict[str, Any]]:
    """Return the answers by aspect and question."""
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.exception
    return {f"{answer['aspect']}/{answer['id']}": answer for answer in json.loads(done.stdout)["answers"]}


def notes(*arguments: str | Path) -> list[str]:
    found: list[str] = json.loads(run(*arguments, "--json").stdout)["notes"]
    return found


def used(answer: dict[str, Any], name: str) -> tuple[str, str]:
    """Return value and origin of a setting that an answer rests on."""
    return next((s["value"], s["origin"]) for s in answer["by"] if s["name"] == name)


def test_the_example_of_the_page_is_read_and_every_value_has_its_origin(tmp_path: Path) -> None:
    section = PAGE.read_text().partition("### app.yaml\n")[2]
    example = re.findall(r"```yaml\n(.*?)```", section, re.S)[0]
    app_file = put(tmp_path, example, "app.yaml")
    put(tmp_path, "linger.ms=5\n", "producer.properties")
    found = answers(app_file)
    assert used(found["durability/brokers-fail"], "acks") == ("all", "app.yaml:4")
    assert used(found["durability/brokers-fail"], "min.insync.replicas") == ("2", "app.yaml:11")
    assert used(found["durability/brokers-fail"], "replication factor") == ("3", "app.yaml:10")
    assert used(found["duplication/retries"], "enable.idempotence") == ("true", "default of kafka-clients 3.9.2")
    assert used(found["durability/power"], "log.flush.interval.messages")[1] == "default of Kafka 4.3.1"
    assert found["delivery/processing"]["row"] == "after"
    done = run(app_file)
    assert done.exit_code == 0
    assert "fully reliable: yes" in done.stdout


def test_the_table_the_markdown_and_the_json_say_the_same(tmp_path: Path) -> None:
    app_file = write_app(tmp_path, producer={"client": "java", "config": {"acks": 1}}, topic={"replication_factor": 3})
    table, page, found = run(app_file).stdout, run(app_file, "--markdown").stdout, answers(app_file)
    assert "survives faults of clients and of followers, but not of the leader" in table
    for answer in found.values():
        assert answer["promise"] in table
        assert answer["title"] in page
        assert all(source["url"] in page for source in answer["sources"])
    widths = {line.count("|") - line.count("\\|") for line in page.splitlines() if line.startswith("|")}
    assert len(widths) == 1
    assert "two forms of one output" in error_of(app_file, "--json", "--markdown")


@pytest.mark.parametrize(
    ("client", "acks", "idempotent"),
    [
        ("java:2.8.2", "1", "false"),
        ("java:3.0.0", "all", "false"),
        ("java:3.0.1", "all", "true"),
        ("java:3.1.0", "all", "false"),
        ("java:4.3.1", "all", "true"),
        ("confluent", "all", "false"),
        ("sarama", "1", "false"),
    ],
)
def test_the_release_decides_the_defaults(client: str, acks: str, idempotent: str, tmp_path: Path) -> None:
    found = answers(write_app(tmp_path, producer={"client": client}, topic={"replication_factor": 3}))
    assert used(found["durability/brokers-fail"], "acks")[0] == acks
    assert used(found["duplication/retries"], "enable.idempotence")[0] == idempotent


@pytest.mark.parametrize(
    ("client", "config", "refused"),
    [
        # tried with ProducerConfig of 2.8.2, 3.0.0, 3.0.1, 3.9.2 and 4.3.1
        ("java:3.9.2", {"acks": 1}, ""),
        ("java:3.9.2", {"acks": 1, "enable.idempotence": True}, "idempotence needs acks=all"),
        ("java:3.9.2", {"retries": 0, "enable.idempotence": True}, "idempotence needs retries above 0"),
        ("java:3.9.2", {"max.in.flight.requests.per.connection": 6}, ""),
        ("java:4.3.1", {"max.in.flight.requests.per.connection": 6}, "at most 5 requests in flight"),
        ("java:4.3.1", {"max.in.flight.requests.per.connection": 6, "acks": 1}, "at most 5 requests in flight"),
        ("java:4.3.1", {"max.in.flight.requests.per.connection": 6, "enable.idempotence": False}, ""),
        ("java:2.8.2", {"transactional.id": "t", "max.in.flight.requests.per.connection": 6}, "at most 5"),
        ("java:2.8.2", {"transactional.id": "t"}, ""),
        ("java:3.9.2", {"transactional.id": "t", "acks": 1}, "contradicts transactional.id"),
        ("java:3.9.2", {"transactional.id": "t", "enable.idempotence": False}, "remove enable.idempotence"),
        ("java:3.9.2", {"acks": "ALL"}, "the values are all, -1, 0, 1"),
        ("java:3.9.2", {"retries": "many"}, "has to be a whole number from 0 on"),
        ("java:3.9.2", {"delivery.timeout.ms": 29_999}, "plus request.timeout.ms=30000"),
        ("java:3.9.2", {"delivery.timeout.ms": 30_000}, ""),
        ("java:4.3.1", {"delivery.timeout.ms": 30_004}, "linger.ms=5 (default of kafka-clients 4.3.1)"),
        ("java:4.3.1", {"delivery.timeout.ms": 30_005}, ""),
        ("java:3.9.2", {"request.timeout.ms": 200_000}, ""),
        # tried with librdkafka 2.16.0
        ("confluent", {"acks": 1, "enable.idempotence": True}, "idempotence needs acks=all"),
        ("confluent", {"max.in.flight": 6, "enable.idempotence": True}, "at most 5 requests in flight"),
        ("confluent", {"acks": "ALL", "enable.idempotence": "1"}, ""),
        ("confluent", {"enable.idempotence": "yes"}, "the values are true, false"),
        ("confluent", {"transactional.id": "t", "message.timeout.ms": 70000}, "librdkafka does not start"),
        ("confluent", {"buffer.memory": 1}, "it is called queue.buffering.max.kbytes there"),
        ("confluent", {"enable.idempotance": True}, "did you mean enable.idempotence?"),
        # sarama's Config.Validate
        ("sarama", {"Producer.Idempotent": True}, "idempotence needs acks=all"),
        (
            "sarama",
            {"Producer.Idempotent": True, "Producer.RequiredAcks": "WaitForAll", "Net.MaxOpenRequests": 1},
            "",
        ),
        ("sarama", {"linger.ms": 5}, "use Producer.Flush.Frequency"),
    ],
)
def test_what_a_client_refuses_promises_nothing(
    client: str, config: dict[str, Any], refused: str, tmp_path: Path
) -> None:
    file = write_app(tmp_path, producer={"client": client, "config": config}, topic={"replication_factor": 3})
    if refused:
        assert refused in error_of(file)
    else:
        assert run(file).exit_code == 0


@pytest.mark.parametrize(
    "config", [{"acks": 1}, {"retries": 0}, {"max.in.flight.requests.per.connection": 6}], ids=lambda c: next(iter(c))
)
def test_java_switches_idempotence_off_without_an_error(config: dict[str, Any], tmp_path: Path) -> None:
    file = write_app(tmp_path, producer={"client": "java:3.9.2", "config": config})
    value, origin = used(answers(file)["duplication/retries"], "enable.idempotence")
    assert value == "false"
    assert origin.startswith("kafka-clients 3.9.2 switches it off, because")
    assert any("no error is reported" in note for note in notes(file))


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ({"topic": {"replication_factor": 3}, "cluster": {"brokers": 2}}, "INVALID_REPLICATION_FACTOR"),
        (
            {
                "producer": {"client": "java", "config": {"transactional.id": "t", "transaction.timeout.ms": 900_001}},
                "cluster": {},
            },
            "INVALID_TRANSACTION_TIMEOUT",
        ),
        (
            {"consumer": {"client": "java", "config": {"session.timeout.ms": 1_800_001}}, "cluster": {}},
            "INVALID_SESSION_TIMEOUT",
        ),
        (
            {"consumer": {"client": "java", "config": {"session.timeout.ms": 5_999}}, "cluster": {}},
            "INVALID_SESSION_TIMEOUT",
        ),
        (
            {"consumer": {"client": "java", "config": {"session.timeout.ms": 3_000}}},
            "heartbeat.interval.ms is not below session.timeout.ms",
        ),
        (  # the default of session.timeout.ms is 10 s before 3.0
            {"consumer": {"client": "java:2.8.2", "config": {"heartbeat.interval.ms": 10_000}}},
            "heartbeat.interval.ms is not below session.timeout.ms",
        ),
        (
            {"consumer": {"client": "confluent", "config": {"max.poll.interval.ms": 44_999}}},
            "librdkafka does not start",
        ),
        (
            {
                "producer": {"client": "java"},
                "consumer": {"client": "java", "commit": "in_transaction", "config": {"enable.auto.commit": False}},
            },
            "the producer has no transactional.id",
        ),
        ({"consumer": {"client": "java", "commit": "never"}}, "set it to false"),
        ({"consumer": {"client": "flink", "commit": "after_processing"}}, "write on_checkpoint"),
        ({"producer": {"client": "flink"}}, "its sink is a Java producer"),
        ({"consumer": {"client": "streams"}}, "the rules know no application of Kafka Streams"),
        ({"topic": {"config": {"min.insync.replica": 2}}}, "did you mean min.insync.replicas?"),
        ({"topic": {"config": {"log.retention.ms": 2}}}, "did you mean retention.ms?"),
        ({"topic": {"config": {"min.insync.replicas": "two"}}}, "has to be a whole number from 0 on"),
    ],
)
def test_contradictions_are_refused_with_the_place_of_each_setting(
    parts: dict[str, Any], found: str, tmp_path: Path
) -> None:
    message = error_of(write_app(tmp_path, **parts))
    assert found in message
    assert "app.yaml:" in message or "app.yaml" in message


@pytest.mark.parametrize(
    "parts",
    [
        {"topic": {"replication_factor": 3}, "cluster": {"brokers": 3}},
        {
            "producer": {"client": "java", "config": {"transactional.id": "t", "transaction.timeout.ms": 900_000}},
            "cluster": {},
        },
        {"consumer": {"client": "java", "config": {"session.timeout.ms": 1_800_000}}, "cluster": {}},
        {"consumer": {"client": "java", "config": {"session.timeout.ms": 6_000}}, "cluster": {}},
        {"consumer": {"client": "java", "config": {"session.timeout.ms": 3_001}}},
        {"consumer": {"client": "confluent", "config": {"max.poll.interval.ms": 45_000}}},
        {"consumer": {"client": "flink", "commit": "on_checkpoint"}},
        {"consumer": {"client": "java:3.0.0", "config": {"heartbeat.interval.ms": 10_000}}},
    ],
)
def test_settings_that_just_miss_a_contradiction_are_accepted(parts: dict[str, Any], tmp_path: Path) -> None:
    assert run(write_app(tmp_path, **parts)).exit_code == 0


def test_min_isr_above_the_replicas_is_named_and_answered(tmp_path: Path) -> None:
    parts = {"producer": {"client": "java"}, "topic": {"replication_factor": 2, "config": {"min.insync.replicas": 3}}}
    file = write_app(tmp_path, **parts)
    assert any(note.startswith("min.insync.replicas is larger") for note in notes(file))
    assert answers(file)["availability/writes"]["level"] == "none"


def test_secrets_are_in_no_output(tmp_path: Path) -> None:
    text = JAVA + (
        "acks=1\n"
        'sasl.jaas.config=a.PlainLoginModule required \\\n  username="alice" \\\n  password="hunter1";\n'
        "ssl.key.password=hunter2\nbasic.auth.user.info=alice:hunter3\nsasl.password=hunter4\n"
        'password="hunter5";\nhunter6\n"hunter7";\nssl.truststore.pasword=hunter8\nsasl.password=hunter9\n'
        "bootstrap.servers=${HOST:hunter10}\n"
    )
    file = put(tmp_path, text)
    config = {"sasl.password": "hunter11", "sasl.pasword": "hunter12", "acks": 1}
    app_file = write_app(tmp_path, consumer={"client": "java", "config": config})
    nested = put(tmp_path, "producer: {config: {sasl.password: [hunter13]}}\n", "nested.yaml")
    for arguments in (
        ("--producer-properties", file),
        (app_file,),
        (app_file, "--producer-properties", file),
        (nested,),
    ):
        for form in ((), ("--json",), ("--markdown",)):
            done = run(*arguments, *form)
            assert "hunter" not in done.output + str(done.exception)
    assert "hunter" not in error_of("--client", "confluent", "--producer-properties", file)


def test_java_escapes_continuations_and_duplicates_are_read_as_java_does(tmp_path: Path) -> None:
    text = "# comment\n! comment\n\nacks : 0\nacks = \\\n   al\\u006c\nretr\\u0069es 3\r\nlinger.ms=5\n" + JAVA
    file = put(tmp_path, text)
    found = answers("--producer-properties", file, "--replication-factor", "3")
    assert used(found["durability/brokers-fail"], "acks") == ("all", "some.properties:5")
    assert found["duplication/retries"]["row"] == "idempotent"
    said = "some.properties:5: acks is given twice; this one counts, and some.properties:4 has no effect"
    assert said in notes("--producer-properties", file)
    assert "needs four hexadecimal digits" in error_of("--producer-properties", put(tmp_path, "acks=\\u00zz\n"))


def test_a_backslash_of_librdkafka_continues_no_line(tmp_path: Path) -> None:
    file = put(tmp_path, "ssl.ca.location=C:\\certs\\\nacks=1\nqueue.buffering.max.messages=5\n")
    found = answers("--producer-properties", file, "--replication-factor", "3")
    assert used(found["durability/brokers-fail"], "acks") == ("1", "some.properties:2")


@pytest.mark.parametrize(
    ("text", "client"),
    [
        (JAVA, "kafka-clients 4.3.1 (recognized by its settings as the Java client)"),
        ("message.timeout.ms=5\n", "(recognized by its settings as librdkafka)"),
        ("Producer.RequiredAcks=WaitForAll\n", "sarama 1.61.1 (recognized by its settings as sarama)"),
        ("acks=all\n", "kafka-clients 4.3.1 (assumed to be the Java client: no setting is of one client only)"),
    ],
)
def test_a_client_is_recognized_by_the_names_of_its_settings(text: str, client: str, tmp_path: Path) -> None:
    done = run("--producer-properties", put(tmp_path, text))
    assert client in done.stdout
    named = run("--producer-properties", put(tmp_path, "acks=all\n"), "--client", "java:2.8.2")
    assert "kafka-clients 2.8.2 (--client)" in named.stdout


def test_settings_of_another_client_are_named_with_their_counterpart(tmp_path: Path) -> None:
    java = put(tmp_path, JAVA + "buffer.memory=1\nmessage.timeout.ms=5\nsession.timeout.ms=9\nacks.all=1\n")
    said = "\n".join(notes("--producer-properties", java))
    assert (
        "message.timeout.ms is no setting of the Java client, which ignores it; it is called delivery.timeout.ms"
        in said
    )
    assert "session.timeout.ms has no effect in a producer" in said
    librdkafka = put(tmp_path, "message.timeout.ms=5\nqueue.buffering.max.ms=1\nmax.block.ms=7\n")
    assert "max.block.ms is no setting of librdkafka, which refuses it; it has nothing like it" in error_of(
        "--producer-properties", librdkafka
    )
    both = put(tmp_path, "message.timeout.ms=5\nmax.block.ms=7\n")
    assert "belong to several clients" in error_of("--producer-properties", both)


def test_a_field_of_sarama_that_looks_like_another_is_named(tmp_path: Path) -> None:
    config = {"Producer.RequiredAck": "WaitForAll", "Net.MaxOpenRequests": 1, "Metadata.Full": True}
    said = error_of(write_app(tmp_path, producer={"client": "sarama", "config": config}))
    assert "app.yaml:4: Producer.RequiredAck is not read by the rules; did you mean Producer.RequiredAcks?" in said


def test_two_names_of_one_setting_are_named(tmp_path: Path) -> None:
    file = put(tmp_path, "acks=1\nrequest.required.acks=-1\nmessage.timeout.ms=9\n")
    assert "is another name of acks (some.properties:1); this one counts" in notes("--producer-properties", file)[0]
    found = answers("--producer-properties", file, "--replication-factor", "3")
    assert used(found["durability/brokers-fail"], "request.required.acks") == ("-1", "some.properties:2")


@pytest.mark.parametrize("value", ["${ACKS}", "{{ acks }}", "@acks@", "%ACKS%", "$ACKS", "${env:ACKS}"])
def test_a_placeholder_is_refused_only_where_a_promise_depends_on_it(value: str, tmp_path: Path) -> None:
    file = put(tmp_path, f"{JAVA}acks={value}\n")
    message = error_of("--producer-properties", file)
    assert "some.properties:2: acks has a placeholder, and the promise depends on its value; fill it in" in message
    assert run("--producer-properties", put(tmp_path, f"{JAVA}bootstrap.servers={value}\n")).exit_code == 0


def test_a_missing_setting_makes_an_answer_unknown_and_names_it(tmp_path: Path) -> None:
    file = write_app(
        tmp_path,
        producer={"client": "java"},
        consumer={"client": "java", "config": {"enable.auto.commit": False}},
        topic={"config": {"min.insync.replicas": 2}},
    )
    found = answers(file)
    assert found["durability/brokers-fail"]["level"] == "unknown"
    assert "replication_factor in app.yaml" in found["durability/brokers-fail"]["promise"]
    assert "when the application commits" in found["delivery/processing"]["promise"]
    groups = found["availability/groups"]
    assert (groups["level"], "offsets.topic.replication.factor" in groups["promise"]) == ("unknown", True)
    assert "fully reliable: no" in run(file).stdout
    assert answers(file, "--replication-factor", "3", "--commit", "never")["delivery/processing"]["row"] == "never"
    assert answers(file, "--replication-factor", "3")["durability/brokers-fail"]["row"] == "min-isr"


def test_a_producer_alone_is_asked_about_durability(tmp_path: Path) -> None:
    found = answers(write_app(tmp_path, producer={"client": "java", "config": {"acks": "1"}}))
    assert found["durability/brokers-fail"]["level"] == found["availability/writes"]["level"] == "unknown"
    assert "delivery/processing" not in found


def test_a_client_without_settings_has_its_defaults(tmp_path: Path) -> None:
    topic = put(tmp_path, "min.insync.replicas=2\n")
    found = answers("--client", "confluent", "--topic-config", topic, "--replication-factor", "3")
    assert found["durability/brokers-fail"]["row"] == "min-isr"
    assert found["delivery/processing"]["row"] == "auto-stored"
    assert "order/partition" not in answers("--client", "spark")
    assert notes("--topic-config", topic)[0].startswith("no client is given")


def test_acks_0_needs_no_topic_to_promise_nothing(tmp_path: Path) -> None:
    file = write_app(tmp_path, producer={"client": "java", "config": {"acks": 0}}, topic={})
    assert answers(file)["durability/brokers-fail"]["row"] == "acks-0"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"# only a comment\n", "has no settings"),
        (b"\x7fELF\x00\x01\x02", "is not text"),
        (b"PK\x03\x04\x14\x00", "is not text"),
        (b"=\n", "has no settings"),
    ],
)
@pytest.mark.parametrize("option", ["--producer-properties", "--topic-config", "--server-properties"])
def test_files_that_are_no_properties(option: str, text: bytes, said: str, tmp_path: Path) -> None:
    assert said in error_of(option, put(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "is empty"),
        (b"{}", "is empty"),
        (b"\xff\xfe\x00", "is not text"),
        (b"- a\n", "it must be a mapping with producer, consumer, topic, input, output, cluster"),
        (b"producer: {acks: 1}\n", "app.yaml:1: producer.acks: unknown key"),
        (b"producer:\n  confg: {acks: 1}\n", "app.yaml:2: producer.confg: unknown key (did you mean config?)"),
        (b"producer: {client: jav}\n", "there is no runtime 'jav' (did you mean java?)"),
        (b"producer: {client: 'java:1.0.0'}\n", "kafka-clients 1.0.0 is not supported"),
        (b"consumer: {commit: later}\n", "app.yaml:1: consumer.commit"),
        (b"topic: {replication_factor: 0}\n", "app.yaml:1: topic.replication_factor"),
        (b"topic: {name: a, name: b}\n", "key 'name' is given twice"),
        (b"producer: [\n", "is not valid YAML"),
        (b"producer: 5\n", "app.yaml:1: producer: 5 is not a mapping of keys to values"),
        (
            b"producer: {config: {acks: [1]}}\n",
            "app.yaml:1: producer.config.acks: a list is not text, a number, true or false",
        ),
        (b"producer: &a {config: *a}\n", "app.yaml:1: producer.config"),
        (b"producer: {properties: nowhere.properties}\n", "nowhere.properties cannot be read"),
    ],
)
def test_files_that_are_no_application(text: bytes, said: str, tmp_path: Path) -> None:
    assert said in error_of(put(tmp_path, text, "app.yaml"))


def test_paths_and_options_that_cannot_be_used(tmp_path: Path) -> None:
    assert "is a directory" in error_of(tmp_path)
    assert "is a directory" in error_of("--topic-config", tmp_path)
    assert "cannot be read: No such file" in error_of(tmp_path / "none.yaml")
    assert "nothing is given" in error_of()
    assert "--topic names a topic of a cluster" in error_of("--topic", "orders")
    assert "--client: there is no runtime 'jva'" in error_of(
        "--client", "jva", "--producer-properties", put(tmp_path, "acks=1\n")
    )
    file = put(tmp_path, "acks=1\n")
    assert "choose one of after_processing" in error_of("--producer-properties", file, "--commit", "soon")
    assert "--commit is about a consumer" in error_of("--producer-properties", file, "--commit", "never")
    with pytest.raises(UsageError, match="nothing is given"):
        raise run().exception or AssertionError


def test_the_numbers_of_brokers_follow_from_replicas_and_min_isr(tmp_path: Path) -> None:
    for replicas, least, losable, spare in (
        (3, 2, "any one broker,", "one broker"),
        (5, 3, "any two brokers,", "two brokers"),
    ):
        topic = {"replication_factor": replicas, "config": {"min.insync.replicas": least}}
        found = answers(write_app(tmp_path, producer={"client": "java"}, topic=topic))
        assert f"survives the loss of {losable} disk included" in found["durability/brokers-fail"]["promise"]
        assert found["durability/brokers-fail"]["until"].startswith("two" if least == 2 else "three")
        assert f"no more than {spare} of a partition fails" in found["availability/writes"]["promise"]


def reliability(*arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json").stdout)["reliable"]
    return found


def test_fully_reliable_needs_every_part_and_names_what_is_missing(tmp_path: Path) -> None:
    producer = {"client": "java", "config": {"retries": 0, "transactional.id": "${HOST}-orders"}}
    assert "idempotence needs retries above 0" in error_of(write_app(tmp_path, producer=producer))
    producer["config"] = {"transactional.id": "${HOST}-orders"}
    consumer = {"client": "java", "commit": "in_transaction", "config": {"enable.auto.commit": False}}
    topic = {"replication_factor": 2, "config": {"min.insync.replicas": 2}}
    cluster = {"config": {"offsets.topic.replication.factor": 2}}
    found = reliability(write_app(tmp_path, producer=producer, consumer=consumer, topic=topic, cluster=cluster))
    assert found["holds"] is False
    assert [text.partition(":")[0] for text in found["missing"]] == [
        "replication factor 3 or more",
        "min.insync.replicas below the replication factor",
        "auto.offset.reset=earliest or none",
        "isolation.level=read_committed",
        "three replicas of __consumer_offsets",
    ]
    flink = {"client": "flink"}
    topic["replication_factor"] = 3
    assert reliability(write_app(tmp_path, producer={"client": "java"}, consumer=flink, topic=topic))["holds"] is True
    unknown = reliability(write_app(tmp_path, producer={"client": "java"}, topic=topic))
    assert (unknown["holds"], unknown["missing"]) == (None, [])
    refused = write_app(tmp_path, producer={"client": "sarama", "config": {"Producer.Retry.Max": 0}}, topic=topic)
    assert any(text.startswith("retries for at least 30") for text in reliability(refused)["missing"])


def test_a_limit_of_retries_bounds_how_long_a_send_is_repeated(tmp_path: Path) -> None:
    for config, row, said in (
        ({"retries": 5, "retry.backoff.max.ms": 100}, "short-window", "about 500 ms"),
        ({"retries": 400, "retry.backoff.max.ms": 100}, "window", "up to 40 seconds"),
        ({"retries": 5000}, "window", "up to 2 minutes"),
        ({"retries": 40, "retry.backoff.ms": 1000}, "window", "up to 40 seconds"),
        ({"retries": 3}, "short-window", "about 560 ms"),  # 100, 200 and 400 ms, less 20% (KIP-580)
        ({"retries": 3, "retry.backoff.max.ms": 100}, "short-window", "about 300 ms"),
        ({"retries": 50}, "window", "up to 38 seconds"),  # 100, 200, 400, 800 ms, then 46 times 1 s
    ):
        found = answers(write_app(tmp_path, producer={"client": "java", "config": config}))["availability/outage"]
        assert (found["row"], said in found["promise"]) == (row, True), found


def test_server_properties_are_the_defaults_of_a_topic(tmp_path: Path) -> None:
    server = "min.insync.replicas=2\ndefault.replication.factor=3\nlog.retention.minutes=5\n"
    file = put(tmp_path, server, "server.properties")
    producer = put(tmp_path, JAVA, "p.properties")
    consumer = put(tmp_path, "max.poll.records=5\n", "c.properties")
    arguments = ("--producer-properties", producer, "--consumer-properties", consumer, "--server-properties", file)
    found = answers(*arguments)
    assert used(found["durability/brokers-fail"], "min.insync.replicas") == ("2", "server.properties:1")
    replicas = ("3", "server.properties:2, for a new topic")
    assert used(found["durability/brokers-fail"], "default.replication.factor") == replicas
    assert "5 minutes" in found["delivery/lag"]["promise"]
    typo = put(tmp_path, "min.insync.replica=3\n", "typo.properties")
    assert "typo.properties:1: min.insync.replica is no setting of a broker; did you mean" in error_of(
        "--producer-properties", producer, "--server-properties", typo
    )
    topic = put(tmp_path, "min.insync.replicas=1\n", "t.properties")
    assert answers(*arguments, "--topic-config", topic)["durability/brokers-fail"]["row"] == "alone"


def test_an_option_overrides_the_file_setting_by_setting(tmp_path: Path) -> None:
    file = write_app(
        tmp_path, producer={"client": "java", "config": {"acks": 1, "retries": 0}}, topic={"replication_factor": 3}
    )
    found = answers(file, "--producer-properties", put(tmp_path, "acks=all\n"))
    assert used(found["durability/brokers-fail"], "acks") == ("all", "some.properties:1")
    assert used(found["availability/outage"], "retries")[1].startswith("app.yaml:")


@pytest.mark.parametrize(
    ("client", "config", "commit", "row"),
    [
        ("franz-go", {}, None, "auto-polled"),
        ("franz-go", {"GreedyAutoCommit": True}, None, "auto-stored"),
        ("franz-go", {"GreedyAutoCommit": False}, None, "auto-polled"),
        ("franz-go", {"GreedyAutoCommit": True, "DisableAutoCommit": True}, "after_processing", "after"),
        ("franz-go", {"AutoCommitMarks": True}, "after_processing", "after"),
        ("franz-go", {"AutoCommitMarks": True}, "before_processing", "before"),
        ("franz-go", {"AutoCommitMarks": True}, None, ""),
        ("franz-go", {"DisableAutoCommit": True}, None, ""),
        ("java", {"AutoCommitMarks": True}, "after_processing", "auto-polled"),
        ("kafka-python", {}, None, "auto-polled"),
        ("kafka-python", {"enable_auto_commit": "False"}, "after_processing", "after"),
        ("kafka-python:2.2.8", {"enable.auto.commit": False}, None, ""),
        ("kafka-python", {"group_id": "billing", "bootstrap_servers": "b:9092"}, None, "auto-polled"),
    ],
)
def test_commits_of_other_client_libraries(
    client: str, config: dict[str, Any], commit: str | None, row: str, tmp_path: Path
) -> None:
    said = {"commit": commit} if commit else {}
    found = answers(write_app(tmp_path, consumer={"client": client, "config": config, **said}))
    assert found["delivery/processing"]["row"] == row
    assert found["delivery/start"]["row"] == ("earliest" if client == "franz-go" else "latest") or not row


def test_isolation_and_reset_of_franz_go_have_their_common_values(tmp_path: Path) -> None:
    config = {"ConsumeResetOffset": "AtEnd", "FetchIsolationLevel": "ReadCommitted", "SessionTimeout": "6s"}
    found = answers(
        write_app(
            tmp_path,
            producer={"client": "java", "config": {"transactional.id": "t"}},
            consumer={"client": "franz-go", "config": config},
        )
    )
    assert found["delivery/start"]["row"] == "latest"
    assert found["isolation/transactions"]["row"] == "committed"


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"producer": {"client": "franz-go"}}, "the rules know no producer of franz-go (they know its consumers only)"),
        ({"consumer": {"client": "franz-go", "config": {"enable.auto.comit": True}}}, "such as RequiredAcks"),
        (
            {"consumer": {"client": "kafka-python", "config": {"sesion_timeout_ms": 1}}},
            "did you mean session_timeout_ms",
        ),
        ({"consumer": {"client": "kafka-python", "config": {"auto_offset_reset": "first"}}}, "the values are earliest"),
        (
            {"consumer": {"client": "franz-go", "config": {"AutoCommitMarks": True}, "commit": "in_transaction"}},
            "commits offsets too",
        ),
    ],
)
def test_bad_settings_of_other_client_libraries_are_refused(part: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert message in error_of(write_app(tmp_path, **part))
