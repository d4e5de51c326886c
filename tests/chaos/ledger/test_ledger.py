import json
import signal
import subprocess
import sys
import unittest.mock
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.errors import RunDirError
from chaos.ledger.record import HEADER_BYTES, INPUT_HEADER, Identity, crc_ok, encode, encode_input, parse, parse_input
from chaos.ledger.schemas import SCHEMA_VERSION, TABLES
from chaos.ledger.seal import read_seal, seal
from chaos.ledger.stream import StreamEnd as End
from chaos.ledger.stream import TableWriter, read_stream, runs, same


def fault(name="kill", at_us=1):
    return {"fault": name, "kind": "broker.kill", "phase": "injected", "at_us": at_us}


def written(ledger, *batches):
    with TableWriter(ledger, "faults", "drive") as writer:
        for batch in batches:
            writer.append_rows(batch)
    return writer.path


def test_rows_come_back_as_they_were_written(tmp_path):
    written(tmp_path, [fault("a"), fault("b")], [fault("c")])
    sealed = seal(tmp_path)
    assert sealed.tables["faults"].rows == 3
    assert pq.read_table(tmp_path / "faults.parquet")["fault"].to_pylist() == ["a", "b", "c"]


def test_every_table_is_sealed_even_an_empty_one(tmp_path):
    seal(tmp_path)
    for table, schema in TABLES.items():
        assert pq.read_table(tmp_path / f"{table}.parquet").schema.equals(schema)
        assert pq.read_metadata(tmp_path / f"{table}.parquet" / "part-00000.parquet").num_rows == 0


@given(st.data())
def test_a_truncated_stream_keeps_its_complete_batches_and_counts_the_remaining_bytes(tmp_path_factory, data):
    ledger = tmp_path_factory.mktemp("ledger")
    path = written(ledger, [fault("a")], [fault("b"), fault("c")])
    whole = path.read_bytes()
    cut = data.draw(st.integers(min_value=0, max_value=len(whole)))
    path.write_bytes(whole[:cut])
    table = seal(ledger).tables["faults"]
    names = pq.read_table(ledger / "faults.parquet")["fault"].to_pylist()
    assert names == ["a", "b", "c"][: table.rows]
    assert table.rows == 3 or cut < len(whole)
    torn = sum(t.bytes for t in table.torn)
    assert torn == 0 or table.rows < 3
    assert table.rows in (0, 1, 3)


def test_garbage_after_complete_batches_is_counted_and_not_read(tmp_path):
    path = written(tmp_path, [fault("a")])
    with path.open("ab") as f:
        f.write(b"\x07" * 100)
    table = seal(tmp_path).tables["faults"]
    assert table.rows == 1
    assert [t.bytes for t in table.torn] == [100]
    assert table.torn[0].file == "faults/drive.arrows"


def sends(texts):
    return [{"producer": text, "seq": i, "txn": None if text is None else 7} for i, text in enumerate(texts)]


@given(st.lists(st.lists(st.sampled_from(["a", "b", "", None]), min_size=1, max_size=9), max_size=4))
def test_run_end_encoded_columns_are_read_row_by_row(tmp_path_factory, batches):
    ledger = tmp_path_factory.mktemp("ledger")
    with TableWriter(ledger, "sends", "shop") as writer:
        for texts in batches:
            writer.append_rows(sends(texts))
    assert seal(ledger).tables["sends"].rows == sum(map(len, batches))
    sealed = pq.read_table(ledger / "sends.parquet")
    assert sealed.schema.equals(TABLES["sends"])
    expected = [row for texts in batches for row in sends(texts)]
    assert sealed.select(["producer", "seq", "txn"]).to_pylist() == expected


def test_plain_and_run_end_encoded_streams_have_the_same_rows(tmp_path):
    rows = sends(["a", "a", None, "b"])
    with TableWriter(tmp_path, "sends", "ours") as writer:
        writer.append_rows(rows)
    batch = pa.RecordBatch.from_pylist(rows, TABLES["sends"])
    (tmp_path / "sends" / "theirs.arrows").write_bytes(bytes(batch.schema.serialize()) + bytes(batch.serialize()))
    paths = (tmp_path / "sends" / f"{stream}.arrows" for stream in ("ours", "theirs"))
    ours, theirs = (b for path in paths for b in read_stream(path, batch.schema, End()))
    assert ours.equals(theirs) and ours.to_pylist() == batch.to_pylist()


