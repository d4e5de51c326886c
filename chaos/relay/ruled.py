"""Connections of clients through the proxy: the rules, applied to the frames of both directions."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from chaos.relay.contents import TOPIC_APIS, Contents, Names, decoded
from chaos.relay.frames import Head, NotKafka, Piece, Splitter, request_head, response_head
from chaos.relay.pipe import Connection, Pipe, Port
from chaos.relay.refusals import REQUESTS, changed, refusal
from chaos.relay.rewrite import Addresses, holds_addresses, rewritten
from chaos.relay.roles import Active
from chaos.relay.rules import Rule, RuleBook, Waiting

FETCH, PRODUCE = 1, 0
MOST_UNANSWERED = 10_000
"""Requests that a connection remembers. One with acks=0 gets no answer; the next answer or this limit drops it."""
LAST_ANSWER_S = 10.0
"""Time for which a connection to a broker waits for answers after its client has gone."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that the client has sent."""

    head: Head
    names: Names | None = None
    """The partitions that it names; None if it was not read for them."""
    answer: bytes | None = None
    """The answer of the proxy, if the request did not reach the broker."""


class RuledConnection(Connection):
    """A connection of a client to a broker through the proxy."""

    def __init__(self, port: Port, book: RuleBook, addresses: Addresses) -> None:
        super().__init__(port)
        self.book, self.addresses, self.contents = book, addresses, Contents(addresses.topic_ids)
        self.unanswered: deque[Asked] = deque(maxlen=MOST_UNANSWERED)
        self.leaving = False
        """Whether the client has gone, and only answers to its last requests are outstanding."""
        self.holding: dict[int, Active[Rule]] = {}
        """The rules that have held requests of the client, by id."""
        self._answers = _ResponseFilter(self, self.responses, response_head)
        self._filters: dict[Pipe, _Filter] = {
            self.requests: _RequestFilter(self, self.requests, request_head),
            self.responses: self._answers,
        }

    def accepted(self) -> None:
        """Connect to the broker."""
        self.connect()

    def received(self, pipe: Pipe, data: bytes) -> None:
        """Apply the rules to the frames in the data."""
        try:
            self._filters[pipe].feed(data)
        except (NotKafka, ValueError) as e:
            sys.stderr.write(f"connection to broker {self.port.broker} closed: {e}\n")
            self.close()

    def apply(self, removed: int | None) -> None:
        """Let the frames pass that a removed rule holds."""
        if removed is not None:
            for frames in self._filters.values():
                frames.release(removed)

    def refuse(self, asked: Asked) -> None:
        """Answer a request in place of the broker: after the answers to the requests before it."""
        self.unanswered.append(asked)
        if not self._answers.within_frame:
            self._answers.answer_refused()

    def outlived(self, pipe: Pipe, rule: int) -> None:
        """Count a connection of which the client has gone, once for each rule that held its requests."""
        if pipe is self.requests and rule in self.holding:
            self.holding.pop(rule).outlived += 1

    def drained(self, pipe: Pipe) -> None:
        """Let the broker answer the last requests of a client that has gone, so that it certainly handles them."""
        if pipe is self.requests and self.unanswered:
            self.leaving = True
            asyncio.get_running_loop().call_later(LAST_ANSWER_S, self.close)
        else:
            self.close()


class _Filter:
    """The rules, applied to the frames of one pipe."""

    def __init__(self, connection: RuledConnection, pipe: Pipe, head_of: Callable[[bytes, int], Head | None]) -> None:
        self._connection, self._pipe, self._book = connection, pipe, connection.book
        self._broker, self._side = connection.port.broker, pipe.side
        self._splitter = Splitter(head_of)
        self.within_frame = False
        self._asked: Asked | None = None
        """The request of the current frame."""
        self._hit: Active[Rule] | None = None
        self._whole: bytearray | None = None
        """The current frame as far as it has arrived, if it has to be complete before it passes."""
        self._release, self._rule = 0.0, 0
        """End of the latest delay, and the rule that delays."""

    def feed(self, data: bytes) -> None:
        """Apply the rules to the frames in the data. Raises `NotKafka`, and `ValueError` for an unknown answer."""
        self._filter(*self._splitter.feed(data))

    def release(self, rule: int) -> bool:
        """Let everything pass that a rule holds. Returns whether there was anything."""
        if self._rule == rule:
            self._release, self._rule = 0.0, 0
        return self._pipe.release(rule)

    def _filter(self, data: bytes, pieces: Iterator[Piece]) -> None:
        """Send the data in runs as long as possible, interrupted only where a frame may not pass as it is."""
        view = memoryview(data)
        begin = end = 0
        for piece in pieces:
            if piece.first:
                self._reset()
                self._begin(piece.head)
                if self._hit or self._whole is not None:
                    self._send(view[begin:end])
                    begin = end = piece.begin
                    self._delay()
            if self._act == "cut":
                self._connection.close()
                return
            if self._act == "drop":
                begin = end = piece.end
            elif self._whole is not None:
                self._whole += view[piece.begin : piece.end]
                begin = end = piece.end
                if piece.last and not self._complete(bytes(self._whole)):
                    return
            else:
                end = piece.end
            if piece.last:
                self.within_frame = False
                if then := self._then():
                    self._send(view[begin:end])
                    begin = end = piece.end
                    then()
        self._send(view[begin:end])

    def _reset(self) -> None:
        self.within_frame, self._hit, self._whole = True, None, None

    @property
    def _act(self) -> str:
        return self._hit.item.act if self._hit else ""

    def _begin(self, head: Head) -> None:
        """Decide about a frame by its header, or set `_whole` to decide when it is complete."""
        raise NotImplementedError

    def _complete(self, frame: bytes) -> bool:
        """Pass on a complete frame, as far as it may pass. Returns whether the connection is still open."""
        raise NotImplementedError

    def _then(self) -> Callable[[], None] | None:
        """Return what to do as soon as the current frame has been sent: let frames pass that wait for it."""
        refused = self._act == "error" and self._side == "request"
        if self._asked is None or refused or self._act == "drop":
            return None
        head = self._asked.head
        waiting = self._book.awaits(self._broker, self._side, head.api, head.client, self._asked.names)
        passed = lambda: self._book.passed(waiting, asyncio.get_running_loop().time())  # noqa: E731
        return (lambda: self._pipe.after(passed)) if waiting else None

    def _delay(self) -> None:
        """Begin the delay of the current frame, if a rule delays or holds it."""
        if self._hit and self._act in ("delay", "hold"):
            self._release = asyncio.get_running_loop().time() + self._hit.item.delay_s
            self._rule = self._hit.id
            self._connection.holding[self._hit.id] = self._hit
            if self._act == "hold":
                self._book.hold(self._hit, Waiting(self._release, self.release))

    def _send(self, data: bytes | memoryview) -> None:
        """Send data over the link, behind the delay of this pipe."""
        if not data:
            return
        release, rule = self._release, self._rule
        if self._book.active:
            now = asyncio.get_running_loop().time()
            delayed = release > now
            release, slowed_by = self._book.transit(self._broker, self._side, len(data), max(release, now))
            rule = rule if delayed else slowed_by or rule
        self._pipe.send(data, release, rule)


