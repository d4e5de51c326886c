"""Connections of clients through the proxy: the rules, applied to the frames of both directions."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from chaos.relay.capture import AGAIN, ANSWER, MADE, REQUEST, UNKEPT, Entry, Recorder, Tape
from chaos.relay.contents import MEMBER_APIS, TOPIC_APIS, Contents, Names, decoded, member_of
from chaos.relay.frames import Head, NotKafka, Piece, Splitter, request_head, response_head
from chaos.relay.pipe import Connection, Pipe, Port
from chaos.relay.records import with_changed_byte, with_copies
from chaos.relay.refusals import REQUESTS, changed, refusal
from chaos.relay.rewrite import Addresses, holds_addresses, rewritten
from chaos.relay.roles import Active
from chaos.relay.rules import Rule, RuleBook, Waiting
from chaos.run.events import now_us

FETCH, PRODUCE = 1, 0
MOST_UNANSWERED = 10_000
"""Requests that a connection remembers. One with acks=0 gets no answer; the next answer or this limit drops it."""
CHANGES = ("error", "duplicate", "corrupt")
"""Acts that put another frame in place of a complete one."""
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
    number: int = 0
    """The number of the request in its connection, from 1."""


class RuledConnection(Connection):
    """A connection of a client to a broker through the proxy."""

    def __init__(self, port: Port, book: RuleBook, addresses: Addresses, recorder: Recorder | None = None) -> None:
        super().__init__(port)
        self._recorder = recorder
        self.tape: Tape | None = None
        """What is written down of the connection, if anything is."""
        self.book, self.addresses, self.contents = book, addresses, Contents(addresses.topic_ids)
        self.unanswered: deque[Asked] = deque(maxlen=MOST_UNANSWERED)
        self.requested = 0
        """Number of requests so far."""
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
        if self._recorder and self.requests.source:
            peer = self.requests.source.get_extra_info("peername") or ("",)
            self.tape = Tape(self._recorder, self.port.front, self.port.broker, ":".join(map(str, peer[:2])))
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

    def lose(self, rule: int) -> None:
        """Close the connection, if a rule holds something on it: what is held is lost."""
        if any(pipe.holds(rule) for pipe in (self.requests, self.responses)):
            self.close()

    def refuse(self, asked: Asked) -> None:
        """Answer a request in place of the broker: after the answers to the requests before it."""
        self.unanswered.append(asked)
        if not self._answers.within_frame:
            self._answers.answer_refused()

    def outlived(self, pipe: Pipe, rule: int) -> None:
        """Count a connection that its client has closed, once for each rule that held its requests."""
        if pipe is self.requests and rule in self.holding:
            self.holding.pop(rule).outlived += 1

    def close(self, reset: bool = False) -> None:
        """Close both sides. What did not pass is written down as such."""
        if self.tape:
            self.tape.close(self.ended_by or "proxy")
            self.tape = None
        super().close(reset)

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
        self._broker, self._side, self._front = connection.port.broker, pipe.side, connection.port.front
        self._splitter = Splitter(head_of)
        self.within_frame = False
        self._seen_us = 0
        self._arrived: list[memoryview] = []
        """The pieces of the current frame so far, if it has to be complete before it passes, or is written down."""
        self._frame = b""
        """The current frame, once it is complete, if it has to be."""
        self._other: bytes | None = None
        """What the proxy has put in place of the current frame."""
        self._entries: list[Entry] = []
        """The frames in the current data, if they are written down."""
        self._kind = REQUEST if self._side == "request" else ANSWER
        self._asked: Asked | None = None
        """The request of the current frame."""
        self._hit: Active[Rule] | None = None
        self._whole = False
        """Whether the current frame has to be complete before it passes."""
        self._last = ""
        """The last step at the front before the current frame."""
        self._release, self._rule = 0.0, 0
        """End of the latest delay, and the rule that delays."""

    def feed(self, data: bytes) -> None:
        """Apply the rules to the frames in the data. Raises `NotKafka`, and `ValueError` for an unknown answer."""
        if self._connection.tape is None:
            self._filter(*self._splitter.feed(data))
            return
        self._seen_us = now_us()
        try:
            self._filter(*self._splitter.feed(data))
        finally:
            self._write_down()

    def _write_down(self) -> None:
        """Write the frames in the current data down as soon as they have passed."""
        entries, self._entries = self._entries, []
        tape = self._connection.tape
        if entries and tape:
            self._write(entries, tape)

    def _write(self, entries: list[Entry], tape: Tape) -> None:
        if self._pipe.passes:
            tape.passed(entries, entries[0].seen_us)
        else:
            tape.hold(entries)
            self._pipe.after(lambda: tape.passed(entries, now_us()))

    def _note(self, size: int, flags: int = 0) -> None:
        """Note the current frame of `size` bytes, to write it down."""
        if self._asked is None or self._connection.tape is None:
            return
        if self._other is not None:
            data, flags, size = self._other, flags | MADE, len(self._other)
        else:
            data = self._frame or b"".join(self._arrived)
        head = replace(self._asked.head, bytes=size)
        lost = self._act in ("drop", "cut") or (self._act == "error" and self._side == "request")
        self._entries.append(Entry(self._kind, self._asked.number, head, self._seen_us, data, flags, lost))
        if self._act == "repeat":
            self._entries.append(replace(self._entries[-1], flags=flags | MADE | AGAIN))

    def _changed(self, frame: bytes) -> bytes:
        """Return the frame that the rule puts in place of a complete one; the same one if it makes no difference.

        Then it is no hit.
        """
        assert self._hit and self._asked
        rule, head, ids = self._hit.item, self._asked.head, self._connection.addresses.topic_ids
        matches = lambda topic, number: rule.frames.named(frozenset({(topic, number)}))  # noqa: E731
        if rule.act == "error":
            self._other = changed(frame, head.api, head.version, rule.error, matches, ids)
        elif rule.act == "duplicate":
            self._other = with_copies(frame, head.version, matches, ids)
        else:
            draws = self._book.draws(self._hit)
            self._other = with_changed_byte(frame, head.api, head.version, matches, ids, draws, rule.valid)
        if self._other is None:
            self._spare()
        return self._other or frame

    def _spare(self) -> None:
        """Let the current frame pass as if no rule matched it."""
        if self._hit:
            self._hit.hits -= 1
            self._hit = None

    def release(self, rule: int) -> bool:
        """Let everything pass that a rule holds. Returns whether there was anything."""
        if self._rule == rule:
            self._release, self._rule = 0.0, 0
        return self._pipe.release(rule)

    def _filter(self, data: bytes, pieces: Iterator[Piece]) -> None:
        """Send the data in few large pieces: a piece ends only before a frame that a rule holds, changes or drops."""
        view = memoryview(data)
        begin = end = 0
        taped = self._connection.tape is not None
        for piece in pieces:
            if piece.first:
                self._reset()
                self._begin(piece.head)
                if self._hit or self._whole:
                    self._send(view[begin:end])
                    begin = end = piece.begin
                    self._delay()
            if taped or self._whole:
                self._arrived.append(view[piece.begin : piece.end])
            if self._act == "cut":
                self._close(piece.head.bytes)
                return
            if self._act == "drop":
                begin = end = piece.end
            elif self._whole:
                begin = end = piece.end
                if piece.last:
                    self._frame = b"".join(self._arrived)
                    if not self._complete(self._frame):
                        return
            else:
                end = piece.end
            if piece.last:
                if taped:
                    self._note(piece.head.bytes)
                self.within_frame = False
                if then := self._then():
                    self._send(view[begin:end])
                    begin = end = piece.end
                    then()
        self._send(view[begin:end])

    def _reset(self) -> None:
        self.within_frame, self._hit, self._whole, self._other = True, None, False, None
        self._arrived, self._frame = [], b""

    def _close(self, size: int) -> None:
        """Close the connection instead of passing the current frame of `size` bytes on."""
        self._note(size, UNKEPT)
        self._write_down()
        self._connection.close()

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
        waiting = self._book.awaits(self._broker, self._side, head.api, head.client, self._asked.names, self._front)
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
            release, slowed_by = self._book.transit(self._broker, self._side, len(data), max(release, now), self._front)
            rule = rule if delayed else slowed_by or rule
        self._pipe.send(data, release, rule)


class _RequestFilter(_Filter):
    """The rules, applied to requests."""

    def _begin(self, head: Head) -> None:
        self._connection.requested += 1
        self._asked = Asked(head, number=self._connection.requested)
        if head.api == FETCH:
            self._connection.port.fetches[head.client] += 1
        self._last = self._book.moment(self._front, "request", head.api)
        is_member = self._front and head.api in MEMBER_APIS
        if is_member or self._book.reads(self._broker, head.api, head.client, self._front):
            self._whole = True
        else:
            self._hit = self._book.hit(
                self._broker, "request", head.api, head.client, front=self._front, last=self._last
            )
            self._remember()

    def _remember(self) -> None:
        """Keep the request for its answer, if it reaches the broker."""
        if self._asked and self._act not in ("drop", "cut", "error"):
            self._connection.unanswered.append(self._asked)

    def _complete(self, frame: bytes) -> bool:
        assert self._asked
        head = self._asked.head
        names = self._connection.contents.names(head, frame) if head.api in TOPIC_APIS else None
        if self._front and head.api in MEMBER_APIS and (member := member_of(head, frame)):
            self._book.members.setdefault(self._front, set()).add(member)
        self._asked = replace(self._asked, names=names)
        self._hit = self._book.hit(self._broker, "request", head.api, head.client, names, self._front, self._last)
        if self._act == "error" and self._refused(frame):
            return True
        self._remember()
        if self._act == "cut":
            self._close(head.bytes)
            return False
        if self._act == "corrupt":
            frame = self._changed(frame)
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
            self._spare()
            return False
        self._connection.refuse(replace(self._asked, answer=answer))
        return True


class _ResponseFilter(_Filter):
    """The rules, applied to answers."""

    def answer_refused(self) -> None:
        """Send the answers of the proxy to requests, as soon as all earlier requests are answered."""
        waiting = self._connection.unanswered
        while waiting and waiting[0].answer is not None:
            self._answer(waiting.popleft())

    def _answer(self, asked: Asked) -> None:
        """Send the answer of the proxy to a request."""
        answer, tape = asked.answer or b"", self._connection.tape
        self._send(answer)
        if tape:
            head = replace(asked.head, bytes=len(answer))
            self._write([Entry(ANSWER, asked.number, head, now_us(), answer, MADE)], tape)

    def _begin(self, head: Head) -> None:
        asked = self._asked = self._request_of(head.correlation)
        api, client, names = (asked.head.api, asked.head.client, asked.names) if asked else (-1, "", None)
        last = self._book.moment(self._front, "response", api)
        self._hit = self._book.hit(self._broker, "response", api, client, names, self._front, last)
        other = self._act == "repeat" or self._act in CHANGES
        if other and not asked:
            self._spare()
        if asked and (other or holds_addresses(api, asked.head.version)):
            self._whole = True

    def _request_of(self, correlation: int) -> Asked | None:
        """Return the request of an answer. Brokers answer in order, and do not answer requests with acks=0."""
        waiting = self._connection.unanswered
        while waiting:
            asked = waiting.popleft()
            if asked.answer is not None:
                self._answer(asked)
            elif asked.head.correlation == correlation:
                return asked
        return None

    def _complete(self, frame: bytes) -> bool:
        assert self._asked
        head = self._asked.head
        if holds_addresses(head.api, head.version):
            frame = rewritten(frame, head.api, head.version, self._connection.addresses)
        if self._act in CHANGES:
            frame = self._changed(frame)
        self._send(frame)
        if self._act == "repeat":
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
