"""The large tables of a ledger in a folder by URL: what is put, found, moved, and refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.errors import RunDirError, UsageError
from chaos.ledger.schemas import LARGE, TABLES
from chaos.ledger.seal import read_seal, seal
from chaos.ledger.store import VARIABLE, LedgerStore, configured
from chaos.run.directory import Run


@pytest.fixture
def store(tmp_path: Path) -> LedgerStore:
    return LedgerStore(f"file://{tmp_path}/there/run")


@pytest.fixture
def part(tmp_path: Path) -> Path:
    path = tmp_path / "part"
    path.write_bytes(b"rows" * 1000)
    return path


def test_a_file_is_put_read_back_moved_and_listed(store: LedgerStore, part: Path) -> None:
    store.check()
    assert store.names("ledger/sends.parquet") == []
    digest = store.put(part, "workers/worker-1/sends/b.parquet")
    assert store.put(part, "workers/worker-1/sends/a.parquet") == digest
    store.move("workers/worker-1/sends/b.parquet", "ledger/sends.parquet/part-00001.parquet")
    store.move("workers/worker-1/sends/a.parquet", "ledger/sends.parquet/part-00000.parquet")
    store.remove("workers")
    names = [f"ledger/sends.parquet/part-0000{n}.parquet" for n in (0, 1)]
    assert store.names("ledger/sends.parquet") == names
    assert store.parts("ledger/sends.parquet") == [f"{store.url}/{name}" for name in names]
    assert [store.size(name) for name in names] == [4000, 4000]
    with store.opened(names[0]) as file:
        assert file.read() == part.read_bytes()
    store.remove("ledger/log")  # it is not there
    assert {p.name for p in Path(store.url.removeprefix("file://")).iterdir()} == {"ledger"}


def test_a_move_replaces_what_was_there(store: LedgerStore, part: Path, tmp_path: Path) -> None:
    store.put(part, "ledger/log/a.parquet")
    part.write_bytes(b"other")
    store.put(part, "half/a.parquet")
    store.move("half/a.parquet", "ledger/log/a.parquet")
    assert store.size("ledger/log/a.parquet") == 5


def test_a_copy_that_is_not_the_file_is_refused(
    store: LedgerStore, part: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = store._fs.open

    def damaging(path: str, mode: str, **options: object) -> object:
        if mode == "rb":
            Path(path).write_bytes(part.read_bytes()[:-1] + b"?")
        return opened(path, mode, **options)

    monkeypatch.setattr(store._fs, "open", damaging)
    with pytest.raises(RunDirError, match="is not the file that was put there"):
        store.put(part, "ledger/sends.parquet/part-00000.parquet")


def test_what_is_missing_or_cannot_be_written_is_named(store: LedgerStore, tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match=f"{store.url} cannot be read"):
        store.size("ledger/gone.parquet")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirError, match="file/run cannot be written"):
        LedgerStore(f"file://{tmp_path}/file/run").check()
    with pytest.raises(RunDirError, match="cannot be written: Connection refused"):
        LedgerStore("webhdfs://root@127.0.0.1:1/run").check()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ledgers", "is no URL"),
        ("webhdfs://me:secret@host:1/x", "has a password"),
        ("nofs://host/x", "cannot be opened: Protocol not known"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused(url: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, url)
    with pytest.raises(UsageError, match=said) as refused:
        configured("run")
    assert VARIABLE in str(refused.value) and "secret" not in str(refused.value)


def test_without_a_url_there_is_no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert configured("run") is None
    monkeypatch.setenv(VARIABLE, " ")
    assert configured("run") is None


def test_a_seal_moves_only_the_large_tables(store: LedgerStore, tmp_path: Path) -> None:
    run = Run.create(tmp_path, "run")
    sealed = seal(run.ledger, store=store)
    assert sealed.store == read_seal(run.ledger).store == store.url
    assert {path.stem for path in run.ledger.glob("*.parquet")} == set(TABLES) - set(LARGE)
    for table in LARGE:
        assert store.names(f"ledger/{table}.parquet") == [f"ledger/{table}.parquet/part-00000.parquet"]
