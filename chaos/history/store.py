"""The database of the history: opened, brought up to date, written to and read, with every trouble as one line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, create_engine, delete, event, insert, inspect, make_url, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from chaos.errors import HistoryError
from chaos.history.entries import Entry, Time
from chaos.history.tables import METRIC, RUN, VERSION_TABLE

FILE = "history.sqlite"
TIMEOUT_S = 10
"""How long a database may take to answer, or another process to write to the same file."""
_LOCK = 0x4166746572
"""PostgreSQL's lock for those who write; any number that nobody else uses."""
_MIGRATIONS = Path(__file__).parent / "migrations"

Added = Literal["added", "unchanged", "judged anew"]


def default_url(runs_dir: Path) -> str:
    """SQLite, in the folder of the runs."""
    return f"sqlite:///{runs_dir.absolute() / FILE}"


class Store:
    """One database. Opening it connects to nothing; every method may raise `HistoryError`."""

    def __init__(self, url: str) -> None:
        self._url = _understood(url)
        self.name = self._url.render_as_string(hide_password=True)
        self._ready = False
        with self._trouble():
            self._engine = _engine(self._url)

    def exists(self) -> bool:
        """Whether there can be anything to read: a file of SQLite that is not there is not made by asking."""
        return self._url.get_backend_name() != "sqlite" or Path(self._url.database or "").is_file()

    def add(self, entry: Entry) -> Added:
        """Keep a run with its times. One that is there already is left alone, unless it was judged anew."""
        with self._transaction() as db:
            _alone(db)  # another process may be adding this very run
            known = db.execute(select(RUN.c.digest).where(RUN.c.key == entry.key)).scalar()
            if known == entry.digest:
                return "unchanged"
            if known is not None:
                db.execute(delete(METRIC).where(METRIC.c.run_key == entry.key))
                db.execute(delete(RUN).where(RUN.c.key == entry.key))
            row = asdict(entry)
            times = row.pop("times")
            db.execute(insert(RUN), row)
            if times:
                db.execute(insert(METRIC), [{"run_key": entry.key, **time} for time in times])
        return "added" if known is None else "judged anew"

    def entries(self, scenario: str | None = None) -> list[Entry]:
        """The runs, or those of one scenario, from the first to the last."""
        runs = select(RUN).order_by(RUN.c.began_us, RUN.c.key)
        times = select(METRIC).order_by(*METRIC.primary_key.columns)
        if scenario is not None:
            runs = runs.where(RUN.c.scenario == scenario)
            times = times.join(RUN).where(RUN.c.scenario == scenario)
        found: dict[str, list[Time]] = {}
        with self._transaction() as db:
            for row in db.execute(times).mappings():
                values = {name: row[name] for name in ("metric", "scope", "fault", "stat", "value_us")}
                found.setdefault(row["run_key"], []).append(Time(**values))
            return [
                Entry(**row, times=tuple(found.get(row["key"], ()))) for row in map(dict, db.execute(runs).mappings())
            ]

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """A transaction on tables that are up to date."""
        with self._trouble(), self._engine.begin() as db:
            if not self._ready:
                self._up_to_date(db)
            yield db
        self._ready = True

    def _up_to_date(self, db: Connection) -> None:
        """Make or migrate the tables. Refuses tables of others, and those of a newer Aftershock."""
        config = Config()
        config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
        config.attributes["connection"] = db
        scripts = ScriptDirectory.from_config(config)
        if self._revision(db) == scripts.get_current_head():
            return
        _alone(db)
        revision = self._revision(db)
        if revision is None and (foreign := {RUN.name, METRIC.name} & set(inspect(db).get_table_names())):
            raise HistoryError(
                f"{self.name} holds a table {sorted(foreign)[0]} that no history made ({VERSION_TABLE} names no "
                "revision); name another database"
            )
        if revision is not None and revision not in {one.revision for one in scripts.walk_revisions()}:
            raise HistoryError(
                f"{self.name} was written by a newer Aftershock (revision {revision}, known up to "
                f"{scripts.get_current_head()}); update this one, or name another database"
            )
        command.upgrade(config, "head")

    def _revision(self, db: Connection) -> str | None:
        return MigrationContext.configure(db, opts={"version_table": VERSION_TABLE}).get_current_revision()

    @contextlib.contextmanager
    def _trouble(self) -> Iterator[None]:
        """What databases and their drivers raise, as one line without a password."""
        try:
            yield
        except NoSuchModuleError:
            raise HistoryError(f"{self.name} is of no known kind of database, as sqlite and postgresql are") from None
        except ModuleNotFoundError as e:
            raise HistoryError(f"{self.name} needs the Python package {e.name}: pip install it") from None
        except DBAPIError as e:
            raise HistoryError(f"{self.name} cannot be used: {_first_line(e.orig)}") from None
        except SQLAlchemyError as e:
            raise HistoryError(f"{self.name} cannot be used: {_first_line(e)}") from None


def _understood(url: str) -> URL:
    """The URL, with the driver that comes with Aftershock where none is named."""
    try:
        found = make_url(url)
    except ArgumentError:  # whose text has the URL, and that may have a password
        raise HistoryError(
            "the history's URL is not understood; write sqlite:////folder/history.sqlite or "
            "postgresql://user:password@host:5432/database"
        ) from None
    if found.drivername in ("postgres", "postgresql"):
        return found.set(drivername="postgresql+psycopg2")
    return found


def _engine(url: URL) -> Engine:
    sqlite = url.get_backend_name() == "sqlite"
    timeout = {"timeout": TIMEOUT_S} if sqlite else {"connect_timeout": TIMEOUT_S}
    engine = create_engine(url, connect_args=timeout, pool_pre_ping=not sqlite)
    if sqlite:
        event.listen(engine, "begin", _begin_immediate)
    return engine


def _alone(db: Connection) -> None:
    """Wait for other writers until this transaction ends; SQLite's do so from their beginning."""
    if db.dialect.name == "postgresql":
        db.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK})


def _begin_immediate(connection: Connection) -> None:
    """Wait for other writers at the beginning, and not when half of it is done."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _first_line(error: BaseException | None) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
