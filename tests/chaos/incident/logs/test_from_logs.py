"""Scenario drafts from excerpts of real logs: 2.8.2 with ZooKeeper, 3.9.2 and 4.3.1 with KRaft."""

import gzip
import json
import random
import re
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from chaos.cli import app
from chaos.errors import UsageError
from chaos.incident.logs.broker_timeline import _zone_offset
from chaos.incident.logs.draft import draft_scenario
from chaos.scenario.load import parse

LOGS = Path(__file__).parent / "data"
VERSIONS = {"2.8-zookeeper": "2.8.2", "3.9": "3.9.2", "4.3": "4.3.1"}


def draft(folder, *clients, **options):
    """Return the draft as a scenario, and its text."""
    text = draft_scenario(folder, client_settings=clients[0] if clients else None, **options)
    return parse(text, "draft"), text


@pytest.fixture
def clients(tmp_path):
    def write(text, name="app.properties"):
        file = tmp_path / name
        file.write_text(text)
        return file

    return write


@pytest.fixture
def changed(tmp_path):
    """Copy an excerpt, with a change of each line in the files that match."""

    def copy(version, pattern="*.log", change=lambda line: line):
        folder = tmp_path / version
        shutil.copytree(LOGS / version, folder)
        for file in folder.rglob(pattern):
            file.write_text("".join(change(line) for line in file.read_text().splitlines(keepends=True)))
        return folder

    return copy


def later(by):
    """Return a function that shifts the time of a line."""

    def move(line):
        return re.sub(
            r"^(\[?)(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)",
            lambda m: f"{m[1]}{(datetime.fromisoformat(m[2]) + by).isoformat(sep=m[2][10])}",
            line,
        )

    return move


@pytest.mark.parametrize("version", VERSIONS)
def test_the_death_of_a_leader_becomes_a_kill_of_the_leader(version):
    scenario, text = draft(LOGS / version)
    assert scenario.cluster.kafka == VERSIONS[version]
    assert scenario.cluster.metadata == ("zookeeper" if "zookeeper" in version else "kraft")
    assert [t.replication_factor for t in scenario.topics] == [3]
    (fault,) = scenario.faults
    assert (fault.kind, fault.target.leader_of) == ("broker.kill", "orders/0")
    assert fault.when.acked is not None and 3500 < fault.when.acked < 6000
    assert fault.heal.after > 1
    assert "TODO: killed, out of memory, or a lost machine?" in text
    assert {c.group for c in scenario.consumers} == {"billing"}


@pytest.mark.parametrize("version", VERSIONS)
def test_each_source_refers_to_its_line(version):
    _, text = draft(LOGS / version)
    quoted = re.findall(r"#   (\S+\.log):(\d+): (.{20,40}?) ", text)
    assert len(quoted) >= 3
    for file, line, quote in quoted:
        assert quote in (LOGS / version / file).read_text().splitlines()[int(line) - 1]
    for file, line in re.findall(r"(\S+\.log):(\d+)", text):
        assert int(line) <= len((LOGS / version / file).read_text().splitlines())


def test_a_loss_requires_acks_0_or_1(clients):
    without, text = draft(LOGS / "4.3")
    assert "TODO: acks, enable.idempotence, retries" in text
    assert [f.kind for f in without.faults] == ["broker.kill"]
    safe, _ = draft(LOGS / "4.3", clients("acks=all\n"))
    assert [f.kind for f in safe.faults] == ["broker.kill"]
    assert not safe.expect.lost_write.holds(1)
    lossy, text = draft(LOGS / "4.3", clients("acks=1\nmax.in.flight.requests.per.connection=1\n"))
    assert [(f.kind, f.target.describe()) for f in lossy.faults] == [
        ("broker.pause", "followers of orders/0"),
        ("broker.kill", "leader of orders/0"),
    ]
    assert lossy.expect.lost_write.holds(1) and not lossy.expect.lost_write.holds(0)
    assert lossy.producers[0].config["enable.idempotence"] is False
    assert "truncated 3,596 records from offset 4191 on" in " ".join(text.replace("#", "").split())


def test_local_times_are_in_the_zone_of_the_option():
    _, utc = draft(LOGS / "2.8-zookeeper")
    assert "TODO: the logs write times without a zone, and UTC was assumed" in utc
    _, berlin = draft(LOGS / "2.8-zookeeper", timezone="Europe/Berlin")
    assert "--timezone says Europe/Berlin" in berlin and "UTC was assumed" not in berlin
    assert "Incident of 2026-11-21 23:41:03 UTC" in utc and "Incident of 2026-11-21 22:41:03 UTC" in berlin
    _, with_zone = draft(LOGS / "4.3", timezone="Europe/Berlin")
    assert "23:46:50" in with_zone and "--timezone" not in with_zone


