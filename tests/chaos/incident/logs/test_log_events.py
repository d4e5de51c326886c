"""Entries, events, outages, group changes and losses, each with matching and near-miss log lines."""
# ruff: noqa: E501 - lines of logs are quoted as they are

from zoneinfo import ZoneInfo

import pytest

from chaos.incident.logs import events as e
from chaos.incident.logs.broker_failures import OutageKind, find_outages, find_shorter_logs
from chaos.incident.logs.broker_timeline import read_timeline
from chaos.incident.logs.client_settings import ClientSettings
from chaos.incident.logs.cluster_state import read_state
from chaos.incident.logs.draft import draft_scenario
from chaos.incident.logs.entries import LAYOUTS, Clock, Entry, entries, is_entry
from chaos.incident.logs.events import PATTERNS, events_of
from chaos.incident.logs.fault_plan import find_member_faults
from chaos.kafka.partition import TopicPartition
from chaos.scenario.load import parse

UTC = ZoneInfo("UTC")
GC = "org.apache.kafka.coordinator.group.GroupMetadataManager"
GC4 = "[GroupCoordinator id=1 topic=__consumer_offsets partition=9] "
OLD_GC = "kafka.coordinator.group.GroupCoordinator"
RCM = "org.apache.kafka.controller.ReplicationControlManager"

