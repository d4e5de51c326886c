"""An order to seek that is obeyed by two assignments."""

from types import SimpleNamespace

from confluent_kafka import OFFSET_INVALID

from chaos.clients.confluent import assign_consumer
from chaos.clients.confluent.assign_consumer import AssignConsumer

FIRST, SECOND = ("orders", 0), ("orders", 1)


class Library:
    """A consumer that keeps what it is assigned, with the time."""

    def __init__(self):
        self.now, self.acts = 0.0, []

    def assign(self, partitions):
        self.acts.append((self.now, {(p.topic, p.partition): p.offset for p in partitions}))

    def seek(self, partition):
        self.acts.append((partition.topic, partition.partition, partition.offset))

    def sleep(self, seconds):
        self.now += seconds


def reader(library):
    found = AssignConsumer.__new__(AssignConsumer)
    found.consumer = library
    found.assignments = SimpleNamespace(numbers={FIRST: 1, SECOND: 1}, positions={FIRST: 40, SECOND: 50})
    return found


def test_partitions_are_assigned_without_offsets_and_then_all_of_them_where_reading_goes_on(monkeypatch):
    library = Library()
    monkeypatch.setattr(assign_consumer.time, "sleep", library.sleep)
    starts = reader(library)._seek({"do": "seek", "offsets": {"orders/0": 9, "other/0": 3}, "lookup_first_s": 0.5})
    assert starts == {FIRST: 9, SECOND: 50}, "each assignment begins, the second one at its position"
    assert library.acts == [(0.0, dict.fromkeys(starts, OFFSET_INVALID)), (0.5, starts)]


def test_another_order_to_seek_assigns_nothing():
    library = Library()
    assert reader(library)._seek({"do": "seek", "offsets": {"orders/0": 9}}) == {FIRST: 9}
    assert library.acts == [("orders", 0, 9)]