def test_a_clock_offset_is_corrected_if_it_occurs_twice(changed):
    straight, _ = draft(LOGS / "4.3")
    ahead = changed("4.3", "broker-3.log", later(timedelta(hours=1)))
    with_more = ahead / "broker-1.log"
    for node, file, at in ((1, with_more, "23:59:00.000"), (3, ahead / "broker-3.log", "00:59:00.100")):
        day = "2026-11-21" if at.startswith("23") else "2026-11-22"
        with file.open("a") as f:
            f.write(
                f"{day}T{at}Z [main] [INFO] state.change.logger - [Broker id={node}] Follower orders-0 starts at "
                "leader epoch 7 from offset 5 with partition epoch 9 and high watermark 5. Current leader is 2. "
                "Previous leader Some(3) and previous leader epoch was 6.\n"
            )
    skewed, text = draft(ahead)
    assert re.search(r"the clock of broker 3 is 3,(599|600)\.\d s ahead of the clock of broker 1", text)
    assert skewed.faults[0].heal.after == pytest.approx(straight.faults[0].heal.after, abs=0.5)
    assert re.search(r"# 23:47:00\.\d+  broker 3 leads orders/0, epoch 1", text)


def test_a_single_clock_difference_is_reported_but_not_corrected(changed):
    _, text = draft(changed("4.3", "broker-3.log", later(timedelta(hours=1))))
    assert "TODO: the times of brokers 1 and 3 differ by 3,599" in text
    assert "nothing is corrected" in " ".join(text.replace("#", "").split())


def test_rotated_and_compressed_files_are_read_as_one_log(changed):
    folder = changed("2.8-zookeeper")
    whole, _ = draft(folder)
    file = folder / "kafka-3" / "server.log"
    lines = file.read_text().splitlines(keepends=True)
    with gzip.open(file.with_name("server.log.1.gz"), "wt") as f:
        f.writelines(lines[:21])
    file.write_text("".join(lines[21:]))
    # a file without a broker id belongs to the broker of the other files in the folder
    oldest = "[2026-11-21 20:00:00,000] INFO Kafka version: 2.8.2 (org.apache.kafka.common.utils.AppInfoParser)\n"
    file.with_name("server.log.2").write_text(oldest)
    parts, text = draft(folder)
    assert parts == whole and "does not name its broker" not in text
    assert "kafka-3/server.log.1.gz" in text


def test_a_truncated_gzip_file_is_read_up_to_its_end(changed):
    folder = changed("4.3")
    file = folder / "broker-3.log"
    packed = gzip.compress((file.read_text() * 50).encode())
    file.unlink()
    (folder / "broker-3.log.gz").write_bytes(packed[: len(packed) * 2 // 3])
    _, text = draft(folder)
    assert re.search(r"TODO: broker-3.log.gz is cut short after line \d+", text)


HOSTILE = "<script>alert(1)</script>\x1b[31m'\": {x: [&a *b"


def test_names_in_logs_cannot_break_the_yaml(changed):
    folder = changed("4.3", change=lambda line: line.replace("group billing", f"group {HOSTILE}"))
    scenario, text = draft(folder)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    (group,) = (c for c in scenario.consumers if "script" in c.group)
    assert group.topics == ["orders"]
    assert all(line.lstrip().startswith("#") or "\\x1b" not in line for line in text.splitlines())
    assert yaml.safe_load(text)["faults"]


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda d: None, "no log of a broker in it"),
        (lambda d: (d / "server.log").write_bytes(b"\x00\x01\x02" * 99), "server.log: it is not text"),
        (lambda d: (d / "server.log").write_bytes(bytes(range(1, 127)) * 9), "server.log: no line has a known layout"),
        (lambda d: (d / "server.log").write_text('{"level": "INFO"}\n'), r"expected one of \[%d\] %p %m \(%c\)"),
        (lambda d: (d / "server.log").write_text(""), "no log of a broker in it"),
        (lambda d: (d / "server.log.gz").write_bytes(b"no gzip at all"), "server.log.gz cannot be decompressed"),
        (lambda d: (d / "app.log").write_text("[2026-01-01 00:00:00,000] INFO hello (com.shop.App)\n"), "no log of a"),
    ],
)
def test_a_file_that_is_no_log_is_rejected_by_name(tmp_path, write, message):
    write(tmp_path)
    with pytest.raises(UsageError, match=message) as caught:
        draft_scenario(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "CEST"])
