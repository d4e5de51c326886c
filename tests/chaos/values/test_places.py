"""A place in a JSON text: the span of its value, whatever the text around it looks like."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.values.places import parse_path, span, value_at

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
DOCUMENTS = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner))


def places(document, at=()):
    yield at
    if isinstance(document, dict | list):
        for step, value in document.items() if isinstance(document, dict) else enumerate(document):
            yield from places(value, (*at, step))


@given(DOCUMENTS, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_the_span_of_each_place_is_its_value(document, indent, ascii_only):
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    for steps in places(document):
        start, end = span(text, steps)
        assert json.loads(text[start:end]) == value_at(document, steps)


def test_of_a_repeated_key_the_last_one_counts_as_for_readers():
    text = '{"id": 1, "other": {"id": 2}, "id": "three"}'
    start, end = span(text, ("id",))
    assert text[start:end] == '"three"'


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$.order_id", ("order_id",)),
        ("$.order.id", ("order", "id")),
        ("$.items[0].id", ("items", 0, "id")),
        ("$['order id']", ("order id",)),
        ("$[1]", (1,)),
    ],
)
def test_a_path_of_one_place(path, steps):
    assert parse_path(path) == steps


@pytest.mark.parametrize(
    "path", ["$", "order_id", "$..id", "$.*", "$.items[*].id", "$.a,b", "$.a[0:2]", "$.", "", "$.a["]
)
def test_a_path_of_no_or_several_places_is_refused_with_an_example(path):
    with pytest.raises(ValueError, match=r"write one such as \$\.order_id"):
        parse_path(path)


@pytest.mark.parametrize("steps", [("b",), ("a", "b"), ("a", 0), (0,), ("c", 2), ("c", "x")])
def test_a_place_that_is_not_there(steps):
    with pytest.raises(LookupError):
        value_at({"a": 1, "c": [1, 2]}, steps)
