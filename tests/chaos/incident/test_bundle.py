"""Bundles: what goes in comes out, byte by byte, and what was cut, altered or is hostile is refused in one line."""

import gzip
import io
import json
import tarfile
import zlib
from pathlib import Path

import pytest

from chaos.campaign.replay import version_notes
from chaos.campaign.subject import load_subject
from chaos.drive.stages import ScenarioRequest, prepare
from chaos.errors import RunDirError, UsageError
from chaos.incident.bundle import MANIFEST, open_bundle, pack, unpack
from chaos.ledger.seal import seal
from chaos.ledger.stream import TableWriter
from chaos.run.directory import Run
from chaos.scenario.load import load
from chaos.scenario.resolve import read, resolve, save
from chaos.scenario.shipped import shipped

RESULT = {
    "verdict": "fail",
    "sentence": "3 records were lost.",
    "totals": [
        {"check": "lost_write", "split": "", "scope": "orders", "count": 2},
        {"check": "lost_write", "split": "", "scope": "bills", "count": 1},
        {"check": "duplicate_delivery", "split": "legal", "scope": "billing", "count": 7},
        {"check": "corrupt_record", "split": "", "scope": "orders", "count": 0},
    ],
}


def a_run(folder, run_id="orders-lost-1", variant="acks-1", name="acks1-leader-kill"):
    run = Run.create(folder, run_id)
    scenario = load(shipped()[name], variant=variant)
    save(run, resolve(scenario, run_id=run_id, name=name, created_us=1, seed=7, overrides=[], variant=variant))
    run.scenario.write_text(shipped()[name].read_text())
    with TableWriter(run.ledger, "lifecycle", "shop-1.1") as writer:
        started = {"client": "shop/1", "role": "producer", "incarnation": 1, "event": "started", "at_us": 1}
        detail = {"first_seq": 0, "confluent_kafka": "2.5.0", "librdkafka": "2.5.0"}
        writer.append_rows([{**started, "detail": json.dumps(detail)}])
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run directory with all files that a bundle contains."""
    run = a_run(tmp_path_factory.mktemp("bundle"))
    seal(run.ledger)
    (run.ledger / "log_range.parquet").write_bytes(b"rows")
    run.audit.mkdir()
    (run.audit / "counts.parquet").write_bytes(bytes(range(256)) * 50)
    run.cluster.write_text("{}")
    (run.logs / "broker-1.log").write_text("started")
    run.report.write_text("<html>")
    run.result.write_text(json.dumps(RESULT))
    hidden = (run.path / "tls" / "ca.key", run.path / ".result.json.tmp")
    for left_out in (run.gx / "x.json", run.brokers / "1" / "data", run.beside("dr").brokers / "1" / "data", *hidden):
        left_out.parent.mkdir(parents=True, exist_ok=True)
        left_out.write_text("not wanted")
    return run


@pytest.fixture(scope="module")
def packed(run, tmp_path_factory):
    file = tmp_path_factory.mktemp("packed") / "a.tar.gz"
    pack(run, file)
    return file.read_bytes()


@pytest.fixture
def bundle(packed, tmp_path):
    """A copy for each test, to do with as it likes."""
    file = tmp_path / "a.aftershock.tar.gz"
    file.write_bytes(packed)
    return file


def test_a_bundle_says_what_was_run_with_which_versions_and_what_was_seen(run, bundle):
    found = open_bundle(bundle)
    assert found.resolved.seed == found.manifest.seed == 7
    assert found.manifest.seen.anomalies == {"lost_write": 3, "duplicate_delivery legal": 7}
    assert found.manifest.versions["librdkafka"] == "2.5.0", "what the clients said, not what was asked for"
    assert found.manifest.versions["kafka"] == found.resolved.scenario.cluster.kafka
    assert found.manifest.missing == []


def test_the_same_run_gives_the_same_bytes(run, bundle, tmp_path):
    pack(run, tmp_path / "b.tar.gz")
    assert (tmp_path / "b.tar.gz").read_bytes() == bundle.read_bytes()
    assert bundle.read_bytes()[4:8] == bytes(4), "gzip's own time stamp"


def test_unpacking_gives_the_run_directory_back_without_what_is_left_out(run, bundle, tmp_path):
    back = unpack(bundle, tmp_path / "elsewhere")
    assert back.run_id == run.run_id

    def files(of):
        return {p.relative_to(of.path).as_posix(): p.read_bytes() for p in of.path.rglob("*") if p.is_file()}

    gone = {"gx/x.json", "brokers/1/data", "clusters/dr/brokers/1/data", "tls/ca.key", ".result.json.tmp"}
    assert files(back) == {name: data for name, data in files(run).items() if name not in gone}
    with pytest.raises(RunDirError, match="exists already"):
        unpack(bundle, tmp_path / "elsewhere")


def test_a_run_that_broke_off_is_bundled_and_says_what_is_missing(tmp_path):
    run = a_run(tmp_path)
    manifest = pack(run, tmp_path / "b.tar.gz")
    assert manifest.seen is None
    assert manifest.versions["librdkafka"] == "2.5.0", "read from what the writers left"
    missing = " ".join(manifest.missing)
    for words in ("no cluster was ever deployed", "broke off before its ledger was sealed", "there is no verdict"):
        assert words in missing
    assert any(name.startswith("ledger/lifecycle/") for name in manifest.files)
    assert open_bundle(tmp_path / "b.tar.gz").manifest.missing == manifest.missing


@pytest.mark.parametrize("left", [0, 1, 11, 700, 0.3, 0.7, -700, -9, -8, -1])
def test_a_bundle_that_was_cut_short_is_refused_wherever_it_was_cut(bundle, left, tmp_path):
    data = bundle.read_bytes()
    bundle.write_bytes(data[: int(len(data) * left)] if isinstance(left, float) else data[: left or 0])
    with pytest.raises(RunDirError, match=r"cut short|not a bundle") as e:
        unpack(bundle, tmp_path / "new")
    assert "\n" not in str(e.value)
    assert not (tmp_path / "new").exists()


def unzipped(data):
    """The content of gzipped bytes, with its checksum verified; None if they are damaged."""
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return None


def test_a_flipped_bit_is_found_wherever_it_changes_the_content(bundle):
    """Some bits of a deflate stream change nothing: those after its end, or the distance of a match among zeros."""
    data, found = bundle.read_bytes(), 0
    # the first bytes are gzip's own: time, system, flags
    for place in (*range(12, len(data), max(1, len(data) // 40)), *range(len(data) - 40, len(data))):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        if unzipped(damaged) == unzipped(data):
            continue
        found += 1
        bundle.write_bytes(damaged)
        with pytest.raises(RunDirError):
            open_bundle(bundle)
    assert found > 60


def members(path):
    with tarfile.open(path) as tar:
        return [(m, tar.extractfile(m).read()) for m in tar]


def written(path, found):
    with gzip.open(path, "wb") as packed, tarfile.open(fileobj=packed, mode="w|") as tar:
        for member, data in found:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data) if member.isreg() else None)


def test_a_changed_file_an_added_one_and_one_left_out_are_found(bundle):
    whole = members(bundle)
    changed = [(m, d.replace(b"3 records", b"0 records") if m.name == "result.json" else d) for m, d in whole]
    longer = [(m, d + b" " if m.name == "result.json" else d) for m, d in whole]
    added = [*whole, (tarfile.TarInfo("note.txt"), b"hello")]
    twice = [*whole, whole[-1]]
    without = [(m, d) for m, d in whole if m.name != "result.json"]
    for found, said in [
        (changed, "result.json does not match the SHA-256 in its manifest"),
        (longer, "result.json has"),
        (added, "note.txt is not in its manifest"),
        (twice, "is not in its manifest, or is in the bundle twice"),
        (without, "cut short: result.json is missing"),
    ]:
        written(bundle, found)
        with pytest.raises(RunDirError, match=said):
            open_bundle(bundle)


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "a/./b", "a//b", "a\\b", "~/x", "", "a\nb"])
def test_no_path_leaves_the_run_directory(bundle, name, tmp_path):
    (_, text), *rest = members(bundle)
    manifest = json.loads(text)
    manifest["files"][name] = {"sha256": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", "size": 5}
    head = (tarfile.TarInfo(MANIFEST), json.dumps(manifest).encode())
    written(bundle, [head, *rest, (tarfile.TarInfo(name), b"hello")])
    with pytest.raises(RunDirError, match="not a plain file below the run directory"):
        unpack(bundle, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(bundle, kind):
    link = tarfile.TarInfo("logs")
    link.type, link.linkname = kind, "/etc"
    written(bundle, [*members(bundle), (link, b"")])
    with pytest.raises(RunDirError, match="not a plain file"):
        open_bundle(bundle)


@pytest.mark.parametrize("run_id", ["..", "a/b", "", "/tmp/x"])
def test_a_run_id_that_is_a_path_is_refused(bundle, run_id):
    (_, text), *rest = members(bundle)
    text = json.dumps({**json.loads(text), "run_id": run_id}).encode()
    written(bundle, [(tarfile.TarInfo(MANIFEST), text), *rest])
    with pytest.raises(RunDirError, match="cannot be the name of a run"):
        open_bundle(bundle)


def test_a_file_that_is_no_bundle_is_refused(tmp_path, bundle):
    text = tmp_path / "x.tar.gz"
    text.write_text("hello")
    with pytest.raises(RunDirError, match="not a bundle"):
        open_bundle(text)
    with pytest.raises(RunDirError, match="there is no bundle"):
        open_bundle(tmp_path / "none.tar.gz")
    written(text, [(tarfile.TarInfo("a"), b"a")])
    with pytest.raises(RunDirError, match=f"does not begin with {MANIFEST}"):
        open_bundle(text)
    (_, manifest), *rest = members(bundle)
    newer = json.dumps({**json.loads(manifest), "format": 2}).encode()
    written(text, [(tarfile.TarInfo(MANIFEST), newer), *rest])
    with pytest.raises(RunDirError, match="is of format 2"):
        open_bundle(text)


def test_brokers_that_were_lent_have_their_logs_elsewhere(run, tmp_path):
    (run.logs / "broker-1.log").unlink()
    missing = pack(run, tmp_path / "b.tar.gz").missing
    (run.logs / "broker-1.log").write_text("started")
    assert [words.partition(":")[0] for words in missing] == ["logs/broker-N.log"]


def test_no_room_for_a_bundle_is_reported_and_leaves_nothing(run, tmp_path):
    with pytest.raises(UsageError, match="cannot be written"):
        pack(run, tmp_path / "nowhere" / "b.tar.gz")
    assert list(tmp_path.glob("**/.*partial")) == []


PROTO = 'syntax = "proto3";\nimport "common/money.proto";\nmessage Order { string order_id = 1; Money total = 2; }\n'


@pytest.fixture
def with_app(tmp_path):
    """Return a scenario file with samples, a schema with an import, a template and a program, and its packed run."""
    folder = tmp_path / "there"
    (folder / "common").mkdir(parents=True)
    (folder / "my orders.jsonl").write_text('{"order_id": "1"}\n')
    (folder / "order.proto").write_text(PROTO)
    (folder / "common" / "money.proto").write_text('syntax = "proto3";\nmessage Money { int64 cents = 1; }\n')
    (folder / "app.tpl").write_text("brokers={bootstrap}")
    (folder / "service.py").write_text("pass")
    file = folder / "mine.yaml"
    app = {"name": "billing", "command": ["{python}", "service.py"], "files": {"app.properties": "app.tpl"}}
    scenario = {
        "title": "t",
        "topics": [{"name": "orders"}, {"name": "invoices"}],
        "producers": [{"name": "shop", "topic": "orders", "value": {"samples": "my orders.jsonl", "id": "$.order_id"}}],
        "effects": [
            {"name": "invoices", "topic": "invoices", "id": "$.order_id", "format": {"protobuf": "order.proto"}}
        ],
        "apps": [app],
        "capture": {"payloads": "needed"},
    }

    def packed(**changes):
        file.write_text(json.dumps(scenario | changes))
        run = prepare(ScenarioRequest(str(file), seed=1), runs_dir=tmp_path / "runs")
        (run.path / "apps" / "billing-1" / "files").mkdir(parents=True)
        (run.path / "apps" / "billing-1" / "files" / "app.properties").write_text("password=x")
        pack(run, tmp_path / "b.tar.gz")
        return tmp_path / "b.tar.gz"

    return folder, packed


def test_a_bundle_has_samples_schemas_and_templates_and_no_program(with_app, tmp_path, monkeypatch):
    monkeypatch.setenv("AFTERSHOCK_CACHE", str(tmp_path / "cache"))
    folder, packed = with_app
    file = packed()
    members = set(open_bundle(file).manifest.files)
    assert {"inputs/1/my-orders.jsonl", "inputs/3/order.proto", "inputs/3/common/money.proto"} <= members
    assert not [name for name in members if name.startswith("apps/") or name.endswith(".py")]
    for name in ("my orders.jsonl", "order.proto", "common/money.proto", "app.tpl"):
        (folder / name).unlink()
    subject = load_subject(str(file))
    (producer,), (effect,), (app,) = subject.scenario.producers, subject.scenario.effects, subject.scenario.apps
    assert Path(producer.value.samples).read_text() == '{"order_id": "1"}\n'
    assert Path(effect.format.protobuf).read_text() == PROTO
    assert Path(app.files["app.properties"]).read_text() == "brokers={bootstrap}"
    assert load_subject(str(file)) == subject, "a campaign that goes on finds the same scenario"


def test_a_run_directory_that_was_moved_finds_its_files(with_app, tmp_path):
    _, packed = with_app
    packed()
    (run,) = (tmp_path / "runs").iterdir()
    moved = run.rename(tmp_path / "moved")
    assert read(Run.open(moved)).scenario.producers[0].value.samples == f"{moved}/inputs/1/my-orders.jsonl"


def test_a_replay_names_the_program_that_is_missing_and_how_it_is_given(with_app, tmp_path, monkeypatch):
    monkeypatch.setenv("AFTERSHOCK_CACHE", str(tmp_path / "cache"))
    folder, packed = with_app
    file = packed()
    (folder / "service.py").rename(folder / "later.py")
    with pytest.raises(UsageError) as raised:
        load_subject(str(file))
    assert f"apps.billing.directory: there is no file {folder}/service.py; copy it there" in str(raised.value)
    assert "--set apps.billing.directory=FOLDER" in str(raised.value)
    command = 'apps.billing.command=["{python}", "later.py"]'
    given = load_subject(str(file), overrides=[command])
    assert version_notes(given)[0] == f"changed: {command}"
    (folder / "service.py").write_text("print('another one')")
    assert "apps.billing: service.py is another file than it was then" in version_notes(load_subject(str(file)))


def test_a_capture_without_payloads_leaves_the_samples_out(with_app, tmp_path, monkeypatch):
    monkeypatch.setenv("AFTERSHOCK_CACHE", str(tmp_path / "cache"))
    folder, packed = with_app
    file = packed(capture={"payloads": "none"})
    assert not [name for name in open_bundle(file).manifest.files if name.endswith(".jsonl")]
    assert load_subject(str(file)).scenario.producers[0].value.samples == str(folder / "my orders.jsonl")
