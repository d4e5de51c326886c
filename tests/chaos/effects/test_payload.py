"""Ids, values and times in records, whatever their form."""

import datetime
import json
import uuid
from decimal import Decimal

import pytest

from chaos.effects.payload import Extractor, Record, canonical, decoder
from chaos.setup.effects import Avro, Effect, TextFormat
from chaos.values.arrivals import moment_us

HOUR_US = 3600 * 1_000_000
NOON = 1_753_790_400 * 1_000_000  # 2025-07-29 12:00 UTC


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([7, 7.0, "7", " 7 ", Decimal("7.00"), b"7", "7.0"], "7"),
        ([12.5, "12.50", Decimal("12.500")], "12.5"),
        (["007"], "007"),
        ([5998677743108099, 5998677743108099.0, "5998677743108099"], "5998677743108099"),
        ([uuid.UUID(int=1)], "00000000-0000-0000-0000-000000000001"),
        ([True], "true"),
        ([None, [], {"a": 1}, "", "  ", float("nan")], None),
        ([1e3, "1000"], "1000"),
        ([-0.0, 0], "0"),
    ],
)
def test_one_value_has_one_text(values, text):
    assert {canonical(value) for value in values} == {text}


@pytest.mark.parametrize(
    ("value", "zone", "us"),
    [
        ("2025-07-29T12:00:00Z", "Europe/Berlin", NOON),
        ("2025-07-29T14:00:00+02:00", "UTC", NOON),
        ("2025-07-29 14:00:00", "Europe/Berlin", NOON),
        (datetime.datetime(2025, 7, 29, 14), "Europe/Berlin", NOON),
        (datetime.datetime(2025, 7, 29, 12), "UTC", NOON),
        (NOON // 1_000_000, "UTC", NOON),
        (NOON // 1000, "UTC", NOON),
        (str(NOON // 1000), "UTC", NOON),
        (NOON, "UTC", NOON),
        (NOON * 1000, "UTC", NOON),
        ("yesterday", "UTC", None),
        (None, "UTC", None),
    ],
)
def test_times_of_any_form_and_zone(value, zone, us):
    assert moment_us(value, zone) == us


def effect(**more):
    return Effect(name="invoices", **{"topic": "invoices", "id": "$.order.id"} | more)


def all_found(made, raw, key=None, headers=None, hidden=False):
    return Extractor(made, hidden)(lambda: Record(decoder(made.format)(raw), key, headers))


def found(made, raw, key=None, headers=None):
    (one,) = all_found(made, raw, key, headers)
    return one


def test_an_id_is_in_the_value_the_key_or_a_header():
    raw = b'{"order": {"id": 7}, "lines": [{"amount": 0.1}]}'
    assert found(effect(equals="$.lines[0].amount"), raw).value == "0.1"
    assert found(effect(), raw).id == "7"
    assert found(effect(id="key"), raw, key=b"a7").id == "a7"
    assert found(effect(id="header:order"), raw, headers=[("x", b"1"), ("order", b"a8")]).id == "a8"
    assert found(effect(id="key"), None, key=b"a7").id == "a7", "a tombstone has a key"


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"order": {}}', "nothing is at $.order.id"),
        (b'{"for": 1, "who": 2}', "nothing is at $.order.id (there are for, who)"),
        (b"{}", "nothing is at $.order.id (there are no fields)"),
        (b'{"order": {"id": null}}', "nothing is at $.order.id"),
        (b'{"order": {"id": [1]}}', "$.order.id is no single value"),
        (b"{", "it is no JSON ('{')"),
        (b"[1]", "nothing is at $.order.id"),
        (b"1", "its value has no fields"),
        (None, "it has no value"),
    ],
)
def test_a_record_without_an_id_says_what_is_missing(raw, why):
    one = found(effect(), raw)
    assert (one.id, one.problem) == (None, why)


def test_each_item_of_a_list_is_an_effect_with_its_value_and_time():
    made = effect(id="$.orders[*].id", equals="$.amount", at="$.at")
    raw = b'{"at": 1753790400, "orders": [{"id": 7, "amount": 0.10}, {"amount": 2}, {"id": "a8", "amount": 3}]}'
    assert [(one.id, one.value, one.at_us, one.item, one.problem) for one in all_found(made, raw)] == [
        ("7", "0.1", NOON, " [0]", ""),
        (None, None, None, " [1]", "nothing is at $.orders[*].id"),
        ("a8", "3", NOON, " [2]", ""),
    ]
    assert [one.id for one in all_found(effect(id="$[*]"), b"[7, 8]")] == ["7", "8"]
    elsewhere = effect(id="$[*].order.id", equals="$.amount", value="$[*].sums[0]")
    assert found(elsewhere, b'[{"order": {"id": 7}, "sums": [5, 6]}]').value == "5"


def test_a_list_without_items_has_no_effect_and_what_is_no_list_is_named():
    made = effect(id="$.orders[*].id")
    assert all_found(made, b'{"orders": []}') == []
    assert found(made, b'{"orders": {"id": 7}}').problem == "nothing is at $.orders[*].id"
    assert found(made, b'{"order": []}').problem == "nothing is at $.orders[*].id (there are order)"
    assert found(made, b"{").problem == "it is no JSON ('{')"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"id": "$.a[*].b[*].id"}, "does not name one place"),
        ({"id": "$.a[*].id", "value": "$.b[*].sum", "equals": "$.sum"}, "value: $.b[*].sum is in each item of another"),
        ({"id": "$.id", "at": "$.a[*].at"}, "at: $.a[*].at is in each item of another list than the id ($.id)"),
        ({"id": "$.a[*].id", "equals": "record"}, "names several inputs"),
        ({"id": "$.a[*].id", "aggregate": "sum($.amount)"}, "names several inputs"),
        ({"id": "$.id", "aggregate": "sum($.amount)", "by": "$.a[*]"}, "is no place in an input"),
        ({"id": "$.orders[*]", "topic": None, "sql": "sqlite:///x", "query": "select 1"}, "(did you mean orders?)"),
        ({"id": "$[*]", "topic": None, "sql": "sqlite:///x", "query": "select 1"}, "(did you mean id?)"),
    ],
)
def test_a_list_goes_where_each_item_is_one_effect(fields, why):
    with pytest.raises(ValueError) as e:
        effect(**fields)
    assert why in str(e.value)


