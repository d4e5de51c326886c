"""Records of `__consumer_offsets`, in every version of the format."""

import struct

import pytest

from chaos.kafka.offsets_log import CommitKey, CommitValue, parse_key, parse_value


def text(value):
    return struct.pack(">h", len(value.encode())) + value.encode()


def key(version, group="billing", topic="orders", partition=3):
    return struct.pack(">h", version) + text(group) + text(topic) + struct.pack(">i", partition)


VALUES = {
    0: struct.pack(">hq", 0, 17) + text("m") + struct.pack(">q", 5),
    1: struct.pack(">hq", 1, 17) + text("m") + struct.pack(">qq", 5, 9),
    2: struct.pack(">hq", 2, 17) + text("m") + struct.pack(">q", 5),
    3: struct.pack(">hqi", 3, 17, 2) + text("m") + struct.pack(">q", 5),
    4: struct.pack(">hqi", 4, 17, 2) + b"\x02m" + struct.pack(">q", 5) + b"\x00",
}


@pytest.mark.parametrize("version", [0, 1])
def test_the_key_of_a_commit_names_group_topic_and_partition(version):
    assert parse_key(key(version, "größe")) == CommitKey("größe", "orders", 3)


@pytest.mark.parametrize("other", [None, b"", key(2), key(3)])
def test_other_keys_are_no_commits(other):
    assert parse_key(other) is None


@pytest.mark.parametrize("version", VALUES)
def test_each_version_of_a_value_has_offset_metadata_and_time(version):
    assert parse_value(VALUES[version]) == CommitValue(17, "m", 5)


def test_a_text_of_more_than_127_bytes_has_a_longer_length():
    value = struct.pack(">hqi", 4, 17, 2) + b"\xad\x02" + b"m" * 300 + struct.pack(">q", 5) + b"\x00"
    assert parse_value(value) == CommitValue(17, "m" * 300, 5)


@pytest.mark.parametrize("version", VALUES)
@pytest.mark.parametrize("cut", [1, 9, 12])
def test_a_damaged_value_is_refused(version, cut):
    with pytest.raises(ValueError, match="ends"):
        parse_value(VALUES[version][:cut])


def test_a_newer_value_is_refused():
    with pytest.raises(ValueError, match="version 5 are unknown, the newest known one is 4"):
        parse_value(struct.pack(">hq", 5, 17))


def test_a_damaged_key_is_refused():
    with pytest.raises(ValueError, match="ends"):
        parse_key(key(1)[:-2])
