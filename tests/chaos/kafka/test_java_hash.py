"""Where a group's offsets are, as Kafka 4.3.1 was seen to place them with 50 partitions."""

import pytest

from chaos.kafka.partition import java_hash


@pytest.mark.parametrize(("group", "number"), [("billing", 9), ("dirty", 26)])
def test_a_group_is_in_the_partition_that_its_hash_names(group, number):
    assert java_hash(group) % 50 == number


@pytest.mark.parametrize(
    ("text", "code"), [("", 0), ("a", 97), ("ab", 3105), ("billing", 109829509), ("\U0001f4a5", 1772552)]
)
def test_it_is_the_hash_of_java_without_its_sign(text, code):
    assert java_hash(text) == code


def test_the_lowest_number_has_no_opposite():
    assert java_hash("polygenelubricants") == 0, "its hashCode is Integer.MIN_VALUE"