MESSAGES = [
    ("kafka.Kafka$", "Exiting Kafka due to fatal exception", e.FatalError, {}),
    ("org.apache.kafka.common.utils.LoggingSignalHandler", "Terminating process due to signal SIGTERM", e.SignalReceived,
     {"signal": "SIGTERM"}),
    ("kafka.server.KafkaServer", "[KafkaServer id=3] Starting controlled shutdown", e.ShuttingDown, {}),
    ("kafka.server.BrokerServer", "[BrokerServer id=1] Transition from STARTED to SHUTTING_DOWN", e.ShuttingDown, {}),
    (RCM, "[QuorumController id=2] Fencing broker 1 because its session has timed out.", e.BrokerFenced, {"broker": 1}),
    ("kafka.controller.KafkaController", "[Controller id=1] Newly added brokers: , deleted brokers: 3, bounced brokers: 2,"
     " all live brokers: 1,2", e.BrokersChanged, {"added": (), "deleted": (3,), "bounced": (2,), "live": (1, 2)}),
    ("kafka.zookeeper.ZooKeeperClient", "[ZooKeeperClient Kafka server] Session expired.", e.HeartbeatFailed, {}),
    ("org.apache.kafka.server.BrokerLifecycleManager", "[BrokerLifecycleManager id=1] Unable to send a heartbeat because "
     "the RPC got timed out before it could be sent.", e.HeartbeatFailed, {}),
    ("state.change.logger", "[Controller id=1 epoch=4] Changed partition orders-0 from OfflinePartition to OnlinePartition "
     "with state LeaderAndIsr(leader=2, leaderEpoch=3, isr=List(2), zkVersion=5)", e.LeaderChosen,
     {"partition": TopicPartition.parse("orders/0"), "leader": 2, "leader_epoch": 3, "isr": (2,)}),
    ("kafka.cluster.Partition", "[Partition a-b.c-12 broker=1] Shrinking ISR from 1,2,3 to 1. Leader: (highWatermark: 10, "
     "endOffset: 15). Out of sync replicas: (brokerId: 2, endOffset: 10)", e.IsrShrunk,
     {"partition": TopicPartition.parse("a-b.c/12"), "before": (1, 2, 3), "isr": (1,), "end_offset": 15}),
    (RCM, "[QuorumController id=3] UNCLEAN partition change for orders-0 with topic ID t2z: isr: [1] -> [2], leader: 1 -> "
     "2, leaderRecoveryState: RECOVERED -> RECOVERING", e.UncleanElection,
     {"partition": TopicPartition.parse("orders/0"), "leader": 2}),
    ("org.apache.kafka.controller.PartitionChangeBuilder", "Setting new leader for topicId t2z, partition 0 to 2 using an "
     "unclean election. Previous partition: x", e.UncleanElection, {"topic_id": "t2z", "number": 0, "leader": 2}),
    ("kafka.log.Log", "[Log partition=orders-0, dir=/data] Truncating to offset 3123", e.Truncated,
     {"partition": TopicPartition.parse("orders/0"), "offset": 3123}),
    (OLD_GC, "[GroupCoordinator 3]: Elected as the group coordinator for partition 9 in epoch 4", e.CoordinatorLoaded,
     {"partition": TopicPartition.parse("__consumer_offsets/9")}),
    ("kafka.coordinator.transaction.TransactionCoordinator", "[TransactionCoordinator id=1] Resigned as the txn coordinator"
     " for partition 4 at epoch 1", e.CoordinatorUnloaded, {"partition": TopicPartition.parse("__transaction_state/4")}),
    (OLD_GC, "[GroupCoordinator 1]: Preparing to rebalance group my group in state PreparingRebalance with old generation 4"
     " (__consumer_offsets-9) (reason: removing member c-1 on heartbeat expiration)", e.RebalanceBegan,
     {"group": "my group", "generation": 4, "reason": "removing member c-1 on heartbeat expiration"}),
    (GC, GC4 + "Stabilized group billing generation 2 with 1 members.", e.RebalanceDone, {"generation": 2, "members": 1}),
    (GC, GC4 + "Member a/1-x in group billing has failed, removing it from the group.", e.MemberFailed,
     {"group": "billing", "member": "a/1-x"}),
    (GC, GC4 + "[GroupId billing] Member uuid fenced from the group because the member session expired.", e.MemberFailed,
     {"group": "billing", "reason": "the member session expired"}),
    (OLD_GC, "[GroupCoordinator 1]: Member[group.instance.id None, member.id c-1] in group billing has left, removing it "
     "from the group", e.MemberLeft, {"group": "billing", "member": "c-1"}),
    (OLD_GC, "[GroupCoordinator 1]: Member MemberMetadata(memberId=c-1, groupInstanceId=None, clientId=c) has left group "
     "billing through explicit `LeaveGroup`; client reason: the consumer is being closed", e.MemberLeft,
     {"group": "billing", "member": "c-1", "reason": "the consumer is being closed"}),
    (GC, GC4 + "[Group billing] Member c-1 has left group through explicit `LeaveGroup` request; client reason: consumer "
     "poll timeout has expired.", e.MemberLeft, {"reason": "consumer poll timeout has expired."}),
    ("kafka.coordinator.transaction.TransactionCoordinator", "[TransactionCoordinator id=1] Initialized transactionalId "
     "pay-1 with producerId 15002 and producer epoch 7 on partition __transaction_state-46", e.TransactionalIdTaken,
     {"transactional_id": "pay-1", "epoch": 7}),
    ("kafka.coordinator.transaction.TransactionCoordinator", "[TransactionCoordinator id=1] Completed rollback of ongoing "
     "transaction for transactionalId pay-1 due to timeout", e.TransactionTimedOut, {"transactional_id": "pay-1"}),
    ("kafka.server.ReplicaManager", "[ReplicaManager broker=1] Error processing append operation on partition orders-0\n"
     "org.apache.kafka.common.errors.InvalidProducerEpochException: Epoch of producer 15 at offset 9 in orders-0 is 0, "
     "which is smaller than the last seen epoch 1", e.ProducerFenced, {"producer_id": 15}),
    ("kafka.server.ReplicaManager", "[ReplicaManager broker=2] Stopping serving replicas in dir /data with uuid Some(Tmx) "
     "because the log directory has failed.", e.DiskFailed, {"directory": "/data"}),
    ("kafka.log.LogManager", "Shutdown broker because all log dirs in /data have failed", e.DiskFailed, {}),
]  # fmt: skip

NEAR_MISSES = [
    (
        "kafka.log.Log",
        "[Log partition=orders-0, dir=/data] Truncating to 0 has no effect as the largest offset in the log",
    ),
    ("kafka.server.KafkaConfig", "Fencing broker 1 because its session has timed out."),
    (RCM, "[QuorumController id=2] Unfenced broker 1 has requested and been granted fencing"),
    (GC, GC4 + "Pending member c-1 in group billing has been removed after session timeout expiration."),
    ("kafka.log.LogManager", "Skipping recovery of 3 logs from /data since clean shutdown file was found"),
    ("state.change.logger", "[Broker id=1] Skipped the become-leader state change for orders-0 with topic id Some(x)"),
]


def events(logger, message, level="INFO"):
    return list(events_of(Entry(1, 1, "server.log", 7, level, logger, message)))


