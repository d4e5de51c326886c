"""Database of the history: its only table, opening, writing and reading. Each failure is a `HistoryError` of one line.

The table can be made again from run directories: `python -m chaos history import`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic_core import from_json
from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Index,
    MetaData,
    String,
    Table,
    Text,
    case,
    create_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from chaos.errors import HistoryError, first_line
from chaos.history.entries import Entry, Time
from chaos.history.trends import BEFORE, TREND_STATS

FILE = "history.sqlite"
TIMEOUT_S = 10
"""Maximum wait for the database to answer, or for another process to finish writing to the same file."""
_LOCK = 0x4166746572
"""Number of the PostgreSQL advisory lock for writers; arbitrary, but not used by anything else."""

Added = Literal["added", "unchanged", "judged again"]


METADATA = MetaData()

RUN = Table(
    "aftershock_run",
    METADATA,
    Column("key", String(64), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("run_id", Text, nullable=False),
    Column("scenario", Text, nullable=False),
    Column("variant", Text, nullable=False),
    Column("setup", String(64), nullable=False),
    Column("title", Text, nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("sentence", Text, nullable=False),
    Column("seen", Text, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("kafka", Text, nullable=False),
    Column("client", Text, nullable=False),
    Column("began_us", BigInteger, nullable=False),
    Column("ended_us", BigInteger, nullable=False),
    Column("run_dir", Text, nullable=False),
    Column("command", Text, nullable=False),
    Column("times", Text, nullable=False),
    Index("aftershock_run_by_time", "scenario", "began_us"),
)
"""One row per run. `times`: the measured times, a JSON array of `chaos.history.entries.Time`."""


COLUMNS = (
    RUN.c.key,
    RUN.c.run_id,
    RUN.c.scenario,
    RUN.c.variant,
    RUN.c.title,
    RUN.c.verdict,
    RUN.c.sentence,
    RUN.c.seen,
    RUN.c.kafka,
    RUN.c.client,
    RUN.c.began_us,
    RUN.c.ended_us,
    RUN.c.run_dir,
)


@dataclass(frozen=True)
class RunFilter:
    """What a list shows; an empty value restricts nothing. since_us, until_us: of the begin, from and before."""

    scenario: str = ""
    verdict: str = ""
    kafka: str = ""
    since_us: int | None = None
    until_us: int | None = None

    @property
    def conditions(self) -> list[ColumnElement[bool]]:
        """The conditions on the table of runs."""
        equal = [(RUN.c.scenario, self.scenario), (RUN.c.verdict, self.verdict), (RUN.c.kafka, self.kafka)]
        found: list[ColumnElement[bool]] = [column == value for column, value in equal if value]
        if self.since_us is not None:
            found.append(RUN.c.began_us >= self.since_us)
        if self.until_us is not None:
            found.append(RUN.c.began_us < self.until_us)
        return found


@dataclass(frozen=True)
class ListedRun:
    """One recorded run, as a list shows it; see `chaos.history.entries.Entry`."""

    key: str
    run_id: str
    scenario: str
    variant: str
    title: str
    verdict: str
    sentence: str
    seen: str
    kafka: str
    client: str
    began_us: int
    ended_us: int
    run_dir: str

    @property
    def name(self) -> str:
        """`leader-kill`, or `retry-duplicate/idempotent` for a variant."""
        return f"{self.scenario}/{self.variant}" if self.variant else self.scenario


@dataclass(frozen=True)
class Listing:
    """One page of a list. total: number of runs that match. scenarios, releases: the values that a filter may have."""

    runs: list[ListedRun]
    total: int
    scenarios: list[str]
    releases: list[str]


def default_url(runs_dir: Path) -> str:
    """Return the URL of the SQLite database in the folder of the runs."""
    return f"sqlite:///{runs_dir.absolute() / FILE}"


class Store:
    """One database. The constructor does not connect; every method may raise `HistoryError`."""

    def __init__(self, url: str) -> None:
        self._url = _parse_url(url)
        self.name = self._url.render_as_string(hide_password=True)
        self._ready = False
        with self._errors():
            self._engine = _engine(self._url)

    def exists(self) -> bool:
        """Return whether the database may have entries, without creating a missing SQLite file."""
        return self._url.get_backend_name() != "sqlite" or Path(self._url.database or "").is_file()

    def add(self, entry: Entry) -> Added:
        """Write a run with its times. An entry with the same key is replaced only if its digest differs."""
        with self._transaction() as db:
            _lock(db)  # another process may add the same run
            stored_digest = db.execute(select(RUN.c.digest).where(RUN.c.key == entry.key)).scalar()
            if stored_digest == entry.digest:
                return "unchanged"
            if stored_digest is not None:
                db.execute(delete(RUN).where(RUN.c.key == entry.key))
            db.execute(insert(RUN), {**vars(entry), "times": json.dumps([time._asdict() for time in entry.times])})
        return "added" if stored_digest is None else "judged again"

    def entries(self, scenario: str | None = None, shown: int = 1) -> list[Entry]:
        """Return the runs, or the runs of one scenario, by start time.

        The last run of a test has all its times. The `shown` last ones and those to compare them with have the times
        with a trend, and older ones none.
        """
        test = (RUN.c.scenario, RUN.c.variant, RUN.c.setup)
        age = func.row_number().over(partition_by=test, order_by=(RUN.c.began_us.desc(), RUN.c.key.desc()))
        ages = select(RUN, age.label("age")).subquery()
        others = [ages.c[column.name] for column in RUN.c if column.name != "times"]
        times = case((ages.c.age <= shown + BEFORE, ages.c.times), else_=None).label("times")
        runs = select(*others, times, ages.c.age).order_by(ages.c.began_us, ages.c.key)
        if scenario is not None:
            runs = runs.where(ages.c.scenario == scenario)
        with self._transaction() as db:
            return [_entry(dict(row)) for row in db.execute(runs).mappings()]

    def digests(self) -> dict[str, str]:
        """Return the digest of each run by its key: equal digests mean that nothing was added or judged again."""
        with self._transaction() as db:
            return {key: digest for key, digest in db.execute(select(RUN.c.key, RUN.c.digest))}

    def page(self, wanted: RunFilter, limit: int, offset: int = 0) -> Listing:
        """Return a page of the runs that match, the latest first."""
        rows = select(*COLUMNS).where(*wanted.conditions).order_by(RUN.c.began_us.desc(), RUN.c.key)
        with self._transaction() as db:
            total = db.execute(select(func.count()).select_from(RUN).where(*wanted.conditions)).scalar_one()
            runs = [ListedRun(**row) for row in map(dict, db.execute(rows.limit(limit).offset(offset)).mappings())]
            scenarios = db.execute(select(RUN.c.scenario).distinct().order_by(RUN.c.scenario)).scalars().all()
            releases = db.execute(select(RUN.c.kafka).distinct()).scalars().all()
        return Listing(runs, total, list(scenarios), _by_release(releases))

    def run_dirs(self) -> list[str]:
        """Return the run directories of all runs."""
        with self._transaction() as db:
            return list(db.execute(select(RUN.c.run_dir)).scalars())

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Open a transaction, with the table made if it is missing."""
        with self._errors(), self._engine.begin() as db:
            if not self._ready:
                self._prepare(db)
            yield db
        self._ready = True

    def _prepare(self, db: Connection) -> None:
        """Make the table if it is missing. Raises `HistoryError` for a table with other columns."""
        if not inspect(db).has_table(RUN.name):
            _lock(db)  # another process may make it meanwhile
            METADATA.create_all(db)
        if {column["name"] for column in inspect(db).get_columns(RUN.name)} != set(RUN.c.keys()):
            raise HistoryError(
                f"{self.name} has a table {RUN.name} with other columns; name another database, or remove the table "
                "and make it again: python -m chaos history import RUNS_DIR"
            )

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn the errors of databases and drivers into a `HistoryError` of one line, without a password."""
        try:
            yield
        except NoSuchModuleError:
            raise HistoryError(f"{self.name} is of an unknown kind of database; use sqlite or postgresql") from None
        except ModuleNotFoundError as e:
            raise HistoryError(f"{self.name} needs the Python package {e.name}: pip install it") from None
        except DBAPIError as e:
            raise HistoryError(f"{self.name} cannot be used: {first_line(e.orig)}") from None
        except SQLAlchemyError as e:
            raise HistoryError(f"{self.name} cannot be used: {first_line(e)}") from None


def _entry(row: dict[str, Any]) -> Entry:
    """Return the entry of a row, with its `age`: how many runs of its test began since, itself included."""
    age, times = row.pop("age"), from_json(row.pop("times") or "[]")
    if age > 1:
        times = [time for time in times if time["stat"] in TREND_STATS.get(time["metric"], ())]
    return Entry(**row, times=tuple(Time(**time) for time in times))


def _parse_url(url: str) -> URL:
    """Return the URL, with the driver of Aftershock if it names none. Raises `HistoryError`."""
    try:
        parsed = make_url(url)
    except ArgumentError:  # its text contains the URL, perhaps with a password
        raise HistoryError(
            "the history's URL is not understood; write sqlite:////folder/history.sqlite or "
            "postgresql://user:password@host:5432/database"
        ) from None
    if parsed.drivername in ("postgres", "postgresql"):
        return parsed.set(drivername="postgresql+psycopg2")
    return parsed


def _engine(url: URL) -> Engine:
    sqlite = url.get_backend_name() == "sqlite"
    timeout = {"timeout": TIMEOUT_S} if sqlite else {"connect_timeout": TIMEOUT_S}
    engine = create_engine(url, connect_args=timeout, pool_pre_ping=not sqlite)
    if sqlite:
        event.listen(engine, "begin", _begin_immediate)
    return engine


def _lock(db: Connection) -> None:
    """Wait for other writers, and block them until this transaction ends; SQLite does both at its begin."""
    if db.dialect.name == "postgresql":
        db.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK})


def _begin_immediate(connection: Connection) -> None:
    """Take the write lock of SQLite at the start of a transaction instead of at its first write."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _by_release(releases: Iterable[str]) -> list[str]:
    """Return releases, the newest first: 4.10.0 before 4.9.0."""

    def numbers(release: str) -> list[int]:
        return [int(part) if part.isdecimal() else 0 for part in release.split(".")]

    return sorted((r for r in releases if r), key=numbers, reverse=True)
