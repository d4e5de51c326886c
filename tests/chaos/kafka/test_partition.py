"""Tests of `TopicPartition`: its text form, its order, and what does not parse."""

import pytest

from chaos.kafka.partition import TopicPartition, by_topic


@pytest.mark.parametrize("text", ["orders/0", "a.b-c_d/12", "__consumer_offsets/49"])
def test_the_text_form_parses_to_the_same_partition(text):
    assert str(TopicPartition.parse(text)) == text


@pytest.mark.parametrize("text", ["orders", "orders/", "/0", "orders/x", "orders/-1", "a/b/0", "orders/0 "])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match="is not a partition; write topic/number, such as orders/0"):
        TopicPartition.parse(text)


def test_partitions_are_ordered_by_topic_and_then_by_number():
    texts = ["b/0", "a/10", "a/2"]
    assert [str(partition) for partition in sorted(map(TopicPartition.parse, texts))] == ["a/2", "a/10", "b/0"]


def test_the_topic_id_takes_no_part_in_comparisons():
    plain, with_id = TopicPartition("orders", 0), TopicPartition("orders", 0, "Xo5lTgrVRvW7fqQ8yh7t1g")
    assert plain == with_id
    assert {plain: 1}[with_id] == 1


def test_grouping_by_topic_keeps_the_order():
    partitions = [TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)]
    assert by_topic(partitions) == {"b": [1, 0], "a": [0]}
