"""What a reader does while the brokers give it nothing."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from chaos.errors import ClusterError
from checks.readback import source
from checks.readback.source import OffsetRange, PartReader

GONE, LEADERLESS = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), KafkaError(KafkaError.LEADER_NOT_AVAILABLE)


@pytest.fixture
def reader(monkeypatch, tmp_path):
    def make(*answers):
        asked = iter(answers)

        def list_topics(topic, timeout):
            answer = next(asked)
            if isinstance(answer, str):
                raise KafkaException(KafkaError(KafkaError._TRANSPORT))
            return SimpleNamespace(topics={topic: SimpleNamespace(error=answer)})

        consumer = SimpleNamespace(assign=lambda _: None, consume=lambda *_: [], list_topics=list_topics)
        monkeypatch.setattr(source, "Consumer", lambda _: consumer)
        monkeypatch.setattr(source, "ASK_S", 0.0)
        return PartReader(OffsetRange("", "orders", 0, 5, 7, tmp_path, 0), "read_committed"), asked

    return make


def test_a_topic_that_is_unknown_twice_in_a_row_does_not_exist(reader):
    found, asked = reader(None, GONE, GONE, "not asked")
    for _ in range(2):
        assert found.poll(10) == []
    with pytest.raises(ClusterError, match="orders/0, offsets 5 to 7: the topic does not exist any more"):
        found.poll(10)
    assert list(asked) == ["not asked"]


@pytest.mark.parametrize("between", [None, LEADERLESS, "no answer"])
def test_a_topic_that_a_broker_does_not_know_yet_is_awaited_until_the_silence_is_too_long(reader, monkeypatch, between):
    found, _ = reader(GONE, between, GONE)
    for _ in range(3):
        assert found.poll(10) == []
    monkeypatch.setattr(source, "SILENCE_S", 0.0)
    with pytest.raises(ClusterError, match="nothing from offset 5 on for 0 s"):
        found.poll(10)
