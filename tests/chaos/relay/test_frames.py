"""Tests of the frame splitter: frames in pieces, several frames in one read, and huge frames."""

import random
import struct

import pytest
from kafka.protocol.metadata import MetadataRequest

from chaos.relay.frames import NotKafka, Splitter, request_head, response_head


def request(number, api=0, version=9, client="shop/1", body=b"body"):
    name = client.encode()
    head = struct.pack(">hhih", api, version, number, len(name)) + name
    return struct.pack(">i", len(head) + len(body)) + head + body


def response(number, body=b"body"):
    return struct.pack(">ii", 4 + len(body), number) + body


def split(head_of, parts):
    """Return the header and the bytes of each frame that the splitter finds in these reads."""
    splitter, frames = Splitter(head_of), []
    for part in parts:
        data, pieces = splitter.feed(part)
        for piece in pieces:
            if piece.first:
                frames.append((piece.head, bytearray()))
            frames[-1][1].extend(data[piece.begin : piece.end])
            assert piece.last == (len(frames[-1][1]) == frames[-1][0].bytes)
    return frames


@pytest.mark.parametrize("size", range(1, 40))
def test_requests_in_pieces_are_complete(size):
    sent = [request(7), request(8, api=3, client=""), request(9, body=b"x" * 100)]
    stream = b"".join(sent)
    found = split(request_head, [stream[at : at + size] for at in range(0, len(stream), size)])
    assert [bytes(data) for _, data in found] == sent
    heads = [(h.correlation, h.api, h.version, h.client) for h, _ in found]
    assert heads == [(7, 0, 9, "shop/1"), (8, 3, 9, ""), (9, 0, 9, "shop/1")]


def test_answers_in_random_pieces_are_complete():
    rng = random.Random(7)
    for _ in range(200):
        sent = [response(n, bytes(rng.randrange(60))) for n in range(rng.randrange(1, 6))]
        stream = b"".join(sent)
        cuts = sorted(rng.randrange(len(stream) + 1) for _ in range(rng.randrange(6)))
        parts = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True) if b > a]
        assert [bytes(data) for _, data in split(response_head, parts)] == sent


def test_a_huge_frame_passes_in_pieces_and_is_never_kept():
    splitter = Splitter(response_head)
    size = 50 * 2**20
    head = struct.pack(">ii", 4 + size, 1)
    _, pieces = splitter.feed(head + bytes(2**16))
    (piece,) = pieces
    assert (piece.first, piece.last, piece.end) == (True, False, 8 + 2**16)
    passed = 2**16
    while passed < size:
        data, pieces = splitter.feed(bytes(min(2**20, size - passed)))
        (piece,) = pieces
        passed += piece.end - piece.begin
        assert len(data) <= 2**20
    assert piece.last


def test_a_missing_client_id_is_empty():
    asked = MetadataRequest[8](topics=[], allow_auto_topic_creation=False)
    asked.with_header(correlation_id=5, client_id=None)
    ((head, _),) = split(request_head, [bytes(asked.encode(framed=True, header=True))])
    assert (head.api, head.version, head.correlation, head.client) == (3, 8, 5, "")


@pytest.mark.parametrize(
    ("head_of", "data"),
    [
        (request_head, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(600)),  # a TLS ClientHello
        (request_head, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        (request_head, struct.pack(">ihhih", 12, 3, 8, 1, 500)),
        (response_head, struct.pack(">ii", 3, 1)),
        (response_head, struct.pack(">ii", -1, 1)),
    ],
)
def test_bytes_that_are_no_frame_are_refused(head_of, data):
    with pytest.raises(NotKafka):
        split(head_of, [data])