def test_a_repeated_value_can_be_sliced_to_any_length(tmp_path):
    with TableWriter(tmp_path, "sends", "shop") as writer:
        for n in (1, 5000):
            known = {"outcome": same("ok", pa.string()).slice(0, n), "completed_us": runs(np.array([n]), pa.array([3]))}
            writer.append([known.get(field.name, pa.nulls(n, field.type)) for field in TABLES["sends"]])
    short, long = read_stream(writer.path, TABLES["sends"], End())
    assert [b.num_rows for b in (short, long)] == [1, 5000]
    assert long["completed_us"].unique().to_pylist() == [3] and long["outcome"].unique().to_pylist() == ["ok"]


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_byte_ends_the_stream_or_changes_values_without_a_crash(tmp_path, seed):
    with TableWriter(tmp_path, "sends", "shop") as writer:
        writer.append_rows(sends(["a", "a", None]))
        writer.append_rows(sends(["b"]))
    whole, random = writer.path.read_bytes(), Random(seed)
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[random.randrange(len(whole))] = random.choice([0, 1, 0x7F, 0x80, 0xFF])
        writer.path.write_bytes(damaged)
        end = End()
        rows = sum(batch.num_rows for batch in read_stream(writer.path, TABLES["sends"], end))
        assert rows == 4 or end.torn_bytes


def test_a_stream_with_another_schema_is_unreadable(tmp_path):
    (tmp_path / "faults").mkdir()
    other = pa.schema([("fault", pa.string())], metadata={"aftershock.schema": "99"})
    (tmp_path / "faults" / "old.arrows").write_bytes(other.serialize())
    table = seal(tmp_path).tables["faults"]
    assert table.rows == 0
    assert "schema version 99" in table.torn[0].reason


def test_a_stream_of_this_version_has_all_columns(tmp_path):
    half = pa.schema(list(TABLES["faults"])[1:], TABLES["faults"].metadata)
    path, end = tmp_path / "x.arrows", End()
    path.write_bytes(half.serialize())
    assert list(read_stream(path, TABLES["faults"], end)) == [] and end.torn_bytes


def test_an_appended_batch_survives_sigkill(tmp_path):
    program = (
        "import os, signal, pathlib, sys; from chaos.ledger.stream import TableWriter;"
        "w = TableWriter(pathlib.Path(sys.argv[1]), 'faults', 'x');"
        "w.append_rows([{'fault': 'a'}, {'fault': 'b'}]); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert seal(tmp_path).tables["faults"].rows == 2


def test_two_writers_never_share_a_file(tmp_path):
    with TableWriter(tmp_path, "faults", "drive"), pytest.raises(FileExistsError):
        TableWriter(tmp_path, "faults", "drive")


def test_an_unknown_column_is_an_error(tmp_path):
    with TableWriter(tmp_path, "faults", "drive") as writer, pytest.raises(KeyError, match="fualt"):
        writer.append_rows([{"fualt": "a"}])


@pytest.mark.parametrize("table", ["sends", "faults"])
@pytest.mark.parametrize("more", [-1, 1])
def test_a_batch_of_too_few_or_too_many_columns_is_an_error(tmp_path, table, more):
    with TableWriter(tmp_path, table, "x") as writer, pytest.raises(ValueError, match="zip"):
        writer.append([pa.nulls(1)] * (len(TABLES[table]) + more))


def test_a_ledger_without_seal_or_of_another_version_is_refused(tmp_path):
    with pytest.raises(RunDirError, match="never written"):
        read_seal(tmp_path)
    for other in (0, SCHEMA_VERSION + 1, str(SCHEMA_VERSION)):
        (tmp_path / "seal.json").write_text(json.dumps({"schema_version": other, "tables": {}}))
        with pytest.raises(RunDirError, match=f"schema version {other}, this Aftershock reads {SCHEMA_VERSION}"):
            read_seal(tmp_path)
    (tmp_path / "seal.json").write_text(json.dumps({"schema_version": SCHEMA_VERSION, "tables": {}}))
    assert read_seal(tmp_path).tables == {}


def test_sealing_again_after_a_kill_between_writing_and_removing_loses_nothing(tmp_path):
    written(tmp_path, [fault("a")])
    seal(tmp_path)
    (tmp_path / "seal.json").unlink()  # simulates a kill before the seal: Parquet and streams both exist
    written(tmp_path, [fault("a")])
    assert seal(tmp_path).tables["faults"].rows == 1


def test_a_kill_between_the_seal_and_the_removal_of_the_streams_loses_nothing(tmp_path):
    written(tmp_path, [fault("a")])
    seal(tmp_path)  # simulates a kill here, with only some streams removed
    TableWriter(tmp_path, "sends", "shop").close()
    assert seal(tmp_path).tables["faults"].rows == 1
    assert pq.read_table(tmp_path / "faults.parquet").num_rows == 1
    assert not (tmp_path / "sends").exists()


def test_the_incomplete_output_of_a_killed_seal_is_replaced(tmp_path):
    written(tmp_path, [fault("a")])
    for folder in (".faults.parquet.half", "faults.parquet"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "part-00007.parquet").write_bytes(b"PAR1")
    assert seal(tmp_path).tables["faults"].parts == [1]
    assert [p.name for p in (tmp_path / "faults.parquet").iterdir()] == ["part-00000.parquet"]
    assert not list(tmp_path.glob(".*"))


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=4))
def test_all_parts_except_the_last_are_full_and_keep_the_order_of_streams(tmp_path_factory, streams):
    ledger = tmp_path_factory.mktemp("ledger")
    names = iter(range(1000))
    expected = []
    for i, sizes in enumerate(streams):
        with TableWriter(ledger, "faults", f"writer-{i}") as writer:
            for size in sizes:
                batch = [fault(str(next(names))) for _ in range(size)]
                expected += [row["fault"] for row in batch]
                writer.append_rows(batch)
    with unittest.mock.patch("chaos.ledger.seal.ROWS_PER_PART", 5):
        sealed = seal(ledger).tables["faults"]
    whole, rest = divmod(len(expected), 5)
    assert sealed.parts == [5] * whole + [rest] * (rest > 0 or whole == 0)
    assert sealed.rows == sum(sealed.parts) == len(expected)
    assert pq.read_table(ledger / "faults.parquet")["fault"].to_pylist() == expected


