"""Sources that a run reads itself: databases, files and logs.

A source yields one item for each row or line: its record, where it is, and a mark by which two readings of the source
know the same one. The error of a source is a `SourceError` of one line, without a secret.
"""

from __future__ import annotations

import csv
import io
import json
import queue
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from chaos.databases import database_url, engine_of, scrubber, without_values
from chaos.effects.payload import Record, Unreadable, shown
from chaos.errors import AftershockError
from chaos.setup.effects import Effect

if TYPE_CHECKING:
    from sqlalchemy import Result

T = TypeVar("T")
CONNECT_S = 10
LOOK_S, READ_S = 30.0, 120.0
"""Time without a row after which a database counts as one that hangs: in a look, and in the reading at the end."""
JDBC_PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306, "sqlserver": 1433}
"""The port of a server that a URL of Spark does not name."""
KEPT = "effect_rows"
"""The folder of the ledger with the rows of databases that end with the run."""
CACHES = frozenset({"simplecache", "filecache", "blockcache", "cached"})
ROWS_PER_FETCH = 10_000
MOST_COUNTED = 2_000_000
"""Different ids of a query up to which a repetition is recognized."""
_NO_TABLE = re.compile(r"no such table|there is no file|relation .* does not exist|doesn't exist", re.IGNORECASE)
_PARAMETER = re.compile(r"(?<![:\w\\]):(?=\w)")


class SourceError(AftershockError):
    """A source of an effect that cannot be read. The message names it, and says why.

    absent: there is no such file or table, so there is no effect yet. connected: whether a database took the login.
    """

    def __init__(self, message: str, absent: bool = False, connected: bool = False) -> None:
        super().__init__(message)
        self.absent, self.connected = absent, connected


@dataclass(frozen=True)
class Item:
    """A row or line. record: None if it cannot be parsed, for the reason `problem`. mark: see the module.

    torn: whether it is the begin of a last line that its writer did not end: that is no effect.
    """

    record: Record | None
    where: str
    mark: str
    problem: Unreadable | None = None
    torn: bool = False

    def read(self) -> Record:
        """Return the record. Raises `Unreadable`."""
        if self.problem or self.record is None:
            raise self.problem or Unreadable("it is empty")
        return self.record


# Databases.


def url_of(effect: Effect) -> str:
    """Return the URL of the database of an effect, with its secret. Raises `UsageError` as `database_url`."""
    return database_url(effect.sql or "", f"effects: {effect.name}: sql")


def ask_jdbc(effect: Effect, url: str) -> None:
    """Raise `SourceError` if no server answers at the address in a URL of Spark. Other forms of a URL are not asked."""
    kind, _, rest = url.removeprefix("jdbc:").partition("://")
    if kind not in JDBC_PORTS or "socketfactory" in rest.lower():  # such as a tunnel to another place
        return
    reasons = []
    for place in re.split(r"[/?;]", rest)[0].rpartition("@")[2].split(","):
        match = re.fullmatch(r"(\[[^]]+\]|[\w.-]+)(?::(\d{1,5}))?", place)
        if match is None:
            return
        host, port = match[1].strip("[]"), int(match[2] or JDBC_PORTS[kind])
        try:
            socket.create_connection((host, port), CONNECT_S).close()
            return
        except (OSError, OverflowError, UnicodeError) as e:
            reasons.append(f"{host}:{port}: {getattr(e, 'strerror', None) or e}")
    raise SourceError(f"effect {effect.name} cannot be read: {'; '.join(reasons)}")


