"""A table or a file for the producer in Python: each record that it makes is a row, in one transaction.

A row with an answer is there, or is not. Nobody knows about a row after a lost connection, so it is inserted again
until there is an answer. The table refuses a row that is there already, which the first row proves beforehand: it is
inserted twice in a transaction that is rolled back.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from chaos.clients.protocol import Config, WriterSpec
from chaos.clients.python.library import (
    Answered,
    Batch,
    ConsumerAdapter,
    Library,
    ProducerAdapter,
    ReaderSpec,
    Report,
    ReportingProducer,
)
from chaos.clients.python.load import TICK_S
from chaos.clients.python.program import log
from chaos.clients.python.rows import SendLog
from chaos.databases import FOR_NOW, PARAMETER, database_url, engine_of, scrubber
from chaos.errors import ClientError
from chaos.run.events import now_us

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.exc import OperationalError

CONNECT_S = 5
FIRST_S = 15.0
"""Time within which a database answers for the first time."""
AGAIN_S = 0.2
"""Time before the next attempt after a lost connection."""
MOST_WAITING = 5_000
"""Rows that wait for the database; the producer hands over no more until some have an answer."""
FIXED = "give it a primary key or a unique column with the id, because a row of unknown outcome is inserted again"


class RowError(Exception):
    """A row that was refused: it is not there."""


class Unusable(Exception):
    """A reason for which no row can be written."""


class Target(ABC):
    """Where rows go."""

    @abstractmethod
    def write(self, value: bytes, during: Callable[[], bool]) -> bool:
        """Write a row. Returns False if nobody knows whether it is there, because `during` returned False.

        during: called before each further attempt. Raises `RowError`, `Unusable`.
        """


class File(Target):
    """A file with a value in each line."""

    def __init__(self, spec: WriterSpec) -> None:
        assert spec.rows is not None and spec.rows.file is not None  # the caller looked
        spec.rows.file.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(spec.rows.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, value: bytes, during: Callable[[], bool]) -> bool:
        """Append a line in one write(2)."""
        try:
            written = os.write(self._file, value + b"\n")
        except OSError as e:
            raise Unusable(f"the file of the rows cannot be written: {e.strerror}") from None
        if written != len(value) + 1:
            raise Unusable("the file of the rows has half of a row: the disk is full")
        return True


class Table(Target):
    """A table of a database, through SQLAlchemy."""

    def __init__(self, spec: WriterSpec) -> None:
        from sqlalchemy import make_url, text

        assert spec.rows is not None  # the caller looked
        url = database_url(spec.rows.url, spec.rows.setting)
        self._scrub = scrubber(url)
        try:
            self._engine = engine_of(make_url(url), CONNECT_S)
        except Exception as e:  # noqa: BLE001 - such as a driver that is not installed, whatever its loader raises
            raise ClientError(f"{spec.rows.setting}: {self._scrub.text(str(e))}") from None
        self._insert, self._names = text(spec.rows.insert), PARAMETER.findall(spec.rows.insert)
        self._connection: Connection | None = None
        self._began, self._proven = time.monotonic(), False
        self._again = spec.incarnation > 1
        """Whether an earlier incarnation may have written any row."""

    def write(self, value: bytes, during: Callable[[], bool]) -> bool:
        """Insert a row in a transaction, again after each lost connection."""
        from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError

        row, unsure = self._fields(value), self._again
        while during():
            try:
                connection = self._connected()
                if not self._proven:
                    self._prove(connection, row)
                with connection.begin():
                    count = connection.execute(self._insert, row).rowcount
                if count == 0 and not unsure:
                    raise RowError("the statement inserted no row")
                return True
            except IntegrityError as e:
                if unsure:
                    return True
                raise RowError(self._words(e)) from None
            except OperationalError as e:
                self._check_passes(e)
                unsure = unsure or (e.connection_invalidated and self._proven)
                log(f"the database did not answer, the row is tried again: {self._words(e)}")
                self._disconnect()
            except DBAPIError as e:
                raise (RowError if self._proven else Unusable)(self._words(e)) from None
            except SQLAlchemyError as e:
                raise Unusable(self._words(e)) from None
            time.sleep(AGAIN_S)
        return False

    def _fields(self, value: bytes) -> dict[str, Any]:
        """Return the parameters of a row: a field that is a list or an object is a text of JSON."""
        fields = json.loads(value)
        if lacking := [name for name in self._names if name not in fields]:
            raise Unusable(f"the value has no field {lacking[0]!r}, which insert names")
        row = {name: fields[name] for name in self._names}
        return {name: json.dumps(of) if isinstance(of, list | dict) else of for name, of in row.items()}

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # it is lost
                connection.invalidate()
                connection.close()

    def _prove(self, connection: Connection, row: Mapping[str, Any]) -> None:
        """Raise `Unusable` unless the table refuses a row that is there."""
        from sqlalchemy.exc import IntegrityError

        try:
            with connection.begin() as transaction:
                connection.execute(self._insert, row)
                taken = connection.execute(self._insert, row).rowcount
                transaction.rollback()
        except IntegrityError:
            taken = 0
        if taken:
            raise Unusable(f"the table takes a row twice; {FIXED}")
        self._proven = True

    def _check_passes(self, error: OperationalError) -> None:
        """Raise `Unusable` before the first row if the database refuses its statement, or does not answer for long."""
        words = self._words(error)
        if not self._proven and self._connection is not None and not FOR_NOW.search(words):
            raise Unusable(words) from None
        if not self._proven and time.monotonic() - self._began > FIRST_S:
            raise Unusable(f"the database does not answer: {words}") from None

    def _words(self, error: Exception) -> str:
        """Return the first line of an error, without a secret."""
        reason = self._scrub.text(str(getattr(error, "orig", None) or error)).strip()
        return reason.splitlines()[0] if reason else type(error).__name__


class Producer(ReportingProducer):
    """A thread that writes one row after the other; a database that hangs does not hold up the program."""

    def __init__(self, library: Library, spec: WriterSpec, log: SendLog, on_error: Callable[[Exception], None]) -> None:
        super().__init__(library, spec, log)
        assert spec.rows is not None  # the caller looked
        self._target = File(spec) if spec.rows.file is not None else Table(spec)
        self._queue: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        self._on_error, self._broken = on_error, queue.SimpleQueue[Unusable]()
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="rows", daemon=True).start()

    def _run(self) -> None:
        while not self._closed.is_set():
            seq, value = self._queue.get()
            try:
                if self._target.write(value, lambda: not self._closed.is_set()):
                    self.reports.append(Report(seq, now_us()))
            except RowError as e:
                self.reports.append(Report(seq, now_us(), error=e, taken=False))
            except Unusable as e:
                self._broken.put(e)
                return

    def _hand_over(self, batch: Batch, idle: Callable[[], None]) -> int:
        """Hand rows over as far as there is room."""
        taken = min(len(batch.values), max(0, MOST_WAITING - self.waiting()))
        for seq, value in enumerate(batch.values[:taken], batch.first):
            self._queue.put((seq, value))
        return taken

    def wait(self, timeout_s: float) -> None:
        """Let answers arrive for at most `timeout_s`."""
        until = time.monotonic() + timeout_s
        while not self.reports and self._broken.empty() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, TICK_S / 4))

    def collect(self) -> None:
        """Put the answers that have arrived in the log, and say why no row can be written."""
        super().collect()
        if not self._broken.empty():
            self._on_error(self._broken.get())

    def purge(self) -> None:
        """Give up the rows without an answer."""
        self._closed.set()
        super().purge()

    def init_transactions(self) -> None:
        """Rows have no transactions of Kafka."""
        raise NotImplementedError

    begin = commit = abort = init_transactions


class Rows(Library):
    """A table or a file in place of a library."""

    Error = Unusable

    def __init__(self) -> None:
        self.reported = {}

    def producer(self, spec: WriterSpec, log: SendLog, on_error: Callable[[Exception], None]) -> ProducerAdapter:
        """Return what writes rows."""
        return Producer(self, spec, log, on_error)

    def consumer(self, spec: ReaderSpec, answered: Answered, on_error: Callable[[Exception], None]) -> ConsumerAdapter:
        """Nothing reads rows."""
        raise NotImplementedError

    def error_name(self, error: BaseException) -> str:
        """Return the text of an error: databases have no common names."""
        return str(error)

    def describe(self, error: BaseException) -> str:
        """Return the text of an error."""
        return str(error)

    def passes(self, error: BaseException) -> bool:
        """Return that no request is tried again: each row was, until it had an answer."""
        return False

    def fatal(self, error: BaseException) -> bool:
        """Return whether no row can be written any more."""
        return isinstance(error, Unusable)

    def after_end(self, error: BaseException) -> Literal["unusable"]:
        """Rows have no transactions of Kafka."""
        return "unusable"

    def is_only_attempt(self, asynchronous: bool, took_s: float | None, config: Config) -> bool:
        """Rows have no commits of offsets."""
        return False

    def has_offsets(self, spec: WriterSpec) -> bool:
        """Return that a row has no offset."""
        return False

    def kept_by(self, spec: WriterSpec) -> frozenset[str]:
        """Return that nothing is needed to prove a refusal: each answer is definite."""
        return frozenset()


LIBRARY = Rows()