def test_a_failed_write_of_a_part_raises_and_keeps_the_streams(tmp_path):
    path = written(tmp_path, [fault("a")])
    full = unittest.mock.patch("chaos.ledger.seal.pq.write_table", side_effect=OSError("disk full"))
    with full, pytest.raises(OSError, match="disk full"):
        seal(tmp_path)
    assert path.exists()
    assert seal(tmp_path).tables["faults"].rows == 1


identities = st.builds(
    Identity,
    run=st.just("7f3a91c0"),
    producer=st.text("abcdefghijklmnop-_/0123456789", min_size=1, max_size=20),
    incarnation=st.integers(1, 9999),
    seq=st.integers(0, 10**12 - 1),
    sent_us=st.integers(0, 10**16 - 1),
)


@given(identities, st.none() | st.binary(max_size=20), st.binary(max_size=64))
def test_a_parsed_value_has_the_encoded_identity(identity, key, payload):
    value = encode(identity, key, payload)
    assert parse(value) == identity
    assert len(value) == HEADER_BYTES + len(payload)
    assert crc_ok(key, value)


@given(identities, st.binary(min_size=1, max_size=20), st.data())
def test_one_changed_byte_breaks_the_crc(identity, key, data):
    value = bytearray(encode(identity, key, b"payload"))
    at = data.draw(st.integers(0, len(value) - 1))
    value[at] ^= data.draw(st.integers(1, 255))
    assert not crc_ok(key, bytes(value))
    assert not crc_ok(key + b"x", encode(identity, key, b"payload"))


@pytest.mark.parametrize("value", [None, b"", b"AS1", b"x" * 100, b"AS1 " + b"?" * 100])
def test_a_foreign_value_has_no_identity(value):
    assert parse(value) is None


def test_a_header_names_the_input():
    header = INPUT_HEADER, encode_input(("a.b_c-d", 3, 1 << 40))
    assert header[1] == b"a.b_c-d/3/1099511627776"
    assert parse_input([("other", b"x"), header]) == ("a.b_c-d", 3, 1 << 40)


@pytest.mark.parametrize(
    "value", [None, b"", b"a/1", b"a/1/2/3", b"a/-1/2", b"a/1/x", b"/1/2", b"\xff/1/2", b"a/1/" + b"9" * 19]
)
def test_an_unreadable_header_names_no_input(value):
    assert parse_input([(INPUT_HEADER, value)]) is None


def test_a_record_without_the_header_has_no_input():
    assert parse_input(None) is None and parse_input([]) is None and parse_input([("trace", b"a/1/2")]) is None