class _RequestFilter(_Filter):
    """The rules, applied to requests."""

    def _begin(self, head: Head) -> None:
        self._asked = Asked(head)
        if head.api == FETCH:
            self._connection.port.fetches[head.client] += 1
        if self._book.reads(self._broker, head.api, head.client):
            self._whole = bytearray()
        else:
            self._hit = self._book.hit(self._broker, "request", head.api, head.client)
            self._remember()

    def _remember(self) -> None:
        """Keep the request for its answer, if it reaches the broker."""
        if self._asked and self._act not in ("drop", "cut", "error"):
            self._connection.unanswered.append(self._asked)

    def _complete(self, frame: bytes) -> bool:
        assert self._asked
        head = self._asked.head
        names = self._connection.contents.names(head, frame) if head.api in TOPIC_APIS else None
        self._asked = Asked(head, names)
        self._hit = self._book.hit(self._broker, "request", head.api, head.client, names)
        if self._act == "error" and self._refused(frame):
            return True
        self._remember()
        if self._act == "cut":
            self._connection.close()
            return False
        if self._act != "drop":
            self._delay()
            self._send(frame)
        return True

    def _refused(self, frame: bytes) -> bool:
        """Answer a request with the error of the rule. Returns whether it has such an answer."""
        assert self._asked and self._hit
        head = self._asked.head
        try:
            request = decoded(head, frame, REQUESTS[head.api])
            if head.api == PRODUCE and request.acks == 0:
                raise ValueError("a Produce request with acks=0 gets no answer")
            answer = refusal(head, request, self._hit.item.error)
        except ValueError as e:
            sys.stderr.write(f"not answered with an error: {e}\n")
            self._hit.hits -= 1
            self._hit = None
            return False
        self._connection.refuse(Asked(head, self._asked.names, answer))
        return True


class _ResponseFilter(_Filter):
    """The rules, applied to answers."""

    def answer_refused(self) -> None:
        """Send the answers of the proxy to requests of which all earlier ones are answered."""
        waiting = self._connection.unanswered
        while waiting and waiting[0].answer is not None:
            self._send(waiting.popleft().answer or b"")

    def _begin(self, head: Head) -> None:
        asked = self._asked = self._request_of(head.correlation)
        api, client, names = (asked.head.api, asked.head.client, asked.names) if asked else (-1, "", None)
        self._hit = self._book.hit(self._broker, "response", api, client, names)
        if asked and (self._act == "error" or holds_addresses(api, asked.head.version)):
            self._whole = bytearray()

    def _request_of(self, correlation: int) -> Asked | None:
        """Return the request of an answer. Brokers answer in order, and do not answer requests with acks=0."""
        waiting = self._connection.unanswered
        while waiting:
            asked = waiting.popleft()
            if asked.answer is not None:
                self._send(asked.answer)
            elif asked.head.correlation == correlation:
                return asked
        return None

    def _complete(self, frame: bytes) -> bool:
        assert self._asked
        head = self._asked.head
        if holds_addresses(head.api, head.version):
            frame = rewritten(frame, head.api, head.version, self._connection.addresses)
        if self._hit and self._act == "error":
            rule, ids = self._hit.item, self._connection.addresses.topic_ids
            matches = lambda topic, number: rule.frames.named(frozenset({(topic, number)}))  # noqa: E731
            other = changed(frame, head.api, head.version, rule.error, matches, ids)
            if other is None:
                self._hit.hits -= 1
            frame = other or frame
        self._send(frame)
        return True

    def _then(self) -> Callable[[], None] | None:
        passed, waiting = super()._then(), self._connection.unanswered
        if self._connection.leaving and not waiting:
            return self._connection.close
        if not (waiting and waiting[0].answer is not None):
            return passed

        def then() -> None:
            if passed:
                passed()
            self.answer_refused()

        return then