@pytest.mark.parametrize(("logger", "message", "event", "fields"), MESSAGES, ids=lambda v: getattr(v, "__name__", None))
def test_a_message_of_kafka_is_an_event(logger, message, event, fields):
    (event_,) = events(logger, message, "ERROR")
    assert type(event_) is event
    assert {key: getattr(event_, key) for key in fields} == fields
    assert str(event_.source) == "server.log:7" and event_.source.text == message.split("\n")[0]


@pytest.mark.parametrize(("logger", "message"), NEAR_MISSES)
def test_a_similar_message_is_no_event(logger, message):
    assert events(logger, message) == []


def test_each_pattern_names_its_classes_and_sets_only_fields_of_its_event():
    for pattern in PATTERNS:
        fields = set(pattern.event.model_fields) | {"number"}
        assert set(pattern.text.groupindex) | set(pattern.fixed) <= fields, pattern
        assert pattern.classes and pattern.since


LINES = {
    "Kafka's own": "[2026-01-02 03:04:05,678] WARN [Broker id=1] hello (state.change.logger)",
    "Aftershock's": "2026-01-02T03:04:05.678Z [main] [WARN] state.change.logger - [Broker id=1] hello",
    "Strimzi's": "2026-01-02 03:04:05,678 WARN [Broker id=1] hello (state.change.logger) [main]",
    "log4j's classic": "2026-01-02 03:04:05,678 WARN  [main] state.change.logger:12 - [Broker id=1] hello",
}


@pytest.mark.parametrize("name", LINES)
def test_each_layout_gives_the_same_entry(name):
    lines = [LINES[name], "java.lang.Exception: x (in y)", "\tat a.B(C.java:1)"]
    assert [layout.name for layout in LAYOUTS if layout.first.match(lines[0])] == [name] and is_entry(lines[0])
    (entry,), _ = map(list, entries(["a banner", *lines], UTC))
    assert (entry.at_us, entry.line, entry.level) == (1767323045678000, 2, "WARN")
    assert entry.logger == "state.change.logger"
    assert entry.message == "[Broker id=1] hello\njava.lang.Exception: x (in y)\n\tat a.B(C.java:1)"
    assert {layout.name for layout in LAYOUTS} == set(LINES)


def test_the_logger_may_be_several_lines_below():
    lines = ["[2026-01-02 03:04:05,678] INFO KafkaConfig values: ", "\tbroker.id = 4", " (kafka.server.KafkaConfig)"]
    (entry,), _ = map(list, entries(lines, UTC))
    assert (entry.logger, entry.message) == ("kafka.server.KafkaConfig", "KafkaConfig values: \n\tbroker.id = 4\n")


def test_times_increase_in_the_hour_that_occurs_twice():
    clock = Clock(ZoneInfo("Europe/Berlin"))
    times = [
        "2026-10-25 01:59:00",
        "2026-10-25 02:58:00",
        "2026-10-25 02:01:00",
        "2026-10-25 02:59:00",
        "2026-10-25 03:01:00",
    ]
    instants = [clock.instant(at, None) for at in times]
    assert instants == sorted(instants)
    assert (instants[-1] - instants[0]) // 60_000_000 == 122
    assert Clock(UTC).instant("2026-01-01 00:00:00", "+0200") == Clock(UTC).instant("2025-12-31 22:00:00", None)


START = "Registered kafka:type=kafka.Log4jController MBean (kafka.utils.Log4jControllerRegistration$)"
BUSY = "[Broker id={n}] busy (state.change.logger)"


def read(tmp_path, **logs):
    """Write a log for each broker from pairs of seconds and text, and return the timeline."""
    for name, lines in logs.items():
        node = name[-1]
        log = [
            f"[2026-01-01 00:{s // 60:02d}:{s % 60:02d},000] INFO {text.format(n=node)}" for s, text in sorted(lines)
        ]
        (tmp_path / f"kafka-{node}").mkdir()
        (tmp_path / f"kafka-{node}" / "server.log").write_text("\n".join(log) + "\n")
    return read_timeline(tmp_path, UTC)


FENCED = f"[QuorumController id=1] Fencing broker 2 because its session has timed out. ({RCM})"
UNFENCED = (
    "[QuorumController id=1] The request from broker 2 to unfence has been granted because x (a.BrokerHeartbeatManager)"
)
STOPPING = "[KafkaServer id=2] shutting down (kafka.server.KafkaServer)"
DISK = "Shutdown broker because all log dirs in /data have failed (kafka.log.LogManager)"
NO_HEARTBEAT = "[BrokerLifecycleManager id=2] Unable to send a heartbeat because the RPC got timed out before (a.BrokerLifecycleManager)"
CONTROLLER = [(0, START), (20, FENCED), (40, UNFENCED), *((s, BUSY) for s in range(0, 60))]