def test_an_unknown_time_zone_is_rejected(zone):
    with pytest.raises(UsageError, match="such as UTC or Europe/Berlin"):
        draft_scenario(LOGS / "4.3", timezone=zone)


def test_settings_are_read_from_java_spring_and_yaml_without_secrets(clients):
    java = clients("# a comment\nproducer.acks = 0\nconsumer.auto.offset.reset: latest\nsasl.jaas.config=tops3cret\n")
    spring = clients(
        "spring.kafka.producer.acks=0\nspring.kafka.consumer.auto-offset-reset=latest\n", "spring.properties"
    )
    as_yaml = clients(
        "producer: {acks: 0}\nconsumer: {auto.offset.reset: latest, enable.auto.commit: true}\n", "c.yaml"
    )
    for file in (java, spring, as_yaml):
        scenario, text = draft(LOGS / "4.3", file)
        assert scenario.producers[0].config["acks"] == 0
        assert scenario.consumers[0].config["auto.offset.reset"] == "latest"
        assert "tops3cret" not in text
    assert scenario.consumers[0].commit.kind == "auto"
    assert "sasl.jaas.config" in draft(LOGS / "4.3", java)[1]


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ("session.timeout.ms=3000", {"group.min.session.timeout.ms": 3000}),
        ("session.timeout.ms=6000", {}),
        ("session.timeout.ms=3600000\nmax.poll.interval.ms=3600000", {"group.max.session.timeout.ms": 3600000}),
        ("max.poll.interval.ms=2000", {"group.min.session.timeout.ms": 2000}),  # librdkafka: no longer session
    ],
)
def test_the_brokers_of_a_draft_take_the_sessions_of_its_clients(clients, settings, limit):
    scenario, _ = draft(LOGS / "4.3", clients(f"{settings}\n"))
    found = {k: v for k, v in scenario.cluster.config.items() if "session.timeout" in k and k.startswith("group.m")}
    assert found == limit


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.properties", "???\n", "has no settings; write lines such as acks=all"),
        ("a.yaml", "a: [\n", r"a.yaml:\d+ is not valid YAML"),
        ("a.yaml", "- acks\n", "must be a mapping"),
        ("a.properties", "spring.kafka.producer.akcs=0\n", "did you mean spring.kafka.producer.acks?"),
        ("a.properties", "color=red\n", "no known setting of a producer or consumer"),
    ],
)
def test_invalid_settings_files_are_rejected(clients, name, text, message):
    with pytest.raises(UsageError, match=message):
        draft_scenario(LOGS / "4.3", client_settings=clients(text, name))


def test_the_command_writes_a_file_and_reports_invalid_input_as_usage_error(tmp_path):
    out = tmp_path / "incident.yaml"
    ran = CliRunner().invoke(app, ["incident", "from-logs", str(LOGS / "4.3"), "--out", str(out)])
    assert ran.exit_code == 0, ran.output
    assert parse(out.read_text(), "out").title.startswith("Incident of 2026-11-21 23:46:50 UTC: broker 2 died")
    for wrong in (["--out", str(tmp_path)], ["--clients", str(tmp_path / "none")], ["--timezone", "X/Y"]):
        refused = CliRunner().invoke(app, ["incident", "from-logs", str(LOGS / "4.3"), *wrong])
        assert isinstance(refused.exception, UsageError) and refused.exception.exit_code == 2


def test_a_log_without_a_broker_id_gets_a_free_number(tmp_path):
    (tmp_path / "server.log").write_text("[2026-01-01 00:00:00,000] INFO Kafka version: 7.5.0-ccs (a.AppInfoParser)\n")
    scenario, text = draft(tmp_path)
    assert "TODO: server.log does not name its broker; it is read as the log of broker 1" in text
    assert "TODO: which release? 7.5.0-ccs is not one of Apache Kafka's (server.log:1)" in text
    assert scenario.cluster.brokers == 1 and scenario.faults == []


