"""Tests of the merge of several brokers' metadata: the highest epoch wins, and a majority decides who is listed."""

from chaos.kafka.metadata import Metadata, PartitionState, Views
from chaos.kafka.partition import TopicPartition

AT = {broker: ("127.0.0.1", 9000 + broker) for broker in (1, 2, 3)}

PARTITION = TopicPartition("orders", 0)


def view(brokers: tuple[int, ...], leader: int, epoch: int, isr: tuple[int, ...], topic_id: str = "") -> Metadata:
    ids = {PARTITION.topic: topic_id} if topic_id else {}
    partitions = {PARTITION: PartitionState(leader, epoch, isr, (1, 2, 3))}
    return Metadata({b: AT[b] for b in brokers}, partitions, topic_ids=ids)


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
    monkeypatch.setattr("chaos.kafka.metadata.FRESH_S", -1.0)
    assert views.merged() is None


ALL, ISR = (1, 2, 3), (1, 2, 3)


def test_a_topic_created_again_wins_over_the_higher_epoch_of_the_deleted_one() -> None:
    deleted, created = view(ALL, 1, 9, ISR, "A"), view(ALL, 2, 0, ISR, "B")
    for views in ({"of_1": deleted, "of_2": created, "of_3": created}, {"of_2": deleted, "of_3": created}):
        metadata = merged(**views)
        assert metadata.topic_ids == {"orders": "B"}
        assert metadata.partitions[PARTITION].leader_epoch == 0


def test_one_broker_that_still_lists_a_deleted_topic_is_outvoted() -> None:
    gone = Metadata({b: AT[b] for b in ALL}, {})
    assert merged(of_1=view(ALL, 1, 9, ISR, "A"), of_2=gone, of_3=gone).partitions == {}
    assert merged(of_1=view(ALL, 1, 9, ISR, "A"), of_2=gone).topic_ids == {"orders": "A"}


def test_views_without_ids_merge_by_epoch() -> None:
    assert merged(of_1=view(ALL, 1, 4, ISR), of_2=view(ALL, 2, 5, ISR)).partitions[PARTITION].leader == 2