def busy(*ranges):
    return [(s, BUSY) for begin, end in ranges for s in range(begin, end)]


@pytest.mark.parametrize(
    ("lines", "kind", "span"),
    [
        ([(0, START), *busy((1, 11)), (30, START), *busy((31, 60))], OutageKind.DIED, (11, 30)),
        ([(0, START), *busy((1, 11)), (10, STOPPING), (30, START), *busy((31, 60))], OutageKind.STOPPED, (10, 30)),
        ([(0, START), *busy((1, 11)), (10, DISK), (30, START), *busy((31, 60))], OutageKind.DISK, (10, 30)),
        ([(0, START), *busy((1, 11), (38, 60))], OutageKind.FROZEN, (11, 38)),
        ([(0, START), *busy((1, 60)), (14, NO_HEARTBEAT)], OutageKind.CUT_OFF, (14, 40)),
        ([(0, START), *busy((1, 11))], OutageKind.DIED, (11, None)),
    ],
)
def test_the_kind_and_span_of_an_outage(tmp_path, lines, kind, span):
    (outage,) = find_outages(timeline := read(tmp_path, kafka_1=CONTROLLER, kafka_2=lines))
    seconds = [None if at is None else (at - timeline.began_us) / 1e6 for at in (outage.at_us, outage.back_us)]
    assert (outage.broker, outage.kind, *seconds) == (2, kind, *span)


def test_a_fenced_broker_without_a_log_is_gone(tmp_path):
    (outage,) = find_outages(read(tmp_path, kafka_1=CONTROLLER))
    assert (outage.broker, outage.kind) == (2, OutageKind.GONE)


def test_logs_that_end_together_show_no_outage(tmp_path):
    quiet = [(s, text) for s, text in CONTROLLER if text not in (FENCED, UNFENCED)]
    assert find_outages(read(tmp_path, kafka_1=quiet, kafka_2=[(0, START), *busy((1, 60))])) == []


UUID = "-0bc5ccb5-fce9-4633-b507-5c23b41b06f"


@pytest.mark.parametrize(
    ("departure", "kind"),
    [
        ("Member c2{u}2 in group g has failed, removing it from the group.", "consumer.crash"),
        ("[Group g] Member c2{u}2 has left group through explicit `LeaveGroup` request; client reason: not provided",
         "consumer.leave"),
        ("[Group g] Member c2{u}2 has left group through explicit `LeaveGroup` request; client reason: consumer poll "
         "timeout has expired.", "consumer.slow"),
    ],
)  # fmt: skip
def test_the_reason_why_a_member_left(tmp_path, departure, kind):
    joins = (
        "Dynamic member with unknown member id joins group g in Stable state. Created a new member id {} and requesting"
    )
    group = [
        (1, joins.format(f"c1{UUID}1")),
        (1, joins.format(f"c2{UUID}2")),
        (2, "Stabilized group g generation 1 with 2 members."),
        (20, departure.replace("{u}", UUID)),
        (23, "Stabilized group g generation 2 with 1 members."),
        (30, joins.format(f"c2{UUID}3")),
        (31, joins.format(f"c3{UUID}4")),
        (33, "Stabilized group g generation 3 with 3 members."),
    ]
    timeline = read(tmp_path, kafka_1=[(0, START), *((s, f"{GC4}{text} ({GC})") for s, text in group), *busy((34, 59))])
    first, second = find_member_faults(timeline, read_state(timeline), ClientSettings())
    assert first.comments[0].startswith("member c2 of group g: ") and second.comments == [
        "member c3 of group g: it is new"
    ]
    assert (first.kind, first.target, (first.back_us - first.at_us) / 1e6) == (kind, {"member": ("g", 2)}, 10)
    assert second.kind == "consumer.join"


def test_a_broker_that_was_cut_off_is_isolated(tmp_path):
    read(tmp_path, kafka_1=CONTROLLER, kafka_2=[(0, START), *busy((1, 60)), (14, NO_HEARTBEAT)])
    scenario = parse(text := draft_scenario(tmp_path), "draft")
    (fault,) = scenario.faults
    assert (fault.kind, fault.target.broker, scenario.cluster.driver) == ("broker.isolate", 2, "process")
    assert "TODO: the logs name no topic; this one is an example" in text
    assert "kafka-2/server.log:16: [BrokerLifecycleManager id=2] Unable" in text


