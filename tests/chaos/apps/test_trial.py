"""The scenario of `test`: the id that samples propose."""

import json
from pathlib import Path

import pytest

import chaos
from chaos.apps.trial import propose_id
from chaos.errors import UsageError


@pytest.mark.parametrize(
    ("rows", "path"),
    [
        ([{"order_id": "a", "total": 1}, {"order_id": "b", "total": 1}], "$.order_id"),
        ([{"total": 1, "note": "x", "orderId": 7}, {"total": 2, "note": "y", "orderId": 8}], "$.orderId"),
        ([{"customer_id": 1, "event": {"id": "p"}}, {"customer_id": 1, "event": {"id": "q"}}], "$.event.id"),
        ([{"paid": True, "amount": 1.5, "text": "m"}], "$.text"),
        ([{"a": 1, "uuid": "u"}, {"a": 2}], "$.a"),
    ],
)
def test_the_id_is_the_field_that_differs_in_each_sample_and_looks_like_one(tmp_path, rows, path):
    samples = tmp_path / "s.jsonl"
    samples.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    assert propose_id(samples) == path


def test_the_id_of_the_shipped_samples():
    assert propose_id(Path(chaos.__file__).parent / "examples" / "orders.jsonl") == "$.order_id"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}\n{"a": 1}\n', "no field of .* has another value in each line; name .* with --id"),
        ("[1, 2]\n", "no field of"),
        ("", "no field of"),
        ("{a}\n", "has a line that is no JSON"),
        ("\xff", None),
    ],
)
def test_samples_without_an_id_are_one_line(tmp_path, text, message):
    samples = tmp_path / "s.jsonl"
    samples.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=message or "cannot be read"):
        propose_id(samples)


def test_samples_that_do_not_exist_are_one_line(tmp_path):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        propose_id(tmp_path / "none.jsonl")