def test_text_is_read_by_groups():
    made = effect(format=TextFormat(text=r"invoice (?P<order>\S+) over (?P<sum>\S+)"), id="order")
    assert found(made, b"invoice a7 over 3.50").id == "a7"
    assert "it does not match" in found(made, b"no invoice").problem


def test_avro_is_read_with_and_without_the_wire_format_of_a_registry(tmp_path):
    fields = [{"name": "id", "type": "string"}]
    (tmp_path / "i.avsc").write_text(json.dumps({"type": "record", "name": "I", "fields": fields}))
    raw = b"\x04a7"
    plain, framed = (
        effect(format=Avro(avro=str(tmp_path / "i.avsc"), registry=registry), id="$.id") for registry in (False, True)
    )
    assert found(plain, raw).id == "a7"
    assert found(framed, b"\0\0\0\0\x05" + raw).id == "a7"
    assert "wire format" in found(framed, raw).problem


@pytest.mark.parametrize("form", ["json", {"text": "id=(?P<id>.*)"}])
def test_where_no_payloads_are_kept_the_reason_has_no_part_of_one(form):
    made = effect(format=form, id="$.id" if form == "json" else "id")
    assert "secret-word" in found(made, b"{secret-word").problem
    (one,) = all_found(made, b"{secret-word", hidden=True)
    assert "secret-word" not in one.problem and one.problem