@pytest.mark.parametrize("version", VERSIONS)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_incomplete_logs_give_a_valid_scenario(tmp_path_factory, version, seed):
    """Missing lines cause more TODOs, but never an invalid scenario."""
    chance = random.Random(seed)
    folder = tmp_path_factory.mktemp("part")
    for file in sorted((LOGS / version).rglob("*.log")):
        if chance.random() < 0.8:
            target = folder / file.relative_to(LOGS / version)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("".join(x for x in file.read_text().splitlines(keepends=True) if chance.random() < 0.6))
    try:
        text = draft_scenario(folder)
    except UsageError as e:
        assert "no log of a broker in it" in str(e) or "no line has a known layout" in str(e)
    else:
        assert parse(text, "draft").cluster.brokers >= 1


def test_broker_0_is_a_broker():
    scenario, text = draft(LOGS / "broker-zero")
    assert scenario.cluster.brokers == 3 and "1 is 0, 2 is 1, 3 is 2" in text
    (fault,) = scenario.faults
    assert (fault.kind, fault.target.leader_of) == ("broker.kill", "bills/0")
    assert "broker 0 died; it led bills/0, and coordinated group depot" in " ".join(text.replace("#", "").split())


def test_several_brokers_in_one_file_are_separated():
    scenario, _ = draft(LOGS / "three-brokers-in-one-file")
    (fault,) = scenario.faults
    assert (scenario.cluster.brokers, fault.kind, fault.target.leader_of) == (3, "broker.stop", "bills/0")
    assert (fault.when.acked, fault.heal.after) == (900, 12)
    assert "broker 3 was stopped" in scenario.title


def test_a_broker_that_returns_with_another_id_is_gone():
    scenario, text = draft(LOGS / "broker-returns-with-another-id" / "server.log")
    assert (scenario.cluster.brokers, scenario.cluster.metadata) == (2, "zookeeper")
    assert [t.name for t in scenario.topics] == ["meter-readings"]
    (fault,) = scenario.faults
    assert (fault.kind, fault.target.leader_of, fault.heal) == ("broker.kill", "meter-readings/0", None)
    words = " ".join(text.replace("#", "").split())
    assert "broker 1001 is gone and broker 1002 is new" in words
    assert "no leader could be elected for meter-readings/0" in words


def _json(layout):
    """Return a function that writes a line of Kafka's own layout as JSON."""

    def convert(line):
        match = re.fullmatch(r"\[(\S+) (\S+),(\d+)\] (\w+) (.*) \(([\w.$]+)\)", line)
        if match is None:
            return None
        day, clock, millis, level, message, logger = match.groups()
        at = datetime.fromisoformat(f"{day}T{clock}+00:00")
        seconds = int(at.timestamp())
        objects = {
            "log4j2": {
                "instant": {"epochSecond": seconds, "nanoOfSecond": int(millis) * 10**6},
                "level": level,
                "loggerName": logger,
                "message": message,
            },
            "ecs": {
                "@timestamp": f"{day}T{clock}.{millis}Z",
                "log.level": level,
                "message": message,
                "log": {"logger": logger},
            },
            "logstash": {
                "@timestamp": f"{day}T{clock}.{millis}+00:00",
                "level": level,
                "message": message,
                "logger_name": logger,
            },
            "millis": {
                "timeMillis": seconds * 1000 + int(millis),
                "level": level,
                "loggerName": logger,
                "message": message,
            },
        }
        return json.dumps(objects[layout])

    return convert


def at(line):
    """Return the time of a line as a collector in UTC writes it."""
    found = re.match(r"\[(\S+) (\S+),(\d+)\]", line)
    return f"{found[1]}T{found[2]}.{found[3]}456789Z" if found else "2026-03-02T08:00:00Z"


COLLECTED = {
    "compose": lambda line: f"\x1b[36mkafka-1  |\x1b[0m {line}",
    "compose with times": lambda line: f"kafka-1  | {at(line)} {line}",
    "kubectl": lambda line: f"[pod/main-kafka-0/kafka] {line}",
    "kubectl with times": lambda line: f"{at(line)} {line}",
    "cri": lambda line: f"{at(line)} stdout F {line}",
    "stern": lambda line: f"main-kafka-0 kafka {line}",
    "syslog": lambda line: f"Feb 13 04:11:02 host-a kafka-server-start.sh[812]: {line}",
    "journalctl": lambda line: f"{at(line)} host-a kafka[812]: {line}",
    "docker": lambda line: json.dumps({"log": f"{line}\n", "stream": "stdout", "time": at(line)}),
    "crlf": lambda line: f"{line}\r",
    **{layout: _json(layout) for layout in ("log4j2", "ecs", "logstash", "millis")},
}


