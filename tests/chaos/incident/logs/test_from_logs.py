"""Scenario drafts from excerpts of real logs: 2.8.2 with ZooKeeper, 3.9.2 and 4.3.1 with KRaft."""

import gzip
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
from chaos.incident.logs.scenario_draft import draft_scenario
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
    for file, at in ((with_more, "23:59:00.000"), (ahead / "broker-3.log", "00:59:00.100")):
        day = "2026-11-21" if at.startswith("23") else "2026-11-22"
        with file.open("a") as f:
            f.write(
                f"{day}T{at}Z [main] [INFO] state.change.logger - [Broker id=0] Follower orders-0 starts at leader "
                "epoch 7 from offset 5 with partition epoch 9 and high watermark 5. Current leader is 2. Previous "
                "leader Some(3) and previous leader epoch was 6.\n"
            )
    skewed, text = draft(ahead)
    assert re.search(r"the clock of broker 3 is 3,(599|600)\.\d s ahead of that of broker 1", text)
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
        (lambda d: (d / "server.log").write_bytes(b"\x00\x01\x02" * 99), "server.log is not text"),
        (lambda d: (d / "server.log").write_bytes(bytes(range(1, 256)) * 9), "server.log: no line has a known layout"),
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
    ("name", "text", "message"),
    [
        ("a.properties", "???\n", "a.properties:1 is not a setting"),
        ("a.yaml", "a: [\n", r"a.yaml:\d+ is not valid YAML"),
        ("a.yaml", "- acks\n", "must be a mapping"),
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