def test_members_without_client_ids_are_paired_in_order(tmp_path):
    group = [
        (1, "Member a joins the consumer group using the consumer protocol."),
        (2, "Member b joins the consumer group using the consumer protocol."),
        (20, "Member a fenced from the group because the member session expired."),
        (30, "Member c joins the consumer group using the consumer protocol."),
    ]
    timeline = read(
        tmp_path, kafka_1=[(0, START), *((s, f"{GC4}[GroupId g] {w} ({GC})") for s, w in group), *busy((31, 59))]
    )
    state = read_state(timeline)
    (fault,) = find_member_faults(timeline, state, ClientSettings())
    assert fault.comments == ["member a of group g: its session timed out"]
    assert (fault.kind, (fault.back_us - fault.at_us) / 1e6) == ("consumer.crash", 10)
    assert state.groups["g"].members == 2 and state.groups["g"].consumer_protocol


def test_a_group_of_the_preview_of_kip_848_becomes_a_classic_group(tmp_path):
    """Kafka 3.7 to 3.9 had a preview of the protocol, which scenarios allow from 4.0 on."""
    joined = f"{GC4}[GroupId g] Member a joins the consumer group using the consumer protocol. ({GC})"
    version = "Kafka version: 3.9.2 (org.apache.kafka.common.utils.AppInfoParser)"
    read(tmp_path, kafka_1=[(0, START), (1, version), (2, joined), *busy((3, 9))])
    scenario = parse(text := draft_scenario(tmp_path), "draft")
    assert (scenario.cluster.kafka, scenario.consumers[0].config) == ("3.9.2", {"auto.offset.reset": "earliest"})
    assert "TODO: this group had group.protocol=consumer (KIP-848), which needs Kafka 4.0" in text


LEADS = "Leader orders-0 with topic id Some(x) starts at leader epoch {e} from offset {o} with partition epoch 0, high watermark 0, ISR [1,2], adding replicas [] and removing replicas [] . Previous leader {p} (state.change.logger)"
LOADED = "Completed load of Log(dir=/data/orders-0, topicId=x, topic=orders, partition=0, logEndOffset={o}) with 1 segments (kafka.log.LogManager)"
CREATED = "Created log for partition orders-0 in /data/orders-0 with properties {{}} (kafka.log.LogManager)"


@pytest.mark.parametrize(
    ("back_with", "wiped"),
    [(LOADED.format(o=60), [False]), (CREATED, [True]), (LOADED.format(o=100), []), (LOADED.format(o=140), [])],
)
def test_a_leader_with_a_shorter_log_lost_its_power_or_its_disk(tmp_path, back_with, wiped):
    first = LEADS.format(e=0, o=0, p="None and previous leader epoch was -1.")
    second = LEADS.format(e=1, o=100, p="Some(2) and previous leader epoch was 0.")
    timeline = read(
        tmp_path,
        kafka_1=[*CONTROLLER, (21, second)],
        kafka_2=[(0, START), (1, first), *busy((2, 11)), (30, START), (31, back_with), *busy((32, 60))],
    )
    assert [s.wiped for s in find_shorter_logs(timeline, find_outages(timeline))] == wiped
    kind = {(): "broker.kill", (True,): "broker.wipe", (False,): "log.truncate"}[tuple(wiped)]
    (fault,) = parse(draft_scenario(tmp_path), "draft").faults
    assert (fault.kind, fault.target.leader_of) == (kind, "orders/0")


def test_truncation_on_a_follower_is_no_loss(tmp_path):
    """Only records of a leader are acknowledged; a follower ahead of the next leader truncates its log."""
    leads = LEADS.format(e=1, o=100, p="Some(2) and previous leader epoch was 0.")
    cut = "[UnifiedLog partition=orders-0, dir=/data] Truncating to offset 90 (kafka.log.UnifiedLog)"
    (tmp_path / "acks").write_text("acks=1\n")
    logs = tmp_path / "logs"
    logs.mkdir()
    read(
        logs,
        kafka_1=[*CONTROLLER, (21, leads)],
        kafka_2=[(0, START), *busy((1, 11))],
        kafka_3=[(0, START), *busy((1, 60)), (22, cut)],
    )
    scenario = parse(draft_scenario(logs, client_settings=tmp_path / "acks"), "draft")
    assert [f.kind for f in scenario.faults] == ["broker.kill"]
    assert not scenario.expect.lost_write.holds(1)