class Query:
    """The rows of a query through SQLAlchemy. Each call of `items` is one reading, in one transaction.

    hidden: whether no text of the run may have a part of a row.
    """

    def __init__(self, effect: Effect, hidden: bool) -> None:
        self._effect, self._hidden, self._url = effect, hidden, url_of(effect)
        self._scrub, self._connected = scrubber(self._url), False

    def items(self, limit_s: float = READ_S) -> Iterator[Item]:
        """Yield the rows. Raises `SourceError`, also after a time without a row."""
        return patient(self._rows(), limit_s, self._effect)

    def columns(self) -> list[str]:
        """Return the columns of the rows without reading one. Raises `SourceError`."""
        return list(patient(self._columns(), LOOK_S, self._effect))

    def needed(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns of a row with id, value and time of the effect: the first one if no id is named."""
        effect = self._effect
        names = {place.removeprefix("$.") for place in (effect.id, effect.value, effect.at) if place is not None}
        return {name: value for number, (name, value) in enumerate(row.items()) if name in names or number == 0}

    def _rows(self) -> Iterator[Item]:
        with self._result() as result:
            for number, row in enumerate(result.mappings(), 1):
                yield Item(Record(dict(row)), f"row {number:,} of the query", "")

    def _columns(self) -> Iterator[str]:
        with self._result() as result:
            yield from result.keys()

    @contextmanager
    def _result(self) -> Iterator[Result[Any]]:
        from sqlalchemy import make_url, text

        with self._errors():
            url = make_url(self._url)
            if url.get_backend_name() == "sqlite" and url.database and not Path(url.database).is_file():
                is_other = Path(url.database).exists()
                raise self._error(f"{url.database} is no file" if is_other else f"there is no file {url.database}")
            with engine_of(url, CONNECT_S).connect() as connection:
                self._connected = True
                streamed = connection.execution_options(stream_results=True, max_row_buffer=ROWS_PER_FETCH)
                # a query has no parameters: a colon, as in a text or a time, is itself
                yield streamed.execute(text(_PARAMETER.sub(r"\:", self._effect.query or "")))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

        try:
            yield
        except NoSuchModuleError as e:
            raise self._error(e) from None
        except ArgumentError:  # the message has the whole URL
            raise self._error("it is no URL of a database") from None
        except ModuleNotFoundError as e:
            raise self._error(f"it needs the Python package {e.name}: pip install it") from None
        except DBAPIError as e:
            raise self._error(e.orig) from None
        except AftershockError:
            raise
        except Exception as e:  # noqa: BLE001 - a driver raises other errors, too, such as for a text that is no UTF-8
            raise self._error(e) from None

    def _error(self, reason: object) -> SourceError:
        lines = self._scrub.text(str(reason)).strip().splitlines() or ["no reason given"]
        shown_line = without_values(lines[0]) if self._hidden else lines[0]
        message = f"effect {self._effect.name} cannot be read: {shown_line}"
        return SourceError(message, bool(_NO_TABLE.search(lines[0])), self._connected)


def kept_file(ledger: Path, effect: str) -> Path:
    """Return the file with the rows of an effect in a database that ends with the run."""
    return ledger / KEPT / f"{effect}.jsonl"


def keep_rows(query: Query, file: Path) -> None:
    """Store the columns of a query that an effect needs as JSON lines, all rows or none. Raises `SourceError`."""
    half = file.with_suffix(".half")
    half.parent.mkdir(exist_ok=True)
    with half.open("w", encoding="utf-8") as rows:
        for item in query.items():
            row = query.needed(item.record.data) if item.record else None
            rows.write(json.dumps(row, default=str) + "\n")
    half.rename(file)


def kept_rows(file: Path, effect: Effect) -> Iterator[Item]:
    """Yield the rows that `keep_rows` stored. Raises `SourceError` if there are none."""
    if not file.exists():
        raise SourceError(f"effect {effect.name} cannot be read: its database ended before the run had read it")
    with file.open(encoding="utf-8") as rows:
        for number, row in enumerate(rows, 1):
            yield Item(Record(json.loads(row)), f"row {number:,} of the query", "")


def patient(items: Iterator[T], limit_s: float, effect: Effect) -> Iterator[T]:
    """Yield the items of a database. Raises `SourceError` after `limit_s` without one.

    No driver ends a request to a server that hangs, so it stays behind in a separate thread.
    """
    batches: queue.Queue[list[T] | Exception] = queue.Queue(2)
    left = threading.Event()

    def hand_over(batch: list[T] | Exception) -> None:
        while not left.is_set():
            with suppress(queue.Full):
                return batches.put(batch, timeout=1)

    def pull() -> None:
        try:
            while batch := list(islice(items, ROWS_PER_FETCH)):
                hand_over(batch)
                if left.is_set():
                    return
            hand_over([])
        except Exception as e:  # noqa: BLE001 - raised where the items are read
            hand_over(e)

    threading.Thread(target=pull, daemon=True, name=f"query {effect.name}").start()
    try:
        while True:
            try:
                batch = batches.get(timeout=limit_s)
            except queue.Empty:
                reason = f"the database did not answer within {limit_s:g} s"
                raise SourceError(f"effect {effect.name} cannot be read: {reason}") from None
            if isinstance(batch, Exception):
                raise batch
            if not batch:
                return
            yield from batch
    finally:
        left.set()


class Repeated:
    """Marks of the rows of one reading of a query: the id, and a number from the second one on."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def mark(self, found: str) -> str:
        """Return the mark of the next row with an id."""
        if len(self.counts) >= MOST_COUNTED and found not in self.counts:
            return found
        self.counts[found] += 1
        return found if self.counts[found] == 1 else f"{found} #{self.counts[found]}"


# Files and logs.


@dataclass(frozen=True)
class FilePart:
    """A file of an effect. path: in its file system; name: as messages show it."""

    effect: Effect
    path: str
    name: str
    size: int

    @property
    def appended(self) -> bool:
        """Whether the file only grows, line by line, so that a look may begin where the last one ended."""
        return not self.path.lower().endswith((".parquet", ".gz", ".bz2", ".xz", ".zst", ".csv"))


def files_of(effect: Effect, logs: Path) -> list[FilePart]:
    """Return the files of an effect, by name. logs: the folder of the logs of the run. Raises `SourceError`."""
    if effect.log is not None:
        found = sorted(logs.glob(f"{effect.log.app}-[0-9]*.log"))
        if not found:
            raise SourceError(
                f"effect {effect.name} cannot be read: there is no log of {effect.log.app} in logs/", True
            )
        return [FilePart(effect, str(path), f"logs/{path.name}", path.stat().st_size) for path in found]
    import fsspec

    pattern = effect.files or ""
    with _file_errors(effect, pattern):
        fs, path = fsspec.core.url_to_fs(_uncached(pattern))
        fs.invalidate_cache()  # a file system may keep what it listed
        if fs.isdir(path):
            path = f"{path.rstrip('/')}/*"
        paths = fs.glob(path) if "*" in path or "?" in path or "[" in path else [path]
        infos = [fs.info(one) for one in sorted(paths) if not one.rsplit("/", 1)[-1].startswith(("_", "."))]
        infos = [info for info in infos if info["type"] == "file"]
    if not infos:
        raise SourceError(f"effect {effect.name} cannot be read: no file is at {pattern}", True)
    return [FilePart(effect, i["name"], i["name"].rsplit("/", 1)[-1], int(i["size"] or 0)) for i in infos]


def read_file(part: FilePart, start: int | None = None) -> Iterator[tuple[Item, int]]:
    """Yield the items of a file, each with the offset behind it. Raises `SourceError`.

    start: the offset to begin at, of a file that only grows; None for all of a file that is complete. A last line
    without a newline may go on, so only a complete file has it, unless it is a whole object.
    """
    kind = re.sub(r"\.(gz|bz2|xz|zst)$", "", part.path.lower())
    with _file_errors(part.effect, part.name), _opened(part) as file:
        if kind.endswith(".parquet"):
            yield from ((item, 0) for item in _parquet(part, file))
        elif kind.endswith(".csv"):
            yield from ((item, 0) for item in _csv(part, file))
        else:
            if start:
                file.seek(start)
            yield from _lines(part, file, start)


def _uncached(pattern: str) -> str:
    """Return a pattern without the caches of fsspec in its chain: they keep the first state of a file that grows."""
    chain = pattern.split("::")
    return "::".join(link for link in chain if link.partition("://")[0] not in CACHES) if len(chain) > 1 else pattern


@contextmanager
def _opened(part: FilePart) -> Iterator[IO[bytes]]:
    """Open a file in the file system of its pattern: only that knows the member of an archive."""
    if part.effect.log is not None:
        with Path(part.path).open("rb") as log:
            yield log
        return
    import fsspec

    fs, _ = fsspec.core.url_to_fs(
        _uncached(part.effect.files or "")
    )  # it ends with its last reference, and its files with it
    with fs.open(part.path, "rb", compression="infer") as file:
        yield file


def read_whole(part: FilePart) -> Iterator[Item]:
    """Yield all items of a file."""
    for item, _ in read_file(part):
        yield item


def _lines(part: FilePart, file: IO[bytes], start: int | None) -> Iterator[tuple[Item, int]]:
    parse = _log_line(part.effect) if part.effect.log else _json_line
    at = start or 0
    for number, line in enumerate(file, 1):
        if start is not None and not line.endswith(b"\n") and (part.effect.log or not _is_object(line)):
            return
        place = f"line {number:,}" if start is None else f"at byte {at:,}"  # only a whole file is counted
        where, mark, at = f"{part.name} {place}", f"{part.path} {at}", at + len(line)
        if not line.strip():
            continue
        try:
            data = parse(line)
        except Unreadable as e:
            yield Item(None, where, mark, e, not line.endswith(b"\n")), at
            continue
        if data is not None:
            yield Item(Record(data), where, mark), at


def _json_line(line: bytes) -> Any:
    try:
        return json.loads(line, parse_float=Decimal)
    except (ValueError, RecursionError):
        raise Unreadable("the line is no JSON", shown(line.strip())) from None


def _is_object(line: bytes) -> bool:
    with suppress(Unreadable):
        return isinstance(_json_line(line), dict | list)
    return False


def _log_line(effect: Effect) -> Callable[[bytes], Any]:
    assert effect.log is not None
    pattern = re.compile(effect.log.pattern)

    def parse(line: bytes) -> Any:
        match = pattern.search(line.decode("utf-8", "replace").rstrip("\r\n"))
        return match.groupdict() if match else None

    return parse


def _csv(part: FilePart, file: IO[bytes]) -> Iterator[Item]:
    latest = ""

    def lines() -> Iterator[str]:
        nonlocal latest
        for line in io.TextIOWrapper(file, "utf-8-sig", errors="replace", newline=""):
            latest = line
            yield line

    for number, row in enumerate(csv.DictReader(lines()), 2):
        where, mark = f"{part.name} line {number:,}", f"{part.path} {number}"
        if None in row or any(value is None for value in row.values()):
            why = Unreadable("the line has another number of columns than the first one")
            yield Item(None, where, mark, why, not latest.endswith(("\n", "\r")))
        else:
            yield Item(Record(row), where, mark)


def _parquet(part: FilePart, file: IO[bytes]) -> Iterator[Item]:
    import pyarrow.parquet as pq

    number = 0
    for batch in pq.ParquetFile(file).iter_batches():
        for row in batch.to_pylist():
            number += 1
            where, mark = f"{part.name} row {number:,}", f"{part.path} {number}"
            yield Item(Record(row), where, mark)


@contextmanager
def _file_errors(effect: Effect, name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise SourceError(f"effect {effect.name} cannot be read: there is no file {name}", True) from None
    except AftershockError:
        raise
    except Exception as e:  # noqa: BLE001 - each file system raises other errors
        reason = (str(e).strip() or type(e).__name__).splitlines()[0][:200]
        raise SourceError(f"effect {effect.name} cannot be read: {name}: {reason}") from None
