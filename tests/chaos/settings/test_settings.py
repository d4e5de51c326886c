"""Settings by the tables: what a release knows, and which values it takes."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, KafkaException, Producer

from chaos.clients.choice import RUNTIMES
from chaos.errors import ScenarioError
from chaos.scenario.load import parse
from chaos.settings import Source, setting_problem, table, value_problem

TABLES = Path(__file__).parents[3] / "chaos" / "settings" / "tables"


def problem(part, release, name, value, passed=False):
    return setting_problem((Source(part),), release, "it", name, value, passed)


@pytest.mark.parametrize(
    ("part", "release", "name", "value", "said"),
    [
        ("java-consumer", "4.3.1", "auto.offset.rest", "earliest", "did you mean auto.offset.reset?"),
        ("java-consumer", "4.3.1", "auto.offset.reset", "ealiest", "did you mean earliest?"),
        ("java-consumer", "3.9.2", "auto.offset.reset", "Earliest", "the values are earliest, latest, none"),
        ("java-consumer", "3.9.2", "auto.offset.reset", "by_duration:PT1H", "the values are"),
        ("java-consumer", "4.3.1", "max.poll.interval.ms", "6s", "if it is in ms, 6s is 6000"),
        ("java-consumer", "4.3.1", "max.poll.interval.ms", 0, "a whole number from 1 on"),
        ("java-consumer", "4.3.1", "fetch.max.bytes", "64KiB", "in bytes, 64KiB is 65536"),
        ("java-consumer", "3.6.2", "group.protocol", "consumer", "it exists from 3.7.0 on"),
        ("java-consumer", "4.3.1", "partition.assignment.strategy", "cooperative_sticky", "mean cooperative-sticky?"),
        ("java-consumer", "4.3.1", "partition.assignment.strategy", "org.apache.kafka.clients.consumer.Rnge", "Range"),
        ("java-producer", "4.3.1", "acks", "al", "did you mean all?"),
        ("java-producer", "4.3.1", "enable.idempotence", "yes", "true or false"),
        ("java-producer", "4.3.1", "enable.idempotence", 1, "true or false"),
        ("java-producer", "4.3.1", "linger.ms", 1.5, "a whole number from 0 on"),
        ("java-producer", "4.3.1", "batch_size", 5, "did you mean batch.size?"),
        (
            "librdkafka-consumer",
            "2.16.1",
            "max.poll.interval.ms",
            "6s",
            "from 1 to 86400000; if it is in ms, 6s is 6000",
        ),
        ("librdkafka-consumer", "2.16.1", "partition.assignment.strategy", "cooperative_sticky", "cooperative-sticky?"),
        ("librdkafka-consumer", "1.5.0", "partition.assignment.strategy", "cooperative-sticky", "range, roundrobin"),
        ("librdkafka-consumer", "2.3.0", "group.protocol", "consumer", "it exists from 2.4.0 on"),
        ("librdkafka-producer", "2.16.1", "acks", "al", "or all"),
        ("librdkafka-producer", "2.16.1", "error_cb", "x", "a function of the application"),
        ("broker", "3.9.2", "log.retention.ms", "7d", "if it is in ms, 7d is 604800000"),
        ("broker", "4.3.1", "zookeeper.session.timeout.ms", 6000, "it exists up to 3.9"),
        ("broker", "4.3.1", "min.insync.replica", 2, "did you mean min.insync.replicas?"),
        ("broker", "4.3.1", "unclean.leader.election.enable", "yes", "true or false"),
        ("broker", "3.9.2", "group.coordinator.append.linger.ms", -7, "from"),
        ("topic", "4.3.1", "cleanup.policy", "compact;delete", "the values are"),
        ("topic", "4.3.1", "message.format.version", "3.0-IV1", "it exists up to 3.9"),
        ("topic", "4.3.1", "segment.bytes", 500, "a whole number from 1048576 on"),
        ("sarama", "1.61.1", "Consumer.Group.Session.Timeout", 6000, "6000ms or 6000s"),
        ("sarama", "1.50.0", "Consumer.Group.Rebalance.GroupStrategies", "cooperative-sticky", "the values are"),
        ("franz-go", "1.22.2", "SessionTimeout", "6 s", "a duration such as"),
        ("kafka-python-consumer", "3.0.12", "auto_offset_reset", "ealiest", "did you mean earliest?"),
        ("flink", "2.3.0", "paralelism.default", 2, "did you mean parallelism.default?"),
        ("flink", "2.3.0", "parallelism.default", "two", "a whole number"),
    ],
)
def test_what_a_release_does_not_take_is_said_with_what_is_right(part, release, name, value, said):
    assert said in problem(part, release, name, value)


@pytest.mark.parametrize(
    ("part", "release", "name", "value"),
    [
        ("java-consumer", "4.3.1", "auto.offset.reset", "EARLIEST"),
        ("java-consumer", "4.0.2", "auto.offset.reset", "by_duration:PT1H"),
        ("java-consumer", "3.7.0", "group.protocol", "CONSUMER"),
        ("java-consumer", "3.9.1", "group.protocol", "consumer"),
        ("java-consumer", "4.3.1", "partition.assignment.strategy", "com.example.Mine,range"),
        ("java-consumer", None, "share.acquire.mode", "record_limit"),
        ("java-producer", "4.3.1", "acks", -1),
        ("java-producer", "2.8.2", "enable.idempotence", "TRUE"),
        ("java-producer", "4.3.1", "compression.zstd.level", -5),
        ("librdkafka-consumer", "2.16.1", "auto.offset.reset", "SMALLEST"),
        ("librdkafka-consumer", "2.16.1", "linger.ms", 5),  # of the other role: ignored
        ("librdkafka-producer", "2.16.1", "linger.ms", 0.5),
        ("librdkafka-producer", "2.16.1", "acks", "All"),
        ("librdkafka-producer", "2.16.1", "enable.idempotence", "t"),
        ("broker", "3.9.2", "zookeeper.session.timeout.ms", 6000),
        ("broker", "4.3.1", "log.cleanup.policy", "compact, delete"),
        ("topic", "4.3.1", "retention.ms", -1),
        ("topic", "2.8.2", "message.format.version", "2.8-IV1"),
        ("sarama", "1.60.2", "Consumer.Group.Rebalance.GroupStrategies", "cooperative-sticky,range"),
        ("sarama", "1.43.3", "Producer.Retry.Backoff", "1m30s"),
        ("kafka-python-consumer", "2.0.1", "partition_assignment_strategy", "range"),
        ("flink", "1.20.5", "execution.checkpointing.mode", "exactly_once"),
    ],
)
def test_what_a_release_takes_is_not_refused(part, release, name, value):
    assert problem(part, release, name, value) == ""


def test_a_plugin_may_read_any_name_but_hardly_a_misspelt_one():
    assert problem("java-producer", "4.3.1", "audit.interceptor.topic", "x", passed=True) == ""
    assert "no setting" in problem("java-producer", "4.3.1", "audit.interceptor.topic", "x")
    assert "did you mean linger.ms?" in problem("java-producer", "4.3.1", "linger.mss", 1, passed=True)


def test_a_long_value_is_cut():
    assert len(value_problem("one a|b", "x" * 500)) < 120


@pytest.mark.parametrize("file", sorted(TABLES.glob("*.tsv")), ids=lambda file: file.stem)
def test_each_line_of_a_table_is_understood_and_in_order(file):
    for name, rows in table(file.stem).items():
        assert name and [row.since for row in rows[1:]] == sorted({row.since for row in rows[1:]}, key=_numbers)
        for row in rows:
            kind, *_ = row.values.removesuffix(" other").split(" ", 1)
            assert kind.partition("/")[0] in KINDS, (name, row)
            assert all(re.fullmatch(r"(\d+\.\d+(\.\d+)?)?", release) for release in (row.since, row.until)), (name, row)


def _numbers(release):
    return tuple(map(int, release.split(".")))


KINDS = {"boolean", "flag", "int", "float", "one", "list", "duration", "text", "callback"}


def test_each_runtime_has_tables():
    for traits in RUNTIMES.values():
        for sources in traits.settings.values():
            assert all(table(source.table) for source in sources if source.table)
        assert traits.settings


REPORTS = "delivery.report.only.error"  # takes only a bool of Python
SAMPLES = ["", "x", "-3", "0", "1", "5s", "1.5", "true", "yes", "T", "all", "All", "99999999999", "gzip", "earliest"]


@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_librdkafka_itself_agrees(role):
    """Ask the installed library about each name and many values: what it refuses, the table refuses."""
    base = {"log_level": 0} | ({"group.id": "x"} if role == "consumer" else {})
    client, release = (Producer if role == "producer" else Consumer), version("confluent-kafka")
    for name, rows in table(f"librdkafka-{role}").items():
        row = rows[-1]
        if (
            row.until
            or row.values.startswith(("text", "callback", "list/i"))
            or name in ("log_level", "group.id", REPORTS)
        ):
            continue
        for value in SAMPLES:
            try:
                client(base | {name: value})
            except KafkaException as e:
                said = e.args[0].str()
                if "Failed to create" not in said:  # that is about several settings
                    assert problem(f"librdkafka-{role}", release, name, value), (name, value, said)


def test_the_programs_for_franz_go_make_the_options_of_the_table():
    source = (TABLES.parents[1] / "clients" / "franz_go" / "src" / "settings.go").read_text(encoding="utf-8")
    makers = source[source.index("var makers") : source.index("var acks")]
    assert set(re.findall(r'^\t"(\w+)":', makers, re.MULTILINE)) == {n for n in table("franz-go") if n[0].isupper()}


@pytest.mark.parametrize(
    ("role", "config", "fits"),
    [
        ("producer", {"acks": 1, "enable.idempotence": True}, False),
        ("producer", {"acks": 1}, True),
        ("producer", {"enable.idempotence": True, "retries": 0}, False),
        ("producer", {"enable.idempotence": True, "max.in.flight": 6}, False),
        ("producer", {"enable.idempotence": True, "max.in.flight": 5}, True),
        ("producer", {"message.timeout.ms": 5, "linger.ms": 5}, False),
        ("producer", {"message.timeout.ms": 6, "linger.ms": 5}, True),
        ("producer", {"message.timeout.ms": 0, "linger.ms": 5}, True),
        ("consumer", {"max.poll.interval.ms": 6000}, False),
        ("consumer", {"max.poll.interval.ms": 6000, "session.timeout.ms": 6000}, True),
        ("consumer", {"max.poll.interval.ms": 6000, "group.protocol": "consumer"}, True),
    ],
)
def test_settings_that_contradict_each_other_are_refused_as_librdkafka_does(role, config, fits):
    base = {"log_level": 0} | ({"group.id": "x"} if role == "consumer" else {})
    raised = False
    try:
        (Producer if role == "producer" else Consumer)(base | config)
    except KafkaException:
        raised = True
    entry = {"name": "c", "config": config}
    text = {"title": "t", "topics": [{"name": "o"}], "producers": [{"name": "p", "topic": "o"}]}
    if role == "producer":
        text["producers"] = [{**entry, "topic": "o"}]
    else:
        text["consumers"] = [{**entry, "mode": "subscribe", "group": "g", "topics": ["o"]}]
    said = _refusal(text)
    assert raised is not fits
    assert ("does not start" in said) is not fits, said


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            {"delivery.timeout.ms": 20_000},
            "delivery.timeout.ms=20000 is below linger.ms=5 plus request",
        ),
        ({"delivery.timeout.ms": 20_000, "request.timeout.ms": 5000}, ""),
        ({"acks": 0, "enable.idempotence": "true"}, "acks=0 contradicts enable.idempotence"),
    ],
)
def test_settings_of_a_java_producer_that_contradict_each_other_are_refused(config, said):
    producer = {"name": "p", "topic": "o", "client": "java", "config": config}
    found = _refusal({"title": "t", "topics": [{"name": "o"}], "producers": [producer]})
    assert said in found and bool(said) is bool(found)


def _refusal(scenario):
    try:
        parse(yaml.safe_dump(scenario), "mine.yaml")
    except ScenarioError as e:
        return str(e)
    return ""
