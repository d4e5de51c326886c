"""Payloads of the user's form: the same ones for the same record, with its id in its place, else unchanged."""

import json
import struct
from collections import Counter
from pathlib import Path
from uuid import RFC_4122, UUID

import fastavro
import pytest
from jsonschema import validate

from chaos.ledger.ids import Ids
from chaos.ledger.record import parse
from chaos.values.model import Value
from chaos.values.payloads import Payloads, Unmarked, ValueProblem

NOW_US = 1_795_776_000_123_456
IDS = Ids("7f3a91c0", NOW_US, {"shop/1": 0, "shop/2": 5000}, 9000)
SAMPLES = (
    '{"order_id": "A-17",  "amount": 1.50, "at": {"n": 7}, "note": "caf\\u00e9 é"}\r\n'
    "\n"
    '{"amount":2e3,"order_id":"B","at":{"n":8},"note":"x"}'
)
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "order_id", "type": ["null", "string"]},
        {"name": "number", "type": "long"},
        {"name": "small", "type": "int"},
        {"name": "note", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": "double"}}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "parent", "type": ["null", "Order"], "default": None},
    ],
}
PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Other { message Inner { string id = 1; } int32 number = 1; }
message Order {
  enum Kind { NONE = 0; BIG = 1; }
  string order_id = 1; int64 number = 2; repeated Other lines = 3; google.protobuf.Timestamp at = 4;
  map<string, Other> others = 5; oneof one { string a = 6; double b = 7; }
  string note = 8; Kind kind = 9; Order parent = 10; map<string, Order> more = 11; repeated Order all = 12;
}
"""
SCHEMA = {
    "type": "object",
    "required": ["order_id", "lines"],
    "additionalProperties": False,
    "properties": {
        "order_id": {"type": "string"},
        "number": {"type": "integer", "minimum": 0},
        "amount": {"type": "number", "exclusiveMinimum": 0, "maximum": 99.5, "multipleOf": 0.25},
        "at": {"type": ["null", "string"], "format": "date-time"},
        "lines": {"type": "array", "minItems": 3, "items": {"$ref": "#/$defs/line"}},
        "kind": {"enum": ["a", "b"]},
        "tax": {"allOf": [{"type": "object"}, {"$ref": "#/$defs/tax"}]},
        "who": {"oneOf": [{"type": "string", "maxLength": 3}, {"type": "integer"}]},
    },
    "$defs": {
        "line": {"type": "object", "properties": {"sku": {"type": "string", "minLength": 12}}},
        "tax": {"type": "object", "required": ["rate"], "properties": {"rate": {"type": "number"}}},
    },
}


@pytest.fixture
def folder(tmp_path):
    for name, text in {
        "orders.jsonl": SAMPLES,
        "order.avsc": json.dumps(AVRO),
        "order.proto": PROTO,
        "order.json": json.dumps(SCHEMA),
    }.items():
        (tmp_path / name).write_bytes(text.encode())
    return tmp_path


def payloads(folder: Path, seed: int = 5, **fields) -> Payloads:
    return Payloads(Value.model_validate(fields).placed_in(folder), seed)


def made(source: Payloads, seq: int, client: str = "shop/1") -> bytes:
    return source.make(seq, IDS.of(client, seq, source.id_type or "text"), NOW_US).value


FORMS = {
    "samples": {"samples": "orders.jsonl", "id": "$.order_id"},
    "numbers in samples": {"samples": "orders.jsonl", "id": "$.at.n"},
    "template": {"template": '{"id": "{id}", "n": {random: 1..99}, "c": "{random: red | green}", "u": "{uuid}"}'},
    "numbers in a template": {"template": "<order number='{id:number}'>{seq}</order>"},
    "json_schema": {"json_schema": "order.json", "id": "$.order_id"},
    "numbers with a json_schema": {"json_schema": "order.json", "id": "$.number"},
    "avro": {"avro": "order.avsc", "id": "$.order_id"},
    "numbers in avro": {"avro": "order.avsc", "id": "$.number", "registry": {"id": 7}},
    "protobuf": {"protobuf": "order.proto", "message": "Order", "id": "$.order_id", "registry": {"id": 7}},
    "uuids in avro": {"avro": "order.avsc", "id": "$.uuid"},
    "uuids in a template": {"template": '{"id": "{id:uuid}"}'},
    "numbers in protobuf": {"protobuf": "order.proto", "message": "shop.Order", "id": "$.number"},
    "sizes": {
        "samples": "orders.jsonl",
        "id": "$.order_id",
        "sizes": {"field": "$.note", "weights": [[150, 2], ["1kB", 1]]},
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_a_record_has_the_same_payload_each_time_and_its_id_leads_back(folder, form):
    first, again, other = (payloads(folder, seed, **FORMS[form]) for seed in (5, 5, 6))
    sent = [made(first, seq) for seq in range(1200)]
    assert sent[700:] == [made(again, seq) for seq in range(700, 1200)]  # the next incarnation begins at 700
    assert len(set(sent)) == 1200
    assert set(sent).isdisjoint(made(other, seq, "shop/2") for seq in range(1200))
    bare = Value.model_validate({**FORMS[form], "mark": "none", "id_type": first.id_type}).placed_in(folder)
    reader = Unmarked({"orders": [bare]}, IDS)
    for client, seq in (("shop/1", 0), ("shop/1", 1199), ("shop/2", 3999)):
        found = parse(reader.identity("orders", made(first, seq, client)))
        assert (found.run, found.producer, found.seq) == ("7f3a91c0", client, seq)
        assert reader.identity("invoices", made(first, seq, client)) is None
    assert reader.identity("orders", b"{}") is None


def test_of_a_sample_only_the_id_changes(folder):
    source = payloads(folder, samples="orders.jsonl", id="$.order_id", key="$.at.n", headers={"trace": "t-{id}-{seq}"})
    lines = [line.strip() for line in SAMPLES.split("\n") if line.strip()]
    assert made(source, 2).decode() == lines[0].replace("A-17", "7f3a91c0-shop-1-2")
    assert made(source, 3).decode() == lines[1].replace("B", "7f3a91c0-shop-1-3")
    sent = source.make(3, "the-id", NOW_US)
    assert (sent.key, sent.headers) == (b"8", [("trace", b"t-the-id-3")])


UUIDS = ["0b5a6f0e-9c1d-4f7a-8a53-3f2b1c0d9e8f", "0B5A6F0E-9C1D-1F7A-8A53-3F2B1C0D9E80"]


@pytest.mark.parametrize(
    ("ids", "kind", "last"),
    [
        (UUIDS, "uuid", "7f3a91c0-af7e-4a57-8"),
        (["100045", "007"], "digits", ""),
        ([UUIDS[0], "100045", "A-17"], "text", "7f3a91c0-shop-1-"),
        (["100045", "A-17"], "text", "7f3a91c0-shop-1-"),
        ([17, 18], "number", 5),
    ],
)
def test_the_id_keeps_the_form_of_the_samples(folder, ids, kind, last):
    lines = "".join(json.dumps({"order_id": given, "n": 1}) + "\n" for given in ids)
    (folder / "forms.jsonl").write_text(lines)
    source = payloads(folder, samples="forms.jsonl", id="$.order_id")
    assert source.id_type == kind
    found = [json.loads(made(source, seq))["order_id"] for seq in range(20)]
    assert len(set(found)) == 20 and {type(one) for one in found} == {type(ids[0])}
    assert str(found[3]).startswith(str(last)) if kind != "number" else found[3] > 2**26
    assert [IDS.parse(one) for one in found] == [("shop/1", seq) for seq in range(20)]
    if kind == "uuid":
        assert {UUID(one).version for one in found} == {4} and {UUID(one).variant for one in found} == {RFC_4122}


def test_a_uuid_of_another_run_or_of_the_user_is_no_id():
    own = IDS.of("shop/2", 4, "uuid")
    assert IDS.parse(own) == ("shop/2", 4)
    for other in (own.replace("7f3a91c0", "7f3a91c1"), own[:-1] + "z", UUIDS[0], own[:-12] + "f" * 12):
        assert IDS.parse(other) is None


def test_without_an_id_samples_are_sent_byte_for_byte(folder):
    source = payloads(folder, samples="orders.jsonl")
    assert source.id_type is None
    assert made(source, 1).decode() == SAMPLES.split("\n")[2]


def test_the_key_may_be_the_id_or_a_text(folder):
    by_id = payloads(folder, samples="orders.jsonl", id="$.order_id", key="$.order_id")
    assert by_id.key(4, "the-id") == b"the-id"
    text = payloads(folder, samples="orders.jsonl", id="$.order_id", key="customer-{random: 1..3}")
    keys = [text.key(seq, "x") for seq in range(50)]
    assert set(keys) == {b"customer-1", b"customer-2", b"customer-3"}
    assert keys == [text.make(seq, "x", NOW_US).key for seq in range(50)]


def test_some_keys_are_frequent_by_zipfs_law(folder):
    text = payloads(folder, samples="orders.jsonl", id="$.order_id", key="customer-{zipf: 5..1004}")
    counts = Counter(int(text.key(seq, "x").removeprefix(b"customer-")) for seq in range(20_000))
    assert min(counts) == 5 and max(counts) <= 1004
    assert [n for n, _ in counts.most_common(2)] == [5, 6]
    assert counts[5] / counts[6] == pytest.approx(2, rel=0.15)
    for wrong in ("{zipf: 9..1}", "{zipf: red|green}", "{zipf: 1..9999999}"):
        with pytest.raises(ValueError, match=r"give a range such as 1\.\.1000"):
            Value.model_validate({"template": wrong})


def test_placeholders(folder):
    text = "{seq} {now} {now:iso} {{id}} {random: 0.50..0.52} }} {} { x }"
    number, *rest = made(payloads(folder, template=text), 7).decode().split(" ", 1)
    assert number == "7"
    assert rest[0].startswith("1795776000123 2026-11-27T10:40:00.123+00:00 {id} 0.5")
    assert rest[0].endswith(" }} {} { x }")


@pytest.mark.parametrize("sizes", [{"fixed": 300}, {"uniform": [300, 320]}, {"weights": [["200B", 1], ["1kB", 3]]}])
@pytest.mark.parametrize("form", ["samples", "template", "json", "avro", "protobuf"])
def test_sizes_are_those_that_are_asked_for(folder, form, sizes):
    of = {
        "samples": {"samples": "orders.jsonl", "id": "$.order_id", "sizes": {"field": "$.note", **sizes}},
        "template": {"template": "{id} {filler}", "sizes": sizes},
        "json": {"samples": "orders.jsonl", "id": "$.at.n", "sizes": {"field": "$.note", **sizes}},
        "avro": {"avro": "order.avsc", "id": "$.number", "sizes": {"field": "$.note", **sizes}},
        "protobuf": {
            "protobuf": "order.proto",
            "message": "Order",
            "id": "$.number",
            "sizes": {"field": "$.note", **sizes},
        },
    }
    source = payloads(folder, **of[form])
    found = {len(made(source, seq)) for seq in range(300)}
    smallest, largest = {"fixed": (300, 300), "uniform": (300, 320), "weights": (200, 1000)}[next(iter(sizes))]
    slack = 3 if form in ("avro", "protobuf") else 0  # the length of the filler takes more bytes
    assert smallest <= min(found)
    assert max(found) <= largest + slack


def test_a_payload_is_never_cut(folder):
    source = payloads(folder, samples="orders.jsonl", id="$.order_id", sizes={"field": "$.note", "fixed": 3})
    assert json.loads(made(source, 0)) == {"order_id": "7f3a91c0-shop-1-0", "amount": 1.5, "at": {"n": 7}, "note": ""}


def test_the_wire_format_of_a_registry(folder):
    avro = made(payloads(folder, avro="order.avsc", id="$.number", registry={"id": 7}), 1)
    assert avro[:5] == struct.pack(">bI", 0, 7)
    inner, outer, first = (
        made(payloads(folder, protobuf="order.proto", registry={"id": 300}, **more), 1)
        for more in ({"message": "Inner", "id": "$.id"}, {"message": "Order"}, {})
    )
    # indexes as zigzag: [0, 0] for a message within the first one, [1] for the second one, 0 alone for the first one
    assert inner[:8] == struct.pack(">bI", 0, 300) + bytes([4, 0, 0])
    assert outer[:7] == struct.pack(">bI", 0, 300) + bytes([2, 2])
    assert first[:6] == struct.pack(">bI", 0, 300) + bytes([0])


def test_what_is_made_fits_its_schema(folder):
    source = payloads(folder, json_schema="order.json", id="$.order_id")
    for seq in range(50):
        validate(json.loads(made(source, seq)), SCHEMA)
    import io

    schema = fastavro.parse_schema(AVRO)
    avro = payloads(folder, avro="order.avsc", id="$.order_id")
    for seq in range(50):
        assert fastavro.validate(fastavro.schemaless_reader(io.BytesIO(made(avro, seq)), schema), schema)


def test_samples_are_encoded_with_a_schema(folder):
    (folder / "n.jsonl").write_text('{"id": "a", "n": 1}\n{"id": "b", "n": 2}\n')
    (folder / "n.avsc").write_text(
        '{"type": "record", "name": "N", "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": "int"}]}'
    )
    (folder / "n.proto").write_text('syntax = "proto3"; message N { string id = 1; int32 n = 2; }')
    assert made(payloads(folder, samples="n.jsonl", avro="n.avsc", id="$.id"), 1) == b"\x227f3a91c0-shop-1-1\x04"
    assert made(payloads(folder, samples="n.jsonl", protobuf="n.proto"), 1) == b"\n\x01b\x10\x02"


BAD = [
    ({"samples": "none.jsonl"}, "samples", "none.jsonl cannot be read: No such file"),
    ({"samples": "."}, "samples", " is no file"),
    ({"samples": "/dev/zero"}, "samples", "/dev/zero is no file"),
    ({"avro": "/dev/zero"}, "avro", "/dev/zero is no file"),
    ({"samples": "t", "t": "\n \n"}, "samples", "t is empty; give a file with one JSON document in each line"),
    ({"samples": "t", "t": ""}, "samples", "t is empty"),
    ({"samples": "t", "t": '{"a": 1}\n{"a": }\n'}, "samples", "t:2 is no JSON: Expecting value (column 7); each line"),
    ({"samples": "t", "t": "[\n1\n]"}, "samples", "t:1 is no JSON"),
    ({"samples": "t", "t": '{"a": NaN}'}, "samples", "t:1 is no JSON: NaN is no JSON number"),
    ({"samples": "t", "t": "[" * 100_000}, "samples", "t:1 is no JSON"),
    ({"samples": "t", "t": b'{"a": 1}\n{"a": "\xff"}'}, "samples", "t:2 is no UTF-8"),
    ({"samples": "t", "t": '{"a": 1}\n{"b": 2}', "id": "$.a"}, "id", "t:2 has no $.a ('a' is missing)"),
    ({"samples": "t", "t": '{"a": 1}\n17', "id": "$.a"}, "id", "t:2 has no $.a"),
    ({"samples": "t", "t": '{"a": 1}\n{"a": null}', "id": "$.a"}, "id", "$.a in "),
    ({"samples": "t", "t": '{"a": true}', "id": "$.a"}, "id", "is true, and no text or whole number"),
    ({"samples": "t", "t": '{"a": 1.5}', "id": "$.a"}, "id", "is 1.5, and no text or whole number"),
    ({"samples": "t", "t": '{"a": {}}', "id": "$.a"}, "id", "is {}, and no text or whole number"),
    ({"samples": "t", "t": '{"a": 1}\n{"a": "1"}', "id": "$.a"}, "id", "t:2 is a text, and a number in other payloads"),
    ({"samples": "t", "t": '{"a": 1}', "key": "$.k"}, "key", "t:1 has no $.k"),
    ({"samples": "t", "t": '{"a": 1, "k": null}', "key": "$.k"}, "key", "$.k in "),
    ({"samples": "t", "t": '{"k": "\\ud800"}', "key": "$.k"}, "key", "is half a character"),
    ({"samples": "t", "t": '{"n": 1}', "sizes": {"field": "$.n", "fixed": 9}}, "sizes.field", "$.n is no text in "),
    ({"json_schema": "none.json"}, "json_schema", "none.json cannot be read: No such file"),
    ({"json_schema": "t", "t": "{\n,"}, "json_schema", "t:2 is no JSON"),
    ({"json_schema": "t", "t": '{"type": "strange"}'}, "json_schema", "t is no JSON Schema: $.type: 'strange'"),
    ({"json_schema": "t", "t": '{"type": "string", "pattern": "^[0-9]$"}'}, "json_schema", "give `examples` there"),
    ({"json_schema": "t", "t": '{"$ref": "#/$defs/none"}'}, "json_schema", "t: no payload can be made"),
    ({"json_schema": "t", "t": '{"$ref": "#"}'}, "json_schema", "t: no payload can be made"),
    ({"json_schema": "t", "t": '{"$ref": "other.json"}'}, "json_schema", "is in another document"),
    (
        {"json_schema": "t", "t": '{"properties": {"a": {"type": "string", "maxLength": 9}}}', "id": "$.a"},
        "id",
        "t does not take an id such as '00000000-",
    ),
    ({"avro": "t", "t": "{"}, "avro", "t:1 is no JSON"),
    ({"avro": "t", "t": '{"type": "record"}'}, "avro", "t is no Avro schema"),
    ({"avro": "t", "t": '"strange"'}, "avro", "t is no Avro schema"),
    (
        {"avro": "t", "t": '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "int"}]}', "id": "$.a"},
        "id",
        "t does not take an id such as 9007199254740991",
    ),
    ({"protobuf": "none.proto"}, "protobuf", "none.proto"),
    ({"protobuf": "t", "t": 'syntax = "proto3";\nmessage A {'}, "protobuf", "t cannot be compiled: "),
    ({"protobuf": "t", "t": "{}"}, "protobuf", "/t:1:1: "),
    ({"protobuf": "t", "t": 'syntax = "proto3";'}, "protobuf", "t has no message"),
    (
        {"protobuf": "t", "t": 'syntax = "proto3"; message A {}', "message": "B"},
        "message",
        "t has no message 'B' (there are A)",
    ),
    (
        {"protobuf": "t", "t": 'syntax = "proto3"; message A { int32 a = 1; }', "id": "$.a"},
        "id",
        "t does not take an id such as 9007199254740991",
    ),
    ({"template": "AS1 {id}"}, "template", "begins with AS1"),
]


@pytest.mark.parametrize(("fields", "key", "text"), BAD, ids=[text for *_, text in BAD])
def test_what_cannot_be_sent_is_refused_with_its_key_and_place(tmp_path, fields, key, text):
    content = fields.pop("t", None) if isinstance(fields, dict) else None
    if content is not None:
        (tmp_path / "t").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueProblem) as refused:
        payloads(tmp_path, **fields)
    assert refused.value.key == key
    assert text in refused.value.text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "found none"),
        ({"samples": "a", "template": "b"}, "found samples, template"),
        ({"avro": "a", "protobuf": "b"}, "found avro, protobuf"),
        ({"samples": "a", "message": "M"}, "give protobuf too"),
        ({"samples": "a", "mark": "none"}, "none needs an id"),
        ({"template": "{id}", "id": "$.a"}, "in a template, the id is where {id} is"),
        ({"template": "{id} {id:number}"}, "two ids of one record"),
        ({"template": "{sqe}"}, "{sqe} is no placeholder (did you mean {seq}?)"),
        ({"template": "{random: 9..1}"}, "the first number is the smallest"),
        ({"template": "{random: red}"}, "give a range such as 1..100"),
        ({"template": "x{id}", "mark": "none"}, "may touch {id}"),
        ({"template": "{id}{seq}", "mark": "none"}, "may touch {id}"),
        ({"template": "{filler}"}, "goes with {filler}"),
        ({"template": "a", "sizes": {"fixed": 9}}, "goes with {filler}"),
        ({"template": "a", "key": "$.a"}, "a template has no places"),
        ({"samples": "a", "sizes": {"fixed": 9}}, "name the field"),
        ({"samples": "a", "sizes": {"field": "$.n"}}, "exactly one of fixed"),
        ({"samples": "a", "sizes": {"field": "$.n", "uniform": [9, 1]}}, "the first size is the smallest"),
        ({"samples": "a", "id": "$.a", "sizes": {"field": "$.a", "fixed": 9}}, "is the filler"),
        ({"samples": "a", "key": "{now}"}, "another key"),
        ({"samples": "a", "headers": {"aftershock": "x"}}, "Aftershock sets this header itself"),
        ({"samples": "a", "headers": {"x": "{id}"}}, "there is no id"),
        ({"samples": "a", "id": "order_id"}, "is no JSONPath|does not name one place"),
    ],
)
def test_contradictions_are_refused(fields, text):
    with pytest.raises(ValueError) as refused:
        Value.model_validate(fields)
    assert any(part in str(refused.value) for part in text.split("|"))