@pytest.mark.parametrize("collector", COLLECTED)
@pytest.mark.parametrize("folder", ["three-brokers-in-one-file", "broker-returns-with-another-id"])
def test_a_collector_changes_nothing(tmp_path, collector, folder):
    lines = (LOGS / folder / "server.log").read_text().splitlines()
    written = [x for line in lines if (x := COLLECTED[collector](line)) is not None]
    (tmp_path / "kafka.log").write_text("\n".join(written) + "\n")
    plain, _ = draft(LOGS / folder)
    assert draft(tmp_path)[0] == plain


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_byte_order_mark_names_the_encoding(tmp_path, encoding):
    text = (LOGS / "three-brokers-in-one-file" / "server.log").read_text()
    (tmp_path / "server.log").write_text(text, encoding=encoding)
    assert draft(tmp_path)[0] == draft(LOGS / "three-brokers-in-one-file")[0]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_rotated_files_may_be_in_any_order_and_cut_anywhere(tmp_path, order):
    text = (LOGS / "three-brokers-in-one-file" / "server.log").read_text()
    lines = text.splitlines(keepends=True)
    parts = ["".join(lines[:9]), "".join(lines[9:15]), "".join(lines[15:])]
    for i, part in zip(order, parts, strict=True):
        # the first bytes of the next entry end one file, as after a copy that was cut off
        (tmp_path / f"server.log.{i}").write_text(f",015] INFO cut\n{part}[2026-03-02 08")
    scenario, _ = draft(tmp_path)
    assert [(f.kind, f.target.leader_of) for f in scenario.faults] == [("broker.stop", "bills/0")]
    assert scenario.cluster.brokers == 3


def test_a_log_with_zero_bytes_after_a_power_failure_is_read(tmp_path):
    text = (LOGS / "broker-returns-with-another-id" / "server.log").read_text().splitlines(keepends=True)
    (tmp_path / "server.log").write_text("".join(text[:7]) + "\0" * 5000 + "\n" + "".join(text[7:]))
    assert draft(tmp_path)[0] == draft(LOGS / "broker-returns-with-another-id")[0]


@pytest.mark.parametrize("hours", [1, -5, 5.5])
def test_logs_in_different_time_zones_are_put_on_one_clock(tmp_path, hours):
    shutil.copytree(LOGS / "broker-zero", tmp_path, dirs_exist_ok=True)
    moved = tmp_path / "kafka-1" / "server.log"
    lines = moved.read_text().splitlines(keepends=True)
    moved.write_text("".join(map(later(timedelta(hours=hours)), lines)))
    scenario, text = draft(tmp_path)
    words = " ".join(text.replace("#", "").split())
    assert "the log of broker 1 is in another time zone than the log of broker 0" in words
    assert f"its times are corrected by {-hours:+g} h" in words
    assert scenario.faults[0].target.leader_of == "bills/0" and len(scenario.faults) == 1


def test_the_time_of_a_collector_gives_the_zone(tmp_path):
    lines = (LOGS / "three-brokers-in-one-file" / "server.log").read_text().splitlines()
    written = [f"{at(line).replace('T08', 'T06')} {line}" for line in lines]
    (tmp_path / "a.log").write_text("\n".join(written) + "\n")
    _, text = draft(tmp_path)
    assert "Incident of 2026-03-02 06:02:00 UTC" in text and "without a zone" not in text


def test_an_unknown_file_beside_logs_is_named_and_left_out(tmp_path):
    shutil.copytree(LOGS / "broker-zero", tmp_path, dirs_exist_ok=True)
    (tmp_path / "00000000000000000000.log").write_bytes(bytes(400))
    (tmp_path / "app.log").write_text("12:00:01 something else\n")
    scenario, text = draft(tmp_path)
    assert len(scenario.faults) == 1
    assert "TODO: app.log: no line has a known layout" in text and "it is left out" in text


def test_logs_of_clients_alone_give_a_timeline_and_say_what_is_missing(tmp_path):
    line = "%4|1772438400.100|MAXPOLL|billing-1#consumer-1| [thrd:main]: Application maximum poll interval exceeded\n"
    (tmp_path / "client.log").write_text(line)
    scenario, text = draft(tmp_path)
    assert scenario.faults == [] and "TODO: how many brokers?" in text
    assert "client billing-1 did not poll within max.poll.interval.ms  client.log:1" in text


