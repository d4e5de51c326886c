"""Ids, values and times in records, whatever their form."""

import datetime
import json
import uuid
from decimal import Decimal

import pytest

from chaos.effects.payload import Extractor, Record, Unreadable, canonical, decoder
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


def found(made, raw, key=None, headers=None):
    return Extractor(made)(Record(decoder(made.format)(raw), key, headers))


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
    with pytest.raises(Unreadable) as e:
        found(effect(), raw)
    assert str(e.value) == why


def test_text_is_read_by_groups():
    made = effect(format=TextFormat(text=r"invoice (?P<order>\S+) over (?P<sum>\S+)"), id="order")
    assert found(made, b"invoice a7 over 3.50").id == "a7"
    with pytest.raises(Unreadable, match="it does not match"):
        found(made, b"no invoice")


def test_avro_is_read_with_and_without_the_wire_format_of_a_registry(tmp_path):
    fields = [{"name": "id", "type": "string"}]
    (tmp_path / "i.avsc").write_text(json.dumps({"type": "record", "name": "I", "fields": fields}))
    raw = b"\x04a7"
    plain, framed = (
        effect(format=Avro(avro=str(tmp_path / "i.avsc"), registry=registry), id="$.id") for registry in (False, True)
    )
    assert found(plain, raw).id == "a7"
    assert found(framed, b"\0\0\0\0\x05" + raw).id == "a7"
    with pytest.raises(Unreadable, match="wire format"):
        found(framed, raw)


@pytest.mark.parametrize("form", ["json", {"text": "id=(?P<id>.*)"}])
def test_where_no_payloads_are_kept_the_reason_has_no_part_of_one(form):
    with pytest.raises(Unreadable) as e:
        decoder(effect(format=form, id="$.id" if form == "json" else "id").format)(b"{secret-word")
    assert "secret-word" in str(e.value)
    brief = e.value.reason(hidden=True)
    assert "secret-word" not in brief and brief
