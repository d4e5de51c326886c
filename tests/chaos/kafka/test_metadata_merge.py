"""Tests of the merge of several brokers' metadata: the highest epoch wins, and a majority decides who is listed."""

from chaos.kafka.metadata_merge import Metadata, PartitionState, Views
from chaos.kafka.partition import TopicPartition

AT = {broker: ("127.0.0.1", 9000 + broker) for broker in (1, 2, 3)}

PARTITION = TopicPartition("orders", 0)


def view(brokers: tuple[int, ...], leader: int, epoch: int, isr: tuple[int, ...]) -> Metadata:
    return Metadata({b: AT[b] for b in brokers}, {PARTITION: PartitionState(leader, epoch, isr, (1, 2, 3))})


def merged(**views: Metadata) -> Metadata:
    latest = Views()
    for name, answer in views.items():
        latest.note(AT[int(name[-1])], answer)
    metadata = latest.merged()
    assert metadata is not None
    return metadata


def test_the_view_of_an_isolated_leader_is_ignored() -> None:
    now = view((2, 3), leader=2, epoch=5, isr=(2, 3))
    metadata = merged(of_1=view((1, 2, 3), leader=1, epoch=4, isr=(1, 2, 3)), of_2=now, of_3=now)
    assert metadata == now


def test_equal_views_merge_to_the_same_view() -> None:
    equal = view((1, 2, 3), leader=1, epoch=4, isr=(1, 2, 3))
    assert merged(of_1=equal, of_2=equal, of_3=equal) == equal


def test_the_isr_of_the_leader_wins_over_that_of_an_isolated_follower() -> None:
    old, now = view((1, 2, 3), 1, 4, (1, 2, 3)), view((1, 2, 3), 1, 4, (1, 2))
    assert merged(of_3=old, of_1=now, of_2=now).partitions[PARTITION].isr == (1, 2)
    assert merged(of_1=now, of_2=now, of_3=old).partitions[PARTITION].isr == (1, 2)


def test_a_view_counts_until_its_broker_stops_answering() -> None:
    views = Views()
    views.note(AT[1], view((1, 2, 3), 1, 4, (1, 2, 3)))
    views.note(AT[2], view((1, 2, 3), 2, 5, (2, 3)))
    views.forget(AT[2])
    metadata = views.merged()
    assert metadata is not None and metadata.partitions[PARTITION].leader == 1
    views.forget(AT[1])
    assert views.merged() is None


def test_a_view_expires(monkeypatch) -> None:
    views = Views()
    views.note(AT[1], view((1,), 1, 4, (1,)))
    monkeypatch.setattr("chaos.kafka.metadata_merge.FRESH_S", -1.0)
    assert views.merged() is None
