"""Share groups in a scenario: what is refused when it is loaded, and with which reason."""

from __future__ import annotations

import pytest

from chaos.errors import ScenarioError
from chaos.scenario.load import parse
from chaos.scenario.model import Scenario

SHARE = "mode: share, name: worker, group: workers, topics: [orders], client: java"


def scenario(share: str = SHARE, more: str = "", cluster: str = "") -> Scenario:
    text = f"""title: t
cluster: {{{cluster}}}
topics: [{{name: orders}}, {{name: stock}}]
producers: [{{name: shop, topic: orders}}]
consumers:
  - {{{share}}}
{more}"""
    return parse(text, "test")


def refusal(**parts: str) -> str:
    with pytest.raises(ScenarioError) as refused:
        scenario(**parts)
    return str(refused.value)


def test_a_share_group_is_no_reader_of_partitions() -> None:
    found = scenario()
    assert [entry.group for entry in found.shares] == ["workers"]
    assert found.readers == []
    assert found.groups == {"workers": ["worker"]}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"share": SHARE.replace(", client: java", "")},
            "only the Java client has KafkaShareConsumer; these have: java",
        ),
        ({"share": SHARE + ":4.1.0"}, "kafka-clients has it from 4.2.0 on, not in 4.1.0"),
        ({"cluster": "kafka: 4.1.0"}, "share groups need brokers of Kafka 4.2 or later, not 4.1.0"),
        (
            {"cluster": "kafka: 4.2.0", "share": SHARE + ", settings: {share.delivery.count.limit: 3}"},
            "group.share.delivery.count.limit of the brokers",
        ),
        ({"share": SHARE + ", settings: {retention.ms: 3}"}, "retention.ms is no setting of a share group"),
        ({"share": SHARE + ", settings: {share.auto.offset.reset: 'by_duration:PT1H'}"}, "the audit knows earliest"),
        ({"share": SHARE + ", config: {auto.offset.reset: earliest}"}, "set share.auto.offset.reset in settings"),
        ({"share": SHARE + ", config: {group.instance.id: a}"}, "a share group has nothing like it"),
        ({"share": SHARE + ", config: {max.poll.records: 5}"}, "is given by the key max_poll_records"),
        ({"share": SHARE + ", commit: implicit, release_every: 5"}, "need sync or async"),
        (
            {"more": f"  - {{{SHARE.replace('name: worker', 'name: b')}, settings: {{share.x: 1}}}}"},
            "different settings",
        ),
        (
            {"more": "  - {mode: subscribe, name: b, group: workers, topics: [orders]}"},
            "the group id of a share group and of other consumers",
        ),
        (
            {"more": "faults: [{name: f, kind: consumer.seek, target: {member: worker/1}, ago: 1s, when: {acked: 1}}]"},
            "have no positions",
        ),
        (
            {"more": "faults: [{name: f, kind: topic.delete, target: {topic: orders}, when: {acked: 1}}]"},
            "deleted topics are not judged",
        ),
        (
            {"more": "faults: [{name: f, kind: group.delete, target: {group: workers}, when: {acked: 1}}]"},
            "which has no committed offsets",
        ),
        ({"more": "expect: {groups: {workers: {rebalances: 0}}}"}, "members of a share group share partitions"),
    ],
)
def test_what_cannot_work_is_refused_with_its_reason(parts: dict[str, str], message: str) -> None:
    assert message in refusal(**parts)


def test_a_trigger_may_wait_for_more_deliveries_than_records() -> None:
    delivered = "{consumer: worker, records: 90000}"
    fault = (
        f"faults: [{{name: f, kind: consumer.crash, target: {{member: worker/1}}, when: {{delivered: {delivered}}}}}]"
    )
    assert scenario(more=fault).faults[0].kind == "consumer.crash"
