"""What several brokers say, put together: the newest leader epoch wins, and nobody vouches for himself alone."""

from chaos.kafka.metadata_merge import Metadata, PartitionState, Views
from chaos.kafka.partition import TopicPartition

AT = {broker: ("127.0.0.1", 9000 + broker) for broker in (1, 2, 3)}

PARTITION = TopicPartition("orders", 0)


def view(brokers: tuple[int, ...], leader: int, epoch: int, isr: tuple[int, ...]) -> Metadata:
    return Metadata({b: AT[b] for b in brokers}, {PARTITION: PartitionState(leader, epoch, isr, (1, 2, 3))})


def merged(**views: Metadata) -> Metadata:
    found = Views()
    for name, said in views.items():
        found.note(AT[int(name[-1])], said)
    together = found.merged()
    assert together is not None
    return together


def test_a_leader_that_was_cut_off_is_not_believed() -> None:
    now = view((2, 3), leader=2, epoch=5, isr=(2, 3))
    found = merged(of_1=view((1, 2, 3), leader=1, epoch=4, isr=(1, 2, 3)), of_2=now, of_3=now)
    assert found == now


def test_before_it_is_fenced_it_is_one_of_them() -> None:
    was = view((1, 2, 3), leader=1, epoch=4, isr=(1, 2, 3))
    assert merged(of_1=was, of_2=was, of_3=was) == was


def test_a_follower_that_was_cut_off_does_not_bring_back_the_old_isr() -> None:
    old, now = view((1, 2, 3), 1, 4, (1, 2, 3)), view((1, 2, 3), 1, 4, (1, 2))
    assert merged(of_3=old, of_1=now, of_2=now).partitions[PARTITION].isr == (1, 2)
    assert merged(of_1=now, of_2=now, of_3=old).partitions[PARTITION].isr == (1, 2)


def test_a_view_counts_until_its_broker_stops_answering() -> None:
    found = Views()
    found.note(AT[1], view((1, 2, 3), 1, 4, (1, 2, 3)))
    found.note(AT[2], view((1, 2, 3), 2, 5, (2, 3)))
    found.forget(AT[2])
    together = found.merged()
    assert together is not None and together.partitions[PARTITION].leader == 1
    found.forget(AT[1])
    assert found.merged() is None


def test_a_view_that_is_not_repeated_runs_out(monkeypatch) -> None:
    found = Views()
    found.note(AT[1], view((1,), 1, 4, (1,)))
    monkeypatch.setattr("chaos.kafka.metadata_merge.FRESH_S", -1.0)
    assert found.merged() is None