def test_entries_that_two_files_of_a_broker_share_count_once(tmp_path):
    shutil.copytree(LOGS / "broker-zero", tmp_path, dirs_exist_ok=True)
    for server in tmp_path.rglob("server.log"):
        shutil.copy(server, server.with_name("kafkaServer.out"))
    assert draft(tmp_path)[0] == draft(LOGS / "broker-zero")[0]


def test_other_services_of_a_compose_file_are_no_brokers(tmp_path):
    lines = (LOGS / "broker-returns-with-another-id" / "server.log").read_text().splitlines()
    others = [
        "zk-1     | [2026-02-13 04:11:01,000] INFO binding to port (org.apache.zookeeper.server.ServerCnxn)",
        "app-2    | 2026-02-13 04:11:05,000 INFO [main] com.shop.App - hello",
        "web-3    | GET / 200",
    ]
    written = [f"kafka-1  | {line}" for line in lines]
    (tmp_path / "server.log").write_text("\n".join([*others, *written]) + "\n")
    assert draft(tmp_path)[0] == draft(LOGS / "broker-returns-with-another-id")[0]


def test_a_pause_begins_when_the_broker_stops_to_answer_not_when_it_last_logged(tmp_path):
    """A broker without work wrote nothing for 40 s, then it froze for 25 s."""
    shutil.copytree(LOGS / "broker-zero", tmp_path, dirs_exist_ok=True)
    frozen = tmp_path / "kafka-0" / "server.log"
    lines = frozen.read_text().splitlines(keepends=True)
    awake = (
        "2026-03-02 08:02:25,900 INFO [BrokerLifecycleManager id=0] Unable to send a heartbeat because the RPC got "
        "timed out before it could be sent. (kafka.server.BrokerLifecycleManager) [x]\n"
    )
    frozen.write_text("".join([*lines[:6], awake]))
    (fault,) = draft(tmp_path)[0].faults
    assert (fault.kind, fault.heal.after) == ("broker.pause", 25)


@pytest.mark.parametrize("version", ["3.9", "4.3"])
def test_a_broker_with_a_first_start_that_is_cut_off_still_dies(tmp_path, version):
    shutil.copytree(LOGS / version, tmp_path / "logs")
    for file in (tmp_path / "logs").glob("*.log"):
        lines = file.read_text().splitlines()
        named = next(i for i, line in enumerate(lines) if "Starting broker" in line)
        file.write_text("\n".join(lines[named + 1 :]) + "\n")
    scenario, _ = draft(tmp_path / "logs")
    assert [fault.kind for fault in scenario.faults] == ["broker.kill"]


@pytest.mark.parametrize("version", ["3.9", "4.3"])  # the excerpt of 2.8 has no named line of the broker that returns
def test_brokers_that_start_together_may_share_a_file(tmp_path, version):
    """Lines without a name, such as the first ones of a process, belong to one broker each."""
    found: list[list[str]] = []
    for file in sorted((LOGS / version).rglob("*.log")):
        for line in file.read_text().splitlines():
            if re.match(r"\[?\d{4}-\d\d-\d\d", line):
                found.append([line])
            elif found:
                found[-1].append(line)
    found.sort(key=lambda entry: re.sub(r"\D", "", entry[0])[:17])
    (tmp_path / "all.log").write_text("\n".join(line for entry in found for line in entry) + "\n")
    (alone,), (merged,) = draft(LOGS / version)[0].faults, draft(tmp_path)[0].faults
    assert (merged.kind, merged.target) == (alone.kind, alone.target)


@pytest.mark.parametrize(
    ("late_s", "hours"),
    [
        ([0.1, 0.2, 1.9], 2),  # every change
        ([0.1, 0.2, 180, 0.3, 175, 0.1], 2),  # a node that starts logs some late
        ([0.1, 0.2, -7200], 0),  # one at the same time: no zone
        ([0.1, 180, 175, 170], 0),  # most are late
    ],
)
def test_the_difference_of_zones_is_that_of_most_changes_at_several_moments(late_s: list[float], hours: int) -> None:
    pairs = [(n * 10_000_000, n * 10_000_000 + round((7200 + late) * 1e6)) for n, late in enumerate(late_s)]
    assert _zone_offset(pairs) == hours * 3_600_000_000
    burst = [(n, n + round((7200 + late) * 1e6)) for n, late in enumerate([0.1, 0.2, 0.1, 180])]
    assert _zone_offset(burst) == 0
